"""What a setup.py with homefree.setuptools.Extension builds, with a real compiler, setuptools, pip.

usage: test_setuptools.py BUILD-DIRECTORY [PART] [unittest's arguments]

PART is a part of the tests, for several at a time: places, helpers, or the rest; or first, a few
of places.
Installs homefree into a temporary prefix, and unpacks the wheel in BUILD-DIRECTORY/dist, which
homefree_wheel (tests/support/prepare.sh) makes. Environments come from the system's Python and from
BUILD-DIRECTORY/wheels/setup-*, which homefree_setup_tools (tests/support/prepare.sh) makes; what is
missing is skipped. Nothing here needs a network.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import installation  # noqa: E402

BUILD = PREFIX = WORK = pathlib.Path()
TOOLS = {}
GIVEN = set()
SYSTEM = pathlib.Path("/usr/bin/python3")
LIBRARY = "libhomefree.so.1"
SENTENCE = "this module needs homefree: import homefree before it"

MODULE = r"""
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <homefree/homefree.h>
#include <homefree/python.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C"
#endif
int helper_that_must_stay_inside(void);
int helper_that_must_stay_inside(void)
{
    return 1;
}

static PyObject *owned(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    char *copy = strdup("memory of the module");
    int result = hf_owns(copy) && helper_that_must_stay_inside();
    free(copy);
    return PyBool_FromLong(result);
}

static PyMethodDef methods[] = {{"owned", owned, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module
    = {PyModuleDef_HEAD_INIT, "greet", NULL, -1, methods, NULL, NULL, NULL, NULL};

#ifndef MY_INIT
#    define MY_INIT HF_MODULE_INIT
#endif

PyMODINIT_FUNC MY_INIT(void)
{
    return PyModule_Create(&module);
}
"""

PYPROJECT = """
[build-system]
requires = ["setuptools", "homefree"]
build-backend = "setuptools.build_meta"

[project]
name = "example"
version = "1"

[tool.setuptools]
packages = {packages}
"""


def run(*command, cwd=None, fails=False, **environment):
    """The command's output on both streams. It must succeed, or fail if `fails` is set."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PIP_", "LD_")) and name not in ("CC", "CXX", "LDFLAGS")
    }
    result = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**clean, "CFLAGS": "-O0", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=120,
    )
    if (result.returncode != 0) != fails:
        raise AssertionError(f"{command}: {result.returncode}\n{result.stdout}")
    return result.stdout


def has(python, *modules):
    code = f"import importlib.util as u; print(*map(u.find_spec, {modules}), sep='\\n')"
    result = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)
    return result.returncode == 0 and "None" not in result.stdout.split("\n")


def find_tools():
    """The Pythons that have setuptools, wheel and pip: name -> path, the newest last."""
    found = {"system": SYSTEM} if SYSTEM.exists() else {}
    made = (BUILD / "wheels").glob("setup-*/ready")
    for ready in sorted(made, key=lambda path: int(path.parent.name.rpartition(".")[2])):
        found[ready.parent.name] = ready.parent / "bin/python"
    return {name: path for name, path in found.items() if has(path, "setuptools", "wheel", "pip")}


def find_given():
    """The directories that the Pythons in TOOLS put into the RUNPATH of every extension."""
    code = "import sysconfig; print(sysconfig.get_config_var('LDSHARED'))"
    words = [word for python in TOOLS.values() for word in run(python, "-c", code).split()]
    return {word.rpartition(",")[2] for word in words if word.startswith("-Wl,-rpath")}


def unpack_wheel(site):
    """homefree's wheel as an installer unpacks it, also for a CPython older than its tag: the
    extension uses the limited API of 3.9."""
    with zipfile.ZipFile(installation.find_wheel(BUILD / "dist")) as archive:
        archive.extractall(site)
    package = site / "homefree"
    (package / "bin/homefree").chmod(0o755)
    return package


def dynamic(module, tag):
    lines = run("readelf", "-dW", module).split("\n")
    return [line.split("[")[1].rpartition("]")[0] for line in lines if f"({tag})" in line]


def runpath(module):
    """The directories of a RUNPATH, without those that a Python adds to every extension."""
    directories = [
        directory for value in dynamic(module, "RUNPATH") for directory in value.split(":")
    ]
    return [directory for directory in directories if directory not in GIVEN]


def exports(module):
    lines = run("nm", "-D", "--defined-only", module).split("\n")
    return sorted(line.split()[-1] for line in lines if line.split())


class Environment:
    """A virtual environment with the tools of `base`, and homefree in it if `wheel` is set."""

    def __init__(self, directory, base, wheel=False):
        run(base, "-m", "venv", "--without-pip", directory)
        self.python = directory / "bin/python"
        where = "import sysconfig; print(sysconfig.get_path('platlib'))"
        self.site = pathlib.Path(run(self.python, "-c", where).strip())
        code = (
            "import importlib.util as u, os; parent = os.path.dirname\n"
            "for name in ('pip', 'setuptools'): print(parent(parent(u.find_spec(name).origin)))"
        )
        (self.site / "tools.pth").write_text(run(base, "-c", code))
        self.package = unpack_wheel(self.site) if wheel else None

    def pip(self, *words, **options):
        return run(
            self.python,
            *("-m", "pip", "--disable-pip-version-check", "install", "--no-build-isolation"),
            *("--no-index", "--no-deps", *words),
            **options,
        )


class Case(unittest.TestCase):
    """An empty directory for a project, and the functions that build it."""

    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp(dir=WORK))
        self.addCleanup(shutil.rmtree, self.work)
        self.source = self.work / "source"
        self.source.mkdir()
        if not TOOLS:
            self.skipTest("no Python here has setuptools, wheel and pip")
        self.tools = list(TOOLS.values())[-1]

    def environment(self, wheel=False, base=None):
        return Environment(self.work / "venv", base or self.tools, wheel)

    def write(self, name, text=""):
        path = self.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")

    def project(self, extensions, before="", packages=(), **arguments):
        """Writes greet.c and a setup.py with these extensions."""
        words = "".join(f", {name}={value}" for name, value in arguments.items())
        self.write("greet.c", MODULE)
        self.write("greet.cpp", MODULE)
        self.write(
            "setup.py",
            "from setuptools import setup\n"
            "from homefree.setuptools import Extension\n"
            f"{textwrap.dedent(before)}\n"
            "setup(name='example', version='1', "
            f"packages={list(packages)}, ext_modules={extensions}{words})\n",
        )

    def project_with_command_of(self, module):
        self.project(
            "[Extension('greet', ['greet.c'])]",
            before=f"from {module} import build_ext",
            cmdclass="{'build_ext': build_ext}",
        )

    def setup(self, *words, **options):
        """Runs setup.py with the homefree of the prefix."""
        site = next(PREFIX.rglob("_homefree.abi3.so")).parents[1]
        options = {"cwd": self.source, "PYTHONPATH": str(site), **options}
        return run(self.tools, "setup.py", *words, **options)

    def libdir(self):
        return str(next(PREFIX.rglob("libhomefree_shim.a")).parent)

    def built(self, pattern, under=None):
        found = sorted((under or self.source).glob(pattern))
        self.assertEqual(len(found), 1, f"{pattern}: {found}")
        return found[0]

    def assert_clean(self, module, needed=(LIBRARY, "libc.so.6"), name="greet"):
        self.assertEqual(exports(module), [f"PyInit_{name}"])
        # Modules with thread-local variables need the dynamic linker itself.
        found = [name for name in dynamic(module, "NEEDED") if not name.startswith("ld-linux")]
        self.assertEqual(sorted(found), sorted(needed))
        run(PREFIX / "bin/homefree", "inspect", module)

    def assert_owned(self, module, python=None, **options):
        said = run(python or self.tools, "-c", f"import {module} as m; print(m.owned())", **options)
        self.assertEqual(said, "True\n")


class EveryPython(Case):
    def test_wheel_in_every_environment(self):
        """C, C++ and the limited API, inside a package and beside it, with each setuptools."""
        limited = "define_macros=[('Py_LIMITED_API', '0x03090000')], py_limited_api=True"
        for name, python in TOOLS.items():
            with self.subTest(name):
                shutil.rmtree(self.source)
                shutil.rmtree(self.work / "venv", ignore_errors=True)
                self.project(
                    "[Extension('a.b.greet', ['greet.c']), Extension('top', ['greet.cpp']), "
                    f"Extension('low', ['greet.c'], {limited})]",
                    packages=["a", "a.b"],
                )
                self.write("a/__init__.py")
                self.write("a/b/__init__.py")
                env = self.environment(wheel=True, base=python)
                env.pip(self.source)
                inner = self.built("a/b/greet.*.so", env.site)
                top = self.built("top.*.so", env.site)
                low = self.built("low.abi3.so", env.site)
                self.assert_clean(inner)
                self.assert_clean(low, name="low")
                # The module uses nothing of the C++ library that this Python's flags ask for.
                self.assert_clean(top, name="top")
                self.assertEqual(
                    runpath(inner),
                    ["$ORIGIN/../../homefree/lib", "$ORIGIN/greet.needs"],
                )
                self.assertEqual(runpath(top), ["$ORIGIN/homefree/lib", "$ORIGIN/top.needs"])
                for module in ("a.b.greet", "top", "low"):
                    self.assert_owned(module, env.python)

    def test_in_place_with_the_oldest_setuptools(self):
        """The system's Python and the oldest one."""
        for name, python in list(TOOLS.items())[:2]:
            with self.subTest(name):
                shutil.rmtree(self.source)
                self.project("[Extension('greet', ['greet.c'])]")
                self.tools = python
                self.setup("build_ext", "--inplace")
                module = self.built("greet.*.so")
                self.assert_clean(module)
                self.assertEqual(runpath(module), [self.libdir()])
                self.assert_owned("greet", cwd=self.source)


class Places(Case):
    """The ways in which a module finds libhomefree."""

    def wheel_of_greet(self, wheel=True):
        self.project("[Extension('greet', ['greet.c'])]")
        env = self.environment(wheel)
        if wheel:
            env.pip(self.source)
        return env

    def test_missing_homefree_says_what_to_install(self):
        env = self.wheel_of_greet()
        shutil.rmtree(env.package)
        said = run(env.python, "-c", "import greet", fails=True)
        self.assertRegex(
            said, f"ImportError: .*greet.needs/{LIBRARY}: undefined symbol: {SENTENCE}"
        )

    def test_loaded_homefree_wins_over_the_stub(self):
        env = self.wheel_of_greet()
        elsewhere = self.work / "elsewhere"
        elsewhere.mkdir()
        shutil.move(env.package, elsewhere / "homefree")
        code = f"""
            import sys
            try:
                import greet
            except ImportError:
                sys.path.insert(0, {str(elsewhere)!r})
                import homefree, greet
                print(greet.owned())
        """
        self.assertEqual(run(env.python, "-c", textwrap.dedent(code)), "True\n")

    def test_wheel_for_a_prefix_knows_the_prefix(self):
        self.project("[Extension('greet', ['greet.c'])]")
        self.setup("bdist_wheel")
        env = self.environment()
        env.pip(self.built("dist/*.whl"))
        module = self.built("greet.*.so", env.site)
        self.assertEqual(runpath(module), ["$ORIGIN/homefree/lib", self.libdir()])
        self.assertFalse((env.site / "greet.needs").exists())
        self.assert_owned("greet", env.python)

    def test_auditwheel_repairs_it_without_a_flag(self):
        """It leaves the library to homefree's wheel, and the module says so where it is missing."""
        self.project("[Extension('greet', ['greet.c'])]")
        env = self.environment(wheel=True)
        run(env.python, "setup.py", "bdist_wheel", cwd=self.source)
        env.pip(installation.repair(self.built("dist/*.whl"), BUILD, self.work / "repaired"))
        self.assert_owned("greet", env.python)
        shutil.rmtree(env.package)
        self.assertIn(SENTENCE, run(env.python, "-c", "import greet", fails=True))

    def test_stub_of_an_earlier_build_goes(self):
        """With the homefree of a prefix, and where the module is not homefree's any more."""
        self.write("other.c", "void PyInit_other(void) {}\n")
        other = "setuptools.Extension('other', ['other.c'])"
        both = "[Extension('greet', ['greet.c']), {}]"
        self.project(both.format(f"Extension.of({other})"), before="import setuptools")
        env = self.environment(wheel=True)
        run(env.python, "setup.py", "build", cwd=self.source)
        names = {path.name for path in self.source.glob("build/lib*/*.needs")}
        self.assertEqual(names, {"greet.needs", "other.needs"})
        self.project(both.format(other), before="import setuptools")
        self.setup("build")
        self.assertEqual(list(self.source.glob("build/lib*/*.needs")), [])

    def test_stub_is_an_installed_file(self):
        env = self.wheel_of_greet()
        self.assertTrue((env.site / "greet.needs" / LIBRARY).is_file())
        record = next(env.site.glob("example-1*/RECORD")).read_text()
        self.assertIn(f"greet.needs/{LIBRARY},sha256=", record)

    def test_editable(self):
        """By pyproject.toml: the module stays in the source directory, without a stub."""
        self.project("[Extension('example.greet', ['greet.c'])]")
        self.write("pyproject.toml", PYPROJECT.format(packages='["example"]'))
        self.write("setup.py", (self.source / "setup.py").read_text().replace("packages=[], ", ""))
        self.write("example/__init__.py")
        env = self.environment(wheel=True)
        env.pip("-e", self.source)
        module = self.built("example/greet.*.so")
        self.assertEqual(runpath(module), [str(env.package / "lib")])
        self.assertEqual(list((self.source / "example").glob("*.needs")), [])
        self.assert_owned("example.greet", env.python)

    def test_editable_the_old_way(self):
        """setup.py develop, which pip runs if there is no pyproject.toml."""
        if SYSTEM not in TOOLS.values():
            self.skipTest("the system's Python has no setuptools, wheel and pip")
        self.project("[Extension('greet', ['greet.c'])]")
        env = self.environment(wheel=True, base=SYSTEM)
        env.pip("-e", self.source)
        self.assertEqual(runpath(self.built("greet.*.so")), [str(env.package / "lib")])
        self.assert_owned("greet", env.python)

    def isolated(self, env):
        """homefree in an environment that is deleted after the build, as pip makes it."""
        site = self.work / "pip-build-env-1234/overlay/lib/site-packages"
        site.mkdir(parents=True)
        shutil.move(env.package, site / "homefree")
        return {"cwd": self.source, "PYTHONPATH": str(site)}

    def test_wheel_of_an_isolated_build_knows_no_temporary_directory(self):
        self.project("[Extension('greet', ['greet.c'])]")
        env = self.environment(wheel=True)
        run(env.python, "setup.py", "build", **self.isolated(env))
        module = self.built("build/lib*/greet.*.so")
        self.assertEqual(runpath(module)[0], "$ORIGIN/homefree/lib")
        self.assertNotIn("pip-build-env", "".join(runpath(module)))

    def test_editable_of_an_isolated_build_leads_to_the_environment(self):
        self.project("[Extension('greet', ['greet.c'])]")
        env = self.environment(wheel=True)
        run(env.python, "setup.py", "build_ext", "--inplace", **self.isolated(env))
        self.assertEqual(runpath(self.built("greet.*.so")), [str(env.site / "homefree/lib")])

    def test_editable_of_an_environment_for_building_warns(self):
        """An environment of build or uv, which has a Python of its own, so that the target is
        unknown."""
        self.project("[Extension('greet', ['greet.c'])]")
        env = Environment(self.work / "build-env-1234", self.tools, wheel=True)
        said = run(env.python, "setup.py", "build_ext", "--inplace", cwd=self.source)
        self.assertIn("import homefree before the module", said)
        self.assertEqual(runpath(self.built("greet.*.so")), [])
        self.assertIn(
            "libhomefree", run(env.python, "-c", "import greet", cwd=self.source, fails=True)
        )
        code = "import homefree, greet; print(greet.owned())"
        self.assertEqual(run(env.python, "-c", code, cwd=self.source), "True\n")

    def test_in_place_and_wheel_follow_each_other(self):
        """Within one second, with unchanged sources: file times cannot show the change."""
        self.project("[Extension('greet', ['greet.c'])]")
        self.setup("build")
        self.setup("build_ext", "--inplace")
        self.assertEqual(runpath(self.built("greet.*.so")), [self.libdir()])
        self.setup("build")
        module = self.built("build/lib*/greet.*.so")
        self.assertEqual(runpath(module)[0], "$ORIGIN/homefree/lib")

    def test_namespace_package_and_ext_package(self):
        self.project("[Extension('inner.greet', ['greet.c'])]", ext_package="'space'")
        env = self.environment(wheel=True)
        run(env.python, "setup.py", "build", cwd=self.source)
        module = self.built("build/lib*/space/inner/greet.*.so")
        self.assertEqual(runpath(module)[0], "$ORIGIN/../../homefree/lib")
        self.assert_clean(module)
        self.built(f"build/lib*/space/inner/greet.needs/{LIBRARY}")

    def test_writes_nothing_outside_the_build_directory(self):
        self.project("[Extension('greet', ['greet.c'])]")
        before = sorted(self.source.rglob("*"))
        self.setup("build", "--build-base", self.work / "b")
        self.assertEqual(sorted(self.source.rglob("*")), before)


class Parameters(Case):
    """The arguments of setuptools' Extension, and those of homefree alone."""

    def test_positional_arguments(self):
        self.write("inc/mine.h", "#define MINE 1\n")
        self.project(
            "[Extension('greet', ['greet.c'], ['inc'], [('MY_MACRO', 'MINE'), ('NDEBUG', None)], "
            "['UNUSED'], [], ['m'])]"
        )
        check = '#include "mine.h"\n#if MY_MACRO != 1 || !defined NDEBUG\n#error\n#endif\n'
        self.write("greet.c", check + MODULE)
        self.setup("build_ext", "--inplace", LDFLAGS="-Wl,--as-needed")
        self.assert_clean(self.built("greet.*.so"))

    def test_symbols_and_version(self):
        self.write("symbols.txt", "helper_that_must_stay_inside\n")
        self.project("[Extension('greet', ['greet.c'], symbols='symbols.txt', version='GREET_1')]")
        self.setup("build_ext", "--inplace")
        expected = ["GREET_1", "PyInit_greet@@GREET_1", "helper_that_must_stay_inside@@GREET_1"]
        self.assertEqual(exports(self.built("greet.*.so")), expected)

    def test_symbols_that_changed_link_again(self):
        self.write("symbols.txt", "helper_that_must_stay_inside\n")
        self.project("[Extension('greet', ['greet.c'], symbols='symbols.txt')]")
        self.setup("build")
        self.write("symbols.txt", "# none\n")
        self.setup("build")
        self.assert_clean(self.built("build/lib*/greet.*.so"))

    def test_own_version_script_takes_the_place(self):
        self.write("own.map", "{ global: PyInit_greet; helper*; local: *; };\n")
        own = "extra_link_args=['-Wl,--version-script=own.map']"
        self.project(f"[Extension('greet', ['greet.c'], {own})]")
        self.setup("build_ext", "--inplace")
        expected = ["PyInit_greet", "helper_that_must_stay_inside"]
        self.assertEqual(exports(self.built("greet.*.so")), expected)

    def test_static_libraries_of_the_user_allocate_from_the_heap(self):
        """Only the library calls malloc's family: the shim must come after it in the link."""
        before, _, rest = MODULE.partition("    char *copy")
        allocates, _, after = rest.partition("    return PyBool")
        includes = "#include <homefree/homefree.h>\n#include <stdlib.h>\n#include <string.h>\n"
        helper = "static int helper_that_must_stay_inside(void)\n{\n    return 1;\n}\n"
        body = f"int part(void)\n{{\n    char *copy{allocates}    return result;\n}}\n"
        self.write("part.c", includes + helper + body)
        run("cc", "-fPIC", "-I", PREFIX / "include", "-c", "part.c", cwd=self.source)
        run("ar", "rcs", "libpart.a", "part.o", cwd=self.source)
        self.project(
            "[Extension('greet', ['greet.c'], library_dirs=['.'], libraries=['part']), "
            "Extension('other', ['greet.c'], extra_link_args=['libpart.a'])]"
        )
        calls = f"{before}    int result = part();\n    return PyBool{after}"
        self.write("greet.c", "int part(void);\n" + calls)
        self.setup("build_ext", "--inplace")
        self.assert_clean(self.built("greet.*.so"))
        self.assert_owned("greet", cwd=self.source)
        self.assert_owned("other", cwd=self.source)

    def test_runtimes_that_are_named_come_after_the_shim(self):
        """The linker takes operator new and malloc from the first library that has them. ujson
        names -lstdc++ itself, as modules in C do that link a static C++ library."""
        self.write("part.cpp", 'extern "C" char *part(void) { return new char[100]; }\n')
        run("c++", "-fPIC", "-c", "part.cpp", cwd=self.source)
        run("ar", "rcs", "libpart.a", "part.o", cwd=self.source)
        self.project(
            "[Extension('one', ['greet.c'], extra_link_args=['libpart.a', '-lstdc++', '-lc']), "
            "Extension('two', ['greet.c'], libraries=['part', 'stdc++', 'c'], library_dirs=['.'])]"
        )
        calls = MODULE.replace('strdup("memory of the module")', "part()")
        self.write("greet.c", "char *part(void);\n" + calls)
        self.setup("build_ext", "--inplace")
        for name in "one", "two":
            module = self.built(f"{name}.*.so")
            self.assertNotIn("_Zna", run("nm", "-D", "--undefined-only", module))
            self.assertNotIn("free", run("nm", "-D", "--undefined-only", module).split())
            self.assert_owned(name, cwd=self.source)

    def test_no_symbol_is_left_open(self):
        """-Wl,-z,defs, for modules that call nothing of Python."""
        self.project(
            "[Extension(name, [name + kind], extra_link_args=['-Wl,-z,defs'])"
            " for name, kind in [('in_c', '.c'), ('in_cc', '.cc')]]"
        )
        init = "void *PyInit_{0}(void);\nvoid *PyInit_{0}(void) {{ return {1}; }}\n"
        self.write("in_c.c", "#include <string.h>\n" + init.format("in_c", 'strdup("it")'))
        self.write("in_cc.cc", 'extern "C" {\n' + init.format("in_cc", "new int") + "}\n")
        self.setup("build_ext", "--inplace")
        self.assertIn(LIBRARY, dynamic(self.built("in_cc.*.so"), "NEEDED"))

    def test_nothing_unused_where_the_flags_ask_for_everything(self):
        self.project("[Extension('greet', ['greet.cpp'])]")
        self.setup("build_ext", "--inplace", LDFLAGS="-Wl,--no-as-needed")
        self.assert_clean(self.built("greet.*.so"))

    def test_other_compiler_and_linkers(self):
        self.project("[Extension('greet', ['greet.c'])]")
        for compiler, linker, *flags in (
            ("clang", "lld"),
            ("gcc", "lld", "-Wl,--gc-sections", "-nostartfiles"),
            ("clang", "gold"),
            ("gcc", "gold"),
        ):
            with self.subTest(f"{compiler} and {linker}"):
                if not shutil.which(compiler) or not shutil.which(f"ld.{linker}"):
                    self.skipTest(f"{compiler} or {linker} is not installed")
                words = " ".join((f"-fuse-ld={linker}", *flags))
                options = {"LDFLAGS": words, "LDSHARED": f"{compiler} -shared"}
                self.setup("build_ext", "--inplace", "--force", CC=compiler, **options)
                self.assert_clean(self.built("greet.*.so"))
                self.assert_owned("greet", cwd=self.source)

    def test_name_that_is_not_ascii(self):
        macro = "define_macros=[('MY_INIT', 'PyInitU_gre_6ka8i')]"
        self.project(f"[Extension('größe', ['greet.c'], {macro})]")
        # Python imports such modules only in two phases.
        self.write("greet.c", MODULE.replace("PyModule_Create(", "PyModuleDef_Init("))
        self.write(
            "greet.c", (self.source / "greet.c").read_text().replace("NULL, -1,", "NULL, 0,")
        )
        self.setup("build_ext", "--inplace", LC_ALL="C.UTF-8")
        module = self.built("größe.*.so")
        self.assertEqual(exports(module), ["PyInitU_gre_6ka8i"])
        self.assert_owned("größe", cwd=self.source)

    def test_what_later_pythons_call(self):
        """PEP 793: CPython 3.15 looks for PyModExport first. Nothing here calls it."""
        later = "void *PyModExport_greet(void) { return 0; }\nint more(void) { return 1; }\n"
        init = "void *PyInit_greet(void) { return 0; }\n"
        for source, functions in (
            (later, ["PyModExport_greet"]),
            (later + init, ["PyInit_greet", "PyModExport_greet"]),
        ):
            self.project("[Extension('greet', ['greet.c'])]")
            self.write("greet.c", source)
            self.setup("build_ext", "--inplace", "--force")
            self.assertEqual(exports(self.built("greet.*.so")), functions)
        self.write("greet.c", later.replace("_greet", "_other"))
        said = self.setup("build_ext", "--inplace", "--force", fails=True)
        self.assertIn("defines no PyInit_greet and no PyModExport_greet", said)

    def test_limited_api_where_there_is_no_stable_abi(self):
        """A CPython that says of itself what a free-threaded one says."""
        before = "import sysconfig; sysconfig.get_config_vars()['Py_GIL_DISABLED'] = 1"
        macro = "Py_LIMITED_API"
        self.project(
            f"[Extension('greet', ['greet.c'], define_macros=[('{macro}', '0x03090000'), "
            f"('KEPT', None)], extra_compile_args=['-D{macro}=0x03090000', '-DKEPT_TOO'], "
            "py_limited_api=True)]",
            before=before,
        )
        check = (
            f"#if defined {macro} || !defined KEPT || !defined KEPT_TOO\n#error macros\n#endif\n"
        )
        self.write("greet.c", check + MODULE)
        said = self.setup("build_ext", "--inplace")
        self.assertIn("greet: free-threaded CPython has a stable ABI from 3.15 on (abi3t), ", said)
        self.assertIn("; it is built for this Python alone", said)
        module = self.built("greet.*.so")
        self.assertNotIn("abi3", module.name)
        self.assert_clean(module)
        self.assert_owned("greet", cwd=self.source)
        # Without such a wish, nothing is said.
        self.project("[Extension('greet', ['greet.c'])]", before=before)
        self.assertNotIn("stable ABI", self.setup("build_ext", "--inplace", "--force"))

    def test_which_stable_abi_there_is(self):
        code = """
            import sysconfig
            from homefree import setuptools
            def why(free_threaded, python, version):
                sysconfig.get_config_vars()["Py_GIL_DISABLED"] = free_threaded
                return setuptools._no_stable_abi(version, python) or ""
            assert not why(0, (3, 9), 0x03090000) and not why(None, (3, 13), None)
            for python in ((3, 13), (3, 14)):
                for version in (None, 3, 0x03090000, 0x030f0000):
                    assert f"and this one is 3.{python[1]}" in why(1, python, version)
            assert not why(1, (3, 15), None) and not why(1, (3, 15), 0x030f0000)
            assert not why(1, (3, 16), 0x03100000)
            assert "the limited API of 3.9 is asked for" in why(1, (3, 15), 0x03090000)
            assert "the limited API of 3.2 is asked for" in why(1, (3, 15), 3)
            def version(macros, words, **options):
                return setuptools._limited_api(
                    setuptools.Extension("a", ["a.c"], define_macros=macros, **options,
                                         extra_compile_args=words))
            assert version([], [], py_limited_api=True) is None
            assert version([("Py_LIMITED_API", None)], []) == 3
            assert version([("Py_LIMITED_API", "0x030F0000")], []) == 0x030f0000
            assert version([("Py_TARGET_ABI3T", "0x030F0000")], ["-DPy_LIMITED_API=0x03090000"]) \\
                == 0x03090000
            assert version([("Py_LIMITED_API", "MINE")], []) is None
            torch = setuptools.Extension("a", ["a.c"])
            torch.extra_compile_args = {"cxx": ["-DPy_LIMITED_API=0x03090000", "-O2"], "nvcc": []}
            assert setuptools._asks_for_limited_api(torch)
            setuptools._ask_for_no_limited_api(torch)
            assert torch.extra_compile_args == {"cxx": ["-O2"], "nvcc": []}
            assert not setuptools._asks_for_limited_api(torch)
        """
        site = next(PREFIX.rglob("_homefree.abi3.so")).parents[1]
        run(self.tools, "-c", textwrap.dedent(code), PYTHONPATH=str(site))

    def test_many_side_by_side(self):
        # A source for each: setuptools names object files after sources, and would write one four
        # times.
        names = [f"pkg{number}.greet" for number in range(4)]
        self.project("[" + ", ".join(f"Extension('{n}', ['{n}.c'])" for n in names) + "]")
        for name in names:
            shutil.copy2(self.source / "greet.c", self.source / f"{name}.c")
        env = self.environment(wheel=True)
        run(env.python, "setup.py", "build", "-j4", cwd=self.source)
        for name in names:
            directory = self.built(f"build/lib*/{name.split('.')[0]}")
            self.assert_clean(self.built("greet.*.so", directory))
            self.assertTrue((directory / "greet.needs" / LIBRARY).is_file())

    def test_extensions_of_setuptools_are_left_alone(self):
        self.project(
            "[setuptools.Extension('plain', ['plain.c']), Extension('greet', ['greet.c'])]",
            before="import setuptools",
        )
        self.write("plain.c", "#include <Python.h>\nPyObject *PyInit_plain(void) { return 0; }\n")
        self.setup("build")
        self.assertEqual(runpath(self.built("build/lib*/plain.*.so")), [])
        self.assertEqual(list(self.source.glob("build/lib*/plain.needs")), [])
        self.assert_clean(self.built("build/lib*/greet.*.so"))


class OtherHelpers(Case):
    """A cmdclass, and tools with extensions of their own."""

    def test_own_cmdclass(self):
        self.project(
            "[Extension('greet', ['greet.c'])]",
            before="""
                from setuptools.command.build_ext import build_ext

                class mine(build_ext):
                    def build_extension(self, ext):
                        print("MINE", ext.name)
                        super().build_extension(ext)
            """,
            cmdclass="{'build_ext': mine}",
        )
        self.assertIn("MINE greet", self.setup("build"))
        self.assert_clean(self.built("build/lib*/greet.*.so"))

    def test_build_ext_of_homefree(self):
        self.project_with_command_of("homefree.setuptools")
        self.setup("build_ext", "--inplace")
        module = self.built("greet.*.so")
        self.assert_clean(module)
        self.assertEqual(runpath(module), [self.libdir()])

    def test_outputs_hold_the_stub(self):
        self.project(
            "[Extension('greet', ['greet.c'])]",
            before="""
                from setuptools.command.build_ext import build_ext

                class mine(build_ext):
                    def run(self):
                        super().run()
                        print("OUTPUTS", self.get_outputs())
            """,
            cmdclass="{'build_ext': mine}",
        )
        env = self.environment(wheel=True)
        said = run(env.python, "setup.py", "build", cwd=self.source)
        self.assertRegex(said, f"OUTPUTS .*greet.needs/{LIBRARY}")

    def test_distribution_without_setup(self):
        """As poetry's build scripts do: no setup(), and a command of their own."""
        self.project("[]")
        self.write(
            "setup.py",
            """
            from homefree.setuptools import Extension
            from setuptools import Distribution
            from setuptools.command.build_ext import build_ext

            greet = Extension("greet", ["greet.c"])
            command = build_ext(Distribution({"name": "example", "ext_modules": [greet]}))
            command.ensure_finalized()
            command.run()
            """,
        )
        self.setup()
        self.assert_clean(self.built("build/lib*/greet.*.so"))

    def test_cythonize_keeps_the_class_and_its_parameters(self):
        if not has(self.tools, "Cython"):
            self.skipTest("Cython is not installed")
        self.write("symbols.txt", "answer\n")
        self.write(
            "pkg/one.pyx",
            """
            # distutils: extra_link_args = -Wl,-z,now
            from libc.stdlib cimport malloc, free

            cdef public int answer():
                return 42

            def owned():
                cdef void *block = malloc(100)
                free(block)
                return answer() == 42
            """,
        )
        self.write("pkg/__init__.py")
        self.project(
            "cythonize([Extension('pkg.*', ['pkg/*.pyx'], symbols='symbols.txt')])",
            before="from Cython.Build import cythonize",
            packages=["pkg"],
        )
        self.setup("build_ext", "--inplace")
        module = self.built("pkg/one.*.so")
        self.assertEqual(exports(module), ["PyInit_one", "answer"])
        self.assertEqual(sorted(dynamic(module, "NEEDED")), ["libc.so.6", LIBRARY])
        self.assert_owned("pkg.one", cwd=self.source)

    def test_cffi_modules(self):
        """cffi makes the extensions itself: homefree's build_ext converts them, and an Extension of
        homefree beside them says that they are not converted."""
        python = BUILD / "wheels/tools/bin/python"
        if not has(python, "cffi", "setuptools"):
            self.skipTest("cffi is not installed")
        self.tools = python
        self.write(
            "make.py",
            """
            import cffi
            ffi = cffi.FFI()
            ffi.cdef("int owned(void);")
            ffi.set_source("low", '#include "part.h"')
            """,
        )
        body = (
            "#include <homefree/homefree.h>\n#include <stdlib.h>\nstatic int owned(void)\n"
            "{ void *p = malloc(9); int result = hf_owns(p); free(p); return result; }\n"
        )
        self.write("part.h", body)
        self.project("[]", cffi_modules="['make.py:ffi']", cmdclass="{'build_ext': build_ext}")
        script = (self.source / "setup.py").read_text()
        self.write("setup.py", script.replace("import Extension", "import build_ext"))
        self.setup("build_ext", "--inplace", CPATH=".")
        self.assert_clean(self.built("low.*.so"), name="low")
        said = run(python, "-c", "import low; print(low.lib.owned())", cwd=self.source)
        self.assertEqual(said, "1\n")

        self.write("part.h", "static int owned(void) { return 0; }\n")
        self.project("[Extension('greet', ['greet.c'])]", cffi_modules="['make.py:ffi']")
        said = self.setup("build_ext", "--inplace", "--force", CPATH=".")
        self.assertIn("low: cffi_modules builds it without homefree; add cmdclass=", said)

    def test_pybind11(self):
        """pybind11's build_ext, and its Extension as a second base: they choose the standard."""
        if not has(self.tools, "pybind11"):
            self.skipTest("pybind11 is not installed")
        self.project(
            "[Both('greet', ['greet.cpp'])]",
            before="""
                from pybind11.setup_helpers import Pybind11Extension, build_ext

                class Both(Extension, Pybind11Extension):
                    pass
            """,
            cmdclass="{'build_ext': build_ext}",
        )
        self.assertIn("-std=c++17", self.setup("build_ext", "--inplace"))
        self.assert_clean(self.built("greet.*.so"))
        self.assert_owned("greet", cwd=self.source)


class Torch(Case):
    """torch_extension_args in torch's own three functions; only the sources are ours."""

    def setUp(self):
        super().setUp()
        if SYSTEM not in TOOLS.values() or not has(SYSTEM, "torch"):
            self.skipTest("the system's Python has no torch")
        self.tools = SYSTEM
        self.project("[]")
        self.write(
            "setup.py",
            """
            import homefree
            from setuptools import setup
            from torch.utils.cpp_extension import BuildExtension, CppExtension

            op = CppExtension("a.greet", ["greet.cpp"],
                              **homefree.torch_extension_args(name="a.greet"))
            setup(name="example", version="1", packages=["a"], ext_modules=[op],
                  cmdclass={"build_ext": BuildExtension})
            """,
        )
        self.write("a/__init__.py")

    def test_cpp_extension_in_place(self):
        """No library of torch is linked, because none is used."""
        self.setup("build_ext", "--inplace", LDFLAGS="-Wl,--no-as-needed")
        module = self.built("a/greet.*.so")
        self.assert_clean(module)
        self.assertEqual(runpath(module), [self.libdir()])
        self.assert_owned("a.greet", cwd=self.source)

    def test_cpp_extension_in_a_wheel(self):
        env = self.environment(wheel=True)
        (env.site / "torch.pth").write_text("/usr/lib/python3/dist-packages\n")
        env.pip(self.source)
        module = self.built("a/greet.*.so", env.site)
        self.assert_clean(module)
        self.assertEqual(runpath(module), ["$ORIGIN/../homefree/lib"])
        self.assert_owned("a.greet", env.python)

    def test_cpp_extension_as_one_of_homefree(self):
        """With everything that a module in a wheel has: its place is known."""
        self.write(
            "setup.py",
            """
            from homefree.setuptools import Extension
            from setuptools import setup
            from torch.utils.cpp_extension import BuildExtension, CppExtension

            op = Extension.of(CppExtension("a.greet", ["greet.cpp"]))
            setup(name="example", version="1", packages=["a"], ext_modules=[op],
                  cmdclass={"build_ext": BuildExtension})
            """,
        )
        self.setup("build")
        module = self.built("build/lib*/a/greet.*.so")
        self.assertEqual(exports(module), ["PyInit_greet"])
        self.assertEqual(runpath(module), ["$ORIGIN/../homefree/lib", self.libdir()])

    def test_cuda_extension_takes_them(self):
        self.write(
            "setup.py",
            """
            import homefree
            from torch.utils.cpp_extension import CUDAExtension

            own = {"include_dirs": ["mine"], "extra_compile_args": {"cxx": []}}
            args = homefree.torch_extension_args(**own)
            op = CUDAExtension("greet", ["greet.cpp"], **args)
            assert op.include_dirs[:2] == ["mine", homefree.get_include()], op.include_dirs
            assert any("libhomefree_shim.a" in word for word in op.extra_link_args)
            assert op.extra_compile_args == {"cxx": []}
            """,
        )
        self.assertNotIn("Unknown Extension options", self.setup(CUDA_HOME="/nonexistent"))

    def test_load(self):
        self.write(
            "setup.py",
            """
            import homefree
            from torch.utils.cpp_extension import load

            m = load("greet", ["greet.cpp"], build_directory="a b",
                     **homefree.torch_extension_args(load=True, extra_cflags=["-DOWN"]))
            print("OWNED", m.owned())
            """,
        )
        self.write("greet.cpp", "#ifndef OWN\n#error\n#endif\n" + MODULE)
        self.write("a b/empty")
        self.assertIn("OWNED True", self.setup())
        module = self.source / "a b/greet.so"
        self.assert_clean(module)
        self.assertEqual(runpath(module), [self.libdir()])


class WrongInput(Case):
    """One line that says what to do, and no module."""

    def assert_refused(self, *sentences, words=("build_ext", "--inplace"), **options):
        said = self.setup(*words, fails=True, **options)
        for sentence in sentences:
            self.assertIn(sentence, said)
        self.assertEqual(list(self.source.glob("*.so")), [])
        return said

    def test_name_with_a_dash(self):
        self.project("[Extension('my-greet', ['greet.c'])]")
        self.assert_refused("ValueError: homefree: 'my-greet' is not the name of a module")

    def test_of_something_else(self):
        for wrong in "'greet'", "None", "[Extension('greet', ['greet.c'])]":
            self.project(f"[Extension.of({wrong})]")
            self.assert_refused("TypeError: homefree: Extension.of() takes one Extension of")

    def test_name_that_the_source_does_not_have(self):
        """The linker takes a version script for a function that is not there."""
        self.project(
            "[Extension('wrong', ['greet.c'], define_macros=[('MY_INIT', 'PyInit_greet')])]"
        )
        said = self.setup("build_ext", "--inplace", fails=True)
        self.assertRegex(
            said, "error: wrong: homefree exports: '.*' defines no PyInit_wrong and no PyMod"
        )
        self.assertEqual(list(self.source.glob("*.so")), [])

    def test_library_that_is_no_module_has_symbols(self):
        arguments = "symbols='api.txt', define_macros=[('MY_INIT', 'PyInit_greet')]"
        self.project(f"[Extension('wrong', ['greet.c'], {arguments})]")
        self.write("api.txt", "helper_that_must_stay_inside\n")
        said = self.setup("build_ext", "--inplace")
        self.assertIn("defines no PyInit_wrong", said)
        self.built("wrong.*.so")

    def test_library_that_registers_itself_needs_no_init_function(self):
        """torch.ops.load_library() loads such libraries of operators: torch-scatter."""
        self.project("[Extension('greet', ['greet.c', 'more.c'], extra_link_args=['-s'])]")
        self.write("more.c", "int more = 1;\n")
        self.write(
            "greet.c",
            "#include <stdlib.h>\nvoid *memory;\n"
            "static void begin(void) __attribute__((constructor));\n"
            "static void begin(void) { memory = malloc(1); }\n",
        )
        said = self.setup("build_ext", "--inplace")
        self.assertIn("greet: it has no PyInit function and no PyModExport function, so noth", said)
        library = self.built("greet.*.so")
        self.assertEqual(exports(library), [])
        self.assertIn(LIBRARY, dynamic(library, "NEEDED"))
        run(self.tools, "-c", f"import ctypes; ctypes.CDLL({str(library)!r})")

    def test_symbols_that_are_missing(self):
        self.project("[Extension('greet', ['greet.c'], symbols='none.txt')]")
        said = self.assert_refused("error: greet: ", "cannot read 'none.txt'")
        self.assertNotIn("Traceback", said)

    def test_version_that_is_none(self):
        self.project("[Extension('greet', ['greet.c'], version='not a node')]")
        self.assertNotIn("Traceback", self.assert_refused("error: greet: homefree exports: "))

    def test_compiler_that_is_missing(self):
        self.project("[Extension('greet', ['greet.c'])]")
        self.assertNotIn(
            "Traceback", self.assert_refused("no-such-compiler", CC="no-such-compiler")
        )

    def test_build_directory_that_cannot_be_written(self):
        self.project("[Extension('greet', ['greet.c'])]")
        self.write("file", "not a directory")
        self.assert_refused("error: ", words=("build_ext", "--inplace", "--build-temp", "file/b"))

    def test_package_without_headers(self):
        self.project("[Extension('greet', ['greet.c'])]")
        env = self.environment(wheel=True)
        shutil.rmtree(env.package / "include")
        said = run(env.python, "setup.py", "build", cwd=self.source, fails=True)
        self.assertIn("error: greet: homefree: this copy of the package has no headers", said)

    def test_optional_extension_that_fails_leaves_nothing(self):
        self.project("[Extension('greet', ['greet.c'], optional=True)]")
        self.write("greet.c", "#error\n")
        self.setup("build")
        self.assertEqual(list(self.source.glob("build/lib*/*")), [])

    def test_build_ext_that_is_not_of_setuptools(self):
        self.project_with_command_of("distutils.command.build_ext")
        self.write("greet.c", "int nothing;\n")
        self.assert_refused("set cmdclass={'build_ext': homefree.setuptools.build_ext}")


PARTS = {
    "first": [
        "Places.test_missing_homefree_says_what_to_install",
        "Places.test_editable",
        "Places.test_in_place_and_wheel_follow_each_other",
        "Places.test_namespace_package_and_ext_package",
    ],
    "places": ["EveryPython", "Places"],
    "helpers": ["OtherHelpers", "Torch"],
}


def use_part(name):
    """Makes unittest run the classes of a part."""
    apart = [one for named in PARTS.values() for one in named]
    rest = [one.__name__ for one in Case.__subclasses__() if one.__name__ not in apart]
    sys.argv[1:2] = PARTS.get(name, rest)


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    if len(sys.argv) > 1 and sys.argv[1] in (*PARTS, "rest"):
        use_part(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="homefree-setuptools-") as directory:
        WORK = pathlib.Path(directory)
        PREFIX = installation.prefix(BUILD, WORK / "a b").root
        TOOLS = find_tools()
        GIVEN = find_given()
        unittest.main(verbosity=2)
