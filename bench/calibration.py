#!/usr/bin/python3
"""Whether thresholds keep what they promise: false alarms on good images that were never learned.

bench/calibration.py CONTCORE DATASET... [--options "--backbone x.onnx"] [--capacity M] [--online N] [--others N]

DATASET are folders of products (train/good, test/good, test/DEFECT). Of each product's train images a fourth is
kept out of everything. Printed: false alarms on that fourth and on test/good at 5 % asked, detected
defects; alone, and after all products were learned into one memory. --online learns one at a time, N images (0: all).
--others learns N more tasks behind them, of 20 images each out of the products' test folders, so that shares are small.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile


def images(folder):
    return sorted(p for p in folder.rglob("*") if p.suffix.lower() in (".png", ".jpg", ".jpeg", ".bmp"))


def run(command, *words):
    done = subprocess.run([command, *map(str, words)], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{words}: {done.stderr}")
    return done.stdout


def rejected(command, memory, task, files, scratch):
    """How many of the files are rejected."""
    if not files:
        return 0, 0
    folder = pathlib.Path(tempfile.mkdtemp(dir=scratch))
    for i, file in enumerate(files):
        (folder / f"{i:05}{file.suffix}").symlink_to(file)
    lines = run(command, "inspect", memory, folder, "--json", *(["--task", task] if task else [])).splitlines()
    seen = [json.loads(line) for line in lines]
    return sum(one["verdict"] == "defect" for one in seen), len(seen)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("products", nargs="+", type=pathlib.Path)
    parser.add_argument("--options", default="", help="of learn, for a new memory")
    parser.add_argument("--capacity", nargs="*", type=int, default=[20000])
    parser.add_argument("--online", type=int)
    parser.add_argument("--others", type=int, default=0)
    parser.add_argument("--alone", action="store_true", help="only one product at a time")
    parser.add_argument("--together", action="store_true", help="only all products in one memory")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for capacity in asked.capacity:
            for together in [False] * (not asked.together) + [True] * (not asked.alone):
                measure(asked, capacity, together, scratch)


def measure(asked, capacity, together, scratch):
    memories = {}
    for product in asked.products:
        train = images(product / "train/good")
        learned = [file for i, file in enumerate(train) if i % 4 != 3]
        if asked.online:
            learned = learned[: asked.online]
        memory = pathlib.Path(scratch) / f"{'all' if together else product.name}-{capacity}.ccm"
        online = ["--online"] if asked.online is not None else []
        new = [] if memory.exists() else [*asked.options.split(), "--capacity", capacity]
        said = run(asked.command, "learn", memory, *learned, "--task", product.name, "--json", *online, *new)
        memories[product] = memory, json.loads(said)
    if together:
        pool = [file for product in asked.products for file in images(product / "test")]
        for i in range(asked.others):
            some = [pool[(i * 7919 + k * 104729) % len(pool)] for k in range(20)]
            run(asked.command, "learn", memory, *some, "--task", f"other{i}")
    total = [0, 0]
    for product in asked.products:
        memory, report = memories[product]
        kept = [file for i, file in enumerate(images(product / "train/good")) if i % 4 == 3]
        test = images(product / "test")
        alarms, n = rejected(asked.command, memory, product.name, kept, scratch)
        good = rejected(asked.command, memory, product.name, [f for f in test if f.parent.name == "good"], scratch)
        bad = rejected(asked.command, memory, product.name, [f for f in test if f.parent.name != "good"], scratch)
        total[0] += alarms
        total[1] += n
        print(f"{'all' if together else 'one':4} m {capacity:6} {product.name:16} kept out {alarms:3}/{n:<3} {100 * alarms / n:5.1f} %"
              f"   test good {good[0]:3}/{good[1]:<3}   detected {bad[0]:3}/{bad[1]:<3}"
              f"   extract {report['extract_seconds']:.1f} s, sample {report['sample_seconds']:.1f} s", flush=True)
    print(f"     false alarms {100 * total[0] / total[1]:.1f} %", flush=True)


main()
