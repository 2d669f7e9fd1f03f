"""Drives the service as its clients would, friendly and hostile.  Usage: serve_test.py PATH_TO_CONTCORE"""

import http.client
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time
import unittest
import zlib
from urllib.parse import quote

import numpy

import attack
import loud
import serving
from camera_test import CameraServiceTest, NetworkCamera
from lessons_test import LessonsServiceTest
from regions_test import RegionsServiceTest
from serving import BOOK, SEEN, SIDE, SLOW, ServiceTest, chunk, multipart, picture, png, product, together
from statistics_test import StatisticsServiceTest, far_from_now

KILLS = int(os.environ.get("CONTCORE_TEST_KILLS", "3" if SLOW else "8"))
ROLES = ["inspect", "learn", "admin"]
TOKENS = {role: (role + "-0123456789abcdef")[:16] * 2 for role in ROLES}
TOKEN_TEXT = "# who may do what\n" + "".join("%s %s %s-desk\n" % (r, t, r) for r, t in TOKENS.items())
JUNK = b"this is no image at all, whatever its name says " * 20
BODIES = {
    "setThreshold": {"score": 5.0},
    "giveFeedback": {"label": "defect"},
    "createJob": {"task": "p0"},
    "pinStation": {"task": "p0"},
    "forget": {"lessons": [987654]},
    "renameTask": {"name": "p0"},
}


def requests(ident="1"):
    """A sound request for each operation of the document."""
    for method, template, operation in BOOK.operations():
        path = template.replace("{id}", ident).replace("{name}", "p0" if ident == "1" else "nobody")
        body = BODIES.get(operation["operationId"])
        if body is None and "requestBody" in operation:
            body = picture(0, 1)
        yield method, template, path, body, operation


def is_json_body(operation):
    return "application/json" in operation.get("requestBody", {}).get("content", {})


# ---- the document


class DocumentTest(ServiceTest):
    def test_the_document_is_sound(self):
        root = BOOK.root
        self.assertTrue(root["openapi"].startswith("3."))
        idents = [operation["operationId"] for _, _, operation in BOOK.operations()]
        self.assertEqual(len(idents), len(set(idents)))
        used = set()

        def walk(node, at):
            if isinstance(node, dict):
                if "$ref" in node:
                    self.assertEqual(set(node), {"$ref"}, at)
                    used.add(node["$ref"])
                    self.assertIsNotNone(BOOK.resolve(node), at)
                for name, member in node.items():
                    walk(member, "%s/%s" % (at, name))
            elif isinstance(node, list):
                for member in node:
                    walk(member, at)

        walk(root, "")
        for kind, members in root["components"].items():
            if kind != "securitySchemes":
                for name in members:
                    self.assertIn("#/components/%s/%s" % (kind, name), used)
        for method, template, operation in BOOK.operations():
            at = method + " " + template
            parameters = [BOOK.resolve(p) for p in operation.get("parameters", [])]
            inside = {p["name"] for p in parameters if p["in"] == "path"}
            self.assertEqual(inside, set(re.findall(r"\{([a-z]+)\}", template)), at)
            self.assertTrue(all(p["required"] for p in parameters if p["in"] == "path"), at)
            self.assertEqual(len({(p["in"], p["name"]) for p in parameters}), len(parameters), at)
            self.assertTrue(operation["summary"] and operation["description"], at)
            self.assertTrue(set(operation["tags"]) <= {t["name"] for t in root["tags"]}, at)
            if operation.get("security") == []:
                self.assertNotIn("401", operation["responses"], at)
            else:
                self.assertIn(operation["x-role"], ROLES, at)
                self.assertIn("Role: %s." % operation["x-role"], operation["description"], at)
            for status, response in operation["responses"].items():
                response = BOOK.resolve(response)
                self.assertTrue(response["description"], at)
                self.assertEqual("application/problem+json" in response["content"], status >= "400", at)

    def test_examples_are_as_their_schemas_say(self):
        def walk(node, at):
            if isinstance(node, dict):
                if "example" in node and "schema" in node:
                    self.assertEqual(BOOK.faults(node["example"], node["schema"], at), [])
                if "example" in node and "type" in node:
                    self.assertEqual(BOOK.faults(node["example"], node, at), [])
                for name, member in node.items():
                    if name != "example":
                        walk(member, "%s/%s" % (at, name))
            elif isinstance(node, list):
                for member in node:
                    walk(member, at)

        walk(BOOK.root, "")

    def test_it_is_served_as_it_is(self):
        service = self.start_learned()
        reply = service.get("/openapi.json")
        self.assertEqual(reply.status, 200)
        self.assertEqual(reply.body, BOOK.text)

    def test_the_page(self):
        service = self.start_learned()
        policy = (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
            "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        for path in ["/", "/app.js", "/app.css", "/favicon.svg"]:
            reply = service.get(path)
            self.assertEqual(reply.status, 200, path)
            self.assertGreater(len(reply.body), 50)
        page = service.get("/")
        self.assertEqual(page.headers.get("Content-Security-Policy"), policy)
        self.assertEqual(page.headers.get("Referrer-Policy"), "no-referrer")
        self.assertEqual(page.headers.get("Cross-Origin-Opener-Policy"), "same-origin")
        text = page.body.decode().lower()
        self.assertNotRegex(text, r"<script(?![^>]*\bsrc=)[^>]*>")
        self.assertNotRegex(text, r"\sstyle\s*=")
        self.assertNotRegex(text, r"\son[a-z]+\s*=")

    def test_no_such_thing(self):
        service = self.start_learned()
        for method, template, path, body, operation in requests("987654"):
            if "404" in operation["responses"]:
                reply = service.ask(method, path, body)
                self.assertEqual(reply.status, 404, (method, path, reply))
        for path in ["/v1", "/v1/", "/v2/status", "/v1/statuses", "/index.html", "/app.js/x", "/v1/status/x"]:
            self.assertEqual(service.get(path).status, 404, path)
        for template, methods in BOOK.root["paths"].items():
            path = template.replace("{id}", "1").replace("{name}", "p0")
            for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]:
                if method.lower() not in methods:
                    with self.subTest(method + " " + path):
                        reply = service.ask(method, path)
                        if template.count("/") == 1 and "." in template:  # a file of the page
                            self.assertIn(reply.status, (404, 405), reply)
                            continue
                        self.assertEqual(reply.status, 405, reply)
                        for known in methods:
                            self.assertIn(known.upper(), reply.headers.get("Allow", ""))

    def test_request_ids(self):
        service = self.start_learned()
        reply = service.get("/v1/status", headers={"X-Request-Id": "mine-17.a_B"})
        self.assertEqual(reply.headers.get("X-Request-Id"), "mine-17.a_B")
        ids = {service.get("/health").headers.get("X-Request-Id") for _ in range(5)}
        self.assertEqual(len(ids), 5)
        for bad in ["a b", "x" * 65, "<script>", "é"]:
            said = service.get("/v1/tasks/nobody/scores", headers={"X-Request-Id": bad.encode("latin-1")})
            self.assertRegex(said.json()["request_id"], r"\A[A-Za-z0-9._-]{1,64}\Z")


# ---- what it is for


class StoryTest(ServiceTest):
    def inspect(self, service, image, **query):
        reply = service.ask("POST", "/v1/inspections", image, **query)
        self.assertEqual(reply.status, 201, reply)
        seen = reply.json()
        self.assertEqual(reply.headers.get("Location"), "/v1/inspections/%d" % seen["id"])
        return seen

    def test_story(self):
        service = self.start("--false-alarms", "0.05")
        self.check_empty(service)
        self.learn_by_job(service)
        seen = self.inspect_all(service)
        self.check_pictures(service, seen)
        self.check_lists(service, seen)
        self.give_feedback(service, seen)
        self.move_threshold(service)
        self.check_figures(service)
        self.restart(service)

    def test_what_is_no_known_product_is_unknown(self):
        service = self.start_learned()
        white = png(numpy.full_like(product(0, 0), 255))
        seen = self.inspect(service, white)
        self.assertEqual(seen["verdict"], "unknown")
        self.assertRegex(seen["reason"], "^unknown: like no known product; p[01] is the nearest$")
        named = self.inspect(service, picture(1, 100), task="p0")
        self.assertEqual((named["verdict"], named["reason"]), ("defect", "defect: not like p0; looks like p1"))
        for one in seen, named:  # kept as it was said
            self.assertEqual(service.good("GET", "/v1/inspections/%d" % one["id"]), one)
        listed = service.good("GET", "/v1/inspections", verdict="unknown")["inspections"]
        self.assertEqual([one["id"] for one in listed], [seen["id"]])
        self.assertIn('contcore_inspections_total{verdict="unknown"} 1', service.get("/metrics").body.decode())
        # Learned by mistake it would be a product: asked for again; then it is known.
        path = "/v1/inspections/%d/feedback" % seen["id"]
        refused = service.ask("POST", path, {"label": "good"})
        self.assertEqual((refused.status, refused.json()["confirm"]), (409, True), refused)
        self.assertEqual(self.inspect(service, white)["verdict"], "unknown")
        service.good("POST", path, {"label": "good", "confirm": True})
        self.assertNotEqual(self.inspect(service, white)["verdict"], "unknown")
        service.stop()
        without = self.start_learned("--strangers", "0")
        black = png(numpy.zeros_like(product(0, 0)))
        self.assertNotEqual(self.inspect(without, black)["verdict"], "unknown")

    def check_empty(self, service):
        self.assertEqual(service.get("/health").json(), {"status": "ok"})
        self.assertEqual(service.get("/ready").json(), {"ready": True})
        status = service.good("GET", "/v1/status")
        self.assertEqual((status["tasks"], status["inspections"], status["memory"]["vectors"]), (0, 0, 0))
        self.assertEqual((status["memory"]["capacity"], status["memory"]["rule"]), (200, "share"))
        self.assertIn("builtin", status["memory"]["backbone"])
        self.assertEqual((status["role"], status["learning"]["state"]), ("admin", "idle"))
        self.assertEqual(service.good("GET", "/v1/tasks"), {"tasks": []})
        self.assertEqual(service.good("GET", "/v1/jobs"), {"jobs": []})
        self.assertEqual(service.good("GET", "/v1/inspections"), {"inspections": [], "next": None})
        self.assertEqual(service.good("GET", "/v1/history"), {"samples": []})
        self.assertEqual(service.ask("POST", "/v1/inspections", picture(0, 0)).status, 409)

    def learn_by_job(self, service):
        job = service.good("POST", "/v1/jobs", {"task": "bottle"})
        path = "/v1/jobs/" + job["id"]
        self.assertEqual((job["task"], job["state"], job["received"]), ("bottle", "receiving", 0))
        self.assertEqual(service.ask("POST", path + "/start").status, 409)
        for i in range(40):
            pixels = product(0, i)
            if i % 4 == 0:
                body, headers = multipart(png(pixels))
            elif i % 4 == 1:
                body, headers = serving.ppm(pixels), {}
            else:
                body, headers = png(pixels), {"Content-Type": "image/png"}
            job = service.good("POST", path + "/images", body, headers=headers)
            self.assertEqual(job["received"], i + 1)
        self.assertEqual(service.ask("POST", path + "/images", JUNK).status, 422)
        job = service.good("GET", path)
        self.assertEqual((job["received"], job["skipped"], job["state"]), (40, 1, "receiving"))
        reply = service.ask("POST", path + "/start")
        self.assertEqual((reply.status, reply.json()["state"]), (202, "learning"), reply)
        job = service.follow(job["id"])
        self.assertEqual((job["state"], job["progress"], job["error"]), ("done", 1, ""))
        self.assertGreaterEqual(job["finished"], job["created"])
        self.assertEqual(service.ask("POST", path + "/start").status, 409)
        self.assertEqual(service.ask("POST", path + "/images", picture(0, 0)).status, 409)

        other = service.good("POST", "/v1/jobs", {"task": "never"})
        service.good("POST", "/v1/jobs/%s/images" % other["id"], picture(2, 0))
        self.assertEqual(service.good("DELETE", "/v1/jobs/" + other["id"])["state"], "cancelled")
        self.assertEqual(service.ask("POST", "/v1/jobs/%s/start" % other["id"]).status, 409)
        jobs = service.good("GET", "/v1/jobs")["jobs"]
        self.assertEqual([j["task"] for j in jobs], ["never", "bottle"])

        tasks = service.tasks()
        self.assertEqual(list(tasks), ["bottle"])
        task = tasks["bottle"]
        self.assertEqual(task["images"], 40)
        self.assertGreater(task["calibrated"], 0)
        self.assertEqual(task["threshold"]["images"], task["calibrated"])
        self.assertFalse(task["threshold"]["manual"])
        service.learn_job("screw", [picture(1, i) for i in range(40)])
        self.assertEqual(list(service.tasks()), ["bottle", "screw"])

    def inspect_all(self, service):
        seen = []
        for style, name in enumerate(["bottle", "screw"]):
            for i in range(6):
                for defect in (False, True):
                    image = picture(style, 100 + i, defect)
                    query = {"source": "camera%d" % style}
                    if i % 3 == 0:
                        query["task"] = name
                    if i % 2:
                        body, headers = multipart(image)
                    else:
                        body, headers = image, {"Content-Type": "image/png"}
                    said = self.inspect(service, body, headers=headers, **query)
                    self.assertEqual((said["task"], said["source"]), (name, "camera%d" % style))
                    self.assertEqual((said["width"], said["height"]), (SIDE, SIDE))
                    self.assertEqual((said["feedback"], said["feedback_time"]), ("", ""))
                    self.assertEqual((said["learned"], said["has_image"]), (False, True))
                    # Of eight by eight patches a defect may change so many that nothing known is left.
                    self.assertEqual(said["verdict"] != "good", said["score"] > said["threshold"])
                    seen.append((said, image, defect))
        right = sum((said["verdict"] != "good") == defect for said, _, defect in seen)
        self.assertGreaterEqual(right, 22, [(s["verdict"], s["score"], d) for s, _, d in seen])
        ids = [said["id"] for said, _, _ in seen]
        self.assertEqual(ids, sorted(set(ids)))
        return seen

    def check_pictures(self, service, seen):
        for said, image, defect in seen[:4]:
            path = "/v1/inspections/%d" % said["id"]
            self.assertEqual(service.good("GET", path), said)
            self.assertEqual(service.get(path + "/image").body, image)
            heat = serving.read_png(service.get(path + "/map").body)
            outline = serving.read_png(service.get(path + "/outline").body)
            self.assertEqual(heat.shape, (SIDE, SIDE, 4))
            self.assertEqual(outline.shape, (SIDE, SIDE, 4))
            self.assertEqual(bool(outline[:, :, 3].any()), said["verdict"] != "good")
            if defect and said["verdict"] == "defect":
                alpha = heat[:, :, 3].astype(int)
                self.assertGreater(alpha.max(), 0)
                inside = alpha[16:44, 20:48].mean()
                self.assertGreater(inside, alpha[:8, :8].mean())
        wide = png(numpy.tile(product(0, 300, side=300), (1, 2, 1)))
        said = self.inspect(service, wide, task="bottle")
        self.assertEqual((said["width"], said["height"], said["source"]), (600, 300, ""))
        for what in ["map", "outline"]:
            pixels = serving.read_png(service.get("/v1/inspections/%d/%s" % (said["id"], what)).body)
            self.assertEqual(pixels.shape, (256, 512, 4))

    def check_lists(self, service, seen):
        def listed(**query):
            return service.good("GET", "/v1/inspections", **query)

        everything = listed(limit=100)
        self.assertIsNone(everything["next"])
        ids = [one["id"] for one in everything["inspections"]]
        self.assertEqual(ids, sorted(ids, reverse=True))
        self.assertEqual(len(ids), len(seen) + 1)
        paged, page, pages = [], listed(limit=7), 1
        while True:
            paged += page["inspections"]
            if page["next"] is None:
                break
            self.assertEqual(len(page["inspections"]), 7)
            page, pages = listed(limit=7, before=page["next"]), pages + 1
        self.assertEqual(paged, everything["inspections"])
        self.assertEqual(pages, 4)
        middle = seen[10][0]["id"]
        newer = [o["id"] for o in listed(after=middle, limit=100)["inspections"]]
        self.assertEqual(newer, [i for i in ids if i > middle])
        self.assertEqual(listed(after=ids[0])["inspections"], [])
        for verdict in ["good", "defect", "unknown", "uncalibrated"]:
            right = [o["id"] for o in everything["inspections"] if o["verdict"] == verdict]
            self.assertEqual([o["id"] for o in listed(verdict=verdict, limit=100)["inspections"]], right)
        for task in ["bottle", "screw"]:
            right = [o["id"] for o in everything["inspections"] if o["task"] == task]
            self.assertEqual([o["id"] for o in listed(task=task, limit=100)["inspections"]], right)
        both = listed(task="screw", verdict="defect", source="camera1", limit=3)
        self.assertEqual(len(both["inspections"]), 3)
        found = {(o["task"], o["verdict"], o["source"]) for o in both["inspections"]}
        self.assertEqual(found, {("screw", "defect", "camera1")})
        self.assertEqual(listed(source="camera7")["inspections"], [])
        self.assertEqual(listed(task="nobody")["inspections"], [])

    def give_feedback(self, service, seen):
        good = next(s for s, _, d in seen if s["task"] == "bottle" and s["verdict"] == "good" and not d)
        bad = next(s for s, _, d in seen if s["verdict"] == "defect" and d)
        before = service.tasks()["bottle"]
        said = service.good("POST", "/v1/inspections/%d/feedback" % good["id"], {"label": "good"})
        self.assertEqual((said["feedback"], said["learned"]), ("good", True))
        self.assertTrue(said["feedback_time"])
        changed = {name: said[name] for name in ("feedback", "feedback_time", "learned", "lesson")}
        self.assertEqual(said, {**good, **changed})
        after = service.tasks()["bottle"]
        self.assertEqual(after["images"], before["images"] + 1)
        # Saying it twice does not learn it twice.
        service.good("POST", "/v1/inspections/%d/feedback" % good["id"], {"label": "good"})
        again = service.tasks()["bottle"]
        self.assertEqual((again["images"], again["calibrated"]), (after["images"], after["calibrated"]))
        said = service.good("POST", "/v1/inspections/%d/feedback" % bad["id"], {"label": "defect"})
        self.assertEqual((said["feedback"], said["learned"]), ("defect", False))
        for label, one in [("good", good), ("defect", bad)]:
            found = service.good("GET", "/v1/inspections", feedback=label)["inspections"]
            self.assertEqual([o["id"] for o in found], [one["id"]])
        none = service.good("GET", "/v1/inspections", feedback="none", limit=100)["inspections"]
        self.assertEqual(len(none), len(seen) - 1)
        said = service.good("POST", "/v1/inspections/%d/feedback" % bad["id"], {"label": ""})
        self.assertEqual(said["feedback"], "")
        self.assertEqual({**service.good("GET", "/v1/inspections/%d" % bad["id"]), "feedback_time": ""}, bad)
        service.good("POST", "/v1/inspections/%d/feedback" % bad["id"], {"label": "defect"})
        for body in [{"label": "fine"}, {"label": None}, {"label": 1}, {}, {"Label": "good"}]:
            self.assertEqual(service.ask("POST", "/v1/inspections/%d/feedback" % bad["id"], body).status, 400, body)
        # One image learned as it comes.
        total = service.tasks()["screw"]
        for i in range(6):
            reply = service.ask("POST", "/v1/tasks/screw/images", picture(1, 500 + i))
            self.assertEqual(reply.status, 201, reply)
            now = reply.json()["task"]
            self.assertEqual(now["images"], total["images"] + i + 1)
        # What the batch scored with less than half of the vectors that there are now counts no more, but for twenty.
        self.assertGreaterEqual(now["calibrated"], min(20, total["calibrated"]))
        self.assertEqual(now["threshold"]["images"], now["calibrated"])
        body, headers = multipart(picture(2, 0))
        reply = service.ask("POST", "/v1/tasks/%s/images" % quote("neu & schön"), body, headers=headers)
        self.assertEqual(reply.status, 201, reply)
        self.assertEqual((reply.json()["task"]["name"], reply.json()["task"]["threshold"]), ("neu & schön", None))

    def move_threshold(self, service):
        path = "/v1/tasks/bottle/threshold"
        before = service.tasks()["bottle"]["threshold"]
        good = picture(0, 104)
        hand = service.good("PUT", path, {"score": 0.25})["threshold"]
        self.assertEqual((hand["score"], hand["manual"]), (0.25, True))
        said = self.inspect(service, good, task="bottle")
        self.assertEqual((said["verdict"], said["threshold"]), ("defect", 0.25))
        service.good("PUT", path, {"score": 1e6})
        self.assertEqual(self.inspect(service, good, task="bottle")["verdict"], "good")
        rate = service.good("PUT", path, {"false_alarms": 0.5})["threshold"]
        self.assertFalse(rate["manual"])
        self.assertLess(rate["score"], before["score"])
        self.assertEqual(service.tasks()["bottle"]["threshold"], rate)
        self.assertEqual(service.good("GET", "/v1/tasks/bottle/scores")["threshold"], rate)
        self.assertEqual(service.good("PUT", path, {})["threshold"], before)
        for body in [
            {"score": "5"}, {"score": None}, {"score": True}, {"scores": 1}, {"score": 1, "false_alarms": 0.1},
            {"false_alarms": 0}, {"false_alarms": 1}, {"false_alarms": -0.1}, {"false_alarms": "x"},
        ]:  # fmt: skip
            self.assertEqual(service.ask("PUT", path, body).status, 400, body)
        self.assertEqual(service.tasks()["bottle"]["threshold"], before)

    def check_figures(self, service):
        scores = service.good("GET", "/v1/tasks/bottle/scores")
        task = service.tasks()["bottle"]
        self.assertEqual(scores["task"], "bottle")
        self.assertEqual(len(scores["calibration"]), task["calibrated"])
        self.assertGreaterEqual(len(scores["good"]), 5)
        self.assertGreaterEqual(len(scores["rejected"]), 5)
        status = service.good("GET", "/v1/status")
        tasks = service.tasks()
        self.assertEqual(status["tasks"], len(tasks))
        self.assertEqual(status["memory"]["vectors"], sum(t["vectors"] for t in tasks.values()))
        self.assertAlmostEqual(sum(t["share"] for t in tasks.values()), 1, places=3)
        self.assertEqual(status["memory"]["dimension"], 512)
        device = status["device"]
        self.assertEqual((device["name"] == "cpu", device["failure"]), (device["gpu"] == "", ""))
        metrics = service.get("/metrics").body.decode()
        self.assertIn('\ncontcore_device_info{device="%s",name="%s"} 1\n' %
                      (device["name"], device["gpu"] or "processor"), metrics)
        self.assertIn("\ncontcore_gpu_fallbacks_total 0\n", metrics)
        self.assertEqual("contcore_device_memory_free_bytes" in metrics, device["gpu"] != "")
        listed = service.good("GET", "/v1/inspections", limit=100)["inspections"]
        self.assertEqual(status["inspections"], len(listed))
        history = service.good("GET", "/v1/history")["samples"]
        self.assertGreaterEqual(len(history), 2)
        times = [s["time"] for s in history]
        self.assertEqual(times, sorted(times))
        self.assertEqual({s["task"] for s in history} & {"bottle", "screw"}, {"bottle", "screw"})
        self.assertEqual(service.good("GET", "/v1/history", since="2131-05-04T03:02:01.000Z"), {"samples": []})
        for since in ["2001-05-04T03:02:01.000Z", "2001-05-04T03:02:01Z"]:  # as inspections and tasks write it
            with self.subTest(since):
                self.assertEqual(service.good("GET", "/v1/history", since=since)["samples"], history)
        self.assertGreaterEqual(len(service.good("GET", "/v1/history", points=1)["samples"]), 1)
        for query in [{"since": "yesterday"}, {"points": "many"}, {"points": -1}]:
            self.assertEqual(service.get("/v1/history", **query).status, 400, query)
        self.check_metrics(service.get("/metrics").body.decode(), status["inspections"])

    def check_metrics(self, text, inspections):
        self.assertTrue(text.endswith("\n"))
        kinds, values, helped = {}, {}, set()
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                self.assertIn(kind, ("counter", "gauge", "histogram", "summary"))
                self.assertNotIn(name, kinds)
                kinds[name] = kind
            elif line.startswith("# HELP "):
                helped.add(line.split(" ")[2])
            elif line:
                label = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?'
                found = re.fullmatch(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:%s)*\})? (\S+)" % label, line)
                self.assertTrue(found, line)
                family = re.sub(r"_(bucket|sum|count)\Z", "", found[1])
                family = family if kinds.get(family) in ("histogram", "summary") else found[1]
                self.assertIn(family, kinds, line)
                key = (found[1], found[2] or "")
                self.assertNotIn(key, values)
                values[key] = float(found[3])
        self.assertEqual(helped, set(kinds))
        self.assertTrue(all(name.startswith(("contcore_", "process_")) for name in kinds), kinds)
        for name in [n for n, kind in kinds.items() if kind == "histogram"]:
            rows = {}
            for (sample, labels), value in values.items():
                if sample == name + "_bucket":
                    le = re.search(r'le="([^"]+)"', labels)[1]
                    rest = re.sub(r',?le="[^"]+",?', "", labels).replace("{}", "")
                    rows.setdefault(rest, []).append((float(le), value))
            for rest, row in rows.items():
                counts = [count for _, count in sorted(row)]
                self.assertEqual(counts, sorted(counts), name)
                self.assertEqual(max(row)[0], float("inf"), name)
                self.assertEqual(counts[-1], values[(name + "_count", rest)], name)
        # The inspections of this process are counted somewhere.
        self.assertTrue(any(v >= inspections for (n, _), v in values.items() if "inspect" in n), values)

    def restart(self, service):
        self.maxDiff = None
        service.good("PUT", "/v1/tasks/screw/threshold", {"score": 7.5})
        fixed = picture(0, 777)
        score = self.inspect(service, fixed, task="bottle")["score"]
        tasks = service.tasks()
        listed = service.good("GET", "/v1/inspections", limit=100)
        history = service.good("GET", "/v1/history")["samples"]
        image = service.get("/v1/inspections/%d/image" % listed["inspections"][3]["id"]).body
        self.assertEqual(service.stop(), 0, service.words)
        self.assertEqual(self.run_command("info", service.memory).returncode, 0)
        service = self.start("--false-alarms", "0.05")
        # Thresholds and drift follow when images are folded in: at the latest by that stop.
        names = ["name", "images", "calibrated", "patches", "vectors", "certificate", "learned"]
        folded = service.tasks()
        for name, task in tasks.items():
            self.assertEqual([folded[name][n] for n in names], [task[n] for n in names])
        self.assertEqual(service.good("GET", "/v1/inspections", limit=100), listed)
        self.assertEqual(service.good("GET", "/v1/history")["samples"][: len(history)], history)
        self.assertEqual(service.get("/v1/inspections/%d/image" % listed["inspections"][3]["id"]).body, image)
        said = self.inspect(service, fixed, task="bottle")
        self.assertEqual(said["score"], score)
        self.assertEqual(said["id"], listed["inspections"][0]["id"] + 1)
        self.assertEqual(folded["screw"]["threshold"]["score"], 7.5)
        folded = service.tasks()  # which have seen another part
        self.assertEqual(service.stop(), 0)
        service = self.start("--false-alarms", "0.05")
        self.assertEqual(service.tasks(), folded)
        self.assertEqual(service.stop(), 0)

    def test_large_images_in_tiles(self):
        def plate(index, scratch=False):
            pixels = 128 + numpy.random.RandomState(index).normal(0, 6, (207, 331, 3))
            if scratch:
                pixels[139:145, 217:223] = 240
            return png(pixels)

        # Made, taught and asked by the service.
        service = self.start("--backbone", "builtin", "--tile", "64", "--overlap", "32", small=False)
        self.assertEqual(service.learn_job("plate", [plate(i) for i in range(24)])["state"], "done")
        served = [service.good("POST", "/v1/inspections", plate(100 + i, i < 2)) for i in range(3)]
        for one in served[:2]:
            self.assertEqual(one["verdict"], "defect", one)
            box = one["regions"][0]
            self.assertTrue(box["x"] <= 220 <= box["x"] + box["width"] and box["width"] < 64, one)
            self.assertTrue(box["y"] <= 142 <= box["y"] + box["height"] and box["height"] < 64, one)
            self.assertGreater(one["score"], served[2]["score"])
            heat = service.ask("GET", "/v1/inspections/%d/map" % one["id"])
            self.assertEqual((heat.status, heat.body[16:24]), (200, struct.pack(">II", 331, 207)))
        # Lessons that are in the journal alone are taken again.
        for i in range(3):
            service.good("POST", "/v1/tasks/plate/images", plate(200 + i))
        asked = ["POST", "/v1/inspections", plate(100, True)]
        before = service.good(*asked)
        self.assertNotEqual(before["score"], served[0]["score"])
        service.kill()
        service = self.start()
        after = service.good(*asked)
        self.assertEqual([after[k] for k in ("score", "threshold", "regions")], [before[k] for k in ("score", "threshold", "regions")])
        served = [service.good("POST", "/v1/inspections", plate(100 + i, i < 2)) for i in range(3)]
        service.stop()
        # And by the command.
        for i in range(3):
            path = os.path.join(self.folder, "%d.png" % i)
            with open(path, "wb") as file:
                file.write(plate(100 + i, i < 2))
            done = self.run_command("inspect", service.memory, path, "--json")
            said = json.loads(done.stdout)
            self.assertEqual({k: said[k] for k in ("score", "verdict", "regions", "threshold")},
                             {k: served[i][k] for k in ("score", "verdict", "regions", "threshold")})  # fmt: skip

    def test_images_no_longer_kept(self):
        service = self.start_learned("--keep-images", "40K", "--keep-inspections", "30")
        size = len(picture(0, 0))
        count = 40960 // size + 10
        for i in range(count):
            self.inspect(service, picture(0, i))
        first = service.good("GET", "/v1/inspections", limit=100)["inspections"]
        gone = [o for o in first if not o["has_image"]]
        self.assertTrue(gone)
        self.assertTrue(first[0]["has_image"])
        path = "/v1/inspections/%d" % gone[0]["id"]
        self.assertEqual(service.get(path + "/image").status, 404)
        self.assertEqual(service.ask("POST", path + "/feedback", {"label": "good"}).status, 409)
        self.assertEqual(service.good("GET", path)["feedback"], "")
        self.assertEqual(service.good("POST", path + "/feedback", {"label": "defect"})["feedback"], "defect")
        for i in range(40):
            self.inspect(service, picture(1, i))
        kept = service.good("GET", "/v1/inspections", limit=100)["inspections"]
        self.assertTrue(30 <= len(kept) < count + 40, len(kept))
        self.assertEqual(service.get("/v1/inspections/%d" % first[-1]["id"]).status, 404)

    def test_every_image_is_learned_and_calibrates(self):
        """Each is scored before it is learned; the latest hundred of a task count."""
        service = self.start()
        for i in range(25):
            service.good("POST", "/v1/tasks/t%d/images" % i, picture(i % 5, i))
        for i in range(130):
            task = service.good("POST", "/v1/tasks/t0/images", picture(0, 100 + i))["task"]
            self.assertEqual(task["images"], 2 + i)
            self.assertEqual(task["calibrated"], task["threshold"]["images"])
            self.assertGreaterEqual(task["calibrated"], min(1 + i, 20))
            self.assertLessEqual(task["calibrated"], min(1 + i, 100))
        self.assertGreater(task["calibrated"], 60)

    def test_defects_that_are_shown_become_known(self):
        service = self.start()
        for i in range(25):
            service.good("POST", "/v1/tasks/bottle/images", picture(0, i))
        bad = [self.inspect(service, picture(0, 100 + i, True)) for i in range(12)]
        feedback = "/v1/inspections/%d/feedback"
        wide = {"x": 0, "y": 0, "width": bad[0]["width"], "height": bad[0]["height"]}
        for region, status in [
            (wide, 409), ({**wide, "width": 0}, 400), ({**wide, "x": 5000}, 400), ({"x": 1}, 400), ([1, 2, 3, 4], 400),
        ]:  # fmt: skip
            said = service.ask("POST", feedback % bad[0]["id"], {"label": "defect", "region": region})
            self.assertEqual(said.status, status, region)
        self.assertEqual(service.good("GET", "/v1/inspections/%d" % bad[0]["id"])["feedback"], "")
        for label in ("good", ""):
            body = {"label": label, "region": {"x": 1, "y": 1, "width": 9, "height": 9}}
            self.assertEqual(service.ask("POST", feedback % bad[0]["id"], body).status, 400)
        for i, seen in enumerate(bad[:10]):
            self.assertEqual(seen["verdict"], "defect")
            task = service.tasks()["bottle"]
            self.assertEqual((task["known_defects"], task["known_defects_used"]), (i, False))
            box = seen["regions"][0]
            region = {name: box[name] for name in ("x", "y", "width", "height")}
            body = {"label": "defect", "region": region} if i % 2 else {"label": "defect"}
            said = service.good("POST", feedback % seen["id"], body)
            self.assertEqual((said["feedback"], said["learned"]), ("defect", False))
            service.good("POST", feedback % seen["id"], {"label": "defect"})  # once more: it is known
        task = service.tasks()["bottle"]
        self.assertEqual((task["known_defects"], task["known_defects_used"]), (10, True))
        again = self.inspect(service, picture(0, 111, True))
        self.assertGreater(again["score"], bad[11]["score"])
        # What was shown is a lesson: it is there after the power was cut.
        service.kill()
        service = self.start()
        self.assertEqual(service.tasks()["bottle"], task)
        self.assertEqual(self.inspect(service, picture(0, 111, True))["score"], again["score"])

    def test_the_promise_beside_the_truth(self):
        service = self.start_learned()
        said = service.tasks()["p0"]["promise"]
        self.assertEqual((said["parts"], said["alarms"], said["warning"]), (0, 0, ""))
        self.assertEqual(said["rate"], 0.05)
        self.assertEqual(service.good("GET", "/v1/status")["warnings"], [])
        # Good parts, then as many with something on them that nobody calls a defect.
        seen = [service.good("POST", "/v1/inspections", picture(0, 100 + i, i >= 20), task="p0") for i in range(40)]
        told = service.tasks()["p0"]
        self.assertEqual(told["promise"]["parts"], 40)
        self.assertGreaterEqual(told["promise"]["alarms"], 20)
        self.assertIn("were rejected", told["promise"]["warning"])
        self.assertLess(told["good_parts"]["score"], 1)
        (warning,) = service.good("GET", "/v1/status")["warnings"]
        self.assertEqual(warning, "p0: " + told["promise"]["warning"])
        lines = service.get("/metrics").body.decode().splitlines()
        self.assertIn('contcore_task_promise_broken{task="p0"} 1', lines)
        self.assertIn('contcore_task_promise_broken{task="p1"} 0', lines)
        self.assertIn('contcore_task_alarms_ratio{task="p0"} %s' % repr(told["promise"]["alarms"] / 40), lines)
        self.assertTrue([line for line in lines if line.startswith('contcore_task_promised_ratio{task="p0"} 0.05')])
        self.assertEqual([line for line in lines if 'alarms_ratio{task="p1"}' in line], [])
        # A sample has it too, taken with a lesson.
        for part in seen[20:]:
            self.assertEqual(part["verdict"], "defect")
            service.good("POST", "/v1/inspections/%d/feedback" % part["id"], {"label": "defect"})
        told = service.tasks()["p0"]["promise"]
        self.assertEqual((told["parts"], told["warning"]), (20, ""))
        service.learn_job("p1", [picture(1, 300 + i) for i in range(2)])
        sample = [s for s in service.good("GET", "/v1/history")["samples"] if s["task"] == "p0"][-1]
        self.assertEqual(sample["alarms"], told["alarms"] / 20)
        self.assertLess(sample["good_score"], 1)
        # By hand there is no promise, and with another threshold all begins anew.
        service.good("PUT", "/v1/tasks/p0/threshold", {"score": 5.0})
        told = service.tasks()["p0"]["promise"]
        self.assertEqual((told["rate"], told["parts"], told["alarms"]), (None, 0, 0))

    def test_a_task_that_is_not_known(self):
        service = self.start_learned()
        reply = service.ask("POST", "/v1/inspections", picture(0, 0), task="zebra")
        self.assertTrue(400 <= reply.status < 500, reply)
        self.assertIn("zebra", reply.json()["detail"])


# ---- who may do what


class StationTest(ServiceTest):
    def stations(self, service):
        return {one["name"]: one for one in service.good("GET", "/v1/stations")["stations"]}

    def inspect(self, service, station, product=0, **query):
        query = "&".join("%s=%s" % (name, quote(value, safe="")) for name, value in {"station": station, **query}.items())
        return service.ask("POST", "/v1/inspections?" + query, picture(product, 60))

    def test_each_has_its_own_counts_and_list(self):
        shifts = ["--shifts", far_from_now()]
        service = self.start_learned(*shifts)
        self.assertEqual(self.stations(service), {})
        names = ["press 4", "Prüfung/2 & more", "検査"]
        for n, name in enumerate(names, 1):
            for _ in range(n):
                self.assertEqual(self.inspect(service, name).status, 201)
        service.good("POST", "/v1/inspections", picture(0, 61))
        found = self.stations(service)
        self.assertEqual(set(found), {"", *names})
        for n, name in enumerate(names, 1):
            shift = found[name]["shift"]
            self.assertEqual(shift["inspected"], n)
            self.assertEqual(sum(shift[verdict] for verdict in ("good", "defect", "unknown", "uncalibrated")), n)
            listed = service.good("GET", "/v1/inspections?station=" + quote(name, safe=""))["inspections"]
            self.assertEqual([one["station"] for one in listed], [name] * n)
            self.assertEqual(found[name]["latest"], listed[0]["id"])
        self.assertEqual(len(service.good("GET", "/v1/inspections?station=")["inspections"]), 1)
        self.assertEqual(len(service.good("GET", "/v1/inspections?station=nobody")["inspections"]), 0)
        service.stop()
        again = self.start(*shifts, memory=service.memory)
        self.assertEqual(self.stations(again), found)

    def test_names_that_cannot_be(self):
        service = self.start_learned()
        for name in ["x" * 201, " a", "a ", "a\u0007", "e\u0301", "\u202egood", "."]:
            self.assertEqual(self.inspect(service, name).status, 400, name)
            if name != ".":
                path = "/v1/stations/" + quote(name, safe="")
                self.assertEqual(service.ask("PUT", path, {"task": None}).status, 400, name)
        for body in [{}, {"task": 1}, {"task": "nobody"}, {"task": ["p0"]}]:
            self.assertEqual(service.ask("PUT", "/v1/stations/a", body).status, 400, body)
        self.refuse_to_start(["station"], "--station", "a ")
        self.refuse_to_start(["shifts"], "--shifts", "noon")

    def test_a_product_is_pinned(self):
        service = self.start_learned()
        path = "/v1/stations/" + quote("a/b", safe="")
        self.assertEqual(service.good("PUT", path, {"task": "p0"}), {"name": "a/b", "task": "p0"})
        self.assertEqual(self.stations(service)["a/b"]["task"], "p0")
        self.assertIsNone(self.stations(service)["a/b"]["latest"])
        foreign = self.inspect(service, "a/b", product=1).json()
        self.assertEqual(foreign["task"], "p0")
        self.assertEqual(self.inspect(service, "a/b", task="p0").status, 201)
        refused = self.inspect(service, "a/b", task="p1")
        self.assertEqual(refused.status, 409, refused)
        self.assertIn("'p0'", refused.json()["detail"])
        self.assertEqual(self.inspect(service, "c", product=1).json()["task"], "p1")
        service.kill()  # it was on disk when it was acknowledged
        again = self.start(memory=service.memory)
        self.assertEqual(self.stations(again)["a/b"]["task"], "p0")
        again.good("PUT", path, {"task": None})
        self.assertEqual(self.inspect(again, "a/b", product=1).json()["task"], "p1")
        self.assertIsNone(self.stations(again)["a/b"]["task"])

    def test_a_watched_folder_has_one(self):
        folder = os.path.join(self.folder, "camera")
        os.mkdir(folder)
        service = self.start_learned("--watch", folder, "--station", "press 4")
        service.good("PUT", "/v1/stations/press%204", {"task": "p0"})
        with open(os.path.join(folder, "part.png"), "wb") as file:
            file.write(picture(1, 5))
        for _ in range(200):
            listed = service.good("GET", "/v1/inspections?station=press%204")["inspections"]
            if listed:
                break
            time.sleep(0.05)
        self.assertEqual([(one["source"], one["task"]) for one in listed], [("part.png", "p0")])


class AccessTest(ServiceTest):
    def token_file(self, text=TOKEN_TEXT, mode=0o600):
        path = os.path.join(self.folder, "tokens")
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def test_roles(self):
        service = self.start_learned("--tokens", self.token_file())
        service.good("POST", "/v1/inspections", picture(0, 0), token=TOKENS["inspect"])
        job = service.good("POST", "/v1/jobs", {"task": "p0"}, token=TOKENS["learn"])["id"]
        self.assertEqual(service.good("GET", "/v1/status", token=TOKENS["learn"])["role"], "learn")
        for method, template, path, body, operation in requests():
            path = path.replace("/v1/jobs/1", "/v1/jobs/" + job)
            what = (method, path)
            if operation.get("security") == []:
                with self.subTest(what):
                    self.assertEqual(service.ask(method, path, body).status, 200)
                continue
            wrong = [None, TOKENS["admin"][:-1], TOKENS["admin"] + "x", TOKENS["admin"].upper(), "x" * 16]
            for token in wrong:
                self.assertEqual(service.ask(method, path, body, token=token).status, 401, what)
            for text in ["Basic YTpi", "Bearer", "Bearer  ", TOKENS["admin"], "Bearer " + TOKENS["admin"] + " x"]:
                reply = service.ask(method, path, body, headers={"Authorization": text})
                self.assertEqual(reply.status, 401, (what, text))
            needed = ROLES.index(operation["x-role"])
            for i, role in enumerate(ROLES):
                reply = service.ask(method, path, body, token=TOKENS[role])
                if i < needed:
                    self.assertEqual(reply.status, 403, (what, role, reply))
                else:
                    self.assertNotIn(reply.status, (401, 403), (what, role, reply))
        # Neither is who has no token told what there is, nor is a token ever in the log.
        self.assertEqual(service.get("/v1/inspections/424242").status, 401)
        for token in TOKENS.values():
            self.assertNotIn(token, service.words())

    def test_tokens_from_the_environment(self):
        service = self.start_learned(env={"CONTCORE_TOKENS": TOKEN_TEXT})
        self.assertEqual(service.get("/v1/status").status, 401)
        self.assertEqual(service.good("GET", "/v1/status", token=TOKENS["admin"])["role"], "admin")
        # A lower-case scheme is the same scheme, and names of other hosts are fine with tokens.
        headers = {"Authorization": "bearer " + TOKENS["admin"], "Host": "line.example"}
        reply = service.get("/v1/status", headers=headers)
        self.assertEqual(reply.status, 200)

    def test_other_hosts_and_origins(self):
        service = self.start_learned()
        for method, template, path, body, operation in requests():
            for origin in ["http://evil.example", "https://127.0.0.1.evil.example", "null"]:
                reply = service.ask(method, path, body, headers={"Origin": origin})
                self.assertEqual(reply.status, 403, (method, path, origin, reply))
        for host in [
            "evil.example", "evil.example:%d" % service.port, "localhost.evil.example", "127.0.0.1.nip.io",
            "127.1x", "[evil.example]",
        ]:  # fmt: skip
            with self.subTest(host):
                self.assertEqual(service.get("/v1/status", headers={"Host": host}).status, 403)
                self.assertEqual(service.get("/health", headers={"Host": host}).status, 403)
        for host in ["localhost", "localhost:%d" % service.port, "127.0.0.1", "LOCALHOST", "[::1]:80"]:
            with self.subTest(host):
                self.assertEqual(service.get("/v1/status", headers={"Host": host}).status, 200)
        reply = service.get("/v1/status", headers={"Origin": service.url})
        self.assertEqual(reply.status, 200)
        self.assertIsNone(reply.headers.get("Access-Control-Allow-Origin"))

    def test_pages_of_other_sites(self):
        """Pictures and forms in them come without an Origin, but browsers say where they come from."""
        for env in {}, {"CONTCORE_TOKENS": TOKEN_TEXT}:
            service = self.start_learned(env=env)
            service.token = TOKENS["admin"] if env else None
            for site in ["cross-site", "same-site"]:
                told = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
                for method, template, path, body, operation in requests():
                    reply = service.ask(method, path, body, headers=told)
                    self.assertEqual(reply.status, 403, (method, path, reply))
                visit = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
                self.assertEqual(service.get("/", headers=visit).status, 200)
                self.assertEqual(service.get("/v1/status", headers=visit).status, 403)
                self.assertEqual(service.get("/", headers={**visit, "Sec-Fetch-Dest": "iframe"}).status, 403)
            for site in ["same-origin", "none"]:
                self.assertEqual(service.get("/v1/status", headers={"Sec-Fetch-Site": site}).status, 200)
            service.stop()

    def test_refused_at_start(self):
        none = {"CONTCORE_TOKENS": ""}
        for option in ["--tokens", "--watch", "--station", "--webhook-secret", "--mqtt-password"]:
            self.refuse_to_start([option + ": it is empty"], option, "", env=none)
        for address in ["0.0.0.0", "::"]:
            self.refuse_to_start(["token"], "--address", address, env=none)
        self.refuse_to_start(["tokens"], "--tokens", self.token_file(mode=0o644))
        self.refuse_to_start(["tokens"], "--tokens", self.token_file(mode=0o640))
        self.refuse_to_start(["tokens"], "--tokens", os.path.join(self.folder, "nowhere", "tokens"))
        for text in ["", "# nobody\n", "chief 0123456789abcdef0123\n", "admin\n", "admin short\n"]:
            self.refuse_to_start(["tokens"], "--tokens", self.token_file(text))
        for options in [
            ["--queue", "0"], ["--queue", "x"], ["--rate", "-1"], ["--false-alarms", "2"], ["--max-body", "lots"],
            ["--address", "nowhere.example"], ["--watch", "/nowhere/at/all"], ["--station", "press 4"],
        ]:  # fmt: skip
            self.refuse_to_start([], *options)
        # With tokens it may listen for all.
        service = self.start_learned("--address", "0.0.0.0", "--tokens", self.token_file())
        self.assertEqual(service.get("/health").status, 200)

    def test_a_busy_port_leaves_no_files(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            done = self.run_command("serve", os.path.join(self.folder, "line.ccm"), "--port", port, *serving.SMALL)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("port %d" % port, done.stderr)
        self.assertEqual(os.listdir(self.folder), [])

    def test_one_service_for_a_memory(self):
        service = self.start_learned()
        self.refuse_to_start(["line.ccm"])
        image = os.path.join(self.folder, "image.png")
        with open(image, "wb") as file:
            file.write(picture(0, 1))
        done = self.run_command("learn", service.memory, image, "--task", "p0")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(self.run_command("inspect", service.memory, image).returncode, 0)

    def test_rate(self):
        service = self.start_learned("--rate", "1")
        for _ in range(300):
            if service.get("/v1/status").status == 429:
                break
        for method, template, path, body, operation in requests():
            if "429" not in operation["responses"]:
                continue
            for _ in range(5):
                reply = service.ask(method, path, body)
                if reply.status == 429:
                    break
            self.assertEqual(reply.status, 429, (method, path))
            self.assertGreaterEqual(int(reply.headers.get("Retry-After")), 1)
        time.sleep(1.2)
        self.assertEqual(service.get("/v1/status").status, 200)


# ---- hostile clients


class HostileTest(ServiceTest):
    BODY = 2 << 20

    def setUp(self):
        super().setUp()
        self.service = self.start_learned("--max-body", "2M")
        self.image = picture(0, 50)
        self.score = self.service.good("POST", "/v1/inspections", self.image)["score"]
        self.tasks = list(self.service.tasks())
        self.before = self.service.memory_kib("VmHWM")

    def tearDown(self):
        try:
            self.serves("at the end")
            if not SLOW:
                self.assertLess(self.service.memory_kib("VmHWM"), self.before + (150 << 10))
            self.assertEqual(self.service.stop(), 0)
        finally:
            super().tearDown()

    def serves(self, after):
        self.assertIsNone(self.service.process.poll(), (after, self.service.words()))
        begin = time.monotonic()
        said = self.service.good("POST", "/v1/inspections", self.image, task="p0")
        self.assertEqual(said["score"], self.score, after)
        if not SLOW:
            self.assertLess(time.monotonic() - begin, 3, after)

    def post(self, body=b"", path="/v1/inspections", more="", kind="image/png"):
        return (
            "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: %s\r\n%s\r\n" % (path, kind, more)
        ).encode() + body

    def refused(self, replies, codes, what):
        """Nothing, or a refusal."""
        for reply in replies:
            self.assertIn(reply.status, codes, (what, reply))

    def test_bodies(self):
        service, whole = self.service, self.image
        for part in [0, 1, 100, len(whole) // 2, len(whole) - 1]:
            cut = self.post(whole[:part], more="Content-Length: %d\r\n" % len(whole))
            self.refused(service.raw(cut, close=True, timeout=5), (400, 408), "cut at %d" % part)
            self.assertIn(service.ask("POST", "/v1/inspections", whole[:part]).status, (400, 422), part)
        self.serves("truncated bodies")
        for more in [
            "Content-Length: x\r\n",
            "Content-Length: -1\r\n",
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: 99999999999999999999999\r\n",
            "Transfer-Encoding: gzip\r\n",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Content-Encoding: gzip\r\nContent-Length: 5\r\n",
        ]:
            bad = self.post(b"5\r\nabcde\r\n0\r\n\r\n", more=more)
            replies = service.raw(bad, close=True, timeout=5)
            # 503: who has closed its side has left.
            self.refused(replies, (400, 411, 413, 415, 422, 501, 503), more)
        for body in [
            b"zz\r\n", b"-1\r\nx\r\n", b"ffffffffffffffffff\r\n", b"5\r\nabcdefgh\r\n",
        ]:  # fmt: skip
            bad = self.post(body, more="Transfer-Encoding: chunked\r\n")
            with self.subTest(body[:20]):
                self.refused(service.raw(bad, close=True, timeout=5), (400, 413, 422, 431), "")
        self.serves("wrong lengths and chunks")
        pieces = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in [whole[:7], whole[7:500], whole[500:]])
        pieces += b"0\r\n\r\n"
        good = service.raw(self.post(pieces, more="Transfer-Encoding: chunked\r\nConnection: close\r\n"))
        self.assertEqual([r.status for r in good], [201], good)

    def test_endless_body(self):
        begin, sent, answer = time.monotonic(), 0, b""
        with self.service.connect() as connection:
            connection.sendall(self.post(more="Transfer-Encoding: chunked\r\n"))
            piece = b"10000\r\n" + bytes(65536) + b"\r\n"
            try:
                while time.monotonic() < begin + 20:
                    connection.sendall(piece)
                    sent += 65536
            except OSError:
                pass
            try:
                answer = connection.recv(65536)
            except OSError:
                pass
        self.assertLess(time.monotonic() - begin, 19, "%d bytes were taken" % sent)
        self.refused(serving.read_replies(answer), (413,), "endless")
        self.serves("an endless body")

    def test_too_large(self):
        job = self.service.good("POST", "/v1/jobs", {"task": "p0"})["id"]
        for method, template, path, body, operation in requests():
            if "413" in operation["responses"]:
                kind = "application/json" if is_json_body(operation) else "image/png"
                path = path.replace("/jobs/1", "/jobs/" + job)
                self.assertEqual(self.service.head(method, path, self.BODY + 1, kind).status, 413, (method, path))
                self.assertEqual(self.service.head(method, path, 1 << 40, kind).status, 413, (method, path))
        large = numpy.random.RandomState(1).bytes(self.BODY - 100)
        self.assertEqual(self.service.ask("POST", "/v1/inspections", large).status, 422)

    def test_images(self):
        service = self.service

        def claims(*header):
            head = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", *header))
            return head + chunk(b"IDAT", b"x" * 100) + chunk(b"IEND", b"")

        bombs = {
            "png": claims(100000, 100000, 8, 2, 0, 0, 0),
            "png of no size": claims(0, 0, 8, 2, 0, 0, 0),
            "png of odd depth": claims(64, 64, 7, 9, 9, 9, 9),
            "png chunk": b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 0xFFFFFFFF) + b"IHDR" + b"x" * 40,
            "ppm": b"P6 100000 100000 255\n" + b"x" * 1000,
            "bmp": b"BM" + struct.pack("<IHHIIiiHH6I", 100, 0, 0, 54, 40, 100000, 100000, 1, 24, *[0] * 6),
            "tiff": b"II*\0" + struct.pack("<IH", 8, 65535) + b"\xff" * 60,
            "jpeg": b"\xff\xd8\xff\xc0\x00\x11\x08\xff\xff\xff\xff\x03" + b"\x11" * 60,
            "gif": b"GIF89a" + b"\xff" * 50,
            "svg": b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>',
            "nothing": b"",
            "zeros": bytes(10000),
        }  # fmt: skip
        job = service.good("POST", "/v1/jobs", {"task": "p0"})["id"]
        places = ["/v1/inspections", "/v1/tasks/p0/images", "/v1/tasks/new/images", "/v1/jobs/%s/images" % job]
        for name, image in bombs.items():
            for path in places:
                reply = service.ask("POST", path, image)
                self.assertIn(reply.status, (400, 413, 422), (name, path, reply))
        numbers = random.Random(5)
        for _ in range(10 if SLOW else 40):
            image = bytearray(self.image)
            for _ in range(numbers.randrange(1, 20)):
                image[numbers.randrange(len(image))] = numbers.randrange(256)
            self.assertIn(service.ask("POST", "/v1/inspections", bytes(image)).status, (201, 413, 422))
        for path in places:
            for kind in ["text/html", "application/json", "text/plain; charset=utf-8", "video/mp4"]:
                reply = service.ask("POST", path, self.image, headers={"Content-Type": kind})
                self.assertEqual(reply.status, 415, (path, kind, reply))
        self.assertEqual(list(service.tasks()), self.tasks)
        self.assertEqual(service.ask("POST", "/v1/jobs/%s/start" % job).status, 409)
        self.serves("bad images")

    def test_forms(self):
        service, image = self.service, self.image
        whole, headers = multipart(image)
        part = whole[: -len(b"--xXx7--\r\n")]
        kind = headers["Content-Type"]
        for name, body, kind in [
            ("no boundary", whole, "multipart/form-data"),
            ("an empty boundary", whole, "multipart/form-data; boundary="),
            ("a long boundary", whole, "multipart/form-data; boundary=" + "x" * 5000),
            ("another boundary", whole, "multipart/form-data; boundary=other"),
            ("two files", part + whole, kind),
            ("another field", multipart(image, "picture")[0], kind),
            ("cut short", whole[:-300], kind),
            ("no end", whole[: -len(b"\r\n--xXx7--\r\n")], kind),
            ("nothing", b"", kind),
            ("only an end", b"--xXx7--\r\n", kind),
            ("no headers", b"--xXx7\r\n\r\n" + image + b"\r\n--xXx7--\r\n", kind),
            ("endless headers", b"--xXx7\r\n" + b"X: y\r\n" * 100000, kind),
            ("a long header", b"--xXx7\r\nContent-Disposition: " + b"x" * 1000000, kind),
            ("a thousand parts", (part.replace(image, b"x")) * 1000 + whole, kind),
            ("zeros", bytes(100000), kind),
            ("many boundaries", b"--xXx7\r\n" * 50000, kind),
        ]:
            with self.subTest(name):
                reply = service.ask("POST", "/v1/inspections", body, headers={"Content-Type": kind})
                self.assertIn(reply.status, (400, 413, 415, 422), reply)
        tricky, headers = multipart(image, file="../../etc/passwd\x00.png")
        self.assertIn(service.ask("POST", "/v1/inspections", tricky, headers=headers).status, (201, 400))
        self.serves("bad forms")

    def test_json(self):
        service = self.service
        seen = service.good("POST", "/v1/inspections", self.image)["id"]
        threshold = service.tasks()["p0"]["threshold"]
        feedback = "/v1/inspections/%d/feedback" % seen
        places = [("PUT", "/v1/tasks/p0/threshold"), ("POST", feedback), ("POST", "/v1/jobs")]
        bodies = [
            b"", b"{", b"}", b"null", b"[]", b"1", b'"x"', b"true", b"{}{}", b'{"a":}', b"[" * 100000,
            b'{"a":' * 50000, b'{"task":' + b"[" * 500 + b"]" * 500 + b"}", b'{"score":NaN}',
            b'{"score":Infinity}', b'{"score":1e999}', b'{"false_alarms":1e-999999}', b'{"false_alarms":NaN}',
            b'{"score":' + b"9" * 100000 + b"}", b'{"label":"\xff\xfe"}', b'{"task":"\xc0\x80"}',
            b'{"task":"\\ud800"}', b'{"label":["good"]}', b'{"label":{"good":1}}', b'{"task":5}',
            b'{"task":null}', b'{"task":["p0"]}', b'{"task":""}', b'{"score":[1]}', b'{"score":{}}', b"'",
            b"\0" * 50, b'{"task":"' + b"x" * 300000 + b'"}', b'{"label":"' + b"g" * 300000 + b'"}',
            b'{"score":"' + b"1" * 300000 + b'"}',
        ]  # fmt: skip
        for method, path in places:
            for body in bodies:
                reply = service.ask(method, path, body, headers={"Content-Type": "application/json"})
                self.assertIn(reply.status, (400, 413), (method, path, body[:40], reply))
        self.assertEqual(service.tasks()["p0"]["threshold"], threshold)
        self.assertEqual(service.good("GET", "/v1/inspections/%d" % seen)["feedback"], "")
        self.assertEqual(service.good("GET", "/v1/jobs"), {"jobs": []})
        self.serves("bad JSON")

    def test_heads(self):
        service = self.service
        get = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        for name, data in {
            "a long header": get + b"X-A: " + b"a" * 200000 + b"\r\n\r\n",
            "many headers": get + b"".join(b"X-%d: a\r\n" % i for i in range(20000)) + b"\r\n",
            "a long path": b"GET /" + b"a" * 200000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            "a long query": b"GET /v1/inspections?source=" + b"a" * 200000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            "a long method": b"G" * 100000 + b" / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            "no host": b"GET /v1/status HTTP/1.1\r\n\r\n",
            "two hosts": get + b"Host: evil.example\r\n\r\n",
            "no version": b"GET /v1/status\r\n\r\n",
            "another version": b"GET /v1/status HTTP/7.3\r\nHost: 127.0.0.1\r\n\r\n",
            "nonsense": bytes(range(256)) * 20 + b"\r\n\r\n",
            "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 300,
            "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "a header without a name": get + b": x\r\n\r\n",
            "a blank before the colon": b"GET /v1/status HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n",
            "zeros": bytes(100000),
            "asterisk": b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            "connect": b"CONNECT evil.example:80 HTTP/1.1\r\nHost: evil.example:80\r\n\r\n",
        }.items():
            replies = service.raw(data, close=True, timeout=5)
            self.refused(replies, (400, 403, 404, 405, 413, 414, 431, 501, 505), name)
        self.serves("bad heads")
        named = service.get("/v1/inspections", headers={"Cookie": "a" * 2000, "Accept": "*/*"})
        self.assertEqual(named.status, 200)

    def test_paths(self):
        for path in [
            "/../etc/passwd", "/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/app.js/../../line.ccm",
            "/line.ccm", "/./app.js%00.png", "/app.js%00", "//etc/passwd", "/%c0%ae%c0%ae/etc",
            "/v1/tasks/%00/scores", "/v1/tasks/../status/scores", "/v1/tasks/%2e%2e/scores",
            "/v1/tasks/%ff%fe/scores", "/v1/tasks/%/scores", "/v1/tasks/%zz/scores", "/v1/inspections/-1",
            "/v1/inspections/0", "/v1/inspections/1e3", "/v1/inspections/0x1", "/v1/inspections/+1",
            "/v1/inspections/1%20", "/v1/inspections/99999999999999999999",
            "/v1/inspections/9223372036854775808/image", "/v1/inspections/1;drop", "/v1/inspections/1%00",
            "/v1/inspections/NaN/map", "/v1/inspections/1'/outline", "/v1/jobs/-1",
            "/v1/jobs/99999999999999999999999", "/v1/jobs/1'%20OR%20'1'='1", "/v1/jobs/../status",
            "/v1/jobs/%2e", "/v1/inspections//1", "/v1//status",
        ]:  # fmt: skip
            reply = self.service.get(path)
            self.assertIn(reply.status, (400, 404), (path, reply))
            self.assertNotIn(b"root:", reply.body)
        self.serves("path tricks")

    def test_queries(self):
        bad = [
            "NaN", "1e999", "-1", "0.5", "99999999999999999999", "x", "1 OR 1=1", "'; DROP TABLE inspections; --",
            "\0", "１",
        ]  # fmt: skip
        for name in ["limit", "before", "after"]:
            for value in bad:
                with self.subTest(name, value=value):
                    self.assertEqual(self.service.get("/v1/inspections", **{name: value}).status, 400)
        for name in ["verdict", "feedback"]:
            for value in ["x", "GOOD", "good,defect", "' OR ''='"]:
                with self.subTest(name, value=value):
                    self.assertEqual(self.service.get("/v1/inspections", **{name: value}).status, 400)
        times = ["x", "2031-99-99T99:99:99Z", "'--"]
        for name, value in [("points", v) for v in bad] + [("since", v) for v in times]:
            with self.subTest(name, value=value):
                self.assertEqual(self.service.get("/v1/history", **{name: value}).status, 400)
        for path in ["?limit=1&limit=2", "?source=%ff%fe", "?source=%c0%80"]:
            self.assertEqual(self.service.get("/v1/inspections" + path).status, 400, path)
        self.serves("bad queries")

    NAMES = [
        "x'); DROP TABLE inspections;--", '" OR 1=1 --', "%s%n%x", "{name}", "a/b", "..", "../../x", "a\\b",
        "🙂🍾", "naïve ünï", "a\u202eb", "\u0000", "a\u0000b", "a\nb", "a\tb", "\u001b[2J", "\u007f", " ", " a ",
        "caf\u00e9", "cafe\u0301", "a\u200bb", "a\u009b2J", "x" * 1000, "🙂" * 300, "<script>alert(1)</script>", "NaN", "null",
    ]  # fmt: skip

    def test_names(self):
        service = self.service
        numbers = {}
        for i, name in enumerate(self.NAMES):
            reply = service.ask("POST", "/v1/inspections", self.image, source=name)
            self.assertIn(reply.status, (201, 400), (name, reply))
            if reply.status == 201:
                self.assertEqual(reply.json()["source"], name)
                found = service.good("GET", "/v1/inspections", source=name)["inspections"]
                self.assertEqual([o["id"] for o in found], [reply.json()["id"]], name)
                numbers[name] = reply.json()["id"]
            reply = service.ask("POST", "/v1/jobs", {"task": name})
            self.assertIn(reply.status, (201, 400), (name, reply))
            if reply.status == 201:
                self.assertEqual(reply.json()["task"], name)
                service.good("DELETE", "/v1/jobs/" + reply.json()["id"])
            accepted = reply.status == 201
            path = "/v1/tasks/%s/images" % quote(name, safe="")
            reply = service.ask("POST", path, picture(2, i))
            self.assertIn(reply.status, (201,) if accepted and name != ".." else (400, 404), (name, reply))
            if reply.status == 201:
                self.assertEqual(reply.json()["task"]["name"], name)
                scores = service.good("GET", "/v1/tasks/%s/scores" % quote(name, safe=""))
                self.assertEqual(scores["task"], name)
                self.assertIn(name, service.tasks())
            unknown = service.ask("POST", "/v1/inspections", self.image, task=name + "?")
            self.assertEqual(unknown.status, 400, unknown)
            service.get("/v1/inspections", task=name)
        for name in ["naïve ünï", "x'); DROP TABLE inspections;--", "<script>alert(1)</script>"]:
            self.assertIn(name, numbers)
        # No forged lines in logs, nor in file formats, and no two that look the same.
        for name in ["\u0000", "a\nb", "\u001b[2J", " ", " a ", "a\u202eb", "a\u200bb", "cafe\u0301", "a\u009b2J"]:
            self.assertNotIn(name, service.tasks())
        for name in ["caf\u00e9", "naïve ünï", "🙂🍾", "a/b"]:
            self.assertIn(name, service.tasks())
        text = service.get("/metrics").body.decode()
        self.assertFalse([line for line in text.splitlines() if not re.match(r"#|[a-z_:]+(\{.*\})? [^ ]+\Z", line)])
        tasks = list(service.tasks())
        self.assertEqual(service.stop(), 0)
        again = self.start("--max-body", "2M")
        self.assertEqual(list(again.tasks()), tasks)
        self.service = again
        self.score = again.good("POST", "/v1/inspections", self.image, task="p0")["score"]
        self.before = again.memory_kib("VmHWM")

    def test_pipelined(self):
        get = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        last = get.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        replies = self.service.raw(get * 30 + last)
        self.assertEqual([r.status for r in replies], [200] * 31)
        post = self.post(self.image, more="Content-Length: %d\r\n" % len(self.image))
        missing = get.replace(b"/health", b"/v1/inspections/987654")
        replies = self.service.raw(post + get + post + missing + post + last)
        self.assertEqual([r.status for r in replies], [201, 200, 201, 404, 201, 200])
        ids = [r.json()["id"] for r in replies if r.status == 201]
        self.assertEqual(ids, sorted(ids))

    def test_idle_and_slow_connections(self):
        idle = []
        try:
            for i in range(300):
                connection = self.service.connect()
                if i % 3 == 1:
                    connection.sendall(b"POST /v1/inspections HTTP/1.1\r\nHost: 127")
                elif i % 3 == 2:
                    connection.sendall(self.post(b"abc", more="Content-Length: 1000\r\n"))
                idle.append(connection)
            for _ in range(5):
                self.serves("300 connections are open")
            # A request that trickles in is served, and holds up nobody.
            slow = self.service.connect()  # one of its own: those above may have been idle for too long by now
            idle.append(slow)
            whole = self.post(self.image, more="Content-Length: %d\r\nConnection: close\r\n" % len(self.image))
            for at in range(0, len(whole), len(whole) // 6 + 1):
                slow.sendall(whole[at : at + len(whole) // 6 + 1])
                self.serves("a slow writer")
            answer = b""
            while True:
                part = slow.recv(65536)
                if not part:
                    break
                answer += part
            self.assertEqual([r.status for r in serving.read_replies(answer)], [201])
        finally:
            for connection in idle:
                connection.close()
        # Clients that leave in the middle, before the answer.
        for _ in range(30):
            with self.service.connect() as connection:
                connection.sendall(self.post(self.image, more="Content-Length: %d\r\n" % len(self.image)))
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.serves("clients left")

    def test_readers_that_do_not_read(self):
        lazy = []
        try:
            for _ in range(10):
                connection = self.service.connect()
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.setblocking(False)
                ask = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 100
                try:
                    connection.send(ask)
                except OSError:
                    pass
                lazy.append(connection)
            for _ in range(5):
                self.serves("nobody reads")
        finally:
            for connection in lazy:
                connection.close()


# ---- more than it can do


class CrowdTest(ServiceTest):
    def test_queue_full(self):
        """Who cannot be served is told when to come again; nobody who was served is lost."""
        service = self.start_learned("--queue", "2", "--threads", "1")
        heavy = png(numpy.tile(product(0, 1, side=100), (15, 15, 1)))
        count = service.good("GET", "/v1/status")["inspections"]
        self.assertEqual(service.good("GET", "/v1/status")["queue"]["limit"], 2)

        job = service.good("POST", "/v1/jobs", {"task": "p0"})["id"]

        # Who is sent away comes again, and is served some time.
        def post(path, good):
            replies = [service.ask("POST", path, heavy)]
            while replies[-1].status != good and len(replies) < 3000:
                time.sleep(0.02)
                replies.append(service.ask("POST", path, heavy))
            return replies

        inspect = lambda: post("/v1/inspections?source=crowd", 201)
        add = lambda: post("/v1/jobs/%s/images" % job, 200)
        replies = together([inspect, add] * 7)
        inspected, added = sum(replies[::2], []), sum(replies[1::2], [])
        for some, good in (inspected, 201), (added, 200):
            self.assertEqual(sum(r.status == good for r in some), 7)
            refused = [r for r in some if r.status != good]
            self.assertLessEqual({r.status for r in refused}, {503})
            self.assertTrue(all(int(r.headers.get("Retry-After")) >= 1 for r in refused))
        self.assertIn(503, [r.status for r in inspected + added])  # three at most have a place
        served = [r.json()["id"] for r in inspected if r.status == 201]
        self.assertEqual(len(set(served)), len(served))
        listed = service.good("GET", "/v1/inspections", source="crowd", limit=100)["inspections"]
        self.assertEqual(sorted(served), sorted(o["id"] for o in listed))
        self.assertEqual(service.good("GET", "/v1/status")["inspections"], count + len(served))
        taken = sum(r.status == 200 for r in added)
        self.assertEqual(service.good("GET", "/v1/jobs/" + job)["received"], taken)
        self.assertEqual(service.ask("POST", "/v1/inspections", picture(0, 3)).status, 201)

    def test_nothing_is_done_for_who_has_left(self):
        service = self.start_learned("--threads", "1")
        # Few bytes and much work: 4000 × 4000 pixels, all black.
        head = chunk(b"IHDR", struct.pack(">IIBBBBB", 4000, 4000, 1, 0, 0, 0, 0))
        heavy = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(4000 * 501), 9)) + chunk(b"IEND", b"")

        def send(source):
            connection = service.connect()
            head = "POST /v1/inspections?source=%s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n"
            connection.sendall((head % (source, len(heavy))).encode() + heavy)
            return connection

        staying = [send("stays") for _ in range(3)]
        for _ in range(12):
            send("gone").close()
        # With one thread this is the last to be done.
        service.good("POST", "/v1/inspections", picture(0, 3))
        listed = lambda source: len(service.good("GET", "/v1/inspections", source=source)["inspections"])
        self.assertEqual(listed("stays"), 3)
        self.assertLess(listed("gone"), 6)
        for connection in staying:
            connection.close()

    def test_attack(self):
        """Bombs and half-sent heads; attack.py measures, here it is only that all are served."""
        if not attack.allow_files(attack.HEADS + 200):
            self.skipTest("too few files may be open")
        service = self.start_learned()
        bomb = service.ask("POST", "/v1/inspections", attack.scan_bomb())
        self.assertEqual(bomb.status, 422)
        self.assertIn("250 scans", bomb.json()["detail"])
        for addresses in ["127.0.0.2", "127.0.0.3", "127.0.0.4"], ["127.0.0.1"]:
            with attack.Attack(service.port, addresses) as running:
                end = time.monotonic() + 60
                while (running.opened.value < 2 * attack.HEADS or running.thrown.value < 8) and time.monotonic() < end:
                    _, failed = attack.clients(service.port, picture(0, 3), 0.5)
                    self.assertEqual(failed, [])
                self.assertGreater(running.opened.value, attack.HEADS)
                self.assertGreaterEqual(running.thrown.value, 8)

    def test_too_much_to_learn(self):
        service = self.start_learned()
        seen = service.good("POST", "/v1/inspections", picture(0, 1))["id"]
        jobs = [service.good("POST", "/v1/jobs", {"task": "p1"})["id"] for _ in range(12)]
        for job in jobs:
            service.good("POST", "/v1/jobs/%s/images" % job, picture(1, 50))
        to_review = [jobs.pop() for _ in range(8)]
        image = png(product(0, 1, side=200))
        full, over = threading.Event(), threading.Event()

        # Until the others have been refused: then there is no moment that they could miss.
        def learn():
            learned = 0
            while not over.is_set():
                reply = service.ask("POST", "/v1/tasks/p0/images", image)
                if reply.status == 503:
                    full.set()
                    time.sleep(0.01)
                else:
                    self.assertEqual(reply.status, 201)
                    learned += 1
            return learned

        started = []
        reviewed = []

        def others():
            for what, some, said in (("review", to_review, reviewed), ("start", jobs, started)):
                for job in some:
                    full.clear()
                    full.wait(serving.PATIENCE)
                    said.append(service.ask("POST", "/v1/jobs/%s/%s" % (job, what)).status)
            refused = None
            while refused != 503 and not over.is_set():
                reply = service.ask("POST", "/v1/inspections/%d/feedback" % seen, {"label": "defect"})
                refused = reply.status
                time.sleep(0.01)
            over.set()
            return refused

        timer = threading.Timer(8 * serving.PATIENCE, over.set)
        timer.start()
        *learned, refused = together([learn] * 90 + [others])
        timer.cancel()
        self.assertEqual(refused, 503)
        task = service.tasks()["p0"]
        self.assertEqual(task["images"], 20 + sum(learned))
        self.assertIn(503, started)
        self.assertIn(503, reviewed)
        for job, status in zip(jobs, started):
            # Who was told to come again finds the job as it was.
            if status == 503:
                self.assertEqual(service.ask("POST", "/v1/jobs/%s/start" % job).status, 202)
            self.assertEqual(service.follow(job)["state"], "done")

    def test_jobs_share_what_there_is(self):
        """Neither aborted uploads nor one that is endless keep others from learning."""
        # 16 MiB of features each.
        images = ["--backbone", "builtin", "--resize", "512", "--capacity", "200", "--precision", "float", "--dimension", "1024"]
        service = self.start(*images, small=False, env={"TMPDIR": "/nowhere/at/all"})
        aborted = ["/v1/jobs/" + service.good("POST", "/v1/jobs", {"task": "a"})["id"] for _ in range(16)]
        reply = service.ask("POST", "/v1/jobs", {"task": "b"})
        self.assertEqual(reply.status, 503, reply)
        self.assertIsNotNone(reply.headers.get("Retry-After"))
        endless = aborted.pop()
        for _ in range(40):
            reply = service.ask("POST", endless + "/images", picture(0, 1))
            if reply.status != 200:
                break
        self.assertEqual(reply.status, 507, reply)
        self.assertIn("/nowhere/at/all", reply.json()["detail"])
        job = service.good("GET", endless)
        self.assertEqual(job["state"], "failed")
        self.assertIn("/nowhere/at/all", job["error"])
        self.assertEqual(service.ask("POST", endless + "/images", picture(0, 1)).status, 409)
        self.assertEqual(service.ask("POST", endless + "/start").status, 409)
        self.assertEqual(service.good("POST", "/v1/jobs", {"task": "b"})["state"], "receiving")  # in its place
        end = time.monotonic() + 30 + 4 * serving.PATIENCE
        while time.monotonic() < end:
            reply = service.ask("POST", "/v1/jobs", {"task": "c"})
            if reply.status == 201:
                break
            time.sleep(0.5)
        self.assertEqual(reply.status, 201, reply)
        reply = service.ask("POST", aborted[0] + "/images", picture(0, 1))
        self.assertEqual(reply.status, 409, reply)
        self.assertIn("gave way", reply.json()["detail"])
        self.assertEqual(service.good("GET", aborted[0])["state"], "cancelled")

    def test_a_job_cancelled_while_it_learns(self):
        service = self.start_learned()
        before = service.tasks()
        job = service.good("POST", "/v1/jobs", {"task": "p2"})["id"]
        for i in range(60):
            service.good("POST", "/v1/jobs/%s/images" % job, picture(2, i))
        service.good("POST", "/v1/jobs/%s/start" % job)
        self.assertIn(service.good("DELETE", "/v1/jobs/" + job)["state"], ("learning", "cancelled", "done"))
        ended = service.follow(job)
        self.assertIn(ended["state"], ("cancelled", "done"))
        self.assertEqual(service.tasks() == before, ended["state"] == "cancelled")
        self.assertEqual(service.good("DELETE", "/v1/jobs/" + job), ended)

    def test_a_job_is_reviewed_before_it_learns(self):
        service = self.start_learned()
        before = service.tasks()
        job = "/v1/jobs/" + service.good("POST", "/v1/jobs", {"task": "p2"})["id"]
        self.assertEqual(service.ask("POST", job + "/review").status, 409, "nothing to look at")
        for i in range(30):
            image = picture(2, i, defect=i in (4, 9))
            said = service.good("POST", job + "/images", image, name="%d.png" % i)
            self.assertEqual(said["image"], i)
        for body, name, status in [(b"no image", "broken.png", 422), (b"", "empty.png", 400)]:
            reply = service.ask("POST", job + "/images", body, name=name)
            self.assertEqual(reply.status, status, reply)
        said = service.good("POST", job + "/review")
        self.assertIn(said["state"], ("reviewing", "questions"))
        said = service.follow(said["id"])
        self.assertEqual(said["state"], "questions")
        self.assertEqual([image["name"] for image in said["skipped_images"]], ["broken.png", "empty.png"])
        review = said["review"]
        self.assertEqual((review["images"], review["scored"]), (30, 30))
        self.assertEqual({image["name"] for image in review["strangest"][:2]}, {"4.png", "9.png"})
        strangers = next(remark for remark in review["remarks"] if remark["kind"] == "strangers")
        self.assertLessEqual({4, 9}, set(strangers["images"]))
        self.assertEqual(service.tasks(), before, "nothing is learned yet")
        self.assertIsNone(service.good("GET", "/v1/jobs")["jobs"][0]["review"])
        self.assertEqual(service.ask("POST", job + "/images", picture(2, 40)).status, 409)
        self.assertEqual(service.ask("POST", job + "/review").status, 409)
        for without in [[30], [-1], ["4"], [1.5], 4]:
            reply = service.ask("POST", job + "/start", {"without": without})
            self.assertEqual(reply.status, 400, without)
        self.assertEqual(service.ask("POST", job + "/start", {"without": list(range(30))}).status, 409)
        service.good("POST", job + "/start", {"without": [9, 4, 4]})
        said = service.follow(said["id"])
        self.assertEqual((said["state"], said["left_out"]), ("done", 2))
        self.assertEqual(service.tasks()["p2"]["images"], 28)
        self.assertEqual(service.good("GET", "/v1/lessons")["lessons"][0]["images"], 28)
        # Those that were left out are still called defects.
        for i in (4, 9):
            seen = service.good("POST", "/v1/inspections", picture(2, i, defect=True), task="p2")
            self.assertEqual(seen["verdict"], "defect")

    def test_a_good_word_far_above_the_threshold_is_asked_for_again(self):
        service = self.start_learned()
        seen = service.good("POST", "/v1/inspections", picture(0, 3, defect=True), task="p0")
        self.assertGreater(seen["score"], 1.1 * seen["threshold"])
        path = "/v1/inspections/%d/feedback" % seen["id"]
        images = service.tasks()["p0"]["images"]
        for body in [{"label": "good"}, {"label": "good", "confirm": False}, {"label": "good", "confirm": "yes"}]:
            reply = service.ask("POST", path, body)
            self.assertEqual(reply.status, 409, reply)
            self.assertIs(reply.json()["confirm"], True)
        self.assertEqual(service.tasks()["p0"]["images"], images)
        said = service.good("POST", path, {"label": "good", "confirm": True})
        self.assertTrue(said["learned"])
        self.assertEqual(service.tasks()["p0"]["images"], images + 1)

    def test_rate_is_kept(self):
        service = self.start_learned("--rate", "20")
        begin = time.monotonic()
        statuses = [service.get("/v1/status").status for _ in range(80)]
        took = time.monotonic() - begin
        self.assertEqual(set(statuses), {200, 429})
        self.assertLess(statuses.count(200), 20 * (took + 3))
        time.sleep(1.1)
        self.assertEqual([service.get("/v1/status").status for _ in range(5)], [200] * 5)

    def test_stop_while_busy(self):
        """What was accepted is answered."""
        service = self.start_learned("--queue", "64")
        image = png(product(0, 1, side=600))  # so that it takes a while
        connections = [service.connect() for _ in range(12)]
        for connection in connections:  # known to the service, and idle
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            self.assertIn(b"200 OK", connection.recv(65536))
        for i, connection in enumerate(connections):
            path = "/v1/inspections?source=last" if i % 3 else "/v1/tasks/p0/images"
            connection.sendall(
                b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: image/png\r\nContent-Length: %d\r\n\r\n%b"
                % (path.encode(), len(image), image)
            )
        # One that has only sent half of its image holds the end up until it has sent the rest.
        slow = service.connect()
        slow.sendall(
            b"POST /v1/inspections HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: image/png\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(image), image[:1000])
        )
        half = service.connect()
        half.sendall(b"GET /ready HTTP/1.1\r\nHost: 127.0")
        time.sleep(0.5 if SLOW else 0.03)
        service.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        try:
            half.sendall(b".0.1\r\n\r\n")
            ready = serving.read_replies(half.recv(65536))
        except OSError:
            ready = []
        half.close()
        slow.sendall(image[1000:])
        self.assertIn(b" 201 ", slow.recv(65536))
        slow.close()
        statuses = []
        for connection in connections:
            answer = b""
            try:
                while True:
                    part = connection.recv(65536)
                    if not part:
                        break
                    answer += part
            except OSError:
                pass
            connection.close()
            statuses += [r.status for r in serving.read_replies(answer)] or [None]
        self.assertEqual(statuses, [201] * 12)
        self.assertEqual(service.wait(), 0)
        for reply in ready:
            serving.check("GET", "/ready", reply)
        with self.subTest("not ready any more"):
            self.assertEqual([r.status for r in ready], [503])
        with self.assertRaises(OSError):
            service.connect(1)
        again = self.start()
        self.assertEqual(len(again.good("GET", "/v1/inspections", source="last")["inspections"]), 8)
        task = again.tasks()["p0"]
        self.assertEqual(task["images"], 24)
        again.send_signal(signal.SIGINT)
        self.assertEqual(again.wait(), 0)

    def test_stop_while_a_job_learns(self):
        service = self.start_learned()
        job = service.good("POST", "/v1/jobs", {"task": "p2"})["id"]
        for i in range(60):
            service.good("POST", "/v1/jobs/%s/images" % job, picture(2, i))
        service.good("POST", "/v1/jobs/%s/start" % job)
        self.assertEqual(service.stop(), 0)
        again = self.start()
        tasks = again.tasks()
        if "p2" in tasks:
            self.assertEqual(tasks["p2"]["images"], 60)
        self.assertEqual(list(tasks)[:2], ["p0", "p1"])


# ---- one memory or the next, never anything between


class SnapshotTest(ServiceTest):
    def test_scores_are_of_one_memory(self):
        fixed = picture(0, 900)
        # Products compete for room, so that each update moves the score.
        small = ["--backbone", "builtin", "--resize", "64", "--capacity", "40"]
        jobs = [("a", [picture(0, i) for i in range(20)])] + [
            ("bcd"[k], [picture(k + 1, i) for i in range(20)]) for k in range(3)
        ]
        online = [[("ab"[i % 2], picture(i % 2, 400 + 10 * k + i)) for i in range(6)] for k in range(4)]

        def look(service):
            return service.good("POST", "/v1/inspections", fixed)["score"]

        def updates(service, mark):
            for (task, images), singles in zip(jobs, online):
                self.assertEqual(service.learn_job(task, images)["state"], "done")
                mark()
                for name, image in singles:
                    service.good("POST", "/v1/tasks/%s/images" % name, image)
                    mark()

        first = self.start(*small, small=False, memory=os.path.join(self.folder, "first.ccm"))
        orderly = []
        updates(first, lambda: orderly.append(look(first)))
        first.stop()
        self.assertGreaterEqual(len(set(orderly)), 6, orderly)

        second = self.start(*small, small=False, memory=os.path.join(self.folder, "second.ccm"))
        done = threading.Event()
        acknowledged = [0]
        seen = [[], []]

        def watch(place):
            while not done.is_set():
                after = acknowledged[0]
                reply = second.ask("POST", "/v1/inspections", fixed)
                if reply.status == 201:
                    place.append((after, reply.json()["score"]))
                elif not (reply.status == 409 and after == 0):
                    place.append((after, reply.status))

        watchers = [threading.Thread(target=watch, args=(place,)) for place in seen]
        for watcher in watchers:
            watcher.start()

        def mark():
            acknowledged[0] += 1

        try:
            updates(second, mark)
        finally:
            done.set()
            for watcher in watchers:
                watcher.join()
        self.assertEqual(look(second), orderly[-1])
        for place in seen:
            self.assertGreater(len(place), 10)
            at = 0
            for after, score in place:
                self.assertIn(score, orderly)
                # Never an older memory than one already seen, or one acknowledged before it was asked.
                later = [i for i in range(max(at, after - 1, 0), len(orderly)) if orderly[i] == score]
                self.assertTrue(later, (score, at, after, orderly))
                at = later[0]
        second.stop()


# ---- what was acknowledged stays


def read_memory(path):
    """Everything in a memory but its times and its checksum."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    texts = header.pop("__metadata__")
    del texts["sha256"]
    tasks = json.loads(texts.pop("tasks"))
    for task in tasks:
        del task["learned"]
    arrays = {n: (e["dtype"], e["shape"], data[slice(*e["data_offsets"])]) for n, e in header.items()}
    return texts, tasks, arrays


class DurabilityTest(ServiceTest):
    TURN = 30  # images until the next product comes

    def nth(self, i):
        return "t%d" % (i // self.TURN % 20), picture(i // self.TURN % 5, i)

    def known(self, service):
        return sum(task["images"] for task in service.tasks().values())

    def test_killed_at_any_moment(self):
        """What was acknowledged is in, and all is as if nothing had happened."""
        numbers = random.Random(int(os.environ.get("CONTCORE_TEST_SEED", "3")))
        starts, images, left = [], 0, KILLS
        while left > 0:  # a new memory after some kills
            kills = min(left, 20)
            left -= kills
            images += self.kill_and_compare(numbers, kills, starts)
        if KILLS >= 100:
            print(
                "killed %d times, %d images, starts %.2f s (median) to %.2f s"
                % (KILLS, images, sorted(starts)[len(starts) // 2], max(starts)), file=sys.stderr,
            )  # fmt: skip
        if not SLOW and os.getloadavg()[0] <= 1.5 * os.cpu_count():  # on a machine that does little else
            self.assertLess(max(starts), 2.0)

    def kill_and_compare(self, numbers, kills, starts):
        memory = os.path.join(self.folder, "killed%d.ccm" % len(starts))
        acknowledged = 0
        for kill in range(kills):
            service = self.start(memory=memory)
            starts.append(service.took)
            known = self.known(service)
            # The one in flight at the kill may be in or not; all acknowledged ones are.
            self.assertIn(known, (acknowledged, acknowledged + 1), "kill %d: %s" % (kill, service.words()))
            acknowledged = known
            part = numbers.choice([0.02, 0.3, 0.6])
            killer = threading.Timer(numbers.uniform(0, part) * (10 if SLOW else 1), service.process.kill)
            killer.start()
            try:
                while True:
                    task, image = self.nth(acknowledged)
                    reply = service.ask("POST", "/v1/tasks/%s/images" % task, image)
                    self.assertEqual(reply.status, 201, reply)
                    acknowledged += 1
            except (OSError, http.client.HTTPException):
                pass
            killer.join()
            service.wait()
        service = self.start(memory=memory)
        known = self.known(service)
        self.assertIn(known, (acknowledged, acknowledged + 1))
        while known < acknowledged + 3:
            task, image = self.nth(known)
            service.good("POST", "/v1/tasks/%s/images" % task, image)
            known += 1
        self.assertEqual(service.stop(), 0)
        reference = os.path.join(self.folder, "reference%d.ccm" % len(starts))
        whole = self.start(memory=reference)
        for i in range(known):
            task, image = self.nth(i)
            whole.good("POST", "/v1/tasks/%s/images" % task, image)
        self.assertEqual(whole.stop(), 0)
        texts, tasks, arrays = read_memory(memory)
        expected = read_memory(reference)
        for text in (texts, expected[0]):
            text.pop("journal", None)  # which of the journal's records are in it: begun anew at other times
        self.assertEqual(texts, expected[0])
        self.assertEqual(tasks, expected[1])
        self.assertEqual(list(arrays), list(expected[2]))
        for name, array in arrays.items():
            self.assertTrue(array == expected[2][name], name)
        self.assertEqual(self.run_command("info", memory).returncode, 0)
        return known

    def test_a_killed_service_keeps_its_records(self):
        service = self.start_learned()
        seen = [service.good("POST", "/v1/inspections", picture(0, i)) for i in range(5)]
        said = service.good("POST", "/v1/inspections/%d/feedback" % seen[0]["id"], {"label": "good"})
        task = service.good("PUT", "/v1/tasks/p1/threshold", {"score": 3.25})
        service.kill()
        again = self.start()
        listed = again.good("GET", "/v1/inspections")["inspections"]
        self.assertEqual(listed, [*reversed(seen[1:]), said])
        self.assertEqual(again.tasks()["p1"]["threshold"], task["threshold"])
        p0 = again.tasks()["p0"]
        self.assertEqual(p0["images"], 21)
        again.kill()
        third = self.start()  # nor is it learned twice
        p0 = third.tasks()["p0"]
        self.assertEqual(p0["images"], 21)

    def test_folded_in(self):
        """Every 16 images, and when it is quiet, the file itself has them."""
        service = self.start_learned()

        def in_file():
            known = json.loads(self.run_command("info", service.memory, "--json").stdout)
            return sum(task["images"] for task in known["tasks"])

        def in_journal():
            return json.loads(self.run_command("info", service.memory, "--json").stdout)["journal"]

        def wait_for(count):
            end = time.monotonic() + serving.PATIENCE
            while in_file() != count and time.monotonic() < end:
                time.sleep(0.05)
            self.assertEqual(in_file(), count)

        before = in_file()
        for i in range(16):
            service.good("POST", "/v1/tasks/p0/images", picture(0, 300 + i))
        wait_for(before + 16)
        service.good("POST", "/v1/tasks/p0/images", picture(0, 400))
        wait_for(before + 17)
        self.assertEqual(in_journal(), 0)
        service.kill()
        self.assertEqual(self.known(self.start()), before + 17)

    def test_other_commands_take_the_journal_up(self):
        """Serve, learn, crash, and then whatever command opens the memory: nothing is dropped."""
        service = self.start_learned()
        for i in range(10):
            service.good("POST", "/v1/tasks/p0/images", picture(0, 300 + i))
        service.kill()
        memory = service.memory
        said = json.loads(self.run_command("info", memory, "--json").stdout)
        self.assertEqual(said["journal"], 10)
        self.assertIn("10 lessons", self.run_command("info", memory).stdout)
        folder = os.path.join(self.folder, "more")
        os.mkdir(folder)
        for i in range(3):
            with open(os.path.join(folder, "%d.png" % i), "wb") as file:
                file.write(picture(2, i))
        looked = self.run_command("inspect", memory, folder, "--json")
        self.assertEqual(looked.returncode, 0, looked.stderr)
        self.assertIn("10 lessons", looked.stderr)
        # A memory that is only read keeps its journal; a new one has what is in it.
        other = os.path.join(self.folder, "other.ccm")
        done = self.run_command("learn", other, folder, "--task", "p2", *serving.SMALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        merged = os.path.join(self.folder, "merged.ccm")
        done = self.run_command("merge", merged, memory, other)
        self.assertEqual(done.returncode, 0, done.stderr)
        known = {t["name"]: t for t in json.loads(self.run_command("info", merged, "--json").stdout)["tasks"]}
        self.assertEqual(known["p0"]["images"], 30)
        self.assertEqual(json.loads(self.run_command("info", memory, "--json").stdout)["journal"], 10)
        # Nor is a memory with a journal replaced by one without.
        done = self.run_command("merge", memory, merged, other, "--force")
        self.assertEqual(done.returncode, 3)
        self.assertIn("journal", done.stderr)
        done = self.run_command("learn", memory, folder, "--task", "p2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("10 lessons", done.stderr)
        self.assertEqual(json.loads(self.run_command("info", memory, "--json").stdout)["journal"], 0)
        again = self.start()
        self.assertEqual(self.known(again), 53)
        again.kill()
        service = self.start()
        service.good("POST", "/v1/tasks/p0/images", picture(0, 500))
        service.kill()
        os.remove(memory)  # the journal of a memory that is gone is not taken for a new one's
        done = self.run_command("learn", memory, folder, "--task", "p2", *serving.SMALL)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("lessons learned into another version", done.stderr)
        self.refuse_to_start(["lessons learned into another version"])
        self.assertFalse(os.path.exists(memory))

    def test_feedback_is_learned_every_time_and_once(self):
        service = self.start_learned()
        before = service.tasks()["p0"]
        seen = [service.good("POST", "/v1/inspections", picture(0, 900 + i), task="p0") for i in range(7)]
        for row in seen:
            said = service.good("POST", "/v1/inspections/%d/feedback" % row["id"], {"label": "good"})
            self.assertTrue(said["learned"])
            self.assertEqual(said["feedback"], "good")
        after = service.tasks()["p0"]
        self.assertEqual(after["images"], before["images"] + 7)
        self.assertEqual(after["calibrated"], before["calibrated"])
        # What is a defect after all is not to be in the memory.
        service.good("POST", "/v1/inspections/%d/feedback" % seen[0]["id"], {"label": "defect"})
        service.kill()
        self.assertEqual(self.run_command("learn", service.memory, self.one_image(), "--task", "p1").returncode, 0)
        # As if the power had gone before the database had it; the journal knows better, also when another command
        # has taken it up since.
        with sqlite3.connect(service.memory + ".db") as database:
            database.execute(
                "UPDATE inspection SET learned = 0, feedback = '', feedback_time = '' WHERE id <> ?", (seen[0]["id"],)
            )
        database.close()
        again = self.start()
        rows = {row["id"]: row for row in again.good("GET", "/v1/inspections")["inspections"]}
        for row in seen:
            self.assertEqual(rows[row["id"]]["learned"], row is not seen[0], row)
            self.assertEqual(rows[row["id"]]["feedback"], "defect" if row is seen[0] else "good")
        said = again.good("POST", "/v1/inspections/%d/feedback" % seen[3]["id"], {"label": "good"})
        self.assertTrue(said["learned"])
        self.assertEqual(again.tasks()["p0"]["images"], before["images"] + 6)

    def one_image(self):
        path = os.path.join(self.folder, "one.png")
        with open(path, "wb") as file:
            file.write(picture(1, 77))
        return path

    def test_what_an_older_copy_does_not_know_can_be_taught_again(self):
        service = self.start_learned()
        seen = service.good("POST", "/v1/inspections", picture(0, 900), task="p0")
        self.assertEqual(service.stop(), 0)
        with open(service.memory, "rb") as file:
            copy = file.read()
        service = self.start()
        before = service.tasks()["p0"]["images"]
        path = "/v1/inspections/%d/feedback" % seen["id"]
        service.good("POST", path, {"label": "good"})
        self.assertEqual(service.tasks()["p0"]["images"], before + 1)
        self.assertEqual(service.stop(), 0)
        service = self.start()  # as it was: learned
        self.assertTrue(service.good("GET", "/v1/inspections/%d" % seen["id"])["learned"])
        self.assertEqual(service.stop(), 0)
        with open(service.memory, "wb") as file:
            file.write(copy)
        service = self.start()
        self.assertFalse(service.good("GET", "/v1/inspections/%d" % seen["id"])["learned"])
        self.assertTrue(service.good("POST", path, {"label": "good"})["learned"])
        self.assertEqual(service.tasks()["p0"]["images"], before + 1)

    def test_another_database_gives_no_id_that_the_journal_knows(self):
        service = self.start_learned()
        seen = service.good("POST", "/v1/inspections", picture(0, 900), task="p0")
        service.good("POST", "/v1/inspections/%d/feedback" % seen["id"], {"label": "good"})
        service.kill()
        for end in ["", "-wal", "-shm"]:
            if os.path.exists(service.memory + ".db" + end):
                os.remove(service.memory + ".db" + end)
        service = self.start()
        other = service.good("POST", "/v1/inspections", picture(0, 901, defect=True), task="p0")
        self.assertGreater(other["id"], seen["id"])
        self.assertFalse(service.good("GET", "/v1/inspections/%d" % other["id"])["learned"])
        os.remove(service.memory + ".db")
        reply = service.ask("POST", "/v1/inspections", picture(0, 902))
        self.assertEqual((reply.status, reply.json()["id"]), (200, None))
        self.assertIn("removed", service.good("GET", "/v1/status")["unkept"])

    def test_thresholds_are_the_memorys(self):
        """Whoever opens the memory goes by the threshold that was set, before it is saved and after."""
        service = self.start_learned()
        image = os.path.join(self.folder, "part.png")
        with open(image, "wb") as file:
            file.write(picture(0, 50))
        score = service.good("POST", "/v1/inspections", picture(0, 50), task="p0")["score"]

        def verdicts():
            ours = service.good("POST", "/v1/inspections", picture(0, 50), task="p0")
            done = self.run_command("inspect", service.memory, image, "--task", "p0", "--json")
            theirs = json.loads(done.stdout)
            self.assertAlmostEqual(ours["threshold"], theirs["threshold"], places=4)
            self.assertEqual(ours["verdict"], theirs["verdict"])
            return ours["verdict"]

        for factor, verdict in [(0.5, "defect"), (2, "good")]:
            service.good("PUT", "/v1/tasks/p0/threshold", {"score": score * factor})
            self.assertEqual(verdicts(), verdict)
        service.kill()
        service = self.start()
        self.assertTrue(service.tasks()["p0"]["threshold"]["manual"])
        self.assertEqual(verdicts(), "good")
        self.assertEqual(service.stop(), 0)
        service = self.start()
        self.assertEqual(verdicts(), "good")
        self.assertIn("by hand", self.run_command("info", service.memory).stdout)
        service.good("PUT", "/v1/tasks/p0/threshold", {})
        self.assertFalse(service.tasks()["p0"]["threshold"]["manual"])
        verdicts()

    def test_thresholds_of_earlier_versions(self):
        service = self.start_learned()
        service.kill()
        with sqlite3.connect(service.memory + ".db") as database:
            database.execute("INSERT INTO setting VALUES('threshold/p0', '{\"score\":3.5}')")
            database.execute("INSERT INTO setting VALUES('threshold/gone', '{\"score\":3.5}')")
            database.execute("INSERT INTO setting VALUES('threshold/p1', '{\"score\":\"much\"}')")
        database.close()
        service = self.start()
        self.assertEqual(service.tasks()["p0"]["threshold"]["score"], 3.5)
        self.assertFalse(service.tasks()["p1"]["threshold"]["manual"])
        self.assertEqual(service.stop(), 0)
        with sqlite3.connect(service.memory + ".db") as database:
            self.assertEqual(database.execute("SELECT key FROM setting").fetchall(), [("threshold/gone",)])
        database.close()

    def test_a_memory_put_back_is_not_overwritten(self):
        service = self.start_learned()
        service.good("POST", "/v1/tasks/p0/images", picture(0, 300))
        with open(service.memory + ".new", "wb") as file:
            file.write(ServiceTest.ready_memory)
        with open(service.memory + ".new", "r+b") as file:  # another memory: any will do
            file.truncate(100)
        os.rename(service.memory + ".new", service.memory)
        self.assertEqual(service.stop(), 3)
        self.assertIn("was not saved", service.words())
        self.assertEqual(os.path.getsize(service.memory), 100)
        self.assertGreater(os.path.getsize(service.memory + ".journal"), 1000)

    def test_others_cannot_read_more_than_the_memory(self):
        service = self.start_learned()
        service.stop()
        os.remove(service.memory + ".db")
        os.remove(service.memory + ".journal")
        os.chmod(service.memory, 0o600)
        again = self.start()
        again.good("POST", "/v1/inspections", picture(0, 1))
        again.good("POST", "/v1/tasks/p0/images", picture(0, 300))
        names = ["", ".journal", ".db", ".db-wal", ".db-shm"]
        self.assertEqual({n: oct(os.stat(again.memory + n).st_mode & 0o777) for n in names}, dict.fromkeys(names, "0o600"))
        self.assertEqual(again.stop(), 0)
        self.assertEqual(os.stat(again.memory).st_mode & 0o777, 0o600)

    def test_killed_whoever_writes(self):
        """A service under several names, offline learning and merging, each killed at any moment."""
        numbers = random.Random(int(os.environ.get("CONTCORE_TEST_SEED", "4")))
        memory = os.path.join(self.folder, "line.ccm")
        link = os.path.join(self.folder, "link.ccm")
        os.symlink("line.ccm", link)
        first = self.start(memory=memory)
        first.good("POST", "/v1/tasks/first/images", picture(0, 0))
        self.assertEqual(first.stop(), 0)
        sure, perhaps = {"first": 1}, {}
        others = []
        for i in range(6):
            folder = os.path.join(self.folder, "images%d" % i)
            os.mkdir(folder)
            for k in range(3):
                with open(os.path.join(folder, "%d.png" % k), "wb") as file:
                    file.write(picture(i % 5, 40 + k))
            other = os.path.join(self.folder, "other%d.ccm" % i)
            done = self.run_command("learn", other, folder, "--task", "other%d" % i, *serving.SMALL)
            self.assertEqual(done.returncode, 0, done.stderr)
            others.append((folder, other))
        for kill in range(KILLS):
            how = numbers.choice(["serve", "serve", "learn", "merge"])
            name = numbers.choice([memory, link])
            if how == "serve":
                self.serve_and_kill(name, kill, numbers, sure, perhaps)
            else:
                self.run_and_kill(how, name, kill, numbers, others, sure, perhaps)
            self.check_counts(memory, kill, sure, perhaps)
        unfinished = [n for n in os.listdir(self.folder) if n.endswith(".tmp")]
        self.assertLessEqual(len(unfinished), 2)  # of the memory and of the journal
        last = self.start(memory=link)
        known = {name: task["images"] for name, task in last.tasks().items()}
        for name, count in sure.items():
            self.assertLessEqual(count, known.get(name, 0), name)
            self.assertLessEqual(known[name], perhaps.get(name, count), name)
        self.assertEqual(last.stop(), 0)
        self.assertEqual([n for n in os.listdir(self.folder) if n.endswith((".tmp", ".lock"))], [])
        if KILLS >= 100:
            print("killed %d times, %d images sure" % (KILLS, sum(sure.values())), file=sys.stderr)

    def serve_and_kill(self, name, kill, numbers, sure, perhaps):
        service = self.start(memory=name)
        killer = threading.Timer(numbers.uniform(0, 0.4) * (10 if SLOW else 1), service.process.kill)
        killer.start()
        sent = 0
        try:
            while True:
                task = "s%d-%d" % (kill, sent // 4)
                perhaps[task] = perhaps.get(task, 0) + 1
                reply = service.ask("POST", "/v1/tasks/%s/images" % task, picture(kill % 5, sent))
                self.assertEqual(reply.status, 201, reply)
                sure[task] = sure.get(task, 0) + 1
                sent += 1
        except (OSError, http.client.HTTPException):
            pass
        killer.join()
        service.wait()

    def run_and_kill(self, how, name, kill, numbers, others, sure, perhaps):
        folder, other = others[kill % len(others)]
        if how == "learn":
            task, more = "l%d" % kill, 3
            words = ["learn", name, folder, "--task", task]
        else:
            task, more = "other%d" % (kill % len(others)), 3
            words = ["merge", name, name, other, "--force"]
        perhaps[task] = max(perhaps.get(task, 0), sure.get(task, 0)) + more
        process = subprocess.Popen([self.command, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            _, said = process.communicate(timeout=numbers.uniform(0.05, 1.5) * (10 if SLOW else 1))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return
        self.assertEqual(process.returncode, 0, said)
        sure[task] = sure.get(task, 0) + more

    def check_counts(self, memory, kill, sure, perhaps):
        done = self.run_command("info", memory, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        known = {task["name"]: task["images"] for task in said["tasks"]}
        # What is in the journal is told of by number; opening takes it up.
        missing = sum(max(0, count - known.get(name, 0)) for name, count in sure.items())
        self.assertLessEqual(missing, said["journal"], "kill %d" % kill)
        for name, count in known.items():
            if name in perhaps:
                self.assertLessEqual(count, perhaps[name], name)
                if said["journal"] == 0:  # what was in flight is in or not; from now on it is known
                    sure[name] = perhaps[name] = count

    def test_a_damaged_journal(self):
        """What a torn write leaves at the end is dropped; the images before it are in."""
        service = self.start_learned()
        for i in range(3):
            service.good("POST", "/v1/tasks/p0/images", picture(0, 600 + i))
        service.kill()
        journal = service.memory + ".journal"
        self.assertGreater(os.path.getsize(journal), 0)
        with open(journal, "ab") as file:
            file.write(b"\x01\x02torn")
        again = self.start()
        p0 = again.tasks()["p0"]
        self.assertEqual(p0["images"], 23)
        again.good("POST", "/v1/tasks/p0/images", picture(0, 700))
        again.kill()
        third = self.start()
        p0 = third.tasks()["p0"]
        self.assertEqual(p0["images"], 24)


class SmallDisk:
    """A disk of its own; needs the right to mount one."""

    def __init__(self, folder):
        self.folder = os.path.join(folder, "disk")
        os.mkdir(self.folder)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8M", "tmpfs", self.folder], capture_output=True)
        self.mounted = done.returncode == 0
        self.filler = os.path.join(self.folder, "filler")

    def fill(self, _):
        """Takes what room there is; a log that is folded in gives some back, so once is not enough."""
        with open(self.filler, "ab", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                pass

    def free(self, _):
        os.remove(self.filler)

    def unmount(self):
        if self.mounted:
            subprocess.run(["umount", self.folder], capture_output=True)


class FailingDisk:
    """A disk that takes nothing, for one process alone: any user may say so."""

    def __init__(self, folder):
        self.folder = folder
        self.before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self, service):
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (0, self.before[1]))

    def free(self, service):
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, self.before)


class DiskTest(ServiceTest):
    def test_full_disk(self):
        disk = SmallDisk(self.folder)
        self.addCleanup(disk.unmount)
        if not disk.mounted:
            self.skipTest("a small disk cannot be mounted; run it as root")
        self.survive(disk)

    def test_failing_disk(self):
        # What writes nevertheless gets an error, and not the signal that would end it: Python ignores that one,
        # and so does what it starts.
        self.survive(FailingDisk(self.folder), restore_signals=False)

    def until(self, disk, service, status, *request):
        """Asks on a full disk until this is answered; all answers. What is folded in or given up may make a
        little room, so that some may yet be taken."""
        replies = []
        for _ in range(400):
            disk.fill(service)
            replies.append(service.ask(*request))
            if replies[-1].status == status:
                return replies
        self.fail("never %d: %s" % (status, replies[-1]))

    def survive(self, disk, **how):
        memory = os.path.join(disk.folder, "line.ccm")
        self.addCleanup(NetworkCamera.turn().close)
        camera = NetworkCamera()
        self.addCleanup(camera.kill)
        service = self.start("--camera", "127.0.0.1,station=press 4,trigger=software", memory=memory, **how)
        service.learn_job("a", [picture(0, i) for i in range(20)])
        end = time.monotonic() + serving.PATIENCE
        while not service.good("GET", "/v1/status")["cameras"][0]["up"]:
            self.assertLess(time.monotonic(), end, service.words())
        known = service.good("POST", "/v1/inspections", picture(0, 50))
        # What a person said is on disk, and so is what it was said about.
        service.good("POST", "/v1/inspections/%d/feedback" % known["id"], {"label": "defect"})
        learned = len(self.until(disk, service, 503, "POST", "/v1/tasks/a/images", picture(0, 100))) - 1
        status = service.good("GET", "/v1/status")
        self.assertEqual(status["learning"]["state"], "stopped")
        self.assertTrue(status["learning"]["reason"])
        feedback = "/v1/inspections/%d/feedback" % known["id"]
        replies = self.until(disk, service, 503, "POST", feedback, {"label": "defect"})
        self.assertIsNotNone(replies[-1].headers.get("Retry-After"))
        limit = service.tasks()["a"]["threshold"]
        for reply in self.until(disk, service, 503, "PUT", "/v1/tasks/a/threshold", {"score": 99})[:-1]:
            limit = reply.json()["threshold"]
        with self.subTest("a threshold that was refused is as it was"):
            self.assertEqual(service.tasks()["a"]["threshold"], limit)
        self.until(disk, service, 503, "PUT", "/v1/stations/b", {"task": "a"})
        kept = self.inspect_unkept(disk, service, known)
        frames = self.until(disk, service, 200, "POST", "/v1/stations/press%204/trigger")
        self.assertEqual({reply.status for reply in frames[:-1]} - {201, 503}, set())  # half a frame may come
        self.assertIsNone(frames[-1].json()["id"])
        kept += [reply.json()["id"] for reply in frames[:-1] if reply.status == 201]
        self.assertEqual(service.get("/health").status, 200)
        task = service.tasks()["a"]
        self.assertEqual(task["images"], 20 + learned)
        disk.free(service)
        later = service.ask("POST", "/v1/inspections", picture(0, 50))
        self.assertEqual(later.status, 201, later)
        self.assertEqual(service.good("GET", "/v1/status")["unkept"], "")
        later = later.json()
        with self.subTest("no id is given twice"):
            self.assertGreater(later["id"], max(kept))
        end = time.monotonic() + 4 * serving.PATIENCE
        while time.monotonic() < end:
            reply = service.ask("POST", "/v1/tasks/a/images", picture(0, 999))
            if reply.status == 201:
                break
            time.sleep(0.1)
        self.assertEqual(reply.status, 201, reply)
        self.assertNotEqual(service.good("GET", "/v1/status")["learning"]["state"], "stopped")
        said = service.good("POST", "/v1/inspections/%d/feedback" % later["id"], {"label": "good", "confirm": True})
        self.assertTrue(said["learned"])
        self.assertEqual(service.good("GET", "/v1/inspections/%d" % known["id"])["feedback"], "defect")
        self.assertEqual(service.stop(), 0)
        again = self.start(memory=memory)
        task = again.tasks()["a"]
        self.assertEqual(task["images"], 22 + learned)
        again.kill()

    def inspect_unkept(self, disk, service, known):
        """The verdict comes all the same. Who is told that it is kept finds it; once the disk has failed, that holds
        for good. The ids that were given."""
        image = png(numpy.random.RandomState(1).randint(0, 256, (256, 256, 3)))
        ids = [known["id"]]
        ids += [one.json()["id"] for one in self.until(disk, service, 200, "POST", "/v1/inspections", image)[:-1]]
        unkept = 0
        for _ in range(400):
            disk.fill(service)
            reply = service.ask("POST", "/v1/inspections", picture(0, 50))
            said = reply.json()
            self.assertEqual((said["task"], said["width"]), ("a", SIDE))
            self.assertIn(said["verdict"], ("good", "defect"))
            if reply.status == 201:
                ids.append(said["id"])
                self.assertEqual(service.good("GET", reply.headers.get("Location")), said)
                continue
            self.assertEqual((reply.status, said["id"], said["has_image"]), (200, None, False))
            self.assertIsNone(reply.headers.get("Location"))
            unkept += 1
            if unkept == 10:
                break
        self.assertEqual(unkept, 10)
        self.assertTrue(service.good("GET", "/v1/status")["unkept"])
        counted = re.search(r"contcore_unkept_inspections_total (\d+)", service.get("/metrics").body.decode())
        self.assertGreaterEqual(int(counted[1]), 11)
        with self.subTest("the command shows the verdict and says that it is not kept"):
            file = os.path.join(self.folder, "part.png")
            with open(file, "wb") as to:
                to.write(picture(0, 50))
            for _ in range(400):
                disk.fill(service)
                done = self.run_command("inspect", "--server", service.url, file)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stdout, r"\A(good|defect) ")
                if "not kept" in done.stderr:
                    break
            self.assertIn("not kept", done.stderr)
        with self.subTest("each inspection has its own id"):
            self.assertEqual(len(set(ids)), len(ids))
        return ids


# ---- a folder to watch, and the command as a client


class WatchTest(ServiceTest):
    def test_files_that_appear(self):
        watched = os.path.join(self.folder, "camera")
        os.mkdir(watched)
        service = self.start_learned("--watch", watched)

        def put(name, data, whole=True):
            path = os.path.join(watched, name)
            with open(path, "wb") as file:
                if whole:
                    file.write(data)
                else:
                    for at in range(0, len(data), len(data) // 4 + 1):
                        file.write(data[at : at + len(data) // 4 + 1])
                        file.flush()
                        time.sleep(0.05)
            return path

        put("plain.png", picture(0, 1))
        put("slow.png", picture(0, 2), whole=False)
        os.rename(put("moved.png.part", picture(0, 3)), os.path.join(watched, "moved.png"))
        outside = os.path.join(self.folder, "outside.ppm")
        with open(outside, "wb") as file:
            file.write(serving.ppm(product(1, 4, True)))
        os.rename(outside, os.path.join(watched, "bad ünit's.ppm"))
        put("notes.txt", b"not an image")
        put("broken.png", JUNK)
        put(".hidden.png", picture(0, 5))
        put("empty.png", b"")
        os.mkdir(os.path.join(watched, "folder.png"))
        os.symlink("/nowhere", os.path.join(watched, "link.png"))
        right = {"plain.png", "slow.png", "moved.png", "bad ünit's.ppm"}
        end = time.monotonic() + serving.PATIENCE
        while time.monotonic() < end:
            seen = service.good("GET", "/v1/inspections")["inspections"]
            if {o["source"] for o in seen} >= right:
                break
            time.sleep(0.05)
        time.sleep(0.3)
        seen = service.good("GET", "/v1/inspections")["inspections"]
        self.assertEqual(sorted(o["source"] for o in seen), sorted(right))
        by_name = {o["source"]: o for o in seen}
        bad = by_name["bad ünit's.ppm"]
        self.assertEqual(bad["task"], "p1")
        self.assertNotEqual(bad["verdict"], "good")
        direct = service.good("POST", "/v1/inspections", picture(0, 1))
        self.assertEqual(by_name["plain.png"]["score"], direct["score"])
        self.assertTrue(os.path.exists(os.path.join(watched, "plain.png")))
        put("later.png", picture(1, 6))
        later = []
        end = time.monotonic() + serving.PATIENCE
        while not later and time.monotonic() < end:
            time.sleep(0.05)
            later = service.good("GET", "/v1/inspections", source="later.png")["inspections"]
        self.assertEqual(len(later), 1)
        self.assertEqual(service.stop(), 0)

    def sources(self, service, right):
        """Where the inspections came from, once there are as many as there should be."""
        end = time.monotonic() + 4 * serving.PATIENCE
        while True:
            seen = service.good("GET", "/v1/inspections", limit=500)["inspections"]
            if len(seen) >= right or time.monotonic() > end:
                return sorted(o["source"] for o in seen)
            time.sleep(0.05)

    def metric(self, service, line):
        """Waits until a line is among the metrics."""
        end, text = time.monotonic() + 4 * serving.PATIENCE, ""
        while time.monotonic() < end:
            text = service.get("/metrics").body.decode()
            if line in text.splitlines():
                return
            time.sleep(0.05)
        self.fail("no %r in\n%s" % (line, text))

    def put(self, name, data):
        with open(os.path.join(self.folder, "camera", name), "wb") as file:
            file.write(data)

    def test_verdicts_come_in_the_order_of_the_files(self):
        os.mkdir(os.path.join(self.folder, "camera"))
        service = self.start_learned("--watch", os.path.join(self.folder, "camera"))
        large = png(numpy.kron(product(0, 1), numpy.ones((30, 30, 1))))
        names = []
        for i in range(5):
            for kind, data in [("large", large), ("broken", JUNK), ("small", picture(0, i))]:
                self.put("%d %s.png" % (i, kind), data)
                names += [] if data == JUNK else ["%d %s.png" % (i, kind)]
        end = time.monotonic() + serving.PATIENCE
        while len(service.good("GET", "/v1/inspections")["inspections"]) < len(names):
            self.assertLess(time.monotonic(), end, service.words())
            time.sleep(0.05)
        rows = service.good("GET", "/v1/inspections")["inspections"]
        self.assertEqual([row["source"] for row in reversed(rows)], names)
        times = [row["time"] for row in reversed(rows)]
        self.assertEqual(times, sorted(times))
        with self.subTest("files without a verdict are told of"):
            warnings = " ".join(service.good("GET", "/v1/status")["warnings"])
            self.assertRegex(warnings, r"5 files of the watched folder could not be read and have no verdict, the last: .*broken\.png")
        self.assertEqual(service.stop(), 0)

    def test_nothing_is_missed_over_restarts(self):
        os.mkdir(os.path.join(self.folder, "camera"))
        watch = ["--watch", os.path.join(self.folder, "camera"), "--queue", "1", "--threads", "1"]
        names = []

        def put(n):
            for _ in range(n):
                names.append("%03d.png" % len(names))
                self.put(names[-1], picture(0, len(names)))

        put(20)
        self.put("broken.png", JUNK)
        service = self.start_learned(*watch)
        put(60)  # while the queue is full
        self.assertEqual(self.sources(service, 80), names)
        self.metric(service, 'contcore_watch_files_total{result="unreadable"} 1')
        self.metric(service, "contcore_watch_waiting 0")
        self.metric(service, "contcore_watch_up 1")
        self.assertIn("broken.png", service.words())
        self.assertEqual(service.stop(), 0)
        put(10)
        service = self.start_learned(*watch)
        self.metric(service, 'contcore_watch_files_total{result="inspected"} 10')
        put(1)
        self.assertEqual(self.sources(service, 91), names)
        # What was not said to be seen when it was killed is seen again, and nothing is missed.
        put(20)
        service.kill()
        put(5)
        service = self.start_learned(*watch)
        put(1)
        self.metric(service, "contcore_watch_waiting 0")
        self.assertEqual(sorted(set(self.sources(service, 117))), names)
        self.assertEqual(service.stop(), 0)

    def test_an_empty_memory_lets_them_wait(self):
        os.mkdir(os.path.join(self.folder, "camera"))
        service = self.start("--watch", os.path.join(self.folder, "camera"))
        self.put("part.png", picture(0, 1))
        self.metric(service, "contcore_watch_waiting 1")
        self.assertEqual(self.sources(service, 0), [])
        self.assertEqual(service.learn_job("p0", [picture(0, 10 + i) for i in range(10)])["state"], "done")
        self.assertEqual(self.sources(service, 1), ["part.png"])
        self.assertIn("the memory is empty", service.words())
        self.assertEqual(service.stop(), 0)

    def test_a_folder_that_goes(self):
        camera = os.path.join(self.folder, "camera")
        os.mkdir(camera)
        service = self.start_learned("--watch", camera)
        self.metric(service, "contcore_watch_up 1")
        os.rename(camera, camera + ".old")
        self.metric(service, "contcore_watch_up 0")
        self.assertIn("the folder is gone", service.words())
        os.mkdir(camera)
        self.put("part.png", picture(0, 1))
        self.assertEqual(self.sources(service, 1), ["part.png"])
        self.metric(service, "contcore_watch_up 1")
        self.assertEqual(service.stop(), 0)


class ClientTest(ServiceTest):
    def folder_of(self, name, style, first, count, defect=False):
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        for i in range(count):
            with open(os.path.join(folder, "%02d.png" % i), "wb") as file:
                file.write(picture(style, first + i, defect))
        return folder

    def test_inspect(self):
        service = self.start_learned()
        good = self.folder_of("good", 0, 100, 4)
        bad = self.folder_of("bad", 1, 100, 4, True)
        junk = os.path.join(self.folder, "junk.png")
        with open(junk, "wb") as file:
            file.write(JUNK)
        remote = self.run_command("inspect", "--server", service.url, good, bad, "--json")
        self.assertEqual(remote.returncode, 0, remote.stderr)
        text = self.run_command("inspect", "--server", service.url, good, bad)
        named = self.run_command("inspect", "--server", service.url, bad, "--task", "p1", "--json")
        broken = self.run_command("inspect", "--server", service.url, good, junk, "--json")
        self.assertEqual(broken.returncode, 3, broken.stderr)
        self.assertEqual(len(broken.stdout.splitlines()), 5)
        self.assertEqual(service.stop(), 0)
        here = self.run_command("inspect", service.memory, good, bad, "--json")
        self.assertEqual(here.returncode, 0, here.stderr)
        there = [json.loads(line) for line in remote.stdout.splitlines()]
        local = [json.loads(line) for line in here.stdout.splitlines()]
        self.assertEqual(len(there), 8)
        for a, b in zip(there, local):
            # An inspection of the service does not say where the peak is, nor the rate.
            self.assertEqual(set(a) | {"peak", "false_alarms"}, set(b))
            for name in set(a) - {"seconds"}:
                self.assertEqual(a[name], b[name], name)
        self.assertEqual(text.stdout, self.run_command("inspect", service.memory, good, bad).stdout)
        self.assertEqual([json.loads(line)["task"] for line in named.stdout.splitlines()], ["p1"] * 4)
        gone = self.run_command("inspect", "--server", service.url, good)
        self.assertNotEqual(gone.returncode, 0)
        self.assertIn("%d" % service.port, gone.stderr)

    def test_learn(self):
        service = self.start(env={"CONTCORE_TOKENS": TOKEN_TEXT})
        images = self.folder_of("images", 0, 0, 20)
        more = self.folder_of("more", 0, 100, 5)
        junk = os.path.join(more, "zz.png")
        with open(junk, "wb") as file:
            file.write(JUNK)
        command = ["learn", "--server", service.url, images, "--task", "p0", "--json"]
        self.assertNotEqual(self.run_command(*command).returncode, 0)
        self.assertNotEqual(self.run_command(*command, env={"CONTCORE_TOKEN": TOKENS["inspect"]}).returncode, 0)
        remote = self.run_command(*command, env={"CONTCORE_TOKEN": TOKENS["learn"]})
        self.assertEqual(remote.returncode, 0, remote.stderr)
        there = json.loads(remote.stdout)
        service.token = TOKENS["inspect"]
        self.assertEqual(service.tasks()["p0"]["images"], there["learned"])
        online = self.run_command("learn", "--server", service.url, more, "--task", "p0", "--online", "--json",
                                  env={"CONTCORE_TOKEN": TOKENS["learn"]})  # fmt: skip
        self.assertEqual(online.returncode, 0, online.stderr)
        self.assertEqual([skipped["file"] for skipped in json.loads(online.stdout)["skipped"]], [junk])
        task = service.tasks()["p0"]
        self.assertEqual(task["images"], 25)
        self.assertEqual(service.stop(), 0)
        other = os.path.join(self.folder, "other.ccm")
        here = self.run_command("learn", other, images, "--task", "p0", "--json", *serving.SMALL)
        local = json.loads(here.stdout)
        # Only what learned knows what it took.
        own = {"extract_seconds", "sample_seconds", "features_on_disk", "peak_memory"}
        self.assertEqual(set(there) | own, set(local))
        for name in ["task", "learned", "calibrated", "patches", "vectors", "capacity", "certificate", "skipped"]:
            self.assertEqual(there[name], local[name], name)


# ---- what is said in the documentation, and to Prometheus


class SaidTest(ServiceTest):
    def test_every_curl_command_works_as_written(self):
        with open(os.path.join(serving.HERE, "..", "..", "docs", "serving.md")) as file:
            commands = [line.strip() for line in file if line.startswith("    curl ")]
        self.assertTrue(commands)
        if shutil.which("curl") is None:
            print("NOT TESTED: there is no curl, so the commands of docs/serving.md were not run", file=sys.stderr)
            self.skipTest("there is no curl")
        service = self.start_learned()
        with open(os.path.join(self.folder, "part.png"), "wb") as file:
            file.write(picture(0, 3))
        for command in commands:
            self.assertIn("http://127.0.0.1:8080", command)
            done = subprocess.run(
                [*shlex.split(command.replace("http://127.0.0.1:8080", service.url)), "--silent", "--fail-with-body"],
                cwd=self.folder, capture_output=True, text=True, timeout=60,
            )  # fmt: skip
            self.assertEqual(done.returncode, 0, (command, done.stdout, done.stderr))
            self.assertEqual(json.loads(done.stdout)["task"], "p0", command)
        # A page of another site can send the same without asking first: it is known by its Origin.
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        for path in ["/v1/inspections", "/v1/tasks/p0/images"]:
            stranger = service.ask("POST", path, picture(0, 3), headers={**kind, "Origin": "http://evil.example"})
            self.assertEqual(stranger.status, 403, stranger)
            form = service.ask("POST", path, b"image=1&x=%89PNG", headers=kind)
            self.assertEqual(form.status, 422, form)
        self.assertEqual(service.good("GET", "/v1/status")["inspections"], len(commands))
        self.assertEqual(service.tasks()["p0"]["images"], service.tasks()["p1"]["images"])
        self.assertEqual(service.stop(), 0)

    def test_metrics_of_many_tasks(self):
        service = self.start("--backbone", "builtin", "--resize", "64", "--capacity", "1000", small=False)
        for i in range(205):
            service.good("POST", "/v1/tasks/t%03d/images" % i, picture(0, 0))
        lines = service.get("/metrics").body.decode().splitlines()
        for kind in ["vectors", "certificate", "drift"]:
            of = [line for line in lines if line.startswith("contcore_task_%s{" % kind)]
            self.assertEqual(len(of), 200)
            self.assertFalse([line for line in of if "other" in line])
        self.assertIn("contcore_tasks 205", lines)
        self.assertIn("contcore_tasks_left_out 5", lines)
        names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(service.stop(), 0)


# ---- the document again


class CoverageTest(unittest.TestCase):
    maxDiff = None
    missing = set()  # what could not be tried on this machine

    def test_everything_in_the_document_happens(self):
        documented = {
            (method, template, int(status))
            for method, template, operation in BOOK.operations()
            for status in operation["responses"]
        }
        self.assertEqual(["%s %s %d" % one for one in sorted(documented - SEEN - self.missing)], [])
        self.assertEqual(sorted(SEEN - documented), [])


def load_tests(loader, _, __):
    classes = [DocumentTest, StoryTest, StationTest, AccessTest, HostileTest, CrowdTest, SnapshotTest, DurabilityTest, DiskTest,
               LessonsServiceTest, RegionsServiceTest, StatisticsServiceTest, CameraServiceTest, WatchTest, ClientTest, SaidTest,
               CoverageTest]  # fmt: skip
    return unittest.TestSuite(loader.loadTestsFromTestCase(one) for one in classes)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    ServiceTest.command = os.path.abspath(sys.argv.pop(1))
    os.environ.pop("CONTCORE_TOKEN", None)
    os.environ.pop("CONTCORE_TOKENS", None)
    loud.main()
