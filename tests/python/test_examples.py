"""The examples of the Python package do what they show, and every public name has one.

Each runs in a process of its own, in a directory that has fast.c, and under the command that its
section names.

Usage: test_examples.py COMMAND [unittest's arguments], with homefree on PYTHONPATH
       test_examples.py --one NAME      one example, in this process
"""

import doctest
import importlib.util
import inspect
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples" / "python"
sys.path.insert(0, str(EXAMPLES))
from read import read_examples  # noqa: E402

MODULES = ("", ".check", ".cuda", ".extension", ".interpreters", ".package", ".setuptools")
# Public functions and classes without an example yet: this list only gets shorter.
WITHOUT = {
    # There is none in a build directory, to which the examples are run.
    "homefree.get_cmake_dir",
    # examples/torch_op shows it, with a torch.
    "homefree.torch_extension_args",
    # examples/minimal and others: a project that is built shows these.
    "homefree.setuptools.Extension",
    "homefree.setuptools.build_ext",
    # docs/cuda.md and examples/cuda_op: they need a device.
    *(
        f"homefree.cuda.{name}"
        for name in (
            *("DeviceArray", "cuda_core_resource", "cupy_allocator", "empty", "empty_pinned"),
            *("from_dlpack", "limit", "pin_memory", "record_stream", "rmm_resource", "stats"),
            *("torch_allocator", "torch_mem_pool", "trim", "use_cupy", "use_numba", "use_rmm"),
            "use_torch",
        )
    ),
    *(
        f"homefree.interpreters.{name}"
        for name in ("BrokenInterpreters", "Message", "Replica", "Shared", "prepare", "share")
    ),
    *(
        f"homefree.package.{name}"
        for name in (
            *("Directory", "MockUsed", "PackageError", "RefusedImport", "RefusedPickle"),
            "UnresolvedImports",
        )
    ),
}
IGNORE = doctest.register_optionflag("IGNORE")


class Checker(doctest.OutputChecker):
    def check_output(self, want, got, optionflags):
        return bool(optionflags & IGNORE) or super().check_output(want, got, optionflags)


def run_one(name):
    """Runs one example here. Returns the number of failures."""
    text = next(text for found, _, text in read_examples() if found == name)
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    test = doctest.DocTestParser().get_doctest(text + "\n", {}, name, None, 0)
    return doctest.DocTestRunner(Checker(), optionflags=flags).run(test).failed


class Examples(unittest.TestCase):
    def run_example(self, name, words, directory):
        variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "XDG_CACHE_HOME": directory}
        command = [sys.executable, __file__, "--one", name]
        if words:
            command = [COMMAND, *shlex.split(words)[1:], "--", *command]
        done = subprocess.run(
            command, cwd=directory, env=variables, capture_output=True, text=True, timeout=100
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_they_do_what_they_show(self):
        scratch = tempfile.TemporaryDirectory(prefix="homefree-examples-")
        self.addCleanup(scratch.cleanup)
        shutil.copy(EXAMPLES / "fast.c", scratch.name)
        for name, words, text in read_examples():
            if text.count("homefree.extension.load(") and not shutil.which("cc"):
                continue
            if name.startswith("homefree.interpreters.") and sys.version_info < (3, 12):
                continue
            with self.subTest(example=name):
                self.run_example(name, words, scratch.name)

    def test_every_public_name_has_one(self):
        names = set()
        for end in MODULES:
            module = importlib.import_module("homefree" + end) if end in HERE else None
            for name in module.__all__ if module else ():
                value = getattr(module, name)
                # What functions return, with fields alone, is shown by these.
                fields = inspect.isclass(value) and issubclass(value, tuple)
                if not inspect.ismodule(value) and not fields:
                    names.add(f"homefree{end}.{name}")
        shown = {name for name, _, _ in read_examples()}
        checked = {name for name in shown | WITHOUT if name.rpartition(".")[0][8:] in HERE}
        self.assertEqual(names - shown, WITHOUT & checked, "names without an example")
        self.assertEqual(checked - names, set(), "examples of what is not public")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        sys.exit(run_one(sys.argv[2]) != 0)
    COMMAND = os.path.abspath(sys.argv.pop(1))  # examples run in a directory of their own
    # Modules that this CPython has: interpreters from 3.12 on, setuptools if it is installed.
    HERE = {
        end
        for end in MODULES
        if not (end == ".interpreters" and sys.version_info < (3, 12))
        and not (end == ".setuptools" and importlib.util.find_spec("setuptools") is None)
    }
    unittest.main()
