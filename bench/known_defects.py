#!/usr/bin/python3
"""What ten shown defects bring: detections of the others, and false alarms, beside the same memory without them.

bench/known_defects.py CONTCORE DATASET... [--trials N] [--seed S] [--outline] [--together] [--options "--resize 224"]

DATASET are folders of products (train/good, test/good, test/DEFECT, ground_truth/DEFECT/NAME_mask.png). Ten defects
are chosen by chance N times and shown under their masks (--outline: under what the memory outlines itself, so that
those it misses show nothing); the remaining ones are inspected. Printed of each product, as means over the trials:
false alarms on test/good and detections at 5 % asked, and detections where as many good test images are rejected as
without known defects. --together learns all products into one memory first.
"""

import argparse
import json
import pathlib
import random
import shutil
import statistics
import subprocess
import tempfile

SHOWN = 10


def images(folder):
    return sorted(p for p in folder.rglob("*") if p.suffix.lower() in (".png", ".jpg", ".jpeg", ".bmp"))


def run(command, *words):
    done = subprocess.run([command, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{words}: {done.stderr}")
    return done.stdout


def linked(folder, files):
    """The files in a folder, in folders of their kinds."""
    for file in files:
        place = folder / file.parent.name
        place.mkdir(parents=True, exist_ok=True)
        (place / file.name).symlink_to(file.resolve())
    return folder


def inspected(command, memory, task, files, scratch):
    folder = linked(pathlib.Path(tempfile.mkdtemp(dir=scratch)), files)
    lines = run(command, "inspect", memory, folder, "--task", task, "--json").splitlines()
    seen = {}
    for line in lines:
        one = json.loads(line)
        file = pathlib.Path(one["file"])
        seen[file.parent.name, file.name] = one["score"], one["verdict"] == "defect"
    return [seen[file.parent.name, file.name] for file in files]


def part(rejected):
    return 100 * sum(rejected) / max(1, len(rejected))


def matched(scores_good, scores_bad, alarms):
    """Detections at the threshold that rejects so many of the good ones."""
    threshold = sorted(scores_good, reverse=True)[alarms]
    return part([score > threshold for score in scores_bad])


def measure(asked, product, memory, scratch):
    good = images(product / "test/good")
    bad = [file for file in images(product / "test") if file.parent.name != "good"]
    seen_good = inspected(asked.command, memory, product.name, good, scratch)
    seen_bad = dict(zip(bad, inspected(asked.command, memory, product.name, bad, scratch)))
    alarms = sum(rejected for _, rejected in seen_good)
    rows = []
    for trial in range(asked.trials):
        shown = random.Random(f"{asked.seed} {trial} {product.name}").sample(bad, SHOWN)
        rest = [file for file in bad if file not in shown]
        knowing = pathlib.Path(scratch) / f"{product.name}-{trial}.ccm"
        shutil.copy(memory, knowing)
        folder = linked(pathlib.Path(tempfile.mkdtemp(dir=scratch)), shown)
        masks = [] if asked.outline else ["--masks", product / "ground_truth"]
        said = json.loads(run(asked.command, "learn", knowing, folder, "--task", product.name, "--defects", "--json", *masks))
        now_good = inspected(asked.command, knowing, product.name, good, scratch)
        now_rest = inspected(asked.command, knowing, product.name, rest, scratch)
        before = [seen_bad[file] for file in rest]
        rows.append({
            "shown": said["known_defects"], "used": said["known_defects_used"],
            "alarms": part([r for _, r in seen_good]), "alarms_now": part([r for _, r in now_good]),
            "found": part([r for _, r in before]), "found_now": part([r for _, r in now_rest]),
            "same": matched([s for s, _ in seen_good], [s for s, _ in before], alarms),
            "same_now": matched([s for s, _ in now_good], [s for s, _ in now_rest], alarms),
        })  # fmt: skip
        knowing.unlink()
        if asked.json:
            print(json.dumps({"product": product.name, "trial": trial, **rows[-1]}), flush=True)
    mean = {key: statistics.mean(row[key] for row in rows) for key in rows[0]}
    spread = statistics.pstdev(row["found_now"] - row["found"] for row in rows)
    print(f"{product.name:16} shown {mean['shown']:4.1f}   used {sum(row['used'] for row in rows)}/{len(rows)}"
          f"   false alarms {mean['alarms']:5.1f} -> {mean['alarms_now']:5.1f} %"
          f"   detected {mean['found']:5.1f} -> {mean['found_now']:5.1f} % (± {spread:.1f})"
          f"   at the same alarms {mean['same']:5.1f} -> {mean['same_now']:5.1f} %", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command")
    parser.add_argument("products", nargs="+", type=pathlib.Path)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--outline", action="store_true", help="show what is outlined, not what masks say")
    parser.add_argument("--together", action="store_true", help="all products in one memory")
    parser.add_argument("--options", default="", help="of learn, for a new memory")
    parser.add_argument("--json", action="store_true", help="print each trial too")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        memories = {}
        for product in asked.products:
            memory = pathlib.Path(scratch) / ("all.ccm" if asked.together else f"{product.name}.ccm")
            new = [] if memory.exists() else asked.options.split()
            run(asked.command, "learn", memory, product / "train/good", "--task", product.name, *new)
            memories[product] = memory
        for product in asked.products:
            measure(asked, product, memories[product], scratch)


main()
