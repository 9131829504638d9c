"""What a report says of a program's modules: one that is linked with the shim, one with a private
allocator, and modules that take each other's place in memory; and of homefree's own functions when
they are called wrongly.

Usage: test_modules.py --homefree COMMAND --diagnose LIBRARY --program PROGRAM
       --new-handler PROGRAM --modules MODULE... [unittest arguments]
"""

import json
import os
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from diagnosis import TIMEOUT, DiagnosisTest, arguments, main, parser  # noqa: E402

for option in ("--diagnose", "--program", "--new-handler"):
    parser.add_argument(option, required=True, type=os.path.abspath)
parser.add_argument("--modules", required=True, nargs="+", type=os.path.abspath)

SURVIVED = (0, "survived\n")
# How a private allocator's block is freed or resized by others: the function.
FREED_OUTSIDE = {"freed-here": "free", "freed-by-homefree": "hf_free", "resized-here": "realloc"}
# What a wrong call of homefree's functions is: (rule, allocating function, freeing function).
WRONG = {
    "hf-twice": ("double-free", "hf_malloc", "hf_free"),
    "hf-inside": ("interior-free", "hf_malloc", "hf_free"),
    "hf-wrong-size": ("sized-delete", "hf_malloc", "hf_free"),
    "hf-wrong-alignment": ("aligned-delete", "a function of libhomefree that allocates", "hf_free"),
    "hf-wrong-alignment-and-size": (
        "aligned-delete",
        "a function of libhomefree that allocates",
        "hf_free",
    ),
    "hf-resized-after-free": ("double-free", "hf_malloc", "hf_realloc"),
    "hf-resized-static": ("static-free", None, "hf_realloc"),
    "hf-resized-after-overrun": ("overrun", None, "hf_realloc"),
}


class ModulesTest(DiagnosisTest):
    def module(self, name):
        for path in arguments.modules:
            if Path(path).name == f"{name}.so":
                return path
        self.skipTest(f"there is no {name}.so: its parts are not installed")

    def cross(self, case, *modules, status=0, output="survived\n", options=()):
        environment = {**os.environ, "MODULES": ":".join(map(self.module, modules))}
        run = self.diagnose(arguments.program, case, options=options, env=environment)
        self.assertEqual((run.status, run.output), (status, output), run.errors)
        return run

    def blocks(self, run):
        """Blocks by the files that allocated and freed them."""
        return {
            (Path(pair["allocated_by"] or "").name, Path(pair["freed_by"] or "").name): pair[
                "blocks"
            ]
            for pair in run.report["matrix"]
        }


class Private(ModulesTest):
    """A real jemalloc in a module, which exports none of its functions."""

    def test_freed_outside(self):
        for case, function in FREED_OUTSIDE.items():
            with self.subTest(case):
                run = self.cross(case, "private")
                (finding,) = run.report["findings"]
                self.assertEqual(finding["rule"], "foreign-free")
                self.assertEqual(finding["allocated"]["allocator"], "jemalloc")
                self.assertEqual(finding["allocated"]["allocator_object"], self.module("private"))
                self.assertEqual(finding["freed"]["function"], function)
                self.assertEqual(finding["freed"]["object"], arguments.program)
                self.assertGreaterEqual(finding["bytes"], 100)

    def test_measured_outside(self):
        self.assertEqual(self.cross("measured-here", "private").report["findings"], [])

    def test_crash_over_a_block_of_the_heap(self):
        """Near to where a part of its table of pages begins, further on, and a guarded sample."""
        cases = (("freed-inside", "0"), ("freed-inside-far", "0"), ("freed-inside", "1"))
        for (case, sample), module in product(cases, ("private", "private-stripped")):
            with self.subTest(case, sample=sample, module=module):
                options = ["--sample", sample]
                run = self.cross(case, module, status=-signal.SIGSEGV, output="", options=options)
                (finding,) = run.report["findings"]
                self.assertEqual((finding["rule"], finding["bytes"]), ("foreign-free", 100))
                self.assertEqual(finding["allocated"]["allocator"], "heap")
                self.assertEqual(finding["allocated"]["object"], arguments.program)
                self.assertIn("freed_inside", finding["allocated"]["symbol"])
                self.assertEqual(finding["freed"]["object"], self.module(module))
                self.assertEqual(run.report["processes"][0]["end"], "signal")
                self.assertEqual(len(run.summary()), 1, run.errors)

    def test_crash_of_the_modules_own(self):
        """A null pointer that the module's code follows is not its allocator's business."""
        for module in ("private", "private-stripped"):
            with self.subTest(module):
                run = self.cross("misses", module, status=-signal.SIGSEGV, output="")
                self.assertEqual(run.report["findings"], [])
                self.assertEqual(run.report["processes"][0]["end"], "signal")

    def test_crash_over_something_else(self):
        run = self.cross("freed-inside-a-block", "private", status=-signal.SIGSEGV, output="")
        (finding,) = run.report["findings"]
        self.assertEqual((finding["rule"], finding["bytes"]), ("foreign-free", 0))
        self.assertEqual(finding["allocated"]["object"], None)
        self.assertEqual(finding["freed"]["object"], self.module("private"))


class Shimmed(ModulesTest):
    def test_correct(self):
        """What getline() enlarges in the module is the module's block."""
        program = Path(arguments.program).name
        for case, blocks in (
            ("line", {("shimmed.so", "shimmed.so"): 1, ("shimmed.so", program): 1}),
            ("shimmed-both-ways", {("shimmed.so", program): 1, (program, "shimmed.so"): 1}),
        ):
            with self.subTest(case):
                run = self.cross(case, "shimmed")
                self.assertEqual(run.report["findings"], [])
                found = self.blocks(run)
                self.assertEqual({pair: found.get(pair) for pair in blocks}, blocks)

    def test_freed_twice(self):
        (finding,) = self.cross("shimmed-twice", "shimmed").report["findings"]
        self.assertEqual(finding["rule"], "double-free")
        self.assertEqual(finding["allocated"]["object"], arguments.program)
        for side in "first_freed", "freed":
            self.assertEqual(finding[side]["object"], self.module("shimmed"))
            self.assertEqual(finding[side]["function"], "hf_free")


class Reloaded(ModulesTest):
    def test_each_module_has_what_it_did(self):
        """Not what the other did at the same addresses."""
        names = ["plugin-one", "plugin-two"]
        run = self.cross("reloaded", *names, output="same addresses\nsurvived\n")
        found = self.blocks(run)
        program = Path(arguments.program).name
        for name, blocks in zip(names, (30, 50)):
            self.assertEqual(found[f"{name}.so", program], blocks)
        findings = {finding["freed"]["object"]: finding for finding in run.report["findings"]}
        self.assertEqual(set(findings), {self.module(name) for name in names})
        for path, finding in findings.items():
            self.assertEqual((finding["rule"], finding["count"]), ("static-free", 10))
            self.assertEqual(finding["freed"]["stack"][0]["object"], path)


class Functions(ModulesTest):
    """homefree's own, in a program."""

    def test_called_wrongly(self):
        for case, (rule, allocating, freeing) in WRONG.items():
            with self.subTest(case):
                (finding,) = self.cross(case).report["findings"]
                self.assertEqual(finding["rule"], rule)
                self.assertEqual(finding["allocated"]["function"], allocating)
                self.assertEqual(finding["freed"]["function"], freeing)
                self.assertEqual(finding["freed"]["object"], arguments.program)

    def test_owner_of_a_diagnosed_block(self):
        self.assertEqual(self.cross("hf-owner").report["findings"], [])


class Ends(ModulesTest):
    def test_frees_of_ending_threads(self):
        """Eight threads with fifty blocks and a list of them each."""
        run = self.cross("freed-by-ending-threads")
        self.assertEqual(run.report["findings"], [])
        program = Path(arguments.program).name
        self.assertEqual(self.blocks(run)[program, program], 8 * 51)

    def test_Exit(self):
        run = self.cross("ended-by-Exit", status=6, output="")
        (process,) = run.report["processes"]
        self.assertEqual((process["end"], process["status"]), ("exit", 6))

    def test_no_memory_and_no_runtime(self):
        run = self.cross("no-memory-and-no-runtime", status=-signal.SIGABRT, output="")
        self.assertIn("fatal: out of memory in _Znwm, and no C++ runtime is loaded", run.errors)

    def test_new_handler(self):
        environment = {**os.environ, "HOMEFREE_CONF": "region:268435456"}
        run = self.diagnose(arguments.new_handler, env=environment)
        self.assertEqual((run.status, run.output), (0, "1\n"), run.errors)
        self.assertEqual(run.report["findings"], [])


class WithoutTheCommand(ModulesTest):
    """The library preloaded by hand."""

    def preload(self, command, **environment):
        directory = Path(self.directories.new())
        directory.mkdir()
        done = subprocess.run(
            command,
            cwd=directory,
            env={**os.environ, "LD_PRELOAD": arguments.diagnose, **environment},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        return directory, done

    def test_directory_for_a_process_and_its_children(self):
        shell = f"{arguments.program} hf-twice; exit 3"
        directory, done = self.preload(["/bin/sh", "-c", shell])
        self.assertEqual((done.returncode, done.stdout), (3, "survived\n"), done.stderr)
        (report,) = directory.glob("homefree-report.*")
        shown = subprocess.run(
            [arguments.homefree, "report", "--json", report], capture_output=True, timeout=TIMEOUT
        )
        document = json.loads(shown.stdout)
        pid = int(report.suffix[1:])
        self.assertEqual(
            {process["pid"] == pid for process in document["processes"]}, {True, False}
        )
        self.assertEqual([f["rule"] for f in document["findings"]], ["double-free"])

    def test_wrong_settings(self):
        for setting, message in (
            ("mode:loud", "mode is count, report or strict, not loud"),
            ("colour:red", "ignored colour"),
            ("directory:/proc/self/none", "cannot make the report's directory /proc/self/none: "),
        ):
            with self.subTest(setting):
                command = [arguments.program, "hf-owner"]
                directory, done = self.preload(command, HOMEFREE_DIAGNOSE=setting)
                self.assertEqual((done.returncode, done.stdout), SURVIVED, done.stderr)
                self.assertIn(message, done.stderr)
                self.assertEqual(list(directory.iterdir()), [])


if __name__ == "__main__":
    main(needs_names=True)
