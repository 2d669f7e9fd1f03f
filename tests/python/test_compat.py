"""contcore.compat: clients of anomalib and patchcore-inspection, as they call those."""

import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import faiss
import pytest
import torch
from contcore import DamagedError, InputError, greedy_sample
from contcore.compat import (
    ApproximateFaissNN,
    ApproximateGreedyCoresetSampler,
    FaissNN,
    GreedyCoresetSampler,
    IdentitySampler,
    KCenterGreedy,
    RandomSampler,
)

GREEDY = [GreedyCoresetSampler, ApproximateGreedyCoresetSampler]


def random_rows(rows, columns, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)


def brute_force(k, queries, vectors):
    """Squared distances and indices, ties to the lowest index."""
    squared = ((queries[:, None].astype(np.float64) - vectors[None]) ** 2).sum(axis=2)
    ids = np.argsort(squared, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(squared, ids, axis=1), ids


def greedy_by_definition(rows, count, selected=()):
    picks = list(selected)
    if picks:
        nearest = brute_force(1, rows, rows[picks])[0][:, 0]
    else:
        picks = [int(np.argmax(np.linalg.norm(rows - rows.mean(axis=0), axis=1)))]
        nearest = ((rows - rows[picks[0]]) ** 2).sum(axis=1)
    while len(picks) < len(selected) + count:
        picks.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, ((rows - rows[picks[-1]]) ** 2).sum(axis=1))
    return picks[len(selected) :], np.sqrt(nearest)


# -- anomalib


def test_anomalib_sizes_indices_and_shapes():
    for rows, columns, ratio, size in [(100, 16, 0.1, 10), (200, 64, 0.05, 10), (50, 8, 0.02, 1)]:
        embedding = torch.randn(rows, columns)
        sampler = KCenterGreedy(embedding=embedding, sampling_ratio=ratio)
        assert sampler.coreset_size == size and sampler.n_observations == rows
        picks = sampler.select_coreset_idxs()
        assert isinstance(picks, list) and all(type(i) is int for i in picks)
        assert len(set(picks)) == size and all(0 <= i < rows for i in picks)
        coreset = sampler.sample_coreset()
        assert torch.equal(coreset, embedding[picks])  # again the same


def test_anomalib_coreset_is_the_definition():
    embedding = torch.from_numpy(random_rows(400, 12))
    sampler = KCenterGreedy(embedding, 0.05)
    assert sampler.min_distances is None
    picks, nearest = greedy_by_definition(embedding.numpy(), 20)
    assert sampler.select_coreset_idxs() == picks
    assert sampler.min_distances.shape == (400, 1)
    np.testing.assert_allclose(sampler.min_distances[:, 0].numpy(), nearest, atol=1e-5)
    assert torch.equal(sampler.features, embedding)
    sampler.reset_distances()
    assert sampler.min_distances is None


def test_anomalib_continues_from_selected_rows():
    rows = random_rows(300, 5)
    sampler = KCenterGreedy(rows, 0.05)
    selected = [7, 250, 3]
    assert sampler.select_coreset_idxs(selected) == greedy_by_definition(rows, 15, selected)[0]
    assert sampler.select_coreset_idxs([7, 250 - 300, 3, 3]) == sampler.select_coreset_idxs(selected)
    assert sampler.select_coreset_idxs([]) == sampler.select_coreset_idxs()
    np.testing.assert_array_equal(
        sampler.sample_coreset(selected_idxs=selected), rows[sampler.select_coreset_idxs(selected)]
    )
    with pytest.raises(IndexError, match="300 is no row"):
        sampler.select_coreset_idxs([300])
    with pytest.raises(ValueError, match="leaves fewer.*lower sampling_ratio"):
        KCenterGreedy(rows, 0.9).select_coreset_idxs(range(100))


def test_anomalib_patchcore_model():
    # Its memory bank: filled image by image, subsampled in place, then asked for neighbours.

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("memory_bank", torch.empty(0, 6))

        def subsample(self, ratio):
            bank = KCenterGreedy(embedding=self.memory_bank, sampling_ratio=ratio)
            self.memory_bank = bank.sample_coreset()

    model = Model()
    images = torch.randn(4, 6, 10, 10).permute(0, 2, 3, 1).reshape(-1, 6)
    model.memory_bank = images
    model.subsample(0.1)
    assert "memory_bank" in dict(model.named_buffers())
    assert model.memory_bank.shape == (40, 6) and model.memory_bank.dtype == images.dtype
    same = (model.memory_bank[:, None] == images[None]).all(dim=2)
    assert bool(same.any(dim=1).all())  # rows of the embedding, nothing made up


def test_anomalib_more_dimensions():
    maps = torch.randn(60, 3, 2, 2)
    sampler = KCenterGreedy(maps, 0.1)
    picks = sampler.select_coreset_idxs()
    assert picks == KCenterGreedy(maps.reshape(60, -1), 0.1).select_coreset_idxs()
    assert sampler.sample_coreset().shape == (6, 3, 2, 2)
    assert sampler.features.shape == (60, 12)


def test_anomalib_too_few_rows():
    with pytest.raises(ValueError, match="sampling_ratio 0.001: of 100 rows that is none"):
        KCenterGreedy(random_rows(100, 4), 0.001)
    for ratio in (0, -0.5, 1.5):
        with pytest.raises(ValueError, match="not a part"):
            KCenterGreedy(random_rows(100, 4), ratio)
    assert sorted(KCenterGreedy(random_rows(30, 4), 1.0).select_coreset_idxs()) == list(range(30))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int64", "uint8"])
def test_tensors_of_any_dtype(dtype):
    tensor = (torch.randn(100, 8) * 20 + 100).to(getattr(torch, dtype))
    coreset = KCenterGreedy(tensor, 0.1).sample_coreset()
    assert coreset.dtype == tensor.dtype and coreset.device == tensor.device
    picks, _ = greedy_by_definition(tensor.double().numpy(), 10)
    assert torch.equal(coreset, tensor[picks])


def test_tensors_that_need_gradients_and_views():
    tensor = torch.randn(100, 8)
    picks = KCenterGreedy(tensor, 0.1).select_coreset_idxs()
    learned = tensor.clone().requires_grad_()
    assert KCenterGreedy(learned, 0.1).select_coreset_idxs() == picks
    assert KCenterGreedy(tensor.T.contiguous().T, 0.1).select_coreset_idxs() == picks


# -- patchcore-inspection: samplers


def spread_out(columns, rows=5000):
    return np.arange(rows, dtype=np.float32)[:, None] / rows * np.ones((1, columns), np.float32)


@pytest.mark.parametrize("sampler", GREEDY + [RandomSampler])
def test_samplers_take_the_part_that_was_asked_for(sampler):
    given = () if sampler is RandomSampler else (torch.device("cpu"),)
    features = spread_out(2)
    taken = sampler(0.1, *given).run(features)
    assert len(taken) == 500 and len(np.unique(taken, axis=0)) == 500
    assert np.isin(taken, features).all()


@pytest.mark.parametrize("sampler", GREEDY)
def test_samplers_fill_up_from_copies(sampler):
    # Callers count on int(rows * percentage) rows; theirs repeats a row, ours takes its copies.
    constant = np.ones((5000, 2), dtype=np.float32)
    taken = sampler(percentage=0.1, device="cpu", dimension_to_project_features_to=2).run(constant)
    assert taken.shape == (500, 2) and len(np.unique(taken, axis=0)) == 1
    few = np.repeat(np.eye(3, dtype=np.float32), 10, axis=0)
    assert len(np.unique(sampler(0.5, "cpu").run(few), axis=0)) == 3  # the distinct ones first
    picks = KCenterGreedy(few, 0.5).select_coreset_idxs()
    assert len(set(picks)) == 15
    beside = KCenterGreedy(few, 0.5).select_coreset_idxs([0, 10, 20])  # all distinct ones are taken
    assert len(set(beside)) == 15 and not {0, 10, 20} & set(beside)


@pytest.mark.parametrize("sampler", GREEDY)
def test_samplers_keep_kind_and_dimension(sampler):
    model = sampler(percentage=0.1, device=torch.device("cpu"), dimension_to_project_features_to=64)
    tensor = torch.from_numpy(random_rows(500, 256))
    taken = model.run(tensor)
    assert type(taken) is torch.Tensor and taken.device == tensor.device
    assert taken.shape == (50, 256)
    array = model.run(tensor.numpy())
    assert type(array) is np.ndarray
    np.testing.assert_array_equal(array, taken.numpy())
    np.testing.assert_array_equal(array, tensor.numpy()[greedy_by_definition(tensor.numpy(), 50)[0]])


def test_sampler_arguments_by_place_and_name():
    # Positions as in theirs: the third argument means something else in the two classes.
    model = GreedyCoresetSampler(0.1, "cpu", 64)
    assert model.dimension_to_project_features_to == 64
    model = ApproximateGreedyCoresetSampler(0.1, "cpu", 5, 64)
    assert (model.number_of_starting_points, model.dimension_to_project_features_to) == (5, 64)
    assert (model.percentage, model.device) == (0.1, "cpu")
    for percentage in (0, 1, -1, 10):
        with pytest.raises(ValueError, match="between 0 and 1.*IdentitySampler"):
            RandomSampler(percentage)
    with pytest.raises(ValueError, match="of 5 rows that is none.*0.2"):
        RandomSampler(0.1).run(random_rows(5, 2))


def test_one_center_after_the_other():
    # The loop of select_coreset_idxs, written by its own parts, as subclasses do.
    rows = random_rows(200, 8)
    sampler = KCenterGreedy(torch.from_numpy(rows), 0.1)
    with pytest.raises(ValueError, match="update_distances"):
        sampler.get_new_idx()
    picks = [0]
    while len(picks) < 5:
        sampler.update_distances(cluster_centers=[picks[-1]])
        assert sampler.min_distances.shape == (200, 1)
        picks.append(sampler.get_new_idx())
    assert picks == greedy_sample(rows, 5, start=0).picks.tolist()
    with pytest.raises(IndexError, match="200 is no row"):
        sampler.update_distances([200])
    assert sampler.get_new_idx() == picks[-1]
    assert sampler.select_coreset_idxs(np.array([3, 4])) == sampler.select_coreset_idxs([3, 4])


def test_identity_and_random():
    features = random_rows(100, 3)
    assert IdentitySampler().run(features) is features
    np.random.seed(3)
    one = RandomSampler(0.2).run(features)
    other = RandomSampler(0.2).run(features)
    assert not np.array_equal(one, other)
    np.random.seed(3)
    np.testing.assert_array_equal(one, RandomSampler(0.2).run(features))


# -- patchcore-inspection: search


@pytest.mark.parametrize("search", [FaissNN, ApproximateFaissNN])
def test_search_once_and_fitted_agree(search):
    query = np.arange(3 * 6, dtype=np.float32).reshape(3, 6)
    nn = search()
    once = nn.run(2, query, 2 * query)
    nn.fit(2 * query)
    fitted = nn.run(2, query)
    for a, b in zip(once, fitted):
        np.testing.assert_array_equal(a, b)


def test_search_is_brute_force_and_faiss():
    vectors, queries = random_rows(500, 24), random_rows(60, 24, seed=1)
    nn = FaissNN(on_gpu=False, num_workers=4)
    nn.fit(vectors)
    distances, ids = nn.run(5, queries)
    assert (nn.search_index.ntotal, nn.search_index.d) == (500, 24)
    np.testing.assert_array_equal(nn.search_index.search(queries, 5)[0], distances)
    expected, expected_ids = brute_force(5, queries, vectors)
    np.testing.assert_array_equal(ids, expected_ids)
    np.testing.assert_allclose(distances, expected, rtol=1e-5)  # squared
    assert distances.dtype == np.float32 and ids.dtype == np.int64

    index = faiss.IndexFlatL2(24)
    index.add(vectors)
    theirs, their_ids = index.search(queries, 5)
    np.testing.assert_array_equal(ids, their_ids)
    np.testing.assert_allclose(distances, theirs, rtol=1e-4)


def test_a_device_that_is_not_there_is_the_processor():
    # Their callers say "cuda" on machines with and without.
    features = random_rows(200, 8)
    expected = GreedyCoresetSampler(0.1, "cpu").run(features)
    for device in (None, "cuda", "cuda:7", torch.device("cuda:0"), torch.device("cuda"), "mps"):
        np.testing.assert_array_equal(GreedyCoresetSampler(0.1, device).run(features), expected)
    ours, theirs = (FaissNN(on_gpu=on_gpu) for on_gpu in (True, False))
    for a, b in zip(ours.run(3, features, features), theirs.run(3, features, features)):
        np.testing.assert_array_equal(a, b)


def test_more_neighbours_than_vectors():
    vectors = random_rows(2, 3)
    distances, ids = FaissNN().run(4, vectors, vectors)
    assert ids[:, 2:].tolist() == [[-1, -1], [-1, -1]]
    assert np.all(distances[:, 2:] == np.finfo(np.float32).max)
    index = faiss.IndexFlatL2(3)
    index.add(vectors)
    theirs, their_ids = index.search(vectors, 4)
    np.testing.assert_array_equal(ids, their_ids)
    np.testing.assert_array_equal(distances[:, 2:], theirs[:, 2:])


def test_search_without_index():
    nn = FaissNN(False, 4)
    features = random_rows(3, 6)
    for call in (lambda: nn.run(2, features), lambda: nn.save("nowhere")):
        with pytest.raises(AttributeError, match="call fit or load first"):
            call()
    assert nn.run(2, features, features) is not None
    nn.fit(features)
    nn.reset_index()
    assert nn.search_index is None
    with pytest.raises(AttributeError):
        nn.run(2, features)


def test_fitted_features_may_change_afterwards():
    features = random_rows(50, 4)
    nn = FaissNN()
    nn.fit(features)
    before = nn.run(1, features.copy())
    features += 5
    after = nn.run(1, features - 5)
    np.testing.assert_array_equal(before[1], after[1])


def test_files_are_those_of_faiss(tmp_path):
    features, queries = random_rows(40, 7), random_rows(10, 7, seed=1)
    ours = FaissNN()
    ours.fit(features)
    ours.save(str(tmp_path / "ours.faiss"))
    np.testing.assert_array_equal(
        faiss.read_index(str(tmp_path / "ours.faiss")).search(queries, 2)[1],
        ours.run(2, queries)[1],
    )
    index = faiss.IndexFlatL2(7)
    index.add(features)
    faiss.write_index(index, str(tmp_path / "theirs.faiss"))
    assert (tmp_path / "theirs.faiss").read_bytes() == (tmp_path / "ours.faiss").read_bytes()
    again = FaissNN()
    again.load(tmp_path / "theirs.faiss")
    for a, b in zip(again.run(2, queries), ours.run(2, queries)):
        np.testing.assert_array_equal(a, b)
    faiss.write_index(faiss.IndexFlatIP(7), str(tmp_path / "other.faiss"))
    with pytest.raises(InputError, match="other.faiss: is no file of a faiss IndexFlatL2"):
        again.load(tmp_path / "other.faiss")


def test_broken_files_are_refused(tmp_path):
    nn = FaissNN()
    nn.fit(random_rows(10, 3))
    path = tmp_path / "index"
    nn.save(path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        nn.save(tmp_path / "folder")
    (tmp_path / "folder").rmdir()
    assert os.listdir(tmp_path) == ["index"]  # nothing else is left
    nn.save(os.fsencode(path))
    nn.load(os.fsencode(path))
    assert os.listdir(tmp_path) == ["index"]
    whole = path.read_bytes()
    broken = [whole[:20], whole[:-1], whole + b"x", whole[:8] + b"\xff" * 8 + whole[16:]]
    for content in broken:
        path.write_bytes(content)
        with pytest.raises(DamagedError, match="cut short or altered"):
            nn.load(path)
    assert len(nn.search_index) == 10  # it is as before


def test_search_copies_and_pickles():
    # PatchCore holds it, and models are copied and sent to other processes.
    features = random_rows(30, 4)
    nn = FaissNN()
    nn.fit(features)
    for other in (copy.deepcopy(nn), pickle.loads(pickle.dumps(nn))):
        np.testing.assert_array_equal(other.run(3, features)[1], nn.run(3, features)[1])
    assert pickle.loads(pickle.dumps(FaissNN())).search_index is None


class Scorer:
    """As patchcore-inspection's scorer uses its nn_method."""

    def __init__(self, neighbours, nn_method):
        self.neighbours, self.nn_method = neighbours, nn_method

    def fit(self, detection_features):
        self.nn_method.fit(np.concatenate([f.reshape(len(f), -1) for f in detection_features], 1))

    def predict(self, features):
        queries = np.concatenate([f.reshape(len(f), -1) for f in features], axis=1)
        distances, ids = self.nn_method.run(self.neighbours, queries)
        return np.mean(distances, axis=-1), distances, ids


def test_patchcore_from_features_to_scores(tmp_path):
    # Features of four images, a coreset of them, scores of known and of strange patches; then from
    # its file.
    features = random_rows(4 * 49, 32)
    coreset = ApproximateGreedyCoresetSampler(0.25, "cpu").run(features)
    scorer = Scorer(1, FaissNN(False, 4))
    scorer.fit([coreset])
    assert np.all(scorer.predict([coreset])[0] == 0)
    assert np.all(scorer.predict([coreset])[2][:, 0] == np.arange(49))
    strange = scorer.predict([features + 10])[0].reshape(4, 7, 7)
    good = scorer.predict([features])[0].reshape(4, 7, 7)
    assert strange.min() > good.max()
    scorer.nn_method.save(os.path.join(tmp_path, "nnscorer_search_index.faiss"))
    loaded = Scorer(1, FaissNN(False, 4))
    loaded.nn_method.load(os.path.join(tmp_path, "nnscorer_search_index.faiss"))
    np.testing.assert_array_equal(loaded.predict([features])[0].reshape(4, 7, 7), good)


def test_neither_torch_nor_faiss_is_imported():
    program = (
        "import sys, numpy as np; from contcore.compat import *; "
        "KCenterGreedy(np.eye(10), 0.5).sample_coreset(); FaissNN().run(1, np.eye(3), np.eye(3)); "
        "RandomSampler(0.5).run(np.eye(4)); print([m for m in ('torch', 'faiss') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
