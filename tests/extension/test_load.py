"""homefree.extension.load(): what it makes of sources, and what makes it compile again."""

import os
import pty
import re
import shutil
import subprocess
import sys
import unittest

import support
from homefree import _command
from support import BARE_CXX_MODULE, CXX_MODULE, MODULE


def needed(path):
    lines = subprocess.run(
        ["readelf", "-d", path], stdout=subprocess.PIPE, check=True, text=True
    ).stdout.splitlines()
    return sorted(line.split("[")[1][:-1] for line in lines if "(NEEDED)" in line)


def exported(path):
    done = subprocess.run(
        ["nm", "-D", "--defined-only", path], stdout=subprocess.PIPE, check=True, text=True
    )
    return [line.split()[-1] for line in done.stdout.splitlines()]


def cxx20():
    """The value of __cplusplus in C++20. GCC 10 still has a draft's."""
    macros = subprocess.run(
        ["c++", "-std=c++20", "-x", "c++", "-dM", "-E", os.devnull],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout
    return re.search(r"__cplusplus (\w+)", macros)[1]


class Result(support.TestCase):
    """The module that is built."""

    def assert_clean(self, path):
        done = subprocess.run([_command.find(), "inspect", path], stdout=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_memory_of_a_c_module_is_the_heaps(self):
        self.fine("assert load().owned() is True")

    def test_c_module_has_one_export_and_needs_nothing_unused(self):
        self.value()
        self.assertEqual(exported(self.module()), ["PyInit_fast"])
        self.assertEqual(needed(self.module()), ["libc.so.6", "libhomefree.so.1"])
        self.assert_clean(self.module())

    def test_memory_of_a_cxx_module_is_the_heaps(self):
        self.write("strings.cc", CXX_MODULE)
        self.fine("assert load('strings', ['strings.cc']).owned() is True")
        self.assertEqual(exported(self.module("strings")), ["PyInit_strings"])
        self.assertIn("libstdc++.so.6", needed(self.module("strings")))
        self.assert_clean(self.module("strings"))

    def test_c_and_cxx_in_one_module(self):
        self.write(
            "fast.c",
            MODULE.replace("(VALUE)", "(twice(VALUE))").replace(
                '#include "value.h"', '#include "value.h"\nint twice(int);'
            ),
        )
        self.write(
            "twice.cpp", 'extern "C" int twice(int x);\nint twice(int x) { return 2 * x; }\n'
        )
        out = self.fine("print(load(sources=['fast.c', 'twice.cpp']).value())")
        self.assertEqual(out, "2\n")

    def test_dotted_name_is_entered_as_import_does(self):
        self.write("package/__init__.py", "")
        self.fine(
            """
            import package
            module = load("package.fast")
            assert sys.modules["package.fast"] is module is package.fast
            assert module.__spec__.name == "package.fast" and os.path.isfile(module.__file__)
            assert module.__package__ == "package"
            """
        )

    def test_names_that_shells_and_ninja_would_take_apart(self):
        odd = "a $b: c'd\"e #f"
        self.write(odd + "/value.h", "#define VALUE 5\n")
        self.write(odd + "/so urce.c", MODULE)
        code = f"print(load(sources=[{odd + '/so urce.c'!r}]).value())"
        cache = str(self.work / odd / "ca che")
        self.assertEqual(self.fine(code, HOMEFREE_BUILD_DIR=cache), "5\n")
        self.assertEqual(self.fine(code, HOMEFREE_BUILD_DIR=cache), "5\n")
        self.assertEqual(self.compiled(), 1)

    def test_extra_arguments_reach_their_commands(self):
        self.write("value.h", "#define VALUE A + B + other()\n#include <other.h>\n")
        self.write("directory/other.h", "int other(void);\n")
        self.write("library.c", "int other(void);\nint other(void) { return 100; }\n")
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-o", "libother.so", "library.c"], cwd=self.work, check=True
        )
        code = f"""
            ldflags = ["-L{self.work}", "-lother", "-Wl,-rpath,{self.work}"]
            module = load(extra_cflags=["-DA=1", "-DB=20"], extra_include_paths=["directory"],
                          extra_ldflags=ldflags)
            print(module.value())
            """
        self.assertEqual(self.fine(code), "121\n")

    def test_cxxflags_are_not_for_c(self):
        self.write("more.cc", "#ifndef ONLY\n#error ONLY\n#endif\n")
        self.write("value.h", "#ifdef ONLY\n#error ONLY\n#endif\n#define VALUE 3\n")
        self.fine("load(sources=['fast.c', 'more.cc'], extra_cxxflags=['-DONLY'])")

    def test_flags_of_the_environment_are_honoured_and_part_of_what_is_asked_for(self):
        self.write("value.h", "#ifndef VALUE\n#define VALUE 1\n#endif\n")
        self.assertEqual(self.value(CFLAGS="-DVALUE=7"), 7)
        self.assertEqual(self.value(), 1)
        self.assertEqual(self.value(CFLAGS="-DVALUE=7"), 7)
        self.assertEqual(self.compiled(), 2)

    def test_standard_is_cxx17_unless_another_is_given(self):
        self.write("odd.cc", BARE_CXX_MODULE)
        for number, flags in {"201703L": "[]", cxx20(): "['-std=c++20']"}.items():
            self.write("value.h", f'static_assert(__cplusplus == {number}, "");\n#define VALUE 1\n')
            self.fine(f"load('odd', ['odd.cc'], extra_cflags={flags})")

    def test_standard_in_the_compilers_command_is_kept(self):
        self.write("odd.cc", BARE_CXX_MODULE)
        self.write("value.h", f'static_assert(__cplusplus == {cxx20()}, "");\n#define VALUE 1\n')
        self.fine("load('odd', ['odd.cc'])", CXX="c++ -std=c++20")
        self.fine("load('even', ['odd.cc'])", CPPFLAGS="-std=c++20")

    def test_standard_is_the_one_that_torchs_headers_require(self):
        # A double of torch, because the real one's headers require C++14, C++17 or C++20, depending
        # on the version.
        self.write(
            "torch/__init__.py",
            """
            __version__ = "0"
            class _C:
                _GLIBCXX_USE_CXX11_ABI = True
            """,
        )
        self.write("torch/utils/__init__.py", "")
        self.write(
            "torch/utils/cpp_extension.py",
            f"""
            def include_paths():
                return [{str(self.work / "include")!r}]
            def library_paths():
                return [{str(self.work / "lib")!r}]
            """,
        )
        (self.work / "lib").mkdir()
        for name in ("c10", "torch_cpu", "torch", "torch_python"):
            subprocess.run(["ar", "rc", self.work / f"lib/lib{name}.a"], check=True)
        self.write("odd.cc", BARE_CXX_MODULE)
        for required, used in {"201402L": "201703L", "202002L": "202002L"}.items():
            if used == "202002L" and cxx20() != used:
                self.skipTest("this compiler's C++20 is a draft, which torch's headers refuse")
            self.write(
                "include/ATen/ATen.h",
                f"""
                #if !defined(_MSC_VER) && __cplusplus < {required}
                #error a later C++ is required
                #endif
                """,
            )
            self.write("value.h", f'static_assert(__cplusplus == {used}, "");\n#define VALUE 1\n')
            name = f"for_{required}"
            self.fine(f"load({name!r}, ['odd.cc'], torch=True)")

    def test_cuda_sources_go_to_nvcc_and_the_runtime_is_linked(self):
        # A double of nvcc: it records its arguments, and compiles C++ sources.
        home = self.work / "cuda"
        (home / "lib64").mkdir(parents=True)
        (home / "include").mkdir()
        self.write(
            "empty.c", "int cudaGetDevice(int *);\nint cudaGetDevice(int *x) { return *x; }\n"
        )
        subprocess.run(
            [
                "cc",
                "-shared",
                "-fPIC",
                "-Wl,-soname,libcudart.so.12",
                "-o",
                home / "lib64/libcudart.so",
                self.work / "empty.c",
            ],
            check=True,
        )
        (home / "lib64/libcudart.so.12").symlink_to("libcudart.so")
        nvcc = self.script(
            "nvcc",
            f"""
            echo "$@" >>{self.work}/nvcc.log
            [ "$1" = --version ] && exit
            for word; do
                shift
                case $word in
                -Xcompiler) set -- "$@" -fPIC; skip=1 ;;
                -ccbin) skip=1 ;;
                -arch=*) ;;
                *.cu) set -- "$@" -x c++ "$word" ;;
                *) [ "$skip" ] && skip= || set -- "$@" "$word" ;;
                esac
            done
            exec c++ "$@"
            """,
        )
        (home / "bin").mkdir()
        os.rename(nvcc, home / "bin/nvcc")
        self.write(
            "kernel.cu",
            'extern "C" int cudaGetDevice(int *);\nextern "C" int kernel(void);\n'
            'extern "C" int kernel(void) { int x = 4; return cudaGetDevice(&x); }\n',
        )
        self.write("value.h", "int kernel(void);\n#define VALUE kernel()\n")
        code = """
            print(load(sources=["fast.c", "kernel.cu"], extra_cuda_cflags=["-arch=sm_90"]).value())
            """
        self.assertEqual(self.fine(code, CUDA_HOME=home), "4\n")
        log = (self.work / "nvcc.log").read_text()
        for word in (
            "-arch=sm_90",
            "-Xcompiler -fPIC,-fvisibility=hidden",
            "-ccbin c++",
            "-std=c++17",
            "-DHOMEFREE_MODULE_NAME=fast",
            "-c ",
        ):
            self.assertIn(word, log)
        self.assertIn("libcudart.so.12", needed(self.module()))

    @unittest.skipUnless(shutil.which("nvcc"), "there is no nvcc")
    def test_cuda_module(self):
        kernel = """
            #include <cuda_runtime.h>
            __global__ void triple(float *x) { x[threadIdx.x] *= 3; }
            extern "C" int devices(void);
            extern "C" int devices(void)
            {
                int count = 0;
                (void)triple;
                return cudaGetDeviceCount(&count) == cudaSuccess && count > 0 ? count : 0;
            }
            """
        self.write("kernel.cu", kernel)
        self.write("value.h", "int devices(void);\n#define VALUE devices() >= 0\n")
        for _ in range(2):
            out = self.fine("print(load(sources=['fast.c', 'kernel.cu']).value())")
            self.assertEqual(out, "1\n")
        self.assertEqual(self.compiled(), 1)
        self.assertEqual(exported(self.module()), ["PyInit_fast"])
        self.assertTrue([name for name in needed(self.module()) if name.startswith("libcudart")])
        self.assert_clean(self.module())

    @unittest.skipUnless(
        sys.prefix == "/usr" and os.path.exists("/usr/lib/python3/dist-packages/torch"),
        "torch is not installed for this Python",
    )
    def test_torch_gives_its_name_headers_and_libraries(self):
        self.write(
            "named.cc",
            CXX_MODULE.replace("HF_MODULE_INIT(", "NAME(TORCH_EXTENSION_NAME)(").replace(
                '#include "value.h"',
                '#include "value.h"\n#include <torch/csrc/Export.h>\n'
                "#define NAME(x) NAMED(x)\n#define NAMED(x) PyInit_##x\n",
            ),
        )
        outcome = self.run_code("assert load('named', ['named.cc'], torch=True).owned()")
        if "No module named 'setuptools'" in outcome.err:
            self.skipTest("this torch needs setuptools to say how its extensions are compiled")
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertNotIn("libtorch.so", " ".join(needed(self.module("named"))))


class Again(support.TestCase):
    """What is compiled again and what is not."""

    def test_warm_load_compiles_nothing_and_starts_nothing(self):
        self.assertEqual(self.value(), 1)
        self.fine(
            """
            before = set(sys.modules)
            load()
            more = set(sys.modules) - before
            assert more == {"fast"}, more
            """,
            PATH=str(self.work),
        )
        self.assertEqual(self.compiled(), 1)

    def test_changed_source_and_back(self):
        self.assertEqual(self.value(), 1)
        self.write("fast.c", MODULE.replace("(VALUE)", "(VALUE + 40)"))
        self.assertEqual(self.value(), 41)
        self.write("fast.c", MODULE)
        self.assertEqual(self.value(), 1)
        self.write("fast.c", MODULE.replace("(VALUE)", "(VALUE + 40)"))
        self.assertEqual(self.value(), 41)
        self.assertEqual(self.compiled(), 2)

    def test_changed_header(self):
        self.assertEqual(self.value(), 1)
        self.write("value.h", "#define VALUE 2\n")
        self.assertEqual(self.value(), 2)

    def test_changed_header_of_the_same_size_and_time(self):
        self.value()
        status = os.stat(self.work / "value.h")
        self.write("value.h", "#define VALUE 2\n")
        os.utime(self.work / "value.h", ns=(status.st_atime_ns, status.st_mtime_ns))
        self.assertEqual(self.value(), 2)

    def test_replaced_header_of_a_package(self):
        # Of packages' headers, the directories are watched; CUDA's is one that a test can write to.
        directory = self.work / "cuda/include"
        (self.work / "value.h").unlink()
        self.write("cuda/include/value.h", "#define VALUE 4\n")
        code = f"print(load(extra_include_paths=[{str(directory)!r}]).value())"
        self.assertEqual(self.fine(code, CUDA_HOME=directory.parent), "4\n")
        lines = (self.cache / "fast/index").read_text().split("\n")
        self.assertIn(str(directory), lines)
        self.assertNotIn(str(directory / "value.h"), lines)
        self.write("cuda/include/new.h", "#define VALUE 5\n").rename(directory / "value.h")
        self.assertEqual(self.fine(code, CUDA_HOME=directory.parent), "5\n")
        self.assertEqual(self.compiled(), 2)
        self.write("cuda/include/unused.h", "")
        self.assertEqual(self.fine(code, CUDA_HOME=directory.parent), "5\n")
        self.assertEqual(self.compiled(), 2)

    def test_touched_header_is_read_and_not_compiled(self):
        self.value()
        os.utime(self.work / "value.h", ns=(1, 1))
        self.assertEqual(self.value(), 1)
        # It is not read again after that.
        self.fine("load(); assert 'hashlib' not in sys.modules")
        self.assertEqual(self.compiled(), 1)

    def test_other_flags_and_back(self):
        for number in (1, 2, 1, 2):
            out = self.fine(f"print(load(extra_cflags=['-UVALUE', '-DX={number}']).value())")
            self.assertEqual(out, "1\n")
        self.assertEqual(self.compiled(), 2)

    def test_another_compiler_in_the_place_of_this_one(self):
        answer = 'case "$1" in --version) echo {}; exit ;; esac\n'
        compiler = self.counting("cc", "cc")
        text = compiler.read_text()
        for version, count in (("1", 1), ("1", 1), ("2", 2)):
            compiler.write_text(text.replace("#!/bin/sh\n", "#!/bin/sh\n" + answer.format(version)))
            self.value()
            self.assertEqual(self.compiled(), count, version)

    def test_another_compiler_earlier_on_path_or_behind_a_link(self):
        answer = '#!/bin/sh\ncase "$1" in --version) echo {}; exit ;; esac\n'
        text = self.counting("cc", "cc").read_text()
        for name in ("behind-1", "behind-2", "early/ours"):
            path = self.write(name, text.replace("#!/bin/sh\n", answer.format(name)))
            path.chmod(0o755)
        early, link = self.work / "early", self.work / "late/ours"
        link.parent.mkdir()
        link.symlink_to("../behind-1")
        (early / "ours").rename(early / "another")
        environment = {"CC": "ours", "PATH": f"{early}:{link.parent}:{os.environ['PATH']}"}
        self.value(**environment)
        self.value(**environment)
        self.assertEqual(self.compiled(), 1)
        os.rename(self.work / "behind-2", self.work / "behind-1")
        self.value(**environment)
        self.assertEqual(self.compiled(), 2)
        (early / "another").rename(early / "ours")
        self.value(**environment)
        self.assertEqual(self.compiled(), 3)

    def test_another_compiler_behind_a_launcher(self):
        compiler = self.counting("c c", "cc")
        self.value(CC=f"env X=1 '{compiler}' -g0")
        self.value(CC=f"env X=1 '{compiler}' -g0")
        self.assertEqual(self.compiled(), 1)
        compiler.write_text(compiler.read_text() + "\n# changed\n")
        self.value(CC=f"env X=1 '{compiler}' -g0")
        self.assertEqual(self.compiled(), 2)

    def test_another_python_or_homefree(self):
        self.value()
        self.fine("import homefree; homefree._importing.PYTHON += ' another'; load()")
        self.assertEqual(self.compiled(), 2)
        self.fine(
            """
            import ast, homefree
            from importlib.machinery import EXTENSION_SUFFIXES
            package = os.path.dirname(homefree.__file__)
            python = sys.version, EXTENSION_SUFFIXES[0], sys.base_prefix
            here = *python, homefree.__version__, package
            assert ast.literal_eval(homefree._importing.PYTHON) == here
            """
        )

    def test_removed_compiler_leaves_what_is_there(self):
        self.value()
        os.unlink(self.environment["CC"])
        self.assertEqual(self.value(), 1)

    def test_old_entries_go(self):
        self.value()
        for number in range(2, 6):
            self.write("value.h", f"#define VALUE {number}\n")
            self.fine(
                f"""
                from homefree.extension import _index
                _index.KEPT = 3
                assert load().value() == {number}
                """
            )
        self.assertEqual(len(self.entries()), 3)
        self.write("value.h", "#define VALUE 3\n")
        self.value()
        self.assertEqual(self.compiled(), 5)

    def test_what_changes_while_it_is_compiled_is_compiled_again(self):
        once = f"[ -e {self.work}/done ] || {{ touch {self.work}/done; sed -i s/1/6/ value.h; }}"
        self.counting("cc", "cc", before=f"cd {self.work}; {once}; cd - >/dev/null")
        # The double changes the header before the compiler reads it, so it is unknown which
        # contents the compiler saw.
        self.assertEqual(self.value(), 6)
        self.assertEqual(self.compiled(), 2)
        self.assertEqual(self.value(), 6)
        self.assertEqual(self.compiled(), 2)


class Process(support.TestCase):
    """What users see of the builds in a process."""

    def test_same_module_twice_is_one(self):
        self.fine("assert load() is load()")

    def test_same_name_of_other_sources_is_refused(self):
        self.write("other.c", MODULE)
        self.fine("load(); refused('loaded already', 'another name', sources=['other.c'])")

    def test_same_name_after_a_change_is_refused(self):
        self.fine(
            """
            load()
            with open("value.h", "w") as file:
                file.write("#define VALUE 9\\n")
            refused("loaded already", "new process")
            """
        )

    def test_threads_get_one_module(self):
        self.fine(
            """
            from concurrent.futures import ThreadPoolExecutor
            with ThreadPoolExecutor(8) as pool:
                modules = list(pool.map(lambda _: load(), range(8)))
            assert len(set(map(id, modules))) == 1
            """
        )
        self.assertEqual(self.compiled(), 1)

    def test_extension_is_an_attribute(self):
        self.fine("import homefree; assert homefree.extension.load is extension.load")

    def test_public_names(self):
        self.fine(
            """
            assert {"BuildError", "build", "load"} <= set(dir(extension))
            assert not hasattr(extension, "nothing")
            for name in extension.__all__:
                public = getattr(extension, name)
                assert public.__module__ == "homefree.extension" and public.__doc__, name
            names = {}
            exec("from homefree.extension import *", names)
            assert set(names) - {"__builtins__"} == {"BuildError", "build", "load"}
            """
        )

    def test_public_names_survive_pickling(self):
        self.fine(
            """
            import pickle
            try:
                load(sources=["missing.c"])
            except extension.BuildError as error:
                found = pickle.loads(pickle.dumps(error))
                assert type(found) is extension.BuildError, type(found)
                assert (str(found), found.name) == (str(error), "fast")
            else:
                raise AssertionError
            child = "import pickle; print(pickle.loads({!r}))"
            import subprocess
            for name in extension.__all__:
                public = getattr(extension, name)
                code = child.format(pickle.dumps(public))
                out = subprocess.check_output([sys.executable, "-s", "-c", code], text=True)
                assert name in out, out
            """
        )

    def test_option_that_does_not_exist(self):
        self.fine(
            """
            for function, more in (extension.load, ()), (extension.build, ("output",)):
                try:
                    function("fast", ["fast.c"], *more, extra_flags=["-O2"])
                except TypeError as error:
                    assert "extra_flags" in str(error), error
                else:
                    raise AssertionError
            assert not os.path.exists("output")
            """
        )

    def test_importing_homefree_imports_none_of_it(self):
        outcome = self.finish(
            self.begin(
                "import sys, homefree; assert 'homefree.extension' not in sys.modules", prelude=""
            )
        )
        self.assertEqual((outcome.status, outcome.err), (0, ""))

    def test_cache_is_below_the_users_directory(self):
        home, xdg = self.work / "home", self.work / "xdg"
        self.value(HOMEFREE_BUILD_DIR=None, XDG_CACHE_HOME=None, HOME=home)
        self.assertTrue((home / ".cache/homefree/fast/index").is_file())
        self.value(HOMEFREE_BUILD_DIR=None, XDG_CACHE_HOME=xdg)
        self.assertTrue((xdg / "homefree/fast/index").is_file())
        self.assertEqual(os.stat(xdg / "homefree").st_mode & 0o777, 0o700)

    def test_children_get_build_directory_through_the_environment(self):
        self.fine(
            """
            import subprocess
            load(build_directory="elsewhere")
            child = "from homefree.extension import load; print(load('fast', ['fast.c']).__file__)"
            path = subprocess.check_output([sys.executable, "-s", "-c", child], text=True)
            assert path.startswith(os.path.abspath("elsewhere")), path
            load("other", ["fast.c"])
            """
        )
        self.assertEqual(self.compiled(), 2)
        self.assertTrue((self.cache / "other").is_dir())
        self.assertFalse((self.cache / "fast").exists())

    def test_without_a_terminal_nothing_is_said(self):
        self.write("value.h", "#define VALUE 1\n#warning something\n")
        self.fine("load()")

    def test_verbose_tells_what_is_done_with_warnings(self):
        self.write("value.h", "#define VALUE 1\n#warning something\n")
        outcome = self.run_code("load(verbose=True)")
        self.assertIn("compiling fast.c", outcome.err)
        self.assertIn("something", outcome.err)

    def on_terminal(self, **environment):
        """What a process writes when its stderr is a terminal."""
        mine, its = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-s", "-c", support.PRELUDE + "load()"],
            cwd=self.work,
            env={**self.environment, "TERM": "xterm", **environment},
            stderr=its,
        )
        os.close(its)
        said = b""
        while True:
            try:
                block = os.read(mine, 4096)
            except OSError:  # the other end of the terminal is closed
                break
            if not block:
                break
            said += block
        os.close(mine)
        self.assertEqual(process.wait(), 0, said)
        return said.decode()

    def test_terminal_shows_progress(self):
        said = self.on_terminal()
        self.assertIn("compiling fast.c", said)
        self.assertIn("\x1b[1m", said)
        self.assertTrue(said.endswith("\r\x1b[K"), said)

    def test_terminal_without_colours(self):
        said = self.on_terminal(NO_COLOR="1")
        self.assertIn("compiling fast.c", said)
        self.assertNotIn("\x1b[1m", said)

    def test_ninja_of_the_python_package(self):
        ninja = shutil.which("ninja")
        self.write("tools/placeholder", "")
        for tool in ("sh", "cc", "as", "ld", "env"):
            os.symlink(shutil.which(tool), self.work / "tools" / tool)
        self.write("packages/ninja/__init__.py", f"BIN_DIR = {str(self.work / 'binaries')!r}\n")
        (self.work / "binaries").mkdir()
        os.symlink(ninja, self.work / "binaries/ninja")
        path = os.environ["PYTHONPATH"] + os.pathsep + str(self.work / "packages")
        self.assertEqual(self.value(PATH=self.work / "tools", PYTHONPATH=path), 1)


if __name__ == "__main__":
    support.main()
