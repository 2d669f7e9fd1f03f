"""Makes the images of the page's tests: images.py FOLDER, with these folders in it:

good, more_good, bad    a product, more of it, and some with a defect
other                   another product
empty                   frames without a product: white, black, noise, a blur, the part painted out
placed                  the product in the middle, twice the same part before different backgrounds
mask                    white where that part is, black elsewhere
"""

import os
import struct
import sys
import zlib

import numpy

SIDE = 64


def png(pixels):
    height, width, _ = pixels.shape

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def stripes(index):
    numbers = numpy.random.RandomState(index)
    y, x = numpy.mgrid[0:SIDE, 0:SIDE]
    gray = 120 + 50 * numpy.sin((x + 2 * y) * 0.25 + numbers.uniform(0, 6.28)) + numbers.normal(0, 4, (SIDE, SIDE))
    return numpy.stack([gray, gray * 0.7, 255 - gray], axis=2)


def bad(index):
    pixels = stripes(index)
    pixels[20:34, 30:44] = [250, 20, 20]
    return pixels


def checks(index):
    numbers = numpy.random.RandomState(index)
    y, x = numpy.mgrid[0:SIDE, 0:SIDE]
    gray = numpy.where((x // 8 + y // 8) % 2, 190, 40) + numbers.normal(0, 6, (SIDE, SIDE))
    return numpy.stack([gray * 0.4, gray, gray * 0.5], axis=2)


def empty(index):
    numbers = numpy.random.RandomState(index)
    if index == 0:
        return numpy.full((SIDE, SIDE, 3), 255.0)
    if index == 1:
        return numpy.zeros((SIDE, SIDE, 3))
    if index == 2:
        return numbers.uniform(0, 255, (SIDE, SIDE, 3))
    part = stripes(300 + index)
    return numpy.zeros_like(part) + part.mean(axis=(0, 1)) if index == 3 else numpy.where(part > 400, part, 128.0)


def placed(index):
    pixels = numpy.random.RandomState(index).uniform(0, 255, (SIDE, SIDE, 3))
    pixels[10:54, 10:54] = stripes(600)[10:54, 10:54]
    return pixels


def mask(index):
    pixels = numpy.zeros((SIDE, SIDE, 3))
    pixels[12:52, 16:48] = 255
    return pixels


def save(folder, index, pixels):
    with open(os.path.join(folder, "%03d.png" % index), "wb") as file:
        file.write(png(numpy.clip(pixels, 0, 255).astype(numpy.uint8)))


for name, make, first, count in [
    ("good", stripes, 0, 30),
    ("more_good", stripes, 100, 6),
    ("bad", bad, 200, 6),
    ("other", checks, 400, 12),
    ("empty", empty, 0, 5),
    ("placed", placed, 500, 2),
    ("mask", mask, 0, 1),
]:
    folder = os.path.join(sys.argv[1], name)
    os.makedirs(folder)
    for i in range(count):
        save(folder, i, make(first + i))
