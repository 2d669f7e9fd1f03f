"""Statistics, exports, reports and small images of the service.  Usage: statistics_test.py PATH_TO_CONTCORE

CONTCORE_TEST_INSPECTIONS says how many inspections a shift has; if it is given, what was measured is printed.
"""

import csv
import io
import json
import os
import re
import socket
import sqlite3
import sys
import threading
import time
from datetime import datetime, timedelta, timezone
from urllib.parse import urlencode

import loud
import serving
from serving import ServiceTest, picture, png

INSPECTIONS = int(os.environ.get("CONTCORE_TEST_INSPECTIONS", "20000"))
MEASURED = "CONTCORE_TEST_INSPECTIONS" in os.environ
BEGIN = "2024-05-31T04:00:00.000Z"  # of a shift, by the clock of Berlin
BERLIN = {"TZ": "CET-1CEST,M3.5.0,M10.5.0/3"}
if serving.SLOW:  # what was freed is not to be kept for the sanitizer's sake: memory is measured here
    BERLIN["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1:thread_local_quarantine_size_kb=64"
HOSTILE = [
    '=cmd|"/c calc"!A1', "+1", "-1", "@SUM(1)", "\tx", 'a "quoted", text', "two\r\nlines", "\nx", "🙂 é", "a\0b", "'=1",
    "<script>alert(1)</script>", " ", ",", '"',
]  # fmt: skip
VERDICTS = ("good", "defect", "unknown", "uncalibrated")


def far_from_now():
    """When a shift begins, so that none does while a test runs."""
    return "%02d:00" % ((time.localtime().tm_hour + 12) % 24)


def say(*words):
    if MEASURED:
        print(*words, file=sys.stderr)


def moment(text):
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)


def text_of(time_):
    return time_.strftime("%Y-%m-%dT%H:%M:%S.") + "%03dZ" % (time_.microsecond // 1000)


def fill(database, count, reason="a reason"):
    """Inspections over eight hours, as an earlier version left them: not counted yet."""
    with sqlite3.connect(database) as db:
        db.execute("DELETE FROM hour_total")
        db.execute("UPDATE reserved SET totals = 0")
        first = db.execute("SELECT max(last) + 1 FROM reserved").fetchone()[0]
        db.execute("UPDATE reserved SET last = last + ?", (count,))

        def rows():
            for i in range(count):
                at = moment(BEGIN) + timedelta(seconds=28800 * i / count)
                verdict = "good" if i % 50 else VERDICTS[1 + i // 50 % 3]
                regions = "[[%d,%d,40,20,600,2.5]]" % (i % 600, i % 400) if verdict == "defect" else ""
                yield (
                    first + i, text_of(at), "p%d" % (i % 3), "part %d.png" % i, 1 + i % 7, 3.5, verdict, 5 + i % 97,
                    640, 480, reason, regions, "press %d" % (i % 5),
                )  # fmt: skip

        db.executemany(
            "INSERT INTO inspection(id, time, task, source, score, threshold, verdict, latency_ms, width, height, "
            "feedback, feedback_time, learned, has_image, keeps, kept_bytes, reason, regions, station) "
            "VALUES(?,?,?,?,?,?,?,?,?,?,'','',0,0,0,0,?,?,?)",
            rows(),
        )
    db.close()
    return first


class StatisticsServiceTest(ServiceTest):
    def filled(self, count, **more):
        """A service over a shift that was inspected before."""
        service = self.start_learned("--shifts", "06:00,14:00,22:00", env=BERLIN)
        self.assertEqual(service.stop(), 0)
        fill(service.memory + ".db", count, **more)
        begin = time.monotonic()
        options = ["--shifts", "06:00,14:00,22:00", "--keep-inspections", 2 * count + 1000]
        again = self.start(*options, memory=service.memory, env=BERLIN)
        say("start that counts %d inspections: %.2f s" % (count, time.monotonic() - begin))
        return again

    def statistics(self, service, **query):
        return service.good("GET", "/v1/statistics?" + urlencode(query))

    def test_they_are_those_of_the_inspections(self):
        service = self.start_learned("--shifts", far_from_now())
        seen = []
        for i in range(9):
            path = "/v1/inspections?" + urlencode({"station": ["a", "b", ""][i % 3]})
            seen.append(service.good("POST", path, picture(i % 2, 70 + i, defect=i % 4 == 3)))
        service.good("POST", "/v1/inspections/%d/feedback" % seen[0]["id"], {"label": "defect"})
        found = self.statistics(service)
        self.assertEqual((found["span"], found["by"], found["station"]), ("shift", "hour", None))

        def counted(rows):
            counts = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in VERDICTS}
            judged = len(rows) - counts["uncalibrated"]
            return {
                **counts, "inspected": len(rows), "yield": counts["good"] / judged if judged else None,
                "called_good": 0, "called_defect": sum(row["id"] == seen[0]["id"] for row in rows),
            }  # fmt: skip

        self.assertEqual(found["parts"], counted(seen))
        self.assertEqual({one.pop("station"): one for one in found["stations"]}, {
            name: counted([row for row in seen if row["station"] == name]) for name in ["a", "b", ""]
        })  # fmt: skip
        self.assertEqual(sum(one["inspected"] for one in found["series"]), 9)
        latencies = sorted(row["latency_ms"] for row in seen)
        self.assertAlmostEqual(found["latency_ms"]["median"], latencies[4], delta=0.0451 * latencies[4])
        touched = {
            (x, y)
            for row in seen if row["verdict"] == "defect"
            for region in row["regions"]
            for x in range(region["x"] * 16 // 64, (region["x"] + region["width"] - 1) * 16 // 64 + 1)
            for y in range(region["y"] * 16 // 64, (region["y"] + region["height"] - 1) * 16 // 64 + 1)
        }  # fmt: skip
        places = found["places"]["defects"]
        self.assertEqual({(i % 16, i // 16) for i, n in enumerate(places) if n}, touched)
        nobody = self.statistics(service, station="nobody")
        self.assertEqual((nobody["parts"]["inspected"], nobody["parts"]["yield"]), (0, None))
        self.assertEqual(self.statistics(service, station="")["parts"]["inspected"], 3)
        named = self.statistics(service, task="p0")["parts"]["inspected"]
        service.good("PUT", "/v1/tasks/p0", {"name": "new"})
        self.assertEqual(self.statistics(service, task="p0")["parts"]["inspected"], 0)
        self.assertEqual(self.statistics(service, task="new")["parts"]["inspected"], named)
        service.good("POST", "/v1/lessons/forget", {"tasks": ["new"]})  # and with it that it was renamed
        self.assertEqual(self.statistics(service, task="p0")["parts"]["inspected"], named)
        self.assertEqual(len(service.good("GET", "/v1/inspections?task=p0")["inspections"]), named)
        before = self.statistics(service)
        service.stop()
        again = self.start("--shifts", far_from_now(), memory=service.memory)
        self.assertEqual(self.statistics(again)["parts"], before["parts"])

    def test_bad_questions(self):
        service = self.start_learned()
        bad = [
            {"since": "x"}, {"since": "2031-99-99T99:99:99Z"}, {"since": "0001-01-01T00:00:00Z"}, {"at": "9999-12-31T23:59:59Z"},
            {"until": "2024-05-31T00:00:00Z"}, {"since": "2024-05-31T00:00:00Z", "until": "2024-05-31T00:00:00Z"},
            {"since": "2024-05-31T00:00:00Z", "until": "2023-05-31T00:00:00Z"}, {"span": "year"}, {"by": "minute"}, {"at": "'--"},
            {"since": "2024-05-31T00:00:00Z", "span": "day"}, {"nothing": "1"},
            {"since": "2024-01-01T00:00:00Z", "until": "2025-01-01T00:00:00Z"},  # a year of hours
            {"since": "1970-01-01T00:00:00Z", "by": "day"},
        ]  # fmt: skip
        for query in bad:
            for path in ["/v1/statistics", "/v1/report"]:
                self.assertEqual(service.get(path, **query).status, 400, query)
        for path in ["/v1/inspections", "/v1/inspections.csv", "/v1/inspections.json"]:
            for query in [{"since": "x"}, {"until": "now"}, {"since": "2024-05-31T00:00:00Z", "until": "2024-05-31T00:00:00Z"}]:
                self.assertEqual(service.get(path, **query).status, 400, query)
        for query in [{"limit": "1"}, {"verdict": "bad"}, {"nothing": "1"}]:
            self.assertEqual(service.get("/v1/inspections.csv", **query).status, 400, query)
            self.assertEqual(service.get("/v1/inspections.json", **query).status, 400, query)
        self.assertEqual(self.statistics(service, since="2024-01-01T00:00:00Z", until="2025-01-01T00:00:00Z", by="day")["parts"]["inspected"], 0)

    def test_a_shift_that_was_inspected_before(self):
        """Its inspections are counted once, its neighbours are found, and nobody waits for it."""
        service = self.filled(INSPECTIONS)
        shift = {"span": "shift", "at": "2024-05-31T07:00:00Z"}
        taken = []
        for _ in range(5):
            begin = time.monotonic()
            found = self.statistics(service, **shift)
            taken.append(time.monotonic() - begin)
        say("statistics, first and later: %s ms" % ["%.1f" % (1000 * t) for t in taken])
        self.assertEqual((found["since"], found["until"]), (BEGIN, "2024-05-31T12:00:00.000Z"))
        self.assertEqual(found["parts"]["inspected"], INSPECTIONS)
        self.assertEqual(len(found["series"]), 8)
        self.assertEqual(found["parts"]["good"], sum(i % 50 != 0 for i in range(INSPECTIONS)))
        self.assertEqual({one["station"]: one["inspected"] for one in found["stations"]}, {
            "press %d" % i: len(range(i, INSPECTIONS, 5)) for i in range(5)
        })  # fmt: skip
        before = self.statistics(service, span="shift", at="2024-05-31T03:59:59.999Z")
        self.assertEqual(before["until"], found["since"])
        after = self.statistics(service, span="shift", at=found["until"])
        self.assertEqual((after["since"], after["parts"]["inspected"]), (found["until"], 0))
        week = self.statistics(service, span="week", at=BEGIN)
        self.assertEqual((week["by"], len(week["series"]), week["parts"]), ("day", 7, found["parts"]))
        with_time = service.good("GET", "/v1/inspections?since=2024-05-31T05:00:00Z&until=2024-05-31T05:00:10Z&limit=500")
        self.assertTrue(with_time["inspections"])
        for row in with_time["inspections"]:
            self.assertTrue("2024-05-31T05:00:00.000Z" <= row["time"] < "2024-05-31T05:00:10.000Z")
        if MEASURED:
            self.measure_while_inspecting(service, shift)
        service.stop()
        again = self.start("--shifts", "06:00,14:00,22:00", memory=service.memory, env=BERLIN)
        begin = time.monotonic()
        self.assertEqual(self.statistics(again, **shift)["parts"], found["parts"])
        say("statistics, first after a start: %.1f ms" % (1000 * (time.monotonic() - begin)))

    def measure_while_inspecting(self, service, shift):
        stop, done = threading.Event(), []

        def inspect():
            image = picture(0, 5)
            due = time.monotonic()
            while not stop.is_set():
                service.good("POST", "/v1/inspections?station=press%201", image)
                done.append(time.monotonic())
                due += 1 / 30
                time.sleep(max(0, due - time.monotonic()))

        thread = threading.Thread(target=inspect)
        thread.start()
        taken, begin = [], time.monotonic()
        while time.monotonic() < begin + 10:
            at = time.monotonic()
            self.statistics(service, **shift)
            taken.append(time.monotonic() - at)
        at = time.monotonic()
        size = len(service.ask("GET", "/v1/inspections.csv", record=False).body)
        export = time.monotonic() - at
        rate = len(done) / (time.monotonic() - begin)
        stop.set()
        thread.join()
        taken.sort()
        say("while %.0f inspections a second come in: statistics median %.1f, worst %.1f ms; CSV of %.1f MB in %.2f s" % (
            rate, 1000 * taken[len(taken) // 2], 1000 * taken[-1], size / 1e6, export))  # fmt: skip

    def test_a_csv_is_the_rows(self):
        service = self.start_learned()
        for i in range(len(HOSTILE)):
            service.good("POST", "/v1/inspections", picture(i % 2, 80 + i, defect=i % 3 == 0))
        service.stop()
        with sqlite3.connect(service.memory + ".db") as db:
            # No client can say these of itself: they are of another program's making.
            for row, (ident,) in enumerate(db.execute("SELECT id FROM inspection ORDER BY id").fetchall()):
                name = HOSTILE[row]
                db.execute("UPDATE inspection SET source = ?, station = ?, reason = ? WHERE id = ?", (name, name, "r" + name, ident))
        db.close()
        service = self.start(memory=service.memory)
        listed = service.good("GET", "/v1/inspections?limit=500")["inspections"]
        self.assertEqual(len(listed), len(HOSTILE))
        self.assertEqual([row["source"] for row in reversed(listed)], HOSTILE)
        self.assertEqual(service.good("GET", "/v1/inspections.json"), {"inspections": listed})
        reply = service.get("/v1/inspections.csv")
        self.assertEqual(reply.headers.get("Content-Disposition"), 'attachment; filename="inspections.csv"')
        self.assertNotIn("content-length", reply.headers)
        rows = list(csv.DictReader(io.StringIO(reply.body.decode(), newline=""), strict=True))
        self.assertEqual(len(rows), len(listed))

        def cell(text):
            text = text.replace("\0", "\ufffd")
            return "'" + text if text[:1] in set("=+-@\t\r\n") and text else text

        for row, one in zip(rows, listed):
            for name in ["station", "task", "source", "reason"]:
                self.assertEqual(row[name], cell(one[name] or ""), name)
            for name in ["time", "verdict", "feedback", "feedback_time"]:
                self.assertEqual(row[name], one[name])
            for name in ["id", "score", "threshold", "latency_ms", "width", "height"]:
                exact = serving.numpy.float32 if name in ("score", "threshold") else float
                self.assertEqual(exact(row[name]) if row[name] else None, one[name])
            for name in ["learned", "has_image"]:
                self.assertEqual(row[name], str(one[name]).lower())
            regions = [[r[k] for k in ("x", "y", "width", "height", "area", "score")] for r in one["regions"]]
            self.assertEqual(json.loads(row["regions"] or "[]"), regions)
        some = {"verdict": "defect", "task": "p0", "feedback": "none"}
        expected = service.good("GET", "/v1/inspections?limit=500&" + urlencode(some))["inspections"]
        self.assertTrue(0 < len(expected) < len(listed))
        reply = service.get("/v1/inspections.json", **some)
        self.assertEqual(reply.json()["inspections"], expected)
        self.assertEqual(reply.headers.get("Content-Disposition"), 'attachment; filename="inspections-p0-defect.json"')
        self.assertEqual(service.get("/v1/inspections.json?station=nobody").json(), {"inspections": []})
        self.assertEqual(service.get("/v1/inspections.csv?station=nobody").body.count(b"\n"), 1)
        named = service.get("/v1/inspections.csv?" + urlencode({"station": 'é"; x=/..', "since": "2024-05-31T00:00:00Z"}))
        self.assertRegex(named.headers.get("Content-Disposition"), r'^attachment; filename="inspections-[-A-Za-z0-9._]+\.csv"$')
        self.assertEqual(service.ask("HEAD", "/v1/inspections.csv", record=False).body, b"")

    def test_an_export_is_bounded(self):
        """However large it is, however slowly it is read, and whoever leaves."""
        service = self.filled(INSPECTIONS, reason="r" * 900)
        service.good("POST", "/v1/inspections", picture(0, 1))
        service.get("/v1/inspections.csv?limit=x")
        before = service.memory_kib("VmHWM")
        begin = time.monotonic()
        whole = service.ask("GET", "/v1/inspections.csv?verdict=good", record=False).body
        took = time.monotonic() - begin
        self.assertGreater(len(whole), 900 * INSPECTIONS)
        grown = service.memory_kib("VmHWM") - before
        say("CSV of %.1f MB in %.2f s, peak memory %.1f MB more" % (len(whole) / 1e6, took, grown / 1e3))
        self.assertLess(grown, 10_000)
        rare = service.get("/v1/inspections.json?verdict=unknown&station=press%200&task=p2").json()["inspections"]
        self.assertEqual({(row["verdict"], row["station"], row["task"]) for row in rare}, {("unknown", "press 0", "p2")})
        self.assertEqual(len(rare), sum(i % 50 == 0 and i // 50 % 3 == 1 and i % 3 == 2 for i in range(INSPECTIONS)))
        slow = []
        try:
            for _ in range(16):
                client = socket.socket()
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.settimeout(serving.PATIENCE)
                client.connect((service.host, service.port))
                client.sendall(b"GET /v1/inspections.csv?verdict=good HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                self.assertEqual(client.recv(12), b"HTTP/1.1 200")
                slow.append(client)
            refused = service.get("/v1/inspections.csv")
            self.assertEqual(refused.status, 503, refused)
            self.assertEqual(service.get("/v1/inspections.json").status, 503)
            # Nobody waits for them.
            self.assertEqual(service.get("/health").status, 200)
            self.assertEqual(service.ask("POST", "/v1/inspections", picture(0, 2)).status, 201)
            self.statistics(service, at=BEGIN)
            self.assertLess(service.memory_kib("VmHWM") - before, 64_000)
            reader = slow.pop()
            for client in slow:
                client.close()
            self.wait_for(lambda: service.ask("GET", "/v1/inspections.json?verdict=unknown", record=False).status == 200)
            data = b"".join(iter(lambda: reader.recv(1 << 20), b""))
            reader.close()
            self.assertEqual(self.unchunked(data.partition(b"\r\n\r\n")[2]), whole)
        finally:
            for client in slow:
                client.close()

    def wait_for(self, condition):
        end = time.monotonic() + 4 * serving.PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    @staticmethod
    def unchunked(data):
        body, view, at = [], memoryview(data), 0
        while True:
            end = data.index(b"\r\n", at)
            size = int(data[at:end], 16)
            body.append(bytes(view[end + 2 : end + 2 + size]))
            at = end + 4 + size
            if size == 0:
                return b"".join(body)

    def test_small_images(self):
        service = self.start_learned()
        wide = serving.numpy.tile(serving.product(0, 1), (1, 4, 1))  # 256 × 64
        row = service.good("POST", "/v1/inspections", png(wide))
        path = "/v1/inspections/%d/image" % row["id"]
        for side, size in [(16, (16, 4)), (160, (160, 40)), (1024, (256, 64))]:
            reply = service.get(path + "?side=%d" % side)
            self.assertEqual((reply.status, reply.kind()), (200, "image/jpeg"))
            self.assertIn("immutable", reply.headers.get("Cache-Control"))
            found = re.search(rb"\xff\xc0\x00\x11\x08(..)(..)", reply.body, re.DOTALL)
            self.assertEqual((int.from_bytes(found[2], "big"), int.from_bytes(found[1], "big")), size)
        for side in ["", "0", "15", "1025", "x", "-1", "1e3"]:
            self.assertEqual(service.get(path, side=side).status, 200 if side == "" else 400, side)
        self.assertEqual(service.get("/v1/inspections/987654/image?side=160").status, 404)
        service.stop()
        with sqlite3.connect(service.memory + ".db") as db:
            db.execute("UPDATE image SET bytes = 'no picture'")
        db.close()
        again = self.start(memory=service.memory)
        self.assertEqual(again.get(path + "?side=160").status, 422)
        self.assertEqual(again.get("/v1/report").status, 200)

    def test_a_report_needs_nothing_else(self):
        service = self.start_learned("--shifts", far_from_now())
        bad = "<script>alert(1)</script>"
        for i in range(6):
            query = {"station": "press <4>", "source": bad}
            service.good("POST", "/v1/inspections?" + urlencode(query), picture(i % 2, 90 + i, defect=i > 2))
        counts = self.statistics(service)["parts"]
        for query in [{}, {"station": "press <4>"}, {"task": "nobody"}, {"span": "week"}]:
            reply = service.get("/v1/report", **query)
            self.assertEqual((reply.status, reply.kind()), (200, "text/html"))
            text = reply.body.decode()
            self.assertNotIn("<script", text)
            self.assertNotRegex(text, r'(src|href)="(?!data:image/jpeg;base64,)')
            self.assertIn("default-src 'none'", reply.headers.get("Content-Security-Policy"))
        whole = service.get("/v1/report").body.decode()
        self.assertIn("<dt>inspected</dt><dd class=\"\">6</dd>", whole)
        self.assertIn("<dd class=\"defect\">%d</dd>" % counts["defect"], whole)
        self.assertIn("press &lt;4&gt;", whole)
        self.assertIn("data:image/jpeg;base64,/9j/", whole)
        self.assertEqual(whole.count("× threshold"), min(counts["defect"], 6))
        empty = service.get("/v1/report?span=day&at=2001-01-01T00:00:00Z").body.decode()
        self.assertIn("No defect had a place", empty)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    ServiceTest.command = os.path.abspath(sys.argv.pop(1))
    loud.main()
