"""Learns many products one after another: how long, and what of it.

  learn_products.py CONTCORE [--products 15] [--images 242] [--side 1024] [--folder DIR] [--devices cuda,cpu]
                             [--options "--backbone builtin"]

The images are made up, as JPEG files, each product with a texture and a shape of its own, each image shifted, lit and
noisy in its own way. They stay in --folder, where it is named. With 15 products of 242 images it is as many as the
paper's efficiency table has (3,629). The memories that two devices make are compared, byte for byte."""

import argparse
import hashlib
import json
import multiprocessing
import os
import shlex
import subprocess
import tempfile
import time

import numpy
from PIL import Image


def smooth_noise(numbers, side, cells):
    small = Image.fromarray(numbers.uniform(0, 255, (cells, cells)).astype(numpy.uint8))
    return numpy.asarray(small.resize((side, side), Image.BICUBIC), dtype=numpy.float32) / 255


def make_product(task):
    folder, product, count, side = task
    os.makedirs(folder, exist_ok=True)
    numbers = numpy.random.RandomState(product)
    texture = sum(smooth_noise(numbers, side + 64, 4 ** k + product % 3) / k for k in (2, 3, 4))
    y, x = numpy.mgrid[0:side + 64, 0:side + 64].astype(numpy.float32) / (side + 64) - 0.5
    angle = numpy.arctan2(y, x)
    edge = 0.3 + 0.06 * numpy.cos((3 + product % 5) * angle) + 0.02 * numpy.cos((11 + product) * angle)
    inside = (numpy.hypot(x, y) < edge).astype(numpy.float32)
    colour = numbers.uniform(0.3, 1.0, 3), numbers.uniform(0.05, 0.3, 3)
    base = [(inside * colour[0][c] + (1 - inside) * colour[1][c]) * (0.6 + 0.4 * texture) for c in range(3)]
    base = numpy.stack(base, axis=2) * 130
    for i in range(count):
        numbers = numpy.random.RandomState(100000 * (product + 1) + i)
        dy, dx = numbers.randint(0, 64, 2)
        pixels = base[dy:dy + side, dx:dx + side] * numbers.uniform(0.92, 1.08)
        pixels = pixels + numbers.normal(0, 4, (side, side, 1)).astype(numpy.float32)
        Image.fromarray(numpy.clip(pixels, 0, 255).astype(numpy.uint8)).save(
            os.path.join(folder, "%04d.jpg" % i), quality=92)


def arrays_of(path):
    """What a memory holds, without when it was learned: the file's arrays."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        file.seek(8 + length)
        return hashlib.sha256(file.read()).hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contcore")
    parser.add_argument("--products", type=int, default=15)
    parser.add_argument("--images", type=int, default=242)
    parser.add_argument("--side", type=int, default=1024)
    parser.add_argument("--folder")
    parser.add_argument("--devices", default="cuda,cpu")
    parser.add_argument("--options", default="")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = given.folder or scratch
        tasks = [(os.path.join(root, "product%02d" % k), k, given.images, given.side) for k in range(given.products)
                 if not os.path.isdir(os.path.join(root, "product%02d" % k))]
        with multiprocessing.Pool() as pool:
            pool.map(make_product, tasks, chunksize=1)
        seen = {}
        for device in given.devices.split(","):
            memory = os.path.join(scratch, device + ".ccm")
            total = 0.0
            parts = {}
            for k in range(given.products):
                began = time.monotonic()
                ran = subprocess.run([given.contcore, "learn", memory, os.path.join(root, "product%02d" % k), "--task",
                                      "product%02d" % k, "--device", device, "--versions", "0", "--json",
                                      *shlex.split(given.options)], stdout=subprocess.PIPE, check=True)
                took = time.monotonic() - began
                said = json.loads(ran.stdout)
                for name in ("extract_seconds", "sample_seconds"):
                    parts[name] = parts.get(name, 0) + said[name]
                total += took
                print("%s: product %2d: %6.2f s" % (device, k, took), flush=True)
            print("%s: %d images in %d products: %.1f s%s" % (
                device, given.products * given.images, given.products, total,
                "".join(", %s %.1f" % (name.replace("_seconds", ""), part) for name, part in parts.items())), flush=True)
            seen[device] = arrays_of(memory)
        if len(seen) > 1:
            print("memories: " + ("the same bytes" if len(set(seen.values())) == 1 else "THEY DIFFER"))


main()
