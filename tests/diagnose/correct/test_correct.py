"""Correct programs behave the same under `homefree run`, with and without --diagnose, and
diagnostics mode finds nothing.

Usage: test_correct.py --homefree COMMAND --programs PROGRAM... [unittest arguments]
"""

import os
import random
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from diagnosis import TIMEOUT, DiagnosisTest, arguments, main, parser  # noqa: E402

parser.add_argument("--programs", nargs="+", required=True)

MIB = 1 << 20


class Correct(DiagnosisTest):
    def program(self, name):
        (path,) = [p for p in arguments.programs if Path(p).name == name]
        return path

    def plain(self, *command, **more):
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT, **more)
        return done.returncode, done.stdout.decode()

    def same(self, name):
        program = self.program(name)
        plain = self.plain(program)
        self.assertEqual(self.plain(arguments.homefree, "run", "--", program), plain)
        run = self.diagnose(program)
        self.assertEqual((run.status, run.output), plain, run.errors)
        self.assertEqual(run.report["findings"], [])
        return run

    def test_operators_of_the_program(self):
        self.same("own-operators")

    def test_operators_by_their_addresses(self):
        """ctypes, for one, looks them up in the C++ runtime, whose operators jump to each other."""
        self.assertEqual(self.same("looked-up-operators").output, "all right\n")

    def test_many_objects_with_their_own_scope(self):
        self.assertEqual(self.same("deep-plugins").output, "all right\n")

    def test_every_function_of_the_malloc_family(self):
        run = self.same("every-function")
        self.assertEqual(run.output, "all right\n")

    def test_more_memory_than_there_is(self):
        self.same("huge")

    def test_dispositions_of_signals(self):
        run = self.same("dispositions")
        self.assertEqual(run.status, -signal.SIGABRT)
        self.assertEqual(run.report["processes"][0]["end"], "signal")

    def test_objects_closed_by_constructors(self):
        self.same("early-close")

    def test_report_that_is_cut_short(self):
        program, directory = self.program("shortened"), self.directories.new()
        run = self.diagnose(program, directory, directory=directory)
        self.assertEqual((run.status, run.output), self.plain(program), run.errors)
        self.assertIn("another process cut the report's file short", run.errors)
        self.assertEqual(len(run.summary()), 1)

    def test_children_of_a_shell_are_silent(self):
        """bash has a getenv() and a setenv() of its own, which are not libc's."""
        script = "x=$(/bin/bash -c 'echo one; :' 2>&1; :); echo \"$x\"; exit 6"
        command = ["/bin/bash", "-c", script]
        run = self.diagnose(*command)
        self.assertEqual((run.status, run.output), self.plain(*command), run.errors)
        self.assertEqual(len(run.summary()), 1, run.errors)

    def test_summary_stays_out_of_the_programs_files(self):
        """Also after bash has become the command."""
        file = Path(self.directories.new())
        for script in (f"exec /bin/bash -c ': x; :' 2>{file}", f"exec 2>{file}; :"):
            command = ["/bin/bash", "-c", script]
            run = self.diagnose(*command)
            self.assertEqual((run.status, file.read_text()), (0, ""))
        script = f"{self.program('dispositions')} >{file} 2>&1; :"  # ends by a signal
        run = self.diagnose("/bin/bash", "-c", script)
        self.assertEqual(file.read_text(), self.plain(self.program("dispositions"))[1])

    def test_child_of_a_system_call(self):
        self.same("raw-fork")
        program = self.program("raw-fork")
        run = self.diagnose(program, "fault")
        self.assertEqual((run.status, run.output), (0, "3\n"), run.errors)
        (finding,) = run.report["findings"]
        self.assertEqual((finding["rule"], finding["count"]), ("static-free", 1))
        parent, child = sorted(run.report["processes"], key=lambda one: one["status"])
        self.assertEqual((parent["status"], child["status"]), (0, 3))
        self.assertEqual(child["parent"], parent["pid"])

    def test_threads_that_are_to_be_cancelled(self):
        self.assertEqual(self.same("cancelled").output, "all right\n")
        program = self.program("cancelled")
        run = self.diagnose(program, "fault")
        self.assertEqual((run.status, run.output), (0, "all right\n"), run.errors)
        (finding,) = run.report["findings"]
        self.assertEqual((finding["rule"], finding["count"]), ("static-free", 1))

    def test_children_with_an_environment_of_their_own(self):
        """They find the directory of the process that started them."""
        directory = Path(self.directories.new())
        directory.mkdir()
        library = Path(arguments.homefree).resolve().parents[1] / "libhomefree-diagnose.so"
        script = (
            "env -i LD_PRELOAD=$LD_PRELOAD /bin/sh -c '/bin/echo one; env -i /bin/true; exit 6'"
        )
        command = ["/bin/sh", "-c", f"{script}; exit $?"]
        environment = {"PATH": "/usr/bin:/bin", "LD_PRELOAD": str(library)}
        done = subprocess.run(
            command, capture_output=True, timeout=TIMEOUT, cwd=directory, env=environment
        )
        self.assertEqual((done.returncode, done.stdout), (6, b"one\n"), done.stderr)
        (report,) = directory.iterdir()
        self.assertGreaterEqual(len(list(report.glob("*.hfreport"))), 3)
        self.assertEqual(done.stderr.count(b"diagnosis of process"), 1, done.stderr)

    def test_complaints_come_once(self):
        """Not from each child: its standard error belongs to the program."""
        for value in (
            "mode:often",
            "nonsense",
            "mode:count,directory:/dev/null,suppressions:/dev/null",
        ):
            done = self.under(value)
            lines = [line for line in done.stderr.splitlines() if b"diagnosis of" not in line]
            self.assertEqual((done.returncode, done.stdout), (6, b"one\n"), value)
            self.assertEqual(len(lines), len(set(lines)), lines)

    def under(self, value):
        """A shell and its child under a diagnosis whose variable holds this value."""
        library = Path(arguments.homefree).resolve().parents[1] / "libhomefree-diagnose.so"
        environment = {"LD_PRELOAD": str(library), "HOMEFREE_DIAGNOSE": value}
        script = "/bin/echo one; exit 6"
        directory = self.directories.new()
        os.mkdir(directory)
        return subprocess.run(
            ["/bin/sh", "-c", script],
            capture_output=True,
            timeout=TIMEOUT,
            env=environment,
            stdin=subprocess.DEVNULL,
            cwd=directory,
        )

    def test_values_of_the_variable(self):
        """Directories, reports and suppressions that are something else; values that are
        nothing."""
        directory = Path(self.directories.new())
        directory.mkdir()
        (directory / "file").write_bytes(b"x")
        os.mkfifo(directory / "fifo")
        (directory / "loop").symlink_to("loop")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(directory / "socket"))
        paths = [
            directory / name for name in ("file", "fifo", "loop", "socket", "none/x", "x" * 300)
        ]
        paths += ["/dev/full", "/dev/zero", "/proc/self", "/proc/self/mem"]
        values = [f"mode:report,{key}:{path}" for path in paths for key in ("directory", "sites")]
        values += [f"directory:{directory}/out,suppressions:{path}" for path in paths]
        letters = random.Random(1)
        alphabet = "mode:directory,stderrsitesroot/:,=%-\x01\n0123456789\u00ff"
        for length in (1, 10, 100, 1000, 10000):
            values += ["".join(letters.choices(alphabet, k=length)) for _ in range(4)]
        for value in values:
            with self.subTest(value=value[:200]):
                done = self.under(value)
                self.assertEqual((done.returncode, done.stdout), (6, b"one\n"), done.stderr)

    def test_malloc_of_the_program(self):
        self.same("own-malloc")

    def test_limit_on_the_size_of_files(self):
        for limit in (0, 1, 16 * 1024, MIB, 20 * MIB):
            directory = self.directories.new()

            def prepare(limit=limit):
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

            with self.subTest(limit=limit):
                program = self.program("own-operators")
                run = self.diagnose(program, directory=directory, preexec_fn=prepare)
                self.assertEqual(run.status, 0, run.errors)
                if limit < MIB:
                    self.assertIn("cannot write a report", run.errors)
                else:
                    self.assertEqual(run.report["findings"], [])

    def test_file_that_is_replaced_by_a_link(self):
        """A report must not shrink another file."""
        directory = self.directories.new()
        victim = Path(self.directories.new())
        victim.write_bytes(bytes(64 * MIB))
        script = f"for f in {directory}/$$-*.hfreport; do rm $f; ln -s {victim} $f; done; exit 0"
        run = self.diagnose("/bin/bash", "-c", script, directory=directory)
        self.assertEqual(run.status, 0, run.errors)
        self.assertTrue(any(path.is_symlink() for path in Path(directory).iterdir()))
        self.assertEqual(victim.stat().st_size, 64 * MIB)


if __name__ == "__main__":
    main()
