"""The detector: images of every kind, the command's very bits, and what notebooks show."""

import copy
import io
import json
import pickle
import re
import subprocess
import sys
import threading

import contcore
import numpy as np
import pytest
from PIL import Image

HOW = {"backbone": "builtin", "resize": 64, "crop": "none", "memory": "512K"}


def plate(seed, scratch=False, size=64):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:size, :size] - size / 2 - rng.uniform(-3, 3, (2, 1, 1))
    image = np.where(np.hypot(x, y) < size * 0.4, 170, 60) + rng.normal(0, 4, (size, size))
    if scratch:
        image[28:36, 24:40] = 250
    return np.repeat(image.clip(0, 255).astype(np.uint8)[:, :, None], 3, axis=2)


@pytest.fixture(scope="module")
def detector():
    made = contcore.Detector(**HOW)
    made.learn([plate(i) for i in range(30)], "plate", p=0.5)  # few patches: many of them
    return made


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "good").mkdir()
    for i in range(25):
        contcore.write_image(tmp_path / "good" / f"{i:02}.png", plate(i))
    return tmp_path


def test_defects_are_found_where_they_are(detector):
    good, bad = detector.inspect(plate(99)), detector.inspect(plate(99, scratch=True))
    assert (good.verdict, bad.verdict, bad.product) == ("good", "defect", "plate")
    assert good.score <= good.threshold < bad.score and good.threshold == bad.threshold
    assert bad.map.shape == (64, 64) and bad.map.dtype == np.float32
    column, row = bad.peak
    assert bad.map[row, column] == bad.map.max() and 20 <= row <= 40
    assert bad.regions and bad.regions[0].y < 32 < bad.regions[0].y + bad.regions[0].height
    assert "defect" in repr(bad)
    assert detector.inspect(plate(99), map=False).map is None


def test_every_way_to_hand_in_an_image(detector, tmp_path):
    array = plate(7, scratch=True)
    path = tmp_path / "an image.png"
    Image.fromarray(array).save(path)
    strided = np.repeat(array, 2, axis=1)[:, ::2]
    expected = detector.inspect(array)
    for given in (path, str(path), bytes(path), Image.fromarray(array), strided, Image.open(path)):
        seen = detector.inspect(given)
        assert seen.score == expected.score
        np.testing.assert_array_equal(seen.map, expected.map)
        np.testing.assert_array_equal(seen.image, array)


REGION = {"width": 64, "height": 64, "polygons": [[[10, 10], [54, 10], [54, 54], [10, 54]]]}


def test_what_lies_outside_of_a_region_changes_nothing(folder):
    """However the region is given; the command has the same."""
    mask = np.zeros((64, 64), bool)
    mask[10:54, 10:54] = True
    Image.fromarray(mask).save(folder / "mask.png")

    def scene(i, seed, **more):
        rng = np.random.default_rng(1000 * seed + i)
        return np.where(mask[:, :, None], plate(i, **more), rng.integers(0, 256, (64, 64, 3), np.uint8))

    points = {**REGION, "polygons": [np.array(REGION["polygons"][0])]}
    image_of_it = (mask * 200).astype(np.uint8)
    seen = []
    for seed, region in enumerate([REGION, points, mask, image_of_it, folder / "mask.png", Image.fromarray(mask)]):
        detector = contcore.Detector(**HOW)
        detector.learn([scene(i, seed) for i in range(25)], "plate", p=0.5, region=region)
        detector.learn_online(scene(30, seed), "plate", region=region)
        shown = [detector.inspect(scene(99, seed, scratch=bad)) for bad in (False, True)]
        assert [one.verdict for one in shown] == ["good", "defect"]
        assert not shown[1].map[~mask].any() and shown[1].map[mask].any()
        seen.append((detector.memory.vectors.tobytes(), [one.score for one in shown]))
        (task,) = detector.memory.tasks
        assert task.region == REGION if seed < 2 else sum(task.region["counts"]) == 64 * 64
    assert all(one == seen[0] for one in seen)

    with contcore.Detector.open_to_learn(folder / "line.ccm", **HOW) as line:
        line.learn(folder / "good", "plate", region=REGION)
        with pytest.raises(contcore.InputError, match="forget the task"):
            line.learn(folder / "good", "plate", region=mask.T ^ np.eye(64, dtype=bool))
        line.save()
    said = subprocess.run([sys.executable, "-m", "contcore", "info", str(folder / "line.ccm"), "--json"], capture_output=True)
    assert json.loads(said.stdout)["tasks"][0]["region"] == REGION


def test_masks_of_any_whole_numbers():
    inside = np.zeros((64, 64), bool)
    inside[10:50, 10:30] = True
    maps = [inside, np.where(inside, 300, 0), np.where(inside, 1, 0).astype(np.uint16), inside.astype(">u2")]
    maps += [one[:, :, None] for one in maps]
    maps.append(Image.fromarray(inside.astype(np.uint16)))
    maps.append(Image.fromarray(np.where(inside, 0, 1).astype(np.uint8), "P"))
    maps[-1].putpalette([255, 255, 255, 0, 0, 0])
    found = []
    for one in maps:
        detector = contcore.Detector(**HOW)
        detector.learn([plate(i) for i in range(5)], "plate", region=one)
        found.append(detector.memory.tasks[0].region)
    assert found[0] and all(one == found[0] for one in found)


@pytest.mark.parametrize(
    "region, error, says",
    [
        (np.zeros((64, 64), bool), contcore.InputError, "no pixel"),
        (np.ones((64, 64), bool), contcore.InputError, "whole image"),
        (np.ones((0, 0), bool), contcore.InputError, "region"),
        (np.full((64, 64), 0.5), TypeError, "uint8"),
        (np.ma.array(np.ones((64, 64), np.uint8), mask=np.eye(64)), contcore.InputError, "masked"),
        (np.tri(64, 32, dtype=bool), contcore.InputError, "same shape"),
        ({**REGION, "polygons": [[[np.nan, 1], [9, 9], [9, 1]]]}, contcore.InputError, "a region is"),
        ({**REGION, "polygons": object()}, TypeError, "region"),
        ({}, contcore.InputError, "a region is"),
        ("no such file.png", contcore.InputError, "no such file.png"),
    ],
)
def test_what_is_no_region(region, error, says):
    detector = contcore.Detector(**HOW)
    with pytest.raises(error, match=says):
        detector.learn([plate(i) for i in range(3)], "plate", region=region)
    assert len(detector.memory) == 0


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "1", "LA", "I;16"])
def test_modes_as_their_files(detector, tmp_path, mode):
    # What PIL has in memory and what a file of it gives must be the same pixels.
    gray = plate(3)[:, :, 0]
    if mode == "I;16":
        image = Image.fromarray((gray.astype(np.uint16) << 8) + 77)
    else:
        image = Image.fromarray(plate(3)).convert(mode)
    path = tmp_path / "image.png"
    image.save(path)
    np.testing.assert_array_equal(detector.inspect(image).image, contcore.read_image(path))


def test_turned_photographs_are_upright(detector, tmp_path):
    array = plate(3, scratch=True)[:, :48]
    turned = Image.fromarray(array)
    exif = turned.getexif()
    exif[0x0112] = 6
    turned.save(tmp_path / "turned.jpg", exif=exif, quality=100)
    from_pil = detector.inspect(Image.open(tmp_path / "turned.jpg")).image
    from_file = detector.inspect(tmp_path / "turned.jpg").image
    assert from_pil.shape == from_file.shape == (48, 64, 3)
    assert np.abs(from_pil.astype(int) - from_file).max() <= 2  # two JPEG decoders


@pytest.mark.parametrize(
    "wrong, error, says",
    [
        (np.zeros((64, 64, 3)), TypeError, "uint8"),
        (np.zeros((3, 64, 64), np.uint8), contcore.UsageError, "channels come last"),
        (np.zeros((0, 64, 3), np.uint8), contcore.InputError, "without pixels"),
        (np.zeros((2, 64, 64, 3, 1), np.uint8), contcore.UsageError, "height"),
        (None, TypeError, "image"),
        (7, TypeError, "image"),
        (object(), TypeError, "a PIL image is needed"),
        (["a.png", "b.png"], TypeError, "one image is needed, not 2"),
        ([plate(1), plate(2)], TypeError, "one image is needed, not 2"),
        ("nowhere.png", contcore.InputError, "nowhere.png"),
        (b"nowhere.png", contcore.InputError, "nowhere.png"),
        ("/", contcore.InputError, "/"),
        (Image.new("RGBA", (64, 64)).convert("LA").convert("La"), TypeError, "mode La"),
    ],
)
def test_what_is_no_image_is_refused(detector, wrong, error, says):
    with pytest.raises(error, match=says):
        detector.inspect(wrong)


def test_many_images_with_a_broken_one(detector, tmp_path):
    for i in range(9):
        contcore.write_image(tmp_path / f"{i}.png", plate(i, scratch=i == 4))
    (tmp_path / "5.png").write_bytes(b"no image")
    told = []
    seen = list(detector.inspect_all(tmp_path, progress=told.append))
    assert [one.verdict for one in seen] == ["good"] * 4 + ["defect", "error"] + ["good"] * 3
    assert "5.png" in seen[5].error and np.isnan(seen[5].score) and seen[5]._repr_png_() is None
    assert told[-1] == 1
    again = list(detector.inspect_all([plate(i, scratch=i == 4) for i in range(9)], threads=2))
    assert again[4].score == seen[4].score and again[4].file == "image 4"
    assert len(list(detector.inspect_all(np.stack([plate(1), plate(2)])))) == 2


def test_learning_bad_input_changes_nothing(detector, tmp_path):
    mine = detector.copy()
    before = mine.memory.vectors.copy()
    (tmp_path / "broken.png").write_bytes(b"no image")
    for images, error in [
        ([], contcore.InputError),
        ([tmp_path / "broken.png"], contcore.InputError),
        ([plate(1), tmp_path / "broken.png"], TypeError),
        ([np.zeros((4, 4), float)], TypeError),
        (tmp_path / "no folder", contcore.InputError),
    ]:
        with pytest.raises(error):
            mine.learn(images, "other", strict=True)
    with pytest.raises(contcore.UsageError):
        mine.learn([plate(1)], "")
    with pytest.raises(contcore.UsageError):
        mine.learn([plate(1)], "other", p=2)
    np.testing.assert_array_equal(mine.memory.vectors, before)


def test_what_is_questionable_is_a_warning():
    mine = contcore.Detector(**HOW)
    images = [plate(i) for i in range(20)] + [np.full((64, 64, 3), 255, np.uint8)]
    with pytest.warns(contcore.ReviewWarning):
        report = mine.learn(images, "plate")
    assert report.remarks and report.learned == 21
    assert report.files[report.strangest[0][0]] == "image 20"


def test_same_bits_as_the_command(folder):
    command = [sys.executable, "-m", "contcore"]
    options = ["--backbone", "builtin", "--resize", "64", "--crop", "none", "--memory", "512K"]
    learn = [*command, "learn", str(folder / "command.ccm"), str(folder / "good"), "--task", "plate"]
    subprocess.run([*learn, *options], check=True, capture_output=True)
    with contcore.Detector.open_to_learn(folder / "python.ccm", **HOW) as mine:
        assert mine.is_new
        mine.learn(folder / "good", "plate")
        mine.save()
    theirs, ours = ((folder / f"{name}.ccm").read_bytes() for name in ("command", "python"))
    assert len(theirs) == len(ours)
    # The moment of learning is in there, and a checksum over all.
    stamp = re.compile(rb'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|"sha256":"[0-9a-f]{64}"')
    assert len(stamp.findall(ours)) == 2
    assert stamp.sub(b"", theirs) == stamp.sub(b"", ours)

    contcore.write_image(folder / "part.png", plate(77, scratch=True))
    inspect = [*command, "inspect", str(folder / "command.ccm"), str(folder / "part.png"), "--json"]
    said = json.loads(subprocess.run(inspect, capture_output=True, text=True).stdout.splitlines()[0])
    seen = contcore.Detector.open(folder / "python.ccm").inspect(folder / "part.png")
    assert np.float32(said["score"]) == np.float32(seen.score)
    assert said["verdict"] == seen.verdict


def test_file_is_held_while_it_is_open_to_learn(folder):
    path = folder / "m.ccm"
    with contcore.Detector.open_to_learn(path, **HOW) as mine:
        mine.learn(folder / "good", "plate")
        mine.save()
        with pytest.raises(contcore.Error, match="m.ccm"):
            contcore.Detector.open_to_learn(path)
        with pytest.raises(TypeError, match="copy"):
            pickle.dumps(mine)
        memory = mine.memory
    for use in (lambda: mine.inspect(plate(1)), lambda: len(memory), mine.save):
        with pytest.raises(contcore.UsageError, match="closed"):
            use()
    mine.close()  # twice is nothing
    with contcore.Detector.open_to_learn(path) as again:
        assert not again.is_new and len(again.lessons) == 1
        again.learn_online(plate(50), "other")
        again.rename_task("other", "another")
        again.save()
        assert [task.name for task in again.memory.tasks] == ["plate", "another"]
        again.forget(tasks=["another"])
        assert [task.name for task in again.memory.tasks] == ["plate"]


def test_options_of_a_file_are_kept_to(folder):
    path = folder / "m.ccm"
    with pytest.raises(TypeError, match="resise"):
        contcore.Detector.open_to_learn(path, backbone="builtin", resise=64)
    with contcore.Detector.open_to_learn(path, **HOW) as mine:
        mine.learn(folder / "good", "plate")
        mine.save()
    for same in (["layer2", "layer3"], ("layer2", "layer3"), "layer2, layer3"):
        contcore.Detector.open_to_learn(path, layers=same).close()
    for other in ({"resize": 96}, {"precision": "float"}, {"memory": "1M"}, {"paper": True}, {"layers": "x"}):
        with pytest.raises(contcore.InputError, match="was made with"):
            contcore.Detector.open_to_learn(path, **other)
    with contcore.Detector.open_to_learn(path, **HOW) as again:  # and nothing holds it
        assert not again.is_new
    assert "closed" in repr(again) and again._repr_html_() is None
    assert "closed" in repr(again.memory) and again.memory._repr_html_() is None


def test_large_images_are_seen_in_tiles(folder):
    rng = np.random.default_rng(5)
    good = [rng.integers(110, 140, (90 + 7 * (i % 3), 150, 3), dtype=np.uint8) for i in range(24)]
    bad = rng.integers(110, 140, (170, 210, 3), dtype=np.uint8)
    bad[100:106, 120:126] = 250
    how = {"backbone": "builtin", "tile": 64, "overlap": 32}
    detector = contcore.Detector(**how)
    detector.learn(good, "plate", p=0.05)
    assert detector.memory.source["tile"] == "64" and detector.memory.source["resize"] == "100%"
    seen = detector.inspect(bad)
    assert seen.rejected and seen.map.shape == (170, 210)
    assert abs(seen.peak[0] - 123) < 16 and abs(seen.peak[1] - 103) < 16
    detector.save(folder / "m.ccm")
    with contcore.Detector.open_to_learn(folder / "m.ccm", **how) as again:
        assert again.inspect(bad).score == seen.score
    with pytest.raises(contcore.InputError, match="tile 64, not 384"):
        contcore.Detector.open_to_learn(folder / "m.ccm", tile=384)
    for wrong in ({"tile": 70}, {"overlap": 60}, {"overlap": 20}, {"resize": 64}, {"crop": 32}, {"tile": "wide"}):
        with pytest.raises(contcore.UsageError):
            contcore.Detector(**{**how, **wrong})
    extractor = contcore.Extractor(**how, resize="50%")
    assert extractor.extract(bad).grid == (11, 14)


@pytest.mark.parametrize(
    "wrong, error",
    [
        ({"q": "x"}, TypeError),
        ({"paper": "yes"}, TypeError),
        ({"score": 3}, TypeError),
        ({"memory": "1M", "capacity": 5}, contcore.UsageError),
        ({"backbone": "builtin", "resize": "wide"}, contcore.Error),
        ({"backbone": "builtin", "resize": "\udcff"}, contcore.UsageError),
        ({"backbone": "builtin\0"}, contcore.UsageError),
        ({"backbone": 5}, TypeError),
        ({"layers": 5}, TypeError),
        ({"layers": [5]}, TypeError),
    ],
)
def test_options_that_make_no_sense(wrong, error):
    with pytest.raises(error):
        contcore.Detector(**wrong)


def test_the_built_in_filters_are_not_taken_in_silence(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.warns(UserWarning, match="backbone fetch resnet50"):
        contcore.Detector(resize=64)


def test_sixteen_bits_of_a_png_by_pil(detector, tmp_path):
    path = tmp_path / "deep.png"
    Image.fromarray((plate(3)[:, :, 0].astype(np.uint16) << 8) + 77).save(path)
    np.testing.assert_array_equal(detector.inspect(Image.open(path)).image, contcore.read_image(path))
    for mode in ("I", "F"):
        with pytest.raises(TypeError, match="mode"):
            detector.inspect(Image.fromarray(plate(3)).convert(mode))


def test_an_iterator_is_taken_a_few_at_a_time(detector, folder):
    taken = []

    def camera():
        for i in range(1000):
            taken.append(i)
            yield plate(i)

    answers = detector.inspect_all(camera(), threads=1)
    assert not taken
    first = [next(answers) for _ in range(5)]
    assert len(taken) < 20 and [one.file for one in first] == [f"image {i}" for i in range(5)]
    assert [one.score for one in first] == [detector.inspect(plate(i)).score for i in range(5)]
    files = sorted((folder / "good").iterdir())
    found = list(detector.inspect_all((path for path in files), threads=1))
    assert [one.file for one in found] == list(map(str, files))
    of_folder = detector.inspect_all(iter([folder / "good"]), threads=1)
    assert [one.file for one in of_folder] == list(map(str, files))
    with pytest.raises(contcore.UsageError, match="progress"):
        detector.inspect_all(iter(files), progress=True)


def test_stopping_between_inspections(detector):
    seen = []
    with pytest.raises(contcore.Cancelled):
        for one in detector.inspect_all([plate(i) for i in range(9)], progress=lambda done: done < 0.5):
            seen.append(one)
    assert len(seen) == 5


def test_copies_pickles_merges_and_shrinks(detector):
    image = plate(5, scratch=True)
    expected = detector.inspect(image).score
    for other in (copy.copy(detector), copy.deepcopy(detector), pickle.loads(pickle.dumps(detector))):
        assert other.inspect(image).score == expected
    other = contcore.Detector(**HOW)
    other.learn([255 - plate(i) for i in range(20)], "negative")
    both = contcore.Detector.merge(detector, other)
    assert [task.name for task in both.memory.tasks] == ["plate", "negative"]
    before = len(both.memory)
    both.shrink(100)
    assert len(both.memory) == 100 < before
    assert contcore.Detector.of_memory(both.memory).inspect(image).product == "plate"
    with pytest.raises(contcore.UsageError, match="copy"):
        detector.memory.learn(detector.memory.vectors, "more")


def test_defects_can_be_shown(detector, tmp_path):
    mine = detector.copy()
    mask = np.zeros((64, 64), bool)
    mask[28:36, 24:40] = True
    mine.learn_defect(plate(1, scratch=True), "plate", box=(24, 28, 16, 8))
    mine.learn_defect(plate(2, scratch=True), "plate", mask=mask.astype(np.uint8))
    Image.fromarray(mask.astype(np.uint8)).save(tmp_path / "mask.png")
    mine.learn_defect(plate(3, scratch=True), "plate", mask=tmp_path / "mask.png")
    assert mine.memory.tasks[0].known_defects == 3
    with pytest.raises(contcore.Error):
        mine.learn_defect(plate(1), "nothing", box=(0, 0, 9, 9))
    for box, error in [("abcd", TypeError), (7, TypeError), ((0, 0, 9), contcore.UsageError)]:
        with pytest.raises(error, match="box"):
            mine.learn_defect(plate(1), "plate", box=box)


def test_parts_that_make_no_sense(detector):
    mine = detector.copy()
    for p in (0, -1, 2, float("nan")):
        for learn in (mine.learn, mine.learn_online):
            with pytest.raises(contcore.UsageError, match="p .* is not a part"):
                learn(plate(1), "plate", p=p)
    for call in (
        lambda: mine.learn(plate(1), "plate", false_alarms="0.05"),
        lambda: mine.inspect(plate(1), false_alarms=None),
        lambda: mine.inspect(plate(1), strangers="0.05"),
        lambda: mine.inspect(plate(1), task=5),
    ):
        with pytest.raises(TypeError, match="needed, not"):
            call()
    assert mine.memory.tasks[0].images == 30


def test_pictures(detector):
    seen = detector.inspect(plate(5, scratch=True))
    shown = Image.open(io.BytesIO(seen._repr_png_()))
    assert shown.size == (64, 64) or shown.size[1] >= 64
    assert np.asarray(shown.convert("RGB")).shape == seen.picture().shape
    assert "plate" in detector._repr_html_() and "plate" in detector.memory._repr_html_()


def test_threads_inspect_at_once(detector):
    images = [plate(i, scratch=i % 2 == 0) for i in range(12)]
    expected = [detector.inspect(image).score for image in images]
    found = {}

    def work(start):
        for i in range(start, 12, 3):
            found[i] = detector.inspect(images[i]).score

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[i] for i in range(12)] == expected


def test_patch_vectors(folder):
    extractor = contcore.Extractor("builtin", resize=64, crop="none")
    one = extractor.extract(folder / "good" / "03.png")
    assert one.map.shape == (*one.grid, extractor.dimension) and one.size == (64, 64)
    (folder / "good" / "zz.png").write_bytes(b"no image")
    all_of_it = extractor.extract_to(folder / "z.npy", folder / "good")
    where = all_of_it.images[3]
    np.testing.assert_array_equal(
        all_of_it.vectors[where.first : where.first + where.rows], one.vectors
    )
    assert len(all_of_it.images) == 25 and "zz.png" in all_of_it.skipped[0][0]
    np.testing.assert_array_equal(np.load(folder / "z.npy"), all_of_it.vectors)
    # Also what happens at its end comes out, and nothing is left then.
    for stops, error in [(lambda done: done < 1, contcore.Cancelled), (lambda done: 1 / (1 - done), ZeroDivisionError)]:
        with pytest.raises(error):
            extractor.extract_to(folder / "no.npy", folder / "good", progress=stops)
        assert not (folder / "no.npy").exists()
    with pytest.raises(contcore.Error):
        contcore.Extractor("no network.onnx")
