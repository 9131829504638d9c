"""For the tests of homefree.extension: modules in directories of their own, processes that load
them, and compilers that count, wait or lie."""

import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import unittest

# value() returns VALUE; owned() returns whether the module's memory is the heap's.
MODULE = r"""
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <homefree/homefree.h>
#include <homefree/python.h>
#include <stdlib.h>
#include <string.h>
#include "value.h"

static PyObject *value(PyObject *self, PyObject *arguments)
{
    (void)self, (void)arguments;
    return PyLong_FromLong(VALUE);
}

static PyObject *owned(PyObject *self, PyObject *arguments)
{
    (void)self, (void)arguments;
    char *copy = strdup("memory of the module");
    PyObject *result = PyBool_FromLong(hf_owns(copy));
    free(copy);
    return result;
}

static PyMethodDef methods[] = {{"value", value, METH_NOARGS, NULL},
                                {"owned", owned, METH_NOARGS, NULL},
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_size = 0, .m_methods = methods};

PyMODINIT_FUNC HF_MODULE_INIT(void)
{
    return PyModuleDef_Init(&module);
}
"""

CXX_MODULE = r"""
#include <Python.h>
#include <homefree/homefree.h>
#include <homefree/python.h>
#include <string>
#include <vector>
#include "value.h"

static PyObject *value(PyObject *, PyObject *)
{
    return PyLong_FromLong(VALUE);
}

static PyObject *owned(PyObject *, PyObject *)
{
    // Its constructor is a template of the module's; append() would be libstdc++'s own.
    std::vector<std::string> texts(20);
    return PyBool_FromLong(hf_owns(texts.data()));
}

static PyMethodDef methods[] = {{"value", value, METH_NOARGS, nullptr},
                                {"owned", owned, METH_NOARGS, nullptr},
                                {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "module", nullptr, 0, methods,
                             nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC HF_MODULE_INIT(void)
{
    return PyModuleDef_Init(&module);
}
"""

# The same without the C++ library, whose headers take most of the time.
BARE_CXX_MODULE = (
    CXX_MODULE.replace("#include <string>\n#include <vector>\n", "")
    .replace("    std::vector<std::string> texts(20);\n", "    char *texts = new char[20]();\n")
    .replace("hf_owns(texts.data())", "hf_owns(texts)")
)

# Begins every piece of code.
PRELUDE = """
import os, sys
from homefree import extension
def load(name="fast", sources=("fast.c",), **keywords):
    return extension.load(name, sources, **keywords)
def refused(*words, kind=ImportError, **keywords):
    try:
        load(**keywords)
    except kind as error:
        for word in words:
            assert word in str(error), f"{word!r} is not in: {error}"
        return str(error)
    raise AssertionError("it was loaded")
"""

SECONDS = 60


class Outcome:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err


class TestCase(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        signal.signal(signal.SIGALRM, self._too_long)
        signal.alarm(SECONDS)
        self.addCleanup(signal.alarm, 0)
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="homefree-extension-"))
        self.addCleanup(shutil.rmtree, self.work, ignore_errors=True)
        self.cache = self.work / "cache"
        self.log = self.work / "log"
        # Meson sets LD_LIBRARY_PATH; modules must find libhomefree without it.
        dropped = (
            "LD_LIBRARY_PATH",
            "CC",
            "CXX",
            "CFLAGS",
            "CXXFLAGS",
            "CPPFLAGS",
            "LDFLAGS",
            "NO_COLOR",
        )
        self.environment = {
            key: value
            for key, value in os.environ.items()
            if key not in dropped and not key.startswith("HOMEFREE_")
        }
        self.environment["HOMEFREE_BUILD_DIR"] = str(self.cache)
        # Counts compilations, but not links and calls that ask for the version.
        self.environment["CC"] = str(self.counting("cc", "cc"))
        self.write("fast.c", MODULE)
        self.write("value.h", "#define VALUE 1\n")

    def write(self, name, text):
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def script(self, name, text):
        path = self.write("bin/" + name, "#!/bin/sh\n" + textwrap.dedent(text))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def counting(self, name, compiler, before=""):
        return self.script(
            f"counting-{name}",
            f'case " $* " in *" -c "*) echo compiled >>{self.log}; {before}\n;; esac\n'
            f'exec {compiler} "$@"\n',
        )

    def compiled(self):
        """The number of files that were compiled so far."""
        return len(self.log.read_text().split()) if self.log.exists() else 0

    def begin(self, code, *, prelude=PRELUDE, **environment):
        """Starts a process that runs the code in the work directory."""
        merged = {**self.environment, **environment}
        process = subprocess.Popen(
            [sys.executable, "-s", "-c", prelude + textwrap.dedent(code)],
            cwd=self.work,
            env={key: str(value) for key, value in merged.items() if value is not None},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.addCleanup(self._end, process)
        return process

    @staticmethod
    def _too_long(*_):
        raise AssertionError(f"it hangs: {SECONDS} seconds have passed")

    @staticmethod
    def _end(process):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        process.stderr.close()

    def finish(self, process):
        out, err = process.communicate(timeout=SECONDS)
        return Outcome(process.returncode, out, err)

    def run_code(self, code, **environment):
        return self.finish(self.begin(code, **environment))

    def fine(self, code, **environment):
        """The code's asserts hold and it writes nothing to stderr. Result: its output."""
        outcome = self.run_code(code, **environment)
        self.assertEqual((outcome.status, outcome.err), (0, ""), outcome.out)
        return outcome.out

    def value(self, **environment):
        return int(self.fine("print(load().value())", **environment))

    def entries(self, name="fast"):
        return sorted(path for path in (self.cache / name).iterdir() if path.is_dir())

    def module(self, name="fast"):
        (entry,) = self.entries(name)
        return next(entry.glob("*.so"))


def main():
    unittest.main(verbosity=0)
