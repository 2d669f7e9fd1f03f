#!/usr/bin/python3
"""Good parts before foliage that moves, called defects: with a region of interest and without.

bench/regions.py CONTCORE FOLDER [BACKBONE]    writes 250 MB of images to the folder where it has none yet

Prints what docs/inspecting.md has in its table: good images rejected, and defects found, in one wind, one season and one light
as learned, and in others.
"""

import json
import os
import subprocess
import sys

import numpy as np

WIDTH, HEIGHT = 640, 480
MIDDLE = np.array([320.0, 240.0])
RADIUS = 118  # of the part; the region is a little narrower, since parts do not lie quite where others did
GREEN = [(46, 92, 38), (70, 120, 52), (96, 140, 66), (58, 104, 70)]
AUTUMN = [(150, 96, 40), (176, 130, 52), (122, 70, 36), (140, 128, 60)]


def leaves(rng, colours, number, longest):
    """Leaves over leaves, each a lens of one colour with a vein."""
    image = np.empty((HEIGHT, WIDTH, 3), np.float32)
    image[:] = np.array(colours[0], np.float32) * 0.5
    for _ in range(number):
        length = rng.uniform(0.4, 1) * longest
        x, y = rng.uniform(-20, WIDTH + 20), rng.uniform(-20, HEIGHT + 20)
        reach = int(length) + 2
        x0, x1, y0, y1 = max(0, int(x) - reach), min(WIDTH, int(x) + reach), max(0, int(y) - reach), min(HEIGHT, int(y) + reach)
        if x0 >= x1 or y0 >= y1:
            continue
        down, across = np.mgrid[y0:y1, x0:x1].astype(np.float32)
        angle = rng.uniform(0, np.pi)
        along = (across - x) * np.cos(angle) + (down - y) * np.sin(angle)
        beside = (down - y) * np.cos(angle) - (across - x) * np.sin(angle)
        inside = (along / length) ** 2 + (beside / (0.4 * length)) ** 2 < 1
        colour = np.array(colours[rng.integers(len(colours))], np.float32) * rng.uniform(0.6, 1.3)
        shade = 1 - 0.25 * (np.abs(beside) < 1) + 0.1 * np.sign(beside)
        image[y0:y1, x0:x1][inside] = (colour * shade[..., None])[inside]
    return image


def cast(rng, image, defect):
    """A turned disc with six bolts, nearly where it always is; a scratch or a dent where it is defective."""
    x, y = MIDDLE + rng.uniform(-2, 2, 2)
    down, across = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32)
    far = np.hypot(across - x, down - y)
    gray = 150 + 10 * np.sin(far * 1.1) + 0.06 * (across - x) + 3 * rng.standard_normal((HEIGHT, WIDTH)).astype(np.float32)
    gray[far < 34] = 70 + 0.5 * far[far < 34]
    for i in range(6):
        angle = 0.3 + i * np.pi / 3
        bolt = np.hypot(across - x - 76 * np.cos(angle), down - y - 76 * np.sin(angle))
        gray[bolt < 13] = 200 - 5 * bolt[bolt < 13]
    if defect:
        angle, off = rng.uniform(0, 2 * np.pi), rng.uniform(45, 100)
        at_x, at_y = x + off * np.cos(angle), y + off * np.sin(angle)
        if rng.random() < 0.5:
            tilt = rng.uniform(0, np.pi)
            along = (across - at_x) * np.cos(tilt) + (down - at_y) * np.sin(tilt)
            beside = (down - at_y) * np.cos(tilt) - (across - at_x) * np.sin(tilt)
            gray[(np.abs(along) < rng.uniform(8, 16)) & (np.abs(beside) < 1.6)] += 70
        else:
            gray[np.hypot(across - at_x, down - at_y) < rng.uniform(4, 7)] -= 60
    part = far < RADIUS
    image[part] = gray[part][:, None] * np.array([1, 0.99, 0.96], np.float32)


def write(path, image):
    with open(path, "wb") as file:
        file.write(b"P6\n%d %d\n255\n" % (WIDTH, HEIGHT))
        file.write(np.clip(np.round(image), 0, 255).astype(np.uint8).tobytes())


def make_images(folder):
    sets = {  # the same parts before both
        "learned": (80, GREEN, 900, 22, 1, False),
        "same_good": (60, GREEN, 900, 22, 2, False),
        "same_bad": (30, GREEN, 900, 22, 3, True),
        "other_good": (60, AUTUMN, 300, 48, 2, False),
        "other_bad": (30, AUTUMN, 300, 48, 3, True),
    }
    wind = np.random.default_rng(0)
    for name, (count, colours, number, longest, seed, defect) in sets.items():
        os.makedirs(os.path.join(folder, name))
        parts = np.random.default_rng(seed)
        for i in range(count):
            image = leaves(wind, colours, number, longest)
            cast(parts, image, defect)
            write(f"{folder}/{name}/{i:03}.ppm", image)
    circle = [
        [round(MIDDLE[0] + (RADIUS - 6) * np.cos(a), 1), round(MIDDLE[1] + (RADIUS - 6) * np.sin(a), 1)]
        for a in np.linspace(0, 2 * np.pi, 48, endpoint=False)
    ]
    with open(f"{folder}/region.json", "w") as file:
        json.dump({"width": WIDTH, "height": HEIGHT, "polygons": [circle]}, file)


def measure(contcore, folder, backbone, name, options):
    memory = f"{folder}/{name}.ccm"
    if os.path.exists(memory):
        os.remove(memory)
    learn = [contcore, "learn", memory, f"{folder}/learned", "--task", "cast", "--versions", "0", *backbone, *options]
    subprocess.run(learn, capture_output=True, check=True)
    scores = {}
    for scene in ("same", "other"):
        counts = {}
        for kind in ("good", "bad"):
            inspect = [contcore, "inspect", memory, f"{folder}/{scene}_{kind}", "--task", "cast", "--json", "--strangers", "0"]
            lines = subprocess.run(inspect, capture_output=True, text=True, check=True).stdout.splitlines()
            seen = [json.loads(line) for line in lines]
            counts[kind] = sum(one["verdict"] != "good" for one in seen), len(seen)
            scores[scene, kind] = [one["score"] for one in seen]
        print(
            f"{name:7} {scene:5} foliage: good images rejected {counts['good'][0]} of {counts['good'][1]}, defects found "
            f"{counts['bad'][0]} of {counts['bad'][1]}",
            flush=True,
        )
    same = sum(a == b for kind in ("good", "bad") for a, b in zip(scores["same", kind], scores["other", kind]))
    print(f"{name:7} the same score before both: {same} of {sum(map(len, scores.values())) // 2} parts", flush=True)


def main():
    contcore, folder, *backbone = sys.argv[1:]
    if not os.path.exists(f"{folder}/region.json"):
        make_images(folder)
    named = ["--backbone", backbone[0]] if backbone else []
    measure(contcore, folder, named, "whole", [])
    measure(contcore, folder, named, "region", ["--region", f"{folder}/region.json"])


main()
