"""Drives evaluate and analyze as a user would.  Usage: evaluate_test.py PATH_TO_CONTCORE"""

import csv
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib
from xml.etree import ElementTree

import numpy

import loud

CONTCORE = "contcore"
SIDE = 64


def write_png(path, gray_or_rgb):
    pixels = numpy.clip(gray_or_rgb, 0, 255).astype(numpy.uint8)
    if pixels.ndim == 2:
        pixels = numpy.stack([pixels] * 3, axis=2)
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + pixels[y].tobytes() for y in range(height))

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    with open(path, "wb") as file:
        file.write(
            b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows))
            + chunk(b"IEND", b"")
        )


def piece(style, index, defect):
    """Stripes of one of several kinds; a defect is a red square, and the mask says where."""
    numbers = numpy.random.RandomState(1000 * style + index)
    y, x = numpy.mgrid[0:SIDE, 0:SIDE]
    wave = numpy.sin((x * (style % 3) + y * (style + 1)) * 0.25 + numbers.uniform(0, 6.28))
    gray = 120 + 50 * wave + numbers.normal(0, 4, (SIDE, SIDE))
    pixels = numpy.stack([gray, gray * (0.6 + 0.1 * style), 255 - gray], axis=2)
    mask = numpy.zeros((SIDE, SIDE))
    if defect:
        pixels[20:34, 30:44] = [250, 20, 20]
        mask[20:34, 30:44] = 255
    return pixels, mask


def write_dataset(root, styles, defects=True):
    for style in styles:
        base = os.path.join(root, "product%d" % style)
        for kind in ["train/good", "test/good"] + (
            ["test/square", "ground_truth/square"] if defects else []
        ):
            os.makedirs(os.path.join(base, kind))
        for i in range(8):
            write_png("%s/train/good/%03d.png" % (base, i), piece(style, i, False)[0])
        for i in range(5):
            write_png("%s/test/good/%03d.png" % (base, i), piece(style, 100 + i, False)[0])
            if defects:
                pixels, mask = piece(style, 200 + i, True)
                write_png("%s/test/square/%03d.png" % (base, i), pixels)
                write_png("%s/ground_truth/square/%03d_mask.png" % (base, i), mask)


class EvaluateTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp()
        cls.data = os.path.join(cls.shared, "products")
        write_dataset(cls.data, range(3))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared)

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.cache = os.path.join(self.folder, "cache")

    def tearDown(self):
        shutil.rmtree(self.folder)

    def options(self, data=None):
        return [data or self.data, "--backbone", "builtin", "--resize", "64", "--crop", "56"] + [
            "--cache",
            self.cache,
        ]

    def run_it(self, command, *arguments, data=None, code=0):
        done = subprocess.run(
            [CONTCORE, *command.split(), *self.options(data), *arguments],
            capture_output=True,
            text=True,
            timeout=600,
        )
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def test_finds_what_is_easy_to_find(self):
        done = self.run_it("evaluate", "--json", "-m", "300", "--ratio", "0.05")
        (run,) = json.loads(done.stdout)
        self.assertEqual(run["tasks"], [["product0"], ["product1"], ["product2"]])
        self.assertGreater(run["summary"]["average"]["image_auroc"], 0.95)
        self.assertGreater(run["summary"]["average"]["pixel_auroc"], 0.9)
        self.assertEqual([len(step) for step in run["steps"]], [1, 2, 3])

    def test_large_images_in_tiles(self):
        tiles = ["--backbone", "builtin", "--tile", "48", "--overlap", "16", "--cache", self.cache]
        command = [CONTCORE, "evaluate", self.data, "--json", "-m", "300", "--ratio", "0.05", *tiles]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        (run,) = json.loads(done.stdout)
        self.assertGreater(run["summary"]["average"]["image_auroc"], 0.95)
        self.assertGreater(run["summary"]["average"]["pixel_auroc"], 0.9)

    def test_all_methods_and_a_report(self):
        report = os.path.join(self.folder, "report")
        done = self.run_it("evaluate", "--method", "all", "-m", "60", "--schedule", "2-1", "--report", report)
        lines = done.stdout.strip().splitlines()
        self.assertEqual(len(lines), 14)
        self.assertTrue(lines[1].startswith("contcore "))
        self.assertIn("task 1: product0, product1", done.stderr)
        with open(os.path.join(report, "index.html"), encoding="utf-8") as file:
            page = file.read()
        for word in ["patchcore-oracle", "herding", "product2", "evaluate"]:
            self.assertIn(word, page)
        for outside in ["http://", "https://"]:
            self.assertNotIn(outside, page.replace("http://www.w3.org", ""))
        with open(os.path.join(report, "results.json")) as file:
            self.assertEqual(len(json.load(file)["runs"]), 13)
        with open(os.path.join(report, "results.csv"), newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 13 * (2 + 3))
        self.assertTrue(os.path.exists(os.path.join(report, "results.md")))
        for figure in os.listdir(os.path.join(report, "figures")):
            root = ElementTree.parse(os.path.join(report, "figures", figure)).getroot()
            self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        # Data set, cache and report are in temporary folders, which are nobody's business.
        for folder, _, files in os.walk(report):
            for name in files:
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    text = file.read()
                self.assertNotIn(tempfile.gettempdir() + "/", text, name)
        self.assertIn("<small>product0/test/", page)

    def test_a_second_run_comes_from_the_cache(self):
        first = self.run_it("evaluate", "-m", "50", "--method", "contcore,random")
        again = self.run_it("evaluate", "-m", "50", "--method", "contcore,random")
        self.assertIn("2 runs from the cache", again.stderr)
        self.assertEqual(first.stdout, again.stdout)
        fresh = self.run_it("evaluate", "-m", "50", "--method", "random", "--fresh")
        self.assertNotIn("from the cache", fresh.stderr)

    def test_sweeps_seeds_and_orders(self):
        done = self.run_it(
            "evaluate", "--json", "--method", "random", "--sweep", "m=20,40", "--sweep", "p=0.02,0.05",
            "--seeds", "2", "--order", "shuffle:1", "--order", "product2,product0,product1",
        )
        runs = json.loads(done.stdout)
        self.assertEqual(len(runs), 2 * 2 * 2 * 2)
        self.assertEqual({run["setting"]["m"] for run in runs}, {20, 40})
        self.assertEqual(runs[-1]["tasks"][0], ["product2"])
        self.assertNotEqual(runs[0]["steps"], runs[1]["steps"])

    def test_across_data_sets_and_online(self):
        other = os.path.join(self.folder, "others")
        write_dataset(other, range(3, 5))
        done = self.run_it(
            "evaluate", "--json", "--online", "-m", "100", "--schedule", "others>products",
            data=self.data + "," + other,
        )
        (run,) = json.loads(done.stdout)
        self.assertEqual(run["setting"]["method"], "contcore-online")
        self.assertEqual(run["setting"]["p"], 0.1)
        self.assertEqual([len(task) for task in run["tasks"]], [2, 3])

    def test_only_good_images_are_no_zero(self):
        good = os.path.join(self.folder, "good")
        write_dataset(good, range(2), defects=False)
        done = self.run_it("evaluate", "-m", "50", data=good)
        self.assertIn("- / -", done.stdout)
        self.assertIn("good", done.stderr)

    def test_analyses(self):
        done = self.run_it("analyze bound", "--json", "--images", "4", "--per-task", "5", "--ratio", "0.05")
        rows = json.loads(done.stdout)
        self.assertEqual([row["tasks"] for row in rows], [2, 3])
        for row in rows:
            self.assertTrue(row["holds"])
            self.assertLessEqual(row["covering"], row["certificate"])
        done = self.run_it("analyze compare", "--json", "-m", "12")
        self.assertEqual([row["method"] for row in json.loads(done.stdout)], ["contcore", "contcore-paper", "random"])
        self.assertIn("T", self.run_it("analyze bound", "--images", "4").stdout)

    def test_mistakes_are_named(self):
        for arguments, code, words in [
            (["--schedule", "1x15"], 2, ["15", "3"]),
            (["--schedule", "ten"], 2, ["ten"]),
            (["--method", "patchcor"], 2, ["patchcor", "patchcore-oracle"]),
            (["--classes", "nothing"], 2, ["nothing"]),
            (["--sweep", "k=3"], 2, ["k=3", "m=10000"]),
            (["--sweep", "m=x"], 2, ["'x'"]),
            (["--order", "product0"], 2, ["product1"]),
            (["--ratio", "7"], 2, ["7"]),
            (["-m", "0"], 2, ["--capacity", "from 1 on"]),
            (["--memory", ""], 2, ["--memory"]),
            (["--dimension", "0", "--memory", "1M"], 2, ["--dimension"]),
            (["--paper"], 2, ["--paper", "--resize"]),
        ]:
            done = self.run_it("evaluate", *arguments, code=code)
            for word in words:
                self.assertIn(word, done.stderr, arguments)
            self.assertEqual(done.stdout, "")
            self.assertEqual("--sweep" in done.stderr, "--sweep" in arguments)
        done = self.run_it("evaluate", data=os.path.join(self.folder, "nowhere"), code=3)
        self.assertIn("nowhere", done.stderr)

    def test_the_papers_settings_stand_alone(self):
        for option in ["--q", "0.2"], ["--consolidate", "share"], ["--score", "map"], ["--precision", "float"]:
            done = subprocess.run([CONTCORE, "evaluate", self.data, "--paper", *option],
                                  capture_output=True, text=True, timeout=60)  # fmt: skip
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("leave out %s" % option[0], done.stderr)

    def test_a_cache_that_cannot_be_made(self):
        file = os.path.join(self.folder, "file")
        open(file, "w").close()
        self.cache = os.path.join(file, "below")
        done = self.run_it("evaluate", code=3)
        for words in [file, "Not a directory", "--cache"]:
            self.assertIn(words, done.stderr)

    def test_a_missing_and_a_wrong_mask(self):
        data = os.path.join(self.folder, "masks")
        write_dataset(data, range(2))
        mask = data + "/product0/ground_truth/square/001_mask.png"
        os.remove(mask)
        done = self.run_it("evaluate", "-m", "50", "--json", data=data)
        (run,) = json.loads(done.stdout)
        self.assertIn("mask", done.stderr)
        self.assertIsNone(run["steps"][1][0]["pixel_auroc"])
        self.assertIsNotNone(run["steps"][1][1]["pixel_auroc"])
        write_png(mask, numpy.zeros((5, 9)))
        done = self.run_it("evaluate", "-m", "50", data=data, code=3)
        self.assertIn("9 x 5", done.stderr)

    def test_goes_on_after_an_interruption(self):
        command = [CONTCORE, "evaluate", *self.options(), "--method", "all", "-m", "40"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        results = os.path.join(self.cache, "results")
        end = time.monotonic() + 300
        while time.monotonic() < end and process.poll() is None:
            if os.path.isdir(results) and any(n.endswith(".json") for n in os.listdir(results)):
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)
        if process.returncode != 0:  # it was not done yet
            self.assertEqual(process.returncode, 130, said)
            self.assertIn("goes on", said)
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("from the cache", done.stderr)
        left = [n for n in os.listdir(os.path.join(self.cache, "features")) if ".part-" in n]
        self.assertEqual(left, [])


if __name__ == "__main__":
    CONTCORE = os.path.abspath(sys.argv.pop(1))
    loud.main()
