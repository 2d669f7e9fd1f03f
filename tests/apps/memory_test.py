"""Drives learn, inspect, info, merge and extract as a user would.  Usage: memory_test.py PATH_TO_CONTCORE"""

import fcntl
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

import numpy

import loud

CONTCORE = "contcore"
HERE = os.path.dirname(os.path.abspath(__file__))
SIDE = 64
KILLS = int(os.environ.get("CONTCORE_TEST_KILLS", "12"))
SLOW = os.environ.get("CONTCORE_SANITIZE", "") != ""
# Small images and a small memory, so that a run takes a moment.
SMALL = ["--backbone", "builtin", "--resize", "64"]


def write_image(path, pixels):
    height, width, _ = pixels.shape
    with open(path, "wb") as file:
        file.write(b"P6 %d %d 255\n" % (width, height) + pixels.astype(numpy.uint8).tobytes())


def write_mask(path, size, box):
    """A PNG in gray, white in the box."""
    width, height = size
    x, y, across, down = box
    pixels = numpy.zeros((height, width), numpy.uint8)
    pixels[y : y + down, x : x + across] = 255

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)))
        file.write(chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def product(style, index, defect=False):
    """Stripes of one of several kinds, each image shifted and lit differently."""
    numbers = numpy.random.RandomState(1000 * style + index)
    y, x = numpy.mgrid[0:SIDE, 0:SIDE]
    phase = numbers.uniform(0, 6.28)
    wave = numpy.sin((x * (style % 3) + y * (style + 1)) * 0.25 + phase)
    gray = 120 + 50 * wave + numbers.normal(0, 4, (SIDE, SIDE)) + numbers.uniform(-10, 10)
    pixels = numpy.stack([gray, gray * (0.6 + 0.1 * style), 255 - gray], axis=2)
    if defect:
        pixels[20:34, 30:44] = [250, 20, 20]
    return numpy.clip(pixels, 0, 255)


def wait_until_it_listens(process):
    """Until the command has taken SIGINT into its own hands: starting takes a while on a busy machine."""
    end = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < end:
        with open("/proc/%d/status" % process.pid) as file:
            caught = [line.split()[1] for line in file if line.startswith("SigCgt:")]
        if caught and int(caught[0], 16) >> (signal.SIGINT - 1) & 1:
            return
        time.sleep(0.02)


def read_array(path, name):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        entry = json.loads(file.read(length))[name]
        data = file.read()
    kind = {"F32": "<f4", "I32": "<i4", "U8": "u1"}[entry["dtype"]]
    return numpy.frombuffer(data[slice(*entry["data_offsets"])], kind).reshape(entry["shape"])


class MemoryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp()
        for style in range(3):
            for part, count in [("good", 30), ("test_good", 4), ("test_bad", 4)]:
                folder = os.path.join(cls.shared, "product%d" % style, part)
                os.makedirs(folder)
                for i in range(count):
                    number = i + (100 if part != "good" else 0)
                    write_image(
                        os.path.join(folder, "%03d.ppm" % i),
                        product(style, number, part == "test_bad"),
                    )

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared)

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.memory = os.path.join(self.folder, "line.ccm")

    def tearDown(self):
        shutil.rmtree(self.folder)

    def run_command(self, *arguments, **more):
        return subprocess.run(
            [CONTCORE, *map(str, arguments)], capture_output=True, text=True, timeout=300, **more
        )

    def succeed(self, *arguments, **more):
        done = self.run_command(*arguments, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def fail_with(self, code, words, *arguments, **more):
        done = self.run_command(*arguments, **more)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        return done

    def images(self, style, part="good"):
        return os.path.join(self.shared, "product%d" % style, part)

    def copies(self, folder, count):
        """Folders of the same images; a file that is given twice is learned once."""
        names = [os.path.join(self.shared, "copies", str(i), os.path.relpath(folder, self.shared)) for i in range(count)]
        for name in names:
            if not os.path.isdir(name):
                shutil.copytree(folder, name)
        return names

    def learn(self, style=0, *more, memory=None):
        return self.succeed(
            "learn",
            memory or self.memory,
            self.images(style),
            "--task",
            "product%d" % style,
            *(SMALL if not os.path.exists(memory or self.memory) else []),
            *more,
        )

    def content(self):
        with open(self.memory, "rb") as file:
            return file.read()

    # ---- what it is for

    def test_learns_and_finds_defects(self):
        made = self.learn(0, "--capacity", 300, "--ratio", 0.2)
        self.assertRegex(made.stderr, r"1?\d\.\d % off the float ones on 4 images \(up to 25 % has done no harm\)")
        self.learn(1, "--ratio", 0.2)
        learned = json.loads(self.learn(2, "--ratio", 0.2, "--json").stdout)
        self.assertEqual(learned["learned"], 30)
        self.assertEqual(learned["skipped"], [])
        self.assertEqual(learned["vectors"], 300)
        for style in range(3):
            for part, verdict in [("test_good", "good"), ("test_bad", "defect")]:
                lines = self.succeed("inspect", self.memory, self.images(style, part), "--json")
                seen = [json.loads(line) for line in lines.stdout.splitlines()]
                self.assertEqual(len(seen), 4)
                self.assertEqual({s["task"] for s in seen}, {"product%d" % style})
                right = sum(s["verdict"] == verdict for s in seen)
                self.assertGreaterEqual(right, 3, seen)
                if part == "test_bad":  # 30…43 across, 20…33 down, give or take a patch
                    for s in seen:
                        self.assertTrue(20 <= s["peak"]["x"] <= 54, s)
                        self.assertTrue(10 <= s["peak"]["y"] <= 44, s)
        known = json.loads(self.succeed("info", self.memory, "--json").stdout)
        self.assertEqual([t["name"] for t in known["tasks"]], ["product0", "product1", "product2"])
        self.assertEqual(sum(t["vectors"] for t in known["tasks"]), known["vectors"])
        self.assertIn("certificate", self.succeed("info", self.memory).stdout)
        self.assertEqual(known["devices"][0]["name"], "cpu")
        self.assertGreaterEqual(known["devices"][0]["threads"], 1)
        self.assertRegex(self.succeed("info", self.memory).stdout, r"\ndevices      cpu \(\d+ thread")

    def test_known_defects_count_from_the_tenth_on(self):
        self.learn(0, "--ratio", 0.2)
        bad = os.path.join(self.folder, "test", "hole")
        masks = os.path.join(self.folder, "ground_truth")
        os.makedirs(bad)
        os.makedirs(os.path.join(masks, "hole"))
        for i in range(11):
            write_image(os.path.join(bad, "%03d.ppm" % i), product(0, 200 + i, True))
        for i in range(10):
            write_mask(os.path.join(masks, "hole", "%03d_mask.png" % i), (64, 64), (30, 20, 14, 14))
        write_mask(os.path.join(masks, "hole", "010_mask.png"), (64, 64), (0, 0, 64, 64))
        files = [os.path.join(bad, "%03d.ppm" % i) for i in range(11)]
        task = ["--task", "product0", "--defects"]

        def scores():
            return self.succeed("inspect", self.memory, self.images(0, "test_bad"), self.images(0, "test_good")).stdout

        def show(*more):
            return json.loads(self.succeed("learn", self.memory, *more, *task, "--masks", masks, "--json").stdout)

        before = scores()
        said = show(*files[:9])
        self.assertEqual((said["learned"], said["known_defects"], said["known_defects_used"]), (9, 9, False))
        self.assertEqual(scores(), before)  # nine change nothing
        for how in [[], ["--online"]]:
            self.fail_with(
                3, ["9 of 9 images were shown as defects of 'product0' before"],
                "learn", self.memory, *files[:9], "--task", "product0", "--strict", *how,
            )  # fmt: skip
        said = show(files[3])
        self.assertEqual(said["known_defects"], 9)  # it is known
        self.assertIn("they count from 10 on", self.succeed("info", self.memory).stdout)
        said = show(files[9], files[10])  # the mask of the last is all of the image
        self.assertEqual((said["learned"], said["known_defects"], said["known_defects_used"]), (1, 10, True))
        self.assertIn("most of the image", said["skipped"][0]["reason"])
        self.assertNotEqual(scores(), before)
        known = json.loads(self.succeed("info", self.memory, "--json").stdout)["tasks"][0]
        self.assertEqual((known["known_defects"], known["known_defects_used"]), (10, True))
        # Others of their kind score higher; good ones are still good.
        for part, verdict in [("test_good", "good"), ("test_bad", "defect")]:
            lines = self.succeed("inspect", self.memory, self.images(0, part), "--json").stdout.splitlines()
            self.assertGreaterEqual(sum(json.loads(line)["verdict"] == verdict for line in lines), 3)

    def test_defects_that_cannot_be_learned(self):
        bad, good = self.images(0, "test_bad"), self.images(0, "test_good")
        self.fail_with(3, ["no such memory"], "learn", self.memory, bad, "--task", "product0", "--defects")
        self.learn()
        kept = self.content()
        for code, words, options in [
            (2, ["'other': was not learned"], ["--task", "other", "--defects"]),
            (2, ["--masks", "give --defects too"], ["--task", "product0", "--masks", self.folder]),
            (2, ["--online", "--defects"], ["--task", "product0", "--defects", "--online"]),
            (2, ["--resize", "--defects"], ["--task", "product0", "--defects", "--resize", "32"]),
            (3, ["no folder of masks"], ["--task", "product0", "--defects", "--masks", "/nowhere"]),
            (3, ["has no mask in"], ["--task", "product0", "--defects", "--masks", self.folder]),
        ]:
            self.fail_with(code, words, "learn", self.memory, bad, *options)
        # Nothing is outlined in what is good.
        self.fail_with(3, ["nothing is outlined"], "learn", self.memory, good, "--task", "product0", "--defects", "--strict")
        self.assertEqual(self.content(), kept)

    def test_pictures_and_maps(self):
        self.learn()
        pictures = os.path.join(self.folder, "heat")
        maps = os.path.join(self.folder, "maps")
        image = os.path.join(self.images(0, "test_bad"), "000.ppm")
        self.succeed(
            "inspect", self.memory, self.images(0, "test_good"), image,
            "--heatmaps", pictures, "--maps", maps,
        )  # fmt: skip
        with open(os.path.join(pictures, "test_bad", "000.jpg"), "rb") as file:
            self.assertEqual(file.read(3), b"\xff\xd8\xff")
        heat = numpy.load(os.path.join(maps, "test_bad", "000.ppm.npy"))
        self.assertEqual(heat.shape, (SIDE, SIDE))
        self.assertEqual(len(os.listdir(os.path.join(pictures, "test_good"))), 4)

    def test_pictures_take_no_others_place(self):
        self.learn()
        camera = os.path.join(self.folder, "camera")
        os.mkdir(camera)
        good = os.path.join(self.images(0, "test_good"), "000.ppm")
        bad = os.path.join(self.images(0, "test_bad"), "000.ppm")
        # Images are told by their bytes.
        for name, image in [("a.png", good), ("a.jpg", bad), ("a.png.bmp", good), ("b.c.tif", good)]:
            shutil.copyfile(image, os.path.join(camera, name))
        pictures = os.path.join(self.folder, "heat")
        lines = self.succeed("inspect", self.memory, camera, "--heatmaps", pictures, "--json").stdout.splitlines()
        places = {os.path.basename(s["file"]): os.path.basename(s["heatmap"]) for s in map(json.loads, lines)}
        self.assertEqual(
            places, {"a.jpg": "a.jpg.jpg", "a.png": "a.png.jpg", "a.png.bmp": "a.png.2.jpg", "b.c.tif": "b.c.jpg"}
        )
        self.assertEqual(sorted(os.listdir(pictures)), sorted(places.values()))
        # Among the images a picture could replace one of them.
        before = sorted(os.listdir(camera))
        for way in camera, os.path.join(camera, "..", "camera"):
            failed = self.run_command("inspect", self.memory, camera, "--heatmaps", way)
            self.assertEqual(failed.returncode, 2, failed.stderr)
            self.assertIn("among the images", failed.stderr)
        self.assertEqual(sorted(os.listdir(camera)), before)

    def test_the_same_for_any_number_of_threads_and_memory_limit(self):
        # 71 MB of features in float
        images = [copy for style in range(3) for copy in self.copies(self.images(style), 3)]
        in_float = ["--precision", "float", "--dimension", 1024]
        for kind, ways in [
            ([], [["--threads", 1], ["--threads", 3], ["--threads", 8], ["--device", "cpu"]]),
            (in_float, [["--threads", 1], ["--threads", 3], ["--memory-limit", "100M"]]),
        ]:
            arrays = []
            for more in ways:
                memory = os.path.join(self.folder, "%d-%d.ccm" % (len(kind), len(arrays)))
                said = self.succeed("learn", memory, *images, "--task", "a", "--json", *SMALL, *kind, *more)
                self.assertEqual(json.loads(said.stdout)["features_on_disk"], "100M" in more)
                # A fold is sampled from fewer patches when memory is tight.
                names = ["vectors", "slack"] + ["calibration.scores"] * ("--threads" in more)
                arrays.append([read_array(memory, n) for n in names])
            for other in arrays[1:]:
                for a, b in zip(arrays[0], other):
                    self.assertTrue(numpy.array_equal(a, b))

    def test_the_same_on_every_processor(self):
        for way in [], ["--online"]:
            arrays = []
            for isa in "ALL", "AVX2", "SSE41":  # with instructions for sums of bytes, and without
                memory = os.path.join(self.folder, "%s-%d.ccm" % (isa, len(way)))
                environment = dict(os.environ, ONEDNN_MAX_CPU_ISA=isa)
                for style in 0, 1:
                    images, task = self.images(style), "task%d" % style
                    more = SMALL if style == 0 else []
                    self.succeed("learn", memory, images, "--task", task, *way, *more, env=environment)
                names = ["vectors", "radius", "slack", "calibration.scores"]
                arrays.append([read_array(memory, n) for n in names])
            for other in arrays[1:]:
                for a, b in zip(arrays[0], other):
                    self.assertTrue(numpy.array_equal(a, b))

    def test_online_keeps_to_its_capacity(self):
        self.learn(0, "--online", "--capacity", 30)
        self.learn(1, "--online")
        known = json.loads(self.succeed("info", self.memory, "--json").stdout)
        self.assertEqual(known["vectors"], 30)
        self.assertEqual(len(known["tasks"]), 2)

    def test_numpy_reads_a_memory(self):
        self.learn()
        reader = os.path.join(HERE, "..", "memory", "read_memory.py")
        done = subprocess.run(
            [sys.executable, reader, self.memory], capture_output=True, text=True, timeout=60
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        known = json.loads(self.succeed("info", self.memory, "--json").stdout)
        self.assertEqual(said["size"], known["vectors"])
        self.assertEqual(said["dimension"], known["dimension"])

    def test_extract(self):
        out, index = os.path.join(self.folder, "z.npy"), os.path.join(self.folder, "z.json")
        images = [os.path.join(self.images(0, "test_good"), "%03d.ppm" % i) for i in range(4)]
        wide = os.path.join(self.folder, "wide.ppm")
        write_image(wide, numpy.tile(product(1, 1), (1, 2, 1)))
        command = ["extract", *images, wide, "--out", out, "--index", index, "--backbone", "builtin"]
        for precision, kind in [("8bit", numpy.uint8), ("float", numpy.float32)]:
            done = self.succeed(
                *command, "--resize", "short:72", "--crop", "64", "--precision", precision,
                "--dimension", 40, "--json", "--threads", 2,
            )  # fmt: skip
            vectors = numpy.load(out)
            said = json.loads(done.stdout)
            with open(index) as file:
                listed = json.load(file)
            self.assertEqual(vectors.dtype, kind)
            self.assertEqual(vectors.shape, (said["rows"], said["dimension"]))
            self.assertEqual(said["images"], 5)
            self.assertEqual(
                listed["vectors"], {"rows": len(vectors), "dimension": 40, "dtype": kind.__name__}
            )
            self.assertEqual(listed["source"]["crop"], "64")
            self.assertEqual([image["file"] for image in listed["images"]], [*images, wide])
            first = 0
            for image in listed["images"]:
                self.assertEqual(image["first"], first)
                self.assertEqual(image["rows"], image["grid"][0] * image["grid"][1])
                first += image["rows"]
            self.assertEqual(first, len(vectors))
            last = listed["images"][-1]
            self.assertEqual((last["width"], last["height"]), (128, 64))
            seen = [last["seen"][side] for side in ["left", "top", "right", "bottom"]]
            self.assertEqual([round(side) for side in seen], [36, 4, 92, 60])
            self.assertEqual(listed["skipped"], [])
            # The same bytes by any number of threads; each image alone gives its rows.
            self.succeed(
                *command, "--resize", "short:72", "--crop", "64", "--precision", precision,
                "--dimension", 40, "--threads", 1,
            )  # fmt: skip
            self.assertEqual(numpy.load(out).tobytes(), vectors.tobytes())
            self.succeed(
                "extract", wide, "--out", out, "--backbone", "builtin", "--resize", "short:72",
                "--crop", "64", "--precision", precision, "--dimension", 40,
            )  # fmt: skip
            self.assertEqual(numpy.load(out).tobytes(), vectors[last["first"] :].tobytes())
        self.assertEqual(sorted(os.listdir(self.folder)), ["wide.ppm", "z.json", "z.npy"])
        # What learn sees: a memory with room for all keeps each of them once.
        self.succeed("learn", self.memory, *images, "--task", "a", "--ratio", "1", "--capacity", 9999, *SMALL)
        self.succeed("extract", *images, "--out", out, *SMALL)
        learned = {row.tobytes() for row in read_array(self.memory, "vectors")}
        self.assertEqual(learned, {row.tobytes() for row in numpy.load(out)})
        self.succeed("sample", out, "--count", 3)

    def test_extract_what_cannot_be(self):
        out, index = os.path.join(self.folder, "z.npy"), os.path.join(self.folder, "z.json")
        images = os.path.join(self.folder, "images")
        shutil.copytree(self.images(0, "test_good"), images)
        bad = os.path.join(images, "002.ppm")
        with open(bad, "w") as file:
            file.write("no image")
        self.fail_with(3, [bad], "extract", images, "--out", out, "--index", index, "--strict", *SMALL)
        self.assertEqual(os.listdir(self.folder), ["images"])
        done = self.succeed("extract", images, "--out", out, "--index", index, "--json", *SMALL)
        self.assertIn("left out: " + bad, done.stderr)
        with open(index) as file:
            listed = json.load(file)
        self.assertEqual([image["file"] for image in listed["skipped"]], [bad])
        self.assertEqual(json.loads(done.stdout)["skipped"], listed["skipped"])
        self.assertEqual(len(listed["images"]), 3)
        self.assertEqual(sum(image["rows"] for image in listed["images"]), len(numpy.load(out)))
        os.remove(out)
        os.remove(index)

        good = os.path.join(images, "000.ppm")
        with open(good, "rb") as file:
            before = file.read()
        self.fail_with(2, [good, "overwrite"], "extract", images, "--out", good, *SMALL)
        self.fail_with(2, [good, "overwrite"], "extract", images, "--out", out, "--index", good, *SMALL)
        self.fail_with(2, ["--out and --index both"], "extract", images, "--out", out, "--index", out, *SMALL)
        self.fail_with(2, ["--out"], "extract", images, *SMALL)
        self.fail_with(3, ["none of 1 images"], "extract", bad, "--out", out, *SMALL)
        nowhere = os.path.join(self.folder, "nowhere", "z.npy")
        self.fail_with(3, [nowhere, "create it"], "extract", images, "--out", nowhere, *SMALL)
        self.fail_with(3, ["/dev/full", "give a file"], "extract", images, "--out", "/dev/full", *SMALL)
        self.fail_with(3, ["the disk is full"], "extract", images, "--out", out, "--index", "/dev/full", *SMALL)

        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (20000, resource.RLIM_INFINITY))

        self.fail_with(3, [out, "cannot be written"], "extract", images, "--out", out, *SMALL, preexec_fn=small_files)
        with open(good, "rb") as file:
            self.assertEqual(file.read(), before)
        self.assertEqual(os.listdir(self.folder), ["images"])

    @unittest.skipIf(SLOW, "the moment is chosen for a fast build")
    def test_extract_interrupted(self):
        out = os.path.join(self.folder, "z.npy")
        many = self.copies(self.images(1), 30)
        process = subprocess.Popen(
            [CONTCORE, "extract", *many, "--out", out, "--backbone", "builtin"], stderr=subprocess.PIPE, text=True
        )
        wait_until_it_listens(process)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, said)
        self.assertEqual(os.listdir(self.folder), [])

    def test_merge(self):
        other = os.path.join(self.folder, "other.ccm")
        both = os.path.join(self.folder, "both.ccm")
        self.learn(0)
        self.learn(1, memory=other)
        self.succeed("merge", both, self.memory, other)
        known = json.loads(self.succeed("info", both, "--json").stdout)
        self.assertEqual([t["name"] for t in known["tasks"]], ["product0", "product1"])
        self.assertEqual(known["vectors"], sum(t["vectors"] for t in known["tasks"]))
        with open(both, "rb") as file:
            before = file.read()
        self.fail_with(3, [both, "overwritten", "--force"], "merge", both, self.memory, other)
        self.fail_with(3, [both, "--force"], "merge", both, both, other)
        with open(both, "rb") as file:
            self.assertEqual(file.read(), before)
        done = self.succeed("merge", both, self.memory, other, "--capacity", 5, "--json", "--force")
        self.assertEqual(json.loads(done.stdout)["vectors"], 5)
        self.assertRegex(done.stderr, r"product0: [23] of \d+ vectors; threshold")
        self.succeed("inspect", both, self.images(0, "test_bad"), "--use", 3)

    def test_shrink(self):
        self.learn(0)
        self.learn(1)
        small = os.path.join(self.folder, "small.ccm")
        before = json.loads(self.succeed("info", self.memory, "--json").stdout)
        done = self.succeed("shrink", self.memory, small, "--memory", "10K", "--json")
        said = json.loads(done.stdout)
        known = json.loads(self.succeed("info", small, "--json").stdout)
        self.assertEqual((said["vectors"], known["vectors"], known["capacity"]), (20, 20, 20))
        self.assertEqual(said["certificate"], known["certificate"])
        self.assertEqual(said["certificate_before"], before["certificate"])
        for task, was, now in zip(said["tasks"], before["tasks"], known["tasks"]):
            self.assertEqual((task["vectors_before"], task["vectors"]), (was["vectors"], now["vectors"]))
            self.assertEqual((task["threshold_before"], task["threshold"]), (was["threshold"], now["threshold"]))
            self.assertIn("%s: 10 of %d vectors; threshold" % (task["name"], was["vectors"]), done.stderr)
        # The same as using so few of the larger one.
        lines = [self.succeed("inspect", *which).stdout for which in
                 [[small, self.images(0, "test_bad")], [self.memory, self.images(0, "test_bad"), "--use", 20]]]
        self.assertEqual(*lines)
        self.fail_with(3, [small, "--force"], "shrink", self.memory, small, "--capacity", 12)
        self.succeed("shrink", self.memory, small, "--capacity", 12, "--force")
        self.assertEqual(json.loads(self.succeed("info", small, "--json").stdout)["capacity"], 12)
        other = os.path.join(self.folder, "other.ccm")
        for code, words, more in [
            (2, ["--memory 2M"], []), (2, ["512 bytes"], ["--memory", "100"]),
            (2, ["--capacity"], ["--capacity", 30, "--memory", "2M"]), (3, ["smaller"], ["--memory", "1G"]),
        ]:
            self.fail_with(code, words, "shrink", self.memory, other, *more)
            self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("other")], [])

    def test_says_what_fewer_vectors_cost_before_it_happens(self):
        self.learn(0)
        everything = json.loads(self.succeed("info", self.memory, "--json").stdout)["vectors"]
        bad = self.images(0, "test_bad")
        self.assertNotIn("vectors", self.succeed("inspect", self.memory, bad, "--use", everything).stderr)
        done = self.succeed("inspect", self.memory, bad, "--use", 2)
        self.assertIn("product0: 2 of %d vectors; threshold" % everything, done.stderr)
        self.assertIn("not to be relied on", done.stderr)
        (enough,) = re.findall(r"(\d+) or more of the memory's %d vectors" % everything, done.stderr)
        done = self.succeed("inspect", self.memory, bad, "--use", enough)
        self.assertNotIn("relied", done.stderr)

    def test_the_document_reads_a_memory(self):
        """The example in docs/formats.md, as it stands there."""
        with open(os.path.join(HERE, "..", "..", "docs", "formats.md")) as file:
            (example,) = re.findall("```python\n(.*?)```", file.read(), re.DOTALL)
        for precision, kind in [("8bit", "uint8"), ("float", "float32")]:
            self.memory = os.path.join(self.folder, precision, "line.ccm")
            os.mkdir(os.path.dirname(self.memory))
            self.learn(0, "--precision", precision, "--capacity", 50)
            ask = example + "\nprint(vectors.dtype, *vectors.shape, tasks[0]['name'])"
            done = subprocess.run(
                [sys.executable, "-c", ask], capture_output=True, text=True, timeout=60,
                cwd=os.path.dirname(self.memory),
            )  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stderr)
            known = json.loads(self.succeed("info", self.memory, "--json").stdout)
            self.assertEqual(done.stdout.split(), [kind, str(known["vectors"]), "512", "product0"])

    def test_merging_tells_a_backbone_by_its_bytes(self):
        form, moved = os.path.join(self.folder, "form.onnx"), os.path.join(self.folder, "moved.onnx")
        self.succeed("backbone", "quantize", "builtin", "--out", form)
        shutil.copy(form, moved)
        self.learn(0)
        both = os.path.join(self.folder, "both.ccm")
        for i, backbone in enumerate([form, moved]):
            other = os.path.join(self.folder, "%d.ccm" % i)
            self.succeed("learn", other, self.images(1), "--task", "b", "--backbone", backbone, "--resize", 64)
            self.succeed("merge", both, self.memory, other, "--force")
            said = json.loads(self.succeed("info", both, "--json").stdout)
            self.assertEqual(said["source"]["backbone"], "builtin")
        self.succeed("merge", both, other, os.path.join(self.folder, "0.ccm"), "--force")

    def test_what_cannot_be_merged_is_told_with_a_remedy(self):
        self.learn(0)
        for more, words in [
            (["--precision", "float", "--dimension", 1024], ["precision (bytes and floats)"]),
            (["--score", "patch"], ["score (map and patch)"]),
            (["--dimension", 256], ["dimension (512 and 256)"]),
            (["--consolidate", "paper"], ["share and paper"]),
        ]:
            other = os.path.join(self.folder, "%s.ccm" % more[1])
            self.learn(1, *more, memory=other)
            both = os.path.join(self.folder, "both.ccm")
            self.fail_with(3, [other, "learn one of them again", *words], "merge", both, self.memory, other)
            self.assertFalse(os.path.exists(both))

    def test_no_folder_for_a_cache(self):
        form = os.path.join(self.folder, "form.onnx")
        self.succeed("backbone", "quantize", "builtin", "--out", form)
        bare = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME")}
        done = self.succeed("learn", self.memory, self.images(0), "--task", "a", "--backbone", form,
                            "--resize", 64, env=bare)  # fmt: skip
        self.assertIn("neither XDG_CACHE_HOME nor HOME", done.stderr)
        self.succeed("inspect", self.memory, self.images(0, "test_bad"), env=bare)

    def test_a_cache_that_cannot_be_written(self):
        file = os.path.join(self.folder, "file")
        open(file, "w").close()
        environment = dict(os.environ, XDG_CACHE_HOME=file)
        done = self.succeed("learn", self.memory, self.images(0), "--task", "a", *SMALL, env=environment)
        for words in [file, "Not a directory", "set XDG_CACHE_HOME"]:
            self.assertIn(words, done.stderr)

    def test_an_8_bit_form_whose_float_network_is_gone(self):
        cache = os.path.join(self.folder, "cache")
        os.makedirs(os.path.join(cache, "contcore"))
        form = os.path.join(cache, "contcore", "resnet50-8bit.onnx")
        self.succeed("backbone", "quantize", "builtin", "--out", form)
        environment = dict(os.environ, XDG_CACHE_HOME=cache)
        self.succeed("learn", self.memory, self.images(0), "--task", "a", "--backbone", form,
                     "--resize", 64, env=environment)  # fmt: skip

    def test_why_there_is_no_threshold(self):
        self.learn(0, "--capacity", 1)
        done = self.learn(1)
        self.assertIn("too few for 2 tasks", done.stdout)
        self.assertIn("no certificate", done.stdout)
        self.assertNotIn("different images", done.stdout)
        said = self.succeed("info", self.memory).stdout
        self.assertNotIn("inf", said)
        self.assertIn("certificate  none", said)
        known = json.loads(self.succeed("info", self.memory, "--json").stdout)
        self.assertEqual([t["why"] for t in known["tasks"]], ["all it took", "no room"])
        self.assertIsNone(known["tasks"][1]["certificate"])
        same = os.path.join(self.folder, "same")
        os.mkdir(same)
        for i in range(3):
            write_image(os.path.join(same, "%d.ppm" % i), product(0, 0))
        other = os.path.join(self.folder, "other.ccm")
        done = self.succeed("learn", other, same, "--task", "a", *SMALL)
        self.assertIn("features are the same for all 3 images", done.stdout)

    def test_a_first_image_alone_gives_no_verdict(self):
        image = os.path.join(self.images(0), sorted(os.listdir(self.images(0)))[0])
        done = self.succeed("learn", self.memory, image, "--task", "a", *SMALL)
        self.assertIn("no threshold yet", done.stdout)
        seen = self.succeed("inspect", self.memory, self.images(0, "test_bad"), "--json").stdout
        self.assertEqual(json.loads(seen.splitlines()[0])["verdict"], "uncalibrated")

    def test_what_is_no_known_product_is_unknown(self):
        self.learn(0, "--capacity", 300, "--ratio", 0.2)
        self.learn(1, "--ratio", 0.2)
        frames = os.path.join(self.folder, "frames")
        os.mkdir(frames)
        for value in 0, 128, 255:
            write_image(os.path.join(frames, "%d.ppm" % value), numpy.full((SIDE, SIDE, 3), value))

        def inspect(*options):
            done = self.succeed("inspect", self.memory, *options, "--json")
            return [json.loads(line) for line in done.stdout.splitlines()], done.stderr

        seen, said = inspect(frames)
        self.assertEqual({s["verdict"] for s in seen}, {"unknown"})
        self.assertIn("0 good, 0 defect, 3 unknown", said)
        for s in seen:
            self.assertRegex(s["reason"], "^unknown: like no known product; product[01] is the nearest$")
        text = self.succeed("inspect", self.memory, frames).stdout
        self.assertRegex(text.splitlines()[0], r"^unknown .*0.ppm  like no known product; ")
        # Named, another product is a defect, and what it looks like is said.
        seen, _ = inspect(self.images(1, "test_good"), "--task", "product0")
        self.assertEqual({s["verdict"] for s in seen}, {"defect"})
        self.assertEqual({s["reason"] for s in seen}, {"defect: not like product0; looks like product1"})
        seen, _ = inspect(frames, "--task", "product1")
        self.assertEqual({s["reason"] for s in seen}, {"defect: not like product1, nor any known product"})
        for style in 0, 1:  # good parts are no strangers, nor are defects
            for part in "test_good", "test_bad":
                seen, _ = inspect(self.images(style, part))
                self.assertNotIn("unknown", {s["verdict"] for s in seen})
        seen, _ = inspect(frames, "--strangers", 0)
        self.assertNotIn("unknown", {s["verdict"] for s in seen})
        self.fail_with(2, ["--strangers"], "inspect", self.memory, frames, "--strangers", 1.5)
        known = json.loads(self.succeed("info", self.memory, "--json").stdout)
        for task in known["tasks"]:
            self.assertEqual(task["strangers"]["images"], 30)
            self.assertGreater(task["strangers"]["limit"], 0)

    def test_a_defect_has_its_regions(self):
        self.learn(0, "--capacity", 300, "--ratio", 0.2)
        lines = self.succeed("inspect", self.memory, self.images(0, "test_bad"), "--json").stdout.splitlines()
        for s in map(json.loads, lines):
            self.assertEqual(s["verdict"] == "defect", bool(s["regions"]), s)
            scores = [r["score"] for r in s["regions"]]
            self.assertEqual(scores, sorted(scores, reverse=True))
            for r in s["regions"][:1]:  # 30…43 across, 20…33 down
                self.assertTrue(r["x"] <= 36 <= r["x"] + r["width"], r)
                self.assertTrue(r["y"] <= 26 <= r["y"] + r["height"], r)
                self.assertIn(" px at (", s["reason"])

    # ---- what is asked before

    def kinds(self, done):
        return [remark["kind"] for remark in json.loads(done.stdout)["review"]["remarks"]]

    def test_strangers_are_reported_before_anything_is_learned(self):
        folder = os.path.join(self.folder, "mixed")
        shutil.copytree(self.images(0), folder)
        for i in range(4):  # each another defect: one that all have is no stranger
            pixels = product(0, 400 + i)
            pixels[10 + 8 * i : 26 + 8 * i, 8 + 9 * i : 24 + 9 * i] = numpy.eye(4, 3)[i] * 250
            write_image(os.path.join(folder, "odd%d.ppm" % i), pixels)
        done = self.fail_with(
            3, ["unlike the others", "odd", "--strict was given"],
            "learn", self.memory, folder, "--task", "a", "--strict", "--ratio", "0.2", *SMALL,
        )  # fmt: skip
        self.assertFalse(os.path.exists(self.memory))
        self.assertIn(self.memory + ".review.png", done.stderr)
        with open(self.memory + ".review.png", "rb") as file:
            self.assertTrue(file.read().startswith(b"\x89PNG"))
        os.remove(self.memory + ".review.png")
        sheet = os.path.join(self.folder, "sheet.png")
        done = self.succeed("learn", self.memory, folder, "--task", "a", "--json", "--review", sheet, "--ratio", "0.2", *SMALL)
        said = json.loads(done.stdout)
        strangest = [os.path.basename(image["image"]) for image in said["review"]["strangest"]]
        self.assertEqual({name[:3] for name in strangest[:4]}, {"odd"})
        self.assertEqual(said["learned"], 34)
        self.assertTrue(os.path.exists(sheet))
        self.assertFalse(os.path.exists(self.memory + ".review.png"))

    def test_a_good_set_is_not_questioned_and_the_same_again_is(self):
        done = self.succeed("learn", self.memory, self.images(0), "--task", "a", "--json", *SMALL)
        self.assertEqual(self.kinds(done), [])
        self.assertFalse(os.path.exists(self.memory + ".review.png"))
        with open(self.memory, "rb") as file:
            before = file.read()
        for how in [[], ["--online"]]:
            self.fail_with(
                3, ["all 30 images were learned before"],
                "learn", self.memory, self.images(0), "--task", "a", "--strict", *how,
            )  # fmt: skip
        with open(self.memory, "rb") as file:
            self.assertEqual(file.read(), before)

    def test_another_product_is_noticed(self):
        self.succeed("learn", self.memory, self.images(0), "--task", "a", *SMALL)
        self.fail_with(
            3, ["unlike what 'a' has learned"], "learn", self.memory, self.images(1), "--task", "a", "--strict"
        )  # fmt: skip
        self.succeed("learn", self.memory, self.images(1), "--task", "b")
        some = [os.path.join(self.images(1, "test_good"), name) for name in os.listdir(self.images(1, "test_good"))]
        done = self.succeed("learn", self.memory, *some, "--task", "a", "--json", "--online")
        self.assertIn("product", self.kinds(done))
        self.assertIn("'b'", done.stderr)

    def test_of_a_data_set_only_the_good_images_are_learned(self):
        root = os.path.join(self.folder, "part")
        shutil.copytree(self.images(0), os.path.join(root, "train", "good"))
        shutil.copytree(self.images(0, "test_bad"), os.path.join(root, "test", "crack"))
        shutil.copytree(self.images(0, "test_bad"), os.path.join(root, "ground_truth", "crack"))
        open(os.path.join(root, "train", "good", "phone.HEIC"), "w").close()
        self.fail_with(3, ["crack", "4 masks"], "learn", self.memory, root, "--task", "a", "--strict", *SMALL)
        self.assertFalse(os.path.exists(self.memory))
        done = self.succeed("learn", self.memory, root, "--task", "a", "--json", *SMALL)
        self.assertEqual(json.loads(done.stdout)["learned"], 30)
        self.assertEqual(self.kinds(done), ["split", "unread"])
        self.assertIn("phone.HEIC", done.stderr)
        done = self.succeed("inspect", self.memory, os.path.join(root, "train", "good"))
        self.assertIn("phone.HEIC", done.stderr)

    # ---- what may go wrong

    def test_a_corrupt_image_is_left_out(self):
        folder = os.path.join(self.folder, "images")
        shutil.copytree(self.images(0), folder)
        bad = os.path.join(folder, "bad.png")
        with open(bad, "wb") as file:
            file.write(b"\x89PNG\r\n\x1a\nnot much of an image")
        self.fail_with(
            3, [bad], "learn", self.memory, folder, "--task", "a", "--strict", *SMALL
        )  # fmt: skip
        self.assertFalse(os.path.exists(self.memory))
        done = self.succeed("learn", self.memory, folder, "--task", "a", "--json", *SMALL)
        self.assertIn(bad, done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual([s["file"] for s in said["skipped"]], [bad])
        self.assertEqual(said["learned"], 30)
        done = self.run_command("inspect", self.memory, folder, "--json")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(len(done.stdout.splitlines()), 31)

    def test_an_image_of_an_impossible_shape_is_named(self):
        folder = os.path.join(self.folder, "images")
        shutil.copytree(self.images(0), folder)
        long = os.path.join(folder, "long.ppm")
        write_image(long, numpy.zeros((1, 20000, 3)))
        new = ["--task", "a", "--backbone", "builtin", "--resize", "short:64"]
        said = self.fail_with(3, [long, "20000"], "learn", self.memory, folder, "--strict", *new)
        self.assertEqual(said.stderr.splitlines()[-1].count(long), 1)
        said = self.succeed("learn", self.memory, folder, *new)
        self.assertIn("left out: " + long, said.stderr)
        said = self.run_command("inspect", self.memory, folder)
        self.assertEqual(said.returncode, 3)
        self.assertIn("error    " + long, said.stdout)

    def test_names_do_not_steer_the_terminal(self):
        self.learn(0)
        folder = os.path.join(self.folder, "odd")
        os.mkdir(folder)
        good = os.path.join(folder, "good\x1b[2J\u009b2J\u202e\nforged.ppm")
        bad = os.path.join(folder, "bad\x1b]0;x\x07\r.ppm")
        write_image(good, product(0, 50))
        with open(bad, "wb") as file:
            file.write(b"no image")

        def steered(text):
            return [c for c in text if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160 or c == "\u202e")]

        seen = self.run_command("inspect", self.memory, folder)
        self.assertEqual(steered(seen.stdout + seen.stderr), [])
        self.assertEqual(len(seen.stdout.splitlines()), 2, seen.stdout)
        self.assertIn("good\\x1b[2J\\u009b2J\\u202e\\x0aforged.ppm", seen.stdout)
        seen = self.run_command("inspect", self.memory, folder, "--json")
        self.assertEqual(steered(seen.stdout + seen.stderr), [])
        self.assertEqual([json.loads(line)["file"] for line in seen.stdout.splitlines()], [bad, good])
        learned = self.succeed("learn", self.memory, folder, self.images(1), "--task", "more")
        self.assertEqual(steered(learned.stdout + learned.stderr), [])
        self.assertIn("left out", learned.stderr)
        for arguments in [
            ["inspect", self.memory, "nowhere\x1b[2J\n"], ["info", "nowhere\x1b[2J\n"], ["nonsense\x1b[2J\n"],
            ["learn", self.memory, folder, "--task", "x\x1b[2J"], ["inspect", self.memory, good, "--task", "x\x1b[2J"],
        ]:  # fmt: skip
            done = self.run_command(*arguments)
            self.assertIn(done.returncode, (2, 3), arguments)
            self.assertEqual(steered(done.stdout + done.stderr), [], arguments)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_names_that_no_task_may_have(self):
        self.succeed("learn", self.memory, self.images(0), "--task", "caf\u00e9", *SMALL)
        before = self.content()
        for name in [" ", " a", "a\u200b", "a\u202eb", "cafe\u0301", "x" * 201, b"caf\xe9", "a\nb"]:
            name = os.fsdecode(name) if isinstance(name, bytes) else name
            self.fail_with(3, ["the task's name" if len(name) < 201 else "200 bytes"],
                           "learn", self.memory, self.images(1), "--task", name)  # fmt: skip
        self.assertEqual(self.content(), before)

    # ---- images larger than the network's view

    def plates(self, name, count, size=None, spot=None):
        """A folder of ground metal, each of another size unless one is given."""
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        for i in range(count):
            numbers = numpy.random.RandomState(sum(name.encode()) + 77 * i)
            width, height = size or (150 + 9 * (i % 7), 110 + 5 * (i % 5))
            pixels = numpy.repeat(numbers.normal(130, 8, (height, width, 1)), 3, axis=2)
            if spot:
                pixels[spot[1] : spot[1] + 6, spot[0] : spot[0] + 6] = 240
            write_image(os.path.join(folder, "%03d.ppm" % i), numpy.clip(pixels, 0, 255))
        return folder

    TILES = ["--backbone", "builtin", "--tile", "64", "--overlap", "32"]

    def test_tiles_find_small_defects_in_large_images(self):
        good = self.plates("good", 24)
        bad = self.plates("bad", 3, (331, 207), (217, 139))
        fine = self.plates("fine", 3, (331, 207))
        tiny = self.plates("tiny", 1, (20, 9))
        self.succeed("learn", self.memory, good, "--task", "plate", *self.TILES, "--ratio", 0.05)
        self.assertIn("in tiles of 64 that overlap by 32", self.succeed("info", self.memory).stdout)
        lines = {}
        for threads in (1, 3):
            done = self.succeed("inspect", self.memory, bad, fine, tiny, "--json", "--strangers", 0, "--threads", threads)
            seen = [json.loads(line) for line in done.stdout.splitlines()]
            lines[threads] = [{k: v for k, v in s.items() if k != "seconds"} for s in seen]
        self.assertEqual(lines[1], lines[3])
        for s in lines[1][:3]:
            self.assertEqual(s["verdict"], "defect", s)
            self.assertEqual((s["width"], s["height"]), (331, 207))
            box = s["regions"][0]
            self.assertTrue(box["x"] <= 220 <= box["x"] + box["width"], s)
            self.assertTrue(box["y"] <= 142 <= box["y"] + box["height"], s)
            self.assertLess(box["width"], 64)
        self.assertLess(max(s["score"] for s in lines[1][3:6]), min(s["score"] for s in lines[1][:3]))
        maps = os.path.join(self.folder, "maps")
        heat = os.path.join(self.folder, "heat")
        self.succeed("inspect", self.memory, bad, "--maps", maps, "--heatmaps", heat)
        written = [os.path.join(at, name) for at, _, names in os.walk(maps) for name in names]
        self.assertEqual([numpy.load(name).shape for name in written], [(207, 331)] * 3)
        self.assertEqual(sum(len(names) for _, _, names in os.walk(heat)), 3)

    def test_tiles_stay_what_a_memory_was_made_with(self):
        good = self.plates("good", 6)
        self.succeed("learn", self.memory, good, "--task", "a", *self.TILES)
        before = self.content()
        again = ["learn", self.memory, good, "--task", "b"]
        self.fail_with(3, ["--tile 64, not 96"], *again, "--tile", 96)
        self.fail_with(3, ["--tile 64, not none"], *again, "--tile", "none")
        self.fail_with(3, ["--overlap 32, not 16"], *again, "--overlap", 16)
        self.fail_with(3, ["--resize 100%, not 50%"], *again, "--resize", "50%")
        self.fail_with(3, ["--paper"], *again, "--paper")
        self.assertEqual(self.content(), before)
        whole = os.path.join(self.folder, "whole.ccm")
        self.succeed("learn", whole, good, "--task", "c", *SMALL)
        self.fail_with(3, ["--tile none, not 64"], "learn", whole, good, "--task", "d", "--tile", 64)
        self.fail_with(3, ["overlap (32 and none)"], "merge", os.path.join(self.folder, "all.ccm"), self.memory, whole)
        self.succeed("learn", self.memory, self.plates("more", 6, (70, 90)), "--task", "b", *self.TILES)
        other = os.path.join(self.folder, "other.ccm")
        self.succeed("learn", other, good, "--task", "c", *self.TILES)
        self.succeed("merge", os.path.join(self.folder, "all.ccm"), self.memory, other)
        self.succeed("inspect", os.path.join(self.folder, "all.ccm"), good)

    def test_tiles_that_cannot_be_are_refused(self):
        good = self.plates("good", 2)
        new = ["learn", self.memory, good, "--task", "a", "--backbone", "builtin"]
        self.fail_with(2, ["step of 16", "give a tile of 96"], *new, "--tile", 100, "--overlap", 32)
        self.fail_with(2, ["step of 16", "give an overlap of 48"], *new, "--tile", 96, "--overlap", 44)
        self.fail_with(2, ["at most 48"], *new, "--tile", 96, "--overlap", 96)
        self.fail_with(2, ["at most 32"], *new, "--tile", 64, "--overlap", 48)
        self.fail_with(2, ["give an overlap of 16"], *new, "--tile", 48, "--overlap", 24)
        self.fail_with(2, ["such as 384"], *new, "--tile", 5000)
        self.fail_with(2, ["give a tile"], *new, "--overlap", 32)
        self.fail_with(2, ["such as 50%"], *new, "--tile", 64, "--overlap", 16, "--resize", 64)
        self.fail_with(2, ["leave out the crop"], *new, "--tile", 64, "--overlap", 16, "--crop", 32)
        self.fail_with(2, ["tile"], *new, "--resize", "50%")
        self.assertFalse(os.path.exists(self.memory))

    def test_nothing_to_learn(self):
        empty = os.path.join(self.folder, "empty")
        os.mkdir(empty)
        self.fail_with(3, [empty, "no images"], "learn", self.memory, empty, "--task", "a", *SMALL)
        self.fail_with(3, ["nowhere"], "learn", self.memory, "nowhere", "--task", "a", *SMALL)
        bad = os.path.join(empty, "bad.jpg")
        open(bad, "wb").close()
        self.fail_with(3, [bad], "learn", self.memory, empty, "--task", "a", *SMALL)
        self.assertFalse(os.path.exists(self.memory))
        self.assertEqual(os.listdir(self.folder), ["empty"])

    def test_other_settings_are_refused(self):
        self.learn()
        before = self.content()
        again = ["learn", self.memory, self.images(1), "--task", "b"]
        self.fail_with(3, ["--resize", "64", "128"], *again, "--resize", "128")
        self.fail_with(3, ["--crop"], *again, "--crop", "32")
        self.fail_with(3, ["--capacity"], *again, "--capacity", "7")
        self.fail_with(3, ["--q"], *again, "--q", "0.5")
        self.fail_with(3, ["missing.onnx"], *again, "--backbone", "missing.onnx")
        self.fail_with(2, ["resize", "big"], *again, "--resize", "big")
        self.fail_with(2, ["--ratio"], *again, "--ratio", "1.5")
        self.fail_with(2, ["--hold-out", "not needed any more"], *again, "--hold-out", "0.2")
        self.fail_with(3, ["--score"], *again, "--score", "patch")
        self.fail_with(3, ["--precision", "8bit", "float"], *again, "--precision", "float")
        self.fail_with(3, ["--dimension", "512", "256"], *again, "--dimension", "256")
        self.fail_with(3, ["--memory"], *again, "--memory", "1M")
        self.fail_with(3, ["--precision", "leave --paper out"], *again, "--paper")
        for option in self.OF_PAPER:
            self.fail_with(2, ["--paper", option[0]], *again, "--paper", *option)
        self.fail_with(2, ["511 bytes", "512"], "learn", self.memory + "2", self.images(1), "--task", "b",
                       "--backbone", "builtin", "--memory", "511")
        self.fail_with(2, ["product0"], "inspect", self.memory, self.images(0), "--task", "zebra")
        self.assertEqual(self.content(), before)

    OF_PAPER = [["--precision", "float"], ["--dimension", 9], ["--resize", 64], ["--crop", 32], ["--tile", 64],
                ["--overlap", 16], ["--score", "map"],
                ["--consolidate", "share"], ["--q", 0.2]]  # fmt: skip

    def test_numbers_that_mean_nothing(self):
        new = ["learn", self.memory, self.images(0), "--task", "a", *SMALL]
        for option, words in [
            (["--capacity", 0], ["--capacity", "from 1 on"]),
            (["--ratio", 0], ["--ratio"]),
            (["--memory", ""], ["--memory", "not a size"]),
            (["--memory", 1], ["1 byte has no room"]),
            (["--dimension", 0], ["dimension", "65536"]),
            (["--dimension", 2**63], ["dimension", "65536"]),
            (["--dimension", 65537], ["dimension", "65536"]),
            (["--q", 0.5], ["--q", "--consolidate paper"]),
        ]:
            self.fail_with(2, words, *new, *option)
            if option[0] != "--ratio":
                self.fail_with(2, words, "serve", self.memory, "--port", 0, *SMALL, *option)
        self.assertEqual(os.listdir(self.folder), [])
        self.learn(0)
        self.fail_with(2, ["--use"], "inspect", self.memory, self.images(0), "--use", 0)
        self.fail_with(2, ["--capacity"], "merge", self.memory + "2", self.memory, self.memory, "--capacity", 0)

    def test_a_memory_limit_that_is_too_small_names_one_that_does(self):
        new = ["learn", self.memory, self.images(0), "--task", "a", *SMALL]
        said = self.fail_with(3, ["limit of 9 MiB"], *new, "--memory-limit", "9M").stderr
        enough = re.search(r"(\d+) MiB suffice", said).group(1)
        self.succeed(*new, "--memory-limit", enough + "M")

    def test_an_empty_memory_has_no_certificate(self):
        server = subprocess.Popen([CONTCORE, "serve", self.memory, "--port", "0", *SMALL],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # fmt: skip
        server.stdout.readline()
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=60)
        self.assertIn("certificate  none", self.succeed("info", self.memory).stdout)
        self.assertIsNone(json.loads(self.succeed("info", self.memory, "--json").stdout)["certificate"])

    def test_damaged_memories_are_refused(self):
        self.learn()
        whole = self.content()
        numbers = random.Random(1)
        damaged = [whole[: len(whole) // 2], whole[:-1], whole[:4000], whole + b"x"]
        for at in [8, 9, 200, len(whole) - 1] + [numbers.randrange(8, len(whole)) for _ in range(8)]:
            damaged.append(whole[:at] + bytes([whole[at] ^ 1 << numbers.randrange(8)]) + whole[at + 1 :])
        for content in damaged:
            with open(self.memory, "wb") as file:
                file.write(content)
            for command in ["info", self.memory], ["learn", self.memory, self.images(1), "--task", "b"]:
                done = self.run_command(*command)
                self.assertIn(done.returncode, (3, 4), done.stderr)
                self.assertIn(self.memory, done.stderr)
            self.assertEqual(self.content(), content)
        with open(self.memory, "wb") as file:
            file.write(whole)
        self.succeed("info", self.memory)

    def test_no_space_left(self):
        self.learn(0, "--capacity", 3000)
        before = self.content()

        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(before), resource.RLIM_INFINITY))

        self.fail_with(
            3, [self.memory], "learn", self.memory, self.images(1), "--task", "b",
            preexec_fn=small_files,
        )  # fmt: skip
        self.assertEqual(self.content(), before)
        self.assertEqual(sorted(os.listdir(self.folder)), ["line.ccm", "line.ccm.versions"])
        # The list and the images of the lesson before; nothing of this one.
        self.assertEqual(sorted(os.listdir(self.memory + ".versions")), ["1.images", "lessons.json"])

    def test_two_writers(self):
        self.learn()
        before = self.content()
        with open(self.memory + ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.fail_with(
                3, [self.memory, "another process"],
                "learn", self.memory, self.images(1), "--task", "b",
            )  # fmt: skip
        self.assertEqual(self.content(), before)
        self.succeed("learn", self.memory, self.images(1), "--task", "b")

    @unittest.skipIf(SLOW, "the moments are chosen for a fast build")
    def test_killed_at_any_moment(self):
        """As it was before, or as it is after: never anything else."""
        self.learn()
        before = self.content()
        command = [CONTCORE, "learn", self.memory, self.images(1), "--task", "b"]
        start = time.monotonic()
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        took = time.monotonic() - start
        after = read_array(self.memory, "vectors")
        numbers = random.Random(2)
        finished = 0
        for _ in range(KILLS):
            with open(self.memory, "wb") as file:
                file.write(before)
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            # Half of them near the end, when it is saved.
            part = numbers.uniform(0, 1.1) if numbers.random() < 0.5 else numbers.uniform(0.85, 1.05)
            time.sleep(took * part)
            process.kill()
            process.wait()
            if self.content() != before:
                finished += 1
                self.assertTrue(numpy.array_equal(read_array(self.memory, "vectors"), after))
            self.succeed("info", self.memory)
        if KILLS >= 100:
            print("killed %d times, %d after the save" % (KILLS, finished), file=sys.stderr)
        # What a killed process left behind does not stop the next.
        self.succeed(*command[1:])

    @unittest.skipIf(SLOW, "the moment is chosen for a fast build")
    def test_interrupted(self):
        self.learn()
        before = self.content()
        many = self.copies(self.images(1), 30)
        process = subprocess.Popen(
            [CONTCORE, "learn", self.memory, *many, "--task", "b"], stderr=subprocess.PIPE, text=True
        )
        wait_until_it_listens(process)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, said)
        self.assertEqual(self.content(), before)
        self.assertEqual(sorted(os.listdir(self.folder)), ["line.ccm", "line.ccm.versions"])
        # The list and the images of the lesson before; nothing of this one.
        self.assertEqual(sorted(os.listdir(self.memory + ".versions")), ["1.images", "lessons.json"])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    CONTCORE = os.path.abspath(sys.argv.pop(1))
    loud.main()
