"""Estimators in scikit-learn's manner: an outlier detector that keeps learning, and a coreset.

scikit-learn is needed for this module alone: ``pip install scikit-learn``.
"""

from __future__ import annotations

from math import ceil, floor
from numbers import Integral, Real
from typing import Any, Dict, List, Optional, Tuple, Union

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    OutlierMixin,
    TransformerMixin,
)
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import _safe_indexing, check_consistent_length
from sklearn.utils._param_validation import Interval
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ._arrays import DeviceName
from ._coreset import NearestIndex, greedy_sample
from ._memory import Memory

__all__ = ["CoresetDetector", "GreedyCoreset"]

_TASK = "normal"
_FOLDS = 5  # each row is scored by a coreset of the other four
_LATEST = 1000  # scores that partial_fit calibrates with


def _validated(estimator: Any, X: Any, **how: Any) -> NDArray[Any]:
    """scikit-learn's own checks of X; a function from 1.6 on, a method before."""
    try:
        from sklearn.utils.validation import validate_data
    except ImportError:
        checked: NDArray[Any] = estimator._validate_data(X, **how)
    else:
        checked = validate_data(estimator, X, **how)
    return checked


def _where(estimator: Any) -> Dict[str, Any]:
    """What is to compute."""
    return {"threads": int(effective_n_jobs(estimator.n_jobs)), "device": estimator.device}


def _is_for_novelty(detector: CoresetDetector) -> bool:
    if detector.novelty:
        return True
    raise AttributeError(
        "not there with novelty=False, which judges the rows it is fitted to: use fit_predict; or "
        "make the detector with novelty=True to judge new rows"
    )


def _is_for_its_own_rows(detector: CoresetDetector) -> bool:
    if not detector.novelty:
        return True
    raise AttributeError(
        "fit_predict is not there with novelty=True, which takes the rows it is fitted to as "
        "normal: use fit, then predict on new rows; or novelty=False to judge these rows themselves"
    )


class CoresetDetector(OutlierMixin, BaseEstimator):  # type: ignore[misc]
    """Outliers by the distance to a coreset of the normal rows, in a memory of fixed size.

    `fit` picks a part of the rows greedily, each the farthest from those before it. The score of a
    row is minus its distance to the nearest of them: the larger, the more normal. `partial_fit`
    continues the same memory, which never holds more than `capacity` vectors.

    The rows are compared as float32 and by Euclidean distance: scale columns of different units
    first, as with ``StandardScaler``.

    Parameters
    ----------
    ratio : float, default=0.1
        Part of the rows that is picked; at least one row in each call.
    capacity : int, default=10000
        Most vectors that are kept.
    contamination : float, default=0.05
        With ``novelty=True`` the rate of false alarms: a new normal row is called an outlier with
        about this probability or less. With ``novelty=False`` the part of the rows that are called
        outliers.
    novelty : bool, default=True
        True: the rows given to `fit` are normal, and new rows are judged, by `predict`,
        `decision_function` and `score_samples`. False: the rows given to `fit_predict` are judged
        themselves. The other methods are not there then, as with ``LocalOutlierFactor``: rows
        that the memory has taken are at distance zero from it, however strange they are.
    n_jobs : int, default=None
        Threads. None is 1 unless in a ``joblib.parallel_backend`` context, -1 all cores. The answer
        is the same for any number.
    device : str or torch.device, default="auto"
        What computes: "auto" (a GPU where one can be used), "cpu", "cuda", "cuda:1" and so on. The
        answer is the same.

    Attributes
    ----------
    memory_ : contcore.Memory
        The vectors, and the certificate that bounds how far any learned row is from them.
    calibration_scores_ : ndarray of shape (n,)
        Scores of rows by memories that had not learned them. After `fit` they are of all the rows,
        in their order, each by a coreset of the rows in the other four of five folds. After
        `partial_fit` they are the latest 1000, each made before its row was learned, or the score
        it has now, if that is lower.
    offset_ : float
        ``decision_function = score_samples - offset_``. With ``novelty=True`` minus the
        ``ceil((n + 1) * (1 - contamination))``-th smallest of the n calibration distances, or minus
        the largest where n is too small for that rank; minus infinity while there is none. With
        ``novelty=False`` the percentile of the calibration scores.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where they all are strings.

    Notes
    -----
    The rate of false alarms holds for new rows that are drawn as the training rows were. Rows that
    belong together (patches of one image) are more alike than that, and are best scored as a whole.

    Examples
    --------
    >>> import numpy as np
    >>> from contcore.sklearn import CoresetDetector
    >>> rows = np.random.default_rng(0).normal(size=(400, 2))
    >>> detector = CoresetDetector(ratio=0.5).fit(rows)
    >>> detector.predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    >>> moved = detector.partial_fit(rows + 9)
    >>> moved.predict([[0.0, 0.0], [9.0, 9.0]])
    array([1, 1])
    >>> judge = CoresetDetector(ratio=1.0, contamination=0.25, novelty=False)
    >>> judge.fit_predict([[0.0], [0.1], [0.2], [8.0]])
    array([ 1,  1,  1, -1])
    """

    _parameter_constraints: Dict[str, Any] = {
        "ratio": [Interval(Real, 0, 1, closed="right")],
        "capacity": [Interval(Integral, 1, None, closed="left")],
        "contamination": [Interval(Real, 0, 0.5, closed="right")],
        "novelty": ["boolean"],
        "n_jobs": [Integral, None],
        "device": "no_validation",
    }

    _calibration_rows: NDArray[Any]

    def __init__(
        self,
        *,
        ratio: float = 0.1,
        capacity: int = 10000,
        contamination: float = 0.05,
        novelty: bool = True,
        n_jobs: Optional[int] = None,
        device: DeviceName = "auto",
    ) -> None:
        self.ratio = ratio
        self.capacity = capacity
        self.contamination = contamination
        self.novelty = novelty
        self.n_jobs = n_jobs
        self.device = device

    def fit(self, X: Any, y: Any = None) -> CoresetDetector:
        """Learn the rows of X, and set `offset_` by them. Forgets what was learned before.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            At least two rows.
        y : Ignored

        Returns
        -------
        self : CoresetDetector
        """
        self._validate_params()
        rows = _validated(self, X, dtype=np.float32, order="C", ensure_min_samples=2)
        self._begin(rows)
        return self

    @available_if(_is_for_novelty)  # type: ignore[misc]
    def partial_fit(self, X: Any, y: Any = None) -> CoresetDetector:
        """Learn more rows in the same memory.

        Each row is scored by what was learned before and by a coreset of the other four of five
        folds of X, whichever is nearer, and the latest 1000 such scores set `offset_`. Rows of a new
        kind are best given many at a time: one by one, the first of them score far off, and the
        threshold is wide until 1000 others have come. A
        full memory may let go of what was near a row: the row counts with its lower score then. The
        first call is as `fit`; if it has a single row, nothing is called an outlier until the next.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            At least one row.
        y : Ignored

        Returns
        -------
        self : CoresetDetector
        """
        self._validate_params()
        first = not hasattr(self, "memory_")
        rows = _validated(self, X, dtype=np.float32, order="C", reset=first)
        if first:
            self._begin(rows)
            return self
        known = len(self._calibration_rows)
        fresh = self._scores(rows)
        if len(rows) > 1:
            # Rows of a new kind are far from the memory, though not from each other.
            picked = max(floor(self.ratio * len(rows)), 1)
            fresh = np.maximum(fresh, _scores_by_others(rows, picked, _where(self)))
        scores = np.concatenate(
            [self.calibration_scores_[len(self.calibration_scores_) - known :], fresh]
        )[-_LATEST:]
        self.memory_.learn_online(
            rows, _TASK, p=self.ratio, images=len(rows), **_where(self)
        )
        self._calibration_rows = np.concatenate([self._calibration_rows, rows])[-_LATEST:]
        if len(self.memory_) == self.memory_.capacity:
            # It may have let go of vectors near these rows: their first scores would be too good.
            scores = np.minimum(scores, self._scores(self._calibration_rows))
        self._calibrate(scores)
        return self

    @available_if(_is_for_novelty)  # type: ignore[misc]
    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Minus the distance of each row to the nearest vector of the memory.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            The larger, the more normal; at most 0.
        """
        check_is_fitted(self)
        return self._scores(_validated(self, X, dtype=np.float32, order="C", reset=False))

    @available_if(_is_for_novelty)  # type: ignore[misc]
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """How far each row is on the normal side: ``score_samples(X) - offset_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        decision : ndarray of shape (n_samples,)
            Negative for outliers.
        """
        scores: NDArray[np.float64] = self.score_samples(X)
        return scores - self.offset_

    @available_if(_is_for_novelty)  # type: ignore[misc]
    def predict(self, X: Any) -> NDArray[np.int64]:
        """Judge each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            +1 for normal rows, -1 for outliers.
        """
        return np.where(self.decision_function(X) < 0, -1, 1)

    @available_if(_is_for_its_own_rows)  # type: ignore[misc]
    def fit_predict(self, X: Any, y: Any = None) -> NDArray[np.int64]:
        """Judge the rows of X by each other: the part `contamination` of them are outliers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            At least two rows.
        y : Ignored

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            +1 for normal rows, -1 for outliers.
        """
        self.fit(X)
        return np.where(self.calibration_scores_ < self.offset_, -1, 1)

    def _begin(self, rows: NDArray[Any]) -> None:
        where = _where(self)
        memory = Memory(dimension=rows.shape[1], capacity=self.capacity)
        memory.learn(rows, _TASK, p=self.ratio, images=len(rows), **where)
        picked = min(max(floor(self.ratio * len(rows)), 1), self.capacity)
        scores = _scores_by_others(rows, picked, where)
        self.memory_ = memory
        self._calibration_rows = rows[:0] if len(scores) == 0 else rows[-_LATEST:].copy()
        self._calibrate(scores)

    def _scores(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        distances = self.memory_.distances(rows, **_where(self))
        return -distances.astype(np.float64)

    def _calibrate(self, scores: NDArray[np.float64]) -> None:
        self.calibration_scores_ = scores
        if len(scores) == 0:
            self.offset_ = -np.inf
        elif self.novelty:
            # 1e-9: (n + 1)(1 - c) may come out a little above the whole number that it is
            rank = ceil((len(scores) + 1) * (1 - self.contamination) - 1e-9)
            self.offset_ = float(-np.sort(-scores)[min(rank, len(scores)) - 1])
        else:
            self.offset_ = float(np.percentile(scores, 100 * self.contamination))


def _scores_by_others(
    rows: NDArray[Any], picked: int, where: Dict[str, Any]
) -> NDArray[np.float64]:
    """The score of each row by a coreset of the folds it is not in; none of a single row."""
    if len(rows) < 2:
        return np.empty(0)
    fold = np.arange(len(rows)) % _FOLDS
    scores = np.empty(len(rows))
    for held in (fold == f for f in range(min(_FOLDS, len(rows)))):
        others = rows[~held]
        count = max(picked * len(others) // len(rows), 1)
        coreset = others[greedy_sample(others, count, **where).picks]
        distances, _ = NearestIndex(coreset, **where).search(rows[held], **where)
        scores[held] = -distances[:, 0]
    return scores


class GreedyCoreset(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator  # type: ignore[misc]
):
    """A few rows that cover all: greedy (farthest-point, k-center) sampling.

    Each pick is the row farthest from those before it; the first is the farthest from the mean. The
    largest distance of any row to the picked ones is at most twice the least that as many could
    reach. Nothing is random. Distances are Euclidean, of the rows as float32.

    `transform` gives the distances to the picked rows, as ``KMeans.transform`` does to its centres.
    `fit_resample` gives the picked rows themselves.

    Parameters
    ----------
    n_samples : int or float, default=0.1
        How many rows to pick, or (float) which part of them, at least one.
    n_jobs : int, default=None
        Threads. None is 1 unless in a ``joblib.parallel_backend`` context, -1 all cores. The answer
        is the same for any number.
    device : str or torch.device, default="auto"
        What computes: "auto" (a GPU where one can be used), "cpu", "cuda", "cuda:1" and so on. The
        answer is the same.

    Attributes
    ----------
    sample_indices_ : ndarray of shape (n_picked,)
        The picked rows in the order they were picked. Fewer than `n_samples` where there are fewer
        distinct rows: a row at distance zero is never picked.
    radii_ : ndarray of shape (n_picked,)
        Distance of each pick, when it was picked, to those before; infinite for the first. Never
        increases: a smaller coreset is the beginning of a larger one.
    coreset_ : ndarray of shape (n_picked, n_features)
        The picked rows.
    covering_radius_ : float
        No row that it was fitted to is farther than this from the coreset.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where they all are strings.

    Examples
    --------
    >>> from contcore.sklearn import GreedyCoreset
    >>> rows = [[0.0, 0.0], [0.0, 1.0], [8.0, 0.0], [8.0, 1.0]]
    >>> coreset = GreedyCoreset(n_samples=2).fit(rows)
    >>> coreset.sample_indices_
    array([0, 3])
    >>> coreset.covering_radius_
    1.0
    >>> coreset.transform([[0.0, 3.0]]).shape
    (1, 2)
    >>> GreedyCoreset(n_samples=0.5).fit_resample(rows, ["a", "b", "c", "d"])[1]
    ['a', 'd']
    """

    _parameter_constraints: Dict[str, Any] = {
        "n_samples": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="right"),
        ],
        "n_jobs": [Integral, None],
        "device": "no_validation",
    }

    def __init__(
        self,
        n_samples: Union[int, float] = 0.1,
        *,
        n_jobs: Optional[int] = None,
        device: DeviceName = "auto",
    ) -> None:
        self.n_samples = n_samples
        self.n_jobs = n_jobs
        self.device = device

    def fit(self, X: Any, y: Any = None) -> GreedyCoreset:
        """Pick rows of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : Ignored

        Returns
        -------
        self : GreedyCoreset
        """
        self._validate_params()
        rows = _validated(self, X, dtype=[np.float64, np.float32])
        if isinstance(self.n_samples, Integral):
            count = int(self.n_samples)
            if count > len(rows):
                raise ValueError(
                    f"n_samples={count}: X has n_samples={len(rows)} rows to pick from; ask for at "
                    "most as many, or for a part of them, such as n_samples=0.1"
                )
        else:
            count = max(floor(self.n_samples * len(rows)), 1)
        found = greedy_sample(rows, count, **_where(self))
        self.sample_indices_ = found.picks
        self.radii_ = found.radii
        self.coreset_ = rows[found.picks]
        self.covering_radius_ = found.covering_radius
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Distances of each row to the rows of the coreset.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        distances : ndarray of shape (n_samples, n_picked)
        """
        check_is_fitted(self)
        rows = _validated(self, X, dtype=[np.float64, np.float32], reset=False)
        distances: NDArray[Any] = euclidean_distances(rows, self.coreset_)
        return distances.astype(rows.dtype, copy=False)

    def fit_resample(self, X: Any, y: Any = None) -> Union[Any, Tuple[Any, Any]]:
        """The picked rows of X, and what belongs to them of y, in imbalanced-learn's manner.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None

        Returns
        -------
        X_resampled : of X's own kind (array, DataFrame, list)
        y_resampled : of y's own kind; only if y was given
        """
        if y is None:
            return _safe_indexing(X, self.fit(X).sample_indices_)
        check_consistent_length(X, y)
        picks = self.fit(X).sample_indices_
        return _safe_indexing(X, picks), _safe_indexing(y, picks)

    @property
    def _n_features_out(self) -> int:
        return len(self.sample_indices_)
