"""Drives cameras that Aravis makes up: those of its own process (Fake_1) and one across the network, in a process that
is killed and comes back.  Usage: camera_test.py PATH_TO_CONTCORE

CAMERA_KILLS=10 in the environment: how often. CAMERA_SECONDS=600: how long one is to send as fast as it can."""

import fcntl
import json
import os
import subprocess
import sys
import threading
import time
import unittest

import numpy

import loud
import serving
from serving import SLOW, ServiceTest, picture

KILLS = int(os.environ.get("CAMERA_KILLS", "2"))
SECONDS = float(os.environ.get("CAMERA_SECONDS", "3"))
PATIENCE = 2 * serving.PATIENCE
STATION = "/v1/stations/press%204/trigger"
# GigE Vision over the loopback interface. Its property makes it forget parts of frames.
NETWORK_CAMERA = """
import ctypes, sys, time
aravis, gobject = ctypes.CDLL("libaravis-0.8.so.0"), ctypes.CDLL("libgobject-2.0.so.0")
aravis.arv_gv_fake_camera_new.restype = ctypes.c_void_p
aravis.arv_gv_fake_camera_is_running.argtypes = [ctypes.c_void_p]
camera = aravis.arv_gv_fake_camera_new(b"127.0.0.1", b"line1")
gobject.g_object_set.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_double, ctypes.c_void_p]
gobject.g_object_set(camera, b"gvsp-lost-ratio", float(sys.argv[1]), None)
print(aravis.arv_gv_fake_camera_is_running(camera), flush=True)
time.sleep(1e6)
"""


class NetworkCamera:
    """There is one at a time, since its port is the standard's: other tests wait until the one that has it is over."""

    def __init__(self, lost=0.0):
        self.process = subprocess.Popen(
            [sys.executable, "-c", NETWORK_CAMERA, str(lost)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout.readline() == "1\n", "the made-up camera does not run"

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    @staticmethod
    def turn():
        """Closed when the test is over, and its services are."""
        lock = open("/tmp/contcore-test-camera.lock", "w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        return lock


class CameraTest(ServiceTest):
    def network_camera(self, *how):
        if not hasattr(self, "turn"):
            self.turn = NetworkCamera.turn()
            self.addCleanup(self.turn.close)
        made = NetworkCamera(*how)
        self.addCleanup(made.kill)
        return made

    def cameras(self, service):
        return {one["station"]: one for one in service.good("GET", "/v1/status")["cameras"]}

    def camera(self, service):
        (one,) = self.cameras(service).values()
        self.check_account(one)
        return one

    def check_account(self, one):
        parts = ["inspected", "unreadable", "dropped", "damaged", "waiting"]
        self.assertEqual(one["frames"], sum(one[part] for part in parts), one)

    def when(self, service, condition, what):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            now = self.camera(service)
            if condition(now):
                return now
            time.sleep(0.05)
        self.fail("never %s: %s; %s" % (what, self.camera(service), service.words()))


class CameraServiceTest(CameraTest):
    def test_frames_are_inspected_for_their_station(self):
        service = self.start_learned("--camera", "Fake_1,station=press 4,rate=20")
        self.when(service, lambda now: now["inspected"] >= 5, "inspected")
        now = self.camera(service)
        self.assertEqual([now[k] for k in ("id", "up", "vendor", "model", "serial", "error", "lost", "damaged")],
                         ["Fake_1", True, "Aravis", "Fake", "1", "", 0, 0])  # fmt: skip
        rows = service.good("GET", "/v1/inspections", limit=500)["inspections"]
        self.assertGreaterEqual(len(rows), 5)
        self.assertEqual({(row["station"], row["width"], row["height"]) for row in rows}, {("press 4", 512, 512)})
        self.assertTrue(all(row["source"].startswith("frame ") for row in rows))
        self.assertEqual(len({row["source"] for row in rows}), len(rows))
        with self.subTest("a frame that is called good is learned as it was inspected"):
            one = rows[0]
            image = service.get("/v1/inspections/%d/image" % one["id"])
            self.assertEqual(image.kind(), "image/png")
            again = service.good("POST", "/v1/inspections", image.body)
            self.assertEqual(again["score"], one["score"])
        metrics = service.get("/metrics").body.decode()
        self.assertIn('contcore_camera_up{station="press 4"} 1', metrics)
        self.assertIn('contcore_camera_frames_total{result="lost",station="press 4"} 0', metrics)
        self.assertEqual(service.stop(), 0)

    def test_a_frame_that_is_asked_for(self):
        self.network_camera()
        service = self.start_learned("--camera", "127.0.0.1,station=press 4,trigger=software", "--camera", "Fake_1,station=b")
        end = time.monotonic() + PATIENCE
        while not self.cameras(service)["press 4"]["up"] and time.monotonic() < end:
            time.sleep(0.01)
        for number in range(1, 4):
            row = service.good("POST", STATION)
            self.assertEqual(row["station"], "press 4")
            self.assertEqual(self.cameras(service)["press 4"]["inspected"], number)
        replies = []
        crowd = [threading.Thread(target=lambda: replies.append(service.ask("POST", STATION))) for _ in range(8)]
        for one in crowd:
            one.start()
        for one in crowd:
            one.join()
        # Half a frame is told of, and no verdict; it may come on a busy machine.
        taken = [reply.json()["source"] for reply in replies if reply.status == 201]
        self.assertLessEqual({reply.status for reply in replies}, {201, 503}, replies)
        self.assertGreater(len(taken), 3, replies)
        self.assertEqual(len(set(taken)), len(taken))
        with self.subTest("as one product"):
            self.assertEqual(service.good("POST", STATION, task="p1")["task"], "p1")
        before = self.cameras(service)["press 4"]["frames"]
        self.assertEqual(service.ask("POST", STATION, task="nobody").status, 400)
        service.good("PUT", "/v1/stations/press%204", {"task": "p0"})
        self.assertEqual(service.ask("POST", STATION, task="p1").status, 409)
        self.assertEqual(service.ask("POST", "/v1/stations/other/trigger").status, 404)
        with self.subTest("what cannot be costs no frame"):
            self.assertEqual(self.cameras(service)["press 4"]["frames"], before)
        with self.subTest("of one that runs free"):
            free = service.ask("POST", "/v1/stations/b/trigger")
            self.assertEqual((free.status, "runs free" in free.json()["detail"]), (409, True), free)
        self.assertEqual(service.stop(), 0)

    def test_one_that_is_not_there(self):
        service = self.start_learned("--camera", "Nobody-1,station=press 4,trigger=software")
        self.when(service, lambda now: "not found" in now["error"], "missed")
        self.assertEqual(service.ask("POST", STATION).status, 503)
        warnings = " ".join(service.good("GET", "/v1/status")["warnings"])
        self.assertIn("station press 4: camera Nobody-1: ", warnings)
        self.assertIn("tried again", warnings)
        self.assertIn('contcore_camera_up{station="press 4"} 0', service.get("/metrics").body.decode())
        service.good("POST", "/v1/inspections", picture(0, 1))
        self.assertEqual(service.stop(), 0)

    def test_a_frame_that_cannot_be_judged(self):
        images = os.path.join(self.folder, "images")
        os.mkdir(images)
        for i in range(12):
            with open(os.path.join(images, "%02d.png" % i), "wb") as file:
                file.write(serving.png(serving.product(0, i)[:32]))
        region = os.path.join(self.folder, "region.png")
        mask = numpy.zeros((32, 64, 3))
        mask[4:28, 4:60] = 255
        with open(region, "wb") as file:
            file.write(serving.png(mask))
        memory = os.path.join(self.folder, "line.ccm")
        done = self.run_command("learn", memory, images, "--task", "wide", "--region", region, *serving.SMALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.network_camera()
        service = self.start("--camera", "127.0.0.1,station=press 4,trigger=software")
        self.when(service, lambda now: now["up"], "up")
        reply = service.ask("POST", STATION, task="wide")
        self.assertEqual(reply.status, 422, reply)
        self.assertEqual(self.camera(service)["unreadable"], 1)
        self.assertEqual(service.stop(), 0)

    def test_nothing_learned_yet(self):
        service = self.start("--camera", "Fake_1,station=press 4")
        now = self.when(service, lambda now: now["dropped"] > 3, "dropped")
        self.assertEqual(now["inspected"], 0)
        self.assertIn("nothing is learned", " ".join(service.good("GET", "/v1/status")["warnings"]))
        service.kill()
        memory = self.start("--camera", "Fake_1,station=press 4,trigger=software", memory=os.path.join(self.folder, "new"))
        self.assertEqual(memory.ask("POST", STATION).status, 409)


class CameraLineTest(CameraTest):
    def test_as_fast_as_it_sends_no_frame_is_unaccounted_for(self):
        camera = self.network_camera()
        service = self.start_learned("--camera", "127.0.0.1,station=press 4,rate=500", "--keep-images", "10M",
                                     "--keep-inspections", 1000000)  # fmt: skip
        self.when(service, lambda now: now["frames"] > 0, "begun")
        end = time.monotonic() + SECONDS
        longest = 0.0
        while time.monotonic() < end:
            self.camera(service)
            begin = time.monotonic()
            service.good("POST", "/v1/inspections", picture(0, 1))  # it does not keep others out
            longest = max(longest, time.monotonic() - begin)
            time.sleep(0.05)
        camera.kill()
        now = self.when(service, lambda now: not now["up"] and now["waiting"] == 0, "done")
        self.assertGreater(now["inspected"], 10)
        sys.stderr.write("\n%s; others waited for %.0f ms at most\n" % (now, 1e3 * longest))
        # What came and what was lost are all numbers from the camera's first to its last. What came before the first
        # and after the last that was inspected was dropped.
        numbers = self.frame_numbers(service, now["inspected"])
        span = numbers[-1] - numbers[0] + 1
        self.assertLessEqual(span, now["frames"] + now["lost"], now)
        self.assertGreaterEqual(span + now["dropped"], now["frames"] + now["lost"], now)
        self.assertEqual(service.stop(), 0)

    def frame_numbers(self, service, count):
        """Of all inspected frames, in order; GigE Vision's go from 65535 to 1."""
        exported = service.get("/v1/inspections.json", station="press 4").json()
        numbers = [int(row["source"].split()[1]) for row in reversed(exported["inspections"])]
        self.assertEqual(len(numbers), count)
        for i, number in enumerate(numbers[1:], 1):
            numbers[i] = numbers[i - 1] + (number - numbers[i - 1] + 30000) % 65535 - 30000
        self.assertEqual(len(set(numbers)), len(numbers))
        return sorted(numbers)

    def test_unplugged_and_back(self):
        camera = self.network_camera()
        service = self.start_learned("--camera", "127.0.0.1,station=press 4,rate=10")
        for _ in range(KILLS):
            before = self.when(service, lambda now: now["up"], "up")
            self.when(service, lambda now: now["inspected"] > before["inspected"], "inspected")
            camera.kill()
            self.when(service, lambda now: not now["up"], "missed")
            service.good("POST", "/v1/inspections", picture(0, 1))
            camera = self.network_camera()
        before = self.when(service, lambda now: now["up"], "up")
        now = self.when(service, lambda now: now["inspected"] > before["inspected"], "inspected")
        self.assertGreaterEqual(now["opened"], KILLS + 1)
        self.assertEqual(service.stop(), 0)

    def test_half_frames(self):
        self.network_camera(0.002)  # of 195 parts
        service = self.start_learned("--camera", "127.0.0.1,station=press 4,rate=20")
        now = self.when(service, lambda now: now["damaged"] > 5 and now["inspected"] > 5, "damaged")
        # Of a hundred frames or so; a number out of order would make thousands.
        self.assertLess(now["lost"], now["frames"] + 20, now)
        self.assertRegex(" ".join(service.good("GET", "/v1/status")["warnings"]), r"[1-9][0-9]* came damaged")
        self.assertEqual(service.stop(), 0)


class CameraCommandTest(CameraTest):
    def test_images_from_one(self):
        out = os.path.join(self.folder, "images")
        done = self.run_command("camera", "Fake_1,rate=50", "--out", out, "--count", 5, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual((said["camera"], said["vendor"], len(said["files"])), ("Fake_1", "Aravis", 5))
        self.assertEqual(sorted(os.listdir(out)), [os.path.basename(file) for file in said["files"]])
        again = self.run_command("camera", "Fake_1", "--out", out, "--count", 2)
        self.assertEqual(again.stdout, "2 images of Aravis Fake in %s\n" % out)
        self.assertEqual(len(os.listdir(out)), 7)
        with self.subTest("can be learned"):
            memory = os.path.join(self.folder, "line.ccm")
            learned = self.run_command("learn", memory, out, "--task", "fake", *serving.SMALL)
            self.assertEqual(learned.returncode, 0, learned.stderr)

    def test_one_across_the_network(self):
        self.network_camera()
        out = os.path.join(self.folder, "images")
        taken = self.run_command("camera", "127.0.0.1,trigger=software", "--out", out, "--count", 3)
        self.assertEqual(len(os.listdir(out)), 3, taken.stderr)
        done = self.run_command("camera", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("line1", [one["serial"] for one in json.loads(done.stdout)["cameras"]])
        self.assertIn("Aravis-Fake-line1", self.run_command("camera").stdout)

    def test_what_cannot_be(self):
        out = os.path.join(self.folder, "images")
        for code, words, arguments in [
            (2, "no setting 'speed'", ["Fake_1,speed=3", "--out", out]),
            (2, "--out", ["Fake_1"]),
            (2, "name the camera", ["--out", out]),
            (3, "not found", ["Nobody-1", "--out", out]),
            (3, "cannot be made", ["Fake_1", "--out", __file__]),
            (3, "from 10 to", ["Fake_1,exposure=1e8", "--out", out]),
            (3, "Line9", ["Fake_1,trigger=Line9", "--out", out]),
            (3, "runs free", ["Fake_1,trigger=software", "--out", out]),
            (3, "Nothing", ["Fake_1,Nothing=1", "--out", out]),
        ]:
            done = self.run_command("camera", *arguments)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(words, done.stderr)
        self.assertFalse(os.path.exists(out))
        for words, arguments in [
            ("named twice", ["--camera", "Fake_1,station=a", "--camera", "Fake_1,station=b"]),
            ("named twice", ["--camera", "Fake_1,station=a", "--camera", "Fake_2,station=a"]),
            ("no setting", ["--camera", "Fake_1,x=3"]),
        ]:
            self.refuse_to_start([words], *arguments)


if __name__ == "__main__":
    ServiceTest.command = os.path.abspath(sys.argv.pop(1))
    loud.main(verbosity=2, defaultTest=["CameraCommandTest", "CameraLineTest"])
