"""Writes the seeds of the fuzz targets, a few small files each.  Usage: make_corpus.py [FOLDER]"""

import hashlib
import json
import os
import struct
import sys
import zlib

ROOT = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "corpus")


def save(target, name, content):
    folder = os.path.join(ROOT, target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


# ---- text


def multipart():
    kind = "multipart/form-data; boundary=X\n"
    part = '--X\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n'
    part += "Content-Type: image/png\r\n\r\nbytes\r\n"
    save("multipart", "one", kind + part + "--X--\r\n")
    save("multipart", "two", kind + part + part + "--X--")
    save("multipart", "quoted", 'Multipart/Form-Data; charset=utf-8; boundary="a b"\n--a b\r\n'
         'content-disposition: form-data; name="\\"\\\\x"; x=y\r\n\r\n\r\n--a b--\r\n')
    save("multipart", "encoded", kind + "--X\r\nContent-Disposition: form-data; name=a\r\n"
         "Content-Transfer-Encoding: binary\r\n\r\n\r\n--\r\n--X--\r\nepilogue")
    save("multipart", "preamble", kind + "preamble\r\n" + part + "--X \t\r\n\r\n--X--\r\n")
    save("multipart", "short", kind + part)
    save("multipart", "other", "image/png\n\x89PNG")


def http_head():
    save("http_head", "get", "/v1/tasks/a%20b/scores?x=1&y=%C3%A9+z\nHost: localhost:8080\n"
         "X-Request-Id: a.b-c_1\nAccept: */*\nAccept: text/html\n")
    save("http_head", "post", "/v1/inspections?task=bottle&source=\nhost: [::1]\n"
         "content-length: 12\ncontent-type: image/png\nAuthorization: Bearer abcdefghijklmnop\n")
    save("http_head", "chunked", "/\nHost: a\nTransfer-Encoding: chunked\nExpect: 100-continue\n")
    save("http_head", "twice", "/a//b/%2e%2e/?a&a\nContent-Length: 1\nContent-Length: 2\n")
    save("http_head", "bytes", b"/\xc3\xa9/\xf0\x9f\x98\x80?%ff\nX: \xff\ty\n")


def tokens():
    save("tokens", "three", b"# who\n\ninspect abcdefghijklmnop camera 1\nlearn  ABCDEFGHIJKLMNOPQ\n"
         b"admin\t0123456789abcdef anna\n\0Bearer abcdefghijklmnop")
    save("tokens", "windows", b"admin 0123456789abcdef\r\n\0bearer  0123456789abcdef")
    save("tokens", "short", b"admin short\n\0Basic abc")
    save("tokens", "empty", b"# nothing\n")


def schedule():
    for i, text in enumerate(["1x15", "3x5", "10-1x5", "14-1", "8 \u2013 1\u00d74", "10--1X5", "15"]):
        save("schedule", "pieces%d" % i, b"\x0e" + text.encode())
    save("schedule", "names", b"\x84mvtec>visa")
    save("schedule", "part", b"\x8eVI > mv")
    for i, text in enumerate(["alphabetical", "shuffle:7", "screw, bottle,cable"]):
        save("schedule", "order%d" % i, b"\0" + text.encode())


# ---- binary


def journal():
    def record(sequence, first, payload):
        return struct.pack("<IIQQ", len(payload), 0, sequence, first) + payload

    header = b"CCJRNL1\n" + b"p" * 32
    whole = header + record(1, 1, b"one") + record(2, 2, b"two") + record(3, 2, b"")
    save("journal", "whole", b"\3" + whole)
    save("journal", "torn", b"\3" + whole + record(4, 4, b"four")[:-2])
    save("journal", "gap", b"\3" + header + record(1, 1, b"one") + record(3, 3, b"three"))
    save("journal", "stale", b"\2" + b"CCJRNL1\n" + b"q" * 32 + record(1, 1, b"one"))
    save("journal", "long", b"\3" + header + record(1, 1, b"x" * 70))
    save("journal", "short", b"\0CCJRN")
    save("journal", "raw", b"\0" + whole)


def safetensors(tensors, metadata):
    header, data = {"__metadata__": dict(metadata, sha256="0" * 64)}, b""
    for name, (kind, shape, values) in tensors.items():
        code = {"F32": "f", "I32": "i", "U8": "B"}[kind]
        more = struct.pack("<%d%s" % (len(values), code), *values)
        header[name] = {
            "dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(more)],
        }  # fmt: skip
        data += more
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    whole = struct.pack("<Q", len(text)) + text + data
    return whole.replace(b"0" * 64, hashlib.sha256(whole).hexdigest().encode(), 1)


def memory_file(rule="share", vectors=3, held=2, former=False, kind="F32", shown=0, **more):
    tasks = [
        {"name": name, "images": 5, "patches": 50, "picked": 3, "epsilon": 0.5, "epsilon_hat": 0.25,
         "covering": covering, "learned": "2031-05-04T03:02:01Z"}
        for name, covering in [("bottle", 0.5), ("screw", None)]
    ]  # fmt: skip
    text = {
        "format": "contcore memory 1" if former else "contcore memory 2", "capacity": "8",
        "consolidate": rule, "q": "0.75", "greedy_order": "no", "tasks": json.dumps(tasks),
        "source.backbone": "builtin", "source.resize": "256",
    }  # fmt: skip
    text.update(more)
    arrays = {
        "vectors": (kind, [vectors, 2], [i if kind == "U8" else 0.5 * i for i in range(2 * vectors)]),
        "origin": ("I32", [vectors], [i % 2 for i in range(vectors)]),
        "radius": ("F32", [vectors], [float("inf")] + [1.0] * (vectors - 1) if vectors else []),
        "slack": ("F32", [vectors], [0.25] * vectors),
        "calibration.means": (kind, [held, 2], [1] * (2 * held)),
        "calibration.task": ("I32", [held], [i % 2 for i in range(held)]),
        "calibration.first": ("F32", [held], [1.0] * held),
    }
    if former:
        arrays.update({
            "calibration.score": ("F32", [held], [2.0] * held),
            "calibration.patches": ("F32", [held, 2], [3.0] * (2 * held)),
            "calibration.image": ("I32", [held], list(range(held))),
        })  # fmt: skip
    else:
        arrays.update({
            "calibration.vectors": ("I32", [held], [4] * held),
            "calibration.level": ("I32", [held], [0] * held),
            "calibration.end": ("I32", [held], [2 * i + 2 for i in range(held)]),
            "calibration.scores": ("F32", [2 * held], [1.0, 2.0] * held),
            "calibration.hash": ("I32", [2 * held], [5 + i for i in range(2 * held)]),
            "calibration.mean_of": ("I32", [held], [i % 2 for i in range(held)]),
            "calibration.strange": ("F32", [held], [0.5] * held),
            "learned.hash": ("I32", [held], [3 + i for i in range(held)]),
            "learned.end": ("I32", [held], [i + 1 for i in range(held)]),
            "learned.limit": ("I32", [held], [-1] * held),
        })  # fmt: skip
    if shown:
        arrays.update({
            "suspects.patches": (kind, [held, 2], [7] * (2 * held)),
            "suspects.image": ("I32", [held], list(range(held))),
            "suspects.distance": ("F32", [held], [1.5] * held),
            "suspects.value": ("F32", [held], [1.0] * held),
            "defects.patches": (kind, [2, 2], [9, 9, 8, 8]),
            "defects.patch_of": ("I32", [2], [0, 1]),
            "defects.image": ("I32", [2 * shown], [i for n in range(shown) for i in (n, 0)]),
            "defects.image_of": ("I32", [shown], [0] * shown),
        })  # fmt: skip
    return safetensors(arrays, text)


def memory():
    save("memory", "share", memory_file())
    save("memory", "paper", memory_file("paper", greedy_order="yes"))
    save("memory", "empty", memory_file(vectors=0, held=0, tasks="[]"))
    save("memory", "no_calibration", memory_file(held=0))
    save("memory", "cut", memory_file()[:-5])
    save("memory", "bytes", memory_file(kind="U8"))
    save("memory", "former", memory_file(former=True))
    save("memory", "defects", memory_file(shown=10))
    save("memory", "defects_bytes", memory_file(kind="U8", shown=11))
    record = '{"name":"%s","images":1,"patches":9,"picked":2,"epsilon":1,"epsilon_hat":1,'
    record += '"covering":%s,"learned":"x"}'
    one, two = record % ("bottle", "1"), record % ("screw", "null")
    for rule in ["share", "paper"]:
        for name, sizes, tasks in [
            ("one", [2, 2, 1, 1, 0, 0, 1], "[%s]" % one),
            ("two", [3, 2, 2, 2, 0, 0, 1], "[%s,%s]" % (one, two)),
            ("empty", [0, 3, 0, 0, 0, 0, 0], "[]"),
            ("bytes", [2, 2, 0, 0, 0, 0, 2], "[%s]" % one),
            ("now", [2, 2, 1, 1, 0, 0, 0], "[%s]" % one),
            ("strange", [2, 2, 1, 1, 0, 0, 8], "[%s]" % one),
        ]:
            texts = "\0".join(["4", "0.75", rule, "yes", tasks]) + "\0"
            numbers = struct.pack("<7i", 0, 1, 1, 0, 1, 0, 1) if name == "two" else b""
            if name in ("now", "strange"):  # origin, task, vectors, level, end, hash, mean_of, learned
                numbers = struct.pack("<12i", 0, 0, 0, 3, 0, 1, 5, 6, 0, 1, -1, 4)
            save("memory_parts", name + "_" + rule, bytes(sizes) + texts.encode() + numbers)
    save("safetensors", "two", safetensors(
        {"a": ("F32", [2, 2], [1, 2, 3, 4]), "b": ("I32", [3], [1, 2, 3])}, {"x": "y"}))
    save("safetensors", "one", safetensors({"a": ("F32", [2], [1, 2])}, {}))
    save("safetensors", "none", safetensors({}, {}))
    save("safetensors", "zero", safetensors({"a": ("F32", [0, 5], [])}, {}))


def npy():
    def file(version, descr, shape, data, order="False"):
        text = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, order, shape)
        size = 2 if version == 1 else 4
        text += " " * (-(8 + size + len(text) + 1) % 64) + "\n"
        length = struct.pack("<H" if version == 1 else "<I", len(text))
        return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode() + data

    save("npy", "float32", file(1, "<f4", "(2, 3)", struct.pack("<6f", *range(6))))
    save("npy", "float16", file(2, "<f2", "(3, 2)", bytes(12)))
    save("npy", "version3", file(3, "<f4", "(1, 1)", bytes(4)))
    save("npy", "short", file(1, "<f4", "(2, 30)", bytes(8)))
    save("npy", "vast", file(1, "<f4", "(4611686018427387904, 4)", bytes(8)))
    save("npy", "fortran", file(1, "<f4", "(1, 2)", bytes(8), "True"))
    save("npy", "one_dimension", file(1, "<f8", "(2,)", bytes(16)))


def png_seed(depth, colour, rows, more=b"", width=2, interlaced=0):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    ihdr = chunk(b"IHDR", struct.pack(">IIBBBBB", width, len(rows), depth, colour, 0, 0, interlaced))
    palette = chunk(b"PLTE", bytes(range(12))) if colour == 3 else b""
    beside = chunk(b"tEXt", b"a\0b") + chunk(b"eXIf", exif_seed(6)) if more else b""
    idat = chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows)))
    return b"\x89PNG\r\n\x1a\n" + ihdr + palette + beside + idat + chunk(b"IEND", b"")


def exif_seed(orientation):
    return b"II*\0" + struct.pack("<IHHHIII", 8, 1, 0x112, 3, 1, orientation, 0)


def jpeg_seed(frame, colours, scans, more=b"", width=16):
    """Every block is empty: one bit for its mean, one for its end."""

    def segment(marker, data):
        return bytes([0xFF, marker]) + struct.pack(">H", len(data) + 2) + data

    out = b"\xff\xd8" + more + segment(0xDB, b"\0" + b"\1" * 64)
    sizes = b"".join(bytes([i + 1, 0x22 if i == 0 and colours == 3 else 0x11, 0]) for i in range(colours))
    out += segment(frame, struct.pack(">BHHB", 8, 16, width, colours) + sizes)
    table = b"\1" + bytes(15) + b"\0"
    out += segment(0xC4, b"\0" + table) + segment(0xC4, b"\x10" + table)
    for ids, first, last, data in scans:
        out += segment(0xDA, bytes([len(ids)]) + b"".join(bytes([i, 0]) for i in ids) + bytes([first, last, 0]))
        out += data
    return out + b"\xff\xd9"


def tiff_seed(entries, pixels, order="<", big=False):
    """Entries are (tag, values); 273 or 324 (where the pixels are) is filled in."""
    mark = b"II" if order == "<" else b"MM"
    head = mark + (struct.pack(order + "HHHQ", 43, 8, 0, 16 + len(pixels)) if big
                   else struct.pack(order + "HI", 42, 8 + len(pixels)))  # fmt: skip
    place, count, room = ("Q", "Q", 8) if big else ("I", "I", 4)
    ifd = struct.pack(order + ("Q" if big else "H"), len(entries))
    end = len(head) + len(pixels) + len(ifd) + len(entries) * (20 if big else 12) + room
    after = b""
    for tag, values in sorted(entries):
        if tag in (273, 324):
            values = [len(head) + v for v in values]
        short = tag not in (256, 257, 273, 278, 279, 322, 323, 324, 325)
        data = bytes(values) if tag == 347 else struct.pack(order + str(len(values)) + ("H" if short else "I"), *values)
        kind = 7 if tag == 347 else 3 if short else 4
        ifd += struct.pack(order + "HH" + count, tag, kind, len(values))
        if len(data) > room:
            ifd += struct.pack(order + place, end + len(after))
            after += data
        else:
            ifd += data + bytes(room - len(data))
    return head + pixels + ifd + bytes(room) + after


def image():
    save("image", "png", png_seed(8, 2, [bytes(6)], more=b"x"))
    save("image", "png_gray1", png_seed(1, 0, [b"\x40"]))
    save("image", "png_gray16", png_seed(16, 0, [bytes(4)]))
    save("image", "png_alpha16", png_seed(16, 6, [bytes(16)]))
    save("image", "png_palette", png_seed(2, 3, [b"\x40", b"\xc0"]))
    save("image", "png_interlaced", png_seed(8, 4, [bytes(2)], width=1, interlaced=1))
    text = b"tEXt\0\0\0\1\0\0\0\1x"  # a size where the header's usually is
    whole = png_seed(8, 2, [bytes(6)])
    save("image", "png_before", whole[:8] + struct.pack(">I", 9) + text + struct.pack(">I", zlib.crc32(text)) + whole[8:])
    save("image", "png_cut", png_seed(8, 2, [bytes(6)])[:-20])

    app1 = b"\xff\xe1\0\x22Exif\0\0" + exif_seed(8)
    adobe = b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\2"
    whole = [([1], 0, 63, b"\0")]
    save("image", "jpeg_gray", jpeg_seed(0xC0, 1, whole, app1))
    save("image", "jpeg", jpeg_seed(0xC0, 3, [([1, 2, 3], 0, 63, b"\0\x0f")]))
    save("image", "jpeg_behind", jpeg_seed(0xC0, 1, whole) + b"more")
    save("image", "jpeg_scans", jpeg_seed(0xC1, 3, [([1], 0, 63, b"\0"), ([2], 0, 63, b"\x3f"), ([3], 0, 63, b"\x3f")]))
    save("image", "jpeg_progressive", jpeg_seed(0xC2, 1, [([1], 0, 0, b"\x0f"), ([1], 1, 63, b"\x0f")]))
    save("image", "jpeg_cmyk", jpeg_seed(0xC0, 4, [([1, 2, 3, 4], 0, 63, bytes(4))], adobe))
    save("image", "jpeg_arithmetic", jpeg_seed(0xC9, 1, whole))
    save("image", "jpeg_cut", jpeg_seed(0xC0, 1, whole)[:-3])

    for bits in (1, 4, 8, 16, 24, 32):
        row = bytes((2 * bits + 31) // 32 * 4)
        palette = bytes(range(4)) * (1 << bits) if bits <= 4 else bytes(1024) if bits == 8 else b""
        masks = struct.pack("<III", 0xF800, 0x7E0, 0x1F) if bits == 16 else b""
        info = struct.pack("<IiiHHIIiiII", 40, 2, -1, 1, bits, 3 if masks else 0, 8, 0, 0, 0, 0)
        start = 54 + len(palette + masks)
        save("image", "bmp%d" % bits, b"BM" + struct.pack("<IHHI", start + len(row), 0, 0, start) + info
             + palette + masks + row)
    save("image", "bmp_old", b"BM" + struct.pack("<IHHI", 38, 0, 0, 26) + struct.pack("<IHHHH", 12, 2, 1, 1, 24) + bytes(8))

    def strip(compression, photometric, bits, pixels, samples=1, **more):
        entries = [(256, [2]), (257, [1]), (258, [bits] * samples), (259, [compression]), (262, [photometric]),
                   (273, [0]), (277, [samples]), (278, [1]), (279, [len(pixels)])]  # fmt: skip
        return tiff_seed(entries + more.pop("beside", []), pixels, **more)

    save("image", "tiff_II", strip(1, 1, 8, b"\1\2"))
    save("image", "tiff_MM", strip(1, 1, 16, b"\1\2\3\4", order=">"))
    save("image", "tiff_big", strip(1, 2, 8, bytes(6), 3, big=True))
    save("image", "tiff_turned", strip(1, 0, 1, b"\x40", beside=[(274, [6])]))
    save("image", "tiff_palette", strip(1, 3, 2, b"\x60", beside=[(320, list(range(12)))]))
    save("image", "tiff_cmyk", strip(1, 5, 8, bytes(range(8)), 4))
    save("image", "tiff_alpha", strip(1, 2, 16, bytes(range(16)), 4, beside=[(338, [2])]))
    save("image", "tiff_deflate", strip(8, 2, 8, zlib.compress(bytes(6)), 3, beside=[(317, [2])]))
    save("image", "tiff_packbits", strip(32773, 2, 8, b"\xfb\7", 3))
    # Nine bits a code: start, 1, 2, end.
    codes = "".join("{:09b}".format(c) for c in (256, 1, 2, 257)).ljust(40, "0")
    save("image", "tiff_lzw", strip(5, 1, 8, int(codes, 2).to_bytes(5, "big")))
    save("image", "tiff_jpeg", strip(7, 1, 8, jpeg_seed(0xC0, 1, whole, width=2).replace(b"\0\x10\0\2", b"\0\1\0\2")))
    save("image", "tiff_planes", tiff_seed(
        [(256, [2]), (257, [2]), (258, [8] * 3), (259, [1]), (262, [2]), (273, [0, 2, 4, 6, 8, 10]), (277, [3]),
         (278, [1]), (279, [2] * 6), (284, [2])], bytes(range(12))))  # fmt: skip
    save("image", "tiff_tiles", tiff_seed(
        [(256, [17]), (257, [2]), (258, [8]), (259, [1]), (262, [1]), (277, [1]), (322, [16]), (323, [16]),
         (324, [0, 0]), (325, [256, 256])], bytes(256)))  # fmt: skip
    save("image", "tiff_ycbcr", strip(1, 6, 8, bytes(range(6)), 3, beside=[(530, [2, 2])]))
    save("image", "tiff_fax", strip(4, 0, 1, b"\0\x10\x01"))

    for name, text in [
        ("lossy", "524946466c000000574542505650382060000000d001009d012a100010000900ac250001f1d538a978830000fb99f6dec985"
         "04a85bc66b435d0dfbc42b8845ad30181c350c9fd394ad96035a1ec9dc32045d374573aa9306f669432f1d278b4105c33940ddb62a1f45"
         "35504273e710baa1710000"),
        ("alpha", "524946465e00000057454250565038580a000000100000000f00000f0000414c50480b000000010f30ff1111a2aa11fd0f00"
         "565038202c0000001002009d012a100010000900ac25a4ee1c9f5cfec80000bc0000fe2c3ffe6c3f98600d5da05b44b4110ca800"),
        ("lossless", "524946461e000000574542505650384c110000002f03c000000f30ff11f31f861244f43f0000"),
    ]:  # fmt: skip
        save("image", "webp_" + name, bytes.fromhex(text))
    save("image", "ppm", b"P6 # x\n2 1\n255\n" + bytes(6))
    save("image", "pgm16", b"P5\n2 1 65535\n" + bytes(4))
    save("image", "pgm_text", b"P2\n2 1\n9\n1 2\n")


# ---- ONNX, written by hand: field << 3 | wire type


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def number(field, n):
    return varint(field << 3) + varint(n)


def block(field, content):
    content = content if isinstance(content, bytes) else content.encode()
    return varint(field << 3 | 2) + varint(len(content)) + content


def tensor(name, shape, values, kind="f"):
    raw = struct.pack("<%d%s" % (len(values), kind), *values)
    out = b"".join(number(1, n) for n in shape) + number(2, {"f": 1, "B": 2, "b": 3, "i": 6, "q": 7}[kind])
    return out + block(8, name) + block(9, raw)


def attribute(name, value):
    if isinstance(value, int):
        return block(5, block(1, name) + number(3, value) + number(20, 2))
    if isinstance(value, float):
        return block(5, block(1, name) + b"\x15" + struct.pack("<f", value) + number(20, 1))
    if isinstance(value, str):
        return block(5, block(1, name) + block(4, value) + number(20, 3))
    if isinstance(value, bytes):
        return block(5, block(1, name) + block(5, value) + number(20, 4))
    return block(5, block(1, name) + b"".join(number(8, n) for n in value) + number(20, 7))


def node(op, inputs, outputs, **attributes):
    out = b"".join(block(1, name) for name in inputs) + b"".join(block(2, name) for name in outputs)
    out += block(3, "/layer2/" + op) + block(4, op)
    return block(1, out + b"".join(attribute(k, v) for k, v in attributes.items()))


def model(nodes, weights, outputs, opset=13, shape=(1, 3, -1, -1)):
    dims = b"".join(block(1, number(1, n) if n > 0 else block(2, "n")) for n in shape)
    image = block(1, "x") + block(2, block(1, number(1, 1) + block(2, dims)))
    graph = b"".join(nodes) + b"".join(block(5, w) for w in weights) + block(11, image)
    graph += b"".join(block(12, block(1, name)) for name in outputs)
    return number(1, 8) + block(7, graph) + block(8, number(2, opset))


def onnx():
    kernel = tensor("w", (4, 3, 3, 3), [0.1] * 108)
    conv = node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2], group=1)
    bias = tensor("b", (4,), [0.5] * 4)
    save("onnx", "conv", model([conv, node("Relu", ["c"], ["y"])], [kernel, bias], ["y"]))
    four = [tensor(n, (4,), [1.0] * 4) for n in "smvn"]
    save("onnx", "norm", model(
        [conv, node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n2"], epsilon=1e-5),
         node("Add", ["n2", "c"], ["a"]), node("MaxPool", ["a"], ["y"], kernel_shape=[3, 3],
         strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1)], [kernel, bias, *four], ["y"]))
    save("onnx", "concat", model(
        [node("AveragePool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
         node("MaxPool", ["x"], ["q"], kernel_shape=[2, 2], strides=[2, 2]),
         node("Concat", ["p", "q"], ["y"], axis=1)], [], ["y"]))
    save("onnx", "resize", model(
        [node("Resize", ["x", "", "s"], ["r"], mode="linear"),
         node("Pad", ["r", "p"], ["y"], mode="constant")],
        [tensor("s", (4,), [1, 1, 2, 2]), tensor("p", (8,), [0, 0, 1, 1, 0, 0, 1, 1], "q")], ["y"]))
    shape = tensor("s", (3,), [0, 3, -1], "q")
    save("onnx", "tokens", model(
        [conv, node("Reshape", ["c", "t"], ["r"]), node("Transpose", ["r"], ["u"], perm=[0, 2, 1]),
         node("MatMul", ["u", "k"], ["o"]), node("Softmax", ["o"], ["y"], axis=-1)],
        [kernel, bias, tensor("t", (3,), [0, 4, -1], "q"), tensor("k", (4, 4), [0.5] * 16)], ["y"]))
    save("onnx", "shape", model(
        [node("Shape", ["x"], ["h"]), node("Gather", ["h", "i"], ["g"], axis=0),
         node("Unsqueeze", ["g", "a"], ["g1"]), node("Concat", ["one", "three", "g1"], ["n"], axis=0),
         node("Slice", ["x", "st", "en"], ["l"]), node("Reshape", ["x", "s"], ["f"]),
         node("ReduceMean", ["f"], ["y"], axes=[2], keepdims=1), node("Mul", ["l", "half"], ["z"])],
        [tensor("i", (), [2], "q"), tensor("a", (1,), [0], "q"), tensor("one", (1,), [1], "q"),
         tensor("three", (1,), [3], "q"), tensor("st", (4,), [0, 0, 1, 1], "q"),
         tensor("en", (4,), [1, 3, 9, 9], "q"), shape, tensor("half", (1,), [0.5])], ["z"]))
    save("onnx", "gemm", model(
        [node("GlobalAveragePool", ["x"], ["g"]), node("Flatten", ["g"], ["f"], axis=1),
         node("Gemm", ["f", "k", "b"], ["y"], alpha=1.0, transB=1), node("Sigmoid", ["y"], ["z"])],
        [tensor("k", (4, 3), [0.5] * 12), bias], ["z"]))
    save("onnx", "constant", model(
        [node("Constant", [], ["k"], value=tensor("", (1, 3, 1, 1), [1, 2, 3])),
         node("Mul", ["x", "k"], ["m"]), node("Clip", ["m", "lo"], ["c"]),
         node("Split", ["c"], ["y", "z"], axis=3), node("Div", ["y", "z"], ["d"])],
        [tensor("lo", (), [0.0])], ["d", "c"]))
    save("onnx", "groups", model(
        [node("Conv", ["x", "k"], ["c"], group=3, dilations=[2, 2], auto_pad="SAME_UPPER"),
         node("PRelu", ["c", "s"], ["y"])],
        [tensor("k", (3, 1, 2, 2), [0.25] * 12), tensor("s", (3, 1, 1), [0.1] * 3)], ["y"]))
    save("onnx", "cycle", model([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])], [], ["a"]))
    levels = [tensor("s", (), [0.05]), tensor("z", (), [128], "B"), tensor("k", (4, 3, 1, 1), [9, -7] * 6, "b"),
              tensor("ks", (4,), [0.01, 0.02] * 2), tensor("kz", (4,), [0] * 4, "b"),
              tensor("bi", (4,), [50] * 4, "i"), tensor("cs", (3,), [0.1, 0.2, 0.3]), tensor("cz", (3,), [1, 2, 3], "b")]  # fmt: skip
    pair = [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["d"])]
    weights = [node("DequantizeLinear", ["k", "ks", "kz"], ["w"], axis=0),
               node("DequantizeLinear", ["bi", "ks"], ["b"], axis=0), node("Conv", ["d", "w", "b"], ["c"])]
    save("onnx", "eight_bits", model(
        [*pair, *weights, node("Add", ["c", "c"], ["a"]), node("Relu", ["a"], ["r"]),
         node("QuantizeLinear", ["r", "s", "z"], ["t"]),
         node("MaxPool", ["t"], ["u"], kernel_shape=[2, 2]), node("DequantizeLinear", ["u", "s", "z"], ["y"])],
        levels, ["y"]))
    save("onnx", "eight_bits_channels", model(
        [node("QuantizeLinear", ["x", "cs", "cz"], ["q"], axis=1),
         node("DequantizeLinear", ["q", "cs", "cz"], ["y"], axis=1)], levels, ["y"]))
    norm = [node("ReduceMean", ["x"], ["m"], axes=[1], keepdims=1), node("Sub", ["x", "m"], ["d"]),
            node("Pow", ["d", "two"], ["p"]), node("ReduceMean", ["p"], ["v"], axes=[1], keepdims=1),
            node("Add", ["v", "e"], ["w"]), node("Sqrt", ["w"], ["r"]), node("Div", ["d", "r"], ["y"])]  # fmt: skip
    save("onnx", "layer_norm", model(norm, [tensor("two", (), [2.0]), tensor("e", (), [1e-5])], ["y"]))


def region():
    sides = b"\x3f\x2f"
    box = [[0.5, 1], [60, 2.25], [40, 47]]
    for name, polygons in {"box": [box], "crossing": [[[0, 0], [64, 48], [64, 0], [0, 48]]], "two": [box, box[::-1]],
                           "beyond": [[[-1e6, -9], [1e6, 20], [30, 1e7]]]}.items():  # fmt: skip
        save("region", name, sides + json.dumps({"width": 64, "height": 48, "polygons": polygons}).encode())
    save("region", "mask", b"\x0f\x05" + json.dumps({"width": 4, "height": 3, "counts": [1, 2, 3, 6]}).encode())
    save("region", "whole", sides + json.dumps({"width": 4, "height": 3, "counts": [0, 12]}).encode())


def frame():
    formats = {"mono8": 0x01080001, "mono12": 0x01100005, "mono10p": 0x010A0046, "mono12packed": 0x010C0006,
               "bayer_rg8": 0x01080009, "bayer_bg12p": 0x010C0053, "bgra8": 0x02200017, "yuyv": 0x02100032}  # fmt: skip
    for name, number in formats.items():
        width, height, padding = 6, 5, 2 if name == "mono8" else 0
        bits = (number >> 16 & 0xFF) * width
        size = (bits * height + 7) // 8 + padding * (height - 1)
        save("frame", name, struct.pack(">IHHH", number, width, height, padding) + bytes(i * 37 % 256 for i in range(size)))


for make in [multipart, http_head, tokens, schedule, region, frame, journal, memory, npy, image, onnx]:
    make()
