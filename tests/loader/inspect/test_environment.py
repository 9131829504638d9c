"""`homefree inspect --environment`: what objects would do to each other in one process, and nothing
of what goes well together.

Usage: test_environment.py HOMEFREE LIBRARY SHIM [unittest arguments]
"""

import json
import os
import resource
import subprocess
import sys

from command import HOMEFREE, MODULE, InspectTest, inspect, main

TLS = """
static __thread char room[%d] __attribute__((tls_model("initial-exec")));
char *place(void);
char *place(void) { return room; }
"""
JEMALLOC = MODULE + '__attribute__((used, visibility("hidden"))) int je_mallctl(void) { return 0; }'
MIMALLOC = MODULE + '__attribute__((used, visibility("hidden"))) int mi_malloc(void) { return 0; }'


PACKAGE = HOMEFREE.parents[2] / "python/homefree"
IMPATIENT = """
import sys; sys.path.insert(0, sys.argv[1])
from command import inspect_package
inspect_package._PATIENCE = 0.1
inspect_package.directories(sys.argv[2])
"""
USER = "int number(void), x(void); int x(void) { return number(); }"


def number(value):
    """Sources whose contents differ."""
    return f"int number(void); int number(void) {{ return {value}; }}"


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


class Environment(InspectTest):
    def setUp(self):
        super().setUp()
        self.site = self.directory / "site-packages"

    def found(self, *paths, status):
        """{rule: {file: message}}"""
        done = inspect("--environment", "--json", *(paths or [self.site]))
        self.assertEqual((done.returncode, done.stderr), (status, b""))
        found = {}
        for file in json.loads(done.stdout)["files"]:
            for finding in file["findings"]:
                name = file["path"].rpartition("/")[2]
                found.setdefault(finding["rule"], {})[name] = finding["message"]
        return found

    def library(self, name, source=None, *flags):
        return self.build(f"site-packages/{name}", source or MODULE, *flags)

    def package(self, name, *files):
        rows = "".join(f"{file},,\n" for file in files)
        self.file(f"site-packages/{name}-1.0.dist-info/RECORD", rows)


class Rules(Environment):
    def test_what_is_alone_is_no_matter_of_the_environment(self):
        self.library("one.so", MODULE + "int more(void) { return 1; }")  # extra-exports
        self.library("a/two.so", JEMALLOC)
        self.library("libomp.so")
        self.library("three.so", TLS % 500)
        self.assertEqual(self.found(status=0), {})

    def test_allocators(self):
        self.library("a/one.so", JEMALLOC)
        self.library("b/two.so", MIMALLOC)
        found = self.found(status=0)["several-allocators"]
        self.assertEqual(found["one.so"], "it contains jemalloc")
        self.assertRegex(found["two.so"], "^it contains mimalloc")

    def test_openmps(self):
        self.library("a/libiomp5.so", number(1))
        self.library("b/libomp-0123456789abcdef.so.5", number(2))
        found = self.found(status=1)
        self.assertEqual(
            sorted(found["several-openmps"]), ["libiomp5.so", "libomp-0123456789abcdef.so.5"]
        )

    def test_the_same_openmp_twice_is_one(self):
        first = self.library("a/libiomp5.so", number(1))
        self.file("site-packages/b/libiomp5.so", first.read_bytes())
        self.assertEqual(self.found(status=0), {})

    def test_gnus_openmp_may_be_there_several_times(self):
        self.library("a/libgomp-01234567.so.1", number(1))
        self.library("b/libgomp-89abcdef.so.1", number(2))
        found = self.found(status=0)
        self.assertEqual(set(found), {"several-copies"})
        self.assertIn("copies of OpenMP", found["several-copies"]["libgomp-89abcdef.so.1"])

    def test_static_tls(self):
        self.library("one.so", TLS % 900)
        self.assertEqual(self.found(status=0), {})
        self.library("two.so", TLS % 500)
        found = self.found(status=0)["static-tls-order"]
        self.assertIn("900 bytes of static TLS, of 1400 ", found["one.so"])
        self.library("three.so", TLS % 400)
        found = self.found(status=1)["static-tls-together"]
        self.assertEqual(len(found), 3)
        self.assertIn("of 1800 that all need; glibc has 1664", found["three.so"])

    def test_sonames(self):
        soname = "-Wl,-soname,libshared.so.1"
        first = self.library("a/libshared.so.1", number(1), soname)
        self.library("b/libshared.so.1", number(2), soname)
        self.assertEqual(self.found(status=0), {})  # nobody needs it
        self.library("b/user.so", USER, str(first))
        found = self.found(status=0)
        self.assertEqual(set(found), {"same-soname"})
        self.assertIn("one of 2 files with the soname libshared.so.1", str(found))

    def test_glibc(self):
        nodes = "GLIBC_2.17 { local: *; }; GLIBC_9.7 { global: number; };"
        bare = "-nostdlib", "-Wl,-soname,libc.so.6"
        stub = self.build("libc.so.6", number(1), *bare, script=nodes)
        self.library("new.so", USER, "-nostdlib", str(stub))
        found = self.found(status=1)["newer-glibc"]
        self.assertRegex(found["new.so"], r"^it needs glibc 9\.7; here is 2\.\d+$")


class Given(Environment):
    def test_packages(self):
        self.library("a/one.so", JEMALLOC)
        self.library("two.so", MIMALLOC)
        self.package("alpha", "a/one.so", "a/__init__.py")
        done = inspect("--environment", "--json", self.site)
        packages = {file["path"][-6:]: file["package"] for file in json.loads(done.stdout)["files"]}
        self.assertEqual(packages, {"one.so": "alpha", "two.so": None})

    def test_wheels(self):
        one, two = self.library("one.so", JEMALLOC), self.library("two.so", MIMALLOC)
        wheels = [
            self.wheel("alpha-1.0-py3-none-any.whl", {"one.so": one}),
            self.wheel("beta-1.0-py3-none-any.whl", {"two.so": two}),
        ]
        done = inspect("--environment", "--json", *wheels)
        files = json.loads(done.stdout)["files"]
        self.assertEqual([file["package"] for file in files], ["alpha", "beta"])
        self.assertIn("several-allocators", str(files))

    def test_a_python(self):
        program = self.file("python", f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
        program.chmod(0o755)
        self.found(program, status=0)
        done = inspect("--environment", "--json", "--python", program)
        self.assertEqual(done.returncode, 0)
        modules = {file["module"] for file in json.loads(done.stdout)["files"]}
        self.assertIn("_ctypes", modules)

    def test_no_python(self):
        for program, why in {"/bin/true": "does not say", "/nowhere": "No such file"}.items():
            done = inspect("--environment", program)
            self.assertEqual(done.returncode, 3)
            self.assertIn(why, done.stderr.decode())

    def test_what_is_no_python_of_ours(self):
        """Of what a program prints, what this command asked for counts, in a bounded time."""
        for what, said in {
            "echo 1": "does not say",
            "echo '{}'": "does not say",
            "exec yes": "does not stop printing",
        }.items():
            with self.subTest(what):
                program = self.file("program", f"#!/bin/sh\n{what}\n")
                program.chmod(0o755)
                done = inspect("--environment", program, preexec_fn=limit)
                self.assertEqual((done.returncode, done.stderr.count(b"\n")), (3, 1), done.stderr)
                self.assertIn(said, done.stderr.decode())

    def test_a_python_that_hangs(self):
        """The command waits for half a minute, which this does not."""
        program = self.file("program", "#!/bin/sh\nexec sleep 1000\n")
        program.chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-BISc", IMPATIENT, PACKAGE, program], capture_output=True, text=True
        )
        self.assertIn("says nothing for 0.1 seconds", done.stderr)

    def test_a_python_that_prints(self):
        chatty = f'printf hello; {sys.executable} -S "$@"; echo bye'
        program = self.file("chatty", f"#!/bin/sh\n{chatty}\n")
        program.chmod(0o755)
        self.found(program, status=0)

    def test_text_and_exit_status(self):
        self.library("a/one.so", JEMALLOC)
        self.library("b/two.so", JEMALLOC)
        done = inspect("--environment", self.site)
        self.assertEqual(done.returncode, 0)
        text = done.stdout.decode()
        self.assertIn("2 shared objects, clean\n\nnote several-allocators, 2 objects\n", text)
        self.assertIn("  it contains jemalloc:\n    a/one.so\n    b/two.so\n", text)
        done = inspect("--environment", "--fail-on", "several-allocators", self.site)
        self.assertEqual(done.returncode, 1)

    def test_damaged_records(self):
        self.library("a/one.so", MODULE)
        for number_of, content in enumerate(
            (b"\xff\xfe", b'"', b"\0" * 99, b"../" * 9999 + b".so,,")
        ):
            self.file(f"site-packages/p{number_of}-1.dist-info/RECORD", content)
        (self.site / "q-1.dist-info").mkdir()
        for name in "pipe", "device", "circle":
            (self.site / f"{name}-1.dist-info").mkdir()
        os.mkfifo(self.site / "pipe-1.dist-info/RECORD")
        (self.site / "device-1.dist-info/RECORD").symlink_to("/dev/zero")
        (self.site / "circle-1.dist-info/RECORD").symlink_to("RECORD")
        self.assertEqual(self.found(status=0), {})

    def test_with_packages(self):
        done = inspect("--environment", "--package", "pip")
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    main()
