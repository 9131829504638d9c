"""Meshes are simplified, and the arrays that come back live as long as somebody has them."""

import gc
import threading

import fast_simplification
import numpy
import pytest


def grid(size=40):
    """Points on a curved sheet, and its triangles."""
    x, y = numpy.meshgrid(numpy.linspace(0, 1, size), numpy.linspace(0, 1, size))
    points = numpy.c_[x.ravel(), y.ravel(), numpy.sin(6 * x * y).ravel()]
    corner = numpy.arange(size * size).reshape(size, size)[:-1, :-1].ravel()
    one = numpy.c_[corner, corner + 1, corner + size]
    other = numpy.c_[corner + 1, corner + size + 1, corner + size]
    return points, numpy.vstack([one, other]).astype(numpy.int32)


@pytest.mark.parametrize("reduction", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("kind", [numpy.float32, numpy.float64])
def test_fewer_triangles(reduction, kind):
    points, triangles = grid()
    fewer, faces = fast_simplification.simplify(points.astype(kind), triangles, reduction)
    assert len(faces) <= len(triangles) * (1 - reduction) + 5
    assert faces.max() < len(fewer)


def test_collapses_can_be_played_again():
    points, triangles = grid()
    fewer, faces, collapses = fast_simplification.simplify(
        points, triangles, 0.5, return_collapses=True
    )
    again, same, _ = fast_simplification.replay_simplification(points, triangles, collapses)
    assert len(same) == len(faces)
    assert numpy.allclose(again, fewer)


def test_arrays_outlive_their_siblings():
    points, triangles = grid()
    kept = [fast_simplification.simplify(points, triangles, 0.8)[0] for _ in range(20)]
    del points, triangles
    gc.collect()
    assert all(numpy.array_equal(kept[0], one) for one in kept)


def test_threads():
    points, triangles = grid(20)
    results = []

    def work():
        for _ in range(10):
            results.append(fast_simplification.simplify(points, triangles, 0.5))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 40


def test_errors_are_exceptions():
    points, triangles = grid(5)
    with pytest.raises(ValueError):
        fast_simplification.simplify(points, triangles, 2.0)
    with pytest.raises(ValueError):
        fast_simplification.simplify(points[:, :2], triangles, 0.5)
