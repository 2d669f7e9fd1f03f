"""Lessons taken back, by command and service.  Usage: lessons_test.py PATH_TO_CONTCORE

CONTCORE_TEST_KILLS says how often a service is killed, CONTCORE_TEST_STRAYS how many tasks are made by mistake.
"""

import http.client
import json
import os
import random
import shutil
import struct
import sys
import threading

import loud
import serving
from serving import ServiceTest, picture

SLOW = serving.SLOW
KILLS = int(os.environ.get("CONTCORE_TEST_KILLS", "3" if SLOW else "8"))
STRAYS = int(os.environ.get("CONTCORE_TEST_STRAYS", "25"))


def content(path):
    """Everything in a memory but its times, its checksum, and what it says of its journal."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    texts = header.pop("__metadata__")
    del texts["sha256"]
    texts.pop("journal", None)
    tasks = json.loads(texts.pop("tasks"))
    for task in tasks:
        del task["learned"]
    return texts, tasks, {n: (e["dtype"], e["shape"], data[slice(*e["data_offsets"])]) for n, e in header.items()}


class Lessons(ServiceTest):
    def path(self, name):
        return os.path.join(self.folder, name)

    def images(self, style, first, count):
        folder = self.path("p%d-%d-%d" % (style, first, count))
        if not os.path.isdir(folder):
            os.mkdir(folder)
            for i in range(first, first + count):
                with open(os.path.join(folder, "%03d.png" % i), "wb") as file:
                    file.write(picture(style, i))
        return folder

    def run_well(self, *words):
        done = self.run_command(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def fails(self, code, words, *command):
        done = self.run_command(*command)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(words, done.stderr)

    def learn(self, memory, style, first, count, task, *options):
        settings = ["--online"] if "--online" in options else []
        if not os.path.exists(memory):
            usual = serving.SMALL if "--capacity" not in options else serving.SMALL[:-2]
            settings = [*usual, *options]
        self.run_well("learn", memory, self.images(style, first, count), "--task", task, *settings)

    def listed(self, memory):
        return json.loads(self.run_well("lessons", memory, "--json").stdout)["lessons"]


class LessonsCommandTest(Lessons):
    def test_forgetting_is_exact(self):
        """Also where the memory is too small for all three tasks, batch and online."""
        small = ["--capacity", "60"]
        for options in (small, ["--capacity", "5000"], [*small, "--online"], [*small, "--consolidate", "paper"]):
            all_three, without = self.path("abc.ccm"), self.path("ac.ccm")
            for style, task in enumerate("abc"):
                self.learn(all_three, style, 0, 6, task, *options)
            for style, task in ((0, "a"), (2, "c")):
                self.learn(without, style, 0, 6, task, *options)
            said = json.loads(self.run_well("forget", all_three, "--task", "b", "--json", "--exact").stdout)
            self.assertEqual((said["forgotten"], said["exact"]), ([2], True))
            self.assertEqual(content(all_three), content(without), options)
            self.fails(2, "no task 'b'", "forget", all_three, "--task", "b")
            self.fails(2, "taken back already", "forget", all_three, "--lesson", "2")
            for path in (all_three, without):
                os.remove(path)
                shutil.rmtree(path + ".versions")

    def test_lists_compares_restores_renames(self):
        memory = self.path("line.ccm")
        for style, task in enumerate(["bottle", "Schraube ß 螺丝", "c"]):
            self.learn(memory, style, 0, 5, task)
        before = content(memory)
        lessons = self.listed(memory)
        self.assertEqual([(one["id"], one["task"], one["images"], one["kind"]) for one in lessons],
                         [(1, "bottle", 5, "batch"), (2, "Schraube ß 螺丝", 5, "batch"), (3, "c", 5, "batch")])  # fmt: skip
        self.assertTrue(all(one["taken"] and one["exact"] and one["time"] for one in lessons))
        self.run_well("rename", memory, "c", "cap")
        self.fails(3, "already", "rename", memory, "cap", "bottle")
        self.fails(2, "no task", "rename", memory, "c", "d")
        self.assertEqual(self.listed(memory)[2]["task"], "cap")
        self.run_well("forget", memory, "--lesson", "4")  # the renaming
        self.assertEqual(content(memory), before)
        versions = json.loads(self.run_well("versions", memory, "--json").stdout)["versions"]
        self.assertEqual([one["lessons"] for one in versions][:2], [1, 2])
        said = json.loads(self.run_well("versions", memory, "--compare", "1", "0", "--json").stdout)
        self.assertEqual(said["lessons_of_second_alone"], "2-3")
        self.assertEqual(said["tasks"][2]["first"]["vectors"], 0)
        self.assertIn("bottle", self.run_well("versions", memory, "--compare", "1", "0").stdout)
        self.run_well("versions", memory, "--restore", "1")
        self.assertEqual([one["taken"] for one in self.listed(memory)], [True, False, False, False])
        self.fails(2, "no version 99", "versions", memory, "--restore", "99")
        self.run_well("versions", memory, "--restore", str(versions[-1]["id"]))
        self.assertIn("can be taken back", self.run_well("lessons", memory).stdout)

    def test_refuses_what_is_not_there(self):
        memory = self.path("line.ccm")
        self.fails(3, "no such memory", "forget", memory, "--task", "a")
        self.assertEqual([name for name in os.listdir(self.folder) if "line" in name and "lock" not in name], [])
        self.learn(memory, 0, 0, 3, "a")
        self.fails(2, "say what to forget", "forget", memory)
        self.fails(2, "no lesson 7", "forget", memory, "--lesson", "7")
        for text in ("0", "x", "3-1", "1,,2", "1-99999999999"):
            self.fails(2, "--lesson", "forget", memory, "--lesson", text)
        # What was learned without the list cannot be taken back, and says so.
        self.run_well("learn", memory, self.images(1, 0, 3), "--task", "b", "--versions", "0")
        before = content(memory)
        self.learn(memory, 2, 0, 3, "c")
        found = [one for one in self.listed(memory) if one["kind"] == "found"]
        self.assertEqual(len(found), 1)
        self.fails(3, "found", "forget", memory, "--lesson", str(found[0]["id"]))
        self.run_well("versions", memory, "--restore", "1")
        self.assertEqual(content(memory), before)

    def test_what_is_not_to_be_kept_is_not(self):
        memory = self.path("line.ccm")
        self.learn(memory, 0, 0, 20, "a", "--versions", "0")
        bad = self.path("bad")
        os.mkdir(bad)
        masks = self.path("masks")
        os.mkdir(masks)
        mask = serving.numpy.zeros((64, 64, 3))
        mask[16:44, 20:48] = 255
        for name, image in ((bad + "/0.png", picture(0, 77, True)), (masks + "/0_mask.png", serving.png(mask))):
            with open(name, "wb") as file:
                file.write(image)
        self.run_well("learn", memory, bad, "--task", "a", "--defects", "--masks", masks, "--versions", "0")
        self.assertFalse(os.path.exists(memory + ".versions"))
        self.run_well("forget", memory, "--task", "a", "--versions", "0")
        self.assertFalse(os.path.exists(memory + ".versions"))

    def test_a_damaged_list_is_moved_aside_and_said(self):
        memory = self.path("line.ccm")
        self.learn(memory, 0, 0, 4, "a")
        self.learn(memory, 1, 0, 4, "b")
        kept = sorted(os.listdir(memory + ".versions"))
        with open(memory + ".versions/lessons.json", "w") as file:
            file.write("{")
        done = self.run_well("learn", memory, self.images(2, 0, 4), "--task", "c")
        self.assertIn("damaged", done.stderr)
        self.assertEqual(sorted(os.listdir(memory + ".versions.damaged")), kept)
        self.assertEqual([one["kind"] for one in self.listed(memory)], ["found", "batch"])

    def test_lessons_of_a_file_changed_elsewhere_are_not_said_to_be_taken_back(self):
        memory = self.path("line.ccm")
        self.learn(memory, 0, 0, 4, "a")
        self.run_well("learn", memory, self.images(1, 0, 4), "--task", "b", "--versions", "0")
        self.learn(memory, 2, 0, 4, "c")
        first = self.listed(memory)[0]
        self.assertFalse(first["taken"])
        self.assertIn("not known", first["why"])
        self.assertIn("not known", self.run_well("lessons", memory).stdout)

    def test_stray_tasks_leave_no_trace(self):
        """Far more than versions are kept, in a memory that they fill."""
        memory = self.path("line.ccm")
        self.learn(memory, 0, 0, 12, "bottle", "--capacity", "150")
        before = content(memory)
        look = ("inspect", memory, self.images(0, 50, 4), "--json")
        seen = [json.loads(line)["score"] for line in self.run_well(*look).stdout.splitlines()]
        names = ["stray %d" % i for i in range(STRAYS)]
        for i, name in enumerate(names):
            self.learn(memory, 1 + i % 3, 100 + i, 1, name)
        self.assertNotEqual(content(memory)[2], before[2])
        words = [word for name in names for word in ("--task", name)]
        said = json.loads(self.run_well("forget", memory, "--json", "--exact", *words).stdout)
        self.assertEqual(len(said["forgotten"]), STRAYS)
        self.assertEqual(content(memory), before)
        again = [json.loads(line)["score"] for line in self.run_well(*look).stdout.splitlines()]
        self.assertEqual(again, seen)


class LessonsServiceTest(Lessons):
    """Part of serve_test.py, which checks that all that is documented happens."""

    def forget(self, service, **what):
        return service.good("POST", "/v1/lessons/forget", what)

    def test_a_defect_learned_by_mistake_is_taken_back(self):
        service = self.start_learned()
        image = picture(0, 77, True)
        first = service.good("POST", "/v1/inspections", image)
        self.assertEqual(first["verdict"], "defect")
        said = service.good("POST", "/v1/inspections/%d/feedback" % first["id"], {"label": "good", "confirm": True})
        self.assertTrue(said["learned"])
        self.assertLess(service.good("POST", "/v1/inspections", image)["score"], first["score"])
        for i in range(3):  # and life goes on
            service.good("POST", "/v1/tasks/p0/images", picture(0, 300 + i))
        [mistake] = [one for one in service.good("GET", "/v1/lessons")["lessons"] if one["kind"] == "feedback"]
        self.assertEqual((mistake["inspection"], mistake["exact"]), (first["id"], True))
        undone = service.good("POST", "/v1/inspections/%d/feedback" % first["id"], {"label": ""})
        self.assertEqual((undone["learned"], undone["feedback"]), (False, ""))
        other = self.start_learned_beside()
        for i in range(3):
            other.good("POST", "/v1/tasks/p0/images", picture(0, 300 + i))
        expected = other.good("POST", "/v1/inspections", image)
        self.assertEqual(service.good("POST", "/v1/inspections", image)["score"], expected["score"])
        service.kill()
        again = self.start()
        self.assertEqual(again.good("POST", "/v1/inspections", image)["score"], expected["score"])
        row = again.good("GET", "/v1/inspections/%d" % first["id"])
        self.assertEqual((row["learned"], row["feedback"]), (False, ""))

    def start_learned_beside(self):
        memory = self.path("beside.ccm")
        with open(memory, "wb") as file:
            file.write(ServiceTest.ready_memory)
        return self.start(memory=memory)

    def test_who_may_take_back_what(self):
        tokens = self.path("tokens")
        with open(tokens, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write("inspect inspect-token-0000\nlearn learn-token-000000 Ada\nadmin admin-token-000000 Bo\n")
        service = self.start_learned("--tokens", tokens)
        looks, learns, admin = "inspect-token-0000", "learn-token-000000", "admin-token-000000"
        service.good("POST", "/v1/tasks/p0/images", picture(0, 1000), token=learns)
        lesson = service.good("GET", "/v1/lessons", token=looks)["lessons"][0]
        self.assertEqual((lesson["who"], lesson["kind"], lesson["images"]), ("Ada", "online", 1))
        what = {"lessons": [lesson["id"]]}
        self.assertEqual(service.ask("POST", "/v1/lessons/forget", what, token=looks).status, 403)
        self.assertEqual(service.ask("POST", "/v1/lessons/forget", {"tasks": ["p1"]}, token=learns).status, 403)
        self.assertEqual(service.ask("POST", "/v1/versions/1/restore", {}, token=learns).status, 403)
        self.assertEqual(service.ask("PUT", "/v1/tasks/p1", {"name": "x"}, token=learns).status, 403)
        said = service.good("POST", "/v1/lessons/forget", what, token=learns)
        self.assertEqual((said["forgotten"], said["exact"]), ([lesson["id"]], True))
        self.assertEqual(service.ask("POST", "/v1/lessons/forget", what, token=learns).status, 404)
        renamed = service.good("PUT", "/v1/tasks/p1", {"name": "Flasche № 1"}, token=admin)
        self.assertEqual(renamed["name"], "Flasche № 1")
        self.assertEqual(service.ask("PUT", "/v1/tasks/p0", {"name": "Flasche № 1"}, token=admin).status, 409)
        self.assertEqual(service.ask("PUT", "/v1/tasks/p0", {"name": ""}, token=admin).status, 400)
        # p0 and p1 were there before the list was begun.
        reply = service.ask("POST", "/v1/lessons/forget", {"tasks": ["p0"]}, token=admin)
        self.assertIn(reply.status, (200, 409))
        for body in ({"lessons": "1"}, {"lessons": [-1]}, {"tasks": [1]}, {"lessons": [1.5]}, {}, {"x": []}):
            self.assertIn(service.ask("POST", "/v1/lessons/forget", body, token=admin).status, (400, 404), body)

    def test_an_admins_lessons_are_an_admins(self):
        tokens = self.path("tokens")
        with open(tokens, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write("learn learn-token-000000 Ada\nadmin admin-token-000000 Bo\n")
        service = self.start("--tokens", tokens)
        learns, admin = "learn-token-000000", "admin-token-000000"
        for i in range(6):
            service.good("POST", "/v1/tasks/a/images", picture(0, i), token=admin if i < 5 else learns)
        service.good("POST", "/v1/tasks/mine/images", picture(1, 0), token=learns)
        service.good("PUT", "/v1/tasks/a/threshold", {"score": 400}, token=admin)
        ids = [one["id"] for one in service.good("GET", "/v1/lessons", token=learns)["lessons"]][::-1]

        def status(token, *lessons):
            return service.ask("POST", "/v1/lessons/forget", {"lessons": list(lessons)}, token=token).status

        self.assertEqual(status(learns, ids[7]), 403)  # the threshold
        self.assertEqual(status(learns, *ids[:6]), 403)  # all of a task that an admin taught
        self.assertEqual(status(learns, ids[0]), 200)  # an image, and the task stays
        self.assertEqual(status(learns, ids[6]), 200)  # a task of one's own
        self.assertEqual(status(admin, *ids[1:6]), 200)
        self.assertEqual(service.good("GET", "/v1/tasks", token=learns)["tasks"], [])

    def test_what_is_refused_changes_nothing(self):
        service = self.start()
        for i in range(25):
            service.good("POST", "/v1/tasks/bottle/images", picture(0, i))
        seen = service.good("POST", "/v1/inspections", picture(0, 100, True))
        path = "/v1/inspections/%d/feedback" % seen["id"]
        service.good("POST", path, {"label": "defect"})
        known = service.good("GET", "/v1/lessons")["lessons"]
        self.assertEqual((known[0]["kind"], known[0]["taken"]), ("defect", True))
        wide = {"x": 0, "y": 0, "width": seen["width"], "height": seen["height"]}
        for body in ({"label": "good"}, {"label": "defect", "region": wide}):
            self.assertEqual(service.ask("POST", path, body).status, 409, body)
            self.assertEqual(service.good("GET", "/v1/lessons")["lessons"], known)
            self.assertEqual(service.tasks()["bottle"]["known_defects"], 1)
        self.assertEqual(service.good("GET", "/v1/inspections/%d" % seen["id"])["feedback"], "defect")
        # Confirmed it is good, and no defect any more.
        self.assertTrue(service.good("POST", path, {"label": "good", "confirm": True})["learned"])
        self.assertEqual(service.tasks()["bottle"]["known_defects"], 0)
        self.assertEqual(service.ask("POST", path, {"label": "defect", "region": wide}).status, 409)
        self.assertTrue(service.good("GET", "/v1/inspections/%d" % seen["id"])["learned"])
        # Of a task that is forgotten nothing can be learned.
        service.good("POST", path, {"label": ""})
        self.forget(service, tasks=["bottle"], exact=False)
        self.assertEqual(service.ask("POST", path, {"label": "good", "confirm": True}).status, 409)
        self.assertEqual(service.tasks(), {})

    def test_what_is_not_like_the_product_named_is_asked_about(self):
        service = self.start_learned()
        blank = serving.png(serving.numpy.full((64, 64, 3), 255))
        for _ in range(2):
            seen = service.good("POST", "/v1/inspections", blank, task="p0")
            self.assertEqual(seen["verdict"], "defect")
            reply = service.ask("POST", "/v1/inspections/%d/feedback" % seen["id"], {"label": "good"})
            self.assertEqual(reply.status, 409)
            self.assertIs(reply.json()["confirm"], True)

    def test_names_follow_a_rename_that_is_taken_back(self):
        service = self.start_learned()
        service.good("PUT", "/v1/stations/s", {"task": "p0"})
        seen = service.good("POST", "/v1/inspections", picture(0, 5), station="s")
        before = service.good("GET", "/v1/versions")["versions"]
        service.good("PUT", "/v1/tasks/p0", {"name": "flasche"})
        self.assertEqual(service.good("POST", "/v1/inspections", picture(0, 6), station="s")["task"], "flasche")
        rename = service.good("GET", "/v1/lessons")["lessons"][0]
        self.assertEqual((rename["from"], rename["to"]), ("p0", "flasche"))
        self.forget(service, lessons=[rename["id"]])
        self.assertEqual(service.good("POST", "/v1/inspections", picture(0, 7), station="s")["task"], "p0")
        self.assertEqual(service.good("GET", "/v1/inspections/%d" % seen["id"])["task"], "p0")
        service.good("PUT", "/v1/tasks/p0", {"name": "bottle"})
        newest = service.good("GET", "/v1/versions")["versions"]
        self.assertGreater(len(newest), len(before))
        service.good("POST", "/v1/versions/%d/restore" % newest[0]["id"], {})
        self.assertEqual(service.good("POST", "/v1/inspections", picture(0, 8), station="s")["task"], "p0")
        # The power goes between the lesson and the database, which is put back here as it was.
        self.assertEqual(service.stop(), 0)
        shutil.copy(service.memory + ".db", self.path("before.db"))
        service = self.start()
        service.good("PUT", "/v1/tasks/p0", {"name": "last"})
        service.kill()
        for end in ["-wal", "-shm"]:
            if os.path.exists(service.memory + ".db" + end):
                os.remove(service.memory + ".db" + end)
        shutil.copy(self.path("before.db"), service.memory + ".db")
        service = self.start()
        self.assertEqual(service.good("POST", "/v1/inspections", picture(0, 9), station="s")["task"], "last")

    def test_a_new_database_gives_no_id_that_a_lesson_knows(self):
        service = self.start()
        for i in range(25):
            service.good("POST", "/v1/tasks/bottle/images", picture(0, i))
        seen = service.good("POST", "/v1/inspections", picture(0, 100, True))
        service.good("POST", "/v1/inspections/%d/feedback" % seen["id"], {"label": "defect"})
        self.assertEqual(service.stop(), 0)
        os.remove(service.memory + ".db")
        service = self.start()
        other = service.good("POST", "/v1/inspections", picture(0, 101, True))
        self.assertGreater(other["id"], seen["id"])

    def test_a_job_is_taken_back(self):
        service = self.start_learned()
        image = picture(2, 0)
        before = service.good("POST", "/v1/inspections", image)
        service.learn_job("new", [picture(2, i) for i in range(6)])
        lesson = service.good("GET", "/v1/lessons")["lessons"][0]
        self.assertEqual((lesson["kind"], lesson["task"], lesson["images"]), ("batch", "new", 6))
        service.good("POST", "/v1/tasks/p0/images", picture(0, 500))
        self.forget(service, lessons=[service.good("GET", "/v1/lessons")["lessons"][0]["id"]])
        self.forget(service, tasks=["new"])
        self.assertNotIn("new", service.tasks())
        self.assertEqual(service.good("POST", "/v1/inspections", image)["score"], before["score"])
        versions = service.good("GET", "/v1/versions")["versions"]
        service.good("POST", "/v1/versions/%d/restore" % versions[-1]["id"], {})
        self.assertEqual(service.ask("POST", "/v1/versions/999/restore", {}).status, 404)

    def test_killed_while_lessons_come_and_go(self):
        """Nothing that was acknowledged is lost: neither a lesson, nor that it was taken back."""
        numbers = random.Random(int(os.environ.get("CONTCORE_TEST_SEED", "5")))
        left, rounds = KILLS, 0
        while left > 0:
            kills = min(left, 20)
            left -= kills
            rounds += 1
            self.come_and_go(numbers, kills, self.path("killed%d.ccm" % rounds))

    def come_and_go(self, numbers, kills, memory):
        image_of, sets, pending = {}, [frozenset()], frozenset()
        made = 0

        def taken(service):
            known = service.good("GET", "/v1/lessons", limit=1000)["lessons"]
            return frozenset(one["id"] for one in known if one["taken"])

        for kill in range(kills + 1):
            service = self.start(memory=memory)
            now = taken(service)
            # The one in flight may have happened or not.
            if now != sets[-1]:
                new = now - sets[-1]
                allowed = now in sets or now == pending or (len(new) == 1 and now - new == sets[-1])
                self.assertTrue(allowed, "kill %d: %s after %s: %s" % (kill, now, sets[-1], service.words()))
                for one in new:
                    image_of.setdefault(one, made)
                made += 1
                sets.append(now)
            if kill == kills:
                break
            killer = threading.Timer(numbers.uniform(0, numbers.choice([0.05, 0.4, 1.0])) * (10 if SLOW else 1),
                                     service.process.kill)  # fmt: skip
            killer.start()
            try:
                while True:
                    choice = numbers.random()
                    if choice < 0.6 or len(sets[-1]) < 3:
                        reply = service.ask("POST", "/v1/tasks/t%d/images" % (made % 3), picture(made % 3, made))
                        self.assertEqual(reply.status, 201, reply)
                        newest = service.good("GET", "/v1/lessons", limit=1)["lessons"][0]["id"]
                        image_of[newest] = made
                        made += 1
                        sets.append(sets[-1] | {newest})
                    elif choice < 0.9:
                        gone = numbers.choice(sorted(sets[-1]))
                        pending = sets[-1] - {gone}
                        reply = service.ask("POST", "/v1/lessons/forget", {"lessons": [gone]})
                        self.assertEqual(reply.status, 200, reply)
                        sets.append(pending)
                    else:
                        versions = service.good("GET", "/v1/versions")["versions"]
                        if versions:
                            version = numbers.choice(versions)["id"]
                            reply = service.ask("POST", "/v1/versions/%d/restore" % version, {})
                            self.assertEqual(reply.status, 200, reply)
                            sets.append(taken(service))
            except (OSError, http.client.HTTPException):
                pass
            killer.join()
            service.wait()
        self.assertEqual(service.stop(), 0)
        reference = memory.replace("killed", "reference")
        whole = self.start(memory=reference)
        for one in sorted(sets[-1]):
            i = image_of[one]
            whole.good("POST", "/v1/tasks/t%d/images" % (i % 3), picture(i % 3, i))
        self.assertEqual(whole.stop(), 0)
        self.assertEqual(content(memory), content(reference))
        if KILLS >= 100:
            print("killed %d times, %d states" % (kills, len(sets)), file=sys.stderr)

    def test_what_cannot_be_done_changes_nothing(self):
        service = self.start_learned()
        self.assertEqual(service.ask("GET", "/v1/lessons", limit=0).status, 400)
        service.good("POST", "/v1/tasks/p0/images", picture(0, 600))
        [online, found] = service.good("GET", "/v1/lessons")["lessons"]
        self.assertEqual((found["kind"], found["exact"]), ("found", False))
        self.assertEqual(service.ask("POST", "/v1/lessons/forget", {"lessons": [found["id"]]}).status, 409)
        self.forget(service, lessons=[online["id"]])
        version = service.good("GET", "/v1/versions")["versions"][-1]["id"]
        kept = "%s.versions/%d.ccm" % (service.memory, version)
        with open(kept, "rb") as file:
            whole = file.read()
        os.remove(kept)  # it may be another name of the memory itself
        with open(kept, "wb") as file:
            file.write(whole[:-1] + bytes([whole[-1] ^ 1]))
        self.assertEqual(service.ask("POST", "/v1/versions/%d/restore" % version, {}).status, 409)
        with open(kept, "wb") as file:
            file.write(whole)
        service.good("POST", "/v1/tasks/p0/images", picture(0, 601))
        newest = service.good("GET", "/v1/lessons")["lessons"][0]["id"]
        # Somebody puts another file in the memory's place.
        other = self.path("other.ccm")
        self.run_well("learn", other, self.images(2, 0, 4), "--task", "x", *serving.SMALL)
        os.replace(other, service.memory)
        before = service.tasks()
        self.assertEqual(service.ask("POST", "/v1/lessons/forget", {"lessons": [newest]}).status, 503)
        self.assertEqual(service.ask("POST", "/v1/versions/%d/restore" % version, {}).status, 503)
        self.assertEqual(service.ask("PUT", "/v1/tasks/p0", {"name": "q"}).status, 503)
        self.assertEqual(service.tasks(), before)
        service.kill()


if __name__ == "__main__":
    ServiceTest.command = os.path.abspath(sys.argv.pop(1))
    loud.main(verbosity=2, defaultTest="LessonsCommandTest")
