"""CuPy, Numba, cuda.core and NumPy over homefree's memory; what is not installed is left out."""

import importlib.util
import sys
import unittest

import homefree
from homefree import cuda


def needs(module):
    try:
        found = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        found = False
    return unittest.skipUnless(found, f"{module} is not installed")


@needs("numpy")
class NumPy(unittest.TestCase):
    def test_page_locked_arrays(self):
        import numpy

        array = cuda.empty_pinned((100, 3), "float64")
        array[...] = 2
        self.assertEqual(array.sum(), 600)
        self.assertEqual(homefree.owner_of(array.ctypes.data).kind, "pinned")
        view = array[10:20]
        del array
        self.assertEqual(view.sum(), 60)
        self.assertIsInstance(view, numpy.ndarray)


@needs("cupy")
class CuPy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cuda.use_cupy()

    def test_arrays_lie_in_the_space(self):
        import cupy

        array = cupy.arange(1000000, dtype="float64")
        self.assertEqual(homefree.owner_of(array.data.ptr).kind, "device")
        self.assertEqual(float(array.sum()), 499999500000.0)

    def test_streams(self):
        import cupy

        streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
        for number in range(60):
            with streams[number % 4]:
                array = cupy.full(1 << 18, number, dtype="int64")
                total = int((array * 2).sum())
            self.assertEqual(total, 2 * number << 18)

    def test_a_kernel(self):
        import cupy

        kernel = cupy.ElementwiseKernel("T x, T y", "T z", "z = 3 * x - y", "combine")
        x, y = cupy.random.rand(2, 10000)
        cupy.testing.assert_allclose(kernel(x, y), 3 * x - y)

    def test_page_locked_arrays_are_copied(self):
        import cupy

        host = cuda.empty_pinned(1 << 20, "int64")
        host[...] = range(1 << 20)
        there = cupy.empty(1 << 20, dtype="int64")
        there.set(host)
        self.assertEqual(int(there.sum()), sum(range(1 << 20)))
        self.assertTrue((there.get() == host).all())


@needs("numba.cuda")
class Numba(unittest.TestCase):
    def test_a_kernel(self):
        import numpy
        from numba import cuda as numba_cuda

        cuda.use_numba()

        @numba_cuda.jit
        def combine(x, y, out):
            i = numba_cuda.grid(1)
            if i < out.size:
                out[i] = 3 * x[i] - y[i]

        x, y = numpy.random.default_rng(1).random((2, 10000))
        x_there, y_there = numba_cuda.to_device(x), numba_cuda.to_device(y)
        out = numba_cuda.device_array_like(x_there)
        address = out.__cuda_array_interface__["data"][0]
        self.assertEqual(homefree.owner_of(address).kind, "device")
        combine[40, 256](x_there, y_there, out)
        numpy.testing.assert_allclose(out.copy_to_host(), 3 * x - y)


@needs("cuda.core")
class Core(unittest.TestCase):
    def test_buffers(self):
        try:
            from cuda.core import Device
        except ImportError:
            from cuda.core.experimental import Device
        device = Device()
        device.set_current()
        stream = device.create_stream()
        resource, pinned = cuda.cuda_core_resource(0), cuda.cuda_core_resource(None)
        there = resource.allocate(1 << 20, stream=stream)
        here, back = (pinned.allocate(1 << 20, stream=stream) for _ in range(2))
        self.assertEqual(homefree.owner_of(int(there.handle)).kind, "device")
        self.assertEqual(homefree.owner_of(int(here.handle)).kind, "pinned")
        import ctypes

        ctypes.memset(int(here.handle), 0x5A, 1 << 20)
        ctypes.memset(int(back.handle), 0, 1 << 20)
        there.copy_from(here, stream=stream)
        there.copy_to(back, stream=stream)
        stream.sync()
        self.assertEqual(ctypes.string_at(int(back.handle), 1 << 20), b"\x5a" * (1 << 20))
        for buffer in (there, here, back):
            buffer.close(stream)


if __name__ == "__main__":
    if not cuda.available():
        sys.exit(f"homefree finds no device, where there is one: {cuda.reason()}")
    unittest.main()
