"""contcore.sklearn: scikit-learn's own checks, the promise about false alarms, and what users do."""

import pickle

import numpy as np
import pandas
import pytest



from contcore.sklearn import CoresetDetector, GreedyCoreset
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks


def normal_rows(rows, columns=4, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, columns))


def greedy_by_definition(X, count):
    """The plain loop, in float64."""
    picks = [int(np.argmax(np.linalg.norm(X - X.mean(axis=0), axis=1)))]
    nearest = np.linalg.norm(X - X[picks[0]], axis=1)
    while len(picks) < count:
        picks.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, np.linalg.norm(X - X[picks[-1]], axis=1))
    return picks, nearest.max()


@parametrize_with_checks(
    [
        CoresetDetector(),
        CoresetDetector(novelty=False),
        CoresetDetector(n_jobs=-1),
        CoresetDetector(ratio=1.0, capacity=7, novelty=False),
        GreedyCoreset(),
        GreedyCoreset(n_samples=1),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_no_check_is_skipped():
    # A tag (no_validation, _xfail_checks, ...) that turns checks off would go unseen above.
    for estimator, least in [
        (CoresetDetector(), "check_outliers_train"),
        (CoresetDetector(novelty=False), "check_outliers_fit_predict"),
        (GreedyCoreset(), "check_transformer_general"),
    ]:
        names = [
            getattr(check, "func", check).__name__
            for _, check in check_estimator(estimator, generate_only=True)
        ]
        assert least in names and len(names) > 25, names
        assert "_more_tags" not in vars(type(estimator))


# -- the detector


def test_scores_are_minus_the_distance_to_the_nearest_vector():
    X, new = normal_rows(200), normal_rows(50, seed=1) * 3
    detector = CoresetDetector(ratio=0.2).fit(X)
    assert len(detector.memory_) == 40
    expected = -cdist(new.astype(np.float32), detector.memory_.vectors).min(axis=1)
    scores = detector.score_samples(new)
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    np.testing.assert_array_equal(detector.decision_function(new), scores - detector.offset_)
    np.testing.assert_array_equal(detector.predict(new) == 1, scores >= detector.offset_)


def test_calibration_scores_are_by_the_other_folds():
    # Catches a row scored by a coreset that it is part of (its score would be 0).
    X = normal_rows(53, 3)
    detector = CoresetDetector(ratio=0.4, contamination=0.1).fit(X)
    picked = int(0.4 * 53)
    expected = np.empty(53)
    for fold in range(5):
        held = np.arange(53) % 5 == fold
        others = X[~held]
        picks, _ = greedy_by_definition(others, picked * len(others) // 53)
        expected[held] = -cdist(X[held], others[picks]).min(axis=1)
    np.testing.assert_allclose(detector.calibration_scores_, expected, rtol=1e-4)
    # ceil(54 * 0.9) = 49: four of the 53 are farther.
    assert detector.offset_ == np.sort(detector.calibration_scores_)[4]


@pytest.mark.parametrize(
    "rows, contamination, farther",
    [(19, 0.05, 0), (18, 0.05, 0), (39, 0.05, 1), (99, 0.1, 9), (100, 0.1, 9), (9, 0.3, 2)],
)
def test_rank_of_the_threshold(rows, contamination, farther):
    # Off by one, or a product such as 10 * (1 - 0.3) that comes out above 7, would shift it.
    detector = CoresetDetector(ratio=1.0, contamination=contamination).fit(normal_rows(rows))
    assert np.sort(detector.calibration_scores_)[farther] == detector.offset_


@pytest.mark.parametrize(
    "rows, columns, ratio, contamination, capacity",
    [
        (30, 3, 0.1, 0.1, 10000),
        (100, 2, 0.1, 0.1, 10000),
        (200, 8, 0.5, 0.05, 10000),
        (200, 8, 0.5, 0.05, 10),
        (120, 4, 1.0, 0.2, 10000),
    ],
)
def test_false_alarms_are_as_promised(rows, columns, ratio, contamination, capacity):
    draws, fresh = 60, 200
    rates = []
    for seed in range(draws):
        X = np.random.default_rng(seed).standard_t(5, size=(rows + fresh, columns))
        detector = CoresetDetector(ratio=ratio, contamination=contamination, capacity=capacity)
        rates.append(np.mean(detector.fit(X[:rows]).predict(X[rows:]) == -1))
    error = np.std(rates) / np.sqrt(draws)
    assert np.mean(rates) <= contamination + 2 * error
    assert np.mean(rates) >= contamination / 4  # else it says nothing


@pytest.mark.parametrize("capacity", [10, 10000])
def test_false_alarms_while_it_keeps_learning(capacity):
    # With 10 vectors the memory is full at once and moves outwards: scores made before that are
    # too good, and alone would give more than twice the rate.
    rates = []
    for seed in range(20):
        X = np.random.default_rng(seed).standard_t(5, size=(1400, 16))
        detector = CoresetDetector(contamination=0.1, capacity=capacity)
        for first in range(0, 1200, 100):
            detector.partial_fit(X[first : first + 100])
        rates.append(np.mean(detector.predict(X[1200:]) == -1))
    assert 0.02 <= np.mean(rates) <= 0.1 + 2 * np.std(rates) / np.sqrt(20)


def test_outliers_of_new_rows_are_found():
    X = normal_rows(300)
    detector = CoresetDetector().fit(X)
    assert np.all(detector.predict(normal_rows(50, seed=1) + 10) == -1)


def test_fit_predict_finds_the_outliers_among_its_own_rows():
    # The memory picks outliers first, and they are at distance zero from it: scored by it they
    # would be the most normal of all.
    X = normal_rows(200)
    strange = [3, 77, 78, 141]
    X[strange] = np.eye(4) * 50
    detector = CoresetDetector(contamination=0.02, novelty=False)
    assert np.flatnonzero(detector.fit_predict(X) == -1).tolist() == strange
    assert np.all(detector.memory_.distances(X[strange].astype(np.float32)) == 0)


def test_each_kind_has_its_methods():
    X = normal_rows(20)
    with pytest.raises(AttributeError, match="fit_predict is not there.*use fit"):
        CoresetDetector().fit_predict(X)
    for name in ("predict", "decision_function", "score_samples", "partial_fit"):
        with pytest.raises(AttributeError, match="novelty=False.*fit_predict"):
            getattr(CoresetDetector(novelty=False).fit(X), name)


def test_partial_fit_continues_in_fixed_memory():
    X = normal_rows(2000)
    detector = CoresetDetector(capacity=60)
    for first in range(0, 1000, 100):
        detector.partial_fit(X[first : first + 100])
    moved = X[1000:] + 20
    assert np.all(detector.predict(moved) == -1)
    before = detector.score_samples(moved[:100])
    detector.partial_fit(moved[:100])
    # Rows of a new kind are far from the memory, not from each other: the threshold stays narrow.
    assert np.all(detector.calibration_scores_[-100:] > before)
    assert np.all(detector.predict(X[:100] - 20) == -1)
    for first in range(100, 1000, 100):
        detector.partial_fit(moved[first : first + 100])
    assert len(detector.memory_) == 60
    assert len(detector.calibration_scores_) == 1000
    assert len(pickle.dumps(detector)) < 200_000
    assert np.mean(detector.predict(moved) == 1) > 0.9
    assert np.mean(detector.predict(X[:1000]) == 1) > 0.9


def test_single_rows_are_tested_and_then_trained():
    X = normal_rows(300)
    detector = CoresetDetector().fit(X[:200])
    for row in X[200:]:
        before = detector.score_samples(row[None])
        detector.partial_fit(row[None])
        assert detector.calibration_scores_[-1] == before


def test_partial_fit_begins_as_fit_and_fit_forgets():
    X = normal_rows(150)
    one = CoresetDetector().fit(X)
    other = CoresetDetector().partial_fit(X)
    assert one.offset_ == other.offset_
    np.testing.assert_array_equal(one.memory_.vectors, other.memory_.vectors)
    other.partial_fit(X + 5).fit(X)
    np.testing.assert_array_equal(one.memory_.vectors, other.memory_.vectors)


def test_rows_one_at_a_time():
    detector = CoresetDetector().partial_fit([[1.0, 2.0]])
    assert detector.offset_ == -np.inf  # nothing to calibrate with yet
    assert detector.predict([[9.0, 9.0]]).tolist() == [1]
    detector.partial_fit([[1.0, 3.0]])
    assert detector.offset_ == -1
    assert detector.predict([[9.0, 9.0]]).tolist() == [-1]


def test_rows_that_are_all_the_same():
    X = np.ones((40, 3))
    detector = CoresetDetector(ratio=0.5).fit(X)
    assert detector.offset_ == 0
    assert detector.predict([[1.0, 1.0, 1.0], [1.0, 1.0, 1.1]]).tolist() == [1, -1]
    assert np.all(CoresetDetector(novelty=False).fit_predict(X) == 1)
    assert np.all(detector.partial_fit(X).predict(X) == 1)


def test_pickled_detector_goes_on_alike():
    X, more = normal_rows(200), normal_rows(200, seed=1)
    detector = CoresetDetector(capacity=15).fit(X)
    again = pickle.loads(pickle.dumps(detector))
    np.testing.assert_array_equal(
        again.partial_fit(more).decision_function(X),
        detector.partial_fit(more).decision_function(X),
    )


def test_kinds_of_input():
    X = normal_rows(100).astype(np.float32)
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    detector = CoresetDetector().fit(X)
    assert CoresetDetector().fit(frame).feature_names_in_.tolist() == ["a", "b", "c", "d"]
    for other in (X.astype(np.float64), np.asfortranarray(X), X.tolist(), frame):
        assert CoresetDetector().fit(other).offset_ == detector.offset_
    for estimator in (CoresetDetector(), GreedyCoreset()):
        with pytest.raises(TypeError, match="(?i)sparse"):
            estimator.fit(sparse.csr_matrix(X))


def test_threads_do_not_change_the_answer():
    X = normal_rows(500, 16)
    one = CoresetDetector(n_jobs=1).fit(X)
    assert CoresetDetector(n_jobs=2).fit(X).offset_ == one.offset_


def test_devices_do_not_change_the_answer():
    X = normal_rows(500, 16)
    on_cpu = CoresetDetector(device="cpu").fit(X)
    assert CoresetDetector().fit(X).offset_ == on_cpu.offset_
    picks = [GreedyCoreset(device=device).fit(X).sample_indices_ for device in ("cpu", "auto")]
    np.testing.assert_array_equal(*picks)
    for estimator in (CoresetDetector(device="gpu"), GreedyCoreset(device="gpu")):
        with pytest.raises(ValueError, match="'gpu' is not a device"):
            estimator.fit(X)


def test_detector_in_pipeline_and_grid():
    X = np.vstack([normal_rows(150), normal_rows(30, seed=1) * 3 + 6])
    X[:, 0] *= 1000
    y = np.r_[np.ones(150), -np.ones(30)]
    pipeline = make_pipeline(StandardScaler(), CoresetDetector())
    normal_only = pipeline.fit(X[:100])
    assert np.mean(normal_only.predict(X[150:]) == -1) > 0.9

    # Normal rows alone are learned: the folds' training parts are cut to them.
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))
    splits = []
    for part in np.array_split(order, 3):
        rest = np.setdiff1d(order, part)
        splits.append((rest[y[rest] == 1], part))
    search = GridSearchCV(
        pipeline, {"coresetdetector__ratio": [0.05, 0.5]}, scoring="roc_auc", cv=splits, refit=False
    ).fit(X, y)
    assert search.best_score_ > 0.9


def test_clone_keeps_parameters_only():
    detector = CoresetDetector(ratio=0.3, capacity=9, contamination=0.2).fit(
        normal_rows(30)
    )
    copy = clone(detector)
    assert copy.get_params() == detector.get_params()
    assert not hasattr(copy, "memory_")


@pytest.mark.parametrize(
    "wrong", [{"ratio": 0}, {"ratio": 1.5}, {"capacity": 0}, {"contamination": 0.6}]
)
def test_wrong_parameters_are_named(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        CoresetDetector(**wrong).fit(normal_rows(20))


# -- the coreset


def test_coreset_is_the_definition():
    X = normal_rows(300, 6)
    coreset = GreedyCoreset(n_samples=20).fit(X)
    picks, radius = greedy_by_definition(X, 20)
    assert coreset.sample_indices_.tolist() == picks
    np.testing.assert_array_equal(coreset.coreset_, X[picks])
    assert coreset.covering_radius_ == pytest.approx(radius, rel=1e-5)
    assert np.isinf(coreset.radii_[0]) and np.all(np.diff(coreset.radii_[1:]) <= 0)
    np.testing.assert_allclose(coreset.transform(X), cdist(X, X[picks]), atol=1e-6)
    assert coreset.transform(X).min(axis=1).max() == pytest.approx(radius, rel=1e-5)


def test_parts_and_counts():
    X = normal_rows(57)
    assert len(GreedyCoreset(0.1).fit(X).sample_indices_) == 5
    assert len(GreedyCoreset(0.001).fit(X).sample_indices_) == 1
    assert len(GreedyCoreset(1).fit(X).sample_indices_) == 1
    assert len(GreedyCoreset(1.0).fit(X).sample_indices_) == 57
    with pytest.raises(ValueError, match="n_samples=58.*57"):
        GreedyCoreset(58).fit(X)


def test_fewer_distinct_rows_than_asked_for():
    X = np.repeat(np.eye(3), 10, axis=0)
    coreset = GreedyCoreset(n_samples=20).fit(X)
    assert len(coreset.sample_indices_) == 3 and coreset.covering_radius_ == 0
    assert coreset.transform(X).shape == (30, 3)


def test_resample_keeps_kinds_and_pairs():
    frame = pandas.DataFrame(normal_rows(50), columns=list("abcd"), index=range(100, 150))
    labels = pandas.Series(range(50), index=frame.index)
    sampler = GreedyCoreset(n_samples=7)
    rows, of_them = sampler.fit_resample(frame, labels)
    assert isinstance(rows, pandas.DataFrame) and isinstance(of_them, pandas.Series)
    assert of_them.tolist() == sampler.sample_indices_.tolist()
    assert rows.index.equals(of_them.index)
    np.testing.assert_array_equal(
        GreedyCoreset(n_samples=7).fit_resample(frame.to_numpy()), rows.to_numpy()
    )
    with pytest.raises(ValueError, match="inconsistent"):
        sampler.fit_resample(frame, labels[:-1])


def test_coreset_in_pipeline_and_grid():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(60, 3)), rng.normal(size=(60, 3)) + 4])
    y = np.repeat([0, 1], 60)
    pipeline = make_pipeline(StandardScaler(), GreedyCoreset(), KNeighborsClassifier(3))
    search = GridSearchCV(pipeline, {"greedycoreset__n_samples": [2, 0.1, 0.3]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.95


def test_names_and_frames_out():
    coreset = GreedyCoreset(n_samples=2).set_output(transform="pandas")
    frame = coreset.fit(normal_rows(10)).transform(normal_rows(4))
    assert frame.columns.tolist() == ["greedycoreset0", "greedycoreset1"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept(dtype):
    X = normal_rows(40).astype(dtype)
    coreset = GreedyCoreset().fit(X)
    assert coreset.coreset_.dtype == dtype and coreset.transform(X).dtype == dtype
