"""Indices that are filled, searched, filtered, saved, loaded, pickled, resized, also on threads."""

import pickle
import threading

import hnswlib
import numpy
import pytest

DIMENSION = 16
COUNT = 2000


@pytest.fixture
def data():
    return numpy.random.default_rng(1).random((COUNT, DIMENSION), dtype=numpy.float32)


def made(data, space="l2", count=COUNT):
    index = hnswlib.Index(space=space, dim=DIMENSION)
    index.init_index(max_elements=count, ef_construction=50, M=8, random_seed=7)
    index.add_items(data)
    return index


@pytest.mark.parametrize("space", ["l2", "ip", "cosine"])
def test_finds_what_was_added(data, space):
    labels, distances = made(data, space).knn_query(data[:50], k=3)
    assert labels.shape == distances.shape == (50, 3)
    if space != "ip":
        assert (labels[:, 0] == numpy.arange(50)).mean() > 0.9


@pytest.mark.parametrize("space", ["l2", "ip", "cosine"])
def test_finds_by_comparing_all(data, space):
    index = hnswlib.BFIndex(space=space, dim=DIMENSION)
    index.init_index(max_elements=COUNT)
    index.add_items(data)
    labels, _ = index.knn_query(data[:20], k=2)
    assert labels.shape == (20, 2)
    index.delete_vector(0)


def test_filter_is_called(data):
    labels, _ = made(data).knn_query(data[:10], k=1, num_threads=1, filter=lambda n: n % 2 == 0)
    assert (labels % 2 == 0).all()


def test_saved_index_finds_the_same(data, tmp_path):
    index = made(data)
    index.save_index(str(tmp_path / "index"))
    loaded = hnswlib.Index(space="l2", dim=DIMENSION)
    loaded.load_index(str(tmp_path / "index"))
    assert (index.knn_query(data[:20])[0] == loaded.knn_query(data[:20])[0]).all()
    loaded.load_index(str(tmp_path / "index"))


def test_pickled_index_finds_the_same(data):
    index = made(data)
    copy = pickle.loads(pickle.dumps(index))
    assert (index.knn_query(data[:20])[0] == copy.knn_query(data[:20])[0]).all()


def test_index_grows_and_replaces(data):
    index = hnswlib.Index(space="l2", dim=DIMENSION)
    index.init_index(max_elements=COUNT, allow_replace_deleted=True)
    index.add_items(data)
    index.resize_index(COUNT + 500)
    index.add_items(data[:500], numpy.arange(COUNT, COUNT + 500))
    for label in range(100):
        index.mark_deleted(label)
    index.add_items(data[:100], numpy.arange(COUNT + 500, COUNT + 600), replace_deleted=True)
    assert index.get_current_count() == COUNT + 500
    assert numpy.asarray(index.get_items([200, 201])).shape == (2, DIMENSION)
    assert len(index.get_ids_list()) == COUNT + 500


def test_vectors_outlive_the_index(data):
    index = made(data)
    vectors = index.get_items(list(range(100)))
    del index
    assert numpy.allclose(vectors, data[:100])


def test_threads_search_and_drop(data):
    index = made(data)
    results = []

    def search():
        for _ in range(5):
            results.append(index.knn_query(data[:20], k=5, num_threads=2))

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 20


def test_errors_are_exceptions(data):
    with pytest.raises(RuntimeError):
        hnswlib.Index(space="unknown", dim=2)
    index = hnswlib.Index(space="l2", dim=DIMENSION)
    with pytest.raises(RuntimeError):
        index.load_index("/does/not/exist")
    index.init_index(max_elements=10)
    with pytest.raises(RuntimeError):
        index.add_items(data)
    with pytest.raises(RuntimeError):
        index.add_items(data[:, :3])
