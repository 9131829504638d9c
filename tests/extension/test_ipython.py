"""%%homefree in IPython: cells in C and C++ become functions of the notebook.

With a Python that has no IPython, it starts again in the tools' environment of the build.
"""

import contextlib
import importlib.util
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

if importlib.util.find_spec("IPython") is None:
    tools = pathlib.Path(os.environ.get("HOMEFREE_TOOLS", "/nowhere")) / "bin/python3"
    if "HOMEFREE_AGAIN" in os.environ or not tools.exists():
        print("IPython is missing; tests/run installs it into the tools' environment")
        sys.exit(77)
    os.environ["HOMEFREE_AGAIN"] = "1"
    os.execv(tools, [str(tools), *sys.argv])

from IPython.core.interactiveshell import InteractiveShell  # noqa: E402
from traitlets.config import Config  # noqa: E402

CELL = r"""%%homefree OPTIONS
#include <Python.h>
#include <homefree/homefree.h>
#include <homefree/python.h>
#include <string.h>
static PyObject *answer(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    char *copy = strdup("memory of the cell");
    long result = VALUE * hf_owns(copy);
    free(copy);
    return PyLong_FromLong(result);
}
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "cell", NULL, 0, methods};
PyMODINIT_FUNC HF_MODULE_INIT(void)
{
    return PyModuleDef_Init(&module);
}
"""


def cell(value, options="", old="", new=""):
    text = CELL.replace("VALUE", str(value)).replace(" OPTIONS", options and f" {options}")
    assert old in text
    return text.replace(old, new) if old else text


class Magic(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory(prefix="homefree-cells-")
        cls.addClassCleanup(place.cleanup)
        cls.place = pathlib.Path(place.name)
        os.environ["HOMEFREE_BUILD_DIR"] = str(cls.place / "cache")
        os.environ["IPYTHONDIR"] = str(cls.place / "ipython")
        os.environ["NO_COLOR"] = "1"
        os.environ["CLICOLOR_FORCE"] = "1"  # as notebooks' kernels do
        cls.addClassCleanup(os.chdir, os.getcwd())
        os.chdir(cls.place)
        cls.shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
        cls.fine("%load_ext homefree")

    @classmethod
    def run_cell(cls, text):
        """Result: whether it succeeded, and what it said."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            result = cls.shell.run_cell(text)
        return result.success, said.getvalue()

    @classmethod
    def fine(cls, text):
        success, said = cls.run_cell(text)
        assert success, said
        return said

    def refused(self, text, *words):
        """The cell fails with a message alone, which has these words."""
        success, said = self.run_cell(text)
        self.assertFalse(success, said)
        self.assertNotIn("Traceback", said)
        for word in words:
            self.assertIn(word, said)
        return said

    def value(self, expression):
        return self.shell.ev(expression)

    def test_functions_become_names_of_the_notebook(self):
        self.assertEqual(self.fine(cell(42)), "")
        self.assertEqual(self.value("answer()"), 42)
        self.fine("first = answer")
        self.fine(cell(43))
        self.assertEqual(self.value("answer(), first()"), (43, 42))
        self.assertNotIn("__file__", self.shell.user_ns)
        said = self.fine(cell(42, "--verbose"))  # compiled before
        self.assertEqual((self.value("answer()"), said), (42, ""))

    def test_a_compile_error_shows_the_cell_s_lines(self):
        self.fine("answer = 'as before'")
        said = self.refused(cell(1, old="return PyLong", new="retrun PyLong"), "cell:12:", "retrun")
        self.assertNotIn(str(self.place / "cache/cells"), said)
        self.assertNotIn("_ipython.py", said)
        self.assertNotIn("FAILED", said)
        self.assertEqual(self.value("answer"), "as before")

    def test_a_module_that_does_not_load(self):
        self.refused(cell(1, old="HF_MODULE_INIT", new="PyInit_other"), "HF_MODULE_INIT(void)")

    def test_a_name(self):
        self.fine(cell(7, "--name seven"))
        self.fine("import seven; old = seven")
        self.fine(cell(8, "-n seven"))
        self.fine("import seven")
        self.assertEqual(self.value("seven.answer(), old.answer()"), (8, 7))

    def test_the_language(self):
        cxx = "#include <vector>\nstd::vector<int> unused;\n"
        said = self.refused(cell(1, old="#include <Py", new="template<int>\n#include <Py"), "-+")
        self.assertIn("compiled as C", said)
        self.refused("%%homefree\n" + cxx + "int text = unused;", "cell:4:", "std::vector<int>")
        self.refused("%%homefree -+\n" + cxx + "int text = unused;", "cell:4:")
        self.refused("%%homefree --language c\n" + cxx, "cell:2:", "vector")

    def test_flags_and_headers_beside_the_notebook(self):
        (self.place / "beside.h").write_text("#define BESIDE 20\n")
        text = cell("(BESIDE + HERE)", "-c=-DHERE=1 -c '-Wall -Werror' --link-args=-Wl,-z,now")
        self.fine(text.replace("#include <string.h>", '#include <string.h>\n#include "beside.h"'))
        self.assertEqual(self.value("answer()"), 21)

    def test_wrong_options_say_what_there_is(self):
        self.refused(
            cell(1, "--nmae x"), "--nmae", "[-n NAME]", "[--language {c,c++,cuda}]", "[-v]"
        )
        self.refused(cell(1, "--language ada"), "'ada'", "c++")
        self.refused(cell(1, "-n 1st"), "'1st' is not a valid module name")
        self.refused(cell(1, "-n"), "expected one argument")
        self.refused(cell(1, "'open"), "'open")
        self.refused("%%homefree\n \n", "the cell is empty")
        self.assertIn("--compile-args FLAGS", self.fine("%%homefree --help\n-"))

    def test_a_cache_that_cannot_be_written(self):
        os.environ["HOMEFREE_BUILD_DIR"] = "/dev/null/cache"
        try:
            self.refused(cell(5), "/dev/null/cache", "HOMEFREE_BUILD_DIR")
        finally:
            os.environ["HOMEFREE_BUILD_DIR"] = str(self.place / "cache")

    def test_old_cells_are_removed(self):
        from homefree import _ipython

        root = self.place / "old"
        (root / "cells").mkdir(parents=True)
        for age in range(5):
            directory = root / f"cell_{age}"
            directory.mkdir()
            (root / f"cells/cell_{age}.c").touch()
            os.utime(directory, (10**9 - age * 86400, 10**9 - age * 86400))
        (root / "mine").mkdir()
        before, _ipython._KEPT = _ipython._KEPT, 2
        try:
            _ipython._remove_old(str(root))
        finally:
            _ipython._KEPT = before
        self.assertEqual(
            sorted(path.name for path in root.rglob("*")),
            ["cell_0", "cell_0.c", "cell_1", "cell_1.c", "cells", "mine"],
        )

    def test_loaded_once_more(self):
        self.fine("%reload_ext homefree")
        self.fine(cell(42))

    def test_nothing_is_imported_before(self):
        code = (
            "import sys, homefree; assert 'homefree._ipython' not in sys.modules; "
            "homefree.load_ipython_extension; assert 'IPython' not in sys.modules"
        )
        subprocess.run([sys.executable, "-c", code], check=True)


if __name__ == "__main__":
    unittest.main()
