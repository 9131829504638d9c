"""NumPy's arrays on the heap: in every thread, whenever NumPy is imported, beside handlers of
others, and arrays from before and after. Skipped where the interpreter has no NumPy.
"""

import sys
import unittest

import support

try:
    import numpy

    LACKS = None
    if tuple(int(part) for part in numpy.__version__.split(".")[:2]) < (1, 22):
        LACKS = f"NumPy {numpy.__version__} takes no allocator of others; 1.22 and later do"
except ImportError:
    LACKS = "no NumPy"

NUMPY = (
    support.PRELUDE
    + """
def where(array):
    return kind(array.__array_interface__["data"][0])
"""
)
IMPORT = "import numpy\n"


@unittest.skipIf(LACKS, LACKS)
class Numpy(support.TestCase):
    def fine(self, code, *flags, prelude=NUMPY, **environment):
        super().fine(code, *flags, prelude=prelude, **environment)

    def test_imported_before(self):
        self.fine(
            IMPORT
            + """
early = [numpy.arange(n) for n in (1, 10, 1000, 1000000)]
assert homefree.install().numpy == "installed"
assert homefree.install().numpy == "installed"
late = [numpy.arange(n) for n in (1, 10, 1000, 1000000)]
zeros = [numpy.zeros(n) for n in (1, 10, 1000, 1000000)]
assert {where(a) for a in late + zeros} == {"heap"}
assert all(not a.any() for a in zeros)
for a in early + late + zeros:
    a.resize(2000000, refcheck=False)
    a[-1] = 1
    a.resize(10, refcheck=False)
del early, late, zeros, a
assert numpy.ones((500, 500)).sum() == 250000
""",
        )

    def test_imported_after(self):
        self.fine(
            """
            import importlib.machinery
            assert homefree.install().numpy == "later"
            assert homefree.install().numpy == "later"
            assert len([f for f in sys.meta_path if "Numpy" in repr(f)]) == 1
            import json, numpy
            assert where(numpy.arange(100)) == "heap"
            assert not [f for f in sys.meta_path if "Numpy" in repr(f)]
            core = sys.modules.get("numpy._core._multiarray_umath")
            core = core or sys.modules["numpy.core._multiarray_umath"]
            loader = importlib.machinery.ExtensionFileLoader
            assert type(core.__spec__.loader) is type(core.__loader__) is loader
            assert homefree.install().numpy == "installed"
            """,
        )

    def test_debug_hooks(self):
        """From 2.5 on, NumPy's own functions allocate from PyMem_RawMalloc. There, debug hooks
        return an address inside the heap's block."""
        self.fine(
            """
            homefree.install(numpy=False)
            import numpy
            early = [numpy.arange(n) for n in (1, 10, 1000, 1000000)]
            homefree.install()
            late = [numpy.arange(n) for n in (1, 10, 1000, 1000000)]
            assert {where(a) for a in late} == {"heap"}
            for a in early + late:
                a.resize(2000000, refcheck=False)
                a.resize(10, refcheck=False)
            early = [numpy.zeros(n) for n in range(1000)]
            homefree.uninstall()
            more = [numpy.zeros(n) for n in range(1000)]
            homefree.install()
            del early, late, more, a
            """,
            PYTHONMALLOC="debug",
        )

    def test_not_wanted(self):
        self.fine(
            """
            assert homefree.install("off", numpy=False).numpy == "off"
            import numpy
            assert where(numpy.arange(100000)) != "heap"
            """,
        )

    def test_numpy_alone(self):
        self.fine(
            IMPORT
            + """
assert homefree.install("off") == ("off", "installed")
assert where(numpy.arange(100)) == "heap" and kind(bytearray(1000)) != "heap"
""",
        )

    def test_uninstalled_before_import(self):
        self.fine(
            """
            homefree.install()
            homefree.uninstall()
            import numpy
            assert where(numpy.arange(100000)) != "heap"
            """,
        )

    def test_uninstall(self):
        self.fine(
            IMPORT
            + """
homefree.install()
arrays = [numpy.arange(n) for n in (1, 10, 100, 1000, 1000000)]
homefree.uninstall()
more = [numpy.arange(n) for n in (1, 10, 100, 1000, 1000000)]
assert where(more[-1]) != "heap"
for a in arrays:
    a.resize(3000, refcheck=False)
del arrays, a
again = [numpy.arange(n) for n in range(1000)]
homefree.install()
assert where(numpy.arange(1000000)) == "heap"
del again, more
""",
        )

    def test_threads(self):
        self.fine(
            IMPORT
            + """
homefree.install()
found = []
def work():
    found.append([numpy.arange(n) for n in range(1, 2000, 7)])
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert {where(a) for arrays in found for a in arrays} == {"heap"}
import contextvars
contextvars.Context().run(work)
assert {where(a) for a in found[-1]} == {"heap"}
""",
        )

    def test_freed_by_c(self):
        """libc's free() ends the heap memory of an array, and an array that C freed."""
        self.fine(
            IMPORT
            + """
homefree.install()
for n in range(1, 3000, 13):
    array = numpy.arange(n)
    block = array.__array_interface__["data"][0]
    assert usable(block) >= array.nbytes
""",
        )

    def test_handler_of_others(self):
        """A handler that a user has set stays; its arrays are freed through the handler that
        made them."""
        self.fine(
            IMPORT
            + """
class Functions(ctypes.Structure):
    _fields_ = [
        ("ctx", pointer),
        ("malloc", ctypes.CFUNCTYPE(pointer, pointer, size_t)),
        ("calloc", ctypes.CFUNCTYPE(pointer, pointer, size_t, size_t)),
        ("realloc", ctypes.CFUNCTYPE(pointer, pointer, pointer, size_t)),
        ("free", ctypes.CFUNCTYPE(None, pointer, pointer, size_t)),
    ]
class Handler(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("f", Functions)]
libc = ctypes.CDLL("libc.so.6")
libc.malloc.restype = libc.calloc.restype = libc.realloc.restype = pointer
libc.malloc.argtypes = [size_t]
libc.calloc.argtypes = [size_t, size_t]
libc.realloc.argtypes = [pointer, size_t]
libc.free.argtypes = [pointer]
live = set()
def allocated(block):
    live.add(block)
    return block
def resized(ctx, block, size):
    live.discard(block)
    return allocated(libc.realloc(block, size))
def freed(ctx, block, size):
    live.remove(block)
    libc.free(block)
fields = dict(Functions._fields_)
handler = Handler(
    b"theirs",
    1,
    Functions(
        None,
        fields["malloc"](lambda ctx, size: allocated(libc.malloc(size))),
        fields["calloc"](lambda ctx, count, size: allocated(libc.calloc(count, size))),
        fields["realloc"](resized),
        fields["free"](freed),
    ),
)
core = sys.modules.get("numpy._core._multiarray_umath") or sys.modules[
    "numpy.core._multiarray_umath"
]
pointer_of = function(python, "PyCapsule_GetPointer", pointer, ctypes.py_object, ctypes.c_char_p)
capsule = function(
    python, "PyCapsule_New", ctypes.py_object, pointer, ctypes.c_char_p, pointer
)
table = ctypes.cast(pointer_of(core._ARRAY_API, None), ctypes.POINTER(pointer))
set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[304])
before = numpy.arange(500)
default = set_handler(capsule(ctypes.addressof(handler), b"mem_handler", None))
theirs = numpy.arange(500)
assert len(live) == 1
homefree.install()
also_theirs = numpy.arange(500)
assert len(live) == 2 and where(also_theirs) != "heap"
set_handler(default)
ours = numpy.arange(500)
assert len(live) == 2 and where(ours) == "heap"
theirs.resize(5000, refcheck=False)
assert len(live) == 2
del theirs, also_theirs, before
assert not live
assert not homefree.uninstall()
del ours
""",
        )

    def test_exit_with_arrays(self):
        self.fine(
            IMPORT
            + """
keep = numpy.arange(1000)
homefree.install()
import builtins
builtins.arrays = [numpy.arange(n) for n in range(1000)]
numpy.mine = numpy.zeros(10000)
""",
        )


if __name__ == "__main__":
    sys.exit(support.main())
