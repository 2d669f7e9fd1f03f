"""A tour of contcore in Python, from top to bottom. Every cell (# %%) can be run in a notebook.

    python3 tour.py [FOLDER]      FOLDER keeps what it makes
"""

# %% Products to look at: a plate and a ring, never quite in the same place or light.
import pathlib
import sys
import tempfile
from typing import Any, List

import contcore
import numpy as np

place = tempfile.TemporaryDirectory() if len(sys.argv) < 2 else None
folder = pathlib.Path(place.name if place is not None else sys.argv[1])
random = np.random.default_rng(0)


def draw(product: str, scratch: bool = False) -> Any:
    y, x = np.mgrid[:96, :96] - 48 - random.uniform(-3, 3, (2, 1, 1))
    radius = np.hypot(x, y)
    shade = np.where((radius < 40) & ((product == "plate") | (radius > 24)), 170, 60).astype(float)
    shade += random.uniform(-8, 8) + random.normal(0, 4, shade.shape)
    if scratch:
        at = int(random.integers(30, 60))
        shade[at : at + 5, 40:58] = 250
    return np.repeat(shade.clip(0, 255).astype(np.uint8)[:, :, None], 3, axis=2)


# %% Learn one product after the other, and inspect.
detector = contcore.Detector(backbone="builtin", resize=96, crop="none", memory="512K")
for product in ("plate", "ring"):
    report = detector.learn([draw(product) for _ in range(40)], product, p=0.1)
    print(product, "learned from", report.learned, "images,", report.patches, "patches")
for product in ("plate", "ring"):
    for scratch in (False, True):
        seen = detector.inspect(draw(product, scratch))
        print(product, "scratched:" if scratch else "good:     ", seen)

# %% In a notebook the inspection and the memory show themselves.
seen  # a picture
detector.memory  # a table
print(len(seen._repr_png_() or b""), "bytes of PNG;", detector.memory)

# %% It is one file, the command's.
folder.mkdir(parents=True, exist_ok=True)
detector.save(folder / "tour.ccm")
again = contcore.Detector.open(folder / "tour.ccm")
image = draw("ring", scratch=True)
assert again.inspect(image).score == detector.inspect(image).score

# %% Below it, on any vectors: a coreset that covers them, and exact neighbours.
extractor = contcore.Extractor("builtin", resize=96, crop="none")
patches = np.concatenate([extractor.extract(draw("plate")).vectors for _ in range(20)])
coreset = contcore.greedy_sample(patches, ratio=0.01)
distances, _ = contcore.NearestIndex(patches[coreset.picks]).search(patches)
print(len(coreset.picks), "of", len(patches), "patches; the farthest is at", distances.max())
assert distances.max() == np.float32(coreset.covering_radius)

# %% A memory that keeps learning, and proves what it still covers.
memory = contcore.Memory(dimension=patches.shape[1], capacity=64, dtype=patches.dtype)
memory.learn(patches, "first", p=0.01)
memory.learn(patches[::-1], "second", p=0.01)
assert memory.distances(patches).max() <= memory.certificate

# %% Measure methods, one of your own among them, over a schedule of tasks.
PARTS = (("train/good", False, 30), ("test/good", False, 10), ("test/scratch", True, 10))
for product in ("plate", "ring"):
    for part, scratched, count in PARTS:
        where = folder / "products" / product / part
        where.mkdir(parents=True, exist_ok=True)
        for i in range(count):
            contcore.write_image(where / f"{i:03}.png", draw(product, scratched))


class DistanceToTheMean:
    """A mean for each place and task: the simplest method there is."""

    def __init__(self) -> None:
        self.means: List[Any] = []

    def learn(self, task: int, images: contcore.MethodImages) -> None:
        self.means.append(images.features.mean(axis=0))

    def score(self, images: contcore.MethodImages) -> Any:
        maps = np.min([np.linalg.norm(images.features - mean, axis=3) for mean in self.means], axis=0)
        return maps.max(axis=(1, 2)), maps


results = contcore.evaluate(
    folder / "products",
    methods=["contcore", DistanceToTheMean()],
    backbone="builtin",
    resize=96,
    crop="none",
    m=2000,
    p=0.1,
    cache=False,
    report=folder / "report",
)
print(results)
assert results[0].average["image_auroc"] == 1.0
assert (folder / "report" / "index.html").exists()
