#!/usr/bin/python3
"""The loop of today's Python tools (k-center greedy on a torch tensor), timed over a few picks.

  torch_loop.py RESULTS.json [FEATURES.npy]

Adds its row to the results of contcore_bench. Needs Debian's python3-torch and python3-numpy.
"""
import json
import sys
import time

PICKS = 30


def main(results_path, features_path=None):
    try:
        import numpy
        import torch
    except ImportError:
        print("torch: not installed (apt-get install python3-torch python3-numpy), skipped")
        return
    with open(results_path) as file:
        results = json.load(file)
    rows, dimension = results["rows"], results["dimension"]
    torch.set_num_threads(results["threads"])
    if features_path:
        features = torch.from_numpy(numpy.load(features_path).astype(numpy.float32))
    else:
        features = torch.randn(rows, dimension)  # the loop's time does not depend on the values
    nearest = torch.full((rows, 1), float("inf"))
    pick = 0
    start = None
    for i in range(PICKS + 3):
        if i == 3:
            start = time.perf_counter()
        centre = features[pick:pick + 1]
        distance = torch.nn.functional.pairwise_distance(features, centre, p=2).reshape(-1, 1)
        nearest = torch.minimum(nearest, distance)
        pick = int(torch.argmax(nearest).item())
    each = (time.perf_counter() - start) / PICKS
    ours = results["results"][0]
    total = each * (rows // 100)
    print(f"{ours['what']:<44} {'torch loop (part)':<18} {total:>9.3f} s {ours['seconds']:>9.4f} s "
          f"{total / ours['seconds']:>8.1f} x  {each * 1000:.1f} ms a pick")
    results["results"].append({"what": ours["what"], "peer": "torch loop (part)",
                               "peer_seconds": total, "seconds": ours["seconds"],
                               "ratio": total / ours["seconds"], "note": "from 30 picks"})
    with open(results_path, "w") as file:
        json.dump(results, file, indent=2)


if __name__ == "__main__":
    main(*sys.argv[1:])
