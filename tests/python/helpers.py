"""What several tests need."""

import subprocess
import sys
import textwrap

import numpy as np

LONG = 100
"""Seconds after which something hangs, on a busy machine too."""


def run_python(code, *arguments, timeout=LONG, **how):
    """A Python of its own: for what may hang, crash or end the interpreter."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        **how,
    )


def check_python(code, *arguments, **how):
    """What it printed; it must end well, and say nothing on stderr."""
    done = run_python(code, *arguments, **how)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def random_rows(rows, columns, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)


def make_images(count=25, *, seed=0, low=90, high=110, size=(48, 64)):
    """Good parts: noise between two shades."""
    shades = np.random.default_rng(seed)
    return [shades.integers(low, high, (*size, 3), dtype=np.uint8) for _ in range(count)]


def with_defect(image):
    """A white spot, x 20 to 44 and y 16 to 32."""
    marked = image.copy()
    marked[16:32, 20:44] = 255
    return marked
