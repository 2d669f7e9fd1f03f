"""What the documentation shows runs: docstrings, and the examples."""

import doctest
import importlib
import os
import pkgutil
import subprocess
import sys

import contcore
import pytest

MODULES = [
    f"contcore.{module.name}"
    for module in pkgutil.iter_modules(contcore.__path__)
    if module.name not in ("__main__", "_contcore")
]
EXAMPLES = os.environ["CONTCORE_EXAMPLES"]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_modules_have_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = sum(
        bool(test.examples)
        for name in MODULES
        for test in finder.find(importlib.import_module(name))
    )
    assert found > 20


def test_tour(tmp_path):
    subprocess.run([sys.executable, os.path.join(EXAMPLES, "tour.py"), str(tmp_path)], check=True)
    assert (tmp_path / "report" / "index.html").stat().st_size > 1000


def test_all_names_are_there():
    assert len(set(contcore.__all__)) == len(contcore.__all__)
    for name in contcore.__all__:
        assert getattr(contcore, name) is not None
