"""Progress: a callable, or a bar."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Optional, Union

import numpy as np

Progress = Union[None, bool, Callable[[float], Any]]
"""None or False: nobody is told. True: a bar, tqdm's where it is installed. A callable: called now
and then with the part done, from 0 to 1; the call stops with `Cancelled` if it returns False."""


@contextmanager
def told(progress: Progress, what: str) -> Iterator[Optional[Callable[[float], Any]]]:
    """The callable that the extension takes."""
    if progress is None or progress is False:
        yield None
    elif progress is True:
        with _Bar(what) as bar:
            yield bar
    elif callable(progress):
        ask: Callable[[float], Any] = progress
        # NumPy's False is not the one that the extension knows.
        yield lambda done: False if _is_false(ask(done)) else None
    else:
        raise TypeError(f"progress: None, True or a callable is needed, not {progress!r}")


def _is_false(answer: Any) -> bool:
    return isinstance(answer, (bool, np.bool_)) and not answer


class _Bar:
    """tqdm's bar; without tqdm a line on stderr."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._shown = -1
        self._bar: Any = None
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return
        form = "{l_bar}{bar}| {elapsed}<{remaining}"
        self._bar = tqdm(total=1.0, desc=what, bar_format=form, leave=False)

    def __call__(self, done: float) -> None:
        if self._bar is not None:
            self._bar.update(done - self._bar.n)
            return
        percent = int(100 * done)
        if percent != self._shown:
            self._shown = percent
            print(f"\r{self._what} {percent} %", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._shown >= 0:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
