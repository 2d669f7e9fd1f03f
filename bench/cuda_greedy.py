#!/usr/bin/env python3
"""The loop of today's Python tools (k-center greedy) on a GPU, timed over a part of its picks.

  cuda_greedy.py [ROWS] [DIMENSION] [COUNT] [PICKS]

To stand beside contcore_cuda_greedy. Needs torch.
"""
import sys
import time

import torch


def main(rows=226576, dimension=1024, count=None, picks=300):
    count = count or rows // 100
    features = torch.randn(rows, dimension, device="cuda")  # the time does not depend on the values
    nearest = torch.full((rows, 1), float("inf"), device="cuda")
    pick = 0
    start = None
    for i in range(picks + 3):
        if i == 3:
            torch.cuda.synchronize()
            start = time.perf_counter()
        centre = features[pick:pick + 1]
        distance = torch.nn.functional.pairwise_distance(features, centre, p=2).reshape(-1, 1)
        nearest = torch.minimum(nearest, distance)
        pick = int(torch.argmax(nearest).item())
    each = (time.perf_counter() - start) / picks
    print(f"torch {rows} x {dimension} -> {count}: {each * count * 1e3:.1f} ms, "
          f"{each * 1e3:.3f} ms a pick")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
