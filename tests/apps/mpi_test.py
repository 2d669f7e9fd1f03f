"""Drives learn, sample and merge as several processes under mpirun.  Usage: mpi_test.py PATH_TO_CONTCORE

What several ranks make is compared with what one process makes: byte for byte, but for the time of day."""

import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import numpy

import loud
from memory_test import SMALL, product, write_image

CONTCORE = "contcore"
# So many numbers that they take their time and room.
LARGE = ["--backbone", "builtin", "--resize", "288", "--precision", "float", "--dimension", "1024"]
KILLS = int(os.environ.get("CONTCORE_TEST_KILLS", "6"))
# Root may, and there may be more ranks than cores.
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none"]


def content(path):
    """All of a memory but when it was learned."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    header["__metadata__"].pop("sha256")
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", json.dumps(header)), data


class MpiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp()
        for style, count in enumerate([23, 11]):
            folder = os.path.join(cls.shared, "product%d" % style)
            os.makedirs(folder)
            for i in range(count):
                write_image(os.path.join(folder, "%03d.ppm" % i), product(style, i))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared)

    def setUp(self):
        self.folder = tempfile.mkdtemp()

    def tearDown(self):
        shutil.rmtree(self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def images(self, style):
        return os.path.join(self.shared, "product%d" % style)

    def run_command(self, *command, **more):
        return subprocess.run(
            list(map(str, command)), capture_output=True, text=True, timeout=300, env=ENVIRONMENT, **more
        )

    def succeed(self, *command, **more):
        done = self.run_command(*command, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def alone(self, *arguments):
        return self.succeed(CONTCORE, *arguments)

    def together(self, ranks, *arguments, **more):
        return self.succeed(*MPIRUN, "-n", ranks, CONTCORE, *arguments, **more)

    def refused(self, code, words, *command):
        """By all ranks, and said once."""
        done = self.run_command(*command)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        said = [line for line in done.stderr.splitlines() if line.startswith("contcore: ")]
        self.assertEqual(len([line for line in said if words in line]), 1, done.stderr)
        self.assertNotIn("MPI_ABORT", done.stderr)

    def learn(self, memory, style, *more):
        return ["learn", memory, self.images(style), "--task", "p%d" % style, *SMALL, *more]

    # ------------------------------------------------------------ the same answers

    def test_a_memory_is_that_of_one_process(self):
        for options in [["--memory", "64K"], ["--precision", "float", "--consolidate", "paper", "--capacity", "300"]]:
            one = self.path("one.ccm")
            for style in (0, 1, 1):
                self.alone(*self.learn(one, style, *(options if not os.path.exists(one) else [])))
            lessons = self.alone("lessons", one).stdout.splitlines()
            for ranks in (2, 3, 4):
                memory = self.path("ranks%d.ccm" % ranks)
                for style in (0, 1, 1):
                    done = self.together(ranks, *self.learn(memory, style, "--json", *(options if not os.path.exists(memory) else [])))
                    self.assertEqual(json.loads(done.stdout)["ranks"]["count"], ranks)
                self.assertEqual(content(memory), content(one), "%d ranks, %s" % (ranks, options))
                # Lessons are kept as one process keeps them, so that they can be taken back.
                self.assertEqual(len(self.alone("lessons", memory).stdout.splitlines()), len(lessons))
                self.alone("forget", memory, "--lesson", "3", "--exact")
                shutil.rmtree(memory + ".versions")
                os.remove(memory)
            shutil.rmtree(one + ".versions")
            os.remove(one)

    def test_picks_are_those_of_one_process(self):
        numbers = numpy.random.RandomState(1)
        floats = numbers.normal(size=(6000, 8)) @ numbers.normal(size=(8, 96)) + 0.1 * numbers.normal(size=(6000, 96))
        kinds = {"f32": floats.astype("f4"), "f16": floats.astype("f2"), "u8": numpy.clip(floats * 8 + 128, 0, 255).astype("u1")}
        for name, points in kinds.items():
            numpy.save(self.path(name + ".npy"), points)
            numpy.save(self.path("base.npy"), points[::500])
            for base in [[], ["--base", self.path("base.npy")]]:
                sample = ["sample", self.path(name + ".npy"), "--count", 300, *base]
                self.alone(*sample, "--out", self.path("a.npy"), "--radii", self.path("ar.npy"))
                for ranks in (2, 5):
                    done = self.together(ranks, *sample, "--out", self.path("b.npy"), "--radii", self.path("br.npy"), "--json")
                    self.assertTrue((numpy.load(self.path("a.npy")) == numpy.load(self.path("b.npy"))).all())
                    self.assertEqual(numpy.load(self.path("ar.npy")).tobytes(), numpy.load(self.path("br.npy")).tobytes())
                    told = json.loads(done.stdout)
                    settled = sum(stage["settled"] for stage in told["stages"])
                    self.assertEqual(settled, 6000 * (300 + told["base_rows"]))

    def test_more_ranks_than_images_and_images_that_cannot_be_read(self):
        few = self.path("few")
        os.makedirs(few)
        for i in range(4):
            shutil.copy(os.path.join(self.images(0), "%03d.ppm" % i), few)
        with open(os.path.join(few, "002.ppm"), "w") as file:
            file.write("no image")
        learn = ["learn", few, "--task", "few", *SMALL]
        self.alone("learn", self.path("one.ccm"), *learn[1:])
        done = self.together(6, "learn", self.path("six.ccm"), *learn[1:])
        self.assertEqual(content(self.path("six.ccm")), content(self.path("one.ccm")))
        self.assertEqual(done.stderr.count("left out"), 1, done.stderr)
        self.refused(3, "002.ppm", *MPIRUN, "-n", 3, CONTCORE, "learn", self.path("no.ccm"), *learn[1:], "--strict")
        self.assertFalse(os.path.exists(self.path("no.ccm")))

    def test_a_rank_whose_features_do_not_fit_into_its_memory(self):
        learn = lambda memory: ["learn", memory, self.images(0), "--task", "p0", "--versions", "0", "--json", *LARGE]
        one, two = self.path("one.ccm"), self.path("two.ccm")
        on_disk = 0
        for limit in ("84M", "110M"):  # the folds are of fewer patches then
            tight = ["--memory-limit", limit]
            for first, second in (([], tight), (tight, []), (tight, tight)):
                self.alone(*learn(one), *first)
                done = self.succeed(*MPIRUN, "-n", 1, CONTCORE, *learn(two), *first, ":", "-n", 1, CONTCORE, *learn(two), *second)
                on_disk += json.loads(done.stdout)["features_on_disk"]
                self.assertEqual(content(two), content(one), "%s %s" % (first, second))
                os.remove(one)
                os.remove(two)
        self.assertEqual(on_disk, 6)

    def test_merging_is_merging_one_after_the_other(self):
        lines = []
        for i in range(5):
            lines.append(self.path("line%d.ccm" % i))
            self.alone("learn", lines[-1], self.images(i % 2), "--task", "line %d" % i, *SMALL, "--memory", "64K", "--versions", "0")
        self.alone("merge", self.path("one.ccm"), *lines)
        for ranks in (2, 3, 7):
            done = self.together(ranks, "merge", self.path("%d.ccm" % ranks), *lines)
            self.assertIn("merged 5 memories: 5 tasks", done.stdout)
            self.assertEqual(content(self.path("%d.ccm" % ranks)), content(self.path("one.ccm")))
        self.refused(2, "only one process can", *MPIRUN, "-n", 2, CONTCORE, "merge", lines[3], *lines, "--force")
        self.alone("learn", self.path("patch.ccm"), self.images(1), "--task", "a", *SMALL, "--score", "patch", "--versions", "0")
        self.refused(3, "patch.ccm: the memories differ in their score", *MPIRUN, "-n", 2, CONTCORE, "merge", self.path("x.ccm"), lines[0], self.path("patch.ccm"))
        self.refused(2, "at least two", *MPIRUN, "-n", 2, CONTCORE, "merge", self.path("x.ccm"), lines[0])
        self.refused(3, "cannot be opened", *MPIRUN, "-n", 2, CONTCORE, "merge", self.path("x.ccm"), lines[0], self.path("y.ccm"))

    # ------------------------------------------------------------ what is refused, once

    def test_what_several_processes_cannot_do(self):
        self.alone(*self.learn(self.path("one.ccm"), 1))
        several = [*MPIRUN, "-n", 3, CONTCORE]
        self.refused(2, "is done by one process", *several, "inspect", self.path("one.ccm"), self.images(1))
        self.refused(2, "online", *several, *self.learn(self.path("one.ccm"), 1, "--online"))
        self.refused(2, "leave out mpirun", *several, *self.learn(self.path("one.ccm"), 1, "--defects"))
        self.refused(2, "has no option --tusk", *several, "learn", self.path("one.ccm"), self.images(1), "--tusk", "a")
        self.refused(2, "--ratio 5", *several, *self.learn(self.path("one.ccm"), 1, "--ratio", "5"))
        self.refused(2, "is not a size", *several, *self.learn(self.path("one.ccm"), 1, "--memory-limit", "2x"))
        self.refused(2, "a task needs a name", *several, "learn", self.path("one.ccm"), self.images(1), "--task", "")
        self.refused(2, "cuda", *several, *self.learn(self.path("one.ccm"), 1, "--device", "cuda"))
        self.refused(3, "nofile.npy", *several, "sample", self.path("nofile.npy"), "--count", 3)
        self.refused(2, "--count", *several, "sample", self.path("nofile.npy"))
        self.refused(3, "nowhere", *several, "learn", self.path("one.ccm"), self.path("nowhere"), "--task", "a")
        self.refused(3, "the folder", *several, *self.learn(self.path("no/folder.ccm"), 1))
        # One rank alone is a process like any other.
        self.succeed(*MPIRUN, "-n", 1, CONTCORE, "inspect", self.path("one.ccm"), self.images(1))

    def test_ranks_that_are_not_alike(self):
        memory = self.path("one.ccm")
        self.alone(*self.learn(memory, 1))
        before = content(memory)
        learn = self.learn(memory, 0)
        self.refused(3, "other arguments", *MPIRUN, "-n", 1, CONTCORE, *learn, ":", "-n", 1, CONTCORE, *learn, "--strict")
        other = self.path("contcore")
        shutil.copy(CONTCORE, other)
        with open(other, "ab") as file:
            file.write(b"\0")
        self.refused(3, "another build", *MPIRUN, "-n", 1, CONTCORE, *learn, ":", "-n", 1, other, *learn)
        # Each in a folder of its own: another memory there, or some images missing.
        learn = ["learn", "line.ccm", "images", "--task", "p0"]
        for name in ("a", "b"):
            shutil.copytree(self.images(0), self.path(name + "/images"))
            shutil.copy(memory, self.path(name + "/line.ccm"))
        apart = [*MPIRUN]
        for name in ("a", "b"):
            apart += ([":"] if name == "b" else []) + ["-n", 1, "-wdir", self.path(name), CONTCORE, *learn]
        for i in (20, 21):
            os.remove(self.path("b/images/%03d.ppm" % i))
        done = self.succeed(*apart)
        self.assertEqual(done.stderr.count("left out"), 2, done.stderr)
        self.assertEqual(done.stderr.count("020.ppm"), 1, done.stderr)
        self.refused(3, "rank 1 has another line.ccm", *apart)  # it was learned into in one folder alone
        self.assertEqual(content(memory), before)
        for name, rows in (("a", 3000), ("b", 3100)):
            numpy.save(self.path(name + "/z.npy"), numpy.random.RandomState(rows).normal(size=(rows, 8)).astype("f4"))
        sample = ["sample", "z.npy", "--count", "5"]
        apart = [*MPIRUN, "-n", 1, "-wdir", self.path("a"), CONTCORE, *sample, ":", "-n", 1, "-wdir", self.path("b"), CONTCORE, *sample]
        self.refused(3, "rank 1 has other vectors", *apart)
        # A region of the same name that is another.
        for name, right in (("a", 200), ("b", 150)):
            with open(self.path(name + "/region.json"), "w") as file:
                json.dump({"width": 288, "height": 288, "polygons": [[[9, 9], [right, 9], [right, 200]]]}, file)
        learn = ["learn", "new.ccm", "images", "--task", "p0", "--region", "region.json"]
        apart = [*MPIRUN, "-n", 1, "-wdir", self.path("a"), CONTCORE, *learn, ":", "-n", 1, "-wdir", self.path("b"), CONTCORE, *learn]
        self.refused(3, "rank 1 has another region.json", *apart)
        self.assertFalse(os.path.exists(self.path("a/new.ccm")))

    # ------------------------------------------------------------ what goes wrong on the way

    def start(self, memory, ranks, *more):
        """Learning that goes on meanwhile, in a process group of its own."""
        learn = ["learn", memory, self.images(0), "--task", "p1", "--versions", "0", *more]
        return subprocess.Popen(
            [*MPIRUN, "-n", str(ranks), CONTCORE, *learn],
            env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )

    def ranks_of(self, process):
        """The processes of contcore that mpirun started."""
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/stat" % name) as file:
                    fields = file.read().rsplit(")", 1)[1].split()
                with open("/proc/%s/cmdline" % name) as file:
                    command = file.read().split("\0")[0]
            except OSError:
                continue
            if int(fields[1]) == process.pid and command == CONTCORE:
                found.append(int(name))
        return sorted(found)

    @staticmethod
    def is_contcore(pid):
        try:
            with open("/proc/%d/cmdline" % pid) as file:
                return file.read().split("\0")[0] == CONTCORE
        except OSError:
            return False

    def ends(self, process, within):
        try:
            return process.communicate(timeout=within)[1]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            self.fail("the ranks are still there after %d s" % within)

    def test_a_rank_that_is_killed_ends_all(self):
        memory = self.path("line.ccm")
        self.alone(*self.learn(memory, 1))
        numbers = random.Random(int(os.environ.get("CONTCORE_TEST_SEED", "1")))
        began = time.monotonic()
        self.ends(self.start(self.path("line.ccm"), 3), 120)
        whole = time.monotonic() - began
        before = content(memory)
        shutil.copy(memory, self.path("next.ccm"))
        self.alone("learn", self.path("next.ccm"), self.images(0), "--task", "p1", "--versions", "0")
        after = content(self.path("next.ccm"))
        shutil.copy(memory, self.path("before.ccm"))
        killed = 0
        for _ in range(KILLS):
            process = self.start(memory, 3)
            time.sleep(numbers.uniform(0, whole))
            end = time.monotonic() + 30
            ranks = self.ranks_of(process)
            while not ranks and process.poll() is None and time.monotonic() < end:
                time.sleep(0.01)
                ranks = self.ranks_of(process)
            if ranks and process.poll() is None:
                try:
                    os.kill(numbers.choice(ranks), signal.SIGKILL)
                    killed += 1
                except ProcessLookupError:
                    pass
            said = self.ends(process, 10 + whole)
            self.assertEqual([rank for rank in ranks if self.is_contcore(rank)], [])
            self.alone("info", memory)
            if process.returncode != 0:
                self.assertRegex(said, "signal 9|Killed|job has been aborted")
            if content(memory) != before:  # it was done before that
                self.assertEqual(content(memory), after)
                shutil.copy(self.path("before.ccm"), memory)
        print("killed %d of %d" % (killed, KILLS), file=sys.stderr)
        self.assertGreaterEqual(2 * killed, KILLS)

    def test_control_c_leaves_the_memory_as_it_was(self):
        memory = self.path("line.ccm")
        for side in ("768", "288"):  # while images are extracted, and later
            larger = [side if word == "288" else word for word in LARGE]
            process = self.start(memory, 2, *larger, "--ratio", "0.2")
            while not self.ranks_of(process) and process.poll() is None:
                time.sleep(0.02)
            time.sleep(0.2)
            os.kill(process.pid, signal.SIGINT)  # mpirun takes a second to hand it on
            said = self.ends(process, 30)
            self.assertNotEqual(process.returncode, 0)
            self.assertFalse(os.path.exists(memory), said)
            self.assertLessEqual(said.count("contcore: stopped"), 1, said)
            self.assertNotIn("MPI_ABORT", said)

    def test_a_full_disk_leaves_the_memory_as_it_was(self):
        small = self.path("small")
        os.mkdir(small)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256K", "tmpfs", small], capture_output=True)
        if done.returncode != 0:
            self.skipTest("no small disk can be mounted")
        try:
            memory = os.path.join(small, "line.ccm")
            self.alone(*self.learn(memory, 1, "--versions", "0"))
            before = content(memory)
            learn = ["learn", memory, self.images(0), "--task", "p0", "--versions", "0", "--ratio", "0.5"]
            self.refused(3, "line.ccm: cannot be written: the disk is full", *MPIRUN, "-n", 3, CONTCORE, *learn)
            self.assertEqual(content(memory), before)
        finally:
            subprocess.run(["umount", small], check=True)


class Hosts:
    """Machines with a name and a network each, on this one. Needs the right to make them."""

    # Names of their own, so that several runs do not disturb each other.
    NAME = "cc%d-" % (os.getpid() % 100000)
    NETWORK = "10.%d.%d" % (64 + os.getpid() // 256 % 128, os.getpid() % 256)
    AGENT = """#!/bin/sh
host=${1##*.}
shift
exec ip netns exec %s$host unshare --uts sh -c "hostname host$host; $*"
""" % NAME

    def __init__(self, count, folder):
        self.count = count
        self.agent = os.path.join(folder, "agent")
        with open(self.agent, "w") as file:
            file.write(self.AGENT)
        os.chmod(self.agent, 0o755)

    @staticmethod
    def ip(*words, check=True):
        subprocess.run(["ip", *map(str, words)], check=check, capture_output=True)

    def __enter__(self):
        self.__exit__()
        try:
            bridge = self.NAME + "0"
            self.ip("link", "add", bridge, "type", "bridge")
            self.ip("addr", "add", self.NETWORK + ".254/24", "dev", bridge)
            self.ip("link", "set", bridge, "up")
            for h in range(1, self.count + 1):
                name = self.NAME + str(h)
                self.ip("netns", "add", name)
                self.ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
                self.ip("link", "set", name, "master", bridge, "up")
                self.ip("-n", name, "addr", "add", "%s.%d/24" % (self.NETWORK, h), "dev", "eth0")
                self.ip("-n", name, "link", "set", "eth0", "up")
                self.ip("-n", name, "link", "set", "lo", "up")
        except (subprocess.CalledProcessError, FileNotFoundError) as error:
            self.__exit__()
            raise unittest.SkipTest("no network of its own can be made: %s" % error)
        return self

    def __exit__(self, *_):
        for h in range(1, self.count + 1):
            self.ip("netns", "del", self.NAME + str(h), check=False)
        self.ip("link", "del", self.NAME + "0", check=False)

    def mpirun(self):
        hosts = ",".join("%s.%d:2" % (self.NETWORK, h) for h in range(1, self.count + 1))
        network = self.NETWORK + ".0/24"
        return ["mpirun", "--bind-to", "none", "--host", hosts, "--mca", "plm_rsh_agent", self.agent,
                "--mca", "oob_tcp_if_include", network, "--mca", "btl", "self,tcp",
                "--mca", "btl_tcp_if_include", network]


class HostsTest(MpiTest):
    """Machines that only a network joins."""

    def test_several_machines(self):
        one, four = self.path("one.ccm"), self.path("four.ccm")
        with Hosts(2, self.folder) as hosts:
            for style in (0, 1):
                self.alone(*self.learn(one, style))
                done = self.succeed(*hosts.mpirun(), "-n", 4, CONTCORE, *self.learn(four, style, "--json"))
                self.assertEqual(json.loads(done.stdout)["ranks"]["count"], 4)
        self.assertEqual(content(four), content(one))


# Its other tests are not to be run twice.
for name in [name for name in dir(MpiTest) if name.startswith("test_")]:
    setattr(HostsTest, name, None)


if __name__ == "__main__":
    CONTCORE = os.path.abspath(sys.argv.pop(1))
    loud.main()
