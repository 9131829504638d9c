"""Runs programs, and the command beside them. Nothing here waits for time: a program says when it
is ready, and answers what it is told."""

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TIMEOUT = 60
DASHBOARDS = Path(__file__).resolve().parents[3] / "docs/prometheus"
NOBODY = 65534
READ = {"x86_64": 0, "aarch64": 63}.get(os.uname().machine)  # read(2)
CC = shlex.split(os.environ.get("CC", "cc"))

parser = argparse.ArgumentParser()
for _option in ("homefree", "library", "preload", "target", "walked", "liar", "refuse"):
    parser.add_argument(f"--{_option}", required=True, type=os.path.abspath)
parser.add_argument("--package", default="")
parser.add_argument("--modules", nargs="*", default=[], type=os.path.abspath)
arguments, rest = parser.parse_known_args()


def main():
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


class Running:
    """A process that has said "ready PID"."""

    def __init__(self, command, env=None, **more):
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
            **more,
        )
        line = self.line()
        assert line.startswith("ready "), line
        self.pid = int(line.split()[1])

    def line(self):
        return self.process.stdout.readline().rstrip("\n")

    def tell(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.line()

    def end(self):
        """Its exit status, after the end of its input."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(TIMEOUT)

    def switches(self):
        """How often each of its threads has run and waited."""
        found = {}
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            text = (task / "status").read_text()
            found[task.name] = re.findall(r"ctxt_switches:\s*(\d+)", text)
        return found

    def settle(self):
        """Waits until it waits for its input, in which it then stays."""
        path = Path(f"/proc/{self.pid}/syscall")
        while not path.read_text().startswith(f"{READ} 0x0 "):
            os.sched_yield()

    def remove(self):
        self.process.kill()
        self.end()


class Looking(unittest.TestCase):
    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="homefree-test-live-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def run_target(self, *command, env=None, **more):
        running = Running(command or [arguments.target], env, **more)
        self.addCleanup(running.remove)
        return running

    def diagnose(self, *command, **more):
        """A diagnosed process; its report's directory is self.directory / "report"."""
        return self.run_target(
            arguments.homefree,
            "run",
            "--diagnose",
            "--report",
            str(self.directory / "report"),
            "--",
            *(command or [arguments.target]),
            stderr=subprocess.DEVNULL,
            **more,
        )

    def command(self, *words, **more):
        return subprocess.run(
            [arguments.homefree, *map(str, words)],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=TIMEOUT,
            text=True,
            errors="replace",
            **more,
        )

    def document(self, what, pid, statuses=(0, 1), **more):
        done = self.command(what, "--json", "--pid", pid, **more)
        self.assertIn(done.returncode, statuses, done.stderr)
        return json.loads(done.stdout)

    def doctor(self, pid, **more):
        document = self.document("doctor", pid, **more)
        self.assertEqual(document["homefree"]["document"], "doctor")
        (process,) = document["processes"]
        self.assertEqual((process["recorded"], process["pid"]), ("live", pid))
        return process

    def refused(self, status, message, *words, **more):
        done = self.command(*words, **more)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith(f"homefree {words[0]}: "), done.stderr)
        self.assertIn(message, done.stderr)

    def check_that_it_does_not_run(self, what, target):
        """Nothing stops the process, and nothing runs in it."""
        if READ is None or not os.path.exists("/proc/self/syscall"):
            self.skipTest("the kernel does not show system calls")
        target.settle()
        before = target.switches()
        self.document(what, target.pid)
        self.assertEqual(target.switches(), before)
        self.assertEqual(target.tell("blocks", 1), "done")
        self.assertEqual(target.end(), 0)

    def mounts_of_its_own(self):
        """A command after which the shell has mounts of its own, and a directory to mount on."""
        unshare = namespaces()
        if unshare is None:
            self.skipTest("no namespaces")
        inside = self.directory / "inside"
        inside.mkdir()
        return unshare, inside

    def as_nobody(self):
        """What makes the command run as a user who owns nothing, where that can be."""
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        here = Path("loader/command/homefree")
        homefree, built = self.directory / here, Path(arguments.homefree).parents[2]
        shutil.copytree(
            built / "python/homefree/command", self.directory / "python/homefree/command"
        )
        homefree.parent.mkdir(parents=True)
        shutil.copy(arguments.homefree, homefree)
        homefree.chmod(0o755)
        homefree.with_name("python3").symlink_to("/usr/bin/python3")  # everybody's
        self.directory.chmod(0o755)
        for name in ("target", "refuse"):
            shutil.copy(getattr(arguments, name), self.directory / name)
            (self.directory / name).chmod(0o755)
        return {"executable": str(homefree), "user": NOBODY, "group": NOBODY, "extra_groups": []}

    def check_processes_that_are_none(self, what):
        """The numbers that both commands refuse alike."""
        for text in ("0", "-1", "", "x", "1x", " 1", "+1", "0x1", "2147483648", "9" * 40):
            with self.subTest(text=text):
                self.refused(2, "is not a process number", what, f"--pid={text}")
        with self.subTest("of nobody"):
            self.refused(3, "there is no process 2147483647", what, "--pid", 2147483647)
        with self.subTest("of the kernel"):
            path = Path("/proc/2/comm")
            if path.exists() and path.read_text() == "kthreadd\n":
                self.refused(3, "belongs to the kernel", what, "--pid", 2)
        with self.subTest("ended"):
            target = self.run_target()
            self.refused(3, "has ended", what, "--pid", target.tell("corpse"))
        with self.subTest("a thread"):
            target = self.run_target()
            thread = target.tell("id")
            self.refused(3, f"its process is {target.pid}", what, "--pid", thread)
        with self.subTest("with a path"):
            self.assertEqual(self.command(what, "--pid", os.getpid(), "more").returncode, 2)

    def check_one_of_another_user(self, what):
        if os.geteuid() != 0:
            self.refused(3, "process 1 may not be examined", what, "--pid", 1)
            return
        target = self.run_target()
        self.refused(3, "may not be examined", what, "--pid", target.pid, **self.as_nobody())
        self.assertEqual(target.end(), 0)

    def check_ending_while_looked_at(self, what, start):
        """Whatever moment it ends at: a result, or one line."""
        for _ in range(10):
            target = start()
            looking = subprocess.Popen(
                [arguments.homefree, what, "--json", "--pid", str(target.pid)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            target.process.send_signal(signal.SIGKILL)
            output, errors = looking.communicate(timeout=TIMEOUT)
            self.assertIn(looking.returncode, (0, 1, 3), errors)
            if looking.returncode == 3:
                self.assertEqual(errors.count("\n"), 1, errors)
            else:
                json.loads(output)


def namespaces():
    """A command after which the shell has mounts of its own, or None."""
    for command in (["unshare", "-m"], ["unshare", "-rm"]):
        try:
            if subprocess.run([*command, "true"], capture_output=True).returncode == 0:
                return command
        except OSError:
            return None
    return None


def names(paths):
    # Before glibc 2.34 its files have its version in their names.
    return sorted(re.sub(r"(-2[0-9.]+)?\.so.*", ".so", os.path.basename(path)) for path in paths)
