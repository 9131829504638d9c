"""The matrix is the heap's, and is freed exactly once, whoever lets go last."""

import threading

import matrix
import numpy
import torch.utils.dlpack
from homefree import check


def test_an_array_of_numpy_is_freed_once_with_its_last_view():
    table = matrix.array(9, 9)
    address = table.ctypes.data
    check.assert_owner(address, "heap")
    corner = table[-1, -1:]
    del table
    with check.assert_freed_once(address):
        del corner
    assert matrix.live() == 0


def test_a_tensor_of_torch_is_freed_once_on_another_thread():
    tables = [torch.utils.dlpack.from_dlpack(matrix.dlpack(9, 9))]
    address = tables[0].data_ptr()
    check.assert_owner(address, "heap")
    with check.assert_freed_once(address):
        thread = threading.Thread(target=tables.clear)
        thread.start()
        thread.join()
    assert matrix.live() == 0


def test_numpy_lets_go_of_a_matrix_without_freeing_it_itself():
    with check.watch() as seen:
        table = numpy.asarray(matrix.array(9, 9))
        del table
    assert seen.crossed(allocated_by="matrix", freed_by="_multiarray_umath") == 0
