"""Private copies in Python: each has globals of its own, in the main interpreter and in others,
also of a module that Python loads once a process; debuggers find its symbols; no file is left.

usage: test_private.py MODULES-DIRECTORY
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap

import pieces

# Subinterpreters, under the names that each version has for them. `own`: with a GIL of its own,
# where Python supports that.
INTERPRETERS = """
import textwrap
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
def create(own):
    if sys.version_info >= (3, 13):
        return interpreters.create("isolated" if own else "legacy")
    return interpreters.create(isolated=own) if sys.version_info >= (3, 12) else (
        interpreters.create(isolated=False))
def run(interpreter, code):
    failed = interpreters.run_string(interpreter, textwrap.dedent(code))
    assert failed is None, failed
"""


class Private(pieces.TestCase):
    def run_code(self, code, *flags, prelude=pieces.PRELUDE, **environment):
        self.fine(code, *flags, prelude=prelude, **environment)
        self.assertEqual(self.left(), [])

    def test_fresh_globals(self):
        for name in ("single", "single_sized", "multi"):
            path = self.take(name)
            self.run_code(f"""
                path = {str(path)!r}
                first = homefree.load(path, private=True)
                assert {name!r} not in sys.modules
                public = homefree.load(path)
                assert (public.count(), public.count()) == (1, 2)
                second = homefree.load(path, private=True)
                assert sys.modules[{name!r}] is public
                assert len({{id(m) for m in (first, second, public)}}) == 3
                assert second.counter_at_start == 0
                assert (first.count(), second.count(), public.count()) == (1, 1, 3)
                exported = [m.count_exported() for m in (first, second, public)]
                assert exported == [1, 1, 1]
                for module in (first, second):
                    assert module.__file__ == path and module.__name__ == {name!r}
                    assert module.__spec__.origin == path
            """)

    def test_after_an_original_for_all(self):
        path = self.take("single")
        self.run_code(f"""
            sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)
            public = homefree.load({str(path)!r})
            assert (public.count_exported(), public.count_exported()) == (1, 2)
            for _ in range(3):
                assert homefree.load({str(path)!r}, private=True).count_exported() == 1
            assert sys.getdlopenflags() == os.RTLD_NOW | os.RTLD_GLOBAL
        """)

    def test_adopted(self):
        path = self.take("single")
        self.run_code(f"""
            adopted = homefree.load({str(path)!r}, private=True, adopt=True)
            plain = homefree.load({str(path)!r}, private=True)
            kinds = [{{homefree.owner_of(p).kind for p in m.allocate().values()}}
                     for m in (adopted, plain)]
            assert kinds[0] == {{"heap"}} and "heap" not in kinds[1], kinds
        """)

    def test_interpreters(self):
        """Modules of every kind, twice each, in interpreters that end before the process does."""
        for name in ("single", "single_sized", "multi", "multi_silent"):
            for own in (False, True):
                path = self.take(name)
                code = (
                    INTERPRETERS
                    + f"""
path, own = {str(path)!r}, {own}
code = '''
    import sys
    sys.path[:] = {sys.path!r}
    import homefree
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    def here():
        current = interpreters.get_current()
        return int(current[0] if isinstance(current, tuple) else current)
    for _ in range(2):
        module = homefree.load({str(path)!r}, private=True)
        assert (module.count(), module.count()) == (1, 2)
        assert module.count_exported() == 1
        assert {name!r} not in sys.modules
        assert module.starts == 1 and module.interpreter == here(), module.interpreter
    assert homefree.owner_of(homefree.load({str(path)!r}, private=True, adopt=True)
                             .allocate()["malloc"]).kind == "heap"
'''
public = homefree.load(path)
assert public.count() == 1
for _ in range(2):
    first, second = create(own), create(own)
    run(first, code)
    run(second, code)
    interpreters.destroy(first)
    run(second, code)
    interpreters.destroy(second)
assert public.count() == 2
"""
                )
                with self.subTest(name=name, own=own):
                    self.run_code(code)

    def test_of_a_python_that_calls_another_function(self):
        """CPython 3.15 calls PyModExport, whose modules share nothing, so its own loader creates
        them. Here that loader calls PyInit, in two phases, which shares nothing either."""
        path = self.take("both")
        self.run_code(f"""
            from homefree.loading import _load
            _load._MINOR = 15
            called = []
            create = _load.create_module
            _load.create_module = lambda *given: called.append(given) or create(*given)
            modules = [homefree.load({str(path)!r}, private=True) for _ in range(2)]
            assert len(called) == 2
            for module in modules:
                assert (module.count(), module.count(), module.starts) == (1, 2, 1)
                assert module.__file__ == module.__spec__.origin == {str(path)!r}
                assert module.__name__ == "both" and "both" not in sys.modules
        """)

    def test_what_an_interpreter_refuses(self):
        """Without private, an interpreter with a GIL of its own refuses single-phase modules,
        also after a private one was loaded."""
        if sys.version_info < (3, 12):
            self.skipTest("no GIL of one's own before 3.12")
        path = self.take("single")
        self.run_code(
            INTERPRETERS
            + f"""
interpreter = create(True)
run(interpreter, '''
    import sys
    sys.path[:] = {sys.path!r}
    import homefree
    homefree.load({str(path)!r}, private=True)
    try:
        homefree.load({str(path)!r})
    except ImportError as error:
        assert "subinterpreters" in str(error), error
    else:
        raise AssertionError
''')
interpreters.destroy(interpreter)
"""
        )

    def test_threads(self):
        path = self.take("single")
        self.run_code(f"""
            from concurrent.futures import ThreadPoolExecutor
            with ThreadPoolExecutor(8) as pool:
                counts = list(pool.map(
                    lambda _: homefree.load({str(path)!r}, private=True).count(), range(40)))
            assert counts == [1] * 40, counts
        """)

    def test_static_tls(self):
        """Each copy takes some of the static TLS that glibc keeps for late libraries, until none
        is left."""
        path = self.take("greedy")
        self.run_code(f"""
            made = []
            try:
                while len(made) < 100:
                    made.append(homefree.load({str(path)!r}, private=True))
            except ImportError as error:
                assert "static TLS block" in str(error), error
                assert "optional_static_tls" in str(error), error
            assert 1 <= len(made) < 100, len(made)
            assert [module.count() for module in made] == [1] * len(made)
            assert len([n for n in os.listdir({str(self.directory)!r}) if n[0] == "."]) == len(made)
        """)

    def test_errors_of_the_module(self):
        """An error of the module's own code is passed on, and its copy is removed."""
        path = self.take("failing")
        self.run_code(f"""
            for options in ({{}}, {{"private": True}}):
                try:
                    homefree.load({str(path)!r}, **options)
                except ValueError as error:
                    assert str(error) == "the module says no", error
                else:
                    raise AssertionError
                assert "failing" not in sys.modules
                assert os.listdir({str(self.directory)!r}) == ["failing.so"]
        """)


class Files(pieces.TestCase):
    """Where the files are, and that none is left behind."""

    def start_with(self, end, *, path=None, count=2, before="", **environment):
        """Runs a process that makes copies, prints their places, and ends."""
        outcome = self.start(
            f"""
            {before}
            for _ in range({count}):
                homefree.load({str(path or self.path)!r}, private=True)
            print(*[line.split(maxsplit=5)[5] for line in open("/proc/self/maps")
                    if "homefree-" in line and "/.homefree-" in line], sep="", end="")
            sys.stdout.flush()
            {end}
            """,
            prelude=pieces.PRELUDE,
            **environment,
        )
        return outcome, sorted(set(outcome.out.split()))

    def setUp(self):
        super().setUp()
        self.path = self.take("single", "installed/single.so")
        self.installed = self.path.parent

    def test_ends(self):
        for end in ("", "sys.exit(3)", "raise SystemExit"):
            outcome, files = self.start_with(end)
            self.assertEqual(len(files), 2, outcome.err)
            self.assertEqual({os.path.dirname(file) for file in files}, {str(self.installed)})
            self.assertEqual(self.left(), [])

    def test_crash(self):
        """The next process removes what a crash left; the copies of a living process stay."""
        _, files = self.start_with("os.kill(os.getpid(), 9)")
        self.assertEqual(sorted(self.left()), files)
        sleeper = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"import homefree; homefree.load({str(self.path)!r}, private=True)\n"
                "print(end='.', flush=True); input()",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            self.assertEqual(sleeper.stdout.read(1), b".")
            living = self.left()
            self.assertEqual(len(living), 1)
            self.assertNotIn(living[0], files)
            self.start_with("")
            self.assertEqual(self.left(), living)
        finally:
            sleeper.communicate(b"\n")
        self.assertEqual(self.left(), [])

    def test_only_what_is_ours(self):
        """Files of that name with another form, mode or owner stay."""
        _, files = self.start_with("os._exit(0)", count=1)
        stale = pathlib.Path(files[0])
        like = [
            self.installed / ".homefree-1-2-3-4-single.so",
            self.installed / ".homefree-x",
            self.installed / ".homefree-1-999999999-3",
            stale.with_name(stale.name + "-mode"),
        ]
        for path in like:
            path.write_bytes(b"")
            path.chmod(0o600 if path is not like[3] else 0o644)
        link = stale.with_name(stale.name + "-link")
        link.symlink_to("single.so")
        directory = stale.with_name(stale.name + "-directory")
        directory.mkdir()
        if os.geteuid() == 0:
            other = stale.with_name(stale.name + "-owner")
            other.write_bytes(b"")
            other.chmod(0o600)
            os.chown(other, 1234, 1234)
            like.append(other)
        self.start_with("")
        self.assertFalse(stale.exists())
        for path in [*like, link, directory]:
            self.assertTrue(os.path.lexists(path), path)

    def test_fork(self):
        """A child that ends leaves its parent's copies alone and removes its own."""
        outcome, _ = self.start_with(
            f"""
            for _ in range(2):
                pid = os.fork()
                if pid == 0:
                    homefree.load({str(self.path)!r}, private=True)
                    assert len(os.listdir({str(self.installed)!r})) == 4
                    sys.exit()
                assert os.waitpid(pid, 0)[1] == 0
                assert len(os.listdir({str(self.installed)!r})) == 3
            """,
        )
        said = [line for line in outcome.err.splitlines() if "fork()" not in line]
        self.assertEqual((outcome.status, said), (0, []))
        self.assertEqual(self.left(), [])

    def elsewhere(self, **environment):
        """Makes copies as a user who cannot write beside the original. Result: their directory."""
        before = "homefree.load"
        if os.geteuid() == 0:
            before += "; os.setresuid(65534, 65534, 65534)"
        else:
            self.installed.chmod(0o555)
            self.addCleanup(self.installed.chmod, 0o755)
        for name in ("XDG_RUNTIME_DIR", "TMPDIR"):
            environment.setdefault(name, "")
        outcome, files = self.start_with("", before=before, **environment)
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertEqual(len(files), 2, outcome.err)
        for file in files:
            self.assertFalse(os.path.exists(os.path.dirname(file)), file)
        return os.path.dirname(os.path.dirname(files[0]))

    def test_elsewhere(self):
        self.assertEqual(self.elsewhere(), "/tmp")
        runtime = self.directory / "runtime"
        temporary = self.directory / "temporary"
        for directory in (runtime, temporary):
            directory.mkdir()
            if os.geteuid() == 0:
                os.chown(directory, 65534, 65534)
        names = {"XDG_RUNTIME_DIR": str(runtime), "TMPDIR": str(temporary)}
        self.assertEqual(self.elsewhere(**names), str(runtime))
        # A directory that everybody may change is not safe; one that is missing cannot be used.
        runtime.chmod(0o777)
        self.assertEqual(self.elsewhere(**names), str(temporary))
        temporary.rmdir()
        self.assertEqual(self.elsewhere(**names), "/tmp")
        self.assertEqual(self.elsewhere(TMPDIR="relative"), "/tmp")

    # Mounts an empty file system with these options over a directory. The build directory stays in
    # its place, even if the checkout is below the covered directory.
    COVER = """
        cover() {
            cd "$build"
            mount -t tmpfs -o "$2" none "$1"
            case $build in
            "$1"/*)
                mkdir -p "$build"
                mount --no-canonicalize --rbind . "$build"
                ;;
            esac
            cd "$here"
        }
        """

    # What a process has left in a covered directory.
    FOUND = """
def found(directory):
    return sorted(name for name in os.listdir(directory)
                  if not os.environ["build"].startswith(os.path.join(directory, name, "")))
"""

    def mounted(self, script, code):
        """Runs Python code in a mount namespace of its own, after a shell script that mounts.
        The module is in the current directory, $here, below the build directory."""
        if os.geteuid() != 0 or shutil.which("unshare") is None:
            self.skipTest("needs root to mount a file system")
        here = tempfile.mkdtemp(prefix="mounted-", dir=pieces.MODULES)
        self.addCleanup(shutil.rmtree, here)
        shutil.copyfile(self.path, os.path.join(here, "single.so"))
        package = os.path.realpath(os.environ["PYTHONPATH"])
        build = os.path.commonpath([package, pieces.MODULES])
        script = 'cd "$here"\n' + self.COVER + script
        done = subprocess.run(
            ["unshare", "-m", "sh", "-ec", f'{script}\nexec "$@"', "sh"]
            + [sys.executable, "-c"]
            + [pieces.PRELUDE + self.FOUND + textwrap.dedent(code) + "\nprint('done')"],
            env={**os.environ, "PYTHONPATH": package, "build": build, "here": here},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        if done.returncode != 0 and ("unshare:" in done.stderr or "mount:" in done.stderr):
            self.skipTest("mounting is not allowed here")
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)
        self.assertEqual(self.left(here), [])

    def test_full_disk(self):
        self.mounted(
            """
            mkdir small
            mount -t tmpfs -o size=32k none small
            cover /var/tmp size=4k
            cover /tmp noexec
            cp single.so small
            cd small
            head -c 1M /dev/zero > fill 2>&- || true
            unset TMPDIR XDG_RUNTIME_DIR
            """,
            """
            path = os.path.abspath("single.so")
            refused(path, "No space left", "set TMPDIR", private=True)
            left = [sorted(os.listdir(".")), found("/tmp"), found("/var/tmp")]
            assert left == [["fill", "single.so"], [], []], left
            """,
        )

    def test_noexec(self):
        """Code cannot be executed from there: the next place is used, if there is one."""
        readonly = """
            mount --bind -o ro "$here" "$here"
            mount -o remount,bind,ro "$here"
            cover /var/tmp noexec
            unset XDG_RUNTIME_DIR
            export TMPDIR=/var/tmp
            """
        self.mounted(
            readonly,
            """
            assert homefree.load("single.so", private=True).count() == 1
            assert found("/var/tmp") == []
            """,
        )
        self.mounted(
            readonly + "cover /tmp noexec\n",
            """
            refused("single.so", "set TMPDIR to a directory", private=True)
            assert found("/tmp") == found("/var/tmp") == []
            """,
        )


class Debugger(pieces.TestCase):
    def test_gdb(self):
        """gdb stops at a breakpoint by name, in the copy's file, and shows the source lines."""
        gdb = shutil.which("gdb")
        if gdb is None:
            self.skipTest("no gdb")
        (self.directory / "friends").mkdir()
        self.take("libhomefree-test-friend", "friends/libhomefree-test-friend.so")
        path = self.take("state-runpath", "state.so")
        script = self.directory / "script.py"
        script.write_text(
            "import ctypes, homefree\n"
            "from homefree import _homefree\n"
            f"path = _homefree.private_copy({str(path)!r})\n"
            "print(ctypes.CDLL(path).state_count())\n"
        )
        done = subprocess.run(
            [gdb, "-nx", "-batch"]
            + [f"-iex=set {option}" for option in ("auto-load no", "debuginfod enabled off")]
            + ["-ex", "set breakpoint pending on", "-ex", "set startup-with-shell off"]
            + ["-ex", "break state_count", "-ex", "run", "-ex", "backtrace 1"]
            + ["-ex", "print internal", "-ex", "info sharedlibrary state", "-ex", "continue"]
            + ["--args", sys.executable, str(script)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        if "Operation not permitted" in done.stderr:
            self.skipTest("processes cannot be traced here")
        said = done.stdout + done.stderr
        self.assertRegex(said, r"Breakpoint 1, state_count \(\) at .*state\.cc:\d+", said)
        self.assertRegex(said, r"\$1 = 0", said)
        self.assertRegex(said, r"Yes .*/\.homefree-.*-state\.so", said)
        self.assertIn("exited normally", said)
        self.assertEqual(self.left(), [])


if __name__ == "__main__":
    pieces.support.main()
