"""contcore beside its peers, in one run: python3 bench.py [--rows N] [--dimension D] ...

Greedy sampling of 1 % of the rows against a loop in torch, step by step as in anomalib but in the
full dimension; nearest neighbours against faiss and scikit-learn. Whether the answers agree is
checked and said. Peers that are not installed are named.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, List, Tuple

import numpy as np
from numpy.typing import NDArray

import contcore

Matrix = NDArray[np.float32]
LOOP_PICKS = 20  # that the loop is timed with
CHECK_ROWS, CHECK_PICKS = 2000, 50


def features(rows: int, dimension: int, seed: int) -> Matrix:
    """Vectors with a falling spectrum around common centres, as features of a network have."""
    rng = np.random.default_rng(seed)
    scale = (1 / np.sqrt(np.arange(1, dimension + 1))).astype(np.float32)
    centres = np.random.default_rng(0).standard_normal((50, dimension), dtype=np.float32) * 2
    made = rng.standard_normal((rows, dimension), dtype=np.float32)
    made += centres[rng.integers(50, size=rows)]
    made *= scale
    return made


def best(repeat: int, work: Callable[[], Any]) -> Tuple[float, Any]:
    """Seconds of the fastest of several runs, and what the last returned."""
    least = float("inf")
    for _ in range(repeat):
        begin = time.perf_counter()
        result = work()
        least = min(least, time.perf_counter() - begin)
    return least, result


def torch_loop(torch: Any, points: Any, count: int, start: int) -> List[int]:
    """The definition: the farthest from all picks so far, each time over all rows."""
    picks = [start]
    nearest = torch.linalg.norm(points - points[start], dim=1)
    while len(picks) < count:
        pick = int(torch.argmax(nearest))
        picks.append(pick)
        nearest = torch.minimum(nearest, torch.linalg.norm(points - points[pick], dim=1))
    return picks


class Table:
    def __init__(self) -> None:
        print(f"{'':30} {'peer':34} {'peer, ms':>10} {'contcore, ms':>13} {'ratio':>7}  answers")

    def row(self, what: str, peer: str, theirs: float, ours: float, answers: str) -> None:
        print(
            f"{what:30} {peer:34} {theirs * 1e3:10.2f} {ours * 1e3:13.2f} {theirs / ours:7.1f}"
            f"  {answers}",
            flush=True,
        )

    def missing(self, what: str, peer: str, error: ImportError) -> None:
        print(f"{what:30} {peer:34} not compared: {error}", flush=True)


def bench_greedy(table: Table, points: Matrix, repeat: int) -> None:
    count = max(len(points) // 100, 1)
    ours, _ = best(repeat, lambda: contcore.greedy_sample(points, count, start=0))
    what = f"greedy, {count} of {len(points)}"
    try:
        import torch
    except ImportError as error:
        table.missing(what, "torch loop", error)
        return
    tensor = torch.from_numpy(points)
    timed = min(LOOP_PICKS, count)
    theirs, _ = best(repeat, lambda: torch_loop(torch, tensor, timed, 0))
    few = points[:CHECK_ROWS]
    wanted = min(CHECK_PICKS, len(few))
    same = torch_loop(torch, torch.from_numpy(few), wanted, 0)
    found = contcore.greedy_sample(few, wanted, start=0).picks.tolist()
    answers = f"{wanted} of {len(few)}: " + ("same picks" if found == same else "OTHER PICKS")
    table.row(what, f"torch loop, from {timed} picks", theirs / timed * count, ours, answers)


def agreement(
    distances: NDArray[Any], ids: NDArray[Any], theirs: NDArray[Any], their_ids: NDArray[Any]
) -> str:
    """Others round: where ids differ, the distances must be the same but for that."""
    different = int(np.sum(ids != their_ids))
    near = bool(np.allclose(distances, theirs, rtol=1e-3, atol=1e-2))
    if not near:
        return "OTHER DISTANCES"
    return "same neighbours" if different == 0 else f"same but for {different} near ties"


def bench_nearest(table: Table, vectors: Matrix, queries: Matrix, name: str, repeat: int) -> None:
    index = contcore.NearestIndex(vectors)
    ours, (distances, ids) = best(repeat, lambda: index.search(queries))
    what = f"nearest, {len(queries)} {name} in {len(vectors)}"
    try:
        import faiss
    except ImportError as error:
        table.missing(what, "faiss IndexFlatL2", error)
    else:
        flat = faiss.IndexFlatL2(vectors.shape[1])
        flat.add(vectors)
        theirs, (squared, their_ids) = best(repeat, lambda: flat.search(queries, 1))
        answers = agreement(distances, ids, np.sqrt(np.maximum(squared, 0)), their_ids)
        table.row(what, "faiss IndexFlatL2", theirs, ours, answers)
    try:
        from sklearn.neighbors import NearestNeighbors
    except ImportError as error:
        table.missing(what, "scikit-learn, brute", error)
    else:
        brute = NearestNeighbors(n_neighbors=1, algorithm="brute", n_jobs=-1).fit(vectors)
        theirs, (found, their_ids) = best(repeat, lambda: brute.kneighbors(queries))
        table.row(what, "scikit-learn, brute", theirs, ours, agreement(distances, ids, found, their_ids))


def bench_overhead(points: Matrix, queries: Matrix, repeat: int) -> None:
    """The same work by the command, which is C++ alone, by turns."""
    count = max(len(points) // 100, 1)
    with tempfile.TemporaryDirectory() as folder:
        names = [os.path.join(folder, name) for name in ("points.npy", "queries.npy", "out.npy")]
        np.save(names[0], points)
        np.save(names[1], queries)

        def command(*arguments: str) -> float:
            asked = [sys.executable, "-m", "contcore", *arguments, "--out", names[2], "--json"]
            return float(json.loads(subprocess.run(asked, capture_output=True, check=True).stdout)["seconds"])

        def seconds(work: Callable[[], Any]) -> float:
            return best(1, work)[0]

        sampled = [
            (
                command("sample", names[0], "--count", str(count)),
                seconds(lambda: contcore.greedy_sample(points, count)),
            )
            for _ in range(repeat)
        ]
        found = [
            (
                command("nearest", names[0], names[1]),
                seconds(lambda: contcore.NearestIndex(points).search(queries)),
            )
            for _ in range(repeat)
        ]
    print(f"\n{'beside C++ alone':40} {'C++, ms':>10} {'Python, ms':>12}")
    for what, times in ((f"greedy_sample, {count} of {len(points)}", sampled),
                        (f"NearestIndex and search, {len(queries)} in {len(points)}", found)):  # fmt: skip
        theirs, ours = (1e3 * min(both[i] for both in times) for i in (0, 1))
        print(f"{what:40} {theirs:10.2f} {ours:12.2f}  {100 * (ours / theirs - 1):+.1f} %", flush=True)


def bench_calls(points: Matrix, vectors: Matrix, queries: Matrix, repeat: int) -> None:
    """Times of single calls, small ones for what a call costs by itself."""
    index = contcore.NearestIndex(vectors)
    few = contcore.NearestIndex(vectors[:10])
    count = max(len(points) // 100, 1)
    calls: List[Tuple[str, Callable[[], Any]]] = [
        (f"greedy_sample, {count} of {len(points)}", lambda: contcore.greedy_sample(points, count)),
        ("greedy_sample, 1 of 10", lambda: contcore.greedy_sample(points[:10], 1)),
        (f"NearestIndex of {len(vectors)}", lambda: contcore.NearestIndex(vectors)),
        (f"search, {len(queries)} in {len(vectors)}", lambda: index.search(queries)),
        (f"search, 1 in {len(vectors)}", lambda: index.search(queries[:1])),
        ("search, 1 in 10", lambda: few.search(queries[:1])),
    ]
    print("\ncontcore alone, a call:")
    for name, work in calls:
        print(f"  {name:40} {best(max(repeat, 5), work)[0] * 1e3:10.3f} ms", flush=True)


def at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rows", type=at_least_one, default=20000, help="to sample from")
    parser.add_argument("--dimension", type=at_least_one, default=512)
    parser.add_argument("--queries", type=at_least_one, default=784, help="to search for")
    parser.add_argument("--repeat", type=at_least_one, default=3, help="runs; the best counts")
    asked = parser.parse_args()

    points = features(asked.rows, asked.dimension, 1)
    vectors = points[: max(asked.rows // 4, 1)]
    known = features(asked.queries, asked.dimension, 2)
    strange = -known  # on the other side of the centres
    print(
        f"contcore {contcore.__version__}; {asked.rows} × {asked.dimension} float32, made up; all "
        f"cores; best of {asked.repeat}"
    )
    table = Table()
    bench_greedy(table, points, asked.repeat)
    bench_nearest(table, vectors, known, "known", asked.repeat)
    bench_nearest(table, vectors, strange, "strange", asked.repeat)
    bench_overhead(points, known, max(asked.repeat, 5))
    bench_calls(points, vectors, known, asked.repeat)


if __name__ == "__main__":
    main()
