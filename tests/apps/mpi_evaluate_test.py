"""Drives evaluate under mpirun as a user would.  Usage: mpi_evaluate_test.py PATH_TO_CONTCORE"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import evaluate_test
import loud

CONTCORE = "contcore"


def without_costs(runs):
    for run in runs:
        for key in ("train_seconds", "test_seconds", "peak_bytes"):
            del run[key]
    return runs


class MpiEvaluateTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp()
        cls.data = os.path.join(cls.shared, "products")
        evaluate_test.write_dataset(cls.data, range(4))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared)

    def setUp(self):
        self.folder = tempfile.mkdtemp()

    def tearDown(self):
        shutil.rmtree(self.folder)

    def command(self, ranks, cache, *arguments, command="evaluate"):
        """`ranks` None: without mpirun; `cache` None: without a cache."""
        words = [] if ranks is None else ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)]
        words += [CONTCORE, *command.split(), self.data]
        words += ["--backbone", "builtin", "--resize", "64", "--crop", "56", *arguments]
        return words + (["--no-cache"] if cache is None else ["--cache", os.path.join(self.folder, cache)])

    def environment(self):
        return dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

    def run_it(self, *arguments, code=0, **options):
        done = subprocess.run(
            self.command(*arguments, **options),
            capture_output=True,
            text=True,
            timeout=600,
            env=self.environment(),
        )
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def left_in(self, report):
        """What the files of a report say, but for what it cost."""
        found = {}
        for folder, _, names in os.walk(os.path.join(self.folder, report)):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, os.path.join(self.folder, report))] = file.read()
        return found

    def pictures_of(self, page):
        return [part.split(b'"')[0] for part in page.split(b"data:image/")[1:]]

    def compare(self, what, alone, ranks):
        alone, ranks = dict(alone), dict(ranks)
        self.assertEqual(sorted(alone), sorted(ranks), what)
        self.assertEqual(alone["results.csv"], ranks["results.csv"], what)
        pictures = self.pictures_of(alone["index.html"])
        self.assertGreater(len(pictures), 4)
        self.assertEqual(pictures, self.pictures_of(ranks["index.html"]), what)

    def test_any_number_of_ranks_gives_what_one_process_gives(self):
        cases = {
            "one": ["--schedule", "2-1x2"],
            "four": ["--method", "contcore,random", "--seeds", "2"],
            "five": ["--sweep", "m=60,90,120,150,200", "--order", "shuffle:1"],
        }
        for name, arguments in cases.items():
            arguments = arguments + ["--ratio", "0.05", "--json"] + (["-m", "100"] if name != "five" else [])
            report = ["--report", os.path.join(self.folder, "report " + name)]
            done = self.run_it(None, name, *arguments, *report)
            expected = without_costs(json.loads(done.stdout))
            left = self.left_in("report " + name)
            for ranks in (1, 2, 3):
                for cache in ("%s%d" % (name, ranks), None):
                    what = "%s on %d ranks, cache %s" % (name, ranks, cache)
                    to = "report %s" % what
                    done = self.run_it(ranks, cache, *arguments, "--report", os.path.join(self.folder, to))
                    self.assertEqual(without_costs(json.loads(done.stdout)), expected, what)
                    self.compare(what, left, self.left_in(to))

    def test_table_and_remarks_are_said_once(self):
        alone = self.run_it(None, None, "--method", "contcore,dne", "-m", "100")
        done = self.run_it(2, None, "--method", "contcore,dne", "-m", "100")
        lines = [line.rsplit(None, 1)[0] for line in alone.stdout.splitlines()]
        self.assertEqual([line.rsplit(None, 1)[0] for line in done.stdout.splitlines()], lines)
        self.assertEqual(done.stderr.count("classes, task by task"), 1)
        self.assertEqual(done.stderr.count("1 of 2: contcore"), 1)
        self.assertEqual(done.stderr.count("2 of 2: dne"), 1)

    def test_runs_that_are_known_are_not_run_again(self):
        arguments = ["--method", "random", "--seeds", "5", "-m", "100", "--json"]
        first = self.run_it(3, "cache", *arguments)
        again = self.run_it(2, "cache", *arguments)
        self.assertIn("5 runs from the cache", again.stderr)
        self.assertEqual(json.loads(again.stdout), json.loads(first.stdout))
        alone = self.run_it(None, "cache", *arguments)
        self.assertIn("5 runs from the cache", alone.stderr)

    def test_what_is_wrong_is_said_once(self):
        for arguments, code, words in (
            (["--method", "no-such-method"], 2, "no-such-method"),
            (["--schedule", "9x9"], 2, "9x9"),
            (["--sweep", "p=7"], 2, "p is 7"),
            (["--classes", "nothing"], 2, "nothing"),
        ):
            for ranks in (1, 3):
                done = self.run_it(ranks, "cache", *arguments, code=code)
                said = [line for line in done.stderr.splitlines() if line.startswith("contcore: ")]
                self.assertEqual(len([line for line in said if words in line]), 1, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_an_image_that_cannot_be_read_ends_all(self):
        data = os.path.join(self.folder, "data")
        shutil.copytree(self.data, data)
        broken = os.path.join(data, "product3", "test", "good", "002.png")
        with open(broken, "w") as file:
            file.write("no image")
        for cache in ("cache", None):
            for seeds in ("1", "3"):
                words = self.command(3, cache, "--method", "random", "--seeds", seeds, "-m", "50")
                words[words.index(self.data)] = data
                done = subprocess.run(
                    words, capture_output=True, text=True, timeout=300, env=self.environment()
                )
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn(broken, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_images_that_differ_are_refused(self):
        words = self.command(1, None, "--method", "random", "-m", "50")
        words[words.index(self.data)] = "data"
        apart = []
        for name in ("a", "b"):
            shutil.copytree(self.data, os.path.join(self.folder, name, "data"))
            apart += ([":"] if apart else words[:1] + ["--oversubscribe", "--bind-to", "none"]) + ["-n", "1", "-wdir", os.path.join(self.folder, name), *words[words.index(CONTCORE):]]
        run = lambda: subprocess.run(apart, capture_output=True, text=True, timeout=300, env=self.environment())
        self.assertEqual(run().returncode, 0)
        # As large as it was, and other pixels.
        path = os.path.join(self.folder, "b", "data", "product3", "test", "good", "002.png")
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 2)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1]))
        done = run()
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(done.stderr.count("rank 1 has another data set"), 1, done.stderr)

    def test_analyze_is_for_one_process(self):
        done = self.run_it(2, "cache", command="analyze bound", code=2)
        self.assertEqual(done.stderr.count("leave out mpirun"), 1)

    def test_ctrl_c_stops_all_and_the_same_command_goes_on(self):
        arguments = ["--method", "contcore,random", "--seeds", "12", "-m", "300", "--ratio", "0.2", "--json"]
        expected = without_costs(json.loads(self.run_it(None, None, *arguments).stdout))
        for finished in ("1 of 24", "6 of 24"):
            process = subprocess.Popen(
                self.command(3, "cache", *arguments),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                env=self.environment(),
            )
            for line in process.stderr:
                if finished in line:
                    break
            process.send_signal(signal.SIGINT)
            began = time.monotonic()
            _, remarks = process.communicate(timeout=300)
            self.assertLess(time.monotonic() - began, 60)
            self.assertNotIn("Segmentation", remarks)
        done = self.run_it(3, "cache", *arguments)
        self.assertEqual(without_costs(json.loads(done.stdout)), expected)
        self.assertIn("from the cache", done.stderr)
        left = [n for n in os.listdir(os.path.join(self.folder, "cache", "features")) if ".part-" in n]
        self.assertEqual(left, [])


if __name__ == "__main__":
    CONTCORE = os.path.abspath(sys.argv.pop(1))
    loud.main()
