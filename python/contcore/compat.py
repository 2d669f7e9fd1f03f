"""Stand-ins for the samplers and the search of anomalib and of patchcore-inspection.

One import line changes, and their code runs with this engine::

    from contcore.compat import KCenterGreedy                       # anomalib
    from contcore.compat import ApproximateGreedyCoresetSampler, FaissNN    # patchcore-inspection

Sampling is exact and in the full dimension, and nothing is random: the first pick is the row
farthest from the mean. So arguments about projections and starting points are taken, kept as
attributes, and not needed. Tensors come back as tensors of the same dtype on the same device, arrays
as arrays. The work is done on the device that is named, on a GPU where none is and there is one; where
there is no such GPU, on the CPU. The answer is the same. torch is not imported here, faiss is not
needed.

Their callers rely on the number of rows, ``int(ratio * rows)``. Where there are fewer distinct rows
than that, the coreset is filled up with the first rows that were not picked, which are copies of
picked ones. No row comes twice.
"""

from __future__ import annotations

import os
import struct
import sys
from typing import Any, Dict, List, Optional, Sequence, Tuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ._arrays import Path
from ._coreset import NearestIndex, greedy_sample
from ._devices import devices
from ._errors import DamagedError, InputError

__all__ = [
    "ApproximateFaissNN",
    "ApproximateGreedyCoresetSampler",
    "BaseSampler",
    "FaissNN",
    "GreedyCoresetSampler",
    "IdentitySampler",
    "KCenterGreedy",
    "RandomSampler",
]

Features = TypeVar("Features")
"""An array or a torch tensor; what comes back is of the same kind."""


def _is_tensor(given: Any) -> bool:
    torch = sys.modules.get("torch")  # who has a tensor has imported it
    return torch is not None and isinstance(given, torch.Tensor)


def _array_of(given: Any) -> NDArray[Any]:
    """An array of what was given, a tensor on any device included."""
    if not _is_tensor(given):
        return np.asarray(given)
    tensor = given.detach().cpu()
    # bfloat16 has no array
    plain = str(tensor.dtype) in ("torch.float32", "torch.float16", "torch.uint8")
    array: NDArray[Any] = (tensor if plain else tensor.float()).numpy()
    return array


def _rows_of(given: Any) -> NDArray[Any]:
    """The same with a row for each observation."""
    array = _array_of(given)
    return array if array.ndim == 2 else array.reshape(len(array), -1)


def _take(features: Features, picks: NDArray[np.int64]) -> Features:
    anything: Any = features
    if _is_tensor(features):
        torch: Any = sys.modules["torch"]
        taken: Features = anything[torch.as_tensor(picks, device=anything.device)]
    else:
        taken = np.asarray(anything)[picks]  # type: ignore[assignment]
    return taken


def _size(rows: int, part: float, name: str) -> int:
    size = int(rows * part)
    if size < 1:
        raise ValueError(
            f"{name} {part}: of {rows} rows that is none, and a coreset needs one; raise it to at "
            f"least {1 / max(rows, 1):.3g}"
        )
    return size


def _device(named: Any) -> str:
    """The device of ours that one of torch's means: the CPU where there is no such GPU."""
    if named is None:
        return "auto"
    name = str(named)
    known = [device.name for device in devices()]
    if name == "cuda" and len(known) > 1:
        return name
    return name if name in known else "cpu"


def _greedy(
    rows: NDArray[Any],
    count: int,
    device: str,
    selected: NDArray[np.int64] = np.empty(0, dtype=np.int64),
) -> NDArray[np.int64]:
    """Rows picked beside the selected ones, filled up to `count`."""
    base = rows[selected] if len(selected) else None
    picks = greedy_sample(rows, count, base=base, device=device).picks
    if len(picks) == count:
        return picks
    others = np.ones(len(rows), dtype=bool)
    others[picks] = others[selected] = False
    return np.concatenate([picks, np.flatnonzero(others)[: count - len(picks)]])


class KCenterGreedy:
    """In the place of anomalib's class of this name: a greedy (k-center) coreset of an embedding.

    Parameters
    ----------
    embedding : tensor or array of shape (n, d)
        More dimensions are flattened to two.
    sampling_ratio : float
        Part of the rows to take; ``int(n * sampling_ratio)`` rows, at least one.

    Attributes
    ----------
    embedding : as given
    coreset_size : int
        Rows to take.
    n_observations : int
        Rows of the embedding.
    features : tensor or array of shape (n, d)
        What distances are measured on: the embedding itself, without projection.
    min_distances : tensor or array of shape (n, 1), or None
        Distance of each row to the nearest of the latest coreset (and of `selected_idxs`).
        None before there is one, and after `reset_distances`.

    Examples
    --------
    >>> import numpy as np
    >>> from contcore.compat import KCenterGreedy
    >>> embedding = np.random.default_rng(0).random((1000, 16), dtype=np.float32)
    >>> sampler = KCenterGreedy(embedding=embedding, sampling_ratio=0.01)
    >>> sampler.sample_coreset().shape
    (10, 16)
    >>> more = sampler.select_coreset_idxs(selected_idxs=[0, 1])
    >>> len(more), 0 in more
    (10, False)
    """

    def __init__(self, embedding: Any, sampling_ratio: float) -> None:
        if not 0 < sampling_ratio <= 1:
            raise ValueError(
                f"sampling_ratio {sampling_ratio} is not a part; it must be above 0 and at most 1"
            )
        self.embedding = embedding
        self.n_observations = int(embedding.shape[0])
        self.coreset_size = _size(self.n_observations, sampling_ratio, "sampling_ratio")
        self._centres: Optional[NDArray[np.int64]] = None
        self._min_distances: Any = None

    @property
    def features(self) -> Any:
        if self.embedding.ndim == 2:
            return self.embedding
        return self.embedding.reshape(self.n_observations, -1)

    @property
    def min_distances(self) -> Any:
        if self._centres is None:
            return None
        if self._min_distances is None:
            rows = _rows_of(self.embedding)
            found: Any = NearestIndex(rows[self._centres]).search(rows)[0]
            if _is_tensor(self.embedding):
                torch: Any = sys.modules["torch"]
                found = torch.from_numpy(found).to(self.embedding.device)
            self._min_distances = found
        return self._min_distances

    def reset_distances(self) -> None:
        """Forgets the latest coreset."""
        self._centres = None
        self._min_distances = None

    def _checked(self, rows: Sequence[int], name: str) -> NDArray[np.int64]:
        n = self.n_observations
        given = [int(i) for i in rows]
        for index in given:
            if not -n <= index < n:
                raise IndexError(f"{name}: {index} is no row of an embedding of {n}")
        return np.array(given, dtype=np.int64)

    def update_distances(self, cluster_centers: Optional[Sequence[int]]) -> None:
        """Takes more rows as covered: `min_distances` follows."""
        if not cluster_centers:
            return
        more = self._checked(cluster_centers, "cluster_centers")
        old = np.empty(0, dtype=np.int64) if self._centres is None else self._centres
        self.reset_distances()
        self._centres = np.concatenate([old, more])

    def get_new_idx(self) -> int:
        """The row farthest from those that are covered."""
        if self.min_distances is None:
            raise ValueError("no row is covered yet; call update_distances or select_coreset_idxs first")
        return int(np.argmax(_array_of(self.min_distances)))

    def select_coreset_idxs(self, selected_idxs: Optional[Sequence[int]] = None) -> List[int]:
        """The rows of the coreset, in the order they are picked.

        Parameters
        ----------
        selected_idxs : sequence of int, default=None
            Rows that are taken already: the coreset covers what they leave. They are not in it.

        Returns
        -------
        indices : list of int
            ``coreset_size`` of them, all different.
        """
        n = self.n_observations
        given: Sequence[int] = [] if selected_idxs is None else selected_idxs
        selected = np.unique(self._checked(given, "selected_idxs") % n)
        if self.coreset_size > n - len(selected):
            raise ValueError(
                f"selected_idxs: {len(selected)} of {n} rows are taken, which leaves fewer than the "
                f"{self.coreset_size} to take; lower sampling_ratio"
            )
        picks = _greedy(_rows_of(self.embedding), self.coreset_size, "auto", selected)
        self.reset_distances()
        self._centres = np.concatenate([selected, picks])
        return [int(i) for i in picks]

    def sample_coreset(self, selected_idxs: Optional[Sequence[int]] = None) -> Any:
        """The same rows of the embedding themselves, of the embedding's own kind.

        Parameters
        ----------
        selected_idxs : sequence of int, default=None
            As above.

        Returns
        -------
        coreset : tensor or array of shape (coreset_size, d)
        """
        picks = self.select_coreset_idxs(selected_idxs)
        return _take(self.embedding, np.array(picks, dtype=np.int64))


class IdentitySampler:
    """In the place of patchcore-inspection's class of this name: takes all rows.

    Examples
    --------
    >>> from contcore.compat import IdentitySampler
    >>> IdentitySampler().run([[1.0, 2.0]])
    [[1.0, 2.0]]
    """

    def run(self, features: Features) -> Features:
        """The features as they are."""
        return features


class BaseSampler:
    """What the samplers of a part have in common; one of your own overrides `run`.

    Parameters
    ----------
    percentage : float
        The part of the rows to take, between 0 and 1 (not in hundredths, whatever the name says).
        ``int(rows * percentage)`` rows are taken, at least one.

    Examples
    --------
    >>> from contcore.compat import BaseSampler
    >>> class FirstRows(BaseSampler):
    ...     def run(self, features):
    ...         return features[: int(len(features) * self.percentage)]
    >>> FirstRows(0.5).run([1, 2, 3, 4])
    [1, 2]
    """

    def __init__(self, percentage: float) -> None:
        if not 0 < percentage < 1:
            raise ValueError(
                f"percentage {percentage} is not between 0 and 1; to take all rows, use "
                "IdentitySampler"
            )
        self.percentage = percentage

    def run(self, features: Features) -> Features:
        """The rows that are taken, as a tensor or an array as given."""
        raise NotImplementedError(f"{type(self).__name__}.run: a sampler overrides it")


class GreedyCoresetSampler(BaseSampler):
    """In the place of patchcore-inspection's class of this name: a greedy coreset.

    Parameters
    ----------
    percentage : float
        The part of the rows to take, between 0 and 1.
    device : torch.device or str, default=None
        What computes; None: a GPU if there is one.
    dimension_to_project_features_to : int, default=128
        Kept, not needed: distances are exact, in the full dimension.

    Examples
    --------
    >>> import numpy as np
    >>> from contcore.compat import GreedyCoresetSampler
    >>> features = np.random.default_rng(0).random((500, 32), dtype=np.float32)
    >>> GreedyCoresetSampler(percentage=0.1, device="cpu").run(features).shape
    (50, 32)
    """

    def __init__(
        self,
        percentage: float,
        device: Any = None,
        dimension_to_project_features_to: int = 128,
    ) -> None:
        super().__init__(percentage)
        self.device = device
        self.dimension_to_project_features_to = dimension_to_project_features_to

    def run(self, features: Features) -> Features:
        """The coreset of the features [N x D], as a tensor or an array as given."""
        rows = _rows_of(features)
        count = _size(len(rows), self.percentage, "percentage")
        return _take(features, _greedy(rows, count, _device(self.device)))


class ApproximateGreedyCoresetSampler(GreedyCoresetSampler):
    """In the place of patchcore-inspection's class of this name; exact all the same.

    Parameters
    ----------
    percentage : float
        The part of the rows to take, between 0 and 1.
    device : torch.device or str, default=None
        What computes; None: a GPU if there is one.
    number_of_starting_points : int, default=10
        Kept, not needed: the first pick is the row farthest from the mean.
    dimension_to_project_features_to : int, default=128
        Kept, not needed: distances are exact, in the full dimension.

    Examples
    --------
    >>> import numpy as np
    >>> from contcore.compat import ApproximateGreedyCoresetSampler
    >>> features = np.random.default_rng(0).random((500, 32), dtype=np.float32)
    >>> ApproximateGreedyCoresetSampler(0.1, "cpu").run(features).shape
    (50, 32)
    """

    def __init__(
        self,
        percentage: float,
        device: Any = None,
        number_of_starting_points: int = 10,
        dimension_to_project_features_to: int = 128,
    ) -> None:
        super().__init__(percentage, device, dimension_to_project_features_to)
        self.number_of_starting_points = number_of_starting_points


class RandomSampler(BaseSampler):
    """In the place of patchcore-inspection's class of this name: random rows, none twice.

    They follow NumPy's global state: ``np.random.seed`` makes them the same again.

    Parameters
    ----------
    percentage : float
        The part of the rows to take, between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from contcore.compat import RandomSampler
    >>> RandomSampler(0.25).run(np.zeros((8, 2))).shape
    (2, 2)
    """

    def run(self, features: Features) -> Features:
        """Random rows of the features [N x D], as a tensor or an array as given."""
        rows = len(features)  # type: ignore[arg-type]
        count = _size(rows, self.percentage, "percentage")
        return _take(features, np.random.choice(rows, count, replace=False))


# The file of a faiss IndexFlatL2: name, dimension, vectors, two unused, trained, metric (1: L2),
# numbers; then the numbers themselves.
_FAISS_HEADER = struct.Struct("<4siqqq?iQ")
_FAISS_UNUSED = 1 << 20


class _FlatIndex:
    """What of a faiss index others look at: `ntotal`, `d` and `search`, whose distances are squared."""

    def __init__(self, vectors: NDArray[np.float32], threads: int, device: str) -> None:
        self._where: Dict[str, Any] = {"threads": threads, "device": device}
        self._index = NearestIndex(vectors, **self._where)
        self.ntotal, self.d = vectors.shape

    def __len__(self) -> int:
        return self.ntotal

    def search(self, x: Any, k: int) -> Tuple[NDArray[np.float32], NDArray[np.int64]]:
        queries = np.asarray(_array_of(x), dtype=np.float32)
        distances, ids = self._index.search(queries, k, **self._where)
        with np.errstate(over="ignore"):
            squared = np.square(distances)
        return np.minimum(squared, np.finfo(np.float32).max), ids


class FaissNN:
    """In the place of patchcore-inspection's class of this name: exact nearest neighbours.

    Distances are squared, as those of faiss's IndexFlatL2 (and agree with them but for the last
    digits of float32). Where there are fewer than k
    vectors the rest is -1 at the largest float32. Ties go to the lowest index. Files are
    interchangeable with faiss's: either reads what the other has written.

    Parameters
    ----------
    on_gpu : bool, default=False
        Whether a GPU searches, if there is one.
    num_workers : int, default=4
        Threads to search with, at most as many as there are cores.

    Attributes
    ----------
    search_index : object or None
        Has `ntotal`, `d` and `search(x, k)`, as a faiss index has. None before `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from contcore.compat import FaissNN
    >>> search = FaissNN(on_gpu=False, num_workers=2)
    >>> search.fit(np.array([[0.0, 0.0], [3.0, 4.0]], dtype=np.float32))
    >>> distances, indices = search.run(2, np.zeros((1, 2), dtype=np.float32))
    >>> distances, indices
    (array([[ 0., 25.]], dtype=float32), array([[0, 1]]))
    """

    def __init__(self, on_gpu: bool = False, num_workers: int = 4) -> None:
        self.on_gpu = on_gpu
        self.num_workers = num_workers
        self.search_index: Optional[_FlatIndex] = None
        self._vectors: Optional[NDArray[np.float32]] = None

    def _index_of(self, vectors: NDArray[np.float32]) -> _FlatIndex:
        threads = max(1, min(self.num_workers, os.cpu_count() or 1))
        return _FlatIndex(vectors, threads, _device("cuda" if self.on_gpu else "cpu"))

    def fit(self, features: Any) -> None:
        """Searches in these features [N x D] from now on. They are copied."""
        self._set(np.array(_array_of(features), dtype=np.float32, order="C"))

    def _set(self, vectors: NDArray[np.float32]) -> None:
        self.search_index = self._index_of(vectors)
        self._vectors = vectors

    def run(
        self, n_nearest_neighbours: int, query_features: Any, index_features: Any = None
    ) -> Tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Squared distances and indices of the nearest, a row for each query, nearest first.

        Parameters
        ----------
        n_nearest_neighbours : int
        query_features : array or tensor of shape (n, d)
        index_features : array or tensor of shape (m, d), default=None
            What to search in, this once, instead of what was fitted.
        """
        index = self.search_index
        if index_features is not None:
            vectors = np.asarray(_array_of(index_features), dtype=np.float32)
            index = self._index_of(vectors)
        if index is None:
            # theirs is an AttributeError as well
            raise AttributeError("run: there is nothing to search in; call fit or load first")
        return index.search(query_features, n_nearest_neighbours)

    def save(self, filename: Path) -> None:
        """Writes the vectors as faiss writes an IndexFlatL2."""
        if self._vectors is None:
            raise AttributeError("save: there is nothing to save; call fit or load first")
        rows, dimension = self._vectors.shape
        part = f"{os.fsdecode(filename)}.part"
        head = _FAISS_HEADER.pack(
            b"IxF2", dimension, rows, _FAISS_UNUSED, _FAISS_UNUSED, True, 1, rows * dimension
        )
        try:
            with open(part, "wb") as file:
                file.write(head)
                file.write(self._vectors.astype("<f4", copy=False).data)
            os.replace(part, filename)
        except OSError:
            if os.path.exists(part):
                os.remove(part)
            raise

    def load(self, filename: Path) -> None:
        """Searches in the vectors of a file that `save` or faiss (IndexFlatL2) has written."""
        with open(filename, "rb") as file:
            head = file.read(_FAISS_HEADER.size)
            if not head.startswith(b"IxF2"):
                raise InputError(
                    f"{os.fsdecode(filename)}: is no file of a faiss IndexFlatL2; save it by "
                    "FaissNN.save, or build the index again from its features"
                )
            size = os.fstat(file.fileno()).st_size - _FAISS_HEADER.size
            if len(head) == _FAISS_HEADER.size:
                _, dimension, rows, _, _, _, _, numbers = _FAISS_HEADER.unpack(head)
                if dimension > 0 and rows > 0 and rows * dimension == numbers == size / 4:
                    vectors = np.frombuffer(file.read(), dtype="<f4")
                    self._set(vectors.astype(np.float32).reshape(rows, dimension))
                    return
        raise DamagedError(
            f"{os.fsdecode(filename)}: is cut short or altered; save it again from its features"
        )

    def reset_index(self) -> None:
        """Forgets what was fitted."""
        self.search_index = None
        self._vectors = None

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "search_index": None}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._vectors is not None:
            self._set(self._vectors)


class ApproximateFaissNN(FaissNN):
    """In the place of patchcore-inspection's class of this name; exact all the same.

    Examples
    --------
    >>> import numpy as np
    >>> from contcore.compat import ApproximateFaissNN
    >>> ApproximateFaissNN().run(1, np.zeros((1, 4)), np.ones((5, 4)))
    (array([[4.]], dtype=float32), array([[0]]))
    """
