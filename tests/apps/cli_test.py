"""Drives the contcore command as a user would.  Usage: python3 cli_test.py PATH_TO_CONTCORE"""

import ast
import json
import math
import os
import pty
import random
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import loud

try:
    import numpy
except ImportError:
    numpy = None

CONTCORE = "contcore"
PACKAGING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "packaging")
METHODS = ["greedy", "random", "reservoir", "herding", "patchcore"]


def npy_bytes(shape, data, descr="<f4", fortran=False):
    text = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, fortran, shape)
    text += " " * (-(10 + len(text) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data


def write_rows(path, rows):
    flat = [x for row in rows for x in row]
    data = struct.pack("<%df" % len(flat), *flat)
    with open(path, "wb") as file:
        file.write(npy_bytes((len(rows), len(rows[0])), data))


def read_npy(path):
    with open(path, "rb") as file:
        content = file.read()
    assert content[:8] == b"\x93NUMPY\x01\x00", content[:8]
    (length,) = struct.unpack("<H", content[8:10])
    header = ast.literal_eval(content[10 : 10 + length].decode())
    code = {"<f4": "f", "<i8": "q"}[header["descr"]]
    values = struct.unpack("<%d%s" % (math.prod(header["shape"]), code), content[10 + length :])
    return header["descr"], header["shape"], list(values)


def wait_until_it_listens(process):
    """Until the command has taken SIGINT into its own hands: starting takes a while on a busy machine."""
    end = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < end:
        with open("/proc/%d/status" % process.pid) as file:
            caught = [line.split()[1] for line in file if line.startswith("SigCgt:")]
        if caught and int(caught[0], 16) >> (signal.SIGINT - 1) & 1:
            return
        time.sleep(0.02)


def as_float32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def random_rows(rows, cols, seed):
    numbers = random.Random(seed)
    return [[as_float32(numbers.gauss(0, 1)) for _ in range(cols)] for _ in range(rows)]


def distance(a, b):
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)))


def naive_greedy(points, base, count, start):
    """Picks and radii of the plain loop."""
    nearest = [min((distance(p, b) for b in base), default=math.inf) for p in points]
    picks, radii = [], []
    for _ in range(count):
        best = max(range(len(points)), key=lambda i: nearest[i])
        if not base and not picks:
            best = start
        picks.append(best)
        radii.append(nearest[best])
        nearest = [min(d, distance(p, points[best])) for d, p in zip(nearest, points)]
    return picks, radii, max(nearest)


def farthest_from_mean(points):
    mean = [sum(column) / len(points) for column in zip(*points)]
    return max(range(len(points)), key=lambda i: distance(points[i], mean))


def default_interrupts():
    # A runner in the background may have SIGINT ignored, which would be inherited.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class CliTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="contcore_cli_")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def rows(self, name, rows):
        write_rows(self.path(name), rows)
        return self.path(name)

    def run_command(self, *arguments, **options):
        return subprocess.run(
            [CONTCORE, *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, **options)

    def succeed(self, *arguments):
        done = self.run_command(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def as_json(self, *arguments):
        def no_constant(name):
            raise AssertionError(name + " is not JSON")
        done = self.succeed(*arguments, "--json")
        self.assertEqual(done.stdout.count("\n"), 1)
        return json.loads(done.stdout, parse_constant=no_constant)

    def refuse(self, code, *arguments, says=()):
        """The command fails, says why, prints no result and leaves no file behind."""
        before = sorted(os.listdir(self.folder))
        done = self.run_command(*arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        for part in says:
            self.assertIn(part, done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        return done.stderr


class SampleTest(CliTest):
    def test_greedy_is_the_plain_loop(self):
        points = random_rows(60, 5, 1)
        z = self.rows("z.npy", points)
        result = self.as_json("sample", z, "--count", 12, "--out", self.path("picks.npy"),
                              "--radii", self.path("radii.npy"))
        picks, radii, radius = naive_greedy(points, [], 12, farthest_from_mean(points))
        self.assertEqual(read_npy(self.path("picks.npy")), ("<i8", (12,), picks))
        descr, shape, written = read_npy(self.path("radii.npy"))
        self.assertEqual((descr, shape, written[0]), ("<f4", (12,), math.inf))
        for a, b in zip(written[1:], radii[1:]):
            self.assertAlmostEqual(a, b, places=4)
        self.assertAlmostEqual(result["covering_radius"], radius, places=4)
        self.assertEqual((result["count"], result["rows"], result["dimension"], result["method"]),
                         (12, 60, 5, "greedy"))
        self.assertGreaterEqual(result["seconds"], 0)
        self.assertEqual(sum(stage["settled"] for stage in result["stages"]), 60 * 12)

    def test_greedy_on_a_base(self):
        points, base = random_rows(50, 4, 2), random_rows(7, 4, 3)
        self.as_json("sample", self.rows("z.npy", points), "--count", 9,
                     "--base", self.rows("b.npy", base), "--out", self.path("picks.npy"))
        self.assertEqual(read_npy(self.path("picks.npy"))[2],
                         naive_greedy(points, base, 9, None)[0])

    def test_starts(self):
        points = random_rows(40, 3, 4)
        z, out = self.rows("z.npy", points), self.path("p.npy")
        self.succeed("sample", z, "--count", 5, "--start", 17, "--out", out)
        self.assertEqual(read_npy(out)[2], naive_greedy(points, [], 5, 17)[0])
        self.succeed("sample", z, "--count", 5, "--start", "random", "--seed", 3, "--out", out)
        picks = read_npy(out)[2]
        self.assertEqual(picks, naive_greedy(points, [], 5, picks[0])[0])
        self.refuse(3, "sample", z, "--count", 5, "--start", 40, says=["z.npy", "40"])
        for start in ["middle", "-1", "1x", "99999999999999999999999"]:
            self.refuse(2, "sample", z, "--count", 5, "--start=" + start, says=["--start"])

    def test_every_method(self):
        points = random_rows(80, 6, 5)
        z, out = self.rows("z.npy", points), self.path("p.npy")
        for method in METHODS:
            with self.subTest(method=method):
                picked = []
                for _ in range(2):
                    result = self.as_json("sample", z, "--count", 8, "--method", method,
                                          "--seed", 11, "--out", out)
                    picked.append(read_npy(out)[2])
                self.assertEqual(picked[0], picked[1])
                self.assertEqual(len(set(picked[0])), 8)
                self.assertTrue(all(0 <= i < 80 for i in picked[0]))
                radius = max(min(distance(p, points[i]) for i in picked[0]) for p in points)
                self.assertAlmostEqual(result["covering_radius"], radius, places=4)
                self.assertEqual(result["method"], method)

    def test_patchcore_writes_radii(self):
        z = self.rows("z.npy", random_rows(50, 6, 5))
        self.succeed("sample", z, "--count", 8, "--method", "patchcore",
                     "--radii", self.path("r.npy"))
        self.assertEqual(read_npy(self.path("r.npy"))[:2], ("<f4", (8,)))

    def test_ratio(self):
        z = self.rows("z.npy", random_rows(25, 2, 6))
        for ratio, count in [("0.5", 12), ("1", 25), ("0.001", 1), ("0.08", 2)]:
            self.assertEqual(self.as_json("sample", z, "--ratio", ratio)["count"], count)
        for ratio in ["0", "-0.5", "1.5", "nan"]:
            self.refuse(3, "sample", z, "--ratio=" + ratio, says=["--ratio"])

    def test_summary_for_people(self):
        z = self.rows("z.npy", random_rows(25, 2, 6))
        text = self.succeed("sample", z, "--count", 4).stdout
        for part in ["4 of 25", "covering radius", "%", "exact"]:
            self.assertIn(part, text)

    def test_count_beyond_the_rows_takes_all(self):
        z, out = self.rows("z.npy", random_rows(10, 2, 7)), self.path("p.npy")
        for method in METHODS:
            with self.subTest(method=method):
                done = self.succeed("sample", z, "--count", 11, "--method", method, "--out", out)
                self.assertIn("z.npy", done.stderr)
                self.assertIn("all", done.stderr)
                self.assertEqual(sorted(read_npy(out)[2]), list(range(10)))

    def test_says_when_there_are_no_more_distinct_points(self):
        z = self.rows("z.npy", [[1, 2], [3, 4], [1, 2], [3, 4], [5, 6]])
        done = self.succeed("sample", z, "--count", 5, "--out", self.path("p.npy"))
        self.assertEqual(len(read_npy(self.path("p.npy"))[2]), 3)
        self.assertIn("distinct", done.stderr)

    def test_base_that_covers_everything(self):
        z = self.rows("z.npy", [[1, 2], [3, 4]])
        b = self.rows("b.npy", [[3, 4], [1, 2]])
        out = self.path("p.npy")
        self.assertEqual(self.as_json("sample", z, "--base", b, "--count", 2, "--out", out)["count"],
                         0)
        self.assertEqual(read_npy(out), ("<i8", (0,), []))

    def test_float16(self):
        numbers = random.Random(8)
        halves = struct.pack("<120e", *[numbers.gauss(0, 1) for _ in range(120)])
        values = struct.unpack("<120e", halves)
        points = [list(values[i : i + 4]) for i in range(0, 120, 4)]
        z = self.write("z.npy", npy_bytes((30, 4), halves, "<f2"))
        self.succeed("sample", z, "--count", 6, "--start", 0, "--out", self.path("p.npy"))
        self.assertEqual(read_npy(self.path("p.npy"))[2], naive_greedy(points, [], 6, 0)[0])

    def test_threads_and_memory_do_not_change_the_picks(self):
        # A few thousand rows near a surface of few dimensions, as features are.
        numbers = random.Random(9)
        axes = [[numbers.gauss(0, 1) for _ in range(128)] for _ in range(4)]
        data = bytearray()
        for _ in range(3000):
            a, b, c, e = (numbers.gauss(0, 1) for _ in range(4))
            data += struct.pack("<128f", *(
                a * s + b * t + c * u + e * v + numbers.random() * 0.1
                for s, t, u, v in zip(*axes)))
        z = self.write("z.npy", npy_bytes((3000, 128), bytes(data)))
        refusal = self.refuse(3, "sample", z, "--count", 200, "--memory-limit", "10K",
                              "--out", self.path("no.npy"), says=["memory limit"])
        least = int(re.search(r"at least (\d+) bytes", refusal).group(1))
        self.refuse(3, "sample", z, "--count", 200, "--memory-limit", least // 2,
                    "--out", self.path("no.npy"), says=["memory limit"])
        outs = []
        for options in [["--threads", 1], ["--threads", 3], ["--memory-limit", least * 2],
                        ["--memory-limit", least + least // 50],
                        ["--memory-limit", "0.5GiB"], ["--memory-limit", "0"]]:
            out = self.path("p%d.npy" % len(outs))
            done = self.run_command("sample", z, "--count", 200, "--out", out, *options)
            self.assertEqual(done.returncode, 0, (options, done.stderr))
            outs.append(read_npy(out))
        for out in outs[1:]:
            self.assertEqual(out, outs[0])

    def test_sizes_that_make_no_sense(self):
        z = self.rows("z.npy", random_rows(20, 2, 1))
        for limit in ["lots", "-1G", "1X", "2GG", "nan", "inf", "1e400", "G", "99999999999T"]:
            self.refuse(2, "sample", z, "--count", 2, "--memory-limit=" + limit,
                        "--out", self.path("no.npy"), says=["is not a size"])
        for limit in ["1g", "512MiB", "1.5GB", "2T", "1000000000"]:
            self.succeed("sample", z, "--count", 2, "--memory-limit", limit)

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_numpy_files(self):
        points = numpy.random.default_rng(1).normal(size=(40, 3)).astype(numpy.float32)
        for name, version in [("v1", (1, 0)), ("v2", (2, 0)), ("v3", (3, 0))]:
            with open(self.path(name + ".npy"), "wb") as file:
                numpy.lib.format.write_array(file, points, version)
            self.succeed("sample", self.path(name + ".npy"), "--count", 5,
                         "--out", self.path("p.npy"))
            picks = numpy.load(self.path("p.npy"))
            self.assertEqual((picks.shape, picks.dtype), ((5,), numpy.int64))
        numpy.save(self.path("f.npy"), numpy.asfortranarray(points))
        self.refuse(3, "sample", self.path("f.npy"), "--count", 5, says=["ascontiguousarray"])


class NearestTest(CliTest):
    def setUp(self):
        super().setUp()
        self.memory = random_rows(40, 6, 21)
        self.queries = random_rows(30, 6, 22)
        self.m = self.rows("m.npy", self.memory)
        self.q = self.rows("q.npy", self.queries)

    def naive(self, query, k):
        return sorted((distance(query, v), i) for i, v in enumerate(self.memory))[:k]

    def test_one_nearest(self):
        result = self.as_json("nearest", self.m, self.q, "--out", self.path("d.npy"),
                              "--indices", self.path("i.npy"))
        expected = [self.naive(query, 1)[0] for query in self.queries]
        self.assertEqual(read_npy(self.path("i.npy")), ("<i8", (30,), [i for _, i in expected]))
        descr, shape, distances = read_npy(self.path("d.npy"))
        self.assertEqual((descr, shape), ("<f4", (30,)))
        for got, (want, _) in zip(distances, expected):
            self.assertAlmostEqual(got, want, places=4)
        self.assertEqual((result["count"], result["k"], result["pairs"]), (30, 1, 1200))
        self.assertAlmostEqual(result["max_distance"], max(distances), places=5)
        self.assertAlmostEqual(result["mean_distance"], sum(distances) / 30, places=5)
        self.assertGreaterEqual(result["exact"], 30)
        self.assertGreaterEqual(result["seconds"], 0)

    def test_several_nearest(self):
        self.succeed("nearest", self.m, self.q, "--k", 4, "--out", self.path("d.npy"),
                     "--indices", self.path("i.npy"))
        expected = [i for query in self.queries for _, i in self.naive(query, 4)]
        self.assertEqual(read_npy(self.path("i.npy")), ("<i8", (30, 4), expected))
        self.assertEqual(read_npy(self.path("d.npy"))[:2], ("<f4", (30, 4)))

    def test_bytes(self):
        dice = numpy.random.default_rng(23)
        memory = dice.integers(0, 256, (300, 130), dtype=numpy.uint8)
        queries = dice.integers(0, 256, (9, 130), dtype=numpy.uint8)
        numpy.save(self.path("bm.npy"), memory)
        numpy.save(self.path("bq.npy"), queries)
        self.succeed("nearest", self.path("bm.npy"), self.path("bq.npy"), "--k", 2,
                     "--out", self.path("d.npy"), "--indices", self.path("i.npy"))
        squared = ((queries[:, None].astype(numpy.int64) - memory) ** 2).sum(2)
        order = numpy.argsort(squared, axis=1, kind="stable")[:, :2]
        self.assertEqual(numpy.load(self.path("i.npy")).tolist(), order.tolist())
        expected = numpy.sqrt(numpy.take_along_axis(squared, order, 1).astype(numpy.float32))
        self.assertEqual(numpy.load(self.path("d.npy")).tolist(), expected.tolist())
        numpy.save(self.path("floats.npy"), queries.astype(numpy.float32))
        self.refuse(3, "nearest", self.path("bm.npy"), self.path("floats.npy"),
                    says=["bm.npy", "floats.npy", "uint8"])

    def test_one_vector_is_one(self):
        one, q, out = self.rows("1.npy", [[1.0, 2.0]]), self.rows("2.npy", [[0.0, 0.0]]), self.path("d.npy")
        self.assertIn("there is only 1 vector", self.succeed("nearest", one, q, "--k", 2, "--out", out).stderr)

    def test_more_than_there_are(self):
        result = self.as_json("nearest", self.m, self.q, "--k", 41, "--indices", self.path("i.npy"))
        self.assertIsNone(result["max_distance"])
        self.assertEqual(read_npy(self.path("i.npy"))[2][40::41], [-1] * 30)
        self.refuse(3, "nearest", self.m, self.q, "--k", 2**63, says=["--k"])
        self.refuse(3, "nearest", self.m, self.q, "--k", 0, says=["--k"])

    def test_threads(self):
        for threads in [1, 3]:
            self.succeed("nearest", self.m, self.q, "--k", 3, "--threads", threads,
                         "--out", self.path("d%d.npy" % threads))
        self.assertEqual(read_npy(self.path("d1.npy")), read_npy(self.path("d3.npy")))

    def test_summary_for_people(self):
        self.assertIn("30 queries", self.succeed("nearest", self.m, self.q).stdout)

    def test_bad_inputs(self):
        out = ["--out", self.path("d.npy"), "--indices", self.path("i.npy")]
        other = self.rows("other.npy", random_rows(3, 5, 1))
        self.refuse(3, "nearest", self.m, other, *out, says=["other.npy", "m.npy", "5", "6"])
        self.queries[17][3] = math.nan
        bad = self.rows("bad.npy", self.queries)
        self.refuse(3, "nearest", self.m, bad, *out, says=["bad.npy", "row 17", "column 3"])
        self.refuse(3, "nearest", bad, self.q, *out, says=["bad.npy", "row 17", "column 3"])
        self.refuse(3, "nearest", self.path("none.npy"), self.q, *out, says=["none.npy"])
        self.refuse(2, "nearest", self.m, *out)

    def test_the_first_output_goes_when_the_second_fails(self):
        self.refuse(3, "nearest", self.m, self.q, "--out", self.path("d.npy"),
                    "--indices", "/dev/full", says=["/dev/full", "the disk is full"])


class BadInputTest(CliTest):
    def refuse_file(self, content, *says):
        z = self.write("bad.npy", content)
        self.refuse(3, "sample", z, "--count", 2, "--out", self.path("p.npy"),
                    "--radii", self.path("r.npy"), says=["bad.npy", *says])

    def test_files_that_cannot_be_used(self):
        data = struct.pack("<6f", *range(6))
        good = npy_bytes((2, 3), data)
        self.refuse_file(b"not an array", "not an .npy")
        self.refuse_file(b"", "empty")
        self.refuse_file(good[:60], "cut short")
        self.refuse_file(good[:-1], "cut short", "24", "23")
        self.refuse_file(good + b"x", "longer")
        self.refuse_file(npy_bytes((2, 3), data, fortran=True), "ascontiguousarray")
        self.refuse_file(npy_bytes((2, 3), data * 2, "<f8"), "astype(numpy.float32)")
        self.refuse_file(npy_bytes((2, 3), data, ">f4"), "big endian")
        self.refuse_file(npy_bytes((6,), data), "reshape")
        self.refuse_file(npy_bytes((1, 2, 3), data), "reshape")
        self.refuse_file(npy_bytes((0, 3), b""), "no vectors")
        self.refuse_file(npy_bytes((2**60, 3), data), "cut short")
        self.refuse_file(npy_bytes((2**62, 4), data), "cut short")
        self.refuse_file(npy_bytes((1, 2**60), data), "65536")

    def test_places_without_a_file(self):
        self.refuse(3, "sample", self.path("none.npy"), "--count", 1,
                    says=["none.npy", "No such file"])
        self.refuse(3, "sample", self.folder, "--count", 1, says=[self.folder, "folder"])
        os.mkfifo(self.path("pipe"))
        self.refuse(3, "sample", self.path("pipe"), "--count", 1, says=["pipe"])

    def test_values_that_are_not_finite(self):
        for value, word in [(math.nan, "not a number"), (math.inf, "infinite"),
                            (-math.inf, "infinite")]:
            rows = random_rows(30, 5, 3)
            rows[17][3] = value
            bad = self.rows("bad.npy", rows)
            good = self.rows("good.npy", random_rows(30, 5, 4))
            for method in METHODS:
                self.refuse(3, "sample", bad, "--count", 5, "--method", method,
                            "--out", self.path("p.npy"),
                            says=["bad.npy", "row 17", "column 3", word])
            self.refuse(3, "sample", good, "--base", bad, "--count", 5,
                        "--out", self.path("p.npy"), says=["bad.npy", "row 17", "column 3", word])

    def test_base_of_another_dimension(self):
        z, b = self.rows("z.npy", [[1, 2]]), self.rows("b.npy", [[1, 2, 3]])
        self.refuse(3, "sample", z, "--base", b, "--count", 1, "--out", self.path("p.npy"),
                    says=["b.npy", "z.npy", "dimensions"])

    def test_count_of_zero(self):
        z = self.rows("z.npy", [[1, 2], [3, 4]])
        self.refuse(3, "sample", z, "--count", 0, "--out", self.path("p.npy"), says=["--count"])

    def test_outputs_that_cannot_be_written(self):
        z = self.rows("z.npy", random_rows(20, 2, 1))
        for option in ["--out", "--radii"]:
            self.refuse(3, "sample", z, "--count", 2, option, self.path("none/p.npy"),
                        says=["none/p.npy", "No such file"])
            self.refuse(3, "sample", z, "--count", 2, option, self.folder,
                        says=[self.folder, "folder"])
            self.refuse(3, "sample", z, "--count", 2, option, z + "/p.npy", says=["z.npy/p.npy"])
            self.refuse(3, "sample", z, "--count", 2, option, "/dev/full", says=["/dev/full"])
        self.refuse(3, "sample", z, "--count", 2, "--out", self.path("p.npy"),
                    "--radii", "/dev/full", says=["/dev/full"])
        if os.geteuid() != 0:
            os.mkdir(self.path("closed"), 0o500)
            self.refuse(3, "sample", z, "--count", 2, "--out", self.path("closed/p.npy"),
                        says=["closed/p.npy", "Permission denied"])

    def test_a_failed_run_keeps_the_old_output(self):
        bad = self.rows("bad.npy", [[1, 2], [math.nan, 4]])
        old = self.write("p.npy", b"the old picks")
        self.refuse(3, "sample", bad, "--count", 1, "--out", old, says=["bad.npy"])
        with open(old, "rb") as file:
            self.assertEqual(file.read(), b"the old picks")

    def test_a_full_standard_output(self):
        z = self.rows("z.npy", random_rows(20, 2, 1))
        with open("/dev/full", "wb") as full:
            done = subprocess.run([CONTCORE, "sample", z, "--count", "2",
                                   "--out", self.path("p.npy")],
                                  stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("standard output", done.stderr)
        self.assertFalse(os.path.exists(self.path("p.npy")))

    @unittest.skipIf(os.environ.get("CONTCORE_SANITIZE"),
                     "sanitizers end the process when an allocation fails")
    def test_not_enough_memory(self):
        z = self.rows("z.npy", random_rows(20, 2, 1))
        self.refuse(3, "nearest", z, z, "--k", 2**45, "--out", self.path("d.npy"),
                    says=["memory"])


class QuantizeTest(CliTest):
    """The 8-bit form of the built-in network, calibrated with two small images, for speed."""

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("images"))
        shades = random.Random(1)
        for name in ["a.ppm", "b.ppm"]:
            pixels = bytes(shades.randrange(256) for _ in range(3 * 64 * 64))
            self.write("images/" + name, b"P6 64 64 255\n" + pixels)

    def quantize(self, out, *options):
        return self.as_json("backbone", "quantize", "builtin", "--images", self.path("images"), "--out",
                            self.path(out), *options)

    def test_makes_the_same_file_again(self):
        said = self.quantize("a.onnx", "--threads", 1)
        self.assertEqual(self.quantize("b.onnx", "--threads", 2)["sha256"], said["sha256"])
        with open(self.path("a.onnx"), "rb") as a, open(self.path("b.onnx"), "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.assertEqual(said["bytes"], os.path.getsize(self.path("a.onnx")))
        self.assertEqual(said["convolutions"], 15)
        self.assertEqual(said["stay_float"], [])
        self.assertLess(said["relative_error"], 0.3)
        self.assertTrue(said["useful"])

    def test_says_what_it_did(self):
        done = self.succeed("backbone", "quantize", "builtin", "--images", self.path("images"), "--out",
                            self.path("a.onnx"))
        for part in ["15 convolutions in 8 bits", "MB before", "off the float ones",
                     "2 images", "sha256"]:
            self.assertIn(part, done.stdout)
        self.assertIn("in 8 bits", self.succeed("backbone", "info", self.path("a.onnx")).stdout)
        bench = self.as_json("backbone", "bench", self.path("a.onnx"), "--size", 64, "--runs", 1)
        self.assertNotIn("8bit", bench)  # it has no other form
        self.refuse(3, "backbone", "quantize", self.path("a.onnx"), "--out", self.path("b.onnx"),
                    says=["a.onnx", "8 bits already"])

    def test_info_tells_of_the_form_without_making_it(self):
        os.environ["XDG_CACHE_HOME"], old = self.folder, os.environ.get("XDG_CACHE_HOME")
        try:
            said = self.succeed("backbone", "info", "builtin").stdout
        finally:
            del os.environ["XDG_CACHE_HOME"]
            if old is not None:
                os.environ["XDG_CACHE_HOME"] = old
        self.assertIn("8-bit form: 15 convolutions; not made yet: it is when 8 bits are first used", said)
        self.assertEqual(os.listdir(self.folder), ["images"])

    def test_refuses(self):
        os.mkdir(self.path("empty"))
        out = ["--out", self.path("a.onnx")]
        self.refuse(3, "backbone", "quantize", "builtin", "--images", self.path("empty"), *out, says=["no images"])
        self.refuse(3, "backbone", "quantize", self.path("none.onnx"), *out, says=["none.onnx"])
        self.refuse(3, "backbone", "quantize", self.path("images/a.ppm"), *out, says=["a.ppm"])
        self.refuse(2, "backbone", "quantize", "builtin", says=["--out", "contcore backbone quantize --help"])
        self.write("images/a.ppm", b"P6 64 64 255\n")  # measuring would name it
        images = ["--images", self.path("images")]
        self.refuse(3, "backbone", "quantize", "builtin", *images, *out, says=["a.ppm"])
        self.refuse(3, "backbone", "quantize", "builtin", *images, *out, "--layers", "nope", says=["'nope'"])
        self.refuse(3, "backbone", "quantize", "builtin", *images, "--out", self.path("none/a.onnx"), says=["none/a"])


class UsageTest(CliTest):
    def test_help_and_version(self):
        for option in ["--version", "-V"]:
            version, devices = self.succeed(option).stdout.splitlines()
            self.assertEqual(version, "0.1.0")
            self.assertRegex(devices, r"\Adevices: cpu \(\d+ threads?\)(; no GPU: .|, cuda:\d+ \(.+ GiB\))")
        for arguments in [["--help"], ["sample", "--help"], ["nearest", "--help"]]:
            text = self.succeed(*arguments).stdout
            self.assertIn("xample", text)
            self.assertIn("--help", text)

    def test_devices(self):
        z = self.rows("z.npy", random_rows(300, 8, 1))
        picks = []
        for device in [["--device", "cpu"], ["--device", "auto"], []]:
            out = self.path("p%d.npy" % len(picks))
            said = self.as_json("sample", z, "--count", 20, "--out", out, *device)
            self.assertIn(said["device"].split(":")[0], ["cpu"] if "cpu" in device else ["cpu", "cuda"])
            picks.append(read_npy(out))
        self.assertEqual(picks[1:], picks[:1] * 2)
        out = ["--out", self.path("no.npy")]
        for word in ["gpu", "", "CPU", "cuda:", "cuda:-1", "cuda:x", "cuda:1000", "cuda 0"]:
            self.refuse(2, "sample", z, "--count", 2, "--device", word, *out,
                        says=["'%s' is not a device" % word, "cpu", "auto"])
        self.assertIn("cuda:999", self.refuse(2, "sample", z, "--count", 2, "--device", "cuda:999", *out))
        reason = self.succeed("--version").stdout.partition("no GPU: ")[2].strip()
        if not reason:
            return  # there is one
        nothing = self.path("nothing")
        for command in [
            ["sample", z, "--count", 2, *out], ["nearest", z, z, *out],
            ["learn", self.path("line.ccm"), z, "--task", "a"], ["demo", "--report", nothing],
            ["serve", self.path("line.ccm"), "--port", 0], ["backbone", "bench", "builtin", "--runs", 1],
        ]:
            with self.subTest(command=command):
                for word in ["cuda", "cuda:0"]:
                    self.refuse(2, *command, "--device", word,
                                says=["%s cannot be used: %s" % (word, reason), "device cpu does without it"])

    def test_every_command_that_computes_has_a_device(self):
        for command in [
            ["learn"], ["inspect"], ["merge"], ["shrink"], ["forget"], ["evaluate"], ["analyze", "bound"],
            ["analyze", "compare"], ["backbone", "bench"], ["extract"], ["sample"], ["nearest"], ["serve"], ["demo"],
        ]:
            text = self.succeed(*command, "--help").stdout
            self.assertIn("--threads", text)
            self.assertIn("--device DEVICE", text)

    def test_help_command(self):
        for words in [[], ["learn"], ["backbone", "fetch"]]:
            self.assertEqual(self.succeed("help", *words).stdout, self.succeed(*words, "--help").stdout)
        self.refuse(2, "help", "lern", says=["no command 'contcore lern'", "did you mean learn?"])
        self.refuse(2, "help", "backbone", "fetsch", says=["'contcore backbone fetsch'", "mean fetch?"])

    def test_did_you_mean(self):
        for arguments, meant in [
            (["lern", "line.ccm"], "learn"), (["isnpect"], "inspect"), (["insp"], "inspect"),
            (["backbone", "fetsch"], "fetch"), (["sample", "z.npy", "--cuont", "3"], "--count"),
            (["inspect", "a", "b", "--heatmap=x"], "--heatmaps"),
        ]:
            self.refuse(2, *arguments, says=["did you mean %s?" % meant])
        for arguments in [["paint"], ["x"], ["sample", "z.npy", "--paint"], ["learn", "--hold-ou", "1"]]:
            self.assertNotIn("did you mean", self.refuse(2, *arguments))

    def test_misuse(self):
        z = self.rows("z.npy", random_rows(20, 2, 1))
        b = self.rows("b.npy", random_rows(3, 2, 1))
        out = ["--out", self.path("p.npy")]
        for arguments in [
            [], ["paint"], ["--paint"], ["sample"], ["sample", z], ["sample", z, *out],
            ["sample", z, "--count", "2", "--ratio", "0.5", *out],
            ["sample", z, "--count", "2", "--paint", *out],
            ["sample", z, "--count", "two", *out],
            ["sample", z, "--count=-2", *out],
            ["sample", z, "--count", "99999999999999999999999", *out],
            ["sample", z, "--count", "2", "--method", "magic", *out],
            ["sample", z, "--count", "2", "--threads=-1", *out],
            ["sample", z, b, "--count", "2", *out],
            ["sample", z, "--count", "2", "--out"],
            ["sample", z, "--count", "2", "--out", z],
            ["sample", z, "--count", "2", "--base", b, "--out", b],
            ["sample", z, "--count", "2", *out, "--radii", self.path("./p.npy")],
            ["nearest", z, b, "--k", "many", *out],
            ["nearest", z, b, "--k=-1", *out],
            ["sample", z, "--count", "2", "--seed=-1", *out],
            ["sample", z, "--count", "1.5", *out],
            ["nearest", z, b, *out, "--indices", self.path("p.npy")],
        ] + [["sample", z, "--count", "2", "--method", method, *more, *out]
             for method in METHODS[1:] for more in [["--base", b], ["--start", "mean"]]
        ] + [["sample", z, "--count", "2", "--method", method, "--radii", self.path("r.npy"), *out]
             for method in ["random", "reservoir", "herding"]]:
            with self.subTest(arguments=arguments):
                self.assertNotEqual(self.refuse(2, *arguments), "")

    def test_a_reader_that_goes_away(self):
        z = self.rows("z.npy", random_rows(20, 2, 1))
        for arguments in [["sample", z, "--count", "2", "--json"], ["--help"]]:
            reading, writing = os.pipe()
            os.close(reading)
            done = subprocess.run([CONTCORE, *arguments], stdout=writing, stderr=subprocess.PIPE)
            os.close(writing)
            self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_closed_streams(self):
        z, out = self.rows("z.npy", random_rows(20, 2, 1)), self.path("p.npy")
        command = '"%s" sample "%s" --count 30 --out "%s" <&- >&- 2>&-' % (CONTCORE, z, out)
        self.assertEqual(subprocess.run(["sh", "-c", command]).returncode, 0)
        self.assertEqual(read_npy(out)[1], (20,))

    def test_an_output_on_standard_output_stands_alone(self):
        z = self.rows("z.npy", random_rows(20, 2, 1))
        done = subprocess.run([CONTCORE, "sample", z, "--count", "2", "--out", "/dev/stdout"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("p.npy"), "wb") as file:
            file.write(done.stdout)
        self.assertEqual(read_npy(self.path("p.npy"))[1], (2,))
        self.assertIn(b"2 of 20", done.stderr)


class CompletionTest(CliTest):
    def test_they_know_what_the_command_does(self):
        done = subprocess.run([sys.executable, os.path.join(PACKAGING, "from_help.py"), CONTCORE, "--check"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)

    def complete(self, *words):
        """What bash offers for the last of some words."""
        script = 'cd "$1"; . "$2"; shift 2; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _contcore; printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", script, "bash", self.folder, os.path.join(PACKAGING, "contcore.bash"),
                               "contcore", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split("\n")[:-1]

    def test_bash(self):
        self.write("line 1.ccm", b"")
        os.mkdir(self.path("lines"))
        for words, offered in [
            (["lea"], ["learn"]),
            (["backbone", "f"], ["fetch"]),
            (["help", "insp"], ["inspect"]),
            (["inspect", "--heat"], ["--heatmaps"]),
            (["inspect", "li"], ["line 1.ccm", "lines"]),
            (["inspect", "line 1.ccm", "--heatmaps", "li"], ["lines"]),
            (["learn", "line 1.ccm", "--precision", ""], ["8bit", "float"]),
            (["learn", "line 1.ccm", "--backbone", "b"], ["builtin"]),
            (["learn", "line 1.ccm", "--task", "li"], [""]),
            (["lern", "--"], [""]),
        ]:
            with self.subTest(words=words):
                self.assertEqual(sorted(self.complete(*words)), offered)

    def test_zsh(self):
        if not shutil.which("zsh"):
            return  # the options are the same as bash's, which is always there
        with open(os.path.join(PACKAGING, "_contcore")) as file:
            done = subprocess.run(["zsh", "-n"], stdin=file, stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class LongRunTest(CliTest):
    """Runs of many seconds on random data, which no sketch helps with, stopped long before."""

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp(prefix="contcore_cli_")
        cls.z = os.path.join(cls.shared, "z.npy")
        # Random bytes with the last of each four fixed are floats between 0.5 and 2.
        data = bytearray(random.Random(1).randbytes(30000 * 512 * 4))
        data[3::4] = b"\x3f" * (30000 * 512)
        with open(cls.z, "wb") as file:
            file.write(npy_bytes((30000, 512), b"") + data)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared)

    def start(self, **options):
        return subprocess.Popen(
            [CONTCORE, "sample", self.z, "--ratio", "0.9", "--threads", "1",
             "--out", self.path("p.npy")],
            stdout=subprocess.PIPE, preexec_fn=default_interrupts, **options)

    def end(self, process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def test_interrupt(self):
        for pause in [0.3, 2.0]:
            process = self.start(stderr=subprocess.PIPE)
            self.addCleanup(self.end, process)
            wait_until_it_listens(process)
            time.sleep(pause)
            self.assertIsNone(process.poll(), "the run is too short to be stopped")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
            self.assertEqual(process.returncode, 130, err)
            self.assertEqual(out, b"")
            self.assertIn(b"stopped; what was not finished was not written", err)
            self.assertEqual(os.listdir(self.folder), [])

    def test_bar_on_a_terminal(self):
        ours, theirs = pty.openpty()
        process = self.start(stderr=theirs, env={**os.environ, "TERM": "xterm"})
        self.addCleanup(self.end, process)
        os.close(theirs)
        shown = b""
        end = time.time() + 2.5
        while time.time() < end:
            self.assertIsNone(process.poll(), "the run is too short to be stopped")
            if select.select([ours], [], [], 0.1)[0]:
                shown += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        try:
            while True:
                piece = os.read(ours, 4096)
                if not piece:
                    break
                shown += piece
        except OSError:  # the other side is closed
            pass
        os.close(ours)
        self.assertEqual(process.wait(timeout=20), 130)
        self.assertIn(b"%", shown)
        self.assertIn(b"[", shown)
        self.assertLessEqual(shown.count(b"%"), 30)
        # The bar is erased before the last words.
        self.assertTrue(shown.endswith(b"\r\x1b[Kcontcore: stopped; what was not finished was not written\r\n"), shown)

    def test_quiet_when_short(self):
        z = self.rows("z.npy", random_rows(20, 2, 1))
        self.assertEqual(self.succeed("sample", z, "--count", 2).stderr, "")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    CONTCORE = os.path.abspath(sys.argv.pop(1))
    loud.main()
