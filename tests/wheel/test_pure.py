"""homefree's wheel in pure Python: what it has, what works with it as if on macOS and on Windows
(other_system.py fakes them), and what the rest says.

usage: test_pure.py BUILD-DIRECTORY SOURCE-DIRECTORY COMMAND [unittest's arguments]
"""

import ast
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [
    str(TESTS / "support"),
    str(TESTS / "loader/report"),
    str(TESTS.parent / "python/backend"),
]
import installation  # noqa: E402
import pure_wheel  # noqa: E402
import recorded  # noqa: E402

BUILD = SOURCE = COMMAND = pathlib.Path()
OBJECTS = TESTS / "loader/inspect/platforms/objects.zip"
OTHER = TESTS / "wheel/other_system.py"
SYSTEMS = {"darwin": "macOS", "win32": "Windows"}
SETUP = """
from setuptools import setup
from homefree.setuptools import Extension
setup(name="greet", ext_modules=[Extension("greet", ["greet.c"], symbols="names", version="V")])
"""
GREET = """
#include <Python.h>
#define JOIN(a, b) JOINED(a, b)
#define JOINED(a, b) a##b
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "greet", 0, 0, 0, 0, 0, 0, 0};
PyMODINIT_FUNC JOIN(PyInit_, HOMEFREE_MODULE_NAME)(void) { return PyModule_Create(&module); }
"""


class _Pure(unittest.TestCase):
    """python: what runs; work: a directory."""

    @classmethod
    def setUpClass(cls):
        work = tempfile.TemporaryDirectory()
        cls.addClassCleanup(work.cleanup)
        cls.work = pathlib.Path(work.name)
        cls.wheel = cls.work / pure_wheel.build(cls.work)

    def on(self, platform, *words):
        return subprocess.run(
            [str(self.python), str(OTHER), platform, *map(str, words)],
            capture_output=True,
            cwd=self.work,
        )

    def command(self, platform, *words, status=0):
        done = self.on(platform, "-m", "homefree", *words)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout, done.stderr.decode()


class Unpacked(_Pure):
    """What takes a second: the wheel, unpacked into the directory in which Python starts."""

    python = sys.executable

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with zipfile.ZipFile(cls.wheel) as archive:
            archive.extractall(cls.work)

    def test_it_inspects_and_says_what_is_missing(self):
        for platform, system in SYSTEMS.items():
            out, _ = self.command(platform, "inspect", "--json", OBJECTS, status=1)
            self.assertEqual(json.loads(out)["summary"]["failed"], 0)
            (self.work / "log").write_text("free(): invalid pointer\nAborted\n")
            out, _ = self.command(platform, "doctor", "--log", "log", status=1)
            self.assertIn(b"log-foreign-free", out)
            code = "import homefree; homefree.install()"
            last = self.on(platform, "-c", code).stderr.decode().splitlines()[-1]
            self.assertIn("install() needs homefree's heap", last)
            self.assertIn(f"on {system} homefree is pure Python", last)


class Installed(_Pure):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tools = sorted(BUILD.glob("wheels/setup-3.*"))
        if not tools:
            raise unittest.SkipTest("no environment with setuptools in the build directory")
        python = next(iter(tools[-1].glob("bin/python3")))
        cls.bin, cls.site = installation.environment(python, tools[-1], cls.work / "venv")
        installation.run(
            cls.bin / "python3", "-m", "pip", "install", "-q", "--no-deps", "--no-index", cls.wheel
        )
        cls.python = cls.bin / "python3"

    def test_the_wheel_is_for_every_python_and_system(self):
        self.assertTrue(self.wheel.name.endswith("-py3-none-any.whl"))
        with zipfile.ZipFile(self.wheel) as archive:
            names = archive.namelist()
        self.assertEqual(len(names), len(set(names)))
        self.assertTrue((self.bin / "homefree").exists())
        suffixes = {pathlib.Path(name).suffix for name in names if name.startswith("homefree/")}
        self.assertEqual(suffixes, {".py", ".typed", ".html", ".css", ".js"})

    def test_what_the_package_has_is_there_and_says_that_it_is_not(self):
        whole = ast.parse((SOURCE / "python/homefree/__init__.py").read_text())
        named = next(
            ast.literal_eval(node.value)
            for node in whole.body
            if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"
        )
        modules = "cuda", "extension", "interpreters", "package", "check"
        code = f"""
import homefree, json, sys
from homefree import Owner
assert homefree.__version__ and isinstance(Owner, type) and not isinstance(1, Owner)
said = {{}}
for name in {sorted(set(named) - set(modules))!r}:
    try:
        getattr(homefree, name)()
    except homefree.Unavailable as error:
        said[name] = str(error)
for name in {modules!r}:
    try:
        __import__("homefree." + name)
    except ImportError as error:
        said[name] = str(error)
    try:
        getattr(homefree, name).something
    except homefree.Unavailable:
        pass
assert not hasattr(homefree, "nothing")
print(json.dumps(said))
"""
        for platform, system in SYSTEMS.items():
            done = self.on(platform, "-c", code)
            self.assertEqual(done.stderr, b"")
            said = json.loads(done.stdout)
            self.assertEqual(set(said), {*named, *modules})
            for name, line in said.items():
                self.assertIn(f"on {system} homefree is pure Python", line, name)
                self.assertNotIn("\n", line)

    def test_inspect_finds_what_it_finds_on_linux(self):
        for words in ([OBJECTS], ["--environment", OBJECTS]):
            expected = subprocess.run([COMMAND, "inspect", "--json", *words], capture_output=True)
            for platform in SYSTEMS:
                out, error = self.command(platform, "inspect", "--json", *words, status=1)
                theirs, ours = map(self.with_sections, (expected.stdout, out))
                self.assertEqual(ours, theirs)
                self.assertEqual(error, "")

    def with_sections(self, text):
        """A document, and in it of the page's addresses the section, which is there."""
        document = json.loads(text)
        for file in document["files"]:
            for finding in file["findings"]:
                page, _, section = finding["help"].removeprefix("file://").partition("#")
                self.assertIn(f'id="{section}"', pathlib.Path(page).read_text(encoding="utf-8"))
                finding["help"] = section
        return document

    def test_inspect_of_directories_and_files_and_its_forms(self):
        site = self.work / "site"
        with zipfile.ZipFile(OBJECTS) as archive:
            archive.extractall(site)
        for platform in SYSTEMS:
            out, _ = self.command(platform, "inspect", site, "--sarif", "found.sarif", status=1)
            self.assertIn(b"12 shared objects, 5 with errors or warnings", out)
            self.assertIn('"fixed-tls-slot"', (self.work / "found.sarif").read_text())
            out, _ = self.command(platform, "inspect", site / "plain.so", "--junit", "-")
            self.assertIn(b'tests="1"', out)
            self.command(platform, "inspect", "--fail-on", "note", site / "old.pyd", status=1)
            self.command(platform, "inspect", "--fail-on", "error", OBJECTS, status=1)
            _, error = self.command(platform, "inspect", "--fail-on", "eror", OBJECTS, status=2)
            self.assertIn("unknown rule 'eror'", error)
            self.assertIn(
                b"fixed-tls-slot (warning)", self.command(platform, "inspect", "--rules")[0]
            )

    def test_inspect_takes_what_it_takes_on_linux(self):
        """A baseline, paths behind options, and a Python of that system."""
        program = self.work / "bin/python.exe"
        program.parent.mkdir()
        for platform, start in ("darwin", b"\xcf\xfa\xed\xfe"), ("win32", b"MZ"):
            program.write_bytes(start)
            program.chmod(0o755)
            _, error = self.command(platform, "inspect", "--environment", program, status=3)
            self.assertIn(f"cannot run '{program}', which knows the distributions", error)
            self.command(platform, "inspect", OBJECTS, "--write-baseline", "known.json")
            words = "--baseline", "known.json", "--github", "-", OBJECTS
            out, _ = self.command(platform, "inspect", OBJECTS, *words)
            self.assertEqual(out, b"")
            _, error = self.command(platform, "inspect", "nowhere", "known.json", status=3)
            self.assertRegex(error, "'nowhere': No such.*\n.*json': it is no shared object\n")

    def test_inspect_says_that_elf_is_for_linux(self):
        _, error = self.command("darwin", "inspect", COMMAND, status=3)
        said = "objects for Linux are read by homefree for Linux"
        self.assertIn(said, error)
        directory = self.work / "with_elf"
        directory.mkdir()
        for name in "a.so", "b.so":
            (directory / name).write_bytes(b"\x7fELF")
        with zipfile.ZipFile(OBJECTS) as archive:
            archive.extract("plain.so", directory)
        out, error = self.command("darwin", "inspect", directory)
        self.assertIn(b"1 shared object, clean", out)
        self.assertIn(f"2 objects in '{directory}' are left out: {said}", error)
        self.assertEqual(error.count("\n"), 1)

    def test_inspect_of_a_distribution(self):
        for platform in SYSTEMS:
            _, error = self.command(platform, "inspect", "--package", "homefree", status=3)
            self.assertIn("it has no shared objects", error)

    def test_reports_that_were_recorded_on_linux(self):
        record = self.work / "1.hf"
        recorded.something_of_everything().write(record)
        words = [COMMAND, "report", "--json", record]
        document = self.work / "report.json"
        document.write_bytes(subprocess.run(words, capture_output=True).stdout)
        for platform in SYSTEMS:
            out, _ = self.command(platform, "report", document, status=1)
            self.assertIn(b"foreign-free", out)
            self.command(platform, "report", document, "--html", "page.html", status=1)
            self.assertIn("<html", (self.work / "page.html").read_text())
            (self.work / "other.json").write_text('{"findings": []}')
            for other in record, "other.json":
                _, error = self.command(platform, "report", other, status=3)
                self.assertIn("is no document of 'homefree report --json'", error)

    def test_a_log_is_explained(self):
        log = self.work / "log"
        log.write_text("free(): invalid pointer\nAborted\n")
        for platform in SYSTEMS:
            out, _ = self.command(platform, "doctor", "--log", log, status=1)
            self.assertIn(b"log-foreign-free", out)

    def test_other_commands_say_what_they_need(self):
        for platform, system in SYSTEMS.items():
            for words in (["run", "--", "true"], ["memory"], ["doctor"], ["test", "x.so"]):
                _, error = self.command(platform, *words, status=3)
                self.assertEqual(error.count("\n"), 1)
                self.assertIn(f"on {system} homefree is pure Python", error)
            self.assertIn(b"inspect", self.command(platform, "--help")[0])
            self.command(platform, "no-such", status=2)

    def test_an_extension_is_built_by_setuptools_alone(self):
        directory = self.work / "extension"
        directory.mkdir()
        (directory / "setup.py").write_text(SETUP)
        (directory / "greet.c").write_text(GREET)
        installation.run(self.bin / "python3", "setup.py", "-q", "build_ext", "-i", cwd=directory)
        installation.run(self.bin / "python3", "-c", "import greet", cwd=directory)
        (built,) = directory.glob("greet.*.so")
        self.assertNotIn(b"homefree", built.read_bytes())

    def test_the_plugin_of_pytest_says_it(self):
        python = BUILD / "wheels/pytest/bin/python3"
        if not python.exists():
            self.skipTest("no environment with pytest in the build directory")
        words = [python, "-m", "pytest", "--homefree"]
        environment = {**os.environ, "PYTHONPATH": str(self.site)}
        done = subprocess.run(words, capture_output=True, cwd=self.work, env=environment)
        said = (done.stdout + done.stderr).decode()
        self.assertEqual(done.returncode, 4, said)
        self.assertIn("ERROR: homefree: homefree.pytest needs homefree's heap", said)


if __name__ == "__main__":
    BUILD, SOURCE, COMMAND = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(3))
    unittest.main()
