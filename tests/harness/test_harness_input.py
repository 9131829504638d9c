"""Modules, scripts and command lines of every bad kind: `homefree test` says what is wrong, never
crashes or hangs, and leaves no process behind.

usage: test_harness_input.py COMMAND PACKAGE-DIRECTORY MODULES-DIRECTORY [unittest's arguments]
"""

import os
import shutil
import signal
import subprocess
import sys
import unittest

import harness

OTHER = "cpython-39" if sys.version_info[:2] != (3, 9) else "cpython-312"


class InDirectory(unittest.TestCase):
    def setUp(self):
        self.directory = harness.scratch(self)

    def module(self, name, text):
        (self.directory / f"{name}.py").write_text(text, encoding="utf-8")

    def run_test(self, *arguments):
        return harness.run(*arguments, directory=self.directory)

    def fails(self, message, *arguments, status=3):
        done = self.run_test(*arguments)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertRegex(done.stderr, r"^homefree test: [^\n]*\n\Z")
        self.assertIn(message, done.stderr)


class Modules(InDirectory):
    def test_no_module(self):
        self.fails("cannot import 'nosuch': ModuleNotFoundError", "nosuch")
        self.fails("cannot open", "./nosuch.so")
        self.fails("neither a module's name nor a path", "a b")
        (self.directory / "text.so").write_text("no ELF file\n", encoding="utf-8")
        self.fails("it is not an ELF file", "text.so")
        self.module("broken", "def (:\n")
        self.fails("SyntaxError", "broken")

    def test_shared_object_that_is_no_module(self):
        shutil.copy(harness.MODULES / "sound.abi3.so", self.directory / "renamed.so")
        self.fails("PyInit_renamed", "./renamed.so")

    def test_module_of_another_python(self):
        name = f"sound.{OTHER}-x86_64-linux-gnu.so"
        shutil.copy(harness.MODULES / "sound.abi3.so", self.directory / name)
        python = "--python python3.9" if OTHER == "cpython-39" else "--python python3.12"
        self.fails(python, "./" + name)
        self.fails(python, "sound")

    @unittest.skipIf(sys.version_info >= (3, 15), "this CPython loads such files")
    def test_module_of_another_stable_abi(self):
        shutil.copy(harness.MODULES / "sound.abi3.so", self.directory / "sound.abi3t.so")
        for given in ("./sound.abi3t.so", "sound"):
            self.fails("stable ABI of CPython 3.15 and later, which ", given)

    def test_nothing_to_learn(self):
        self.module("picky", "def take(a, b, c, d, e, f):\n    return bytes(3)\n")
        self.fails("give --script FILE", "picky")
        self.module("empty", "")
        self.fails("nothing learned", "empty")

    def test_invented_addresses_prove_nothing(self):
        self.module(
            "views",
            "import ctypes\n"
            "def view(address, size):\n"
            "    return (ctypes.c_char * size).from_address(address)\n"
            "def made():\n"
            "    return b'x'\n",
        )
        done = self.run_test("views", "--only", "/ same thread / without")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("views.made()", done.stdout)
        words = " ".join(done.stdout.split())
        self.assertRegex(words, r"proved nothing, [^:]*: views\.view\(3, 3\) \(ended its process\)")

    def test_pattern_that_fits_no_cell(self):
        self.module("makes", "def made():\n    return b'x'\n")
        done = self.run_test("makes", "--only", "no such cell")
        self.assertEqual(done.returncode, 3)
        self.assertIn("no cell matches --only 'no such cell'", done.stderr)

    def test_heads_of_the_table_are_whole(self):
        self.module("makes", "def made():\n    return b'x'\n")
        done = self.run_test("makes", *self.ONE)
        first, second = done.stdout.splitlines()[:2]
        for head in ("same", "subinterpreter", "interpreter", "unloading"):
            self.assertIn(f" {head} ", f"{first} ")
        # Each word stands above or below its other one.
        self.assertEqual(first.index("module"), second.index("gone"))
        self.assertEqual(first.index(" interpreter") + 1, second.index("exit"))

    ONE = "--only", "/ same thread / without", "--learn", "5"

    def test_streams_that_the_module_takes_away(self):
        self.module(
            "quiet",
            "import os, sys\n"
            "os.closerange(0, 3)\n"
            "sys.stdout = None\n"
            "def make():\n"
            "    return bytearray(10)\n",
        )
        done = self.run_test("quiet", *self.ONE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("quiet.make()", done.stdout)

    def test_exceptions_without_text(self):
        self.module(
            "mute",
            "class Mute(BaseException):\n"
            "    def __str__(self):\n"
            "        raise ValueError\n"
            "raise Mute()\n",
        )
        self.fails("cannot import 'mute': Mute: Mute", "mute")

    def test_slow_makers_do_not_hang(self):
        """Looking for leaks repeats them, but not until the cell's time is over."""
        self.module(
            "slow",
            "import time\ndef make():\n    time.sleep(0.02)\n    return bytearray(10)\n",
        )
        done = self.run_test("slow", *self.ONE, "--timeout", "6")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_no_host(self):
        """Where nothing was tested, nothing is clean."""
        self.module("starved", "import resource as r\nr.setrlimit(r.RLIMIT_NOFILE, (3, 3))\n")
        self.fails("nothing was tested: the host could not be made", "starved")

    def test_daemons_end_with_the_run(self):
        self.module(
            "daemon",
            "import os, time\n"
            "if os.fork() == 0:\n"
            "    os.setsid()\n"
            "    number = os.fork()\n"
            "    if number == 0:\n"
            "        time.sleep(1000)\n"
            f"    with open({str(self.directory / 'number')!r}, 'w') as file:\n"
            "        file.write(str(number))\n"
            "    os._exit(0)\n"
            "os.wait()\n"
            "def make():\n"
            "    return bytearray(10)\n",
        )
        done = self.run_test("daemon", *self.ONE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        number = int((self.directory / "number").read_text(encoding="utf-8"))
        with self.assertRaises(ProcessLookupError):
            os.kill(number, 0)

    def test_crash_at_import(self):
        self.module("crashes", "import ctypes\nctypes.string_at(1)\n")
        done = self.run_test("crashes")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"died, SIGSEGV: import crashes")
        self.assertIn("while the module was imported", done.stdout)

    def test_hang_at_import(self):
        self.module("hangs", "import time\ntime.sleep(3600)\n")
        done = self.run_test("hangs", "--timeout", "0.5")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("timed out: import hangs", done.stdout)

    def test_exit_at_import(self):
        self.module("leaves", "import os\nos._exit(0)\n")
        done = self.run_test("leaves")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("died: import leaves", done.stdout)

    def test_fork_and_print_at_import(self):
        self.module(
            "forks",
            "import os, sys\n"
            "os.fork()\n"
            "print('printed', flush=True)\n"
            "os.write(1, b'written\\n')\n"
            "def made():\n"
            "    print('called', flush=True)\n"
            "    return memoryview(bytes(100))\n",
        )
        done = self.run_test("forks", "--json", "--only", "/ same thread /")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("{"), done.stdout)
        self.assertEqual(done.stderr, "")

    def test_submodule_of_a_package(self):
        (self.directory / "pack/inner").mkdir(parents=True)
        (self.directory / "pack/__init__.py").write_text("def outer():\n    return b'x'\n")
        (self.directory / "pack/inner/__init__.py").write_text("def made():\n    return b'x'\n")
        done = self.run_test("pack.inner", "--list")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("pack.inner.made() / same thread / without homefree\n", done.stdout)
        self.assertNotIn("outer", done.stdout)

    def test_path_of_a_shared_object(self):
        done = harness.run(
            str(harness.MODULES / "sound.abi3.so"), "--list", directory=self.directory
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("sound.leaks() / unloading / homefree first\n", done.stdout)


class Scripts(InDirectory):
    def script(self, text):
        path = self.directory / "script.py"
        path.write_text(text, encoding="utf-8")
        return str(path)

    def test_script_teaches_arguments(self):
        self.module(
            "picky",
            "def take(a, b, c, d, e, f):\n    return memoryview(bytes([a]))\n"
            "def use(view, factor):\n    return bytes(view) * factor\n"
            "class Thing:\n"
            "    def __init__(self, size):\n        self.size = size\n"
            "    def part(self, size):\n        return memoryview(bytes(size))\n",
        )
        script = self.script(
            "import picky\npicky.use(picky.take(1, 2, 3, 4, 5, 6), 7)\npicky.Thing(3).part(2)\n"
            "picky.Thing([float('inf')])\npicky.Thing(float('nan'))\npicky.Thing(range(1 << 40))\n"
        )
        for how in (["--script", script], ["--", sys.executable, script]):
            done = self.run_test("picky", "--list", *how)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for crossing in (
                "take(1, 2, 3, 4, 5, 6)",
                "use(picky.take(1, 2, 3, 4, 5, 6), 7)",
                "Thing(3)",
                "Thing(3).part(2)",
                "Thing(<float>)",
                "Thing(<list>)",
                "Thing(<range>)",
            ):
                self.assertIn(f"picky.{crossing} / same thread / ", done.stdout)

    def test_methods_and_children(self):
        script = self.script(
            "import os, sound\n"
            "if os.fork() == 0:\n"
            "    sound.leaks()\n"
            "    os._exit(0)\n"
            "os.wait()\n"
            "sound.dies_unpickled().__reduce__()\n"
        )
        done = harness.run("sound", "--list", "--script", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        names = {line.split(" / ")[0] for line in done.stdout.splitlines()}
        self.assertEqual(names, {"sound.leaks()", "sound.dies_unpickled()"})

    def test_script_that_fails(self):
        script = self.script("import sound\nsound.leaks()\nraise SystemExit(4)\n")
        done = harness.run("sound", "--only", "/ same thread /", "--script", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the command exited with status 4", done.stdout)
        script = self.script("import os, sound\nsound.leaks()\nos.abort()\n")
        done = harness.run("sound", "--only", "/ same thread /", "--script", script)
        self.assertIn("the command was ended by SIGABRT", done.stdout)

    def test_script_without_the_module(self):
        self.module("unused", "def made():\n    return b'x'\n")
        self.fails("did not import 'unused'", "unused", "--script", self.script("pass\n"))
        self.fails("cannot run '/nosuch'", "unused", "--", "/nosuch")


class CommandLine(unittest.TestCase):
    def refused(self, message, *arguments):
        done = harness.run(*arguments)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertRegex(done.stderr, r"^homefree test: [^\n]*; see 'homefree test --help'\n\Z")
        self.assertIn(message, done.stderr)

    def test_wrong_usage(self):
        self.refused("no module is given")
        self.refused("'' is no module", "")
        self.refused("unknown option '--nosuch'", "sound", "--nosuch")
        self.refused("write '--' before the command 'b'", "sound", "b")
        self.refused("exclude each other", "sound", "--script", __file__, "--", "true")
        self.refused("cannot read '/nosuch'", "sound", "--script", "/nosuch")
        self.refused("cannot read '/nosuch'", "sound", "--beside", "/nosuch")
        self.refused("'0' is not a number", "sound", "-j", "0")
        self.refused("'x' is not a number of seconds", "sound", "--timeout", "x")

    def test_python_that_is_none(self):
        done = harness.run("sound", "--python", "/nosuch/python")
        self.assertEqual(done.returncode, 3)
        self.assertIn("cannot run '/nosuch/python'", done.stderr)

    def test_programs_that_are_no_python(self):
        """None of them may pass for a module without findings, or hang."""
        directory = harness.scratch(self)
        talker = directory / "talker"
        talker.write_text("#!/bin/sh\nwhile :; do echo homefreehomefreehomefree 41; done\n")
        talker.chmod(0o755)
        for program in "/bin/true", "/bin/false", "/bin/echo", "/bin/cat", "yes", "/bin/sh", talker:
            done = harness.run("sound", "--python", str(program))
            self.assertEqual((done.returncode, done.stdout), (3, ""), program)
            self.assertEqual(
                done.stderr, f"homefree test: '{program}' is no Python; name one with --python\n"
            )

    def test_python_behind_a_wrapper(self):
        wrapper = harness.scratch(self) / "wrapper"
        wrapper.write_text(f'#!/bin/sh\necho starting\nexec {sys.executable} "$@"\n')
        wrapper.chmod(0o755)
        done = harness.run("sound", "--python", str(wrapper), "--list")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_python_without_homefree(self):
        done = subprocess.run(
            [harness.COMMAND, "test", "--python", sys.executable, "sound"],
            env={**harness.environment(), "PYTHONPATH": ""},
            cwd="/",
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn("cannot import homefree", done.stderr)

    def test_files_that_cannot_be_written(self):
        for path, why in (("/nosuch/x.html", "there is no directory"), ("/", "it is a directory")):
            for option in ("--html", "--junit"):
                done = harness.run("sound", option, path)
                self.assertEqual((done.returncode, done.stdout), (3, ""))
                self.assertIn(f"cannot write '{path}': {why}", done.stderr)


class Interrupt(unittest.TestCase):
    def test_children_end_and_what_is_known_is_shown(self):
        """A cell that blocks holds a pipe open; the pipe's end shows that the cell has ended."""
        directory = harness.scratch(self)
        fifo = directory / "fifo"
        os.mkfifo(fifo)
        (directory / "blocks.py").write_text(
            "import threading\n"
            "class made:\n"
            "    def __del__(self):\n"
            "        if threading.current_thread() is not threading.main_thread():\n"
            f"            file = open({str(fifo)!r}, 'w')\n"
            "            file.write('x')\n"
            "            file.flush()\n"
            "            threading.Event().wait()\n"
        )
        process = subprocess.Popen(
            [harness.COMMAND, "test", "--python", sys.executable, "blocks"]
            + ["--only", "* thread / without", "-j", "1", "--timeout", "60"],
            cwd=directory,
            env=harness.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with open(fifo) as reader:
            self.assertEqual(reader.read(1), "x")
            process.send_signal(signal.SIGINT)
            self.assertEqual(reader.read(), "")
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("1 cells", out)
        self.assertIn("1 ok", out)


if __name__ == "__main__":
    unittest.main()
