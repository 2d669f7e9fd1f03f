"""Sampling, search and comparing, on any vectors."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import Any, NamedTuple, Optional, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from . import _contcore
from ._arrays import DeviceName, as_indices, as_vectors, parse_size, part, where, whole
from ._errors import InputError, UsageError
from ._progress import Progress, told


@dataclass(frozen=True, eq=False)
class GreedyResult:
    """What greedy sampling picked."""

    picks: NDArray[np.int64]
    """Rows in the order they were picked. Fewer than asked for when there are fewer distinct ones."""
    radii: NDArray[np.float32]
    """Distance of each pick, when it was picked, to base and earlier picks; infinite for a first."""
    covering_radius: float
    """The largest distance of any point to its nearest among base and picks."""
    stages: Tuple[Tuple[str, int], ...]
    """How many pairs of a point and a pick each stage settled."""
    full_distances: int
    """Distances that were computed in full."""


def _count(rows: int, count: Optional[int], ratio: Optional[float]) -> int:
    if (count is None) == (ratio is None):
        raise UsageError("how many to pick? Give either count or ratio")
    if rows == 0:
        raise InputError("points: there are none to pick from")
    if count is not None:
        return min(whole(count, "count", 1), rows)
    assert ratio is not None
    if not 0 < part(ratio, "ratio") <= 1:
        raise UsageError(f"ratio {ratio} is not a part; it must be above 0 and at most 1")
    return min(max(floor(ratio * rows), 1), rows)


def greedy_sample(
    points: Any,
    count: Optional[int] = None,
    *,
    ratio: Optional[float] = None,
    base: Any = None,
    start: Union[str, int] = "mean",
    seed: int = 0,
    memory_limit: Union[int, str, None] = None,
    threads: Optional[int] = None,
    device: DeviceName = "auto",
    progress: Progress = None,
) -> GreedyResult:
    """Greedy (farthest-point) sampling: picks the point farthest from the base and the picks
    before, again and again. The answer is the plain loop's to the last bit.

    `points` and `base` are arrays of vectors, a row each: float32, float16 or uint8, used in place
    where they are C-contiguous; other numbers become float32. The first pick without a base is the
    point farthest from the mean, a random one (`start="random"`, by `seed`) or `start=INDEX`.
    `memory_limit` (bytes, or such as "512M") costs time, never the answer.

    >>> import numpy as np
    >>> points = np.array([[0, 0], [1, 0], [10, 0], [10, 1]], dtype=np.float32)
    >>> found = greedy_sample(points, 2, start=0)
    >>> found.picks
    array([0, 3])
    >>> found.covering_radius
    1.0
    >>> greedy_sample(points, 1, base=points[:2]).picks
    array([3])
    """
    vectors = as_vectors(points, "points")
    if isinstance(start, str):
        if start not in ("mean", "random"):
            raise UsageError(f"start {start!r} is neither 'mean', 'random' nor an index")
        how, index = start, 0
    else:
        how, index = "index", whole(start, "start")
        if index >= len(vectors):
            raise UsageError(f"start {index}: there are {len(vectors)} points")
    with told(progress, "picking") as callback:
        picks, radii, radius, stages, full = _contcore.greedy_sample(
            vectors,
            None if base is None else as_vectors(base, "base"),
            _count(len(vectors), count, ratio),
            how,
            index,
            whole(seed, "seed"),
            parse_size(memory_limit, "memory_limit"),
            where(threads, device),
            callback,
        )
    return GreedyResult(picks, radii, radius, stages, full)


def patchcore_sample(
    points: Any,
    count: Optional[int] = None,
    *,
    ratio: Optional[float] = None,
    seed: int = 0,
    memory_limit: Union[int, str, None] = None,
    threads: Optional[int] = None,
    device: DeviceName = "auto",
    progress: Progress = None,
) -> GreedyResult:
    """PatchCore's approximate greedy sampling: in a seeded random projection to 128 dimensions, from
    10 random starting points. The radii are distances in the projection."""
    vectors = as_vectors(points, "points")
    _check_finite(vectors, "points")
    with told(progress, "picking") as callback:
        picks, radii, radius, stages, full = _contcore.patchcore_sample(
            vectors,
            _count(len(vectors), count, ratio),
            whole(seed, "seed"),
            parse_size(memory_limit, "memory_limit"),
            where(threads, device),
            callback,
        )
    return GreedyResult(picks, radii, radius, stages, full)


def herding_sample(
    points: Any,
    count: Optional[int] = None,
    *,
    ratio: Optional[float] = None,
    threads: Optional[int] = None,
    device: DeviceName = "auto",
    progress: Progress = None,
) -> NDArray[np.int64]:
    """Herding: picks so that the mean of the picks stays as near as possible to the mean of all."""
    vectors = as_vectors(points, "points")
    _check_finite(vectors, "points")
    wanted = _count(len(vectors), count, ratio)
    with told(progress, "picking") as callback:
        return _contcore.herding_sample(vectors, wanted, where(threads, device), callback)


def random_sample(rows: int, count: int, seed: int = 0) -> NDArray[np.int64]:
    """`count` of `rows` indices, uniformly without replacement; the same seed gives the same ones.

    >>> sorted(random_sample(3, 3).tolist())
    [0, 1, 2]
    """
    return _contcore.random_sample(
        whole(rows, "rows"), whole(count, "count"), whole(seed, "seed")
    )


class Reservoir:
    """A uniform sample of a stream whose length is not known (Vitter's algorithm R).

    >>> sample = Reservoir(2)
    >>> [sample.offer() for _ in range(2)]
    [0, 1]
    >>> sample.held
    array([0, 1])
    """

    def __init__(self, places: int, seed: int = 0) -> None:
        self._reservoir = _contcore.Reservoir(whole(places, "places", 1), whole(seed, "seed"))

    def offer(self) -> int:
        """The next item passes by: the place it takes, or −1 if it is let go."""
        return self._reservoir.offer()

    @property
    def held(self) -> NDArray[np.int64]:
        """The number in the stream of the item that holds each place."""
        return self._reservoir.held()


class NearestIndex:
    """Exact nearest neighbours: brute force's answer to the last bit, ties to the lowest id.

    The vectors are not copied. They must not be changed as long as the index is there.

    >>> import numpy as np
    >>> index = NearestIndex(np.eye(3, dtype=np.float32))
    >>> distances, ids = index.search([[0.9, 0.0, 0.0]])
    >>> ids
    array([[0]])
    """

    def __init__(
        self, vectors: Any, *, threads: Optional[int] = None, device: DeviceName = "auto"
    ) -> None:
        self._index = _contcore.NearestIndex(
            as_vectors(vectors, "vectors"), where(threads, device)
        )

    def __len__(self) -> int:
        return self._index.size()

    def __repr__(self) -> str:
        return f"<contcore.NearestIndex of {len(self)} vectors of {self.dimension} numbers>"

    @property
    def dimension(self) -> int:
        """Numbers of a vector."""
        return self._index.dimension()

    def add(
        self, vectors: Any, *, threads: Optional[int] = None, device: DeviceName = "auto"
    ) -> int:
        """Adds vectors; the id of the first, the others follow."""
        return self._index.add(as_vectors(vectors, "vectors"), where(threads, device))

    def drop(self, ids: Any) -> None:
        """Removes vectors by their ids; the other ids stay as they are."""
        self._index.drop(as_indices(ids, "ids"))

    def search(
        self,
        queries: Any,
        k: int = 1,
        *,
        threads: Optional[int] = None,
        device: DeviceName = "auto",
        progress: Progress = None,
    ) -> Tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Distances and ids of the k nearest, a row for each query, nearest first. Where there are
        fewer than k vectors, the rest is −1 at an infinite distance."""
        asked = as_vectors(queries, "queries")
        with told(progress, "searching") as callback:
            distances, ids, _ = self._index.search(
                asked, whole(k, "k", 1), where(threads, device), callback
            )
        return distances, ids


class Cover(NamedTuple):
    """Distances from each vector of one set to the nearest of the other."""

    largest: float
    """The directed covering (one-sided Hausdorff) distance."""
    average: float
    """The average minimum distance."""


def cover(
    covered: Any,
    by: Any,
    *,
    threads: Optional[int] = None,
    device: DeviceName = "auto",
    progress: Progress = None,
) -> Cover:
    """How well the vectors `by` cover the others.

    >>> cover([[0.0], [1.0]], by=[[0.0]])
    Cover(largest=1.0, average=0.5)
    """
    a, b = as_vectors(covered, "covered"), as_vectors(by, "by")
    with told(progress, "covering") as callback:
        return Cover(*_contcore.cover(a, b, where(threads, device), callback))


def hausdorff(
    a: Any,
    b: Any,
    *,
    threads: Optional[int] = None,
    device: DeviceName = "auto",
    progress: Progress = None,
) -> float:
    """The Hausdorff distance of two sets of vectors.

    >>> hausdorff([[0.0], [1.0]], [[0.0], [4.0]])
    3.0
    """
    one, other = as_vectors(a, "a"), as_vectors(b, "b")
    with told(progress, "comparing") as callback:
        return _contcore.hausdorff(one, other, where(threads, device), callback)


def sliced_wasserstein(
    a: Any,
    b: Any,
    *,
    directions: int = 128,
    seed: int = 0,
    threads: Optional[int] = None,
    device: DeviceName = "auto",
    progress: Progress = None,
) -> float:
    """The sliced Wasserstein-2 distance of two sets of vectors, over seeded random directions.

    >>> round(sliced_wasserstein([[0.0], [1.0]], [[2.0], [3.0]]), 6)
    2.0
    """
    one, other = as_vectors(a, "a"), as_vectors(b, "b")
    with told(progress, "comparing") as callback:
        return _contcore.sliced_wasserstein(
            one,
            other,
            whole(directions, "directions", 1),
            whole(seed, "seed"),
            where(threads, device),
            callback,
        )


def overlap(a: Any, b: Any) -> int:
    """How many indices two lists of picks have in common.

    >>> overlap([1, 2, 3], [3, 4, 1])
    2
    """
    return _contcore.overlap(as_indices(a, "a"), as_indices(b, "b"))


def _check_finite(vectors: NDArray[Any], name: str) -> None:
    if vectors.dtype == np.uint8:
        return
    for first in range(0, len(vectors), 65536):  # a piece at a time: points may be a mapped file
        bad = ~np.isfinite(vectors[first : first + 65536]).all(axis=1)
        if bad.any():
            row = first + int(bad.argmax())
            raise InputError(f"{name}: row {row} has a value that is not finite; remove it")
