"""One check in one process, as a user's program would do it.

usage: probe.py CHECK    package, module, after, load, command
Prints "ok" at the end; anything else is what a user would read.
"""

import ctypes
import os
import subprocess
import sys
import tempfile

LOADED = """
#include <Python.h>
#include <homefree/python.h>
#include <stdlib.h>
static PyObject *give(PyObject *self, PyObject *args)
{
    return PyLong_FromVoidPtr(malloc(100));
}
static PyMethodDef methods[] = {{"give", give, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "loaded", NULL, -1, methods};
PyMODINIT_FUNC HF_MODULE_INIT(void)
{
    return PyModule_Create(&module);
}
"""


def package():
    import homefree

    assert homefree.install().python == "arena"


def module():
    """Blocks cross between the module and libc, both ways; nobody imported homefree."""
    from way import greet

    libc = ctypes.CDLL(None)
    libc.free.argtypes = [ctypes.c_void_p]
    libc.strdup.restype = ctypes.c_void_p
    for _ in range(100):
        block = greet.give()
        assert greet.owned(block)
        libc.free(block)
        block = libc.strdup(b"a block of libc")
        assert not greet.owned(block)
        greet.take(block)
    with open("/proc/self/maps") as maps:
        loaded = {line.split()[-1] for line in maps if "/libhomefree" in line}
    assert len(loaded) == 1, loaded


def after():
    """The remedy where the module does not find the heap by itself."""
    import homefree  # noqa: F401

    module()


def load():
    import homefree

    with tempfile.TemporaryDirectory() as directory:
        source = os.path.join(directory, "loaded.c")
        with open(source, "w") as file:
            file.write(LOADED)
        loaded = homefree.extension.load("loaded", [source])
    block = loaded.give()
    assert homefree.owner_of(block).kind == "heap"
    libc = ctypes.CDLL(None)
    libc.free.argtypes = [ctypes.c_void_p]
    libc.free(block)


def command():
    """`homefree` beside the interpreter, or `python -m homefree`."""
    import importlib.util

    path = importlib.util.find_spec("way.greet").origin
    code = "from way import greet; assert greet.owned(greet.give())"
    for words in ["inspect", "--require-homefree", path], ["run", "--", *PYTHON, "-c", code]:
        subprocess.run([*COMMAND, *words], check=True, stdout=subprocess.DEVNULL)


PYTHON = os.environ.get("HOMEFREE_PROBE_PYTHON", sys.executable).split("\n")
COMMAND = os.environ.get("HOMEFREE_PROBE_COMMAND", "homefree").split("\n")
{"package": package, "module": module, "after": after, "load": load, "command": command}[
    sys.argv[1]
]()
print("ok")
