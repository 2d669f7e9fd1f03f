"""Methods written in Python: what they are given, what they answer, and how they are measured."""

import importlib.util
import os
import pickle

import contcore
import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from scipy.spatial.distance import mahalanobis
from sklearn.metrics import average_precision_score, roc_auc_score
from test_detector import plate

HOW = {"backbone": "builtin", "resize": 64, "crop": "none", "m": 300}
SEEN = {"backbone": "builtin", "resize": 64, "crop": "none", "precision": "float", "dimension": 1024}
"""What an extractor sees that does as `evaluate` does by default."""


def example(name):
    path = os.path.join(os.environ["CONTCORE_EXAMPLES"], f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def products(tmp_path_factory):
    """Two products; the second is the first's negative, and its scratches are dark."""
    root = tmp_path_factory.mktemp("products")
    for name in ("a", "b"):
        for part, scratch, count in (("train/good", 0, 20), ("test/good", 0, 8), ("test/scratch", 1, 8)):
            folder = root / name / part
            folder.mkdir(parents=True)
            for i in range(count):
                image = plate(1000 * scratch + i + len(part), scratch=bool(scratch))
                contcore.write_image(folder / f"{i:02}.png", image if name == "a" else 255 - image)
        masks = root / name / "ground_truth" / "scratch"
        masks.mkdir(parents=True)
        mask = np.zeros((64, 64), np.uint8)
        mask[28:36, 24:40] = 255
        for i in range(8):
            contcore.write_image(masks / f"{i:02}_mask.png", mask)
    return root


class Mean:
    name = "distance to the mean"
    vectors = 1

    def __init__(self):
        self.seen, self.kept = [], []

    def learn(self, task, images):
        self.seen.append((task, images.products, len(images)))
        self.kept.append(images[0].features)  # for later
        self.mean = images.features.astype(float).mean(axis=(0, 1, 2))

    def score(self, images):
        maps = np.linalg.norm(images.features - self.mean, axis=3)
        return maps.max(axis=(1, 2)), maps


def test_a_method_is_given_and_measured_as_the_others(products, tmp_path):
    mine, told = Mean(), []
    results = contcore.evaluate(
        products, methods=["contcore", mine], cache=tmp_path / "cache", progress=told.append,
        report=tmp_path / "report", **HOW,
    )  # fmt: skip
    assert mine.seen == [(0, ["a"], 20), (1, ["b"], 20)]
    assert told == sorted(told) and told[-1] == 1
    assert [run.method for run in results] == ["contcore", "distance to the mean"]
    assert results[1].vectors == 1
    # What it is given is what anyone can extract, and stays.
    extractor = contcore.Extractor(**SEEN)
    expected = extractor.extract(products / "a" / "train" / "good" / "00.png").map
    np.testing.assert_array_equal(mine.kept[0], expected)
    with pytest.raises(ValueError, match="read-only"):
        mine.kept[0][0, 0, 0] = 1
    # Its AUROC is scikit-learn's of the scores it gave.
    files = sorted((products / "b" / "test").rglob("*.png"))
    scores = [np.linalg.norm(extractor.extract(f).map - mine.mean, axis=2).max() for f in files]
    labels = [f.parent.name != "good" for f in files]
    after = results[1].steps[1][1]
    assert after["image_auroc"] == pytest.approx(roc_auc_score(labels, np.float32(scores)))
    assert after["image_ap"] == pytest.approx(average_precision_score(labels, np.float32(scores)))
    frame = results.to_pandas()
    assert frame.method.tolist() == ["contcore", mine.name] and len(results.to_pandas(steps=True)) == 6
    page = (tmp_path / "report" / "index.html").read_text()
    assert mine.name in page and "contcore" in page
    assert "distance to the mean" in repr(results) and "<table>" in results._repr_html_()
    again = pickle.loads(pickle.dumps(results[1]))
    assert again.average == results[1].average


def test_one_product_by_name_and_by_object(products):
    data = contcore.open_dataset(products)
    assert [product.name for product in data.products] == ["a", "b"] and data.products[0].masks
    one = contcore.evaluate(data, classes=["b"], methods="contcore", cache=False, **HOW)
    assert one[0].tasks == [["b"]] and one[0].average["image_auroc"] == 1.0
    made = contcore.evaluate(data, methods=Mean, orders=["b,a", "a,b"], cache=False, **HOW)
    assert [run.tasks for run in made] == [[["b"], ["a"]], [["a"], ["b"]]]


def test_every_run_begins_with_what_was_given(products):
    mine = Mean()
    contcore.evaluate(products, methods=[mine], seeds=2, orders=["b,a", "a,b"], cache=False, **HOW)
    assert len(mine.seen) == 2  # the first run's; the others had copies
    made = []
    contcore.evaluate(products, methods=lambda: made.append(Mean()) or made[-1], seeds=2, cache=False, **HOW)
    assert [len(one.seen) for one in made] == [2, 2]


def test_no_maps_no_pixel_measures(products):
    class Scores(Mean):
        def score(self, images):
            return list(range(len(images)))

    found = contcore.evaluate(products, methods=Scores(), cache=False, **HOW)[0].average
    assert found["pixel_auroc"] is None and found["image_auroc"] is not None


@pytest.mark.parametrize(
    "answer, error, says",
    [
        (lambda n: [0.0] * (n + 1), contcore.UsageError, "one for each"),
        (lambda n: [float("nan")] * n, contcore.UsageError, "NaN"),
        (lambda n: ([0.0] * n, [np.zeros((3, 3))] * n), contcore.UsageError, "map is 3 x 3"),
        (lambda n: ([0.0] * n, [np.full((8, 8), np.inf)] * n), contcore.UsageError, "infinite"),
        (lambda n: ([0.0] * n, []), contcore.UsageError, "maps"),
        (lambda n: "text", contcore.UsageError, "distance to the mean: .*text"),
        (lambda n: [[0.0] * n, [np.zeros((8, 8))] * n], contcore.UsageError, "tuple"),
        (lambda n: [1e300] * n, contcore.InputError, "distance to the mean: scores: .*too large"),
        (lambda n: 1 / 0, ZeroDivisionError, "division"),
    ],
)
def test_answers_that_cannot_be_used(products, answer, error, says):
    class Wrong(Mean):
        def score(self, images):
            return answer(len(images))

    with pytest.raises(error, match=says):
        contcore.evaluate(products, methods=Wrong(), cache=False, **HOW)


def test_what_is_no_method_is_refused(products):
    class Named(Mean):
        name = "contcore"

    nothing = lambda: None
    for wrong, error in [("no such", contcore.UsageError), (7, TypeError), (Named(), contcore.UsageError), (nothing, TypeError)]:
        with pytest.raises(error):
            contcore.evaluate(products, methods=[wrong], cache=False, **HOW)
    with pytest.raises(contcore.Error):
        contcore.evaluate(products / "a" / "test", cache=False, **HOW)
    for how, error in [
        ({"methods": []}, contcore.UsageError),
        ({"orders": []}, contcore.UsageError),
        ({"methods": None}, TypeError),
        ({"p": "x"}, TypeError),
        ({"schedule": 5}, TypeError),
        ({"layers": [1]}, TypeError),
    ]:
        with pytest.raises(error, match=next(iter(how)).rstrip("s")):
            contcore.evaluate(products, **how, cache=False, **HOW)


def test_what_a_method_says_of_itself(products):
    for says in ({"vectors": -1}, {"numbers": 10**30}):
        method = type("Much", (Mean,), says)
        with pytest.raises(contcore.UsageError, match=f"distance to the mean: {next(iter(says))}"):
            contcore.evaluate(products, methods=method, classes="a", cache=False, **HOW)


def plain_padim(products, name, dimensions=100):
    """PaDiM again, from the paper of that name, in NumPy and SciPy, place by place."""
    extractor = contcore.Extractor(**SEEN)
    features = lambda files: np.stack([extractor.extract(f).map for f in sorted(files)]).astype(float)
    train = features((products / name / "train" / "good").glob("*.png"))
    files = sorted((products / name / "test").rglob("*.png"))
    test = features(files)
    chosen = np.random.default_rng(0).permutation(train.shape[3])[:dimensions]
    train, test = train[..., chosen], test[..., chosen]
    inverse, scale = {}, 0.0
    _, height, width, d = train.shape
    covariances = {
        (r, c): np.cov(train[:, r, c], rowvar=False) for r in range(height) for c in range(width)
    }
    scale = np.mean([np.trace(covariance) for covariance in covariances.values()]) / d
    inverse = {at: np.linalg.inv(found + 0.01 * scale * np.eye(d)) for at, found in covariances.items()}
    scores = []
    for image in test:
        grid = np.array(
            [
                [mahalanobis(image[r, c], train[:, r, c].mean(axis=0), inverse[r, c]) for c in range(width)]
                for r in range(height)
            ]
        )
        big = np.kron(grid, np.ones((64 // height, 64 // width)))
        scores.append(gaussian_filter(big, sigma=4 * 64 / 224).max())
    return roc_auc_score([f.parent.name != "good" for f in files], scores)


def test_padim_is_padim(products):
    padim = example("padim").PaDiM()
    found = contcore.evaluate(products, classes="a", methods=padim, cache=False, **HOW)
    assert found[0].average["image_auroc"] == pytest.approx(plain_padim(products, "a"), abs=0.01)


def test_training_forgets(products):
    network = example("forgetting").Autoencoder
    runs = contcore.evaluate(
        products, methods=["contcore", network(steps=60), network("EWC", ewc=10.0, steps=60)],
        dimension=64, cache=False, **HOW,
    )  # fmt: skip
    assert [run.method for run in runs] == ["contcore", "fine-tuning", "EWC"]
    assert runs[2].numbers > 2 * runs[1].numbers > 0
    assert all(run.forgetting["image_auroc"] is not None for run in runs)


def test_measures():
    rng = np.random.default_rng(0)
    good, defect = rng.normal(size=300).round(1), rng.normal(1, size=100).round(1)
    labels, scores = np.r_[np.zeros(300), np.ones(100)], np.r_[good, defect]
    found = contcore.rank(good, defect)
    assert found.auroc == pytest.approx(roc_auc_score(labels, scores))
    assert found.ap == pytest.approx(average_precision_score(labels, scores))
    assert contcore.rank([], [1.0]).auroc is None
    # Told apart as they are in double, or as whole numbers.
    assert contcore.rank(1 - np.array([1e-9, 1e-10]), 1 - np.array([1e-11, 1e-12])).auroc == 1
    assert contcore.rank([1e-50, 1e300], [1e-46, 2e300]).auroc == 0.75
    assert contcore.rank(np.array([2**60]), np.array([2**60 + 1])).auroc == 1
    small = rng.normal(size=400) * 1e-9 + 1
    assert contcore.rank(small[:300], small[300:]).auroc == pytest.approx(roc_auc_score(labels, small))
    with pytest.raises(contcore.Error):
        contcore.rank([float("nan")], [1.0])
    pixels = contcore.PixelScores()
    with pytest.raises(contcore.UsageError):
        pixels.add(np.zeros((3, 3)), np.zeros((2, 3)))
    with pytest.raises(contcore.Error):
        contcore.parse_schedule("7x9", [15])
    assert len(contcore.parse_schedule("10-1x5", [15])) == 6
    assert sorted(contcore.class_order("shuffle:3", list("abcd"))) == [0, 1, 2, 3]
