"""What there is to compute on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional

from . import _contcore


@dataclass(frozen=True)
class Device:
    """What can compute, all with the same answers."""

    name: str
    """What `device=` takes: "cpu", "cuda:0"."""
    text: str
    """What it is: "16 threads", "NVIDIA H200"."""
    memory: Optional[int] = None
    """Bytes of a GPU's memory."""
    compute_capability: Optional[str] = None
    """Of a GPU."""


def devices() -> List[Device]:
    """The processor, and the GPUs that can be used. Why there is none, `device="cuda"` says.

    >>> devices()[0].name
    'cpu'
    """
    cores = _contcore.cores()
    threads = "1 thread" if cores == 1 else f"{cores} threads"
    return [Device("cpu", threads)] + [Device(*gpu) for gpu in _contcore.gpus()]
