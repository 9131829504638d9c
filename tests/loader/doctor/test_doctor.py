"""The built command `homefree doctor`: what it finds in real processes, and how those may end.

Usage: test_doctor.py HOMEFREE LIBHOMEFREE PACKAGE-DIRECTORY [unittest arguments]. The compiler is
$CC, or cc. An empty PACKAGE-DIRECTORY: the Python package was not built.
"""

import ctypes.util
import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
from glibc import NAMES_MODULES  # noqa: E402

HOMEFREE, LIBRARY, PACKAGE = (p and os.path.abspath(p) for p in (sys.argv.pop(1) for _ in range(3)))
CC = shlex.split(os.environ.get("CC", "cc"))
PYTHON = sys.executable
EXACT = ("-O1", "-fno-builtin", "-w")

HELLO = "#include <stdlib.h>\nint main(void) { free(malloc(1)); return 0; }\n"
SEVERITIES = {"note", "warning", "error"}


def environment(**more):
    result = {k: v for k, v in os.environ.items() if k not in ("HOMEFREE_CONF", "NO_COLOR")}
    result.update(more)
    return result


class InDirectory(unittest.TestCase):
    """Each test has an empty directory; the helpers report what went wrong."""

    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="homefree-test-doctor-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.records = self.directory / "records"
        self.records.mkdir()

    def tearDown(self):
        self.assertEqual(os.listdir(self.records), [], "the command left files behind")

    def build(self, name, source, *flags):
        path, code = self.directory / name, self.directory / (name + ".c")
        code.write_text(source)
        subprocess.run([*CC, *EXACT, str(code), *flags, "-o", str(path)], check=True)
        return str(path)

    def run_doctor(self, *arguments, env=None, **options):
        env = dict(env or environment())
        env.setdefault("TMPDIR", str(self.records))
        return subprocess.run(
            [HOMEFREE, "doctor", *map(str, arguments)],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env=env,
            timeout=100,
            **options,
        )

    def document(self, status, *arguments, **options):
        """Runs doctor with --json. Result: the document, after a check of its form."""
        result = self.run_doctor("--json", *arguments, **options)
        self.assertEqual(result.returncode, status, result.stderr.decode(errors="replace"))
        document = json.loads(result.stdout)
        self.check_shape(document)
        return document

    def check_shape(self, document):
        self.assertEqual(document["homefree"]["document"], "doctor")
        self.assertEqual(document["homefree"]["format"], 1)
        self.assertEqual(
            set(document["summary"]), {"processes", "failed", "errors", "warnings", "notes"}
        )
        self.assertEqual(document["summary"]["processes"], len(document["processes"]))
        for process in document["processes"]:
            self.assertEqual(
                set(process),
                {"pid", "program", "recorded", "routing", "preload", "heap"}
                | {"allocators", "objects", "findings"},
            )
            paths = [each["path"] for each in process["objects"]]
            self.assertTrue(paths)
            for each in process["objects"]:
                self.assertIn(each["role"], {"ordinary", "runtime", "linker", "homefree"})
                for key in ("malloc", "free", "new", "delete"):
                    self.assertLessEqual(set(each[key]), set(paths))
                for key in ("namespace", "routed", "refused"):
                    self.assertIsInstance(each[key], int)
            for each in process["allocators"]:
                self.assertEqual(
                    set(each),
                    {"name", "object", "users", "heap", "home", "mapped", "mapped_in_object"},
                )
                self.assertIn(each["object"], paths)
            self.assertEqual(sum(each["heap"] for each in process["allocators"]), 1)
            for each in process["findings"]:
                self.assertEqual(
                    set(each), {"rule", "severity", "message", "remedy", "help", "count", "names"}
                )
                self.assertIn(each["severity"], SEVERITIES)
                self.assertTrue(each["remedy"].endswith("."), each)

    def process(self, status, *arguments, **options):
        document = self.document(status, *arguments, **options)
        self.assertEqual(len(document["processes"]), 1)
        return document["processes"][0]

    def finding(self, process, rule):
        found = [each for each in process["findings"] if each["rule"] == rule]
        self.assertTrue(found, f"no {rule} in {process['findings']}")
        return found[0]

    def refused(self, status, message, *arguments, **options):
        result = self.run_doctor(*arguments, **options)
        errors = result.stderr.decode(errors="replace")
        self.assertEqual(result.returncode, status, errors)
        self.assertEqual(result.stdout, b"")
        self.assertTrue(errors.startswith("homefree doctor: "), errors)
        self.assertEqual(errors.count("\n"), 1, errors)
        self.assertIn(message, errors)


def object_named(process, part):
    return next(each for each in process["objects"] if part in os.path.basename(each["path"]))


class Facts(InDirectory):
    """The report about processes that end normally."""

    def test_plain_program(self):
        program = self.build("hello", HELLO)
        process = self.process(0, "--", program)
        hello = object_named(process, "hello")
        self.assertEqual(process["program"], program)
        self.assertEqual(process["recorded"], "exit")
        self.assertEqual([os.path.basename(p) for p in hello["malloc"]], ["libc.so.6"])
        self.assertEqual([os.path.basename(p) for p in hello["free"]], ["libc.so.6"])
        self.assertEqual((hello["routed"], hello["refused"]), (1, 0))
        self.assertEqual(process["findings"], [])

    def test_numpy(self):
        python = "/usr/bin/python3"
        if subprocess.run([python, "-c", "import numpy"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no NumPy")
        process = self.process(0, "--", python, "-c", "import numpy; numpy.ones(9).sum()")
        core = object_named(process, "_multiarray_umath")
        self.assertEqual([os.path.basename(p) for p in core["free"]], ["libc.so.6"])
        self.assertGreater(core["routed"], 0)
        self.assertGreater(process["heap"]["reserved"], 0)

    def build_around_jemalloc(self, source):
        """A module with a hidden jemalloc, which exports enter()."""
        archive = Path("/usr/lib/x86_64-linux-gnu/libjemalloc_pic.a")
        if not archive.exists():
            self.skipTest("no libjemalloc_pic.a")
        (self.directory / "m.map").write_text("{ global: enter; local: *; };\n")
        return self.build(
            "hidden.so",
            source,
            *("-shared", "-fPIC", str(archive), "-lpthread", "-lm", "-lstdc++"),
            f"-Wl,--version-script={self.directory}/m.map",
        )

    def test_hidden_jemalloc(self):
        module = self.build_around_jemalloc(
            "#include <stdlib.h>\nvoid *enter(void) { return malloc(100); }\n",
        )
        code = f"import ctypes; ctypes.CDLL({module!r}).enter()"
        env = environment(GLIBC_TUNABLES="glibc.rtld.optional_static_tls=8000")
        document = json.loads(self.run_doctor("--json", "--", PYTHON, "-c", code, env=env).stdout)
        self.check_shape(document)
        process = document["processes"][0]
        allocator = next(a for a in process["allocators"] if a["object"] == module)
        self.assertEqual(allocator["name"], "jemalloc")
        found = self.finding(
            process, "foreign-allocator" if allocator["home"] else "embedded-allocator"
        )
        self.assertEqual(found["names"], [module])
        self.assertIn("jemalloc", found["message"])

    @unittest.skipUnless(NAMES_MODULES, "glibc cannot tell before 2.35")
    def test_leaked_blocks_are_named(self):
        module = self.build_around_jemalloc(
            "#include <stdlib.h>\nvoid *enter(size_t size) { return malloc(size); }\n",
        )
        subprocess.run(["strip", module], check=True)
        code = (
            f"import ctypes; enter = ctypes.CDLL({module!r}).enter\n"
            "enter.restype = ctypes.c_void_p; enter.argtypes = [ctypes.c_size_t]\n"
            "free = ctypes.CDLL(None).free; free.argtypes = [ctypes.c_void_p]\n"
            "for i in range(3): free(enter(64 << 20))\n"
        )
        done = self.run_doctor(
            *("--json", "--", PYTHON, "-c", code),
            env=environment(
                GLIBC_TUNABLES="glibc.rtld.optional_static_tls=8000",
                HOMEFREE_CONF="unknown_free:leak",
            ),
        )
        process = json.loads(done.stdout)["processes"][0]
        found = self.finding(process, "embedded-allocator")
        self.assertEqual(found["names"], [module])
        self.assertIn("jemalloc, of which 3 blocks were leaked", found["message"])

    @unittest.skipUnless(NAMES_MODULES, "glibc cannot tell before 2.35")
    def test_death_inside_a_hidden_allocator(self):
        # The allocator's own free() gets memory of libc's in a direct call: a bare SIGSEGV. The
        # report must not say that there is nothing to do. What else the module does wrong is not
        # its allocator's business.
        module = self.build_around_jemalloc(
            "#include <stdlib.h>\n#include <string.h>\n"
            "#include <dlfcn.h>\n"
            "static struct { long before[2]; char bytes[48]; } data;\n"
            "typedef void release(void *);\n"
            "static void __attribute__((noinline)) page_free(void) { abort(); }\n"
            "static void __attribute__((noinline)) left_free(void) {"
            f' ((void (*)(void))dlsym(dlopen("{self.directory}/left.so", RTLD_NOW), "leave"))();'
            " abort(); }\n"
            "void enter(int own) {\n"
            ' void *volatile null = 0, *volatile block = strdup(own == 6 ? "at hand" : "");\n'
            " free(malloc(100));\n"
            " if (own == 6) *(void **)null = block;\n"
            " if (own == 7) abort();\n"
            ' if (own == 0) free(strdup("foreign"));\n'
            " if (own == 2) page_free();\n"
            " if (own == 5) left_free();\n"
            ' release *libcs = (release *)dlsym(dlopen("libc.so.6", RTLD_NOW), "free");\n'
            ' if (own == 3) libcs(strdup("inside") + 4);\n'
            " if (own == 4) libcs(data.bytes); }\n",
        )
        env = environment(GLIBC_TUNABLES="glibc.rtld.optional_static_tls=8000")
        code = f"import ctypes; ctypes.CDLL({module!r}).enter(%d)"
        result = self.run_doctor("--json", "--", PYTHON, "-c", code % 0, env=env)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(
            result.stderr.decode(),
            r"homefree: the program dies in .*hidden\.so\+0x[0-9a-f]+, which has a jemalloc inside",
        )
        process = json.loads(result.stdout)["processes"][0]
        found = self.finding(process, "died-in-allocator")
        self.assertIn("SIGSEGV", found["message"])
        self.assertIn("an object that contains jemalloc", found["message"])
        self.assertEqual(found["names"], [module])
        self.assertIn("homefree inspect", found["remedy"])
        rules = {each["rule"] for each in process["findings"]}
        self.assertFalse(rules & {"foreign-allocator", "embedded-allocator"}, rules)
        for each in process["findings"]:
            self.assertFalse(each["remedy"].startswith("Nothing"), each)
        process = self.document(0, "--", PYTHON, "-c", code % 1, env=env)["processes"][0]
        self.assertNotIn("died-in-allocator", {each["rule"] for each in process["findings"]})
        # tcmalloc and mimalloc call abort(), which is code of libc.
        process = self.process(1, "--", PYTHON, "-c", code % 2, env=env)
        found = self.finding(process, "died-in-allocator")
        self.assertIn("SIGABRT", found["message"])
        self.assertEqual(found["names"], [module])
        # abort() leaves return addresses of finished calls in its frame.
        self.build(
            "left.so",
            "static int __attribute__((noinline, noclone)) deep(volatile int *n) {\n"
            " return (*n)-- > 0 ? deep(n) + 1 : 0; }\n"
            "void leave(void) { volatile int n = 400; deep(&n); }\n",
            *("-shared", "-fPIC", "-fno-optimize-sibling-calls"),
        )
        process = self.process(1, "--", PYTHON, "-c", code % 5, env=env)
        self.assertEqual(self.finding(process, "died-in-allocator")["names"], [module])
        # A message of libc or homefree themselves is not the hidden allocator's; nor are a null
        # pointer and an abort() of the module's own code.
        for own in (3, 4, 6, 7):
            result = self.run_doctor("--json", "--", PYTHON, "-c", code % own, env=env)
            process = json.loads(result.stdout)["processes"][0]
            self.finding(process, "died")
            self.assertNotIn("died-in-allocator", {each["rule"] for each in process["findings"]})
            self.assertNotIn("the program dies in", result.stderr.decode())
        # Without names, the fault's address tells.
        subprocess.run(["strip", module], check=True)
        process = self.process(1, "--", PYTHON, "-c", code % 0, env=env)
        self.assertEqual(self.finding(process, "died-in-allocator")["names"], [module])
        process = self.process(1, "--", PYTHON, "-c", code % 6, env=env)
        self.assertNotIn("died-in-allocator", {each["rule"] for each in process["findings"]})

    def test_deepbind_under_a_preloaded_allocator(self):
        # flux, oneTBB, falco, gperftools: the preloaded allocator serves the process, but objects
        # that are loaded with RTLD_DEEPBIND see libc first.
        if ctypes.util.find_library("jemalloc") is None:
            self.skipTest("no libjemalloc.so.2")
        plugin = self.build(
            "plugin.so",
            "#include <stdlib.h>\nvoid work(int die) { free(malloc(100)); if (die) abort(); }\n",
            *("-shared", "-fPIC"),
        )
        program = self.build(
            "host",
            "#include <dlfcn.h>\n#include <stdlib.h>\n"
            "int main(int n, char **v) { free(malloc(1)); if (n < 3) return 0;\n"
            "void *plugin = dlopen(v[1], RTLD_NOW | RTLD_DEEPBIND);\n"
            "((void (*)(int))dlsym(plugin, \"work\"))(v[2][0] == '1'); return 0; }",
            "-ldl",
        )
        env = environment(LD_PRELOAD="libjemalloc.so.2")
        process = self.process(1, "--", program, plugin, "1", env=env)
        found = self.finding(process, "two-mallocs")
        self.assertEqual(found["names"], [plugin])
        self.assertIn("jemalloc serves the process", found["message"])
        self.assertIn("RTLD_DEEPBIND", found["remedy"])
        self.assertNotIn("no harm", self.finding(process, "preloaded-allocator")["remedy"])
        # A clean end shows that jemalloc's blocks go home; homefree must report the same.
        result = self.run_doctor("--json", "--", program, plugin, "0", env=env)
        process = json.loads(result.stdout)["processes"][0]
        allocator = next(a for a in process["allocators"] if a["name"] == "jemalloc")
        found = "two-mallocs" in {each["rule"] for each in process["findings"]}
        self.assertNotEqual(allocator["home"], found)
        process = self.process(0, "--", program, env=env)
        self.assertNotIn("two-mallocs", {each["rule"] for each in process["findings"]})

    def test_preloaded(self):
        program = self.build("hello", HELLO)
        for library in ("jemalloc", "tcmalloc_minimal", "mimalloc"):
            soname = ctypes.util.find_library(library)
            if soname is None:
                continue
            name = library.partition("_")[0]
            with self.subTest(soname):
                env = environment(LD_PRELOAD=soname)
                process = self.process(0, "--", program, env=env)
                hello = object_named(process, "hello")
                self.assertIn(soname.split(".")[0], hello["malloc"][0])
                self.assertEqual(hello["malloc"], hello["free"])
                self.assertTrue(process["preload"].startswith(soname + ":"), process["preload"])
                self.assertIn(name, self.finding(process, "preloaded-allocator")["message"])
                names = {a["name"]: a for a in process["allocators"]}
                self.assertGreater(names[name]["users"], 0)
                self.assertEqual(names["libc"]["users"], 0)

    def test_two_copies(self):
        copy = self.directory / "libhomefree-0123abcd.so.1"
        shutil.copy(LIBRARY, copy)
        code = f"import ctypes; ctypes.CDLL({str(copy)!r})"
        process = self.process(1, "--", PYTHON, "-c", code)
        found = self.finding(process, "several-homefrees")
        self.assertEqual(found["count"], 2)
        self.assertIn(str(copy), found["names"])
        self.assertIn("auditwheel", found["remedy"])

    def test_two_libstdcxx(self):
        real = subprocess.run(
            [*CC, "-print-file-name=libstdc++.so.6"], stdout=subprocess.PIPE, text=True, check=True
        ).stdout.strip()
        copy = self.directory / "libstdc++-0123abcd.so.6"
        shutil.copy(real, copy)
        code = f"import ctypes; ctypes.CDLL({real!r}); ctypes.CDLL({str(copy)!r})"
        process = self.process(1, "--", PYTHON, "-c", code)
        self.assertIn(str(copy), self.finding(process, "several-libstdcxx")["names"])

    def test_free_elsewhere(self):
        library = self.build(
            "libhalf.so",
            "#include <stddef.h>\nvoid *__libc_malloc(size_t);\n"
            "void *malloc(size_t n) { return __libc_malloc(n); }\n",
            *("-shared", "-fPIC"),
        )
        program = self.build("half", HELLO, "-Wl,--no-as-needed", library)
        process = self.process(1, "--", program)
        found = self.finding(process, "free-goes-elsewhere")
        self.assertEqual(found["message"], "malloc comes from libhalf.so, free from libc.so.6")
        self.assertIn(program, found["names"])

    def test_copy_relocation(self):
        library = self.build(
            "libhook.so",
            "#include <stdlib.h>\nvoid (*hook)(void *) = free;\n",
            *("-shared", "-fPIC"),
        )
        program = self.build(
            "copier",
            "#include <stdlib.h>\nextern void (*hook)(void *);\n"
            "int main(void) { hook(malloc(1)); return 0; }\n",
            *("-no-pie", "-fno-pie", library),
        )
        found = self.finding(self.process(1, "--", program), "copy-relocation")
        self.assertEqual((found["names"], found["count"]), (["hook"], 1))

    def test_stored_pointer(self):
        program = self.build(
            "stored",
            "#include <stdlib.h>\nstatic void mine(void *p) { free(p); }\n"
            "void (*volatile hook)(void *) = free;\n"
            "int main(void) { hook = (void (*)(void *))puts; return 0; }\n".replace(
                "#include <stdlib.h>", "#include <stdio.h>\n#include <stdlib.h>"
            ),
            *("-pie", "-fPIE"),
        )
        found = self.finding(self.process(0, "--", program), "stored-pointer")
        self.assertEqual(found["severity"], "note")
        self.assertIn("another function", found["message"])

    def test_routing_off(self):
        program = self.build("hello", HELLO)
        process = self.process(1, "--", program, env=environment(HOMEFREE_CONF="route:off"))
        self.finding(process, "routing-off")
        self.assertFalse(process["routing"])
        self.assertEqual(object_named(process, "hello")["routed"], 0)

    def test_table(self):
        program = self.build("hello", HELLO)
        result = self.run_doctor("--all", "--", program)
        text = result.stdout.decode()
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertIn(f"{program} exited with status 0.\n", text)
        self.assertRegex(text, r"  libc +\S+/libc.so.6: used by [1-9]")
        self.assertRegex(text, r"  homefree +\S+: the heap, ")
        self.assertIn(f"  {program}: libc, libc; 1, 0\n", text)
        self.assertIn("Findings: none.\n", text)

    def test_output_file(self):
        program, report = self.build("hello", HELLO), self.directory / "report"
        result = self.run_doctor("-o", report, "--json", "--", "sh", "-c", f"echo out; {program}")
        self.assertEqual((result.returncode, result.stdout), (0, b"out\n"))
        self.check_shape(json.loads(report.read_text()))
        self.refused(3, "cannot write", "-o", self.directory / "none/report", "--", program)

    def test_library_with_a_space(self):
        program, place = self.build("hello", HELLO), self.directory / "a place:b"
        place.mkdir()
        shutil.copy(LIBRARY, place / "libhomefree.so.1")
        self.process(0, "--library", place / "libhomefree.so.1", "--", program)
        self.refused(3, "cannot use", "--library", place / "none", "--", program)

    def test_default_command(self):
        # The command examines the Python that it belongs to, whatever comes first in PATH.
        bin_directory = self.directory / "bin"
        bin_directory.mkdir()
        (bin_directory / "python3").symlink_to("/bin/false")
        path = f"{bin_directory}:{os.environ['PATH']}"
        if PACKAGE:
            process = self.process(0, env=environment(PATH=path, PYTHONPATH=PACKAGE))
            object_named(process, "_homefree.")
            self.assertIn("pymalloc", {each["name"] for each in process["allocators"]})

    def test_default_command_beside_the_command(self):
        # As in a virtual environment; beside a command in a user's own directory there is no
        # Python.
        bin_directory = self.directory / "there" / "bin"
        bin_directory.mkdir(parents=True)
        command = bin_directory / "homefree"
        shutil.copy(HOMEFREE, command)
        (self.directory / "python").symlink_to(Path(HOMEFREE).parents[2] / "python")
        named = self.directory / "named"
        for path, env in (
            (bin_directory / "python3", {}),
            (named, {"HOMEFREE_PYTHON": str(named)}),
        ):
            path.symlink_to(PYTHON)
            result = subprocess.run(
                [command, "doctor", "--json", "--library", LIBRARY],
                capture_output=True,
                env=environment(TMPDIR=str(self.records), **env),
            )
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(json.loads(result.stdout)["command"]["arguments"][0], str(path))


class Ends(InDirectory):
    """Programs that end in other ways than by returning from main()."""

    def test_crashes(self):
        for name, source, number in (
            ("fault", "int main(void) { *(volatile int *)8 = 1; }", signal.SIGSEGV),
            ("abort", "#include <stdlib.h>\nint main(void) { abort(); }", signal.SIGABRT),
            ("trap", "int main(void) { __builtin_trap(); }", signal.SIGILL),
            (
                "deep",
                "#include <stdlib.h>\nint f(int n) { volatile char b[9999]; b[0] = n;\n"
                "return b[0] ? f(n + 1) + b[1] : f(n) + b[1]; }\n"
                "int main(void) { return f(1); }",
                signal.SIGSEGV,
            ),
        ):
            with self.subTest(name):
                program = self.build(name, source, "-fno-omit-frame-pointer")
                document = self.document(1, "--", program)
                self.assertEqual(document["command"]["signal"], number)
                process = document["processes"][0]
                self.assertEqual(process["recorded"], "signal")
                self.assertIn(number.name, self.finding(process, "died")["message"])
                self.assertEqual(object_named(process, name)["refused"], 0)

    @unittest.skipUnless(NAMES_MODULES, "glibc finds objects under a lock before 2.35")
    def test_crash_while_another_thread_loads(self):
        # A thread that the child does not have holds the loader's lock: the child must not wait.
        module = self.build(
            "crash.so",
            "#include <pthread.h>\n"
            "static void *f(void *p) { *(volatile int *)8 = 1; return p; }\n"
            "__attribute__((constructor)) static void g(void) {\n"
            " pthread_t t; pthread_create(&t, 0, f, 0); pthread_join(t, 0); }",
            *("-shared", "-fPIC"),
        )
        code = f"import ctypes; ctypes.CDLL({module!r})"
        process = self.process(1, "--", PYTHON, "-c", code)
        object_named(process, "crash.so")
        self.finding(process, "died")

    def test_wrong_free_is_told(self):
        program = self.build(
            "wrong", "#include <stdlib.h>\nint main(void) { free((char *)malloc(40) + 1); }"
        )
        result = self.run_doctor("--", program)
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"{program} was ended by SIGABRT".encode(), result.stdout)
        # The word in front of the block decides which of libc's checks fails first.
        self.assertRegex(result.stderr, rb"(free|munmap_chunk)\(\): invalid pointer")

    def test_exit_status_is_told(self):
        result = self.run_doctor("--", "sh", "-c", "exit 7")
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"sh exited with status 7.\n", result.stdout)

    def test_failure_is_a_finding(self):
        # A script that calls doctor must not take a failed program for a clean one.
        for at in ("exit", "start"):
            document = self.document(1, "--at", at, "--", "sh", "-c", "exit 7")
            self.assertEqual(document["command"]["status"], 7)
            found = self.finding(document["processes"][0], "program-failed")
            self.assertIn("status 7", found["message"])
        code = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
        process = self.process(1, "--", PYTHON, "-c", code)
        self.assertIn("SIGTERM", self.finding(process, "program-failed")["message"])

    def test_execs(self):
        program = self.build("hello", HELLO)
        process = self.process(0, "--", "sh", "-c", f"exec {program}")
        self.assertEqual(process["program"], program)

    def test_forks(self):
        program = self.build(
            "forks",
            "#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\n"
            "int main(void) { int status; if (fork() == 0) exit(0); wait(&status);\n"
            "if (fork() == 0) abort(); wait(&status); return 0; }",
        )
        document = self.document(0, "--", program)
        self.assertEqual(len(document["processes"]), 1)
        document = self.document(1, "--children", "--", program)
        self.assertEqual(len(document["processes"]), 3)
        self.assertEqual(
            sorted(each["recorded"] for each in document["processes"]), ["exit", "exit", "signal"]
        )

    def test_closes_everything(self):
        program = self.build(
            "closes",
            "#include <unistd.h>\nint main(void) { for (int i = 0; i < 1024; i++) close(i); }",
        )
        self.process(0, "--", program)

    def test_much_output(self):
        code = "import sys; sys.stdout.write('x' * 3000000); sys.stderr.write('y' * 3000000)"
        result = self.run_doctor("--", PYTHON, "-c", code)
        self.assertTrue(result.stdout.startswith(b"x" * 3000000))
        self.assertIn(b"Findings:", result.stdout)
        self.assertEqual(result.stderr, b"y" * 3000000)
        result = self.run_doctor("--json", "--", PYTHON, "-c", code)
        self.check_shape(json.loads(result.stdout))
        self.assertEqual(len(result.stderr), 6000000)

    def interrupted(self, number, code, to_group, *arguments):
        env = environment(TMPDIR=str(self.records))
        with subprocess.Popen(
            [HOMEFREE, "doctor", *arguments, "--", *code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            start_new_session=True,
        ) as running:
            self.assertEqual(running.stdout.readline(), b"ready\n")
            (os.killpg if to_group else os.kill)(running.pid, number)
            out, errors = running.communicate(timeout=60)
        return running.returncode, out.decode(), errors.decode()

    WAITS = (
        "#include <stdio.h>\n#include <unistd.h>\n"
        'int main(void) { puts("ready"); fflush(stdout); for (;;) pause(); }'
    )

    def test_interrupt_of_a_program(self):
        program = self.build("waits", self.WAITS)
        status, out, errors = self.interrupted(signal.SIGINT, [program], True)
        self.assertIn("was ended by SIGINT.\n", out)
        self.assertEqual((status, errors), (1, ""))

    def test_interrupt_of_python(self):
        # Not signal.pause(): a signal that comes just before it is lost to it.
        code = "try:\n print('ready', flush=True)\n while True: pass\n"
        code += "except KeyboardInterrupt:\n print('interrupted')"
        status, out, errors = self.interrupted(signal.SIGINT, [PYTHON, "-c", code], True)
        self.assertIn("interrupted\n", out)
        self.assertIn("exited with status 0", out)
        self.assertEqual((status, errors), (0, ""))

    def test_termination_is_handed_on(self):
        program = self.build("waits", self.WAITS)
        status, out, errors = self.interrupted(signal.SIGTERM, [program], False)
        self.assertIn("was ended by SIGTERM.\n", out)
        self.assertIn("when a signal ended it", out)
        self.assertEqual((status, errors), (1, ""))

    def test_termination_before_the_program_is_known(self):
        # What a loaded machine does now and then: the child runs before fork() returns.
        early = self.build(
            "early.so",
            "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <signal.h>\n#include <unistd.h>\n"
            'int fork(void) { int (*real)(void) = (int (*)(void))dlsym(RTLD_NEXT, "fork");\n'
            "int child = real(); if (child > 0) raise(SIGTERM); return child; }\n",
            *("-shared", "-fPIC", "-ldl"),
        )
        program = self.build("waits", self.WAITS)
        env = environment(LD_PRELOAD=early)
        result = self.run_doctor("--", program, env=env)
        self.assertIn(result.returncode, (1, 3), result.stderr)
        self.assertIn("signal ended it", (result.stdout + result.stderr).decode())

    def test_killed(self):
        self.refused(3, "SIGKILL ended it", "--", "sh", "-c", "kill -KILL $$")
        document = json.loads(self.run_doctor("--json", "--", "sh", "-c", "kill -KILL $$").stdout)
        self.check_shape(document)
        self.assertEqual(document["summary"]["failed"], 1)

    def test_at_start(self):
        process = self.process(1, "--at", "start", "--", "sh", "-c", "kill -KILL $$")
        self.assertEqual(process["recorded"], "start")

    def test_underscore_exit(self):
        program = self.build("quick", "#include <unistd.h>\nint main(void) { _exit(3); }")
        document = self.document(1, "--", program)
        self.assertEqual(document["command"]["status"], 3)
        object_named(document["processes"][0], "quick")

    def test_exit_by_system_call(self):
        program = self.build(
            "quickest",
            "#include <sys/syscall.h>\n#include <unistd.h>\n"
            "int main(void) { syscall(SYS_exit_group, 0); }",
        )
        self.refused(3, "left no record", "--", program)

    def test_vfork(self):
        # A vfork() child shares its parent's memory; what it does there is not the parent's end.
        program = self.build(
            "vforks",
            "#include <sys/wait.h>\n#include <unistd.h>\n"
            "int main(void) { int s; if (vfork() == 0) _exit(0); wait(&s); return s; }",
        )
        for option, count in (("--all", 1), ("--children", 2)):
            document = self.document(0, option, "--", program)
            self.assertEqual(len(document["processes"]), count)
            self.assertEqual(document["command"]["status"], 0)

    def test_fork_while_threads_load(self):
        # A child of fork() has one thread; the loader's lock may be held by a thread that is gone.
        code = (
            "import ctypes, os, threading\n"
            "stop = False\n"
            "def load():\n"
            " while not stop:\n"
            "  ctypes.CDLL('libm.so.6'); ctypes.CDLL('libc.so.6').malloc\n"
            "thread = threading.Thread(target=load); thread.start()\n"
            "for _ in range(30):\n"
            " pid = os.fork()\n"
            " if pid == 0: os._exit(0)\n"
            " os.waitpid(pid, 0)\n"
            "stop = True; thread.join()\n"
        )
        document = self.document(0, "--children", "--", PYTHON, "-c", code)
        self.assertEqual(len(document["processes"]), 31)

    def test_static(self):
        program = self.build("static", HELLO, "-static")
        self.refused(3, "linked statically", "--", program)
        os.chmod(program, 0o4755)  # which gives its owner nothing new
        self.refused(3, "linked statically", "--", program)

    def test_cannot_run(self):
        self.refused(3, "cannot run '/nowhere/program': No such file", "--", "/nowhere/program")
        self.refused(3, "cannot run 'nowhere-to-be-found'", "--", "nowhere-to-be-found")
        (self.directory / "plain").write_text("")
        self.refused(3, "Permission denied", "--", self.directory / "plain")

    def test_no_room_for_records(self):
        self.refused(
            3, "cannot create a directory", "--", "true", env=environment(TMPDIR="/nowhere/at/all")
        )

    def test_request_of_others_is_ignored(self):
        # Without the command, libhomefree must ignore the variable, whatever its value.
        program = self.build("hello", HELLO)
        for request in ("", "exit", "exit:0:", "exit:0:relative", "never:0:/tmp", "exit:-1:/tmp",
                        "exit:99999999999999999999:/tmp", "exit:0:/" + "x" * 5000):  # fmt: skip
            env = environment(LD_PRELOAD=LIBRARY, HOMEFREE_DOCTOR=request)
            result = subprocess.run([program], env=env, stderr=subprocess.PIPE)
            self.assertEqual((result.returncode, result.stderr), (0, b""), request)


class Records(InDirectory):
    """Reading records, and the messages about bad ones."""

    def record(self):
        program = self.build("hello", HELLO)
        place = self.directory / "made"
        place.mkdir(exist_ok=True)
        env = environment(LD_PRELOAD=LIBRARY, HOMEFREE_DOCTOR=f"exit:0:{place}")
        subprocess.run([program], env=env, check=True)
        (path,) = place.iterdir()
        data = path.read_bytes()
        path.unlink()
        return data

    def read(self, data):
        path = self.directory / "record"
        path.write_bytes(data)
        return self.run_doctor("--read", path)

    def test_whole(self):
        result = self.read(self.record())
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertIn(b"at its end", result.stdout)

    def test_not_records(self):
        path = self.directory / "record"
        for data, message in (
            (b"", "it is empty"),
            (b"hello\n", "not a record"),
            (b"\0" * 100, "not a record"),
            (b"homefree-doctor\t1\nend\t1\n", "a different version"),
            (b"homefree-doctor\t2\nend\t1\n", "damaged"),
            (self.record() + b"preload\t-\n", "damaged"),
            (self.record() * 2, "damaged"),
        ):
            path.write_bytes(data)
            self.refused(3, message, "--read", path)
        self.refused(3, "cannot open", "--read", self.directory / "none")
        self.refused(3, "not a regular file", "--read", self.directory)
        os.mkfifo(self.directory / "fifo")
        self.refused(3, "not a regular file", "--read", self.directory / "fifo")
        with open(path, "wb") as file:
            file.truncate(1 << 30)
        self.refused(3, "larger than any record", "--read", path)

    def test_cut(self):
        whole = self.record()
        for length in (len(whole) - 1, len(whole) // 2):
            self.write(whole[:length])
            self.refused(3, "the record is damaged", "--read", self.directory / "record")

    def test_hostile_lines(self):
        whole = self.record()
        head, end = whole.split(b"end\t")
        count = int(end)
        for line in (
            b"slot\t99999\tfree\tcall\trouted\t0\t-",
            b"slot\t0\tfree\tcall\trouted\t18446744073709551616\t-",
            b"slot\t-1\tfree\tcall\trouted\t0\t-",
            b"slot\t0\t-\tcall\trouted\t0\t-",
            b"slot\t0\tfree\tcall\tunknown\t0\t-",
            b"slot\t0\tfree",
            b"object\t0\tordinary\t-\t-\t-",
            b"foreign\t0\tjemalloc\t-\thome",
            b"copy\t0\t-\t-\t0",
            b"heap\t1\t2\t-\t-",
            b"unheard\tof",
            b"a\tb\tc\td\te\tf\tg\th\ti\tj",
            b"reach\t0\t%zz",
            b"reach\t0\t%00",
            b"reach\t0\tspace d",
            b"",
        ):
            data = head + line + b"\nend\t%d\n" % (count + 1)
            result = self.read(data)
            self.assertEqual((result.returncode, result.stdout), (3, b""), line)
            self.assertIn(b"the record is damaged", result.stderr)
        # Control characters of a path are displayed as text, also on a terminal.
        data = head + b"object\t0\tordinary\tm\t/x%1b[31m%0a\t-\n" + b"end\t%d\n" % (count + 1)
        result = self.run_doctor("--all", "--read", self.write(data))
        self.assertEqual(result.returncode, 0)
        self.assertIn(b"/x?[31m?", result.stdout)

    def test_nothing_controls_the_terminal(self):
        bad = "%1b[2J%0d%0a%c2%9b%e2%80%a8%ff"
        lines = [
            "homefree-doctor\t2",
            f"process\t12\tlive\t0\t/{bad}\ton",
            f"preload\t{bad}:x{bad}",
            f"unseen\t{bad}",
            f"object\t0\tordinary\tmp\t/a{bad}\tx{bad}",
            f"object\t7\tordinary\tms\t/b{bad}/x{bad}\t-",
            "defines\t1\tmalloc",
            "defines\t1\tfree",
            f"foreign\t0\tjem{bad}\t18446744073709551600\thome\t18446744073709551600",
            f"foreign\t0\tmim{bad}\t3\tknown\t0",
            "slot\t0\tmalloc\tcall\tplain\t1\t-",
            f"slot\t1\tfr{bad}\tcall\trefused\t-\twhy{bad}",
            f"reach\t0\tfar{bad}",
            f"copy\t0\tvar{bad}\tfun{bad}\t-",
        ]
        data = "\n".join([*lines, f"end\t{len(lines)}\n"]).encode()
        result = self.run_doctor("--all", "--read", self.write(data))
        self.assertEqual((result.returncode, result.stderr), (1, b""))
        text = result.stdout.decode()
        for part in ("/?[2J", "jem?", "mim?", "fr?", "why?", "far?", "var?", "fun?", "Not seen: ?"):
            self.assertIn(part, text)
        self.assertIn("16.0 EiB mapped by these together", text)
        self.assertNotRegex(text, "[\0-\t\x0b-\x1f\x7f-\x9f\ufffd]")

    def write(self, data):
        path = self.directory / "record"
        path.write_bytes(data)
        return path


class WithoutPython(InDirectory):
    """Without Python there is no result, and no program is run in vain."""

    def test_program(self):
        env = environment(HOMEFREE_PYTHON=str(self.directory / "python3"))
        program = "touch", self.directory / "ran"
        remedy = "CPython 3.9 or later: install it or name it in HOMEFREE_PYTHON, or use 'homefree"
        for options in ([], ["--json"]):
            self.refused(3, remedy, *options, "--", *program, env=env)
        self.assertFalse(program[1].exists())

    def test_record(self):
        env = environment(HOMEFREE_PYTHON="/nowhere/python3")
        path = self.directory / "record"
        path.write_bytes(Records.record(self))
        self.refused(3, "cannot run '/nowhere/python3': No such file", "--read", path, env=env)


class Faces(InDirectory):
    """Usage, colours, rules, pages, and the other ways to call the command."""

    def test_wrong_usage(self):
        for arguments, message in (
            (["--unknown"], "unknown option '--unknown'"),
            (["-x"], "unknown option '-x'"),
            (["--at"], "'--at' needs a value"),
            (["--at", "noon"], "--at takes 'exit' or 'start'"),
            (["--"], "followed by no command"),
            (["--", ""], "the command is empty"),
            (["--rules", "--", "true"], "--rules goes with --json alone"),
            (["--rules", "--all"], "--rules goes with --json alone"),
            (["--read", "x", "--", "true"], "--read shows a record"),
            (["--read", "x", "--children"], "--read shows a record"),
        ):
            with self.subTest(arguments):
                self.refused(2, message, *arguments)

    def test_options_of_the_command_are_its_own(self):
        result = self.run_doctor("echo", "--json", "-o", "x")
        self.assertTrue(result.stdout.startswith(b"--json -o x\n"), result.stdout)

    def on_terminal(self, env):
        program = self.build("abort", "#include <stdlib.h>\nint main(void) { abort(); }")
        leader, follower = pty.openpty()
        env = {**env, "TMPDIR": str(self.records)}
        running = subprocess.Popen([HOMEFREE, "doctor", "--", program], stdout=follower, env=env)
        os.close(follower)
        out = b""
        try:
            while block := os.read(leader, 4096):
                out += block
        except OSError:  # the other end of the terminal is closed
            pass
        os.close(leader)
        self.assertEqual(running.wait(timeout=60), 1)
        return out

    def test_colour(self):
        self.assertIn(b"\x1b[31m", self.on_terminal(environment()))
        self.assertNotIn(b"\x1b", self.on_terminal(environment(NO_COLOR="1")))

    def test_rules(self):
        result = self.run_doctor("--rules", "--json")
        rules = json.loads(result.stdout)["rules"]
        self.assertEqual(result.returncode, 0)
        self.assertEqual(len({rule["rule"] for rule in rules}), len(rules))
        for rule in rules:
            self.assertRegex(rule["rule"], r"^[a-z][a-z-]*$")
            self.assertIn(rule["severity"], SEVERITIES)
            self.assertTrue(rule["explanation"].endswith("."))
        table = self.run_doctor("--rules").stdout.decode()
        self.assertEqual(table.count("\n\n") + 1, len(rules))

    def test_full_device(self):
        with open("/dev/full", "wb") as full:
            result = subprocess.run(
                [HOMEFREE, "doctor", "--rules"], stdout=full, stderr=subprocess.PIPE
            )
        self.assertEqual(result.returncode, 3)

    def as_module(self, *arguments, **options):
        env = environment(PYTHONPATH=PACKAGE, TMPDIR=str(self.records))
        return subprocess.run(
            [PYTHON, "-m", "homefree", *arguments],
            capture_output=True,
            env=env,
            **options,
        )

    @unittest.skipUnless(PACKAGE, "the Python package was not built")
    def test_one_face(self):
        plain = subprocess.run([HOMEFREE, "--help"], stdout=subprocess.PIPE, text=True).stdout
        commands = re.findall(r"^  ([a-z]+) ", plain.split("Commands:")[1], re.MULTILINE)
        self.assertIn("doctor", commands)
        for arguments in ([], ["--help"], ["--version"], ["nothing"], ["doctor", "--unknown"],
                          *([name, "--help"] for name in commands), *([n] for n in commands
                          if n != "doctor")):  # fmt: skip
            with self.subTest(arguments):
                direct = subprocess.run([HOMEFREE, *arguments], capture_output=True)
                module = self.as_module(*arguments)
                self.assertEqual(
                    (module.returncode, module.stdout, module.stderr),
                    (direct.returncode, direct.stdout, direct.stderr),
                )

    @unittest.skipUnless(PACKAGE, "the Python package was not built")
    def test_module_without_the_command(self):
        package = self.directory / "homefree"
        shutil.copytree(Path(PACKAGE) / "homefree", package, symlinks=True)
        paths = package / "_paths.py"
        paths.write_text(re.sub(r"^BIN = .*$", 'BIN = "none"', paths.read_text(), flags=re.M))
        env = environment(PYTHONPATH=str(self.directory), LD_LIBRARY_PATH=os.path.dirname(LIBRARY))
        result = subprocess.run(
            [PYTHON, "-m", "homefree", "--help"], stderr=subprocess.PIPE, env=env, text=True
        )
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn(
            "homefree: the command, which is a part of this package, was not found", result.stderr
        )
        self.assertEqual(result.stderr.count("\n"), 1)

    @unittest.skipUnless(PACKAGE, "the Python package was not built")
    def test_module_does_not_ignore_pipes(self):
        # Python ignores SIGPIPE; the program must not inherit that.
        code = "grep -i '^SigIgn' /proc/self/status"
        module = self.as_module(
            "doctor", "-o", self.directory / "report", "--", "sh", "-c", code
        ).stdout
        ignored = int(module.split()[1], 16)
        self.assertFalse(ignored & 1 << (signal.SIGPIPE - 1), module)

    @unittest.skipUnless(PACKAGE, "the Python package was not built")
    def test_inside_python(self):
        code = (
            "import homefree, io, json, sys\n"
            "homefree.install()\n"
            "text = io.StringIO()\n"
            "document = homefree.doctor(text)\n"
            "assert 'on request' in text.getvalue()\n"
            "try:\n homefree._homefree.doctor_record(9999)\n"
            "except OSError as error:\n assert error.errno == 9, error\n"
            "else:\n raise AssertionError\n"
            "json.dump(document, sys.stdout)\n"
        )
        env = environment(PYTHONPATH=PACKAGE, TMPDIR=str(self.records))
        out = subprocess.run(
            [PYTHON, "-c", code], stdout=subprocess.PIPE, env=env, check=True
        ).stdout
        document = json.loads(out)
        self.check_shape(document)
        process = document["processes"][0]
        self.assertEqual(process["recorded"], "asked")
        self.assertIn("pymalloc", {each["name"] for each in process["allocators"]})
        self.assertEqual(process["findings"], [])


if __name__ == "__main__":
    unittest.main()
