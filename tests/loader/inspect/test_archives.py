"""`homefree inspect` of wheels, archives, directories and installed distributions: every shared
object in them is inspected, and its libraries are found where they will be installed.

Usage: test_archives.py HOMEFREE LIBRARY SHIM [unittest arguments]
"""

import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import unittest
from pathlib import Path

from command import HOMEFREE, MODULE, MORE, ONLY_INIT, InspectTest, inspect, main

NOTHING = b"homefree inspect: nothing was inspected: what was given has no shared objects\n"
PACKAGE = HOMEFREE.parents[2] / "python/homefree"
GPU_OBJECT = bytearray(64)  # an ELF header for a GPU, as wheels carry them
GPU_OBJECT[:16] = b"\x7fELF\x02\x01\x01" + bytes(9)
GPU_OBJECT[18:20] = (190).to_bytes(2, "little")
GPU_OBJECT[20] = 1


class ArchiveTest(InspectTest):
    def setUp(self):
        super().setUp()
        self.good = self.module("good.so")
        self.bad = self.module("bad.so", MORE, script=None)

    def paths(self, *arguments, status):
        return [file["path"] for file in self.document(*arguments, status=status)["files"]]


class Wheels(ArchiveTest):
    def test_the_table_shows_what_is_found_and_counts_the_rest(self):
        wheel = self.wheel(
            "x-1.whl", {"x/it.so": self.good, "x/__init__.py": b"", "x/sub/it.so": self.bad}
        )
        done = inspect(wheel)
        self.assertEqual((done.returncode, done.stderr), (1, b""))
        table = done.stdout.decode()
        self.assertIn(f"{wheel}!/x/sub/it.so\n  Python module it", table)
        self.assertIn("extra-exports", table)
        self.assertNotIn("x/it.so\n", table)
        self.assertTrue(table.startswith(f"{wheel}: 2 shared objects, 1 with errors or warnings\n"))
        shown = inspect("--all", wheel).stdout.decode()
        self.assertIn(f"{wheel}!/x/it.so\n  Python module it", shown)

    def test_the_document_names_wheel_and_member(self):
        wheel = self.wheel("x-1.whl", {"x/it.so": self.good})
        document = self.document(wheel, status=0)
        (file,) = document["files"]
        self.assertEqual(file["path"], f"{wheel}!/x/it.so")
        self.assertEqual((file["container"], file["member"]), (str(wheel), "x/it.so"))
        self.assertEqual(
            document["containers"],
            [
                {
                    "name": str(wheel),
                    "kind": "archive",
                    "objects": 1,
                    "clean": 1,
                    "failed": 0,
                    "left_out": 0,
                }
            ],
        )

    def test_a_wheel_without_shared_objects_is_not_clean(self):
        plain = self.wheel("x-1.whl", {"x.py": b"print()"})
        done = inspect(plain)
        self.assertEqual((done.returncode, done.stderr), (3, NOTHING))
        self.assertIn(b"x-1.whl: no shared objects\n", done.stdout)
        self.assertEqual(inspect(self.wheel("none.whl", {})).returncode, 3)
        self.assertEqual(inspect(plain, self.wheel("y.whl", {"it.so": self.good})).returncode, 0)

    def test_a_vendored_library_is_found_in_the_wheel(self):
        """Also from the directory from which an installer moves files to site-packages."""
        library = self.build("libv.so", "int v(void); int v(void) { return 1; }")
        source = MODULE + "int v(void); int use(void); int use(void) { return v(); }"
        module = self.build(
            "it.so", source, library, "-Wl,-rpath,$ORIGIN/../x.libs", script=ONLY_INIT
        )
        library_bytes = library.read_bytes()
        needed = str(library).encode()
        module_bytes = module.read_bytes().replace(
            needed + b"\0", b"libv.so\0".ljust(len(needed) + 1, b"\0")
        )
        for at in "x/it.so", "x-1.data/platlib/x/it.so":
            with self.subTest(at):
                wheel = self.wheel("x-1.whl", {at: module_bytes, "x.libs/libv.so": library_bytes})
                module_facts = next(
                    file for file in self.document(wheel)["files"] if file["member"] == at
                )
                (found,) = (one for one in module_facts["libraries"] if one["name"] == "libv.so")
                self.assertEqual(found["path"], f"{wheel}!/x.libs/libv.so")
                self.assertNotIn("library-not-found", str(module_facts["findings"]))

    def test_what_nobody_loads_is_left_out(self):
        wheel = self.wheel(
            "x-1.whl",
            {
                "x/it.so": self.good,
                "x/bin/tool": Path("/bin/true"),
                "x/kernel.cubin": bytes(GPU_OBJECT),
                "x/test-data": b"\x7fELF damaged",
                "x/it.so.debug": b"\x7fELF damaged, or without its contents",
            },
        )
        (container,) = self.document(wheel, status=0)["containers"]
        self.assertEqual((container["objects"], container["left_out"]), (1, 4))

    def test_other_archives(self):
        packed = self.directory / "x.tar.gz"
        with tarfile.open(packed, "w:gz") as archive:
            archive.add(self.bad, "x/it.so")
            archive.add(self.directory, "x/directory", recursive=False)
            link = tarfile.TarInfo("x/link.so")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(link)
        self.assertEqual(self.paths(packed, status=1), [f"{packed}!/x/it.so"])
        archive = self.wheel("no-suffix", {"x/it.so": self.good})
        self.assertEqual(self.paths(archive, status=0), [f"{archive}!/x/it.so"])

    def test_a_wheel_in_a_wheel_is_inspected(self):
        inner = self.wheel("inner.whl", {"x/it.so": self.bad}).read_bytes()
        outer = self.wheel("outer.whl", {"bundled/inner.whl": inner})
        self.assertEqual(self.paths(outer, status=1), [f"{outer}!/bundled/inner.whl!/x/it.so"])

    def test_several_wheels_and_files(self):
        wheels = [self.wheel(f"{name}.whl", {"it.so": self.good}) for name in "ab"]
        paths = self.paths(wheels[0], self.bad, wheels[1], status=1)
        self.assertEqual(paths, [f"{wheels[0]}!/it.so", str(self.bad), f"{wheels[1]}!/it.so"])

    def test_without_stdin_and_stderr(self):
        """Whose numbers must not become those of the reader's pipes."""
        wheel = self.wheel("x.whl", {"it.so": self.good})
        for closed in "2>&-", "<&- 2>&-":
            words = ["sh", "-c", f'exec "$@" {closed}', "sh", HOMEFREE, "inspect", wheel]
            done = subprocess.run(words, stdout=subprocess.PIPE)
            self.assertEqual(done.returncode, 0)
            self.assertIn(b": 1 shared object, clean\n", done.stdout)

    def test_nothing_is_left_on_the_disk(self):
        wheel = self.wheel("x.whl", {"x/it.so": self.good})
        before = sorted(self.directory.rglob("*"))
        inspect(wheel, cwd=self.directory, env={**os.environ, "TMPDIR": str(self.directory)})
        self.assertEqual(sorted(self.directory.rglob("*")), before)


class Pythons(ArchiveTest):
    def test_the_document_of_shared_objects_needs_no_python(self):
        nowhere = {"PATH": "/nowhere", "HOMEFREE_PYTHON": "/nowhere"}
        done = inspect("--json", self.good, "--python", "/nowhere", env=nowhere)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        for arguments in [self.good], ["--json", self.wheel("x.whl", {"it.so": self.good})]:
            done = inspect(*arguments, env=nowhere)
            self.assertEqual((done.returncode, done.stdout), (3, b""))
            self.assertIn(b"cannot run '/nowhere': No such file", done.stderr)
            self.assertIn(b"or give --json and shared objects alone", done.stderr)

    def test_no_python_knows_the_distributions(self):
        wheel = self.wheel("x.whl", {"it.so": self.good})
        done = inspect("--python", "/nowhere", "--package", "x", wheel)
        self.assertEqual(done.returncode, 3)
        self.assertIn(
            b"cannot run '/nowhere', which knows the distributions: No such file", done.stderr
        )
        self.assertIn(b"x.whl: 1 shared object, clean", done.stdout)
        done = inspect("--python", "/bin/false", "--package", "x")
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"x': '/bin/false' does not say what it has installed", done.stderr)

    def test_modules_of_the_current_directory_stay_out(self):
        """A wheel may come with a file zipfile.py beside it."""
        for name in "zipfile", "posixpath", "io", "difflib", "importlib":
            self.file(f"{name}.py", f"import os\nos.mknod('{self.directory}/ran')\n")
        self.wheel("x.whl", {"it.so": self.good})
        done = inspect("x.whl", "--package", "nothing", cwd=self.directory)
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"x.whl: 1 shared object, clean", done.stdout)
        self.assertIn(b"'nothing'", done.stderr)
        self.assertFalse((self.directory / "ran").exists())


class ManyObjects(ArchiveTest):
    """The text of many objects: a summary, the worst rules and objects, relative paths."""

    def test_what_is_the_same_is_said_once(self):
        stack = self.module("stack.so", MODULE, "-Wl,-z,execstack")
        members = {f"x/{number}.so": self.bad for number in range(3)}
        wheel = self.wheel("x.whl", {**members, "y.so": stack, "it.so": self.good})
        text = inspect(wheel).stdout.decode()
        self.assertTrue(text.startswith(f"{wheel}: 5 shared objects, 4 with errors or warnings\n"))
        self.assertIn("\nwarning extra-exports, 3 objects\n  what to do: Link it with", text)
        objects = "\n    x/0.so\n    x/1.so\n    x/2.so\n"
        self.assertIn("\n  it exports 1 symbol besides PyInit_it: more:" + objects, text)
        told = r"what to do: .*\n  more: .*\n  y.so: it asks for"
        self.assertRegex(text, rf"\nwarning executable-stack, 1 object\n  {told}")

    def test_what_fails_comes_first(self):
        stack = self.module("stack.so", MODULE, "-Wl,-z,execstack")
        members = {f"{number}.so": self.bad for number in range(12)}
        wheel = self.wheel("x.whl", {**members, "y.so": stack})
        text = inspect(wheel, "--fail-on", "executable-stack").stdout.decode()
        self.assertLess(text.index("warning executable-stack"), text.index("warning extra-exports"))
        self.assertIn("\n    7.so\n  and 2 more; --all and --json show all\n", text)
        self.assertEqual(inspect(wheel, "--all").stdout.count(b"it exports 1 symbol"), 12)

    def test_several_things_are_summed_up(self):
        wheels = [self.wheel(f"{name}.whl", {"it.so": self.good}) for name in "abc"]
        text = inspect(*wheels, self.bad, self.good, cwd=self.directory).stdout.decode()
        self.assertTrue(text.startswith("5 shared objects, 1 with errors or warnings\n"), text)
        self.assertIn("\nfiles: 2 shared objects, 1 with errors or warnings\n", text)
        self.assertIn("\na.whl: 1 shared object, clean\n", text)
        self.assertIn("\nClean: good.so\n", text)
        self.assertIn("\nbad.so\n  Python module", text)

    def test_notes_are_counted(self):
        noted = self.module("noted.so", MODULE, "-Wl,--no-as-needed,-lm")
        text = inspect(noted, self.good).stdout.decode()
        self.assertIn("\nNotes: unused-library (1 object); --all shows them.\n", text)
        self.assertNotIn("hat to do", text)


class Readers(ArchiveTest):
    def test_an_object_that_ends_the_process_that_reads_it(self):
        """A command that dies of one object stands for one with a bug."""
        command = self.file(
            "dies",
            f"""#!{sys.executable}
import os, signal, subprocess, sys
fields = sys.stdin.buffer.read().split(b"\\0")[:-1]
objects = [fields[at : at + 3] for at in range(0, len(fields), 3)]
dies = next((at for at, one in enumerate(objects) if b"dies" in one[0]), None)
told = b"".join(field + b"\\0" for one in objects[:dies] for field in one)
subprocess.run(["{HOMEFREE}", *sys.argv[1:]], input=told, close_fds=False)
if dies is not None:
    os.kill(os.getpid(), signal.SIGSEGV)
""",
        )
        command.chmod(0o755)
        for name in "a.so", "b-dies.so", "c.so", "d-dies.so":
            self.file(f"site/{name}", (self.bad if name == "c.so" else self.good).read_bytes())
        words = "version=1", "format=1", "memory=0", "python=python3", f"self={command}"
        code = "import sys; sys.path.append(sys.argv[1]); from command import inspect; "
        code += "sys.exit(inspect.main(sys.argv[2:]))"
        done = subprocess.run(
            [sys.executable, "-BISc", code, PACKAGE, *words, f"file={self.directory}/site"],
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 3, done)
        told = "the process that inspected it ended by signal 11"
        for name in "b-dies.so", "d-dies.so":
            self.assertIn(f"/site/{name}': {told}\n", done.stderr)
        self.assertIn("site: 2 shared objects, 1 with errors or warnings, 2 problems", done.stdout)
        self.assertIn("/site/c.so\n  Python module it", done.stdout)


class Directories(ArchiveTest):
    def test_objects_and_wheels_in_it(self):
        site = self.directory / "site"
        self.wheel("site/dist/w.whl", {"it.so": self.good})
        for place in "a/deep/it.so", "z.so":
            (site / place).parent.mkdir(parents=True, exist_ok=True)
            (site / place).write_bytes(self.bad.read_bytes())
        self.file("site/readme.txt", "text")
        self.assertEqual(
            self.paths(site, status=1),
            [f"{site}/a/deep/it.so", f"{site}/dist/w.whl!/it.so", f"{site}/z.so"],
        )

    def test_links_fifos_and_devices(self):
        site = self.directory / "site"
        site.mkdir()
        (site / "it.so").write_bytes(self.good.read_bytes())
        (site / "around").symlink_to(site)
        (site / "loop.so").symlink_to("loop.so")
        (site / "other.so").symlink_to("it.so")
        (site / "null.so").symlink_to("/dev/zero")
        os.mkfifo(site / "fifo.so")
        self.assertEqual(self.paths(site, status=0), [f"{site}/it.so"])
        link = self.directory / "link"
        link.symlink_to(site)
        self.assertEqual(self.paths(link, status=0), [f"{link}/it.so"])

    def test_a_damaged_shared_object_is_not_passed_over(self):
        self.file("site/it.so", b"\x7fELF damaged")
        self.file("site/libit.so.1.2", b"\x7fELF damaged")
        done = inspect(self.directory / "site")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stderr.count(b"\n"), 2)

    def test_a_directory_that_cannot_be_read(self):
        site = self.directory / "site"
        (site / "closed").mkdir(parents=True)
        (site / "closed").chmod(0)
        if os.access(site / "closed", os.R_OK):
            self.skipTest("root may read everything")
        done = inspect(site)
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"closed': Permission denied", done.stderr)

    @unittest.skipUnless(os.getuid() == 0 and shutil.which("setpriv"), "who may read it is asked")
    def test_an_object_that_cannot_be_read(self):
        self.directory.chmod(0o755)
        site = self.file("site/one.so", self.good.read_bytes()).parent
        self.file("site/two.so", self.good.read_bytes()).chmod(0)
        words = ["setpriv", "--reuid=65534", "--clear-groups", HOMEFREE, "inspect", site]
        done = subprocess.run(words, capture_output=True)
        if b"cannot run" in done.stderr or b"missing" in done.stderr:
            self.skipTest("others may not read the build directory")
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"two.so': Permission denied", done.stderr)

    def test_an_empty_directory(self):
        empty = self.directory / "empty"
        empty.mkdir()
        for options in (), ("--require-homefree",), ("--fail-on", "error"), ("--json",):
            done = inspect(empty, *options)
            self.assertEqual((done.returncode, done.stderr), (3, NOTHING))
        self.assertIn(b"empty: no shared objects", inspect(empty).stdout)

    def test_the_kernels_state_is_left_out(self):
        proc, modules = self.directory / "root/proc", self.directory / "modules"
        proc.mkdir(parents=True)
        modules.mkdir()
        shutil.copy(self.good, modules)
        isolated = ["unshare", "-rmpf", "--", "sh", "-ec"]
        # A module that can be found only by who looks into /proc.
        mount = f"mount -t proc proc {proc}; mount --bind {modules} {proc}/fs"
        if subprocess.run([*isolated, mount], capture_output=True).returncode != 0:
            self.skipTest("no file system can be mounted here")
        look = f"{mount}; {shlex.join([str(HOMEFREE), 'inspect', str(proc.parent)])}"
        done = subprocess.run([*isolated, look], capture_output=True)
        self.assertEqual(done.stderr, NOTHING)
        self.assertIn(b"root: no shared objects", done.stdout)


class Packages(ArchiveTest):
    def install(self, name, record):
        """Installs a distribution with one bad module in a directory."""
        site = self.directory / "site-packages"
        self.file(f"site-packages/{name}/it.so", self.bad.read_bytes())
        info = f"site-packages/{name}-1.0.dist-info"
        self.file(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        if record is not None:
            self.file(f"{info}/RECORD", record)
        return site

    def package(self, name, site):
        return inspect(
            "--json",
            "--package",
            name,
            "--python",
            sys.executable,
            env={**os.environ, "PYTHONPATH": str(site)},
        )

    def test_what_its_record_lists(self):
        site = self.install("fastlib", "fastlib/it.so,,\nfastlib/__init__.py,,\n")
        self.file("site-packages/fastlib/stray.so", self.bad.read_bytes())
        done = self.package("fastlib", site)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn(f'"{site}/fastlib/it.so"', done.stdout.decode())
        self.assertNotIn(b"stray", done.stdout)
        self.assertIn(b'"kind": "package"', done.stdout)

    def test_one_that_is_not_there(self):
        site = self.install("fastlib", "")
        done = self.package("fastlip", site)
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stderr.count(b"\n"), 1)
        self.assertIn(b"has no distribution of this name (did you mean 'fastlib'?)", done.stderr)

    def test_a_record_that_lies_or_is_missing(self):
        done = self.package("lost", self.install("lost", "lost/gone.so,,\nlost/gone.pyc,,\n"))
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (3, 1))
        self.assertIn(b"gone.so': No such file", done.stderr)
        done = self.package("bare", self.install("bare", None))
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (3, 1))
        self.assertIn(b"RECORD", done.stderr)

    def test_one_without_shared_objects_names_those_that_it_requires(self):
        site = self.install("fast_runtime_32", "fast_runtime_32/it.so,,\n")
        info = "site-packages/fast-1.0.dist-info"
        required = "Name: fast\nVersion: 1.0\nRequires-Dist: fast-runtime-32==1.0; os_name!='nt'\n"
        self.file(f"{info}/METADATA", f"Metadata-Version: 2.1\n{required}Requires-Dist: absent\n")
        self.file(f"{info}/RECORD", "fast/__init__.py,,\n")
        done = self.package("fast", site)
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (3, 1), done)
        self.assertIn(b"'fast': it has no shared objects", done.stderr)
        self.assertIn(b"--package fast-runtime-32\n", done.stderr)
        self.file("site-packages/pure-1.0.dist-info/METADATA", "Name: pure\nVersion: 1.0\n")
        self.file("site-packages/pure-1.0.dist-info/RECORD", "pure.py,,\n")
        done = self.package("pure", site)
        self.assertEqual(done.returncode, 3)
        self.assertTrue(done.stderr.endswith(b"it has no shared objects\n"), done.stderr)


if __name__ == "__main__":
    main()
