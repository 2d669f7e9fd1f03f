"""Makes the images of the page's test: images.py FOLDER, with good/, more_good/ and bad/ in it."""

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


def stripes(index, defect):
    numbers = numpy.random.RandomState(index)
    y, x = numpy.mgrid[0:SIDE, 0:SIDE]
    gray = 120 + 50 * numpy.sin((x + 2 * y) * 0.25 + numbers.uniform(0, 6.28)) + numbers.normal(0, 4, (SIDE, SIDE))
    pixels = numpy.stack([gray, gray * 0.7, 255 - gray], axis=2)
    if defect:
        pixels[20:34, 30:44] = [250, 20, 20]
    return numpy.clip(pixels, 0, 255).astype(numpy.uint8)


for name, first, count in [("good", 0, 30), ("more_good", 100, 6), ("bad", 200, 6)]:
    os.makedirs(os.path.join(sys.argv[1], name))
    for i in range(count):
        with open(os.path.join(sys.argv[1], name, "%03d.png" % i), "wb") as file:
            file.write(png(stripes(first + i, name == "bad")))
