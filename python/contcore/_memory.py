"""The continual memory."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from html import escape
from typing import Any, Dict, List, Optional, Union

import numpy as np
from numpy.typing import NDArray

from . import _contcore
from ._arrays import (
    DeviceName,
    Path,
    as_name,
    as_path,
    as_vectors,
    parse_size,
    part,
    where,
    whole,
)
from ._errors import UsageError
from ._progress import Progress, told


@dataclass(frozen=True)
class Task:
    """What a memory knows of a task, and how it fares now."""

    name: str
    images: int
    """Learned from."""
    patches: int
    """Features seen."""
    picked: int
    """Vectors that expansion took."""
    vectors: int
    """Vectors it still has in the memory."""
    epsilon: float
    """Covering radius of the expansion."""
    epsilon_hat: float
    """Covering radius of the consolidation (the paper's rule)."""
    certificate: float
    """Every feature of the task ever learned is within this of the memory."""
    why: str
    """Why it has as many vectors as it has."""
    learned: str
    """When, in UTC."""
    calibrated: int
    """Images its threshold rests on."""
    drift: float
    """How much farther good images are now than at first: 1 is no change; NaN: not known."""
    known_defects: int
    """Images that were shown as defects."""
    threshold: Optional[float]
    """Of the score, at the rate of false alarms that was asked for; None: not calibrated yet."""
    threshold_by_hand: bool
    region: Optional[Dict[str, Any]]
    """What of its images is looked at, as `Detector.learn` takes it; None: all of them."""


class Memory:
    """At most `capacity` vectors that cover every feature ever learned, task after task.

    `consolidate` is the rule that keeps it within its capacity: "share" gives every task an equal
    part, "paper" samples again from all. `dtype` is float32 or uint8. Several threads may ask it at
    once; who learns waits for them, and they for it.

    >>> import numpy as np
    >>> rows = np.random.default_rng(0).random((1000, 8), dtype=np.float32)
    >>> memory = Memory(dimension=8, capacity=50)
    >>> memory.learn(rows, "first", p=0.04)
    >>> memory.learn(rows + 5, "second", p=0.04)
    >>> len(memory), [task.vectors for task in memory.tasks]
    (50, [25, 25])
    >>> bool((memory.distances(rows) <= memory.certificate).all())
    True
    """

    def __init__(
        self,
        dimension: int,
        capacity: int,
        *,
        consolidate: str = "share",
        q: float = 0.75,
        dtype: Any = "float32",
    ) -> None:
        scalar = np.dtype(dtype)
        if scalar not in (np.float32, np.uint8):
            raise UsageError(f"dtype {scalar}: a memory is of float32 or of uint8")
        self._memory = _contcore.Memory(
            whole(dimension, "dimension", 1),
            whole(capacity, "capacity", 1),
            as_name(consolidate, "consolidate"),
            part(q, "q"),
            scalar == np.uint8,
        )

    @classmethod
    def _of(cls, memory: _contcore.Memory) -> Memory:
        made = cls.__new__(cls)
        made._memory = memory
        return made

    @classmethod
    def open(cls, path: Path) -> Memory:
        """A memory from its file. What a service was taught since it last saved is not in there
        (`Detector.open` takes it up)."""
        return cls._of(_contcore.Memory.open(as_path(path)))

    def save(self, path: Path) -> str:
        """Writes the file, whole or not at all; its checksum."""
        return self._memory.save(as_path(path))

    def __len__(self) -> int:
        return self._memory.size()

    @property
    def capacity(self) -> int:
        """Most vectors it may hold, m."""
        return self._memory.capacity()

    @property
    def dimension(self) -> int:
        """Numbers of a vector."""
        return self._memory.dimension()

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or uint8."""
        return np.dtype(np.uint8 if self._memory.is_bytes() else np.float32)

    @property
    def consolidate(self) -> str:
        """The rule: "share" or "paper"."""
        return self._memory.consolidation()[0]

    @property
    def certificate(self) -> float:
        """No feature ever learned is farther than this from the memory. Proven, not measured."""
        return self._memory.certificate()

    @property
    def vectors(self) -> NDArray[Any]:
        """The vectors, a row each, as they are now."""
        return self._memory.vectors()

    @property
    def origins(self) -> NDArray[np.int32]:
        """The task that each vector came from, a number in `tasks`."""
        return self._memory.origins()

    @property
    def radii(self) -> NDArray[np.float32]:
        """The distance of each vector to those before it, when expansion took it."""
        return self._memory.radii()

    @property
    def tasks(self) -> List[Task]:
        """What it knows of each task, with thresholds at a rate of false alarms of 5 %."""
        return self.tasks_at(0.05)

    def tasks_at(self, false_alarms: float) -> List[Task]:
        """The same with thresholds at another rate."""
        return [Task(**facts) for facts in self._memory.tasks(part(false_alarms, "false_alarms"))]

    @property
    def source(self) -> Dict[str, str]:
        """What the features come from: kept in the file; merged memories must agree in it."""
        return self._memory.source()

    @source.setter
    def source(self, source: Dict[str, str]) -> None:
        self._memory.set_source(dict(source))

    def learn(
        self,
        features: Any,
        task: str,
        *,
        p: float = 0.01,
        images: int = 1,
        memory_limit: Union[int, str, None] = None,
        threads: Optional[int] = None,
        device: DeviceName = "auto",
        progress: Progress = None,
    ) -> None:
        """Learns a task: expand (the part `p` of the features, the farthest from what it has), then
        consolidate to the capacity. The memory is as before if this raises."""
        with told(progress, f"learning {task}") as callback:
            self._memory.learn(
                as_vectors(features, "features"),
                as_name(task, "task"),
                part(p, "p"),
                whole(images, "images", 1),
                parse_size(memory_limit, "memory_limit"),
                False,
                where(threads, device),
                callback,
            )

    def learn_online(
        self,
        features: Any,
        task: str,
        *,
        p: float = 0.1,
        images: int = 1,
        threads: Optional[int] = None,
        device: DeviceName = "auto",
    ) -> None:
        """The same, to the last bit, for a few features at a time (an image), and fast."""
        self._memory.learn(
            as_vectors(features, "features"),
            as_name(task, "task"),
            part(p, "p"),
            whole(images, "images", 1),
            0,
            True,
            where(threads, device),
            None,
        )

    def distances(
        self, patches: Any, *, threads: Optional[int] = None, device: DeviceName = "auto"
    ) -> NDArray[np.float32]:
        """Distance of each patch to its nearest vector."""
        return self._memory.distances(as_vectors(patches, "patches"), where(threads, device))

    def shrink(
        self, count: int, *, threads: Optional[int] = None, device: DeviceName = "auto"
    ) -> Memory:
        """A smaller memory, of at most `count` vectors."""
        return Memory._of(self._memory.shrink(whole(count, "count", 1), where(threads, device)))

    @staticmethod
    def merge(
        a: Memory,
        b: Memory,
        capacity: Optional[int] = None,
        *,
        threads: Optional[int] = None,
        device: DeviceName = "auto",
    ) -> Memory:
        """Both memories' tasks in one; its capacity is the larger of theirs unless given."""
        for one in a, b:
            if not isinstance(one, Memory):
                raise TypeError(f"two memories are needed, not {one!r}")
        room = max(a.capacity, b.capacity) if capacity is None else whole(capacity, "capacity", 1)
        return Memory._of(
            _contcore.Memory.merge(a._memory, b._memory, room, where(threads, device))
        )

    def set_threshold(
        self,
        task: str,
        score: Optional[float] = None,
        *,
        false_alarms: Optional[float] = None,
    ) -> None:
        """Sets the threshold of a task by hand: a score, or a rate of false alarms to calibrate
        for. Neither: it is left to the calibration again."""
        self._memory.set_threshold(
            as_name(task, "task"),
            None if score is None else part(score, "score"),
            None if false_alarms is None else part(false_alarms, "false_alarms"),
        )

    def rename_task(self, old: str, new: str) -> None:
        """Calls a task by another name."""
        self._memory.rename_task(as_name(old, "task"), as_name(new, "task"))

    def without_task(self, task: str) -> Memory:
        """The memory without a task (not by the paper's rule)."""
        return Memory._of(self._memory.without_task(as_name(task, "task")))

    def copy(self) -> Memory:
        """The same memory again, to be changed apart from this one."""
        return Memory._of(self._memory.copy())

    def __copy__(self) -> Memory:
        return self.copy()

    def __deepcopy__(self, _: Dict[int, Any]) -> Memory:
        return self.copy()

    def __getstate__(self) -> bytes:
        """The bytes of its file."""
        with tempfile.TemporaryDirectory(prefix="contcore-") as folder:
            path = os.path.join(folder, "memory.ccm")
            self.save(path)
            with open(path, "rb") as file:
                return file.read()

    def __setstate__(self, content: bytes) -> None:
        with tempfile.TemporaryDirectory(prefix="contcore-") as folder:
            path = os.path.join(folder, "memory.ccm")
            with open(path, "wb") as file:
                file.write(content)
            self._memory = _contcore.Memory.open(os.fsencode(path))

    def __repr__(self) -> str:
        try:
            return self._described()
        except UsageError as error:  # a detector's that is closed
            return f"<contcore.Memory: {error}>"

    def _described(self) -> str:
        names = ", ".join(task.name for task in self.tasks)
        return (
            f"<contcore.Memory of {len(self)} of {self.capacity} vectors of {self.dimension} "
            f"{self.dtype}{': ' + names if names else ''}>"
        )

    def _repr_html_(self) -> Optional[str]:
        try:
            return self._table()
        except UsageError:  # a detector's that is closed: the plain form says so
            return None

    def _table(self) -> str:
        head = ["task", "images", "vectors", "certificate", "threshold", "drift"]
        rows = "".join(
            "<tr>"
            + "".join(
                f"<td>{escape(text)}</td>"
                for text in (
                    task.name,
                    f"{task.images:,}",
                    f"{task.vectors:,}",
                    f"{task.certificate:.4g}",
                    "–" if task.threshold is None else f"{task.threshold:.4g}",
                    f"{task.drift:.3g}" if task.drift == task.drift else "–",
                )
            )
            + "</tr>"
            for task in self.tasks
        )
        return (
            f"<p><b>Memory</b>: {len(self):,} of {self.capacity:,} vectors of {self.dimension} "
            f"{escape(str(self.dtype))}; certificate {self.certificate:.4g}</p>"
            f"<table><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>{rows}</table>"
        )
