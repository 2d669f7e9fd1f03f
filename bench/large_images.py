#!/usr/bin/python3
"""Scratches of 8 to 40 pixels in images of 24 megapixels, found in tiles and in the whole image resized.

bench/large_images.py CONTCORE FOLDER [BACKBONE]    writes 2.6 GB of images to the folder where it has none yet

Prints what docs/inspecting.md has in its table: scratches that lie in an outlined region, good images that are rejected, the
time of an image, and the peak memory of a run that inspects one.
"""

import json
import os
import subprocess
import sys

import numpy as np

LENGTHS = [8, 8, 12, 16, 24, 40]  # of the three scratches of an image
REACH = 8  # pixels that a region may lie beside a scratch's middle


def metal(rng, width, height):
    """Ground sheet: streaks along it, grain, a slow shade."""
    reach = 61
    grain = np.pad(rng.standard_normal((height, width), dtype=np.float32), ((0, 0), (reach, 0)), mode="wrap")
    sums = np.cumsum(grain, axis=1)
    streaks = (sums[:, reach:] - sums[:, :-reach]) / np.sqrt(reach)
    fine = rng.standard_normal((height, width), dtype=np.float32)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32) / max(width, height)
    a, b, phase = rng.uniform(-1, 1, 3)
    gray = 140 + 9 * streaks + 4 * fine + 10 * np.sin(3 * (a * x + b * y) + 3 * phase)
    return gray[..., None] * np.array([1.0, 0.99, 0.97], np.float32)


def scratch(image, rng, length, x, y):
    angle = rng.uniform(0.3, 2.8)
    reach = length // 2 + 6
    part = (slice(y - reach, y + reach), slice(x - reach, x + reach))
    down, across = np.mgrid[-reach:reach, -reach:reach]
    along = np.abs(across * np.cos(angle) + down * np.sin(angle))
    beside = down * np.cos(angle) - across * np.sin(angle)
    away = np.hypot(np.maximum(along - length / 2, 0), beside)
    cover = np.clip(1.8 - away, 0, 1)[..., None]
    image[part] = image[part] * (1 - cover) + (60 if rng.random() < 0.5 else 225) * cover


def write(path, image):
    height, width = image.shape[:2]
    with open(path, "wb") as file:
        file.write(b"P6\n%d %d\n255\n" % (width, height))
        file.write(np.clip(np.round(image), 0, 255).astype(np.uint8).tobytes())


def make_images(folder):
    for name in ("small", "large", "test"):
        os.makedirs(os.path.join(folder, name))
    rng = np.random.default_rng(1)
    for i in range(20):
        write(f"{folder}/small/{i:02}.ppm", metal(rng, 3000, 2000))
        write(f"{folder}/large/{i:02}.ppm", metal(rng, 6000, 4000))
    for i in range(4):
        write(f"{folder}/test/good{i}.ppm", metal(rng, 6000, 4000))
    places = {}
    for i, length in enumerate(LENGTHS):
        image = metal(rng, 6000, 4000)
        places[f"bad{i}.ppm"] = [(int(rng.integers(60, 5940)), int(rng.integers(60, 3940))) for _ in range(3)]
        for x, y in places[f"bad{i}.ppm"]:
            scratch(image, rng, length, x, y)
        write(f"{folder}/test/bad{i}.ppm", image)
    with open(f"{folder}/places.json", "w") as file:
        json.dump(places, file)


def timed(command):
    """What it says, its seconds, and the most memory it had, in GiB."""
    done = subprocess.run(["/usr/bin/time", "-f", "%e %M", *command], capture_output=True, text=True, check=True)
    seconds, kilobytes = done.stderr.strip().splitlines()[-1].split()
    return done.stdout, float(seconds), int(kilobytes) / (1 << 20)


def lies_in(place, region):
    return all(
        region[begin] - REACH <= at <= region[begin] + region[size] + REACH
        for at, begin, size in zip(place, ("x", "y"), ("width", "height"))
    )


def measure(contcore, folder, backbone, name, images, options):
    memory = f"{folder}/{name}.ccm"
    if os.path.exists(memory):
        os.remove(memory)
    learn = [contcore, "learn", memory, f"{folder}/{images}", "--task", "metal", "--versions", "0", *backbone, *options]
    _, learned, most = timed(learn)
    with open(f"{folder}/places.json") as file:
        places = json.load(file)
    said, _, _ = timed([contcore, "inspect", memory, f"{folder}/test", "--json", "--strangers", "0"])
    found = rejected = 0
    for line in said.splitlines():
        seen = json.loads(line)
        scratches = places.get(os.path.basename(seen["file"]), [])
        found += sum(any(lies_in(place, region) for region in seen["regions"]) for place in scratches)
        rejected += seen["verdict"] != "good" and not scratches
    _, seconds, peak = timed([contcore, "inspect", memory, f"{folder}/test/good0.ppm"])
    print(
        f"{name:6} scratches {found} of {3 * len(LENGTHS)}, good images rejected {rejected} of 4; an image {seconds:.1f} s, "
        f"{peak:.2f} GiB; learned in {learned:.0f} s, {most:.2f} GiB",
        flush=True,
    )


def main():
    contcore, folder, *backbone = sys.argv[1:]
    if not os.path.exists(f"{folder}/places.json"):
        make_images(folder)
    named = ["--backbone", backbone[0]] if backbone else []
    measure(contcore, folder, named, "whole", "large", [])
    measure(contcore, folder, named, "tiles", "small", ["--tile", "384"])


main()
