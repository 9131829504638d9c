"""The examples of the Python package do what they show, and every public name has one.

Each runs in a process of its own, in a directory that has fast.c, and under the command that its
section names. Those of homefree.cuda run on the double of CUDA, with the real torch, CuPy and
others where they are installed. What cannot run here is compiled, and skipped with the reason.

Usage: test_examples.py COMMAND DOUBLE-DIRECTORY [unittest's arguments], with homefree on PYTHONPATH
       test_examples.py --one NAME      one example, in this process
DOUBLE-DIRECTORY is "" where there is none.
"""

import doctest
import importlib.util
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples" / "python"
sys.path.insert(0, str(EXAMPLES))
import support  # noqa: E402
from read import read_examples  # noqa: E402

# torch's and CuPy's own runtimes do not take the double for a driver.
NEED_DEVICE = {"homefree.cuda.cupy_allocator", "homefree.cuda.torch_mem_pool"}
HAS_DEVICE = os.path.exists("/dev/nvidiactl")
IMPORT = re.compile(r"^(?:>>>|\.\.\.) +(?:import|from) ([\w.]+)", re.MULTILINE)
MODULES = ("", ".check", ".cuda", ".extension", ".interpreters", ".package", ".setuptools")
IGNORE = doctest.register_optionflag("IGNORE")


class Checker(doctest.OutputChecker):
    def check_output(self, want, got, optionflags):
        return bool(optionflags & IGNORE) or super().check_output(want, got, optionflags)


def parsed(name):
    text = next(text for found, _, text in read_examples() if found == name)
    return doctest.DocTestParser().get_doctest(text + "\n", {}, name, None, 0)


def run_one(name):
    """Runs one example here. Returns the number of failures."""
    sys.path[0] = ""  # the current directory, as in a session
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    return doctest.DocTestRunner(Checker(), optionflags=flags).run(parsed(name)).failed


def is_missing(module):
    """Whether there is no such module here; a torch without CUDA is none."""
    package = importlib.util.find_spec(module.partition(".")[0])
    if package is None or module != "torch":
        return package is None or importlib.util.find_spec(module) is None
    return not (Path(package.origin).parent / "lib" / "libtorch_cuda.so").exists()


def why_not(name, text):
    """Why an example cannot run here; None if it can."""
    if name == "homefree.get_cmake_dir" and not homefree._paths.CMAKE:
        return "a build directory has no CMake files to find"
    if name.startswith("homefree.interpreters.") and sys.version_info < (3, 12):
        return "CPython before 3.12 has one GIL for all interpreters"
    if name in NEED_DEVICE and not HAS_DEVICE:
        return "no device of NVIDIA's"
    if name.startswith("homefree.cuda.") and not DOUBLE:
        return "no double of CUDA"
    if re.search(r"extension\.(load|build)\(|ext_modules", text) and not shutil.which("cc"):
        return "no C compiler"
    own = {"fast"}  # the example builds it
    missing = [one for one in IMPORT.findall(text) if one not in own and is_missing(one)]
    return f"no {', '.join(missing)}" if missing else None


class Examples(unittest.TestCase):
    def run_example(self, name, words, scratch):
        directory = os.path.join(scratch, name)
        os.mkdir(directory)
        shutil.copy(EXAMPLES / "fast.c", directory)
        variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "XDG_CACHE_HOME": scratch}
        if name.startswith("homefree.cuda.") and name not in NEED_DEVICE:
            variables |= {"LD_LIBRARY_PATH": DOUBLE, "HOMEFREE_CONF": f"cuda:{self.runtime}"}
            if name == "homefree.cuda.Unavailable":
                variables["DOUBLE_CUDA_DEVICES"] = "0"
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
        if DOUBLE:
            self.runtime = support.renamed_runtime(DOUBLE, scratch.name)
        for name, words, text in read_examples():
            with self.subTest(example=name):
                why = why_not(name, text)
                if why is None:
                    self.run_example(name, words, scratch.name)
                    continue
                for example in parsed(name).examples:
                    compile(example.source, name, "single")
                self.skipTest(why)

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
        checked = {name for name in shown if name.rpartition(".")[0][8:] in HERE}
        self.assertEqual(names - shown, set(), "names without an example")
        self.assertEqual(checked - names, set(), "examples of what is not public")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        sys.exit(run_one(sys.argv[2]) != 0)
    import homefree._paths

    COMMAND = os.path.abspath(sys.argv.pop(1))  # examples run in a directory of their own
    DOUBLE = sys.argv.pop(1)
    # Modules that this CPython has: interpreters from 3.12 on, setuptools if it is installed.
    HERE = {
        end
        for end in MODULES
        if not (end == ".interpreters" and sys.version_info < (3, 12))
        and not (end == ".setuptools" and importlib.util.find_spec("setuptools") is None)
    }
    unittest.main()
