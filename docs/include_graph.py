#!/usr/bin/python3
"""Draws which layer includes which into architecture.md, from the code.

docs/include_graph.py           writes it
docs/include_graph.py --check   fails if it is stale, or if a layer includes one it may not use
"""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/architecture.md"
BEGIN = "<!-- include graph: docs/include_graph.py -->\n"
END = "<!-- end of include graph -->\n"

# Whose public headers are whose.
PUBLIC = {
    "base": ["error", "npy", "progress", "ranks", "region_of_interest", "threads", "vectors"],
    "device": ["compute", "device"],
    "coreset": ["compare", "distance", "greedy", "nearest", "samplers"],
    "memory": ["history", "memory"],
    "image": ["image", "image_source", "score"],
    "backbone": ["backbone", "embedding"],
    "detector": ["detector", "extract", "extractor", "defects", "review", "verdict"],
    "evaluate": ["analyze", "dataset", "evaluate", "method", "metrics", "schedule"],
    "camera": [],
    "serve": ["service"],
    "mpi": ["mpi"],
}
OWNER = {f"{name}.h": layer for layer, names in PUBLIC.items() for name in names}


def layers_and_rights(page):
    """The layers of the page's table in their order, each with those it may use."""
    rights = {}
    for folder, may in re.findall(r"^\| `(?:src/)?(\w+)/` \|.*\| ([^|]+) \|$", page, re.M):
        below = list(rights)
        if may in ("all above", "everything"):
            used = below
        elif may.endswith(" and below"):
            used = below[: below.index(may.removesuffix(" and below")) + 1]
        else:
            used = [] if may == "–" else may.split(", ")
        rights[folder] = {folder, *used}
    return rights


def layer_of(path):
    if path.parts[0] == "include":
        if path.name not in OWNER:
            sys.exit(f"{path}: no layer owns it; name one in docs/include_graph.py")
        return OWNER[path.name]
    return path.parts[1] if path.parts[0] == "src" else "apps"


def includes():
    """(layer, layer included, file, what it includes) for each include of ours."""
    for top in ["include", "src", "apps"]:
        for path in sorted(p for p in (ROOT / top).rglob("*") if p.suffix in (".h", ".cc", ".cu")):
            path = path.relative_to(ROOT)
            for name in re.findall(r'^#include "(\w+/[^"]+)"', (ROOT / path).read_text(), re.M):
                folder, file = name.split("/", 1)
                target = layer_of(pathlib.Path("include/contcore") / file) if folder == "contcore" else folder
                yield layer_of(path), target, path, name


def drawn(rights):
    count = collections.Counter((a, b) for a, b, _, _ in includes() if a != b)
    order = list(rights)
    lines = ["```mermaid", "graph BT"]
    for a, b in sorted(count, key=lambda pair: (order.index(pair[0]), order.index(pair[1]))):
        lines.append(f"  {a} -- {count[a, b]} --> {b}")
    return "\n".join([*lines, "```", ""])


def main():
    page = PAGE.read_text()
    rights = layers_and_rights(page)
    wrong = [f"{path}: {a} may not include {name}" for a, b, path, name in includes() if b not in rights[a]]
    if wrong:
        sys.exit("\n".join(wrong))
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    fresh = before + BEGIN + drawn(rights) + END + after
    if sys.argv[1:] == ["--check"]:
        if fresh != page:
            sys.exit("docs/architecture.md: its include graph is stale; run docs/include_graph.py")
    else:
        PAGE.write_text(fresh)


main()
