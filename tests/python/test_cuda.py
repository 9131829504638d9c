"""homefree.cuda: clean errors where there is no CUDA, and what it does with devices. These are the
double of CUDA, whose directory comes last on the command line; "" leaves those tests out. NumPy
takes part where it is.

usage: test_cuda.py [unittest's arguments] DOUBLE-DIRECTORY
"""

import sys
import unittest

import support

DOUBLE = sys.argv.pop()
NO_RUNTIME = "cuda:/nonexistent/libcudart.so.13"

try:
    import numpy
except ImportError:
    numpy = None

WITHOUT = """
import sys
import homefree
from homefree import cuda

def raised(kind, call, *arguments, **keywords):
    try:
        call(*arguments, **keywords)
    except Exception as error:
        assert type(error) is kind, repr(error)
        return str(error)
    raise AssertionError(f"{call} raised nothing")
"""

# The double's clock and calls: control.h, api.h. A stream's work runs when advance() is called.
WITH = (
    WITHOUT
    + """
import ctypes, gc
from homefree import _homefree
runtime, driver = ctypes.CDLL("libcudart.so.13"), ctypes.CDLL("libcuda.so.1")
driver.double_calls.restype = ctypes.c_ulong
driver.double_pending.restype = ctypes.c_size_t

def calls(name):
    return driver.double_calls(name.encode())

def stream():
    made = ctypes.c_void_p()
    assert runtime.cudaStreamCreateWithFlags(ctypes.byref(made), 1) == 0
    return made.value

def work(array, on):
    "Something that a device does with the array, later."
    done = runtime.cudaMemsetAsync(ctypes.c_void_p(array.ptr), 1, ctypes.c_size_t(array.nbytes),
                                   ctypes.c_void_p(on))
    assert done == 0, done

def pending(device=0):
    return cuda.stats(device)["pending"]

class Relay:
    "Another library's object: asks the array for a stream of its own."
    def __init__(self, array, **keywords):
        self.array, self.keywords = array, keywords
    def __dlpack_device__(self):
        return self.array.__dlpack_device__()
    def __dlpack__(self, **asked):
        return self.array.__dlpack__(**{**asked, **self.keywords})
"""
)


class Without(support.TestCase):
    def fine(self, code, **environment):
        super().fine(code, prelude=WITHOUT, HOMEFREE_CONF=NO_RUNTIME, **environment)

    def test_importing_costs_nothing(self):
        super().fine(
            """
            import sys
            import homefree
            assert not [name for name in sys.modules if name.startswith("homefree.cuda")]
            before = set(sys.modules)
            import homefree.cuda
            new = set(sys.modules) - before
            small = {"homefree", "importlib", "operator", "_operator", "errno", "warnings"}
            assert {name.partition(".")[0] for name in new} <= small, new
            assert homefree.cuda is sys.modules["homefree.cuda"]
            assert "libcuda" not in open("/proc/self/maps").read()
            assert set(homefree.cuda.__all__) <= set(dir(homefree.cuda))
            for name in homefree.cuda.__all__:
                assert getattr(homefree.cuda, name).__doc__, name
            """,
            prelude="",
        )

    def test_everything_says_why(self):
        self.fine(
            """
            assert cuda.available() is False and cuda.available(None) is False
            assert cuda.reason() and "\\n" not in cuda.reason()
            assert issubclass(cuda.Unavailable, RuntimeError)
            for call in (
                lambda: cuda.empty(3),
                lambda: cuda.empty((2, 3), "float32", 0, 0),
                cuda.trim,
                lambda: cuda.trim(0),
                lambda: cuda.limit(1 << 20),
                lambda: cuda.limit(1 << 20, 0),
            ):
                text = raised(cuda.Unavailable, call)
                assert text.startswith("homefree.cuda: ") and "driver" in text, text
                assert cuda.reason() in text, (text, cuda.reason())
                assert "HOMEFREE_CONF=cuda:" in text
            assert set(cuda.stats().values()) | set(cuda.stats(0).values()) == {0}
            """
        )

    @unittest.skipIf(numpy is None, "no NumPy")
    def test_no_pinned_array(self):
        self.fine(
            """
            import numpy
            assert "driver" in raised(cuda.Unavailable, cuda.empty_pinned, (3, 4), "float32")
            raised(cuda.Unavailable, cuda.pin_memory, {"a": [numpy.ones(3)]})
            assert cuda.empty_pinned((0, 3)).shape == (0, 3)
            assert "Python objects" in raised(TypeError, cuda.empty_pinned, 3, object)
            """
        )

    def test_nothing_to_pin(self):
        self.fine(
            """
            import collections
            pair = collections.namedtuple("pair", "a b")
            for one in (3, "text", b"bytes", None, [1, (2, "x")], {"a": pair(1, [2])}):
                same = cuda.pin_memory(one)
                assert same == one and type(same) is type(one), same
            class Own:
                def pin_memory(self):
                    return "pinned"
            assert cuda.pin_memory([Own()]) == ["pinned"]
            """
        )

    def test_wrong_arguments(self):
        self.fine(
            """
            for dtype in ("float3", "object", ">f4", dict, 3):
                assert "float32" in raised(TypeError, cuda.empty, 3, dtype)
            assert "negative" in raised(ValueError, cuda.empty, (3, -1))
            raised(TypeError, cuda.empty, 1.5)
            assert "no device" in raised(TypeError, cuda.empty, 3, device="tpu:0")
            assert "no device's" in raised(ValueError, cuda.empty, 3, device=-1)
            assert "no stream" in raised(TypeError, cuda.empty, 3, stream="main")
            assert "no stream" in raised(ValueError, cuda.empty, 3, stream=-2)
            assert "make" in raised(TypeError, cuda.DeviceArray)
            assert "address" in raised(TypeError, cuda.record_stream, object(), 0)
            assert "not homefree's" in raised(ValueError, cuda.record_stream, 4096, 0)
            assert "DLPack" in raised(TypeError, cuda.from_dlpack, 3)
            raised(AttributeError, lambda: cuda.nothing)
            """
        )

    def test_devices_and_streams_of_others(self):
        self.fine(
            """
            from homefree.cuda import _space
            class Has:
                def __init__(self, **members):
                    self.__dict__.update(members)
            for device, number in ((None, 0), (3, 3), ("cuda", 0), ("cuda:2", 2),
                                   (Has(index=1), 1), (Has(id=4), 4), (Has(device_id=5), 5)):
                assert _space.device_number(device) == number, device
            class Protocol:
                def __cuda_stream__(self):
                    return (0, 4096)
            for stream, number in ((None, 0), (7, 7), (Has(cuda_stream=8), 8), (Has(ptr=9), 9),
                                   (Has(handle=10), 10), (Has(handle=Has(value=11)), 11),
                                   (Has(handle=Has(value=None)), 0), (Protocol(), 4096)):
                assert _space.stream_number(stream) == number, stream
            """
        )


@unittest.skipUnless(DOUBLE, "no double of CUDA")
class Devices(support.TestCase):
    def fine(self, code, **environment):
        environment = {"LD_LIBRARY_PATH": DOUBLE, "DOUBLE_CUDA_DEVICES": "2", **environment}
        super().fine(code, prelude=WITH, **environment)

    def test_an_array(self):
        self.fine(
            """
            assert cuda.available() and cuda.available(1) and not cuda.available(7)
            assert driver.double_has_context(0) == 0
            array = cuda.empty((2, 3), "int32", 1)
            assert (array.shape, array.dtype, array.size, array.nbytes) == ((2, 3), "int32", 6, 24)
            assert array.device == 1 and "cuda:1" in repr(array)
            interface = array.__cuda_array_interface__
            assert interface == {
                "shape": (2, 3), "typestr": "<i4", "data": (array.ptr, False), "version": 3,
                "strides": None, "stream": 1,
            }, interface
            kind, device, stream_of, block, size = _homefree.space_of(array.ptr)
            assert (kind, device, block) == (2, 1, array.ptr) and size >= 24
            assert cuda.stats(1)["allocated"] > 0 and cuda.stats(0)["allocated"] == 0
            array.free()
            assert "freed" in repr(array)
            for call in (array.free, lambda: array.ptr, array.__dlpack__,
                         lambda: array.record_stream(0)):
                assert "freed" in raised(ValueError, call)
            with cuda.empty(4) as other:
                assert other.dtype == "float64"
            assert cuda.empty(0).__cuda_array_interface__["data"][0] == 0
            assert homefree.stats()["releases_live"] == 0
            """
        )

    def test_owners(self):
        self.fine(
            """
            from homefree import check
            array = cuda.empty(1000, "uint8", device=1)
            owner = homefree.owner_of(array.ptr)
            assert (owner.kind, owner.device, owner.block) == ("device", 1, array.ptr), owner
            check.assert_owner(array.ptr, "device")
            theirs = ctypes.c_void_p()
            assert runtime.cudaMalloc(ctypes.byref(theirs), ctypes.c_size_t(1000)) == 0
            owner = homefree.owner_of(theirs.value)
            assert (owner.kind, owner.device) == ("cuda", 0), owner
            check.assert_owner(theirs.value, "cuda")
            raised(AssertionError, check.assert_owner, theirs.value, "device")
            assert homefree.owner_of(id(owner)).device is None
            """
        )

    def test_no_room(self):
        self.fine(
            """
            text = raised(MemoryError, cuda.empty, 1 << 28)
            assert "device 0" in text and "trim()" in text
            cuda.limit(32 << 20, 1)
            assert cuda.stats(1)["limit"] == 32 << 20
            raised(MemoryError, cuda.empty, 64 << 20, "uint8", 1)
            del text
            array = cuda.empty(4 << 20, "uint8", 1)
            assert cuda.trim(1) == 0
            array.free()
            assert cuda.trim(1) >= 4 << 20 and cuda.stats(1)["reserved"] == 0
            """
        )

    def test_freed_on_its_stream(self):
        self.fine(
            """
            a, b = stream(), stream()
            array = cuda.empty(1 << 20, "uint8", stream=a)
            assert array.stream == a and array.__cuda_array_interface__["stream"] == a
            work(array, a)
            work(array, b)
            array.record_stream(b)
            first = array.ptr
            del array
            # On its own stream it may be used again at once, were it not for the other stream.
            assert cuda.empty(1 << 20, "uint8", stream=a).ptr != first
            assert pending() >= 1 << 20
            driver.double_advance_stream(ctypes.c_void_p(b), 8)
            driver.double_advance_stream(ctypes.c_void_p(a), 8)
            cuda.trim(0)
            assert pending() == 0 and driver.double_faults() == 0
            """
        )

    def test_freed_on_another_stream(self):
        self.fine(
            """
            a, b = stream(), stream()
            array = cuda.empty(1 << 20, "uint8", stream=a)
            work(array, b)
            array.free(b)
            assert pending() >= 1 << 20 and driver.double_pending() > 0
            cuda.trim(0)
            assert pending() == 0 and driver.double_pending() == 0
            assert driver.double_faults() == 0
            """
        )

    def test_dlpack(self):
        self.fine(
            """
            a = stream()
            array = cuda.empty((2, 3), "float32", 1, a)
            assert array.__dlpack_device__() == (2, 1)
            view = cuda.from_dlpack(array, stream=a)
            assert (view.ptr, view.shape, view.dtype, view.device) == (
                array.ptr, (2, 3), "float32", 1)
            assert view.__cuda_array_interface__["strides"] == (12, 4)
            for name, keywords in (("dltensor", {}), ("dltensor", {"max_version": (0, 8)}),
                                   ("dltensor_versioned", {"max_version": (1, 0)})):
                assert f'"{name}"' in repr(array.__dlpack__(stream=a, **keywords))
            for keywords in ({"copy": True}, {"dl_device": (1, 0)}, {"dl_device": (2, 0)}):
                raised(BufferError, array.__dlpack__, stream=a, **keywords)
            array.__dlpack__(stream=a, copy=False, dl_device=(2, 1))
            assert "default stream" in raised(ValueError, array.__dlpack__, stream=0)
            block = array.ptr
            del array
            assert homefree.stats()["releases_live"] == 2
            del view
            assert homefree.stats()["releases_live"] == 0
            """
        )

    def test_dlpack_orders_streams(self):
        self.fine(
            """
            a, b = stream(), stream()
            array = cuda.empty(1 << 20, "uint8", stream=a)
            work(array, a)
            before = calls("cudaStreamWaitEvent") + calls("cuStreamWaitEvent")
            array.__dlpack__(stream=a)
            assert calls("cudaStreamWaitEvent") + calls("cuStreamWaitEvent") == before
            view = cuda.from_dlpack(array, stream=b)
            assert calls("cudaStreamWaitEvent") + calls("cuStreamWaitEvent") > before
            work(view, b)
            waiting = driver.double_pending()
            driver.double_advance_stream(ctypes.c_void_p(b), 8)
            assert driver.double_pending() == waiting # b waits for a
            # The producer's memory stays until the consumer's stream is done.
            del array, view
            driver.double_advance_stream(ctypes.c_void_p(a), 8)
            assert pending() >= 1 << 20
            cuda.trim(0)
            assert pending() == 0 and driver.double_pending() == 0
            assert driver.double_faults() == 0
            """
        )

    def test_dlpack_without_order(self):
        self.fine(
            """
            a, b = stream(), stream()
            array = cuda.empty(1 << 20, "uint8", stream=a)
            view = cuda.from_dlpack(Relay(array, stream=-1), stream=b)
            work(view, b)
            del array, view
            # Nobody has said which stream uses it: it waits for the whole device.
            assert pending() >= 1 << 20
            cuda.trim(0)
            assert pending() == 0 and driver.double_faults() == 0
            """
        )

    def test_page_locked(self):
        self.fine(
            """
            a = stream()
            capsule, address = _homefree.space_new(1, 0, 4096, 0, -2)
            ctypes.memset(address, 7, 4096)
            number = _homefree.record_number(capsule)
            assert _homefree.record_is(number, address)
            assert not _homefree.record_is(number, address + 256)
            tensor = _homefree.dlpack_answer(
                capsule, address, (3, 0), (1, 8), (4096,), 0, -1, {"dl_device": (1, 0)})
            assert _homefree.record_stream(capsule) == -2
            assert cuda.stats()["allocated"] >= 4096
            del tensor
            _homefree.record_done(number, address)
            assert _homefree.record_stream(capsule) == -1
            assert _homefree.record_run(capsule, None) and not _homefree.record_run(capsule, None)
            del capsule
            assert not _homefree.record_is(number, address)
            """
        )

    @unittest.skipIf(numpy is None, "no NumPy")
    def test_page_locked_arrays(self):
        self.fine(
            """
            import collections, numpy
            pair = collections.namedtuple("pair", "a b")
            array = cuda.empty_pinned((3, 4), "float32")
            array[...] = numpy.arange(12).reshape(3, 4)
            assert array.flags.c_contiguous and array.flags.writeable and not array.flags.owndata
            assert _homefree.space_of(array.ctypes.data)[0] == 1
            assert homefree.owner_of(array.ctypes.data).kind == "pinned"
            view = array[1:, ::2]
            del array
            gc.collect()
            assert view.sum() == 4 + 6 + 8 + 10 and homefree.stats()["releases_live"] == 1
            assert cuda.pin_memory(view) is view
            like = cuda.empty_pinned(5, like=view)
            assert like.dtype == numpy.float32 and like.shape == (5,)
            strided = numpy.arange(10)[::2]
            batch = cuda.pin_memory({"x": [strided, pair(numpy.ones(3, "f2"), "s")], "n": 3})
            assert type(batch["x"][1]) is pair and batch["n"] == 3
            assert (batch["x"][0] == strided).all() and batch["x"][1].a.dtype == "f2"
            for pinned in (batch["x"][0], batch["x"][1].a):
                assert _homefree.space_of(pinned.ctypes.data)[0] == 1
            record = numpy.dtype([("a", "i4"), ("b", "f8")])
            assert cuda.empty_pinned((2,), record).dtype == record
            del view, like, batch, pinned
            gc.collect()
            assert homefree.stats()["releases_live"] == 0
            """
        )

    @unittest.skipIf(numpy is None, "no NumPy")
    def test_copies_under_way(self):
        self.fine(
            """
            import numpy
            a, b = stream(), stream()
            target = cuda.empty(1 << 20, "uint8", stream=a)
            def copy(source):
                assert runtime.cudaMemcpyAsync(
                    ctypes.c_void_p(target.ptr), ctypes.c_void_p(source.ctypes.data),
                    ctypes.c_size_t(source.nbytes), 1, ctypes.c_void_p(a)) == 0
            def pinned_pending():
                return cuda.stats()["pending"]
            unknown = cuda.empty_pinned(1 << 20, "uint8")
            copy(unknown)
            del unknown
            assert pinned_pending() >= 1 << 20
            driver.double_advance(64)
            cuda.trim()
            assert pinned_pending() == 0

            known = cuda.empty_pinned(1 << 20, "uint8")
            at = known.ctypes.data
            copy(known)
            cuda.record_stream(known, a)
            del known
            assert pinned_pending() >= 1 << 20
            work(target, b)  # nobody waits for this
            driver.double_advance_stream(ctypes.c_void_p(a), 64)
            again = [cuda.empty_pinned(1 << 20, "uint8") for _ in range(3)]
            assert at in [one.ctypes.data for one in again]
            assert driver.double_pending() > 0
            driver.double_advance(64)
            assert driver.double_faults() == 0
            """
        )

    def test_threads_free(self):
        self.fine(
            """
            import threading
            arrays = [cuda.empty(1000, "uint8", device % 2) for device in range(200)]
            def drop():
                while arrays:
                    try:
                        arrays.pop()
                    except IndexError:
                        break
            threads = [threading.Thread(target=drop) for _ in range(4)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            gc.collect()
            assert homefree.stats()["releases_live"] == 0
            """
        )

    def test_a_forked_child(self):
        self.fine(
            """
            import os
            array = cuda.empty(1000)
            child = os.fork()
            if child == 0:
                leaked = homefree.stats()["releases_leaked"]
                assert not cuda.available() and "fork" in cuda.reason()
                assert "fork" in raised(cuda.Unavailable, cuda.empty, 3)
                del array
                ended = 0 if homefree.stats()["releases_live"] == 0 else 3
                os._exit(ended)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            array.free()
            """
        )

    def test_after_the_runtime(self):
        self.fine(
            """
            a, b = stream(), stream()
            array, other = cuda.empty(1000, stream=a), cuda.empty(1000, stream=a)
            other.record_stream(b)
            driver.double_unload()
            assert "leaked" in raised(RuntimeError, array.free, b)
            before = homefree.stats()["releases_leaked"]
            del other
            assert homefree.stats()["releases_leaked"] == before + 1
            """
        )


if __name__ == "__main__":
    sys.exit(support.main())
