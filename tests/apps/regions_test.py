"""Regions of interest, by command and service.  Usage: regions_test.py PATH_TO_CONTCORE"""

import hashlib
import json
import os
import struct
import sys

import numpy

import loud
import serving
from lessons_test import Lessons, content
from serving import SIDE, SMALL, ServiceTest, png, product

DRAWN = {"width": SIDE, "height": SIDE, "polygons": [[[12, 8], [52, 8], [52, 48], [12, 48]]]}
INSIDE = numpy.zeros((SIDE, SIDE), bool)
INSIDE[8:48, 12:52] = True


def part(style, index, scene, defect=False):
    """A part in the region, before something that is never the same."""
    pixels = product(style, index, defect)
    numbers = numpy.random.RandomState(77 * scene + index)
    return numpy.where(INSIDE[:, :, None], pixels, numbers.randint(0, 256, pixels.shape)).astype(numpy.uint8)


class Regions(Lessons):
    def scenes(self, name, scene, first=0, count=12, style=0, **more):
        folder = self.path(name)
        os.mkdir(folder)
        for i in range(first, first + count):
            with open(os.path.join(folder, "%03d.png" % i), "wb") as file:
                file.write(png(part(style, i, scene, **more)))
        return folder

    def write(self, name, content_):
        with open(self.path(name), "wb") as file:
            file.write(content_ if isinstance(content_, bytes) else json.dumps(content_).encode())
        return self.path(name)


class RegionsCommandTest(Regions):
    def test_what_lies_outside_changes_nothing(self):
        region = self.write("region.json", DRAWN)
        lines = []
        for scene in (1, 2):
            memory = self.path("line%d.ccm" % scene)
            learned = self.scenes("good%d" % scene, scene)
            self.run_well("learn", memory, learned, "--task", "part", "--ratio", "0.1",
                          "--region", region, *SMALL)  # fmt: skip
            self.run_well("learn", memory, self.scenes("more%d" % scene, scene, 30, 3), "--task", "part", "--online")
            seen = self.scenes("seen%d" % scene, 7 * scene, 50, 3)
            seen_bad = self.scenes("bad%d" % scene, 7 * scene, 60, 3, defect=True)
            maps = self.path("maps%d" % scene)
            done = self.run_well("inspect", memory, seen, seen_bad, "--task", "part", "--json", "--maps", maps)
            said = [json.loads(line) for line in done.stdout.splitlines()]
            for one in said:
                del one["file"], one["seconds"]
            lines.append(said)
            for folder, _, files in os.walk(maps):
                for file in files:
                    shown = numpy.load(os.path.join(folder, file))
                    self.assertEqual(shown[~INSIDE].max(), 0)
                    self.assertGreater(shown[INSIDE].max(), 0)
            for one in said[3:]:
                self.assertEqual(one["verdict"], "defect")
        self.assertEqual(lines[0], lines[1])
        self.assertEqual(content(self.path("line1.ccm"))[1:], content(self.path("line2.ccm"))[1:])
        info = json.loads(self.run_well("info", self.path("line1.ccm"), "--json").stdout)
        self.assertEqual(info["tasks"][0]["region"], DRAWN)
        self.assertIn("nothing else is looked at", self.run_well("info", self.path("line1.ccm")).stdout)

    def test_a_mask_is_the_same(self):
        mask = self.write("mask.png", png(numpy.repeat(INSIDE[:, :, None] * 255, 3, axis=2)))
        good = self.scenes("good", 1)
        for name, region in [("a", mask), ("b", self.write("region.json", DRAWN))]:
            self.run_well("learn", self.path(name + ".ccm"), good, "--task", "part", "--region", region, *SMALL)
        a, b = content(self.path("a.ccm")), content(self.path("b.ccm"))
        self.assertEqual(a[2], b[2])
        self.assertNotEqual(a[1], b[1])  # each is kept as it was given
        # Of images twice as large it is twice as large.
        large = numpy.repeat(numpy.repeat(part(0, 0, 3), 2, 0), 2, 1)
        self.run_well("inspect", self.path("a.ccm"), self.write("large.png", png(large)), "--task", "part")
        wide = self.write("wide.png", png(large[:SIDE]))
        done = self.run_command("inspect", self.path("a.ccm"), wide, "--task", "part")
        self.assertEqual(done.returncode, 3)
        self.assertIn("same shape", done.stdout)

    def test_a_task_keeps_its_region(self):
        memory, good = self.path("line.ccm"), self.scenes("good", 1)
        region = self.write("region.json", DRAWN)
        other = self.write("other.json", {**DRAWN, "polygons": [[[1, 1], [30, 1], [1, 30]]]})
        self.run_well("learn", memory, good, "--task", "whole", *SMALL)
        self.run_well("learn", memory, good, "--task", "part", "--region", region)
        with open(memory, "rb") as file:
            before = file.read()
        self.fails(3, "forget the task and learn it again", "learn", memory, good, "--task", "part", "--region", other)
        self.fails(3, "without a region", "learn", memory, good, "--task", "whole", "--region", region)
        self.fails(2, "--region is of good images", "learn", memory, good, "--task", "part", "--defects", "--region", region)
        with open(memory, "rb") as file:
            self.assertEqual(file.read(), before)
        self.run_well("learn", memory, good, "--task", "part", "--region", region)
        self.run_well("forget", memory, "--task", "part")
        self.run_well("learn", memory, good, "--task", "part", "--region", other)

    def test_what_is_no_region(self):
        good = self.scenes("good", 1, count=3)
        bad = {
            "nothing.json": (b"", "nothing.json"),
            "text.json": (b"{7", "a region is"),
            "deep.json": (b'{"width":' + b"[" * 100000, "a region is"),
            "nan.json": (b'{"width":64,"height":64,"polygons":[[[NaN,1],[9,9],[9,1]]]}', "a region is"),
            "far.json": ({**DRAWN, "polygons": [[[100, 100], [200, 100], [100, 200]]]}, "no pixel"),
            "line.json": ({**DRAWN, "polygons": [[[1, 1], [50, 50], [25, 25]]]}, "no pixel"),
            "many.json": ({**DRAWN, "polygons": [[[i % 60, i % 59] for i in range(1000000)]]}, "at most 1000"),
            "black.png": (png(numpy.zeros((SIDE, SIDE, 3))), "no pixel"),
            "white.png": (png(numpy.full((SIDE, SIDE, 3), 255)), "whole image"),
            "ragged.png": (png(numpy.random.RandomState(1).randint(0, 2, (400, 400, 1)) * [1, 1, 1]), "too ragged"),
            "lossy.jpg": (b"\xff\xd8\xff\xe0" + b"x" * 100, "without loss"),
            "cut.png": (png(numpy.zeros((SIDE, SIDE, 3)))[:60], "cut.png"),
        }
        for name, (what, words) in bad.items():
            self.fails(3, words, "learn", self.path("line.ccm"), good, "--task", "part",
                       "--region", self.write(name, what), *SMALL)  # fmt: skip
        self.fails(3, "none.json", "learn", self.path("line.ccm"), good, "--task", "part", "--region",
                   self.path("none.json"), *SMALL)  # fmt: skip
        self.assertFalse(os.path.exists(self.path("line.ccm")))
        # The same in a memory's file, with the right checksum.
        self.run_well("learn", self.path("line.ccm"), good, "--task", "part", "--region", self.write("region.json", DRAWN), *SMALL)
        deep = "[" * 1000000 + "]" * 1000000
        self.with_region(self.path("line.ccm"), self.path("deep.ccm"), deep)
        self.fails(4, "deep.ccm", "info", self.path("deep.ccm"))
        os.remove(self.path("line.ccm"))
        wide = self.write("wide.json", {**DRAWN, "width": 128})
        self.fails(3, "same shape", "learn", self.path("line.ccm"), good, "--task", "part", "--region", wide, *SMALL)


    def with_region(self, source, target, region):
        """A copy of a memory with another region, and the right checksum."""
        with open(source, "rb") as file:
            whole = file.read()
        length = struct.unpack("<Q", whole[:8])[0]
        header = json.loads(whole[8 : 8 + length])
        tasks = json.loads(header["__metadata__"]["tasks"])
        tasks[0]["region"] = "HERE"
        header["__metadata__"]["tasks"] = json.dumps(tasks).replace('"HERE"', region)
        header["__metadata__"]["sha256"] = "0" * 64
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        text += b" " * (-len(text) % 8)
        content_ = struct.pack("<Q", len(text)) + text + whole[8 + length :]
        digest = hashlib.sha256(content_).hexdigest().encode()
        with open(target, "wb") as file:
            file.write(content_.replace(b'"sha256":"' + b"0" * 64, b'"sha256":"' + digest, 1))

    def test_a_region_in_a_file_is_read_again(self):
        good = self.scenes("good", 1, count=3)
        self.run_well("learn", self.path("line.ccm"), good, "--task", "part", "--region", self.write("region.json", DRAWN), *SMALL)
        self.with_region(self.path("line.ccm"), self.path("same.ccm"), json.dumps(DRAWN))
        said = json.loads(self.run_well("info", self.path("same.ccm"), "--json").stdout)
        self.assertEqual(said["tasks"][0]["region"], DRAWN)

    def test_an_image_too_small_for_a_region_is_seen_without(self):
        good = self.scenes("good", 1, count=12)
        dot = {**DRAWN, "polygons": [[[30, 30], [31, 30], [31, 31], [30, 31]]]}
        for tasks in (["dot", "whole"], ["whole", "dot"]):
            memory = self.path(tasks[0] + ".ccm")
            for task in tasks:
                how = ["--region", self.write("dot.json", dot)] if task == "dot" else []
                self.run_well("learn", memory, good, "--task", task, *how, *SMALL)
            small = self.write("small.png", png(part(0, 1, 1)[::2, ::2]))
            said = json.loads(self.run_well("inspect", memory, small, "--json").stdout)
            self.assertEqual(said["task"], "whole")
            self.assertEqual(self.run_command("inspect", memory, small, "--task", "dot").returncode, 3)


class RegionsServiceTest(Regions):
    def learn(self, service, scene, **more):
        job = service.good("POST", "/v1/jobs", {"task": "part", **more})["id"]
        for i in range(40):
            service.good("POST", "/v1/jobs/%s/images" % job, png(part(0, i, scene)))
        service.good("POST", "/v1/jobs/%s/review" % job)
        self.assertEqual(service.follow(job)["state"], "questions")
        service.good("POST", "/v1/jobs/%s/start" % job)
        self.assertEqual(service.follow(job)["state"], "done")

    def test_a_task_is_seen_through_its_region(self):
        service = self.start()
        self.learn(service, 1, region=DRAWN)
        self.learn(service, 2)  # the same task goes on with it
        self.assertEqual(service.tasks()["part"]["region"], DRAWN)
        service.good("POST", "/v1/tasks/part/images", png(part(0, 40, 5)))
        seen = []
        for scene in (8, 9):
            for defect in (False, True):
                said = service.good("POST", "/v1/inspections", png(part(0, 50, scene, defect)), task="part")
                seen.append({k: said[k] for k in ("task", "score", "threshold", "verdict", "reason", "regions")})
                path = "/v1/inspections/%d" % said["id"]
                heat = serving.read_png(service.get(path + "/map").body)
                outline = serving.read_png(service.get(path + "/outline").body)
                self.assertEqual(heat[~INSIDE][:, 3].max(), 0)
                self.assertEqual(bool(heat[:, :, 3].any()), defect)
                self.assertEqual(bool(outline[:, :, 3].any()), defect)
                edge = serving.read_png(service.get(path + "/region").body)
                self.assertTrue(edge[8:48, 12:52, 3].any())
                self.assertFalse(edge[14:42, 18:46, 3].any())
                self.assertFalse(edge[:2, :, 3].any())
        self.assertEqual(seen[:2], seen[2:])
        self.assertEqual([one["verdict"] for one in seen[:2]], ["good", "defect"])
        # Feedback of both kinds goes by it, and what the journal has is taken up through it.
        blot = part(0, 51, 3)
        blot[24:32, 28:36] = numpy.random.RandomState(5).randint(0, 2, (8, 8, 3)) * 255
        bad = service.good("POST", "/v1/inspections", png(blot), task="part")
        box = {"x": 28, "y": 24, "width": 8, "height": 8}
        service.good("POST", "/v1/inspections/%d/feedback" % bad["id"], {"label": "defect", "region": box})
        beyond = {"x": 55, "y": 55, "width": 8, "height": 8}
        self.assertEqual(
            service.ask("POST", "/v1/inspections/%d/feedback" % bad["id"], {"label": "defect", "region": beyond}).status,
            409,
        )
        good = service.good("POST", "/v1/inspections", png(part(0, 52, 3)))
        service.good("POST", "/v1/inspections/%d/feedback" % good["id"], {"label": "good", "confirm": True})
        service.good("PUT", "/v1/tasks/part", {"name": "cast"})
        service.good("POST", "/v1/tasks/cast/images", png(part(0, 53, 4)))
        before = [service.good("POST", "/v1/inspections", png(part(0, i, i)))["score"] for i in range(60, 64)]
        service.kill()
        again = self.start()
        after = [again.good("POST", "/v1/inspections", png(part(0, i, 3 * i)))["score"] for i in range(60, 64)]
        self.assertEqual(before, after)
        self.assertEqual(again.tasks()["cast"]["region"], DRAWN)
        self.assertEqual(again.stop(), 0)

    def test_what_is_refused(self):
        service = self.start_learned()
        for region in [7, [], {}, {**DRAWN, "polygons": []}, {**DRAWN, "polygons": [[[1, 1], [2, 2]]]},
                       {**DRAWN, "polygons": [[[100, 100], [200, 100], [100, 200]]]},
                       {**DRAWN, "width": 1e300}, {**DRAWN, "polygons": [[[i, 3] for i in range(2000)]]}]:  # fmt: skip
            self.assertEqual(service.ask("POST", "/v1/jobs", {"task": "part", "region": region}).status, 400)
        nested = b"[" * 500000 + b"]" * 500000
        deep = service.ask("POST", "/v1/jobs", b'{"task":"part","region":' + nested + b"}")
        self.assertEqual(deep.status, 400)
        one = service.good("POST", "/v1/jobs", {"task": "part"})["id"]
        service.good("POST", "/v1/jobs/%s/images" % one, png(part(0, 1, 1)))
        without = b'{"without":[' + b"[" * 120000 + b"]" * 120000 + b"]}"
        self.assertEqual(service.ask("POST", "/v1/jobs/%s/start" % one, without).status, 400)
        self.assertEqual(service.ask("DELETE", "/v1/jobs/%s" % one).status, 200)
        refused = service.ask("POST", "/v1/jobs", {"task": "p0", "region": DRAWN})
        self.assertEqual(refused.status, 400)
        self.assertIn("without a region", refused.json()["detail"])
        job = service.good("POST", "/v1/jobs", {"task": "part", "region": DRAWN})["id"]
        wide = service.ask("POST", "/v1/jobs/%s/images" % job, png(product(0, 1)[:20]))
        self.assertEqual(wide.status, 422)
        self.assertIn("same shape", wide.json()["detail"])
        whole = service.good("POST", "/v1/inspections", png(product(0, 1)), task="p0")
        self.assertEqual(service.get("/v1/inspections/%d/region" % whole["id"]).status, 404)
        # Two people begin the same new task, each with a region of his own: the second to end is refused.
        one = [service.good("POST", "/v1/jobs", {"task": "part", "region": DRAWN})["id"],
               service.good("POST", "/v1/jobs", {"task": "part"})["id"]]  # fmt: skip
        for ident, state in zip(one, ["done", "failed"]):
            for i in range(3):
                service.good("POST", "/v1/jobs/%s/images" % ident, png(part(0, i, 1)))
            service.good("POST", "/v1/jobs/%s/start" % ident)
            said = service.follow(ident)
            self.assertEqual(said["state"], state)
        self.assertIn("another region", said["error"])
        self.assertEqual(service.stop(), 0)

    def test_learned_from_the_command(self):
        service = self.start()
        region = self.write("region.json", DRAWN)
        self.run_well("learn", "--server", service.url, self.scenes("good", 1), "--task", "part", "--region", region)
        self.assertEqual(service.tasks()["part"]["region"], DRAWN)
        self.fails(2, "leave out --online", "learn", "--server", service.url, self.path("good"), "--task", "x",
                   "--region", region, "--online")  # fmt: skip
        self.assertEqual(service.stop(), 0)


if __name__ == "__main__":
    ServiceTest.command = os.path.abspath(sys.argv.pop(1))
    loud.main(verbosity=2, defaultTest="RegionsCommandTest")
