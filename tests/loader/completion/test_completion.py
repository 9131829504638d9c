"""The completion of bash, zsh and fish offers every command, option and rule that there is. Each
shell that is installed is asked as its user would.

Usage: test_completion.py HOMEFREE DIRECTORY [unittest arguments]
"""

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import unittest

HOMEFREE, DIRECTORY = (os.path.abspath(path) for path in (sys.argv.pop(1), sys.argv.pop(1)))


def output_of(*arguments):
    return subprocess.run(
        [HOMEFREE, *arguments], stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def options_of(command):
    return set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", output_of(command, "--help"), re.MULTILINE))


COMMANDS = set(re.findall(r"^  ([a-z]+) ", output_of("--help").split("Commands:")[1], re.MULTILINE))
RULES = {rule["rule"] for rule in json.loads(output_of("inspect", "--rules", "--json"))["rules"]}


class Shell:
    """Each shell: whether its file can be parsed, and the words that it offers for a line."""

    def shell(self, script, *arguments):
        done = subprocess.run(
            [*self.start, script, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=self.directory,
            env={
                **os.environ,
                "PATH": f"{self.directory}:{os.environ['PATH']}",
                "HOME": self.directory,
            },
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return done.stdout

    @classmethod
    def setUpClass(cls):
        if shutil.which(cls.name) is None:
            raise unittest.SkipTest(f"{cls.name} is not installed")

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="homefree-test-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        os.symlink(HOMEFREE, os.path.join(self.directory, "homefree"))

    def test_commands(self):
        self.assertLessEqual({*COMMANDS, "help"}, self.offered("homefree "))
        self.assertLessEqual(COMMANDS, self.offered("homefree help "))

    def test_options(self):
        for command in sorted(COMMANDS):
            with self.subTest(command):
                offered = self.offered(f"homefree {command} --")
                self.assertEqual(
                    {word for word in offered if word.startswith("--")}, options_of(command)
                )
        self.assertEqual(self.offered("homefree inspect --juni"), {"--junit"})
        self.assertEqual(self.offered("homefree run -- true --"), set())

    def test_rules(self):
        self.assertLessEqual({*RULES, "error"}, self.offered("homefree inspect --fail-on "))
        self.assertEqual(self.offered("homefree inspect --fail-on own"), {"own-free"})


class Bash(Shell, unittest.TestCase):
    name = "bash"
    start = ("bash", "--norc", "--noprofile", "-uec")
    file = os.path.join(DIRECTORY, "homefree.bash")

    def offered(self, line):
        words = line.split(" ")
        script = '. "$0"; COMP_CWORD=$(($# - 1)); COMP_WORDS=("$@"); _homefree'
        script += '; printf "%s\\n" ${COMPREPLY[@]+"${COMPREPLY[@]}"}'
        return set(self.shell(script, self.file, *words).split())

    def test_it_is_registered(self):
        self.assertIn("-F _homefree homefree", self.shell('. "$0"; complete -p', self.file))


class Fish(Shell, unittest.TestCase):
    name = "fish"
    start = ("fish", "--no-config", "-c")
    file = os.path.join(DIRECTORY, "homefree.fish")

    def offered(self, line):
        script = f"source {self.file}; complete -C '{line}'"
        words = {word.split("\t")[0] for word in self.shell(script).splitlines()}
        return {word for word in words if "/" not in word and word != "homefree"}


class Zsh(Shell, unittest.TestCase):
    """zsh completes only on a terminal. One shell serves all tests, and notes what it lists."""

    name = "zsh"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        directory = tempfile.TemporaryDirectory(prefix="homefree-test-")
        cls.addClassCleanup(directory.cleanup)
        os.symlink(HOMEFREE, os.path.join(directory.name, "homefree"))
        cls.listed = os.path.join(directory.name, "words")
        with open(os.path.join(directory.name, ".zshrc"), "w") as file:
            file.write(
                f"fpath=({DIRECTORY} $fpath); autoload -Uz compinit; compinit -u -D\n"
                f'compadd() {{ local -a _words; builtin compadd -O _words "$@"\n'
                f'print -rl -- $_words >> {cls.listed}; builtin compadd "$@"; }}\n'
                "LISTMAX=9999; PS1='rea''dy> '\n"
            )
        pid, cls.terminal = pty.fork()
        if pid == 0:
            os.chdir(directory.name)
            path = f"{directory.name}:{os.environ['PATH']}"
            home = {"HOME": directory.name, "ZDOTDIR": directory.name}
            os.execvpe("zsh", ["zsh", "-i"], {"PATH": path, "TERM": "dumb", **home})
        cls.addClassCleanup(os.waitpid, pid, 0)
        cls.addClassCleanup(os.close, cls.terminal)
        cls.read_until(b"ready> ")

    @classmethod
    def read_until(cls, *marks):
        seen = b""
        while not re.search(b".*".join(marks), seen, re.DOTALL):
            if not select.select([cls.terminal], [], [], 30)[0]:
                raise TimeoutError(seen)
            seen += os.read(cls.terminal, 65536)

    def offered(self, line):
        open(self.listed, "w").close()
        # The line is removed again, and the next command is run when the list is complete.
        os.write(self.terminal, line.encode() + b"\t\x15print -r -- d''one\n")
        self.read_until(b"done", b"ready> ")
        with open(self.listed) as file:
            return set(file.read().split())


if __name__ == "__main__":
    unittest.main()
