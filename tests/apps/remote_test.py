"""Drives inspect and learn with --server against a stub.  Usage: remote_test.py PATH_TO_CONTCORE"""

import http.server
import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

import loud

CONTCORE = "contcore"

TASK = {
    "name": "bottle",
    "images": 4,
    "patches": 4096,
    "calibrated": 5,
    "threshold": {"score": 22.125, "false_alarms": 0.05, "images": 40, "manual": False},
}
INSPECTION = {
    "id": 17,
    "time": "2031-05-04T03:02:01.123Z",
    "task": "bottle",
    "source": "a.png",
    "score": 23.25,
    "threshold": 22.125,
    "verdict": "defect",
    "reason": "defect: 1 region, 41 × 22 px at (120, 88)",
    "regions": [{"x": 120, "y": 88, "width": 41, "height": 22, "area": 640, "score": 23.25}],
    "latency_ms": 41.5,
    "width": 320,
    "height": 200,
    "feedback": "",
    "feedback_time": "",
    "learned": False,
    "has_image": True,
}
STATUS = {"memory": {"vectors": 1200, "capacity": 20000, "certificate": 12.25}}


def problem(status, title, detail):
    return status, {"title": title, "detail": detail, "status": status}


class Stub(http.server.ThreadingHTTPServer):
    """Answers by `answer(method, path, body)`: (status, object or bytes[, headers])."""

    daemon_threads = True

    def __init__(self, answer):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.seen = []  # (method, raw path, headers, body)
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def handle_error(self, *_):
        pass  # a client that goes away is what some tests want

    def url(self):
        return "http://127.0.0.1:%d" % self.server_address[1]

    def asked(self):
        with self.lock:
            return [(method, path) for method, path, _, _ in self.seen]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_one(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.server.lock:
            self.server.seen.append((self.command, self.path, self.headers, body))
        status, content, *more = self.server.answer(self.command, self.path, body)
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        try:
            self.send_response(status)
            for name, value in (more[0] if more else {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            self.close_connection = True  # the client went away

    do_GET = do_POST = do_DELETE = handle_one

    def log_message(self, *_):
        pass


class Service:
    """Enough of a service to learn by."""

    def __init__(self, polls=2):
        self.polls = polls
        self.received = 0
        self.one_by_one = 0
        self.learned = False
        self.state = "receiving"
        self.remarks = []

    def job(self):
        review = {"images": self.received, "scored": self.received, "remarks": self.remarks, "strangest": []}
        return {
            "review": review if self.state == "questions" else None,
            "id": "3",
            "task": "bottle",
            "state": self.state,
            "received": self.received,
            "skipped": 0,
            "progress": 0.5,
            "error": "disk full" if self.state == "failed" else "",
        }

    def __call__(self, method, path, body):
        path = path.split("?")[0]
        if path == "/v1/tasks":
            return 200, {"tasks": [TASK] if self.learned else []}
        if path == "/v1/status":
            return 200, STATUS
        if path == "/v1/jobs":
            return 201, self.job()
        if path == "/v1/jobs/3/images":
            if body.startswith(b"bad"):
                return problem(422, "Not an image", "no PNG, JPEG or the like")
            self.received += 1
            return 200, self.job()
        if path == "/v1/jobs/3/review":
            self.state = "questions"
            return 202, self.job()
        if path == "/v1/jobs/3/start":
            self.state = "learning"
            return 202, self.job()
        if path == "/v1/jobs/3" and method == "DELETE":
            self.state = "cancelled"
            return 200, self.job()
        if path == "/v1/jobs/3":
            self.polls -= 1
            if self.polls <= 0 and self.state == "learning":
                self.state, self.learned = "done", True
            return 200, self.job()
        if path.startswith("/v1/tasks/") and path.endswith("/images"):
            if body.startswith(b"bad"):
                return problem(422, "Not an image", "no PNG, JPEG or the like")
            self.received += 1
            self.one_by_one += 1
            self.learned = True
            return 201, {"task": TASK}
        return problem(404, "Not found", "no such route")


class RemoteTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.stub = None

    def tearDown(self):
        if self.stub:
            self.stub.shutdown()
            self.stub.server_close()
        shutil.rmtree(self.folder)

    def serve(self, answer):
        self.stub = Stub(answer)
        return self.stub.url()

    def image(self, name="a.png", content=b"not really a picture"):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def run_command(self, *arguments, token=None, variables=None, **more):
        environment = {k: v for k, v in os.environ.items() if k != "CONTCORE_TOKEN"}
        environment.update(variables or {})
        # A proxy must not come between us and this machine.
        environment["http_proxy"] = "http://127.0.0.1:9"
        if token is not None:
            environment["CONTCORE_TOKEN"] = token
        return subprocess.run(
            [CONTCORE, *map(str, arguments)],
            capture_output=True, text=True, timeout=100, env=environment, **more,
        )  # fmt: skip

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

    # ---- inspect

    def on_a_terminal(self, *arguments):
        """What a terminal shows in the end of stdout and stderr together, line by line."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen([CONTCORE, *arguments], stdout=theirs, stderr=theirs,
                                   env={**os.environ, "TERM": "xterm"})  # fmt: skip
        os.close(theirs)
        sent = b""
        try:
            while piece := os.read(ours, 4096):
                sent += piece
        except OSError:  # the other side is closed
            pass
        os.close(ours)
        self.assertEqual(process.wait(timeout=60), 0, sent)
        shown = []
        for line in sent.decode().split("\r\n"):
            cells = ""
            for part in line.split("\r"):  # each begins at the left, over what stands there
                text, erased, rest = part.partition("\x1b[K")
                cells = text + (rest if erased else cells[len(text) :])
            shown.append(cells)
        return sent, shown

    def test_the_bar_and_the_results_do_not_mix(self):
        answered = []

        def answer(*_):
            if not answered:
                time.sleep(1.1)  # the bar appears after a second
            answered.append(1)
            return 201, INSPECTION

        url = self.serve(answer)
        for i in range(5):
            self.image("%d.png" % i)
        sent, shown = self.on_a_terminal("inspect", "--server", url, self.folder)
        self.assertIn(b"inspecting 5 images [", sent)
        self.assertEqual(len(shown), 7, shown)
        for i, line in enumerate(shown[:5]):
            self.assertRegex(line, r"^defect +23.250 +22.125 bottle +\S+/%d.png  1 region\b" % i)
        self.assertRegex(shown[5], r"^contcore: 5 images: ")
        self.assertEqual(shown[6], "")

    def test_inspects_and_prints_the_usual_line(self):
        url = self.serve(lambda *_: (201, INSPECTION))
        path = self.image("a b&c.png", b"the bytes")
        done = self.succeed("inspect", "--server", url, path, "--task", "bot/tle é", token="t" * 20)
        self.assertEqual(done.stdout, "defect     23.250    22.125 bottle           %s  1 region, 41 × 22 px at (120, 88)\n" % path)
        self.assertIn("1 image: 0 good, 1 defect", done.stderr)
        ((method, raw, headers, body),) = self.stub.seen
        self.assertEqual((method, body), ("POST", b"the bytes"))
        self.assertEqual(headers["Authorization"], "Bearer " + "t" * 20)
        self.assertTrue(raw.isascii())
        parts = urllib.parse.urlsplit(raw)
        self.assertEqual(parts.path, "/v1/inspections")
        self.assertEqual(
            urllib.parse.parse_qs(parts.query), {"source": ["a b&c.png"], "task": ["bot/tle é"]}
        )

    def test_inspects_as_json_and_without_a_threshold(self):
        reason = "uncalibrated: none was named"
        seen = dict(INSPECTION, task=None, threshold=None, verdict="uncalibrated", reason=reason, regions=[])
        url = self.serve(lambda *_: (201, seen))
        path = self.image()
        line = json.loads(self.succeed("inspect", path, "--server", url, "--json").stdout)
        self.assertEqual(
            line,
            {
                "file": path, "verdict": "uncalibrated", "score": 23.25, "reason": reason, "regions": [],
                "width": 320, "height": 200, "seconds": 0.0415,
            },
        )  # fmt: skip
        text = self.succeed("inspect", path, "--server", url + "/").stdout
        self.assertEqual(text.split()[:4], ["uncalibrated", "23.250", "-", "-"])
        self.assertNotIn("Authorization", self.stub.seen[0][2])

    def test_an_image_that_cannot_be_used_does_not_stop_the_others(self):
        def answer(_method, _path, body):
            if body == b"bad":
                return problem(422, "Not an image", "no PNG\x1b[31m or the like")
            return 201, INSPECTION

        url = self.serve(answer)
        self.image("1.png", b"bad")
        self.image("2.png", b"")  # not even sent
        self.image("3.png")
        done = self.fail_with(
            3, ["2 of 3 images could not be inspected"], "inspect", "--server", url, self.folder
        )
        lines = done.stdout.splitlines()
        self.assertTrue(lines[0].startswith("error    "), lines)
        self.assertIn("1.png: no PNG", lines[0])
        self.assertNotIn("\x1b", done.stdout)
        self.assertIn("2.png", lines[1])
        self.assertTrue(lines[2].startswith("defect"), lines)
        self.assertEqual(len(self.stub.seen), 2)

    def test_waits_when_it_is_told_to(self):
        answers = [
            (503, {"title": "Busy"}, {"Retry-After": "0"}),
            (429, {"title": "Slower"}, {"Retry-After": "1"}),
            (201, INSPECTION),
        ]
        url = self.serve(lambda *_: answers.pop(0))
        start = time.monotonic()
        self.succeed("inspect", "--server", url, self.image())
        self.assertGreaterEqual(time.monotonic() - start, 1)
        self.assertEqual(len(self.stub.seen), 3)

    def test_does_not_wait_longer_than_it_is_worth(self):
        url = self.serve(lambda *_: (503, {"title": "Busy"}, {"Retry-After": "61"}))
        self.fail_with(3, ["Busy", "later"], "inspect", "--server", url, self.image())
        self.assertEqual(len(self.stub.seen), 1)

    def test_503_without_retry_after_is_final(self):
        url = self.serve(lambda *_: problem(503, "Learning is stopped", "the disk is full"))
        self.fail_with(3, ["the disk is full"], "inspect", "--server", url, self.image())
        self.assertEqual(len(self.stub.seen), 1)

    # ---- what can go wrong

    def test_refusals_name_url_reason_and_remedy(self):
        for answer, words in [
            (problem(401, "Unauthorized", "a token is needed"), ["token is needed", "CONTCORE_TOKEN"]),
            (problem(409, "Empty", "the memory has learned nothing yet"), ["nothing yet"]),
            ((404, b"<html>"), ["404", "address of contcore serve"]),
            ((302, b"", {"Location": "http://elsewhere.invalid/"}), ["redirect", "elsewhere"]),
            ((200, b"<html>"), ["not a JSON object"]),
            ((200, b"[" * 100000), ["not a JSON object"]),
            ((201, {"score": "high", "verdict": "good"}), ["no score"]),
            ((201, dict(INSPECTION, verdict="\x1b[2J")), ["no score or verdict"]),
            ((200, b" " * (17 << 20)), ["16 MiB"]),
        ]:
            url = self.serve(lambda *_: answer)
            with self.subTest(words=words):
                done = self.fail_with(
                    3, [url + "/v1/inspections", *words], "inspect", "--server", url, self.image()
                )
                self.assertEqual(done.stdout, "")
                self.assertNotIn("\x1b", done.stderr)
                self.assertEqual(len(self.stub.seen), 1)
            self.stub.shutdown()
            self.stub.server_close()
            self.stub = None

    def test_nobody_there(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = "http://127.0.0.1:%d" % free.getsockname()[1]
            self.fail_with(
                3, [url, "contcore serve runs"], "inspect", "--server", url, self.image()
            )
            self.fail_with(
                3, [url], "learn", "--server", url, self.image(), "--task", "a"
            )

    def test_addresses_that_are_none(self):
        image = self.image()
        for url, word in [
            ("file:///etc/passwd", "neither http nor https"),
            ("ftp://127.0.0.1", "neither http nor https"),
            ("", "http://127.0.0.1:8080"),
            ("http://me:secret@127.0.0.1", "CONTCORE_TOKEN"),
            ("http://127.0.0.1/?a=b", "'?'"),
            ("http://a b", "not a URL"),
        ]:
            with self.subTest(url=url):
                done = self.fail_with(2, [word], "inspect", "--server", url, image)
                self.assertNotIn("secret", done.stderr)

    def test_without_libcurl_it_says_what_to_install_and_other_commands_work(self):
        self.image("libcurl.so.4", b"not a library")
        hidden = {"LD_LIBRARY_PATH": self.folder}
        self.fail_with(
            3, ["libcurl.so.4", "apt-get install libcurl4"],
            "inspect", "--server", "http://127.0.0.1:9", self.image(), variables=hidden,
        )  # fmt: skip
        self.succeed("--version", variables=hidden)

    def test_a_token_with_a_line_break_is_refused_and_not_shown(self):
        url = self.serve(lambda *_: (201, INSPECTION))
        done = self.fail_with(
            2, ["CONTCORE_TOKEN"], "inspect", "--server", url, self.image(),
            token="secret\r\nX-Evil: 1",
        )  # fmt: skip
        self.assertNotIn("secret", done.stderr)
        self.assertEqual(self.stub.seen, [])

    def test_usage(self):
        url = self.serve(lambda *_: (201, INSPECTION))
        image = self.image()
        for option in [
            ["--heatmaps", "x"], ["--maps", "x"], ["--false-alarms", "0.1"], ["--use", "5"],
            ["--backbone", "builtin"], ["--threads", "1"], ["--device", "cpu"],
        ]:  # fmt: skip
            self.fail_with(
                2, [option[0], "--server"], "inspect", "--server", url, image, *option
            )
        for option in [
            ["--ratio", "0.1"], ["--score", "map"], ["--memory-limit", "1G"], ["--capacity", "9"],
            ["--backbone", "builtin"], ["--layers", "a"], ["--resize", "64"], ["--crop", "none"],
            ["--consolidate", "share"], ["--q", "0.5"], ["--threads", "1"], ["--device", "cpu"],
        ]:  # fmt: skip
            self.fail_with(
                2, [option[0], "--server"],
                "learn", "--server", url, image, "--task", "a", *option,
            )  # fmt: skip
        self.fail_with(2, ["line.ccm", "service's"], "inspect", "--server", url, "line.ccm", image)
        self.fail_with(2, ["images is required"], "inspect", "--server", url)
        self.fail_with(2, ["memory is required"], "inspect")
        self.fail_with(2, ["images is required"], "inspect", "line.ccm")
        self.fail_with(2, ["--task"], "learn", "--server", url, image)
        self.fail_with(3, ["no such file"], "inspect", "--server", url, image + "x")
        self.assertEqual(self.stub.seen, [])

    # ---- learn

    def test_learns_as_a_job(self):
        url = self.serve(Service())
        for name in ["1.png", "2.png", "3.png"]:
            self.image(name, name.encode())
        done = self.succeed("learn", "--server", url, self.folder, "--task", "bottle")
        lines = done.stdout.splitlines()
        self.assertRegex(lines[0], r"^learned 4 images of bottle in \d+\.\d s: 4096 patches$")
        self.assertEqual(
            lines[1],
            "memory: 1200 of 20000 vectors, every patch learned lies within 12.25 of one",
        )
        self.assertEqual(
            lines[2],
            "threshold 22.12: about 5.0 % of good images score above it (calibrated with 40 images)",
        )
        asked = self.stub.asked()
        self.assertEqual(asked[0], ("GET", "/v1/tasks"))
        self.assertEqual(asked[1], ("POST", "/v1/jobs"))
        self.assertEqual(json.loads(self.stub.seen[1][3]), {"task": "bottle"})
        self.assertEqual([path.split("?")[0] for _, path in asked[2:5]], ["/v1/jobs/3/images"] * 3)
        self.assertEqual(asked[5], ("POST", "/v1/jobs/3/review"))
        self.assertEqual(asked[7], ("POST", "/v1/jobs/3/start"))
        self.assertEqual([body for *_, body in self.stub.seen[2:5]], [b"1.png", b"2.png", b"3.png"])
        self.assertNotIn("DELETE", [method for method, _ in asked])

    def test_learns_as_json_and_leaves_out_what_is_no_image(self):
        url = self.serve(Service())
        self.image("1.png")
        bad = self.image("2.png", b"bad")
        said = json.loads(
            self.succeed("learn", "--server", url, self.folder, "--task", "bottle", "--json").stdout
        )
        self.assertEqual((said["learned"], said["calibrated"], said["patches"]), (4, 5, 4096))
        self.assertEqual((said["vectors"], said["capacity"]), (1200, 20000))
        self.assertEqual([s["file"] for s in said["skipped"]], [bad])

    def test_strict_and_hopeless_jobs_are_cancelled(self):
        url = self.serve(Service())
        self.image("1.png", b"bad")
        self.fail_with(
            3, ["1.png", "job 3 was cancelled"],
            "learn", "--server", url, self.folder, "--task", "bottle",
        )  # fmt: skip
        self.assertEqual(self.stub.asked()[-1], ("DELETE", "/v1/jobs/3"))
        self.image("2.png")
        self.fail_with(
            3, ["1.png", "job 3 was cancelled"],
            "learn", "--server", url, self.folder, "--task", "bottle", "--strict",
        )  # fmt: skip
        self.assertEqual(self.stub.asked()[-1], ("DELETE", "/v1/jobs/3"))
        self.assertNotIn(("POST", "/v1/jobs/3/start"), self.stub.asked())

    def test_what_the_service_asks_is_said_before_anything_is_learned(self):
        service = Service()
        service.remarks = [{"kind": "strangers", "text": "1 of 2 images is odd\x1b[2J", "images": [1, 99, -1, "x"]}]
        url = self.serve(service)
        self.image("0.png", b"bad")
        self.image("1.png")
        odd = self.image("2.png")
        self.image("3.png", b"")
        done = self.succeed("learn", "--server", url, self.folder, "--task", "bottle", "--json")
        self.assertIn("review: 1 of 2 images is odd [2J", done.stderr)
        self.assertIn("2.png", done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual(said["review"]["remarks"][0]["images"], [odd])
        self.assertEqual(len(said["skipped"]), 2, "a broken and an empty file leave the others")
        service.state, service.received = "receiving", 0
        os.remove(os.path.join(self.folder, "0.png"))
        os.remove(os.path.join(self.folder, "3.png"))
        self.fail_with(
            3, ["is odd", "1 remark, and --strict was given", "job 3 was cancelled"],
            "learn", "--server", url, self.folder, "--task", "bottle", "--strict",
        )  # fmt: skip
        self.assertEqual([path for _, path in self.stub.asked()].count("/v1/jobs/3/start"), 1)

    def test_a_job_that_fails(self):
        service = Service(polls=1000)

        def answer(method, path, body):
            done = service(method, path, body)
            if path.endswith("/start"):
                service.state = "failed"
            return done

        url = self.serve(answer)
        self.fail_with(
            3, ["/v1/jobs/3", "failed: disk full"],
            "learn", "--server", url, self.image(), "--task", "bottle",
        )  # fmt: skip
        self.assertNotIn("DELETE", [method for method, _ in self.stub.asked()])

    def interrupt_at(self, places, url, *more):
        """Runs learn and presses Ctrl-C when `places` have been asked for."""
        process = subprocess.Popen(
            [CONTCORE, "learn", "--server", url, self.folder, "--task", "bottle", *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        end = time.monotonic() + 60
        while self.stub.asked()[-len(places) :] != places and time.monotonic() < end:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assertEqual(out, "")
        return err

    def test_ctrl_c_cancels_the_job(self):
        url = self.serve(Service(polls=100000))
        self.image()
        said = self.interrupt_at([("POST", "/v1/jobs/3/start"), ("GET", "/v1/jobs/3")], url)
        self.assertIn("job 3 was cancelled", said)
        self.assertEqual(self.stub.asked()[-1], ("DELETE", "/v1/jobs/3"))

    def test_ctrl_c_ends_a_request_that_hangs(self):
        service = Service()
        go_on = threading.Event()

        def answer(method, path, body):
            if path.split("?")[0].endswith("/images"):
                go_on.wait(60)
            return service(method, path, body)

        url = self.serve(answer)
        self.image()
        start = time.monotonic()
        said = self.interrupt_at([("POST", "/v1/jobs/3/images?name=a.png")], url)
        go_on.set()
        self.assertLess(time.monotonic() - start, 30)
        self.assertIn("job 3 was cancelled", said)

    def test_ctrl_c_online_says_what_was_learned(self):
        service = Service()
        go_on = threading.Event()

        def answer(method, path, body):
            if service.one_by_one == 1 and path.endswith("/images"):
                go_on.wait(60)
            return service(method, path, body)

        url = self.serve(answer)
        self.image("1.png")
        self.image("2.png")
        place = ("POST", "/v1/tasks/bottle/images")
        said = self.interrupt_at([place, place], url, "--online")
        go_on.set()
        self.assertIn("1 image had been learned before that", said)
        self.assertNotIn("not written", said)

    def test_learns_online(self):
        url = self.serve(Service())
        for name in ["1.png", "2.png", "3.png"]:
            self.image(name, name.encode())
        self.image("4.png", b"bad")
        done = self.succeed(
            "learn", "--server", url, self.folder, "--task", "..", "--online", "--json"
        )
        said = json.loads(done.stdout)
        self.assertEqual(said["learned"], 3)
        self.assertEqual(len(said["skipped"]), 1)
        self.assertIn("left out: ", done.stderr)
        # Looked at as a job that learns nothing, then one after the other.
        asked = self.stub.asked()
        self.assertIn(("POST", "/v1/jobs/3/review"), asked)
        self.assertNotIn(("POST", "/v1/jobs/3/start"), asked)
        looked = asked.index(("DELETE", "/v1/jobs/3"))
        self.assertEqual(asked[looked + 1 : looked + 5], [("POST", "/v1/tasks/../images")] * 4)

    def test_online_says_what_stays_when_it_ends_early(self):
        service = Service()

        def answer(method, path, body):
            if service.one_by_one == 1 and path.endswith("/images"):
                return problem(503, "Learning is stopped", "the disk is full")
            return service(method, path, body)

        url = self.serve(answer)
        self.image("1.png")
        self.image("2.png")
        self.fail_with(
            3, ["the disk is full", "1 image had been learned before that"],
            "learn", "--server", url, self.folder, "--task", "a b", "--online",
        )  # fmt: skip
        self.assertEqual(self.stub.asked()[-1], ("POST", "/v1/tasks/a%20b/images"))


if __name__ == "__main__":
    CONTCORE = os.path.abspath(sys.argv.pop(1))
    loud.main(verbosity=2)
