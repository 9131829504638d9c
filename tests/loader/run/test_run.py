"""The built command `homefree run`: what the program gets and what it does not notice, what is
refused, and that the kernel agrees with what was foretold.

The command is copied into an installation of its own, beside libraries that stand in for homefree's
and say which processes loaded them.

Usage: test_run.py PRELOADED.C HOMEFREE [unittest arguments]. The compiler is $CC, or cc.
"""

import ctypes
import errno
import os
import random
import re
import shlex
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE, HOMEFREE = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
CC = shlex.split(os.environ.get("CC", "cc"))
PYTHON = sys.executable
PRELOAD, DIAGNOSE = "libhomefree-preload.so", "libhomefree-diagnose.so"
ROOT = os.geteuid() == 0
NOBODY = 65534
IDLE = "int main(void) { return 0; }\n"
PR_SET_NO_NEW_PRIVS = 38

STATUS = r"""
#include <stdio.h>
#include <sys/auxv.h>
int main(void) { printf("%d\n", getauxval(AT_SECURE) != 0); return 0; }
"""
ENVIRONMENT = r"""
#include <stdio.h>
extern char **environ;
int main(int count, char **arguments)
{
    for (char **at = environ; *at != NULL; at++)
        fwrite(*at, 1, __builtin_strlen(*at) + 1, stdout);
    return 0;
}
"""


def build(directory, name, source, *flags, **options):
    path, code = directory / name, directory / (name + ".c")
    code.write_text(source)
    subprocess.run([*CC, "-O1", "-w", str(code), *flags, "-o", str(path)], check=True, **options)
    code.unlink()
    return path


def links(*flags):
    with tempfile.TemporaryDirectory() as directory:
        try:
            build(Path(directory), "program", IDLE, *flags, stderr=subprocess.DEVNULL)
        except (subprocess.CalledProcessError, FileNotFoundError):
            return False
        return True


class Installation(unittest.TestCase):
    """An installation that every test shares, and for each test a directory in which it runs."""

    @classmethod
    def setUpClass(cls):
        cls.prefix = Path(tempfile.mkdtemp(prefix="homefree-test-run-"))
        cls.addClassCleanup(shutil.rmtree, cls.prefix)
        cls.prefix.chmod(0o755)  # for tests that drop privileges
        cls.homefree = cls.install(cls.prefix)
        cls.environment_program = build(cls.prefix, "environment", ENVIRONMENT)

    @classmethod
    def install(cls, prefix):
        """A command in prefix/bin, and both libraries in prefix/lib."""
        (prefix / "bin").mkdir(parents=True)
        (prefix / "lib").mkdir()
        for name in (PRELOAD, DIAGNOSE):
            first = cls.prefix / "lib" / name
            if prefix == cls.prefix:
                define = f'-DNAME="{name}"'
                subprocess.run([*CC, define, "-shared", "-fPIC", SOURCE, "-o", first], check=True)
            else:
                shutil.copy(first, prefix / "lib" / name)
        return shutil.copy(HOMEFREE, prefix / "bin/homefree")

    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="homefree-test-run-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.directory.chmod(0o777)
        self.log = self.directory / "log"

    def environment(self, **more):
        result = {k: v for k, v in os.environ.items() if not k.startswith(("HOMEFREE_", "LD_"))}
        result["HF_TEST_LOG"] = str(self.log)
        result.update(more)
        return {name: value for name, value in result.items() if value is not None}

    def reachable(self):
        """With a PATH whose directories every user can search."""
        return self.environment(PATH="/usr/bin:/bin")

    def start(self, *arguments, homefree=None, env=None, **options):
        return subprocess.Popen(
            [homefree or self.homefree, "run", *map(str, arguments)],
            **{
                "stdin": subprocess.DEVNULL,
                "stdout": subprocess.PIPE,
                "stderr": subprocess.PIPE,
                "cwd": self.directory,
                "env": env or self.environment(),
                **options,
            },
        )

    def run_it(self, *arguments, **options):
        """(status, stdout, stderr) of `homefree run`, which nothing may keep waiting."""
        with self.start(*arguments, **options) as process:
            try:
                out, err = process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            return process.returncode, out, err.decode(errors="replace")

    def runs(self, *arguments, **options):
        """The program's output; nothing else was said."""
        status, out, err = self.run_it(*arguments, **options)
        self.assertEqual((status, err), (0, ""))
        return out.decode()

    def refused(self, status, message, *arguments, **options):
        got, out, err = self.run_it(*arguments, **options)
        self.assertEqual((got, out), (status, b""), err)
        self.assertIn(message, err)
        self.assertEqual((err.count("\n"), err[-1]), (1, "\n"), err)
        self.assertFalse(self.log.exists(), "it was run")

    def loaded(self):
        """Who loaded a library: [(pid, library)], and forgets it."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return [(int(line.split()[0]), line.split()[1]) for line in lines]

    def write(self, name, text, mode=0o755):
        path = self.directory / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        return path

    def build(self, name, source, *flags):
        return build(self.directory, name, source, *flags)


class Program(Installation):
    """What the program gets, and how it ends."""

    def test_status(self):
        for status in (0, 1, 2, 3, 42, 127, 255):
            self.assertEqual(self.run_it("--", "sh", "-c", f"exit {status}")[0], status)
        self.assertEqual({name for _, name in self.loaded()}, {PRELOAD})

    def test_signal(self):
        for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM):
            status, out, err = self.run_it("sh", "-c", f"ulimit -c 0; kill -{number} $$")
            self.assertEqual((status, out, err), (-number, b"", ""))

    def test_same_process(self):
        with self.start("sh", "-c", "echo $$ $PPID") as process:
            answer = process.communicate()[0].split()
        self.assertEqual(answer, [b"%d" % process.pid, b"%d" % os.getpid()])
        self.assertEqual(self.loaded(), [(process.pid, PRELOAD)])

    def test_signals_reach_the_program(self):
        code = "import signal, sys; print('here', flush=True); signal.sigwait({15}); sys.exit(5)"
        block = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {15}); "
        with self.start(PYTHON, "-c", block + code) as process:
            self.assertEqual(process.stdout.readline(), b"here\n")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=60), 5)

    def test_streams(self):
        data = random.Random(1).randbytes(1 << 20)
        with self.start("sh", "-c", "cat; echo error >&2", stdin=subprocess.PIPE) as process:
            self.assertEqual(process.communicate(data, timeout=60), (data, b"error\n"))

    def test_closed_streams(self):
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            script = f'"{self.homefree}" run -- sh -c \'ls -l /proc/$$/fd >"$1"\' sh "$1" {closed}'
            paths = self.directory / "through", self.directory / "direct"
            subprocess.run(["sh", "-c", script, "sh", paths[0]], check=True)
            script = f'sh -c \'ls -l /proc/$$/fd >"$1"\' sh "$1" {closed}'
            subprocess.run(["sh", "-c", script, "sh", paths[1]], check=True)
            fds = [re.findall(r" (\d+) ->", path.read_text()) for path in paths]
            self.assertEqual(fds[0], fds[1], closed)

    def test_descriptors_signals_and_arguments(self):
        """What /proc says about a process is the same as without the command between."""
        code = (
            "import os, sys, re\n"
            "names = ['/proc/self/fd/' + name for name in os.listdir('/proc/self/fd')]\n"
            "print(sorted((n, os.readlink(n)) for n in names if os.path.lexists(n)))\n"
            "status = open('/proc/self/status').read()\n"
            "print(re.findall('(?:Sig[^Q]|Shd|Cap|NoNew|Umask).*', status))\n"
            "print(ascii(sys.argv[1:]), os.getcwd(), os.getpgid(0) == os.getppid(),"
            " open('/proc/self/comm').read(), os.nice(0), __import__('resource').getrlimit(7))\n"
        )

        def prepare():
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGRTMIN + 3})
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            os.umask(0o027)

        arguments = [PYTHON, "-c", code, "", "a b", "--", "-x", "\udc80\n"]
        options = {"preexec_fn": prepare, "restore_signals": False, "stderr": subprocess.DEVNULL}
        kept = os.open("/dev/null", os.O_RDONLY)
        self.addCleanup(os.close, kept)
        direct = subprocess.run(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=self.directory,
            env=self.environment(),
            pass_fds=[kept],
            **options,
        )
        through = self.start("--", *arguments, pass_fds=[kept], **options)
        self.assertEqual(
            re.sub(rb"pipe:\[\d+\]", b"pipe", through.communicate()[0]),
            re.sub(rb"pipe:\[\d+\]", b"pipe", direct.stdout),
        )
        self.assertEqual((direct.returncode, through.returncode), (0, 0))

    def test_environment(self):
        odd = {"HOMEFREE_CONF": "region:1G,\udcff x:,", "HF": "a=b\nc", "LD_BIND_NOW": "1"}
        env = {**self.environment(), **odd}
        out = self.start(self.environment_program, env=env).communicate()[0]
        expected = {
            *(os.fsencode(f"{name}={value}") for name, value in env.items()),
            os.fsencode(f"LD_PRELOAD={self.prefix}/lib/{PRELOAD}"),
        }
        self.assertEqual(set(out.split(b"\0")[:-1]), expected)
        self.assertEqual(len(out.split(b"\0")) - 1, len(expected))

    def test_variable_of_python_is_not_passed_on(self):
        out = self.runs(self.environment_program, env=self.environment(HOMEFREE_PYTHON="/x"))
        self.assertNotIn("HOMEFREE_PYTHON", out)

    def test_children(self):
        script = f"true; (sh -c 'exit 0'); {PYTHON} -c 'import os; os.system(\"true; :\")'"
        self.runs("sh", "-c", f"{script}; {self.environment_program} >/dev/null; :")
        loaded = self.loaded()
        self.assertGreaterEqual(len({pid for pid, _ in loaded}), 4)
        self.assertEqual({name for _, name in loaded}, {PRELOAD})

    def test_without_dashes(self):
        self.assertEqual(self.runs("echo", "--diagnose", "-n"), "--diagnose -n\n")
        self.assertEqual(self.runs("--", "echo", "--", "-n"), "-- -n\n")
        self.assertEqual(self.runs("--", "sh", "-c", "echo $1", "sh", "--help"), "--help\n")


class Preload(Installation):
    """LD_PRELOAD, and where the libraries are found."""

    def preload(self, value, *options, homefree=None):
        env = self.environment(LD_PRELOAD=value)
        status, out, _ = self.run_it(*options, self.environment_program, env=env, homefree=homefree)
        self.assertEqual(status, 0)
        entries = [e for e in out.split(b"\0") if e.startswith(b"LD_PRELOAD=")]
        self.assertEqual(len(entries), 1)
        return entries[0].decode().partition("=")[2]

    def test_users_are_kept_behind(self):
        own = f"{self.prefix}/lib/{PRELOAD}"
        self.assertEqual(self.preload(None), own)
        self.assertEqual(self.preload(""), own)
        self.assertEqual(self.preload(" : :"), own)
        self.assertEqual(self.preload("libm.so.6"), f"{own}:libm.so.6")
        self.assertEqual(self.preload(" libm.so.6 :/x/y.so:"), f"{own}:libm.so.6:/x/y.so")

    def test_homefrees_own_is_replaced(self):
        own = f"{self.prefix}/lib/{PRELOAD}"
        for old in (own, PRELOAD, f"/other/{PRELOAD}", DIAGNOSE, f"/o/{DIAGNOSE} {PRELOAD}"):
            self.assertEqual(self.preload(f"libm.so.6:{old}:libdl.so.2"),
                             f"{own}:libm.so.6:libdl.so.2")  # fmt: skip
        self.assertEqual(self.preload("/x/libhomefree.so.1 libhomefree.so.1.0.0"), own)
        for other in (
            f"/x/{PRELOAD}x",
            "libhomefree.so.10",
            f"x{PRELOAD}",
            f"/{PRELOAD}/x.so",
            "libhomefree.so",
        ):
            self.assertEqual(self.preload(other), f"{own}:{other}")
        self.assertEqual(
            self.preload(own, "--diagnose=count", "--report", "r"), f"{self.prefix}/lib/{DIAGNOSE}"
        )

    def test_run_in_run(self):
        if b"__asan_init" in Path(self.homefree).read_bytes():
            self.skipTest("the command itself is sanitized, and so refused")
        out = self.runs(self.homefree, "run", "--", self.homefree, "run", "echo", "in")
        self.assertEqual(out, "in\n")
        self.assertEqual(len(self.loaded()), 3)
        with self.start("--diagnose", "--report", "r", self.homefree, "run", "true") as process:
            process.communicate()
        self.assertEqual([name for _, name in self.loaded()], [DIAGNOSE, PRELOAD])

    def test_moved_and_linked(self):
        moved = self.directory / "moved, to,here"
        homefree = self.install(self.directory / "first")
        os.rename(self.directory / "first", moved.with_name("moved,here"))
        homefree = self.directory / "moved,here/bin/homefree"
        self.assertEqual(self.preload(None, homefree=homefree),
                         f"{self.directory}/moved,here/lib/{PRELOAD}")  # fmt: skip
        link = self.directory / "link"
        link.symlink_to(homefree)
        self.assertEqual(self.preload(None, homefree=link),
                         f"{self.directory}/moved,here/lib/{PRELOAD}")  # fmt: skip

    def test_paths_that_cannot_be_preloaded(self):
        for name, obstacle in (("a b", "a space"), ("a:b", "a colon"), ("a$b", "a '$'"),
                               ("$LIB", "a '$'"), ("a\nb", "a line break")):  # fmt: skip
            homefree = self.install(self.directory / name)
            for options in ([], ["--diagnose"]):
                self.refused(3, f"cannot express a path with {obstacle}; install", *options, "true",
                             homefree=homefree)  # fmt: skip
        self.assertEqual(list(self.directory.glob("homefree-report*")), [])

    def test_missing_library(self):
        homefree = self.install(self.directory / "installed")
        (self.directory / f"installed/lib/{PRELOAD}").unlink()
        # Neither the environment nor the current directory says where to look.
        shutil.copy(self.prefix / "lib" / PRELOAD, self.directory)
        env = self.environment(LD_LIBRARY_PATH=f"{self.prefix}/lib", HOMEFREE_PREFIX="/x")
        self.refused(3, f"cannot find {PRELOAD}", "true", homefree=homefree, env=env)
        status, _, _ = self.run_it("--diagnose", "true", homefree=homefree)
        self.assertEqual(status, 0)


class Usage(Installation):
    def test_wrong(self):
        for message, *arguments in (
            ("no command is given",),
            ("'--' is followed by no command", "--"),
            ("no command is given", "--diagnose"),
            ("the command is empty", ""),
            ("--diagnose takes 'count', 'report' or 'strict', not 'nonsense'",
             "--diagnose=nonsense", "true"),
            ("--diagnose takes 'count', 'report' or 'strict', not ''", "--diagnose=", "true"),
            ("write '--diagnose=strict', without a space", "--diagnose", "strict", "--", "true"),
            ("--report goes with --diagnose", "--report", "x", "--", "true"),
            ("--sites goes with --diagnose", "--sites", "x", "--", "true"),
            ("--suppressions goes with --diagnose", "--suppressions", "x", "--", "true"),
            ("option '--report' needs a value", "--diagnose", "--report"),
            ("unknown option '--nonsense'", "--nonsense", "true"),
            ("unknown option '-x'", "-x", "true"),
        ):  # fmt: skip
            with self.subTest(arguments=arguments):
                self.refused(2, message + "; see 'homefree run --help'", *arguments)
        self.assertEqual(os.listdir(self.directory), [])

    def test_help(self):
        for option in ("--help", "-h"):
            text = self.runs(option)
            self.assertTrue(
                text.startswith(
                    "Usage: homefree run [--adopt[=PATTERNS]] [--diagnose[=count|report|strict]]"
                )
            )
            self.assertLess(max(map(len, text.splitlines())), 90)
            for option in (
                "adopt",
                "diagnose[=",
                "report PATH",
                "sites PATH",
                "suppressions FILE",
                "quiet",
                "help",
            ):
                self.assertIn(f"--{option}", text)

    def test_help_has_every_option_of_the_heap(self):
        """The same table as the manual page's: alloc/base/options.def."""
        table = Path(__file__).parents[3] / "alloc/base/options.def"
        names = re.findall(r"^HF_OPTION\((\w+),", table.read_text(), re.MULTILINE)
        text = self.runs("--help")
        self.assertEqual(re.findall(r"^  (\w+):\S+ \(", text, re.MULTILINE), names)
        self.assertIn("region:16T (bytes)", text)
        self.assertIn("as long\n", " ".join(text.split(" ")))


class Diagnose(Installation):
    """What the diagnose library is told."""

    def told(self, *options, **more):
        """The pairs of HOMEFREE_DIAGNOSE."""
        status, out, err = self.run_it(*options, "--", self.environment_program, **more)
        self.assertEqual(status, 0, err)
        values = [e for e in out.decode().split("\0") if e.startswith("HOMEFREE_DIAGNOSE=")]
        self.assertEqual(len(values), 1)
        pairs = dict(pair.split(":", 1) for pair in values[0].partition("=")[2].split(","))
        self.assertEqual(err, f"homefree run: the report will be in '{pairs['directory']}'\n")
        self.assertTrue(os.path.isdir(pairs["directory"]))
        return pairs

    def test_modes(self):
        for option, mode in (("", "report"), ("=report", "report"), ("=count", "count"),
                             ("=strict", "strict")):  # fmt: skip
            self.assertEqual(
                self.told("--diagnose" + option, "--report", "r"),
                {"mode": mode, "directory": str(self.directory / "r")},
            )
        self.assertEqual({name for _, name in self.loaded()}, {DIAGNOSE})

    def test_quiet(self):
        self.refused(2, "--quiet goes with --diagnose", "--quiet", "--", "true")
        status, out, err = self.run_it(
            "--diagnose", "--quiet", "--report", "r", "--", self.environment_program
        )
        self.assertEqual((status, err), (0, ""))
        self.assertIn(b",quiet:1", out)

    def test_last_mode_counts(self):
        self.assertEqual(
            self.told("--diagnose=strict", "--diagnose", "--report", "r")["mode"], "report"
        )

    def test_set_before_is_replaced(self):
        env = self.environment(HOMEFREE_DIAGNOSE="mode:strict,directory:/x,sites:/y")
        self.assertEqual(set(self.told("--diagnose", env=env)), {"mode", "directory"})

    def test_usual_directory(self):
        directory = Path(self.told("--diagnose")["directory"])
        self.assertEqual(directory.parent, self.directory)
        (pid,) = {pid for pid, _ in self.loaded()}
        self.assertEqual(directory.name, f"homefree-report.{pid}")
        self.assertEqual(stat.S_IMODE(directory.stat().st_mode), 0o700)

    def test_usual_directory_is_a_new_one(self):
        script = (
            'mkdir homefree-report.$$; : >homefree-report.$$.1; exec "$0" run --diagnose -- true'
        )
        subprocess.run(["sh", "-c", script, self.homefree], cwd=self.directory, check=True,
                       env=self.environment(), stderr=subprocess.DEVNULL)  # fmt: skip
        ((pid, _),) = self.loaded()
        names = sorted(os.listdir(self.directory))
        self.assertEqual(names, [f"homefree-report.{pid}{end}" for end in ("", ".1", ".2")])

    def test_named_directory(self):
        os.umask(os.umask(0o022) | 0o022)
        directory = self.directory / "a/b:c d/report"
        self.assertEqual(self.told("--diagnose", "--report", "./a//b:c d/report//"),
                         {"mode": "report", "directory": str(directory)})  # fmt: skip
        self.assertEqual(stat.S_IMODE(directory.stat().st_mode), 0o700)
        self.assertEqual(stat.S_IMODE(directory.parent.stat().st_mode), 0o755)
        directory.chmod(0o750)
        (directory / "old").write_text("x")
        link = self.directory / "link"
        link.symlink_to(directory)
        self.assertEqual(self.told("--diagnose", "--report", link)["directory"], str(directory))
        self.assertEqual(stat.S_IMODE(directory.stat().st_mode), 0o750)
        self.assertEqual(os.listdir(directory), ["old"])

    def test_unusable_directory(self):
        self.write("file", "")
        (self.directory / "dangling").symlink_to("nowhere/at/all")
        for path, why in (
            ("file", "Not a directory"),
            ("file/below", "Not a directory"),
            ("dangling", "No such file"),
            ("", "No such file"),
            ("/proc/x", "No such file"),
            ("a,b", "its path contains a comma"),
            ("x" * 300, "File name too long"),
        ):
            self.refused(3, f"cannot use --report '{path}': {why}", "--diagnose", "--report", path,
                         "true")  # fmt: skip

    def test_current_directory_with_a_comma(self):
        comma = self.directory / "a,b"
        comma.mkdir()
        for options in ([], ["--report", "r"]):
            self.refused(3, "contains a comma", "--diagnose", *options, "true", cwd=comma)
        self.assertEqual(os.listdir(comma), [])
        self.told("--diagnose", "--report", self.directory / "r", cwd=comma)

    def test_long_paths(self):
        """The library has room for so many bytes."""
        deep = self.directory / "/".join(["x" * 200] * 4)
        self.assertEqual(self.told("--diagnose", "--report", deep)["directory"], str(deep))
        self.loaded()
        for path in (deep / ("y" * 200), "/".join(["z" * 250] * 5)):
            self.refused(3, "its path is too long", "--diagnose", "--report", path, "true")
        (deep / "file").write_text("")
        self.refused(3, "too long together", "--diagnose", "--report", deep, "--sites", deep,
                     "--suppressions", deep / "file", "--", "true")  # fmt: skip
        self.assertEqual(os.listdir(deep), ["file"])

    @unittest.skipUnless(ROOT, "needs another user")
    def test_directory_of_another(self):
        (self.directory / "closed").mkdir(0o755)
        self.refused(3, "Permission denied", "--diagnose", "--report", "closed", "true",
                     user=NOBODY)  # fmt: skip
        self.refused(3, "Permission denied", "--diagnose", "--report", "closed/new", "true",
                     user=NOBODY)  # fmt: skip
        self.refused(3, "; name another with --report", "--diagnose", "true", user=NOBODY,
                     cwd=self.directory / "closed")  # fmt: skip

    def test_files(self):
        self.write("patterns", "x")
        self.write("record", "x")
        self.assertEqual(
            self.told(
                "--diagnose", "--report", "r", "--sites", "record", "--suppressions=patterns"
            ),
            {
                "mode": "report",
                "directory": str(self.directory / "r"),
                "sites": str(self.directory / "record"),
                "suppressions": str(self.directory / "patterns"),
            },
        )
        self.assertEqual(self.told("--diagnose", "--report", "s", "--sites", "r")["sites"],
                         str(self.directory / "r"))  # fmt: skip

    def test_unusable_files(self):
        self.write("a,b", "")
        os.mkfifo(self.directory / "fifo")
        for option, path, why in (
            ("--sites", "none", "No such file"),
            ("--sites", "fifo", "neither a file nor a directory"),
            ("--sites", "a,b", "contains a comma"),
            ("--suppressions", "none", "No such file"),
            ("--suppressions", ".", "not a regular file"),
            ("--suppressions", "fifo", "not a regular file"),
            ("--suppressions", "a,b", "contains a comma"),
        ):
            self.refused(3, why, "--diagnose", option, path, "--", "true")
        self.assertEqual(list(self.directory.glob("homefree-report*")), [])

    def test_refused_program_leaves_no_directory(self):
        self.refused(3, "No such file", "--diagnose", "--", "./none")
        self.refused(3, "No such file", "--diagnose", "--report", "r", "--", "./none")
        self.assertEqual(os.listdir(self.directory), [])

    def test_program_that_does_not_start_leaves_no_directory(self):
        """The kernel may refuse what the examination let pass."""
        env = self.environment(LD_PRELOAD="x" * (32 * 4096 - len("LD_PRELOAD=") - 1))
        status, _, err = self.run_it("--diagnose", "true", env=env)
        self.assertEqual(status, 3)
        self.assertIn("cannot run 'true': Argument list too long", err)
        self.assertEqual(os.listdir(self.directory), [])


class Refused(Installation):
    """Programs into which nothing can be preloaded."""

    def unfit(self, why, *command):
        self.refused(3, f"cannot run '{command[0]}' on the heap: {why}", "--", *command)

    def test_static(self):
        kinds = [flag for flag in ("-static", "-static-pie") if links(flag)]
        for flag in kinds:
            self.unfit("it is linked statically", self.build("program", IDLE, flag))
        if not kinds:
            self.skipTest("no static libc")

    def test_shared_object(self):
        library = self.build("library.so", "int x;", "-shared", "-fPIC")
        self.unfit("it is linked statically", library)

    def test_object_file(self):
        program = self.build("object.o", IDLE, "-c")
        program.chmod(0o755)
        self.refused(3, "an ELF file, but no program", program)

    def test_32_bit(self):
        program = (
            self.build("program", IDLE, "-m32")
            if links("-m32")
            else self.write("program", b"\x7fELF\x01\x01\x01" + bytes(64))
        )
        self.unfit("it is built for a different machine than libhomefree: a 32-bit", program)

    def test_other_machine(self):
        bytes_ = bytearray(Path("/bin/true").read_bytes())
        for machine in (0, 8, 62, 183, 243):
            bytes_[18:20] = struct.pack("<H", machine)
            if bytes(bytes_) != Path("/bin/true").read_bytes():
                self.unfit(
                    "it is built for a different machine", self.write("program", bytes(bytes_))
                )

    def test_musl(self):
        linker = "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"
        self.unfit("it is built for musl", self.build("program", IDLE, linker))
        code = self.write("program.c", IDLE)
        if shutil.which("musl-gcc"):
            subprocess.run(["musl-gcc", code, "-o", self.directory / "real"], check=True)
            self.unfit("it is built for musl", self.directory / "real")

    def test_needs_musl(self):
        musl = self.build("libc.musl-x86_64.so.1", "", "-shared", "-fPIC",
                          "-Wl,-soname,libc.musl-x86_64.so.1")  # fmt: skip
        program = self.build("program", IDLE, "-Wl,--no-as-needed", str(musl))
        self.unfit("it is built for musl", program)

    def test_sanitizers(self):
        """Their runtimes do not start, or crash, behind a preloaded library."""
        for name, sanitizer in (
            ("libasan.so.8", "Address"),
            ("libclang_rt.asan-x86_64.so", "Address"),
            ("libtsan.so.2", "Thread"),
        ):
            runtime = self.build(name, "", "-shared", "-fPIC", f"-Wl,-soname,{name}")
            program = self.build("program", IDLE, "-Wl,--no-as-needed", str(runtime))
            with self.subTest(name):
                self.unfit(f"it is built with {sanitizer}Sanitizer, whose", program)

    def test_other_libc(self):
        other = self.build("linker.so", "int x;", "-shared", "-fPIC", "-Wl,-soname,linker64")
        program = self.build("program", IDLE, f"-Wl,--dynamic-linker={other}")
        self.unfit("it is built for another libc", program)
        other = self.build("ld-linux-x86-64.so.2", "", "-shared", "-Wl,-soname,libgcompat.so.0")
        program = self.build("program", IDLE, f"-Wl,--dynamic-linker={other}")
        self.unfit("it is built for another libc", program)

    def test_missing_linker(self):
        program = self.build("program", IDLE, "-Wl,--dynamic-linker=/no/such/ld.so")
        self.refused(3, "its dynamic linker '/no/such/ld.so' cannot be used", program)

    def test_renamed_linker_of_glibc(self):
        """As some distributions and packers have it."""
        linker = re.search(r"(/\S+/ld-linux\S+)\]", self.readelf("-l", "/bin/true")).group(1)
        (self.directory / "ld-2.36.so").symlink_to(os.path.realpath(linker))
        flag = f"-Wl,--dynamic-linker={self.directory}/ld-2.36.so"
        self.assertEqual(self.runs(self.build("program", IDLE, flag)), "")
        self.assertEqual(self.runs(linker, "/bin/echo", "x"), "x\n")
        self.assertEqual([name for _, name in self.loaded()], [PRELOAD, PRELOAD])

    def readelf(self, *arguments):
        return subprocess.run(
            ["readelf", "-W", *arguments], stdout=subprocess.PIPE, text=True, check=True
        ).stdout

    def test_missing_and_not_executable(self):
        self.write("plain", "", 0o644)
        self.write("empty", "")
        self.write("text", "echo hello\n")
        os.mkfifo(self.directory / "fifo", 0o777)
        for command, why in (
            ("./none", "No such file or directory"),
            ("none-such-command", "no directory of PATH has it"),
            ("plain", "no directory of PATH has it; the file here is ./plain"),
            ("./plain", "Permission denied"),
            ("./plain/x", "Not a directory"),
            ("./empty", "neither an ELF file nor a script"),
            ("./text", "neither an ELF file nor a script"),
            ("./fifo", "Permission denied"),
            ("/dev/null", "Permission denied"),
            (".", "Permission denied"),
            ("/", "Is a directory"),
        ):
            self.refused(3, f"cannot run '{command}': {why}", "--", command, env=self.reachable())

    @unittest.skipUnless(ROOT, "needs another user")
    def test_unreadable(self):
        program = self.build("program", IDLE)
        program.chmod(0o711)
        self.refused(3, "it cannot be read, and so not be examined", program, user=NOBODY)
        self.assertEqual(self.runs(program), "")

    def test_name_that_would_control_the_terminal(self):
        self.refused(3, "cannot run './?[31mx'", "--", "./\033[31mx")

    def test_own_malloc(self):
        source = "#include <stdlib.h>\nvoid *malloc(size_t n) { return NULL; }\n" + IDLE
        program = self.build("program", source, "-rdynamic", "-fno-builtin")
        status, _, err = self.run_it("--", program)
        self.assertEqual((status, err.count("\n")), (0, 1), err)
        self.assertIn("exports a malloc of its own", err)
        hidden = self.build(
            "hidden",
            source.replace("void *m", '__attribute__((visibility("hidden"))) void *m'),
            "-rdynamic",
        )
        self.assertEqual(self.runs(hidden), "")
        caller = "#include <stdlib.h>\nvoid *x = (void *)malloc;\n" + IDLE
        # Its symbol has an address in the program, but is libc's.
        self.assertEqual(self.runs(self.build("caller", caller, "-no-pie", "-fno-pie")), "")


class Scripts(Installation):
    """Interpreters, as the kernel and env find them."""

    def test_script(self):
        self.write("script", "#!/bin/sh -e\necho $0 $1; false; echo no\n")
        status, out, err = self.run_it("./script", "x")
        self.assertEqual((status, out, err), (1, b"./script x\n", ""))

    def test_static_interpreter(self):
        if not links("-static"):
            self.skipTest("no static libc")
        static = self.build("static", IDLE, "-static")
        script = self.write("script", f"#!{static}\n")
        why = f"its interpreter '{static}': it is linked statically"
        self.refused(3, why, script)
        self.refused(3, why, self.write("outer", f"#!{script}\n"))
        self.write("through", "#!/usr/bin/env static\n")
        path = f"{self.directory}:{os.environ['PATH']}"
        self.refused(3, why, "./through", env=self.environment(PATH=path))
        self.write("split", "#!/usr/bin/env -S -u HOME A=1 static -x\n")
        self.refused(3, why, "./split", env=self.environment(PATH=path))

    def test_python_through_env(self):
        self.write("script", "#!/usr/bin/env python3\nprint('here')\n")
        self.assertEqual(self.runs("./script"), "here\n")
        names = {name for _, name in self.loaded()}
        self.assertEqual(names, {PRELOAD})

    def test_env_that_drops_the_library(self):
        self.write("script", "#!/usr/bin/env -S -i /bin/sh\n")
        self.refused(3, "env changes LD_PRELOAD there", "./script")

    def test_missing_interpreter(self):
        self.write("script", "#!/no/such/interpreter\n")
        self.refused(3, "its interpreter '/no/such/interpreter': No such file", "./script")
        self.write("script", "#!/usr/bin/env no-such-command\n")
        why = "its interpreter 'no-such-command': No such file"
        self.refused(3, why, "./script", env=self.reachable())

    def kernel(self, *command):
        """The errno of execve(2), 0 if there is none."""
        try:
            subprocess.run(command, cwd=self.directory, stdout=subprocess.DEVNULL, timeout=60)
        except OSError as error:
            return error.errno
        return 0

    def test_depth(self):
        """The kernel follows five scripts."""
        inner = Path("/bin/true")
        for depth in range(1, 9):
            inner = self.write(f"script{depth}", f"#!{inner}\n")
            fits = self.kernel(inner) == 0
            self.assertEqual(self.run_it(inner)[0] == 0, fits, depth)
            self.assertEqual(fits, depth <= 5)

    def test_circle(self):
        self.write("one", f"#!{self.directory}/two\n")
        self.write("two", f"#!{self.directory}/one\n")
        self.assertEqual(self.kernel("./one"), errno.ELOOP)
        self.refused(3, "too many scripts", "./one")
        path = f"{self.directory}:{os.environ['PATH']}"
        self.write("three", "#!/usr/bin/env three\n")
        self.refused(3, "too many scripts start each other", "./three",
                     env=self.environment(PATH=path))  # fmt: skip

    def test_first_lines_as_the_kernel_reads_them(self):
        shutil.copy("/bin/true", self.directory / "t")
        pieces = [b"#!", b" ", b"\t", b"\n", b"\0", b"./t", b"/bin/true", b"x", b"\r", b"#", b"",
                  b"y" * 120, b"/./" * 40, b"\n"]  # fmt: skip
        generator = random.Random(4)
        seen = {True: 0, False: 0}
        for _ in range(400):
            count = generator.randrange(1, 7)
            line = b"#!" + b"".join(generator.choice(pieces) for _ in range(count))
            self.write("script", line)
            fits = self.kernel("./script") == 0
            status, _, err = self.run_it("./script")
            self.assertEqual(status == 0, fits, (line, err))
            seen[fits] += 1
        self.assertGreater(min(seen.values()), 20)


class Search(Installation):
    """PATH, as execvp(3) searches it. env is the oracle."""

    def test_search(self):
        for name in ("one", "two", "three"):
            (self.directory / name).mkdir()
        (self.directory / "one/word").mkdir()
        self.write("two/word", "#!/bin/sh\necho two\n", 0o644)
        self.write("three/word", "#!/bin/sh\necho three $0\n")
        self.write("word", "#!/bin/sh\necho here $0\n")
        self.write("sh-only-here", "#!/bin/sh\necho $0\n")
        paths = ["one:two:three", "one:two", "one", "none:three", ":three", "three:", "", ":"]
        paths += ["one::three", "one/../three/", None, "./three", str(self.directory), "one/word"]
        for path in paths:
            for name in ("word", "sh-only-here", "sh"):
                env = self.environment(PATH=path)
                command = ["/usr/bin/env", name, "-c", ":"]
                oracle = subprocess.run(command, cwd=self.directory, env=env, capture_output=True)
                status, out, err = self.run_it(name, "-c", ":", env=env)
                with self.subTest(path=path, name=name):
                    if oracle.returncode == 0:
                        self.assertEqual((status, out, err), (0, oracle.stdout, ""))
                    else:
                        self.assertEqual(status, 3)
                        reason = oracle.stderr.decode().strip().rpartition(": ")[2]
                        for text, here in (
                            ("Permission denied", "denied"),
                            ("No such file or directory", "no directory of PATH has it"),
                        ):
                            reason = reason.replace(text, here)
                        self.assertIn(reason, err)


@unittest.skipUnless(ROOT, "needs root to make privileged programs")
class Privileged(Installation):
    """Refused exactly if the kernel starts the program with AT_SECURE."""

    # Revision 2, little-endian: permitted and inheritable sets, twice.
    CAPABILITIES = {
        "none": None,
        "effective": struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0),
        "permitted": struct.pack("<5I", 0x02000000, 1 << 10, 0, 0, 0),
        "inheritable": struct.pack("<5I", 0x02000000, 0, 1 << 10, 0, 0),
        "high": struct.pack("<5I", 0x02000000, 0, 0, 1 << 7, 0),
        "empty": struct.pack("<5I", 0x02000000, 0, 0, 0, 0),
        "revision 1": struct.pack("<3I", 0x01000001, 1 << 10, 0),
        "another namespace": struct.pack("<6I", 0x03000001, 1 << 10, 0, 0, 0, 1000),
    }

    def secure(self, program, **options):
        """What AT_SECURE is in the program; None if it does not start."""
        try:
            done = subprocess.run([program], stdout=subprocess.PIPE, **options)
        except OSError:
            return None
        return done.stdout == b"1\n"

    def agrees(self, program, **options):
        secure = self.secure(program, **options)
        status, out, err = self.run_it(program, **options)
        loaded = self.loaded()
        status_of = program.stat()
        with self.subTest((oct(status_of.st_mode), status_of.st_uid, status_of.st_gid), **options):
            if secure:
                self.assertEqual(status, 3, err)
                self.assertIn("it runs with other privileges than its caller", err)
            elif secure is False:
                self.assertEqual((status, out, err), (0, b"0\n", ""))
                self.assertEqual([name for _, name in loaded], [PRELOAD])
            else:
                self.assertEqual(status, 3)
        return secure

    def test_modes_and_owners(self):
        program = self.build("program", STATUS)
        seen = set()
        for owner, group in ((0, 0), (NOBODY, NOBODY), (0, NOBODY), (1, 1)):
            for mode in (0o755, 0o4755, 0o2755, 0o6755, 0o2745, 0o4711):
                os.chown(program, owner, group)
                program.chmod(mode)
                for user in (0, NOBODY):
                    seen.add(self.agrees(program, user=user, group=user, extra_groups=[]))
        self.assertLessEqual({True, False}, seen)

    def test_capabilities(self):
        program = self.build("program", STATUS)
        seen = {}
        for name, value in self.CAPABILITIES.items():
            if value is not None:
                try:
                    os.setxattr(program, "security.capability", value)
                except OSError as error:
                    if name == "none":
                        self.skipTest(f"no file capabilities here: {error}")
                    continue
            for user in (0, NOBODY):
                seen[name, user] = self.agrees(program, user=user, group=user, extra_groups=[])
        self.assertEqual(seen["effective", NOBODY], True)
        self.assertEqual(seen["effective", 0], False)

    def test_no_new_privileges(self):
        program = self.build("program", STATUS)
        program.chmod(0o6755)
        libc = ctypes.CDLL(None)

        def prepare():
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)

        self.assertEqual(self.agrees(program, preexec_fn=prepare), False)
        program.chmod(0o755)
        for name, value in self.CAPABILITIES.items():
            if value is not None:
                try:
                    os.setxattr(program, "security.capability", value)
                except OSError:
                    continue
                with self.subTest(name):
                    self.agrees(program, preexec_fn=prepare)

    def test_caller_with_other_effective_ids(self):
        program = self.build("program", STATUS)

        def prepare():
            os.setgroups([])
            os.setresuid(NOBODY, 0, 0)

        self.assertEqual(self.agrees(program, preexec_fn=prepare), True)

    def test_script_of_a_privileged_interpreter(self):
        program = self.build("program", STATUS)
        script = self.write("script", f"#!{program}\n")
        program.chmod(0o4755)
        self.assertEqual(self.agrees(script, user=NOBODY, group=NOBODY, extra_groups=[]), True)
        program.chmod(0o755)
        script.chmod(0o4755)  # which the kernel ignores
        self.assertEqual(self.agrees(script, user=NOBODY, group=NOBODY, extra_groups=[]), False)


if __name__ == "__main__":
    unittest.main()
