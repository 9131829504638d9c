"""homefree.cuda in the real torch, CuPy, Numba, RMM and cuda.core, as far as they go with the
double of CUDA, whose directory comes last on the command line. Each is skipped where the
interpreter lacks it.

usage: test_cuda_libraries.py [unittest's arguments] DOUBLE-DIRECTORY
"""

import importlib.util
import sys
import tempfile
import unittest
from importlib.metadata import PackageNotFoundError, version

import support

DOUBLE = sys.argv.pop()

PRELUDE = """
import ctypes, gc, sys
import homefree
from homefree import _homefree, cuda
assert cuda.available(), cuda.reason()
cuda.empty(1).free()  # the runtime is kept from now on
driver = ctypes.CDLL("libcuda.so.1")
runtime = ctypes.CDLL(%r)

def stream():
    made = ctypes.c_void_p()
    assert runtime.cudaStreamCreateWithFlags(ctypes.byref(made), 1) == 0
    return made.value

class Stream:
    "Anybody's stream."
    def __init__(self):
        self.number = stream()
    def __cuda_stream__(self):
        return (0, self.number)

def live():
    return homefree.stats()["releases_live"]

def raised(kind, call, *arguments, **keywords):
    try:
        call(*arguments, **keywords)
    except Exception as error:
        assert type(error) is kind, repr(error)
        return str(error)
    raise AssertionError(f"{call} raised nothing")
"""


def old_torch():
    """Whether there is a torch that makes no tensors of page-locked memory."""
    try:
        return tuple(map(int, version("torch").split(".")[:2])) < (1, 10)
    except PackageNotFoundError:
        return False


def lacks(*names):
    missing = [name for name in names if importlib.util.find_spec(name.partition(".")[0]) is None]
    return unittest.skipIf(missing, f"no {', '.join(missing)}")


@unittest.skipUnless(DOUBLE, "no double of CUDA")
class Libraries(support.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.runtime = support.renamed_runtime(DOUBLE, cls.directory.name)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def fine(self, code):
        outcome = self.start(
            code,
            prelude=PRELUDE % self.runtime,
            end="print('done')",
            LD_LIBRARY_PATH=DOUBLE,
            HOMEFREE_CONF=f"cuda:{self.runtime}",
        )
        # The libraries warn that they find no device.
        self.assertEqual((outcome.status, outcome.out), (0, "done\n"), outcome.err)

    @unittest.skipUnless(old_torch(), "no torch before 1.10")
    def test_torch_is_old(self):
        self.fine(
            """
            import torch
            for words in (cuda.empty_pinned, 3, torch.float32), (cuda.pin_memory, torch.ones(3)):
                assert "torch 1.10 or later" in raised(RuntimeError, *words)
            """
        )

    @lacks("torch")
    @unittest.skipIf(old_torch(), "a torch before 1.10")
    def test_torch_tensors(self):
        self.fine(
            """
            import torch
            types = [torch.float32, torch.bfloat16, torch.complex64, torch.bool, torch.uint8]
            types += [getattr(torch, "float8_e4m3fn", torch.int8)]
            for dtype in types:
                tensor = cuda.empty_pinned((3, 4), dtype)
                assert tensor.shape == (3, 4) and tensor.dtype == dtype and tensor.is_contiguous()
                assert _homefree.space_of(tensor.data_ptr())[0] == 1
                whole = getattr(tensor, "untyped_storage", tensor.storage)().nbytes()
                assert whole == 12 * tensor.element_size()
            assert cuda.empty_pinned((), torch.float32).shape == ()
            assert cuda.empty_pinned((2, 0), torch.float32).shape == (2, 0)
            assert cuda.empty_pinned(5, like=tensor).dtype == tensor.dtype
            row = tensor.view(torch.uint8)[1]
            del tensor
            gc.collect()
            assert live() == 1
            assert cuda.pin_memory(row) is row
            a = stream()
            cuda.record_stream(row, a)
            block = row.data_ptr() - 4
            number = homefree.cuda._pinned._records[block]
            assert _homefree.record_is(number, block)
            del row
            gc.collect()
            assert live() == 0 and not _homefree.record_is(number, block)
            """
        )

    @lacks("torch")
    @unittest.skipIf(old_torch(), "a torch before 1.10")
    def test_torch_batches(self):
        self.fine(
            """
            import collections, torch
            pair = collections.namedtuple("pair", "a b")
            batch = {"x": torch.arange(6.0).reshape(2, 3).t(), "y": [pair(torch.ones(2), "s"), 3]}
            pinned = cuda.pin_memory(batch)
            assert torch.equal(pinned["x"], batch["x"]) and type(pinned["y"][0]) is pair
            for tensor in (pinned["x"], pinned["y"][0].a):
                assert _homefree.space_of(tensor.data_ptr())[0] == 1
            grad = torch.ones(3, requires_grad=True)
            assert not cuda.pin_memory(grad).requires_grad
            loader = torch.utils.data.DataLoader(
                list(range(8)), batch_size=4,
                collate_fn=lambda some: cuda.pin_memory(torch.utils.data.default_collate(some)))
            assert [_homefree.space_of(one.data_ptr())[0] for one in loader] == [1, 1]
            """
        )

    @lacks("torch")
    def test_torch_allocator(self):
        self.fine(
            """
            import torch
            if int(torch.__version__.partition(".")[0]) < 2:
                for call in (cuda.torch_allocator, cuda.torch_mem_pool, cuda.use_torch):
                    assert "torch 2." in raised(RuntimeError, call)
                print("done")
                sys.exit()
            if not hasattr(torch._C, "_cuda_customAllocator"):
                for call in (cuda.torch_allocator, cuda.torch_mem_pool, cuda.use_torch):
                    assert "built without CUDA" in raised(RuntimeError, call)
                print("done")
                sys.exit()
            allocator = cuda.torch_allocator()
            assert type(allocator) is torch.cuda.memory.CUDAPluggableAllocator
            assert cuda.torch_allocator() is allocator
            cuda.use_torch()
            cuda.use_torch()
            other = torch.cuda.memory.CUDAPluggableAllocator(
                homefree.cuda._torch_cuda._library(), "hf_torch_alloc", "hf_torch_free")
            raised(RuntimeError, torch.cuda.memory.change_current_allocator, other)
            """
        )

    @lacks("torch")
    def test_torch_is_late(self):
        self.fine(
            """
            import torch
            from homefree.cuda import _torch_cuda
            if not hasattr(torch._C, "_cuda_customAllocator"):  # before 2.0, or without CUDA
                print("done")
                sys.exit()
            other = torch.cuda.memory.CUDAPluggableAllocator(
                _torch_cuda._library(), "hf_torch_alloc", "hf_torch_free")
            torch.cuda.memory.change_current_allocator(other)
            text = raised(RuntimeError, cuda.use_torch)
            assert "right after importing torch" in text and "torch_mem_pool" in text
            """
        )

    @lacks("cupy")
    def test_cupy(self):
        self.fine(
            """
            import cupy
            a = stream()
            class Current:
                ptr = a
            cupy.cuda.get_current_stream = Current
            cupy.cuda.device.get_device_id = lambda: 1
            made = cuda.cupy_allocator()(1000)
            assert type(made) is cupy.cuda.MemoryPointer and made.mem.size == 1000
            kind, device, on, block, size = _homefree.space_of(made.ptr)
            assert (kind, device, on, block) == (2, 1, a, made.ptr)
            part = made + 100
            del made
            gc.collect()
            assert live() == 1 and part.ptr == block + 100
            del part
            gc.collect()
            assert live() == 0
            raised(MemoryError, cuda.cupy_allocator(), 1 << 40)
            """
        )

    @lacks("numba", "numba_cuda")
    def test_numba(self):
        self.fine(
            """
            from numba import cuda as numba_cuda
            from homefree.cuda import numba_plugin
            class Device:
                id = 1
            class Context:
                device = Device
            manager = numba_plugin.HomefreeManager(context=Context())
            assert manager.interface_version == 1
            manager.initialize()
            pointer = manager.memalloc(1000)
            address = int(getattr(pointer.handle, "value", pointer.handle))
            assert _homefree.space_of(address)[:2] == (2, 1) and pointer.size == 1000
            assert live() == 1 and manager.get_memory_info().free > 0
            pointer.free()
            assert live() == 0
            pointer = manager.memalloc(1000)
            del pointer
            gc.collect()
            assert live() == 0
            pointer = manager.memalloc(1000)
            manager.reset()
            assert live() == 0
            del pointer
            raised(NotImplementedError, manager.get_ipc_handle, None)
            cuda.use_numba()
            assert numba_cuda.cudadrv.driver._memory_manager is numba_plugin.HomefreeManager
            """
        )

    @lacks("numba", "numba_cuda")
    def test_numba_by_environment(self):
        self.fine(
            """
            import os
            os.environ["NUMBA_CUDA_MEMORY_MANAGER"] = "homefree.cuda.numba_plugin"
            from numba import cuda as numba_cuda
            numba_cuda.cudadrv.driver._ensure_memory_manager()
            manager = numba_cuda.cudadrv.driver._memory_manager
            assert manager.__module__ == "homefree.cuda.numba_plugin", manager
            """
        )

    @lacks("rmm")
    def test_rmm(self):
        self.fine(
            """
            import rmm, rmm.mr
            from rmm.pylibrmm.stream import Stream as RmmStream
            resource = cuda.rmm_resource(1)
            mine = Stream()
            on = RmmStream(mine)
            address = resource.allocate(5000, on)
            kind, device, of, block, size = _homefree.space_of(address)
            assert (kind, device, of, block) == (2, 1, mine.number, address) and size >= 5000
            resource.deallocate(address, 5000, on)
            assert resource.allocate(5000, on) == address  # on its stream it is free at once
            resource.deallocate(address, 5000, on)
            raised(MemoryError, resource.allocate, 1 << 40, on)
            made = cuda.use_rmm(1)
            assert rmm.mr.get_per_device_resource(1) is made
            """
        )

    @lacks("cuda")
    def test_cuda_core(self):
        self.fine(
            """
            from cuda.core import MemoryResource
            device, pinned = cuda.cuda_core_resource(1), cuda.cuda_core_resource(None)
            assert isinstance(device, MemoryResource) and type(device) is type(pinned)
            facts = [(one.is_device_accessible, one.is_host_accessible, one.is_managed,
                      one.device_id) for one in (device, pinned)]
            assert facts == [(True, False, False, 1), (True, True, False, -1)], facts
            mine = Stream()
            made = []
            class Recorded:
                @staticmethod
                def from_handle(address, size, resource, stream=None):
                    made.append((address, size, resource, stream))
                    return made[-1]
            # A real buffer needs a context.
            cells = dict(zip(type(device).allocate.__code__.co_freevars,
                             type(device).allocate.__closure__))
            cells["Buffer"].cell_contents = Recorded
            address, size, resource, on = device.allocate(5000, stream=mine)
            assert size == 5000 and resource is device and on is mine
            assert _homefree.space_of(address)[:4] == (2, 1, mine.number, address)
            device.deallocate(address, 5000, stream=mine)
            assert device.allocate(5000, stream=mine)[0] == address
            device.deallocate(address, 5000, stream=mine)
            address = pinned.allocate(64)[0]
            assert _homefree.space_of(address)[0] == 1
            pinned.deallocate(address, 64)
            """
        )


if __name__ == "__main__":
    sys.exit(support.main())
