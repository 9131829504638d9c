"""Extension modules in packages: built here, extracted for each reader, loaded in every
interpreter, and gone when the process ends."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import unittest

import support
from homefree import package

# Keeps its state in a global, and does not declare that interpreters of their own may use it: what
# two readers, or two interpreters, must not share.
SOURCE = r"""
#include <Python.h>
static long count;
static PyObject *next_one(PyObject *self, PyObject *unused)
{
    return PyLong_FromLong(++count);
}
static PyMethodDef methods[] = {{"next", next_one, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
#ifdef Py_GIL_DISABLED
static PyModuleDef_Slot slots[] = {{Py_mod_gil, Py_MOD_GIL_NOT_USED}, {0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "counter", NULL, 0, methods,
                                        slots, NULL, NULL, NULL};
#else
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "counter", NULL, -1, methods,
                                        NULL, NULL, NULL, NULL};
#endif
PyMODINIT_FUNC PyInit_counter(void)
{
#ifdef Py_GIL_DISABLED
    return PyModuleDef_Init(&definition);
#else
    return PyModule_Create(&definition);
#endif
}
"""
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


def setUpModule():
    global BUILT, DIRECTORY
    include = sysconfig.get_path("include")
    if not os.path.exists(os.path.join(include, "Python.h")):
        raise unittest.SkipTest("this Python has no headers")
    DIRECTORY = pathlib.Path(tempfile.mkdtemp(prefix="homefree-test-"))
    unittest.addModuleCleanup(shutil.rmtree, DIRECTORY)
    (DIRECTORY / "counter.c").write_text(SOURCE)
    BUILT = DIRECTORY / f"counter{SUFFIX}"
    words = ["cc", "-shared", "-fPIC", f"-I{include}", "-o", BUILT, DIRECTORY / "counter.c"]
    subprocess.run(words, check=True)


class Extensions(support.TestCase):
    def setUp(self):
        super().setUp()
        self.temporary = self.directory / "temporary"
        self.temporary.mkdir(mode=0o700)
        self.places = {"TMPDIR": str(self.temporary), "XDG_RUNTIME_DIR": ""}
        self.head = f"""
import os, stat, sys
from homefree import package
path, places = {str(self.path)!r}, {str(self.temporary)!r}
def extracted():
    return [os.path.join(at, one) for at, _, files in os.walk(places) for one in files]
"""

    def write(self, **options):
        with self.writer(**options) as writer:
            writer.add_source("app", "", package=True)
            writer.add_extension("app.counter", BUILT)
            writer.add_source("app.user", "from . import counter\nfrom app.counter import next\n")

    def run_code(self, code, status=0, **environment):
        done = subprocess.run(
            [sys.executable, "-s", "-c", self.head + code],
            env={**os.environ, **self.places, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def test_each_reader_has_its_own(self):
        self.write()
        first, second = (self.reader().import_module("app.user") for _ in range(2))
        self.assertEqual([first.next(), first.counter.next(), second.next()], [1, 2, 1])
        self.assertEqual(first.counter.__name__.partition(".")[2], "app.counter")

    def test_adopted_and_private(self):
        self.write()
        for options in ({"adopt": True}, {"private": True}, {"adopt": True, "private": True}):
            for _ in range(2):
                user = self.reader(**options).import_module("app.user")
                self.assertEqual([user.next(), user.next()], [1, 2])

    def test_it_is_found_as_a_dependency(self):
        shutil.copy(BUILT, self.sources)
        self.source("user", "import counter\n")
        with self.writer() as writer:
            writer.intern("counter")
            writer.add_module("user")
        self.assertEqual(self.reader().import_module("user").counter.next(), 1)

    def test_the_files_are_private_and_go(self):
        for directory in (False, True):
            self.write(directory=directory)
            self.run_code("""
user = package.Reader(path).import_module("app.user")
assert user.next() == 1
[file] = extracted()
assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
[directory] = os.listdir(places)
assert directory.startswith("homefree-package-"), directory
assert stat.S_IMODE(os.stat(os.path.join(places, directory)).st_mode) == 0o700
pid = os.fork()
if pid == 0:
    assert user.next() == 2
    import atexit
    atexit._run_exitfuncs()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert extracted() == [file]
package.Reader(path).close()
""")
            self.assertEqual(os.listdir(self.temporary), [])
            self.path.unlink() if not directory else None

    def test_the_files_of_a_killed_process_go(self):
        self.write()
        kill = "package.Reader(path).import_module('app.user')\nos.kill(os.getpid(), 9)\n"
        self.run_code(kill, -signal.SIGKILL)
        self.assertEqual(len(os.listdir(self.temporary)), 1)
        # A directory of a process that lives, and what merely looks alike.
        other = self.temporary / "homefree-package-modules-other"
        other.mkdir(mode=0o755)
        use = "package.Reader(path).import_module('app.user')\n"
        words = f"sys.executable, '-s', '-c', {self.head + use!r}"
        again = f"import subprocess\nsubprocess.run([{words}], check=True)\n"
        self.run_code(use + again + "[file] = extracted()\n")
        self.assertEqual(os.listdir(self.temporary), [other.name])

    def test_places_that_are_not_safe(self):
        self.write()
        self.temporary.chmod(0o777)
        self.run_code("""
package.Reader(path).import_module("app.user")
assert not extracted()
""")

    def test_a_file_for_another_python(self):
        with self.writer() as writer:
            writer.add_source("app", "", package=True)
            other = DIRECTORY / "counter.cpython-38-x86_64-linux-gnu.so"
            shutil.copy(BUILT, other)
            writer.add_extension("app.counter", other)
        with self.refused(package.RefusedImport, "for other Pythons (counter.cpython-38-x86"):
            self.reader().import_module("app.counter")
        with self.writer() as writer:
            writer.add_source("app", "", package=True)
            writer.add_extension("app.counter", other)
            writer.add_extension("app.counter", BUILT)
        self.assertEqual(self.reader().import_module("app.counter").next(), 1)

    def test_a_changed_file_is_not_loaded(self):
        self.write()
        data = bytearray(self.path.read_bytes())
        at = data.index(b"\x7fELF")
        data[at + 4000] ^= 1
        self.path.write_bytes(data)
        with self.refused(package.DamagedPackage, "app/counter", "hash"):
            self.reader().import_module("app.user")

    def test_a_file_that_is_no_extension_module(self):
        broken = DIRECTORY / f"broken{SUFFIX}"
        broken.write_bytes(b"no ELF file")
        with self.writer() as writer:
            writer.add_extension("broken", broken)
        with self.assertRaisesRegex(ImportError, "homefree refuses to load"):
            self.reader().import_module("broken")

    @unittest.skipIf(
        sys.version_info < (3, 12) or "t" in sys.abiflags,
        "no interpreters with a GIL of their own that accept the module",
    )
    def test_interpreters_with_a_gil_of_their_own(self):
        with self.writer() as writer:
            writer.intern("app.**")
            writer.add_extension("counter", BUILT)
            writer.add_pickle("models", "model.pkl", self.app().make())
        self.run_code("""
# At its end, CPython 3.12 frees what another interpreter was the first to allocate for parsing the
# arguments of a function. So the main interpreter goes first.
with package.Reader(path) as reader:
    reader.load_pickle("models", "model.pkl")
    reader.import_module("counter")
try:
    import _interpreters as interpreters
    run = interpreters.run_string
    made = [interpreters.create("isolated") for _ in range(3)]
except ImportError:
    import _xxsubinterpreters as interpreters
    run = interpreters.run_string
    made = [interpreters.create(isolated=True) for _ in range(3)]
for one in made:
    for _ in range(2):
        failed = run(one, f'''
import sys
sys.path[:] = {sys.path!r}
from homefree import package
if "app" not in sys.modules:
    reader = package.Reader({path!r}).install()
    import counter
    assert counter.next() == 1
    import app.model
model = reader.load_pickle("models", "model.pkl")
assert type(model) is app.model.Model and model(1) == 1000
''')
        assert failed is None, failed
for one in made:
    interpreters.destroy(one)
""")
        self.assertEqual(os.listdir(self.temporary), [])


if __name__ == "__main__":
    support.main()
