"""Loads the service: many connections post images while jobs are learned.

  load.py CONTCORE [--good DIR] [--images DIR] [--connections 8] [--seconds 10] [--jobs 1]
                   [--backbone builtin] [--resize 256] [--threads 0] [--memory FILE] [--serve "OPTIONS"]

--good holds good images to learn, --images those to inspect; without them products are made up.
--memory begins with a copy of a memory. Prints images a second, latencies, failures, the service's
memory, and for comparison what `contcore inspect` does over the same files, by itself."""

import argparse
import http.client
import json
import multiprocessing
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".pgm", ".ppm")


def make_up(folder, style, count, first, side=256):
    import numpy

    os.makedirs(folder)
    y, x = numpy.mgrid[0:side, 0:side]
    for i in range(count):
        numbers = numpy.random.RandomState(1000 * style + first + i)
        wave = numpy.sin((x * style + y * (style + 1)) * 0.08 + numbers.uniform(0, 6.28))
        gray = 120 + 50 * wave + numbers.normal(0, 4, (side, side))
        pixels = numpy.clip(numpy.stack([gray, gray * 0.7, 255 - gray], axis=2), 0, 255).astype(numpy.uint8)
        with open(os.path.join(folder, "%03d.ppm" % i), "wb") as file:
            file.write(b"P6 %d %d 255\n" % (side, side) + pixels.tobytes())


def files_in(folder):
    found = []
    for place, _, names in os.walk(folder):
        found += [os.path.join(place, n) for n in names if n.lower().endswith(ENDINGS)]
    return sorted(found)


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Client:
    def __init__(self, port):
        self.port = port
        self.connection = None

    def ask(self, method, path, body=None, kind="application/octet-stream"):
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            headers = {"Content-Type": kind} if body is not None else {}
            if token := os.environ.get("CONTCORE_TOKEN"):
                headers["Authorization"] = "Bearer " + token
            self.connection.request(method, path, body, headers)
            answer = self.connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            self.connection = None
            raise


def poster(port, files, connections, seconds, results):
    """The second process: each thread has a connection and posts one image after the other."""
    images = [read(path) for path in files]
    end = time.monotonic() + seconds
    latencies, failures, busy = [], {}, [0]

    def work(number):
        client = Client(port)
        at = number
        while time.monotonic() < end:
            begin = time.monotonic()
            try:
                status, said = client.ask("POST", "/v1/inspections?source=load", images[at % len(images)])
            except (OSError, http.client.HTTPException) as error:
                failures[repr(error)] = failures.get(repr(error), 0) + 1
                continue
            if status == 201:
                latencies.append(time.monotonic() - begin)
                at += connections
            elif status in (429, 503):
                busy[0] += 1
                time.sleep(0.05)
            else:
                key = "%d %s" % (status, said[:200])
                failures[key] = failures.get(key, 0) + 1
                at += connections

    begin = time.monotonic()
    threads = [threading.Thread(target=work, args=(i,)) for i in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put((latencies, failures, busy[0], time.monotonic() - begin))


def learner(port, files, number, stop, counts):
    """Jobs one after the other, until told to stop."""
    client = Client(port)
    images = [read(path) for path in files]
    while not stop.is_set():
        _, said = client.ask("POST", "/v1/jobs", json.dumps({"task": "load%d" % number}).encode(), "application/json")
        job = json.loads(said)["id"]
        for image in images:
            client.ask("POST", "/v1/jobs/%s/images" % job, image)
            if stop.is_set():
                break
        client.ask("POST", "/v1/jobs/%s/start" % job)
        while True:
            state = json.loads(client.ask("GET", "/v1/jobs/" + job)[1])["state"]
            if state not in ("receiving", "learning"):
                break
            time.sleep(0.05)
        counts[state] = counts.get(state, 0) + 1


def resident_mib(pid, what="VmRSS"):
    with open("/proc/%d/status" % pid) as file:
        return next(int(line.split()[1]) for line in file if line.startswith(what + ":")) / 1024


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("contcore")
    parser.add_argument("--good")
    parser.add_argument("--images")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--jobs", type=int, default=1, help="learners at the same time; 0: none")
    parser.add_argument("--backbone", default="builtin")
    parser.add_argument("--resize", default="256")
    parser.add_argument("--capacity", default="2000")
    parser.add_argument("--threads", default="0")
    parser.add_argument("--memory")
    parser.add_argument("--serve", default="", help="more options of the service, as one text")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    process = None
    try:
        if not options.good:
            options.good = os.path.join(folder, "good")
            make_up(options.good, 1, 40, 0)
        if not options.images:
            options.images = os.path.join(folder, "images")
            make_up(options.images, 1, 40, 500)
        memory = os.path.join(folder, "line.ccm")
        if options.memory:
            shutil.copy(options.memory, memory)
        else:
            subprocess.run(
                [options.contcore, "learn", memory, options.good, "--task", "good", "--backbone", options.backbone,
                 "--resize", options.resize, "--capacity", options.capacity],
                check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
        alone = os.path.join(folder, "alone.ccm")
        shutil.copy(memory, alone)
        files = files_in(options.images)
        process = subprocess.Popen(
            [options.contcore, "serve", memory, "--port", "0", "--threads", options.threads, *shlex.split(options.serve)],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        line = process.stdout.readline()
        port = int(re.search(r":(\d+)$", line.strip())[1])
        client = Client(port)
        status, said = client.ask("POST", "/v1/inspections", read(files[0]))
        if status != 201:
            sys.exit("the first inspection: %d %s" % (status, said))
        at_start = resident_mib(process.pid)
        stop, counts = threading.Event(), {}
        learners = [
            threading.Thread(target=learner, args=(port, files_in(options.good), i, stop, counts))
            for i in range(options.jobs)
        ]
        for thread in learners:
            thread.start()
        results = multiprocessing.Queue()
        second = multiprocessing.Process(
            target=poster, args=(port, files, options.connections, options.seconds, results)
        )
        second.start()
        latencies, failures, busy, took = results.get()
        second.join()
        stop.set()
        for thread in learners:
            thread.join()
        at_end, peak = resident_mib(process.pid), resident_mib(process.pid, "VmHWM")
        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=120)
        ordered = sorted(latencies)

        def percentile(part):
            return 1000 * ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else float("nan")

        print("service   %8.1f images/s  p50 %.1f ms  p99 %.1f ms  longest %.1f ms  (%d connections, %d images)" % (
            len(latencies) / took, percentile(0.5), percentile(0.99), percentile(1), options.connections, len(latencies)))  # fmt: skip
        print("          turned away (503, 429): %d; jobs: %s; exit code %d" % (busy, counts or "none", code))
        print("failures  %d %s" % (sum(failures.values()), failures or ""))
        print("memory    %.0f MiB at the start, %.0f MiB at the end, %.0f MiB at most" % (at_start, at_end, peak))

        begin, images = time.monotonic(), 0
        while time.monotonic() - begin < options.seconds:
            subprocess.run(
                [options.contcore, "inspect", alone, *files, "--threads", options.threads],
                check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            images += len(files)
        print("inspect   %8.1f images/s  (the command over the same %d files, again and again)" % (
            images / (time.monotonic() - begin), len(files)))  # fmt: skip
        return 1 if failures or code != 0 else 0
    finally:
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
