"""Sampling, search and comparing: the answers of plain NumPy, and every kind of array."""

import gc
import os
import pickle
import threading
import weakref

import contcore
import numpy as np
import pandas
import pytest
import torch
from contcore import (
    Cancelled,
    Error,
    InputError,
    Memory,
    NearestIndex,
    Reservoir,
    UsageError,
    cover,
    greedy_sample,
    hausdorff,
    herding_sample,
    overlap,
    patchcore_sample,
    random_sample,
    sliced_wasserstein,
)
from helpers import LONG, check_python, random_rows, run_python

THREADS = [1, 2, 3, None]


def distances_between(a, b):
    """In float64; exact for small whole numbers."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    return np.sqrt(((a[:, None] - b[None]) ** 2).sum(axis=2))


def greedy_by_definition(points, count, *, base=None, start=None):
    """Picks, radii and covering radius of the plain loop; ties go to the lowest row."""
    points = np.asarray(points, dtype=np.float64)
    picks, radii = [], []
    if base is not None and len(base):
        nearest = distances_between(points, base).min(axis=1)
    else:
        from_mean = np.linalg.norm(points - points.mean(axis=0), axis=1)
        picks.append(int(np.argmax(from_mean)) if start is None else start)
        radii.append(np.inf)
        nearest = distances_between(points, points[picks])[:, 0]
    while len(picks) < count and nearest.max() > 0:
        picks.append(int(np.argmax(nearest)))
        radii.append(nearest.max())
        nearest = np.minimum(nearest, distances_between(points, points[picks[-1:]])[:, 0])
    return picks, radii, nearest.max()


def nearest_by_definition(queries, vectors, k):
    every = distances_between(queries, vectors)
    ids = np.argsort(every, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(every, ids, axis=1), ids


def check_greedy(found, points, count, **how):
    picks, radii, radius = greedy_by_definition(points, count, **how)
    assert found.picks.tolist() == picks
    np.testing.assert_allclose(found.radii, radii, rtol=1e-5)
    assert found.covering_radius == pytest.approx(radius, rel=1e-5)
    assert found.picks.dtype == np.int64 and found.radii.dtype == np.float32


# -- answers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [1, 2, 7, 64, 129])
def test_greedy_is_the_plain_loop(columns):
    points = random_rows(300, columns)
    check_greedy(greedy_sample(points, 60), points, 60)
    check_greedy(greedy_sample(points, 60, start=17), points, 60, start=17)
    base = random_rows(20, columns, seed=1) * 2
    check_greedy(greedy_sample(points, 60, base=base), points, 60, base=base)
    check_greedy(greedy_sample(points, 60, base=base[:0]), points, 60)


def test_greedy_of_halves_and_of_bytes():
    halves = random_rows(200, 9).astype(np.float16)
    check_greedy(greedy_sample(halves, 40), halves, 40)
    # Few different distances: ties go to the lowest row, as in the plain loop.
    grays = np.random.default_rng(0).integers(0, 4, (200, 5), dtype=np.uint8)
    check_greedy(greedy_sample(grays, 60, start=3), grays, 60, start=3)
    bright = np.random.default_rng(1).integers(0, 256, (200, 40), dtype=np.uint8)
    check_greedy(greedy_sample(bright, 60, base=bright[:7]), bright, 60, base=bright[:7])


def test_greedy_ends_where_all_are_covered():
    points = np.repeat(random_rows(5, 3), 4, axis=0)
    found = greedy_sample(points, 20)
    assert len(found.picks) == 5 and found.covering_radius == 0
    assert len(np.unique(points[found.picks], axis=0)) == 5
    assert greedy_sample(points, 20, base=points).picks.tolist() == []


def test_greedy_counts_and_ratios():
    points = random_rows(50, 4)
    assert len(greedy_sample(points, 500).picks) == 50
    assert sorted(greedy_sample(points, 50).picks) == list(range(50))
    assert len(greedy_sample(points, ratio=0.1).picks) == 5
    assert len(greedy_sample(points, ratio=1e-9).picks) == 1
    assert len(greedy_sample(points, ratio=1).picks) == 50
    assert greedy_sample(points[:1], 1).picks.tolist() == [0]
    assert greedy_sample(points[:1], 1).covering_radius == 0


def test_greedy_starts_at_random():
    points = random_rows(100, 4)
    starts = set()
    for seed in range(20):
        found = greedy_sample(points, 10, start="random", seed=seed)
        check_greedy(found, points, 10, start=int(found.picks[0]))
        again = greedy_sample(points, 10, start="random", seed=seed)
        assert again.picks.tolist() == found.picks.tolist()
        starts.add(int(found.picks[0]))
    assert len(starts) > 10


def test_greedy_stages_add_up():
    points = random_rows(3000, 32)
    for base in (None, points[:11] + 1):
        found = greedy_sample(points, 200, base=base)
        pairs = 3000 * (200 + (0 if base is None else len(base)))
        assert sum(number for _, number in found.stages) == pairs
        assert 0 < found.full_distances <= pairs


@pytest.mark.parametrize("columns", [1, 3, 64, 200])
@pytest.mark.parametrize("k", [1, 2, 10])
def test_nearest_is_brute_force(columns, k):
    vectors, queries = random_rows(400, columns), random_rows(70, columns, seed=1)
    distances, ids = NearestIndex(vectors).search(queries, k)
    expected, expected_ids = nearest_by_definition(queries, vectors, k)
    np.testing.assert_array_equal(ids, expected_ids)
    np.testing.assert_allclose(distances, expected, rtol=1e-5, atol=1e-6)
    assert distances.dtype == np.float32 and ids.dtype == np.int64
    assert ids.shape == distances.shape == (70, k)


def test_nearest_ties_go_to_the_lowest_id():
    grays = np.random.default_rng(0).integers(0, 3, (500, 4), dtype=np.uint8)
    distances, ids = NearestIndex(grays).search(grays[:100], 20)
    expected, expected_ids = nearest_by_definition(grays[:100], grays, 20)
    np.testing.assert_array_equal(ids, expected_ids)
    np.testing.assert_array_equal(distances, expected.astype(np.float32))
    same = np.ones((30, 3), dtype=np.float32)
    assert NearestIndex(same).search(same[:1], 30)[1].tolist() == [list(range(30))]


def test_nearest_of_too_few():
    vectors = random_rows(2, 3)
    distances, ids = NearestIndex(vectors).search(vectors, 4)
    assert ids.tolist() == [[0, 1, -1, -1], [1, 0, -1, -1]]
    assert np.isinf(distances[:, 2:]).all() and np.isfinite(distances[:, :2]).all()
    distances, ids = NearestIndex(vectors[:0]).search(vectors, 2)
    assert ids.tolist() == [[-1, -1], [-1, -1]] and np.isinf(distances).all()
    distances, ids = NearestIndex(vectors).search(vectors[:0], 3)
    assert distances.shape == ids.shape == (0, 3)


def test_nearest_add_and_drop():
    vectors, more = random_rows(100, 5), random_rows(50, 5, seed=1)
    index = NearestIndex(vectors)
    assert index.add(more) == 100 and len(index) == 150 and index.dimension == 5
    assert index.add(more[:0]) == 150
    gone = [3, 99, 100, 149]
    index.drop(gone)
    assert len(index) == 146
    every = np.concatenate([vectors, more])
    left = np.setdiff1d(np.arange(150), gone)
    _, ids = index.search(every, 3)
    np.testing.assert_array_equal(ids, left[nearest_by_definition(every, every[left], 3)[1]])
    assert index.add(vectors[3:4]) == 150  # ids are not given twice
    assert index.search(vectors[3:4])[1].tolist() == [[150]]
    index.drop([])
    assert "147" in repr(index) and "5" in repr(index)


def test_nearest_drops_all_or_nothing():
    vectors = random_rows(10, 2)
    index = NearestIndex(vectors)
    for ids in ([1, 99], [2, -1], [3, 3], np.array([4, 2**63 + 5], dtype=np.uint64)):
        with pytest.raises(UsageError):
            index.drop(ids)
        assert len(index) == 10
        assert index.search(vectors)[1].tolist() == [[i] for i in range(10)]
    for ids in ([1.0], [True], 3, ["1"], [[1]], None):
        with pytest.raises(TypeError, match="ids"):
            index.drop(ids)
    index.drop(np.arange(10))
    assert len(index) == 0 and index.search(vectors)[1].tolist() == [[-1]] * 10


def test_distances_of_a_memory():
    rows, queries = random_rows(500, 6), random_rows(40, 6, seed=1) * 2
    memory = Memory(6, 60)
    memory.learn(rows, "all", p=0.1)
    found = memory.distances(queries)
    assert found.dtype == np.float32 and found.shape == (40,)
    expected = distances_between(queries, memory.vectors).min(axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert memory.distances(queries[:0]).shape == (0,)


def test_cover_and_hausdorff():
    for columns in (1, 5, 70):
        a, b = random_rows(80, columns), random_rows(50, columns, seed=1) + 0.5
        every = distances_between(a, b)
        found = cover(a, b)
        assert found.largest == pytest.approx(every.min(axis=1).max(), rel=1e-5)
        assert found.average == pytest.approx(every.min(axis=1).mean(), rel=1e-5)
        both = max(every.min(axis=1).max(), every.min(axis=0).max())
        assert hausdorff(a, b) == pytest.approx(both, rel=1e-5)
    assert cover(a, by=a) == (0, 0) and hausdorff(a, a) == 0
    grays = np.array([[0, 0], [3, 4]], dtype=np.uint8)
    assert cover(grays, grays[:1]) == (5, 2.5) and cover(grays[:1], grays) == (0, 0)
    assert hausdorff(grays, grays[:1]) == hausdorff(grays[:1], grays) == 5


def herding_by_definition(points, count):
    points = np.asarray(points, dtype=np.float64)
    mean, total, picks = points.mean(axis=0), np.zeros(points.shape[1]), []
    for size in range(1, count + 1):
        away = np.linalg.norm(mean - (total + points) / size, axis=1)
        away[picks] = np.inf
        picks.append(int(np.argmin(away)))
        total += points[picks[-1]]
    return picks


@pytest.mark.parametrize("columns", [1, 3, 40])
def test_herding_is_the_plain_loop(columns):
    points = random_rows(200, columns)
    assert herding_sample(points, 30).tolist() == herding_by_definition(points, 30)
    assert sorted(herding_sample(points, 999)) == list(range(200))
    assert len(herding_sample(points, ratio=0.1)) == 20


def test_patchcore_covers():
    points = random_rows(1000, 8) @ random_rows(8, 300, seed=1)
    found = patchcore_sample(points, 100)
    assert len(set(found.picks.tolist())) == 100
    assert (np.diff(found.radii[1:]) <= 1e-3).all()
    # It is to be nearly as good as the exact one, and better than chance.
    exact = cover(points, points[greedy_sample(points, 100).picks]).largest
    chance = cover(points, points[random_sample(1000, 100)]).largest
    assert exact <= cover(points, points[found.picks]).largest < min(1.2 * exact, chance)
    assert patchcore_sample(points, 100).picks.tolist() == found.picks.tolist()
    assert patchcore_sample(points, 100, seed=1).picks.tolist() != found.picks.tolist()
    assert len(patchcore_sample(points, ratio=0.01).picks) == 10


def test_random_sample_is_uniform():
    counted = np.zeros(10)
    for seed in range(3000):
        picks = random_sample(10, 3, seed)
        assert len(set(picks.tolist())) == 3
        counted[picks] += 1
    # Each is drawn 900 times, give or take 25.
    assert abs(counted - 900).max() < 5 * 25
    assert random_sample(10, 3, 7).tolist() == random_sample(10, 3, 7).tolist()
    assert random_sample(10, 0).tolist() == [] and random_sample(0, 0).tolist() == []


def test_reservoir_is_uniform():
    counted = np.zeros(30)
    for seed in range(1500):
        sample, held = Reservoir(4, seed), {}
        for item in range(30):
            place = sample.offer()
            assert -1 <= place < 4 and (item >= 4 or place == item)
            if place >= 0:
                held[place] = item
        assert sample.held.tolist() == [held[place] for place in range(4)]
        counted[sample.held] += 1
    # Each is held 200 times, give or take 13.
    assert abs(counted - 200).max() < 5 * 13
    few = Reservoir(5)
    few.offer()
    assert few.held.tolist() == [0] and Reservoir(5).held.tolist() == []


def test_sliced_wasserstein_in_one_dimension():
    # There all directions are one, so that it is Wasserstein's distance.
    a, b = random_rows(60, 1), random_rows(60, 1, seed=1) * 2 + 1
    expected = np.sqrt(((np.sort(a, axis=0) - np.sort(b, axis=0)) ** 2).mean())
    assert sliced_wasserstein(a, b) == pytest.approx(expected, rel=1e-4)
    assert sliced_wasserstein([[0.0]], [[0.0], [2.0]]) == pytest.approx(np.sqrt(2), rel=1e-5)


def test_sliced_wasserstein_of_a_shift():
    a = random_rows(100, 8)
    assert sliced_wasserstein(a, a[::-1]) == pytest.approx(0, abs=1e-6)
    # A shift's share in a random direction is |shift| / sqrt(dimension) on average.
    moved = sliced_wasserstein(a, a + np.float32(3), directions=2000)
    assert moved == pytest.approx(3, rel=0.1)
    assert sliced_wasserstein(a, a + 1, seed=1) != sliced_wasserstein(a, a + 1, seed=2)
    assert sliced_wasserstein(a, a + 1, seed=1) == sliced_wasserstein(a, a + 1, seed=1)


def test_overlap():
    assert overlap([1, 2, 3], [3, 4, 1]) == 2 and overlap([], [1]) == 0
    assert overlap(np.arange(9)[::2], np.arange(9, dtype=np.uint8)) == 5
    for picks in (1, [1.5], ["1"], [[1]]):
        with pytest.raises(TypeError, match="whole numbers"):
            overlap(picks, [1])


@pytest.mark.parametrize("threads", THREADS)
def test_threads_do_not_change_the_answer(threads):
    points, others = random_rows(2000, 40), random_rows(300, 40, seed=1)
    for sample in (greedy_sample, patchcore_sample):
        alone, many = sample(points, 100, threads=1), sample(points, 100, threads=threads)
        np.testing.assert_array_equal(many.picks, alone.picks)
        np.testing.assert_array_equal(many.radii, alone.radii)
        assert many.covering_radius == alone.covering_radius
    np.testing.assert_array_equal(
        herding_sample(points, 50, threads=threads), herding_sample(points, 50, threads=1)
    )
    index = NearestIndex(points, threads=threads)
    index.add(others, threads=threads)
    reference = NearestIndex(np.concatenate([points, others]), threads=1)
    for mine, theirs in zip(
        index.search(others * 2, 5, threads=threads), reference.search(others * 2, 5, threads=1)
    ):
        np.testing.assert_array_equal(mine, theirs)
    for measure in (cover, hausdorff, sliced_wasserstein):
        assert measure(points, others, threads=threads) == measure(points, others, threads=1)


def test_memory_limit_does_not_change_the_answer():
    points = random_rows(5000, 24)
    free = greedy_sample(points, 200)
    with pytest.raises(InputError, match=r"at least \d+ bytes"):
        greedy_sample(points, 200, memory_limit=1)
    for limit in ("10M", "10MiB", 10 << 20, "0.01G", np.int64(10 << 20), "1T"):
        tight = greedy_sample(points, 200, memory_limit=limit)
        np.testing.assert_array_equal(tight.picks, free.picks)
        np.testing.assert_array_equal(tight.radii, free.radii)
        assert tight.covering_radius == free.covering_radius


# -- kinds of arrays ---------------------------------------------------------------------------------


class Arraylike:
    """Something that only says how to become an array."""

    def __init__(self, rows):
        self.rows = rows

    def __array__(self, dtype=None):
        return np.asarray(self.rows, dtype=dtype)


def read_only(rows):
    rows = rows.copy()
    rows.flags.writeable = False
    return rows


def every_second(rows):
    wide = np.zeros((2 * len(rows), rows.shape[1]), dtype=rows.dtype)
    wide[::2] = rows
    return wide[::2]


def with_gaps(rows):
    wide = np.full((len(rows), 2 * rows.shape[1] + 1), 99, dtype=rows.dtype)
    wide[:, 1::2] = rows
    return wide[:, 1::2]


LAYOUTS = {
    "Fortran": np.asfortranarray,
    "negative rows": lambda rows: rows[::-1].copy()[::-1],
    "negative columns": lambda rows: rows[:, ::-1].copy()[:, ::-1],
    "every second": every_second,
    "with gaps": with_gaps,
    "transposed": lambda rows: rows.T.copy().T,
    "read-only": read_only,
    "memoryview": memoryview,
    "matrix": np.asmatrix,
    "array-like": Arraylike,
    "list": lambda rows: [list(row) for row in rows],
    "tuple of rows": tuple,
    "pandas": pandas.DataFrame,
}


def check_all_take(points, same, base):
    """That every function answers for `points` as it does for `same`."""
    memory = Memory(same.shape[1], 30, dtype="uint8" if same.dtype == np.uint8 else "float32")
    memory.learn(points, "it", p=0.2)
    expected = Memory(same.shape[1], 30, dtype=memory.dtype)
    expected.learn(same, "it", p=0.2)
    np.testing.assert_array_equal(memory.vectors, expected.vectors)
    np.testing.assert_array_equal(memory.distances(points), expected.distances(same))
    found, reference = (greedy_sample(rows, 10, base=base) for rows in (points, same))
    assert found.picks.tolist() == reference.picks.tolist()
    assert found.radii.tolist() == reference.radii.tolist()
    for given in (points, same):
        assert NearestIndex(given).search(same, 3)[1].tolist() == (
            NearestIndex(same).search(given, 3)[1].tolist()
        )
    assert herding_sample(points, 5).tolist() == herding_sample(same, 5).tolist()
    assert patchcore_sample(points, 5).picks.tolist() == patchcore_sample(same, 5).picks.tolist()
    for measure in (cover, hausdorff, sliced_wasserstein):
        assert measure(points, base) == measure(same, base)
        assert measure(base, points) == measure(base, same)


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_layouts(name, dtype):
    if dtype == "uint8" and name in ("list", "tuple of rows"):
        dtype = "float32"  # bare numbers are floats
    rows = (random_rows(60, 5) * 40 + 128).astype(dtype)
    before = rows.copy()
    check_all_take(LAYOUTS[name](rows), rows, rows[:4])
    np.testing.assert_array_equal(rows, before)


def test_broadcast_arrays():
    row = np.arange(5, dtype=np.float32)
    found = greedy_sample(np.broadcast_to(row, (40, 5)), 7)
    assert found.picks.tolist() == [0] and found.covering_radius == 0
    columns = np.broadcast_to(np.arange(20, dtype=np.float32)[:, np.newaxis], (20, 3))
    check_all_take(columns, columns.copy(), columns[:2].copy())


def test_mapped_files(tmp_path):
    rows = random_rows(60, 5)
    np.save(tmp_path / "rows.npy", rows)
    for mode in ("r", "r+", "c"):
        check_all_take(np.load(tmp_path / "rows.npy", mmap_mode=mode), rows, rows[:4])
    np.testing.assert_array_equal(np.load(tmp_path / "rows.npy"), rows)


@pytest.mark.parametrize(
    "dtype", ["f8", "g", "i1", "i2", "i4", "i8", "u2", "u4", "u8", "?", ">f4", ">f8", ">i2", ">f2"]
)
def test_other_numbers_become_float32(dtype):
    rows = (random_rows(60, 5) * 5).clip(0, None).astype(dtype)
    check_all_take(rows, rows.astype(np.float32), random_rows(4, 5, seed=1))


def test_halves_are_the_floats_they_stand_for():
    halves = random_rows(60, 5).astype(np.float16)
    base = random_rows(4, 5, seed=1)
    floats = halves.astype(np.float32)
    for how in ({}, {"base": base}, {"base": base.astype(np.float16)}):
        mine, theirs = greedy_sample(halves, 20, **how), greedy_sample(floats, 20, **how)
        assert mine.picks.tolist() == theirs.picks.tolist()
        np.testing.assert_array_equal(mine.radii, theirs.radii)
    for vectors in (halves, floats):
        for queries in (halves, floats):
            distances, ids = NearestIndex(vectors).search(queries[:9] * 2, 2)
            expected = NearestIndex(floats).search(floats[:9] * 2, 2)
            np.testing.assert_array_equal(ids, expected[1])
            np.testing.assert_array_equal(distances, expected[0])


def test_bytes_and_floats_do_not_mix():
    floats = random_rows(20, 3)
    grays = np.ones((20, 3), dtype=np.uint8)
    floating, gray = Memory(3, 9), Memory(3, 9, dtype="uint8")
    floating.learn(floats, "it", p=0.2)
    gray.learn(grays, "it", p=0.2)
    assert gray.vectors.dtype == gray.dtype == np.uint8
    for call in (
        lambda: greedy_sample(floats, 3, base=grays),
        lambda: greedy_sample(grays, 3, base=floats),
        lambda: NearestIndex(grays).search(floats),
        lambda: NearestIndex(floats).add(grays),
        lambda: cover(floats, grays),
        lambda: hausdorff(grays, floats),
        lambda: sliced_wasserstein(grays, floats),
        lambda: floating.distances(grays),
        lambda: gray.learn(floats, "other"),
    ):
        with pytest.raises(InputError, match="bytes"):
            call()


def takers(points):
    """Every function that takes vectors, to be called with these."""
    good = random_rows(20, 3)
    memory = Memory(3, 9)
    memory.learn(good, "it", p=0.2)
    return {
        "greedy_sample": lambda: greedy_sample(points, 2),
        "greedy_sample base": lambda: greedy_sample(good, 2, base=points),
        "patchcore_sample": lambda: patchcore_sample(points, 2),
        "herding_sample": lambda: herding_sample(points, 2),
        "NearestIndex": lambda: NearestIndex(points),
        "NearestIndex.add": lambda: NearestIndex(good).add(points),
        "NearestIndex.search": lambda: NearestIndex(good).search(points),
        "cover": lambda: cover(points, good),
        "cover by": lambda: cover(good, points),
        "hausdorff": lambda: hausdorff(points, good),
        "hausdorff b": lambda: hausdorff(good, points),
        "sliced_wasserstein": lambda: sliced_wasserstein(points, good),
        "sliced_wasserstein b": lambda: sliced_wasserstein(good, points),
        "Memory.learn": lambda: memory.learn(points, "other"),
        "Memory.learn_online": lambda: memory.learn_online(points, "it"),
        "Memory.distances": lambda: memory.distances(points),
    }


TAKERS = list(takers(random_rows(20, 3)))


@pytest.mark.parametrize("taker", TAKERS)
def test_what_is_no_vectors_is_refused(taker):
    good = random_rows(6, 3)
    for wrong in (
        good.astype(object),
        good.astype(complex),
        good.astype(str),
        good.astype(bytes),
        good.astype("M8[s]"),
        np.zeros((6, 3), dtype=[("x", "f4")]),
        np.full((6, 3), None),
        [[1, 2, 3], [4, 5]],
        "text",
        {1: 2},
        object(),
    ):
        with pytest.raises(TypeError, match="vectors|array of numbers"):
            takers(wrong)[taker]()
    for wrong in (good[0], good[np.newaxis], np.float32(3), [1, 2, 3], []):
        with pytest.raises(UsageError, match="two dimensions"):
            takers(wrong)[taker]()
    for wrong in (good[:, :0], np.zeros((0, 0))):
        with pytest.raises(InputError, match="no numbers"):
            takers(wrong)[taker]()
    with pytest.raises(InputError, match="masked"):
        takers(np.ma.masked_array(good, good > 0))[taker]()


def test_arrays_that_could_be_masked_but_are_not():
    rows = random_rows(30, 3)
    found = greedy_sample(np.ma.masked_array(rows), 5).picks
    assert found.tolist() == greedy_sample(rows, 5).picks.tolist()


@pytest.mark.parametrize("taker", TAKERS)
def test_what_is_not_finite_is_refused(taker):
    for value in (np.nan, np.inf, -np.inf):
        for dtype in ("float32", "float16", "float64"):
            wrong = random_rows(6, 3).astype(dtype)
            wrong[4, 1] = value
            with pytest.raises(InputError, match="row 4"):
                takers(wrong)[taker]()
    # Too large for float32.
    huge = random_rows(6, 3).astype(np.float64)
    huge[4, 1] = 1e300
    with pytest.raises(InputError, match="row 4 is too large"):
        takers(huge)[taker]()


# The sliced Wasserstein distance is computed in double, where they fit.
ROOMY = {"NearestIndex", "sliced_wasserstein", "sliced_wasserstein b"}


@pytest.mark.parametrize("taker", sorted(set(TAKERS) - ROOMY))
def test_squares_that_overflow_are_refused(taker):
    # Finite, but distances of them are not.
    huge = random_rows(20, 3) * np.float32(1e30)
    with pytest.raises(InputError, match="large|overflow|scale"):
        takers(huge)[taker]()


@pytest.mark.parametrize(
    "taker", [name for name in TAKERS if name not in ("greedy_sample", "patchcore_sample",
                                                      "herding_sample", "NearestIndex")]
)
def test_another_dimension_is_refused(taker):
    with pytest.raises(InputError, match=r"\b4\b.*\b3\b|\b3\b.*\b4\b"):
        takers(random_rows(6, 4))[taker]()


@pytest.mark.parametrize("taker", TAKERS)
def test_no_rows(taker):
    none = np.zeros((0, 3), dtype=np.float32)
    if taker.startswith(("NearestIndex", "Memory.distances")) or taker == "greedy_sample base":
        takers(none)[taker]()
    else:
        with pytest.raises(InputError):
            takers(none)[taker]()


@pytest.mark.parametrize("taker", TAKERS)
def test_one_row(taker):
    takers(random_rows(1, 3))[taker]()


# -- other arguments ---------------------------------------------------------------------------------


def test_how_many_to_pick():
    points = random_rows(20, 3)
    for sample in (greedy_sample, patchcore_sample, herding_sample):
        for count in (0, -1, -(2**70)):
            with pytest.raises(UsageError, match="count"):
                sample(points, count)
        for count in (True, 1.0, "3", [3]):
            with pytest.raises(TypeError, match="count"):
                sample(points, count)
        for ratio in (0, -0.1, 1.1, float("nan"), float("inf")):
            with pytest.raises(UsageError, match="ratio"):
                sample(points, ratio=ratio)
        for how in ({}, {"count": 3, "ratio": 0.5}):
            with pytest.raises(UsageError, match="count or ratio"):
                sample(points, **how)
        sample(points, np.int32(3))
    for sample in (greedy_sample, patchcore_sample):
        with pytest.raises(UsageError, match="seed"):
            sample(points, 3, seed=-1)
        with pytest.raises(TypeError, match="seed"):
            sample(points, 3, seed=1.5)


def test_where_to_start():
    points = random_rows(20, 3)
    assert greedy_sample(points, 1, start=19).picks.tolist() == [19]
    assert greedy_sample(points, 1, start=np.uint8(7)).picks.tolist() == [7]
    for start in (20, -1, "median", "", 2**70):
        with pytest.raises(UsageError, match="start"):
            greedy_sample(points, 1, start=start)
    for start in (1.0, None, True, [1]):
        with pytest.raises(TypeError, match="start"):
            greedy_sample(points, 1, start=start)


def test_memory_limits_that_are_none():
    points = random_rows(20, 3)
    for limit in ("", "abc", "-1M", -1, 1.5, "nan", "inf", True, "1 000", [1]):
        with pytest.raises(UsageError, match="memory_limit"):
            greedy_sample(points, 3, memory_limit=limit)
    # More than any machine has is a limit all the same, or refused by its name.
    for limit in (2**62, 2**80, "999999T"):
        try:
            greedy_sample(points, 3, memory_limit=limit)
        except UsageError as error:
            assert "memory_limit" in str(error)


def with_threads(threads):
    points = random_rows(20, 3)
    index = NearestIndex(points)
    memory = Memory(3, 9)
    memory.learn(points, "it", p=0.2)
    return [
        lambda: greedy_sample(points, 2, threads=threads),
        lambda: patchcore_sample(points, 2, threads=threads),
        lambda: herding_sample(points, 2, threads=threads),
        lambda: NearestIndex(points, threads=threads),
        lambda: index.add(points, threads=threads),
        lambda: index.search(points, threads=threads),
        lambda: cover(points, points, threads=threads),
        lambda: hausdorff(points, points, threads=threads),
        lambda: sliced_wasserstein(points, points, threads=threads),
        lambda: memory.learn(points, "it", threads=threads),
        lambda: memory.learn_online(points, "it", threads=threads),
        lambda: memory.distances(points, threads=threads),
        lambda: memory.shrink(3, threads=threads),
        lambda: Memory.merge(memory, memory.copy(), threads=threads),
    ]


def test_thread_counts():
    for threads in (0, -1, 2**64):
        for call in with_threads(threads):
            with pytest.raises(UsageError, match="threads"):
                call()
    for threads in (True, 1.5, "2", 2.0):
        for call in with_threads(threads):
            with pytest.raises(TypeError, match="threads"):
                call()
    for threads in (None, 1, np.int64(2), np.uint8(3), 64):
        for call in with_threads(threads):
            call()


def on_device(device):
    points = random_rows(60, 3)
    index = NearestIndex(points, device=device)
    memory = Memory(3, 9)
    memory.learn(points, "it", p=0.2, device=device)
    memory.learn_online(points[:9] + 1, "it", device=device)
    return [
        greedy_sample(points, 9, device=device).picks,
        patchcore_sample(points, 9, device=device).picks,
        herding_sample(points, 9, device=device),
        index.add(points + 1, device=device),
        *index.search(points * 2, 2, device=device),
        cover(points, points[:5], device=device),
        hausdorff(points, points[:5], device=device),
        sliced_wasserstein(points, points[:5], device=device),
        memory.vectors,
        memory.distances(points * 2, device=device),
        memory.shrink(3, device=device).vectors,
        Memory.merge(memory, memory.copy(), 5, device=device).vectors,
    ]


def test_devices_do_not_change_the_answer():
    expected = on_device("cpu")
    for device in ["auto", *(device.name for device in contcore.devices())]:
        for ours, theirs in zip(on_device(device), expected):
            np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(on_device(torch.device("cpu")), expected):
        np.testing.assert_array_equal(ours, theirs)


def test_devices():
    processor, *gpus = contcore.devices()
    assert (processor.name, processor.memory) == ("cpu", None) and "thread" in processor.text
    assert all(gpu.name.startswith("cuda:") and gpu.memory > 2**30 for gpu in gpus)
    points = random_rows(20, 3)
    for device in ("gpu", "", "mps", "cuda:", "cuda:x", "cuda:-1"):
        with pytest.raises(UsageError, match="is not a device"):
            greedy_sample(points, 2, device=device)
    for device in (None, 0, 1.5, ["cpu"], b"cpu"):
        with pytest.raises(TypeError, match="device"):
            greedy_sample(points, 2, device=device)
    for device in ("cuda:999", *([] if gpus else ["cuda", "cuda:0"])):
        with pytest.raises(UsageError, match="cannot be used: .*device cpu does without it"):
            NearestIndex(points, device=device)


def test_more_threads_than_a_machine_can_have():
    # Refused at once, or as many as are of use; not thousands of threads started in vain.
    done = run_python(
        """
        import contcore, numpy
        index = contcore.NearestIndex(numpy.eye(3, dtype="f4"))
        try:
            print(index.search(numpy.eye(3, dtype="f4"), threads=100_000)[1].ravel())
        except contcore.UsageError as error:
            assert "threads" in str(error)
            print("[0 1 2]")
        """
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[0 1 2]"), done.stderr[-500:]


def test_how_many_neighbours():
    index = NearestIndex(random_rows(20, 3))
    for k in (0, -1, 2**70):
        with pytest.raises(UsageError, match="k"):
            index.search(random_rows(2, 3), k)
    for k in (True, 1.5, "1", None):
        with pytest.raises(TypeError, match="k"):
            index.search(random_rows(2, 3), k)
    assert index.search(random_rows(2, 3), np.int8(3))[1].shape == (2, 3)


@pytest.mark.parametrize("k", [2**40, 2**61, 2**62, 2**63 - 1])
def test_more_neighbours_than_memory(k):
    if k == 2**40 and "asan" in os.environ.get("LD_PRELOAD", ""):
        return  # the sanitizer ends whoever asks for so much
    done = run_python(
        """
        import sys, contcore, numpy
        index = contcore.NearestIndex(numpy.eye(3, dtype="f4"))
        try:
            index.search(numpy.eye(3, dtype="f4"), int(sys.argv[1]))
        except (contcore.Error, MemoryError) as error:
            print("refused")
        """,
        k,
    )
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr[-500:]


def test_numbers_that_make_no_sense():
    for call in (
        lambda: random_sample(-1, 1),
        lambda: random_sample(3, -1),
        lambda: random_sample(3, 1, -1),
        lambda: Reservoir(0),
        lambda: Reservoir(-1),
        lambda: Reservoir(3, -1),
        lambda: sliced_wasserstein([[1]], [[1]], directions=0),
        lambda: sliced_wasserstein([[1]], [[1]], seed=-1),
        lambda: Memory(0, 3),
        lambda: Memory(3, 0),
        lambda: Memory(2**62, 2**62),
        lambda: Memory(3, 3, dtype="float64"),
        lambda: Memory(3, 3, q=2),
        lambda: Memory(3, 3, q=float("nan")),
        lambda: Memory(3, 3, consolidate="so"),
    ):
        with pytest.raises(UsageError):
            call()
    for call in (
        lambda: random_sample(1.0, 1),
        lambda: Reservoir(1.0),
        lambda: Memory("3", 3),
        lambda: Memory(3, None),
    ):
        with pytest.raises(TypeError, match="whole number"):
            call()
    memory = Memory(3, 9)
    memory.learn(random_rows(20, 3), "it", p=0.2)
    for call in (
        lambda: greedy_sample(random_rows(9, 3), ratio="0.5"),
        lambda: memory.tasks_at("0.05"),
        lambda: memory.set_threshold("it", "5"),
        lambda: memory.set_threshold("it", false_alarms="5"),
        lambda: memory.set_threshold(5, 5),
    ):
        with pytest.raises(TypeError, match="needed, not"):
            call()


def test_text_that_has_no_utf8():
    memory, half = Memory(3, 9), "\udcff"
    for call in (
        lambda: memory.learn(random_rows(20, 3), half),
        lambda: memory.learn(random_rows(20, 3), "a\0b"),
        lambda: greedy_sample(random_rows(9, 3), 2, device=half),
        lambda: greedy_sample(random_rows(9, 3), 2, device="cpu\0"),
    ):
        with pytest.raises(UsageError, match="has a character that no text has"):
            call()


def test_a_few_of_very_many():
    # It draws five; nobody has memory for all of them.
    done = run_python(
        """
        import contcore
        try:
            print(len(set(contcore.random_sample(2**62, 5).tolist())))
        except (contcore.Error, MemoryError) as error:
            print(5)
        """
    )
    assert (done.returncode, done.stdout) == (0, "5\n"), done.stderr[-500:]


def test_results_can_be_compared_and_kept():
    points = random_rows(20, 3)
    found = greedy_sample(points, 3)
    assert found in [greedy_sample(points, 2), found]  # == of arrays is not to get in the way
    again = pickle.loads(pickle.dumps(found))
    assert again.picks.tolist() == found.picks.tolist() and again.stages == found.stages


# -- tensors -----------------------------------------------------------------------------------------


def test_tensors():
    rows = random_rows(60, 5)
    check_all_take(torch.from_numpy(rows), rows, rows[:4])
    check_all_take(torch.from_numpy(rows).double(), rows, rows[:4])
    check_all_take(torch.from_numpy(rows.T.copy()).T, rows, rows[:4])
    check_all_take(torch.from_numpy(with_gaps(rows)), rows, rows[:4])
    whole = (rows * 9).astype(np.int64)
    check_all_take(torch.from_numpy(whole), whole.astype(np.float32), rows[:4])
    grays = (rows * 40 + 128).astype(np.uint8)
    check_all_take(torch.from_numpy(grays), grays, grays[:4])
    halves = torch.from_numpy(rows).half()
    assert greedy_sample(halves, 9).picks.tolist() == greedy_sample(halves.numpy(), 9).picks.tolist()
    assert greedy_sample(torch.from_numpy(rows).requires_grad_().detach(), 1).picks[0] == (
        greedy_sample(rows, 1).picks[0]
    )


@pytest.mark.parametrize("taker", TAKERS)
def test_tensors_that_cannot_be_used(taker):
    rows = torch.from_numpy(random_rows(20, 3))
    for wrong in (
        rows.clone().requires_grad_(),
        rows.bfloat16(),
        rows.to_sparse(),
        rows.to("meta"),
        rows + 1j,
    ):
        with pytest.raises(TypeError, match="float32, float16 or uint8"):
            takers(wrong)[taker]()
    with pytest.raises(TypeError, match="detach"):
        takers(rows.clone().requires_grad_())[taker]()


def test_a_tensor_stays_while_it_is_used():
    rows = random_rows(1000, 20)
    index = NearestIndex(torch.from_numpy(rows).clone())
    index.add(torch.from_numpy(rows).clone() + 9)
    gc.collect()
    torch.zeros(2000, 20)  # takes what is free
    assert index.search(rows)[1].ravel().tolist() == list(range(1000))
    assert index.search(rows + 9)[1].ravel().tolist() == list(range(1000, 2000))


# -- no copies ---------------------------------------------------------------------------------------


def test_an_array_stays_as_long_as_the_index():
    vectors, more = random_rows(100, 8), random_rows(100, 8, seed=1)
    expected, expected_more = vectors.copy(), more.copy()
    kept, kept_more = weakref.ref(vectors), weakref.ref(more)
    index = NearestIndex(vectors)
    index.add(more)
    del vectors, more
    gc.collect()
    assert kept() is not None and kept_more() is not None
    assert index.search(expected)[1].ravel().tolist() == list(range(100))
    assert index.search(expected_more)[1].ravel().tolist() == list(range(100, 200))
    del index
    gc.collect()
    assert kept() is None and kept_more() is None


def test_what_was_only_looked_at_is_let_go():
    points = random_rows(100, 8)
    kept = weakref.ref(points)
    memory = Memory(8, 20)
    memory.learn(points, "it", p=0.1)
    result = greedy_sample(points, 5), herding_sample(points, 5), cover(points, points)
    assert NearestIndex(random_rows(3, 8)).search(points)[1].shape == (100, 1)
    for wrong in ({"count": 0}, {"count": 1, "threads": 0}):
        with pytest.raises(UsageError):
            greedy_sample(points, **wrong)
    del points
    gc.collect()
    assert kept() is None and result


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
@pytest.mark.parametrize(
    "call",
    [
        "keep = contcore.NearestIndex(points)\nkeep.search(points[:2])",
        "contcore.greedy_sample(points, 3)",
        "contcore.cover(points, points[:5])",
        "contcore.NearestIndex(points[:5]).search(points)",
        "contcore.Memory(1024, 9, dtype=kind).learn(points, 'it', p=1e-9)",
    ],
    ids=["index", "greedy", "cover", "search", "learn"],
)
def test_large_arrays_are_not_copied(dtype, call):
    grown = check_python(
        """
        import resource, sys, contcore, numpy

        def run(points):
            exec(sys.argv[2])

        dtype = numpy.dtype(sys.argv[1])
        kind = "uint8" if dtype == "uint8" else "float32"
        small = numpy.arange(256 * 1024).reshape(256, 1024) % 251
        small = small.astype(dtype)
        run(small)
        points = numpy.tile(small, (200 * 2**20 // small.nbytes, 1))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        run(points)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        """,
        dtype,
        call,
    )
    # Kilobytes; the array has 200 MiB.
    assert int(grown) < 100 * 1024


# -- progress, and stopping --------------------------------------------------------------------------


def long_calls(progress):
    """Calls that tell of their progress."""
    points = random_rows(8000, 32)
    memory = Memory(32, 2000)
    index = NearestIndex(points)
    return {
        "greedy_sample": lambda: greedy_sample(points, 800, progress=progress),
        "patchcore_sample": lambda: patchcore_sample(points, 800, progress=progress),
        "herding_sample": lambda: herding_sample(points, 400, progress=progress),
        "NearestIndex.search": lambda: index.search(points, 5, progress=progress),
        "Memory.learn": lambda: memory.learn(points, "it", p=0.1, progress=progress),
    }


LONG_CALLS = list(long_calls(None))


@pytest.mark.parametrize("name", LONG_CALLS)
def test_progress_rises(name):
    seen, where = [], set()

    def tell(done):
        seen.append(done)
        where.add(threading.get_ident())

    long_calls(tell)[name]()
    assert seen and all(isinstance(done, float) for done in seen)
    assert seen == sorted(seen) and 0 <= seen[0] and seen[-1] <= 1
    assert where == {threading.get_ident()}


@pytest.mark.parametrize("name", LONG_CALLS)
def test_only_false_stops(name):
    with pytest.raises(Cancelled):
        long_calls(lambda done: False)[name]()
    with pytest.raises(Cancelled):
        long_calls(lambda done: np.bool_(False))[name]()
    for answer in (None, 0, "", True, []):
        long_calls(lambda done, answer=answer: answer)[name]()


@pytest.mark.parametrize("name", LONG_CALLS)
def test_an_error_of_the_callback_passes(name):
    class Mine(Exception):
        pass

    for error in (Mine("so"), SystemExit(3), KeyboardInterrupt(), StopIteration(5)):

        def fail(done, error=error):
            raise error

        with pytest.raises(type(error)) as caught:
            long_calls(fail)[name]()
        assert caught.value is error
    # Nothing is left behind by it.
    assert greedy_sample(random_rows(50, 3), 5).picks.shape == (5,)


def test_what_is_no_callback():
    points = random_rows(50, 3)
    for progress in ("yes", 1, 0.5, []):
        with pytest.raises(TypeError, match="progress"):
            greedy_sample(points, 5, progress=progress)
    with pytest.raises(TypeError, match="argument"):
        greedy_sample(random_rows(5000, 8), 500, progress=lambda: None)


def test_a_cancelled_memory_is_as_before():
    memory = Memory(32, 500)
    memory.learn(random_rows(900, 32), "first", p=0.1)
    before = memory.vectors
    for answer in (lambda done: False, lambda done: 1 / 0):
        with pytest.raises((Cancelled, ZeroDivisionError)):
            memory.learn(random_rows(9000, 32, seed=1), "second", p=0.1, progress=answer)
        np.testing.assert_array_equal(memory.vectors, before)
        assert [task.name for task in memory.tasks] == ["first"]
    memory.learn(random_rows(900, 32, seed=1), "second", p=0.1)
    assert len(memory.tasks) == 2


def test_a_bar(capsys):
    for what, name in (("picking", "greedy_sample"), ("learning it", "Memory.learn")):
        long_calls(True)[name]()
        shown = capsys.readouterr()
        assert what in shown.err and "%" in shown.err and not shown.out
    long_calls(False)["greedy_sample"]()
    assert capsys.readouterr() == ("", "")


def test_a_bar_without_tqdm(capsys, monkeypatch):
    for module in ("tqdm", "tqdm.auto"):
        monkeypatch.setitem(__import__("sys").modules, module, None)
    long_calls(True)["greedy_sample"]()
    assert "picking" in capsys.readouterr().err


@pytest.mark.parametrize(
    "call",
    [
        "greedy_sample(points, 200_000)",
        "greedy_sample(points, 200_000, progress=lambda done: None)",
        "patchcore_sample(points, 200_000)",
        "herding_sample(points, 200_000)",
        "index.search(points, 1000)",
        "memory.learn(points, 'second', p=1)",
    ],
)
def test_interrupts_stop_it(call):
    # Each of these would take many minutes. (Not by eval: Python then ends as if it had not been caught.)
    shown = check_python(
        """
        import os, signal, sys, threading, contcore, numpy
        from contcore import *

        points = numpy.random.default_rng(0).normal(size=(200_000, 64)).astype("f4")
        index = NearestIndex(points)
        memory = Memory(64, 200_000)
        memory.learn(points[:500], "first", p=0.1)
        before = memory.vectors
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            CALL
        except KeyboardInterrupt:
            print("stopped")
        assert greedy_sample(points[:100], 5).picks.shape == (5,)
        assert index.search(points[:5])[1].ravel().tolist() == [0, 1, 2, 3, 4]
        assert numpy.array_equal(memory.vectors, before)
        memory.learn(points[:500] + 5, "second", p=0.1)
        print(len(memory.tasks))
        """.replace("CALL", call)
    )
    assert shown == "stopped\n2\n"


@pytest.mark.parametrize(
    "call",
    [
        "greedy_sample(points, 200_000)",
        "patchcore_sample(points, 200_000)",
        "herding_sample(points, 200_000)",
        "index.search(points, 1000)",
        "cover(points, points[::-1])",
        "sliced_wasserstein(points, points[::-1], directions=1_000_000)",
        "memory.learn(points, 'it', p=1)",
    ],
)
def test_others_go_on_meanwhile(call):
    shown = check_python(
        """
        import os, sys, threading, time, numpy
        from contcore import *

        points = numpy.random.default_rng(0).normal(size=(200_000, 64)).astype("f4")
        index, memory = NearestIndex(points), Memory(64, 200_000)
        begun = threading.Event()

        def work():
            begun.set()
            eval(sys.argv[1])

        worker = threading.Thread(target=work, daemon=True)
        worker.start()
        begun.wait()
        time.sleep(0.3)  # until it is in there
        count = 0
        while count < 100_000:
            count += 1
        print(worker.is_alive(), flush=True)
        os._exit(0)
        """,
        call,
    )
    assert shown == "True\n"


@pytest.mark.parametrize(
    "call, again",
    [
        ("index.search(points, 5, progress={})", "index.search(points[:1])"),
        ("index.search(points, 5, progress={})", "index.add(points[:1])"),
        ("index.search(points, 5, progress={})", "index.drop([0])"),
        ("memory.learn(points, 'x', p=0.1, progress={})", "memory.distances(points[:1])"),
        ("memory.learn(points, 'x', p=0.1, progress={})", "memory.learn(points[:9], 'y')"),
        ("memory.learn(points, 'x', p=0.1, progress={})", "memory.vectors"),
        ("memory.learn(points, 'x', p=0.1, progress={})", "memory.save(os.devnull)"),
        ("memory.learn(points, 'x', p=0.1, progress={})", "memory.copy()"),
        ("memory.learn(points, 'x', p=0.1, progress={})", "Memory.merge(memory, memory)"),
    ],
)
def test_a_callback_that_uses_what_called_it(call, again):
    # Not a deadlock; what only looks may be answered while others only look.
    shown = check_python(
        """
        import os, sys, numpy
        from contcore import *

        points = numpy.random.default_rng(0).normal(size=(9000, 32)).astype("f4")
        index, memory = NearestIndex(points), Memory(32, 3000)
        memory.learn(points[:500], "first", p=0.1)
        looks = "search(points[:1])" in sys.argv[2]

        def use(done):
            eval(sys.argv[2])

        try:
            eval(sys.argv[1].format("use"))
            print("refused" if looks else "answered")
        except UsageError as error:
            print("refused" if "callback" in str(error) else error)
        assert len(memory.tasks) == 1 and len(index) == 9000
        """,
        call,
        again,
    )
    assert shown == "refused\n"


def test_a_callback_may_use_others():
    shown = check_python(
        """
        import numpy
        from contcore import *

        points = numpy.random.default_rng(0).normal(size=(9000, 32)).astype("f4")
        memory, other = Memory(32, 3000), Memory(32, 3000)

        def use(done):
            greedy_sample(points, 50, progress=lambda done: None)
            NearestIndex(points).search(points[:9])
            other.learn(points[:900], "it", p=0.1, progress=lambda done: None)

        memory.learn(points, "it", p=0.1, progress=use)
        assert greedy_sample(points, 500, progress=use).picks.tolist() == (
            greedy_sample(points, 500).picks.tolist()
        )
        print(len(memory.tasks), len(other.tasks))
        """
    )
    assert shown == "1 1\n"


def test_many_threads_of_python():
    points = random_rows(3000, 16)
    index = NearestIndex(points)
    expected = greedy_sample(points, 50).picks.tolist(), index.search(points[:200], 3)[1].tolist()
    wrong = []

    def ask():
        for _ in range(5):
            answers = greedy_sample(points, 50).picks.tolist(), index.search(points[:200], 3)[1].tolist()
            if answers != expected:
                wrong.append(answers)

    def change():
        for _ in range(20):
            first = index.add(points[:3] + 100)
            index.drop([first, first + 1, first + 2])

    threads = [threading.Thread(target=work) for work in (ask, ask, ask, change)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
        assert not thread.is_alive()
    assert not wrong and len(index) == 3000


def test_errors_are_of_one_family():
    for kind in (UsageError, InputError, contcore.DamagedError, Cancelled, contcore.InternalError):
        assert issubclass(kind, Error)
    assert issubclass(UsageError, ValueError) and issubclass(InputError, ValueError)
