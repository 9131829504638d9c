"""What capsules, buffers, DLPack tensors and held objects do in a living interpreter. Run by
test_capsules.py in every CPython, with `capsules` (module.c) on the path; NumPy and torch take part
where they are.
"""

import contextlib
import gc
import hashlib
import os
import sys
import threading
import unittest
import warnings
import weakref

import capsules

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
    import torch.utils.dlpack
except ImportError:
    torch = None
try:
    import owns  # numpy_base.c
except ImportError:
    owns = None

for name in ("_interpreters", "_xxsubinterpreters"):
    with contextlib.suppress(ImportError):
        interpreters = __import__(name)
        break
else:
    interpreters = None

# Collections then look at the objects of the tests, not at those of all of torch's modules.
gc.collect()
gc.freeze()

LIMITED = capsules.__file__.endswith(".abi3.so")
# NumPy supports DLPack 1.0 from 2.1 on.
VERSIONED = numpy is not None and tuple(map(int, numpy.__version__.split(".")[:2])) >= (2, 1)
BUFFERS = hasattr(capsules, "buffer")
NONE = {"live": 0, "run": 0, "leaked": 0, "destroyed": 0, "wrong_owner": 0, "forged": 0, "arrow": 0}


class Case(unittest.TestCase):
    @contextlib.contextmanager
    def changes(self, **wanted):
        """The counts change by these numbers; the others do not change."""
        gc.collect()
        before = capsules.counts()
        yield
        gc.collect()
        after = capsules.counts()
        self.assertEqual({k: after[k] - before[k] for k in after}, {**NONE, **wanted})

    def one(self):
        return self.changes(run=1, destroyed=1)


class Thing:
    """Allows weak references."""


class Capsules(Case):
    def test_destroyed_once(self):
        with self.one():
            with self.changes(live=1):
                capsule = capsules.capsule()
            self.assertEqual(capsules.name_of(capsule), "capsules")
            with self.changes(live=-1, run=1, destroyed=1):
                del capsule

    def test_no_name(self):
        with self.one():
            capsule = capsules.capsule(None)
            self.assertIsNone(capsules.name_of(capsule))
            del capsule

    def test_in_a_cycle(self):
        with self.one():
            cycle = [capsules.capsule()]
            cycle.append(cycle)
            del cycle

    def test_from_threads(self):
        with self.changes(run=400, destroyed=400):
            made = [[capsules.capsule() for _ in range(100)] for _ in range(4)]
            threads = [threading.Thread(target=some.clear) for some in made]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def test_c_thread_lets_go_last(self):
        with self.one():
            capsule = capsules.capsule()
            capsules.thread_drop(capsule)
            del capsule

    def test_null(self):
        with self.changes():
            with self.assertRaisesRegex(ValueError, "pointer is NULL.*check the allocation"):
                capsules.null_pointer()
            with self.assertRaisesRegex(ValueError, "destroy is NULL; pass the function"):
                capsules.null_destroy()

    def test_no_memory_for_a_capsule(self):
        with self.changes(), self.assertRaises(MemoryError):
            capsules.refused()

    def test_name_is_freed(self):
        with self.one():
            capsule = capsules.freed_name()
            self.assertEqual(capsules.name_of(capsule), "a name that goes")
            del capsule

    def test_renamed(self):
        for keep in (1, 0):
            with self.subTest(keep=keep), self.one():
                capsule = capsules.capsule()
                capsules.rename(capsule, keep)
                del capsule

    def test_destructor_chained_or_not(self):
        for chained, changes in (1, self.one()), (0, self.changes(live=1)):
            with self.subTest(chained=chained), changes:
                capsule = capsules.capsule()
                capsules.take_destructor(capsule, chained)
                del capsule

    def test_run_after_the_destructor_was_taken(self):
        with self.one():
            capsule = capsules.capsule()
            capsules.take_destructor(capsule, 0)
            self.assertEqual(capsules.run(capsule), 0)
            self.assertLess(capsules.run(capsule), 0)
            del capsule

    def test_run_early(self):
        with self.one():
            capsule = capsules.capsule()
            self.assertEqual(capsules.run(capsule), 0)
            del capsule

    def test_context_taken_is_left_alone(self):
        with self.changes(live=1):
            capsule = capsules.capsule()
            capsules.take_context(capsule)
            with self.assertRaisesRegex(ValueError, "has no record"):
                capsules.run(capsule)
            del capsule

    def test_other_capsules(self):
        with self.assertRaisesRegex(ValueError, "not made by hf_capsule_new"):
            capsules.run(capsules.plain_capsule())
        with self.assertRaisesRegex(TypeError, "not a capsule"):
            capsules.run(3)

    def test_error_indicator(self):
        with self.one(), self.assertRaises(LookupError) as caught:
            capsules.error_kept()
        self.assertIs(type(caught.exception), LookupError)


IN_AN_INTERPRETER = """
import sys
sys.path.insert(0, {directory!r})
import capsules

class Thing:
    pass

kept = [capsules.capsule(), capsules.capsule()]
kept.append(kept)
capsules.at_end = capsules.hold(Thing())  # released while the interpreter ends
del kept[1]
capsules.hold(Thing())
tensor = capsules.dlpack(kept[0], (1, 0))
if hasattr(capsules, "buffer"):
    view = memoryview(capsules.buffer())
"""


@unittest.skipUnless(interpreters, "no module for interpreters")
class Interpreters(Case):
    def run_in_one(self, code):
        number = interpreters.create()
        try:
            wrong = interpreters.run_string(number, code)
            self.assertIsNone(wrong)
        finally:
            interpreters.destroy(number)

    @unittest.skipIf(LIMITED, "the limited API has no slot for interpreters with their own GIL")
    def test_each_frees_its_own(self):
        buffers = 1 if BUFFERS else 0
        # Two capsules, that of the module and the buffer; two objects held.
        with self.changes(run=5 + buffers, destroyed=3 + buffers):
            self.run_in_one(IN_AN_INTERPRETER.format(directory=os.path.dirname(capsules.__file__)))

    @unittest.skipIf(LIMITED, "the limited API has no slot for interpreters with their own GIL")
    def test_a_thread_without_a_gil_leaks_anothers_object(self):
        code = "import sys; sys.path.insert(0, {!r}); import capsules; capsules.hold_in_thread([])"
        with self.changes(run=1, destroyed=1, leaked=1):
            self.run_in_one(code.format(os.path.dirname(capsules.__file__)))


class Forks(Case):
    def test_a_child_lets_go(self):
        memory, thing = capsules.capsule(), Thing()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # NumPy warns about threads
            child = os.fork()
        if child == 0:
            status = 1
            try:
                before = capsules.counts()
                capsules.hold_in_thread(thing)
                capsules.thread_drop(memory)
                del memory
                after = capsules.counts()
                status = 0 if after["run"] == before["run"] + 2 else 2
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)


class Held(Case):
    def held(self, way):
        with self.changes(run=1):
            thing = Thing()
            reference = weakref.ref(thing)
            result = way(thing)
            del thing
            if result is not None:
                self.assertIsNotNone(reference())
            del result
            self.assertIsNone(reference())

    def test_with_the_gil(self):
        self.held(capsules.hold)

    def test_with_a_gil_that_nobody_mentions(self):
        self.held(capsules.hold_plainly)

    def test_thread_without_the_gil(self):
        self.held(capsules.hold_in_thread)

    def test_this_thread_without_the_gil(self):
        self.held(capsules.hold_without_gil)

    def test_many_threads(self):
        things = [Thing() for _ in range(200)]
        references = [weakref.ref(thing) for thing in things]

        def work(some):
            while some:
                capsules.hold_in_thread(some.pop())

        with self.changes(run=200):
            threads = [threading.Thread(target=work, args=(things[i::4],)) for i in range(4)]
            del things
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            del threads
        self.assertEqual([reference() for reference in references], [None] * 200)

    def test_finalizer_runs_and_may_hold_others(self):
        seen = []

        class Last:
            def __del__(self):
                capsules.hold_in_thread(Thing())
                seen.append(threading.current_thread())

        with self.changes(run=2):
            capsules.hold_in_thread(Last())
        self.assertEqual(len(seen), 1)

    def test_null(self):
        with self.changes(), self.assertRaisesRegex(ValueError, "object is NULL"):
            capsules.hold_null()


@unittest.skipUnless(BUFFERS, "the buffer protocol is not in this API")
class Buffers(Case):
    def test_views_keep_it(self):
        with self.one():
            buffer = capsules.buffer()
            with self.changes():
                view = memoryview(buffer)
                self.assertIn(type(buffer).__name__, ("Buffer",))
                del buffer
                other = view[1:]
                self.assertEqual(view.tolist(), [[0, 1, 2], [3, 4, 5]])
                self.assertEqual((view.format, view.shape, view.strides), ("d", (2, 3), (24, 8)))
                self.assertEqual((view.readonly, view.nbytes), (False, 48))
                view[1, 2] = 50.0
                view.release()
                self.assertEqual(other.tolist(), [[3, 4, 50]])
            other.release()

    def test_column_major(self):
        with self.one():
            view = memoryview(capsules.buffer((2, 3), "F"))
            self.assertEqual(view.tolist(), [[0, 2, 4], [1, 3, 5]])
            self.assertTrue(view.f_contiguous and not view.c_contiguous)
            del view

    def test_what_it_is_not(self):
        """A consumer that does not support strides gets an error, not other elements."""
        with self.changes(run=3, destroyed=3):
            with self.assertRaisesRegex(BufferError, "not row-major"):
                hashlib.sha256(capsules.buffer((2, 3), "F"))
            with self.assertRaisesRegex(BufferError, "not row-major"):
                hashlib.sha256(capsules.buffer((2, 3), "G"))
            with open(__file__, "rb") as file, self.assertRaises((BufferError, TypeError)):
                file.readinto(capsules.buffer((2, 3), "C", 1))

    def test_gaps(self):
        with self.one():
            view = memoryview(capsules.buffer((2, 3), "G"))
            self.assertEqual(view.tolist(), [[0, 2, 4]])
            self.assertFalse(view.contiguous)
            del view

    def test_readonly(self):
        with self.one():
            view = memoryview(capsules.buffer((2, 3), "C", 1))
            self.assertTrue(view.readonly)
            self.assertEqual(bytes(view[:1].cast("B"))[:8], bytes(8))
            with self.assertRaises(TypeError):
                view[0, 0] = 1.0
            del view

    def test_plain_bytes(self):
        with self.one():
            self.assertEqual(len(b"".join([capsules.buffer()])), 48)

    def test_empty(self):
        with self.one():
            view = memoryview(capsules.buffer((0, 3)))
            self.assertEqual((view.nbytes, view.tolist()), (0, []))
            del view

    def test_wrong(self):
        texts = (
            "data is NULL",
            "itemsize",
            "0 to 64 dimensions",
            "negative",
            "no shape",
            "larger than memory",
        )
        for how, text in enumerate(texts):
            with self.subTest(how=how), self.one(), self.assertRaisesRegex(ValueError, text):
                capsules.wrong_buffer(how)

    def test_not_made_in_python(self):
        with self.one():
            kind = type(capsules.buffer())
            with self.assertRaisesRegex(TypeError, "made in C"):
                kind()


class Source:
    """A producer as a module would write it."""

    def __init__(self, flags=0):
        self.memory = capsules.capsule()
        self.flags = flags
        self.asked = []

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.asked.append(max_version)
        return capsules.dlpack(self.memory, max_version, self.flags)

    def __dlpack_device__(self):
        return (1, 0)


class DLPack(Case):
    def test_never_consumed(self):
        for version in (None, (1, 0), (0, 8)):
            with self.subTest(version=version), self.one():
                tensor = capsules.dlpack(capsules.capsule(), version)
                name = "dltensor_versioned" if version == (1, 0) else "dltensor"
                self.assertEqual(capsules.name_of(tensor), name)
                del tensor

    def test_consumed(self):
        for version in (None, (1, 0), (2, 1)):
            with self.subTest(version=version), self.changes(run=2, destroyed=1):
                tensor = capsules.dlpack(capsules.capsule(), version, 2 if version else 0)
                first, last, rows, step, flags, memory = capsules.consume(tensor)
                self.assertEqual((first, last, rows, step), (0, 5, 2, 3))
                self.assertEqual(flags, 2 if version else 0)
                self.assertTrue(capsules.name_of(tensor).startswith("used_dltensor"))
                with self.assertRaisesRegex(ValueError, "consumed already"):
                    capsules.consume(tensor)
                del tensor
                with self.changes():
                    pass
                del memory

    def test_two_tensors_one_memory(self):
        with self.one():
            memory = capsules.capsule()
            tensors = [capsules.dlpack(memory), capsules.dlpack(memory, (1, 0))]
            del memory
            with self.changes():
                tensors.pop()
            del tensors

    def test_deleter_without_the_gil(self):
        with self.changes(run=2, destroyed=1):
            capsules.thread_delete(capsules.dlpack(capsules.capsule()))

    def test_read_only_needs_a_version(self):
        with self.changes(run=2, destroyed=2):
            with self.assertRaisesRegex(BufferError, "max_version"):
                capsules.dlpack(capsules.capsule(), None, 1)
            capsules.dlpack(capsules.capsule(), (1, 0), 1)

    def test_wrong(self):
        texts = ("negative", "larger than memory", "data is NULL", "0 to 64", "0 to 64")
        for how, text in enumerate((*texts, "no bits", "no bits or no lanes", "no shape")):
            with self.subTest(how=how), self.one(), self.assertRaisesRegex(ValueError, text):
                capsules.wrong_dlpack(how)

    def test_wrong_version(self):
        for wrong in (3, ("a", "b"), ()):
            with self.subTest(wrong=wrong), self.one(), self.assertRaises(TypeError):
                capsules.dlpack(capsules.capsule(), wrong)

    def test_another_major_version(self):
        with self.changes(forged=1):
            tensor = capsules.forge(2, 1)
            with self.assertRaisesRegex(BufferError, "speaks DLPack 2.*max_version"):
                capsules.consume(tensor)
            self.assertEqual(capsules.name_of(tensor), "dltensor_versioned")
            del tensor

    def test_no_deleter(self):
        with self.changes(run=1):
            capsules.consume(capsules.forge(1, 0))

    def test_not_dlpack(self):
        with self.assertRaisesRegex(ValueError, "neither"):
            capsules.consume(capsules.plain_capsule())
        with self.assertRaisesRegex(TypeError, "not a capsule"):
            capsules.consume("dltensor")

    def test_deleted_twice(self):
        with self.one():
            capsules.delete_twice(capsules.dlpack(capsules.capsule()))


CPU, CUDA, PINNED, MANAGED = 1, 2, 3, 13
LEGACY, PER_THREAD, NO_ORDER, ANY = 1, 2, -1, -2


class Asks:
    """A producer on a device, which answers what it was asked."""

    def __init__(self, device, versioned=True):
        self.device, self.versioned, self.asked = device, versioned, []

    def __dlpack__(self, **keywords):
        self.asked.append(keywords)
        if not self.versioned and "max_version" in keywords:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        return capsules.answer(*self.device, NO_ORDER, {**keywords, "stream": None})

    def __dlpack_device__(self):
        return self.device


class Has:
    """A producer of one tensor."""

    def __init__(self, device, tensor):
        self.device, self.tensor = device, tensor

    def __dlpack__(self, **asked):
        return self.tensor

    def __dlpack_device__(self):
        return self.device


class Streams(Case):
    """DLPack's rules for streams. No device is needed where nothing is to be ordered."""

    def test_streams_of_a_producer(self):
        for device in (CUDA, MANAGED):
            for producer, stream in (
                (0, None),
                (0, LEGACY),
                (LEGACY, None),
                (PER_THREAD, PER_THREAD),
                (4096, 4096),
                (4096, NO_ORDER),
                (NO_ORDER, 4096),
            ):
                with self.subTest(device=device, producer=producer, stream=stream), self.one():
                    made = capsules.answer(device, 0, producer, {"stream": stream})
                    self.assertEqual(capsules.name_of(made), "dltensor")
                    del made

    def test_what_cannot_be_ordered(self):
        for producer, stream in ((0, PER_THREAD), (0, 4096), (PER_THREAD, None)):
            with (
                self.subTest(producer=producer, stream=stream),
                self.one(),
                self.assertRaisesRegex(BufferError, "stream=-1"),
            ):
                capsules.answer(CUDA, 0, producer, {"stream": stream})

    def test_wrong_streams(self):
        for device, stream, error, text in (
            (CUDA, 0, ValueError, "stream=0 could be either"),
            (CUDA, -2, ValueError, "negative"),
            (CUDA, 1 << 70, OverflowError, ""),
            (CUDA, "1", TypeError, "cudaStream_t"),
            (CPU, 1, ValueError, "stream=None"),
            (PINNED, 0, ValueError, "stream=None"),
        ):
            with (
                self.subTest(device=device, stream=stream),
                self.one(),
                self.assertRaisesRegex(error, text),
            ):
                capsules.answer(device, 0, 0, {"stream": stream})

    def test_page_locked_memory(self):
        for keywords, device in (
            ({}, (PINNED, 0)),
            ({"stream": NO_ORDER}, (PINNED, 0)),
            ({"dl_device": (PINNED, 0)}, (PINNED, 0)),
            ({"dl_device": (CPU, 0)}, (CPU, 0)),
        ):
            with self.subTest(**keywords), self.changes(run=2, destroyed=1):
                tensor = capsules.answer(PINNED, 0, 0, {"max_version": (1, 0), **keywords})
                self.assertEqual(capsules.import_of(Has(device, tensor), 0)[:3], (*device, 0.0))
                del tensor

    def test_no_copies(self):
        for keywords, error, text in (
            ({"copy": True}, BufferError, "copies none"),
            ({"dl_device": (CPU, 0)}, BufferError, r"\(2, 0\).*\(1, 0\)"),
            ({"dl_device": (CUDA, 1)}, BufferError, "copy what you get"),
            ({"dl_device": CPU}, TypeError, "tuple"),
            ({"dl_device": (1, 2, 3)}, TypeError, "tuple"),
            ({"wrong": 1}, TypeError, "wrong"),
        ):
            with self.subTest(**keywords), self.one(), self.assertRaisesRegex(error, text):
                capsules.answer(CUDA, 0, 0, keywords)
        for keywords in ({"copy": False}, {"copy": None}, {"dl_device": (CUDA, 0)}):
            with self.subTest(**keywords), self.one():
                capsules.answer(CUDA, 0, 0, keywords)

    def test_what_a_consumer_asks(self):
        for device, stream, asked in (
            ((CPU, 0), 7, {}),
            ((PINNED, 0), 7, {}),
            ((CUDA, 3), 0, {"stream": 1}),
            ((CUDA, 3), NO_ORDER, {"stream": -1}),
            ((CUDA, 3), 4096, {"stream": 4096}),
            ((MANAGED, 0), PER_THREAD, {"stream": 2}),
        ):
            for versioned in (True, False):
                case = self.subTest(device=device, versioned=versioned)
                with case, self.changes(run=2, destroyed=1):
                    source = Asks(device, versioned)
                    taken = capsules.import_of(source, stream)
                    self.assertEqual(taken[:3], (*device, 0.0))
                    wanted = [{"max_version": (1, 0), **asked}, asked]
                    self.assertEqual(source.asked, wanted[: 1 if versioned else 2])
                    del taken

    def test_wrong_producers(self):
        with self.assertRaisesRegex(TypeError, "does not speak DLPack"):
            capsules.import_of(3, 0)
        with self.assertRaisesRegex(ValueError, "HF_STREAM_ANY"):
            capsules.import_of(Asks((CUDA, 0)), ANY)
        for wrong in (3, (1,), ("a", "b")):
            with self.subTest(wrong=wrong), self.assertRaises(TypeError):
                capsules.import_of(Asks(wrong), 0)


class Arrow(Case):
    def test_released(self):
        with self.changes(run=2, arrow=2):
            capsules.arrow(0)

    def test_moved_away(self):
        with self.changes(run=2):
            schema, array = capsules.arrow(1)
            self.assertEqual(capsules.name_of(schema), "arrow_schema")
            self.assertEqual(capsules.name_of(array), "arrow_array")
            del schema, array


@unittest.skipUnless(numpy, "no NumPy")
class NumPy(Case):
    @unittest.skipUnless(BUFFERS, "the buffer protocol is not in this API")
    def test_over_a_buffer(self):
        with self.one():
            array = capsules.numpy_array()
            self.assertFalse(array.flags.owndata)
            self.assertTrue(array.flags.writeable)
            self.assertEqual((array.dtype, array.shape), (numpy.float64, (2, 3)))
            view = array[1:, ::2]
            with self.changes():
                del array
            self.assertEqual(view.tolist(), [[3, 5]])
            del view

    @unittest.skipUnless(BUFFERS, "the buffer protocol is not in this API")
    def test_readonly(self):
        with self.one():
            array = capsules.numpy_array((2, 3), "F", 1)
            self.assertFalse(array.flags.writeable)
            self.assertEqual(array.sum(), 15)
            del array

    @unittest.skipUnless(hasattr(numpy, "from_dlpack"), "a NumPy without from_dlpack")
    def test_from_dlpack(self):
        with self.one():
            source = Source()
            array = numpy.from_dlpack(source)
            self.assertFalse(array.flags.owndata)
            asked = source.asked[-1]
            self.assertEqual(asked is not None, VERSIONED)
            del source
            with self.changes():
                self.assertEqual(array.tolist(), [[0, 1, 2], [3, 4, 5]])
            del array

    @unittest.skipUnless(hasattr(numpy, "from_dlpack"), "a NumPy without from_dlpack")
    def test_read_only_from_dlpack(self):
        with self.one():
            source = Source(1)
            if not VERSIONED:
                with self.assertRaisesRegex(BufferError, "read-only"):
                    numpy.from_dlpack(source)
            else:
                self.assertFalse(numpy.from_dlpack(source).flags.writeable)
            del source

    @unittest.skipUnless(hasattr(numpy, "from_dlpack"), "a NumPy without DLPack")
    def test_to_us(self):
        array = numpy.arange(6.0).reshape(2, 3)
        alone = sys.getrefcount(array)
        versions = [{}, {"max_version": (1, 0)}] if VERSIONED else [{}]
        for keywords in versions:
            with self.subTest(keywords=keywords), self.changes(run=1):
                first, last, rows, _, _, memory = capsules.consume(array.__dlpack__(**keywords))
                self.assertEqual((first, last, rows), (0, 5, 2))
                self.assertGreater(sys.getrefcount(array), alone)
                del memory


@unittest.skipUnless(owns, "NumPy's headers are not there")
class NumPyBase(Case):
    def test_own(self):
        with self.one():
            array = owns.array(capsules.capsule(), 0)
            self.assertFalse(array.flags.owndata)
            self.assertEqual(array.sum(), 15)
            view = array[3:]
            with self.changes():
                del array
            self.assertEqual(view.tolist(), [3, 4, 5])
            del view

    def test_owned_already(self):
        with self.one(), self.assertRaisesRegex(ValueError, "owns its data"):
            owns.array(capsules.capsule(), 1)

    def test_a_base_already(self):
        with self.one(), self.assertRaises(ValueError):
            owns.array(capsules.capsule(), 2)


@unittest.skipUnless(torch, "no torch")
class Torch(Case):
    @unittest.skipUnless(hasattr(getattr(torch, "Tensor", None), "__dlpack__"), "an old torch")
    def test_from_dlpack(self):
        with self.one():
            tensor = torch.utils.dlpack.from_dlpack(Source())
            self.assertEqual(tensor.tolist(), [[0, 1, 2], [3, 4, 5]])
            part = tensor[1]
            with self.changes():
                del tensor
            part += 1
            self.assertEqual(part.tolist(), [4, 5, 6])
            del part

    def test_to_us(self):
        with self.changes(run=1):
            tensor = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)
            first, last, rows, _, _, memory = capsules.consume(torch.utils.dlpack.to_dlpack(tensor))
            del tensor
            self.assertEqual((first, last, rows), (0, 5, 2))
            del memory

    @unittest.skipUnless(BUFFERS and hasattr(torch, "frombuffer"), "no frombuffer")
    def test_over_a_buffer(self):
        with self.one():
            tensor = torch.frombuffer(capsules.buffer(), dtype=torch.float64)
            self.assertEqual(tensor.sum().item(), 15)
            del tensor


class Owners(Case):
    def test_all_memory_was_the_heaps(self):
        self.assertEqual(capsules.counts()["wrong_owner"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=0)
