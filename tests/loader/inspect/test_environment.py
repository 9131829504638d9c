"""`homefree inspect --environment`: what objects would do to each other in one process, and nothing
of what goes well together.

Usage: test_environment.py HOMEFREE LIBRARY SHIM [unittest arguments]
"""

import hashlib
import json
import os
import resource
import subprocess
import sys
import unittest
import venv
from pathlib import Path
from unittest import mock

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
        self.cache = self.directory / "cache"
        self.set("XDG_CACHE_HOME", self.cache)

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

    def library(self, name, source=MODULE, *flags):
        return self.module(f"site-packages/{name}", source, *flags, script=None)

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

    def test_a_member_of_the_registry_is_not_one_of_several(self):
        self.library("a/one.so", JEMALLOC)
        self.library("b/two.so", MIMALLOC)
        source = f'#include "tests/registry/member.c"\n{MIMALLOC}'
        root = Path(__file__).parents[3]
        self.library("c/three.so", source, f"-I{root}", f"-I{root / 'include'}")
        self.assertEqual(sorted(self.found(status=0)["several-allocators"]), ["one.so", "two.so"])
        (self.site / "a/one.so").unlink()
        self.assertEqual(self.found(status=0), {})

    def test_openmps(self):
        self.library("a/libiomp5.so", number(1))
        self.library("b/libomp-0123456789abcdef.so.5", number(2))
        found = self.found(status=1)
        self.assertEqual(
            sorted(found["several-openmps"]), ["libiomp5.so", "libomp-0123456789abcdef.so.5"]
        )

    def test_openmps_that_do_not_meet(self):
        """mkl's and paddlepaddle's: one soname, and one of them registers where the other does not
        look."""
        newer = 'const char *where = "__KMP_REGISTERED_LIB_%d_%d";' + number(1)
        self.library("a/libiomp5.so", newer, "-Wl,-soname,libiomp5.so")
        self.library("b/libiomp5.so", number(2), "-Wl,-soname,libiomp5.so")
        self.library("c/libomp.so.5", newer.replace("_LIB_%d_%d", "_LIB_%d"))
        self.assertEqual(
            set(self.found(status=1)["several-openmps"]), {"libiomp5.so", "libomp.so.5"}
        )
        (self.site / "c/libomp.so.5").unlink()
        self.assertNotIn("several-openmps", self.found(status=0))

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

    def test_static_tls_of_one_soname_counts_once(self):
        """The libgomp that auditwheel puts into several wheels: the first serves all."""
        for name in "abcd":
            flags = "-Wl,-soname,libgomp-e985bcbb.so.1"
            self.library(f"{name}/libgomp.so", number(ord(name)) + TLS % 450, flags)
        self.assertNotIn("static-tls-together", self.found(status=0))
        for name in "abcd":
            self.library(f"{name}/libgomp.so", number(ord(name)) + TLS % 450)
        self.assertIn("static-tls-together", self.found(status=1))

    def test_executable_stacks(self):
        """Which glibc refuses from 2.41 on."""
        self.library("one.so", MODULE, "-Wl,-z,execstack")
        for version, status, rule in (
            ("2.40", 0, "executable-stacks"),
            ("2.41", 1, "executable-stack"),
        ):
            self.prepare(f"import os; os.confstr = lambda _: 'glibc {version}'")
            found = self.found(status=status)
            self.assertEqual(found, {rule: {"one.so": "it asks for an executable stack"}})

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

    def test_a_directory_of_wheels(self):
        """Of those that cannot be installed together the newest."""
        one = self.library("one.so", JEMALLOC)
        two = self.library("two.so", MIMALLOC)
        for name, member in {
            "alpha-9.0-cp39-cp39-linux_x86_64.whl": one,
            "alpha-10.0-cp39-cp39-linux_x86_64.whl": one,
            "alpha-10.0-cp310-cp310-linux_x86_64.whl": two,
            "other.whl": one,
        }.items():
            self.wheel(f"wheels/{name}", {f"{name}.so": member})
        self.file("wheels/beta-1²2-py3-none-any.whl", "a number of a kind that int() does not take")
        found = self.found(self.directory / "wheels", status=0)
        self.assertEqual(
            sorted(found["several-allocators"]),
            ["alpha-10.0-cp310-cp310-linux_x86_64.whl.so", "other.whl.so"],
        )

    def test_a_python(self):
        program = self.file("python", f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
        program.chmod(0o755)
        self.found(program, status=0)
        done = inspect("--environment", "--json", "--python", program)
        self.assertEqual(done.returncode, 0)
        modules = {file["module"] for file in json.loads(done.stdout)["files"]}
        self.assertIn("_ctypes", modules)

    def test_a_virtual_environment(self):
        """What is installed for the Python below it is not in it."""
        venv.create(self.directory / "venv", symlinks=True)
        done = inspect("--environment", "--json", self.directory / "venv/bin/python")
        names = {
            group["name"].rpartition("/")[2] for group in json.loads(done.stdout)["containers"]
        }
        self.assertLessEqual(names, {"lib-dynload", "site-packages"})

    def test_no_python(self):
        (self.directory / "python").symlink_to("/bin/true")
        for program, why in {"python": "does not say", "nowhere": "No such file"}.items():
            done = inspect("--environment", self.directory / program)
            self.assertEqual(done.returncode, 3)
            self.assertIn(why, done.stderr.decode())

    def test_other_programs_are_not_run(self):
        """As of `homefree inspect --environment build/*`."""
        program = self.file("install.sh", f"#!/bin/sh\n: > {self.directory}/ran\n")
        program.chmod(0o755)
        self.assertEqual(inspect("--environment", program).returncode, 3)
        self.assertFalse((self.directory / "ran").exists())

    def test_a_project_that_is_installed_as_it_lies(self):
        """Its environment and others are in it, and wheels, which nobody imports from."""
        project = self.directory / "project"
        venv.create(project / ".venv", symlinks=True)
        (site,) = project.glob(".venv/lib/*/site-packages")
        (site / "project.pth").write_text(str(project))
        one = self.library("one.so", JEMALLOC).read_bytes()
        for place in "package", "env/lib", ".tox/lib", site:
            (project / place).mkdir(exist_ok=True, parents=True)
            (project / place / "one.so").write_bytes(one)
        (project / "env/pyvenv.cfg").touch()
        self.wheel("project/dist/project-1-py3-none-any.whl", {"one.so": one})
        found = inspect("--environment", "--json", project / ".venv/bin/python")
        paths = [file["path"] for file in json.loads(found.stdout)["files"]]
        self.assertEqual(
            {path for path in paths if path.endswith("one.so")},
            {f"{project}/package/one.so", f"{site}/one.so"},
        )

    def test_what_is_no_python_of_ours(self):
        """Of what a program prints, what this command asked for counts, in a bounded time."""
        for what, said in {
            "echo 1": "does not say",
            "echo '{}'": "does not say",
            "exec yes": "does not stop printing",
        }.items():
            with self.subTest(what):
                program = self.file("python", f"#!/bin/sh\n{what}\n")
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
        program = self.file("python-chatty", f"#!/bin/sh\n{chatty}\n")
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


class Links(Environment):
    """uv and Nix make environments of links."""

    def setUp(self):
        super().setUp()
        self.one = self.build("store/one.so", JEMALLOC)
        self.two = self.build("store/package/two.so", JEMALLOC)
        self.site.mkdir()

    def names(self):
        return sorted(self.found(status=0).get("several-allocators", ()))

    def test_to_files_and_directories(self):
        (self.site / "one.so").symlink_to(self.one)
        (self.site / "package").symlink_to(self.two.parent)
        self.assertEqual(self.names(), ["one.so", "two.so"])

    def test_to_the_same_file(self):
        """As the dynamic linker does, which loads it once."""
        (self.site / "one.so").symlink_to("one.so.1")
        os.link(self.one, self.site / "one.so.1")
        os.link(self.one, self.site / "other.so")
        self.assertEqual(self.names(), [])
        os.link(self.two, self.site / "two.so")
        self.assertEqual(self.names(), ["one.so.1", "two.so"])

    def test_nowhere_in_circles_and_up(self):
        self.build("site-packages/a/one.so", JEMALLOC)
        for number, target in enumerate((".", "..", "/", "a", "link", "/nowhere", "/proc", "/sys")):
            (self.site / f"link{number or ''}").symlink_to(target)
            (self.site / "a" / f"link{number}").symlink_to(target)
        self.assertEqual(self.names(), [])


class Cache(Environment):
    def setUp(self):
        super().setUp()
        # No file is too young to be kept.
        self.prepare("from command import inspect_cache; inspect_cache._RECENT = -1 << 60")
        self.one = self.library("one.so", JEMALLOC)
        self.library("two.so", JEMALLOC, "-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed", str(self.one))

    def kept(self):
        """Makes the cache."""
        self.assertEqual(self.said(), {"it contains jemalloc"})
        (kept,) = (self.cache / "homefree/inspected").iterdir()
        self.assertEqual(kept.stat().st_mode & 0o77, 0)
        return kept

    def said(self):
        return set(self.found(status=0)["several-allocators"].values())

    def forge(self, kept):
        """Replaces what is known, so that one sees where that is used."""
        lines = []
        for line in kept.read_bytes().splitlines():
            key, _, rest = line.partition(b" ")
            rest = rest.partition(b" ")[2].replace(b'"name": "jemalloc"', b'"name": "forged"')
            lines.append(b" ".join((key, hashlib.sha256(rest).hexdigest().encode(), rest)))
        kept.write_bytes(b"\n".join(lines) + b"\n")

    def test_what_has_not_changed_is_not_read_again(self):
        kept = self.kept()
        self.forge(kept)
        size = kept.stat().st_size
        self.assertEqual(self.said(), {"it contains forged"})
        self.assertEqual(kept.stat().st_size, size)

    def test_what_has_changed_is(self):
        """Also what the object needs has."""
        self.forge(self.kept())
        os.utime(self.one)
        self.assertEqual(self.said(), {"it contains jemalloc"})

    def test_a_library_that_comes_before_the_one_that_was_read(self):
        """Its static TLS does not fit."""
        small = self.build("small.so", MODULE, "-Wl,-soname,libx.so")
        user = "-Wl,-rpath,$ORIGIN/a:$ORIGIN/b", "-Wl,--no-as-needed", str(small)
        self.library("user.so", MODULE, *user)
        self.file("site-packages/b/libx.so", small.read_bytes())
        for _ in range(2):
            self.assertNotIn("static-tls-too-large", self.found(status=0))
        self.library("a/libx.so", TLS % 5000)
        self.assertIn("user.so", self.found(status=1)["static-tls-too-large"])

    @unittest.skipUnless(os.getuid() == 0, "only root can write there")
    def test_nothing_is_made_in_the_home_of_another(self):
        home = self.directory / "home"
        home.mkdir()
        os.chown(home, 1, 1)
        with mock.patch.dict(os.environ, XDG_CACHE_HOME="", HOME=str(home)):
            self.assertEqual(self.said(), {"it contains jemalloc"})
        self.assertEqual(os.listdir(home), [])

    def test_young_files_are_not_kept(self):
        with mock.patch.dict(os.environ, HOMEFREE_PYTHON=sys.executable):
            self.said()
        self.assertEqual(list((self.cache / "homefree/inspected").iterdir()), [])

    def test_what_others_could_have_written(self):
        kept = self.kept()
        self.forge(kept)
        for path, mode in (kept, 0o622), (kept.parent, 0o722):
            before = path.stat().st_mode
            path.chmod(mode)
            self.assertEqual(self.said(), {"it contains jemalloc"})
            path.chmod(before)
        kept.rename(self.directory / "elsewhere")
        kept.symlink_to(self.directory / "elsewhere")
        self.assertEqual(self.said(), {"it contains jemalloc"})
        kept.unlink()
        os.mkfifo(kept)
        self.assertEqual(self.said(), {"it contains jemalloc"})

    def test_damage(self):
        kept = self.kept()
        content = kept.read_bytes()
        for damaged in (
            content[: len(content) // 2],
            content.replace(b'"name": "jemalloc"', b'"name": "damaged_"'),
            content.replace(b" ", b"\n"),
            b"\0" * (33 << 20),
            b"\xff\n" * 1000,
        ):
            kept.write_bytes(damaged)
            self.assertEqual(self.said(), {"it contains jemalloc"})

    def test_no_place_for_it(self):
        for place in "/proc", "relative", str(self.one):
            with mock.patch.dict(os.environ, XDG_CACHE_HOME=place, HOME="/nowhere"):
                self.assertEqual(self.said(), {"it contains jemalloc"})


if __name__ == "__main__":
    main()
