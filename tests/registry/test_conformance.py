"""homefree test --registry: an allocator that keeps every duty is clean, and one that breaks a duty
is refused with that sentence. Adapters of installed allocators keep all of them, too.

Usage: test_conformance.py --source DIRECTORY --command HOMEFREE [unittest arguments]
"""

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--source", required=True, type=Path)
parser.add_argument("--command", required=True)

# What is wrong, the check that finds it, and the sentence that it violates.
WRONG = {
    "CLAIMS_ALL": ("foreign addresses", "owns answers NOT_MINE for every address outside"),
    "DENIES_LARGE": ("blocks", "owns knows the first byte of every live block"),
    "DENIES_INSIDE": ("blocks", "owns denies no byte of a live block without DENIES_INSIDE"),
    "READS_FOREIGN": ("foreign addresses", "owns reads only memory that is the allocator's own"),
    "LOCKS": ("signals", "owns takes no lock, and may be called in a signal handler"),
    "INNER_BLOCKS": ("blocks", "TELLS_FIRST: owns tells a block's first byte from its others"),
    "DEAD_BLOCKS": ("freed blocks", "TELLS_DEAD: a freed block is never BLOCK or INSIDE"),
    "CHANGES_ERRNO": ("errno", "no function but allocate and resize changes errno"),
    "USABLE_SMALL": ("usable size", "usable_size is at least what was asked for"),
    "USABLE_LARGE": ("usable size", "usable_size is at least what was asked for, and all of it"),
    "FORGETS": ("resizing", "resize keeps the contents"),
    "UNALIGNED": ("blocks", "allocate returns a multiple of the alignment"),
    "ONE_THREAD": ("threads", "every function may be called by any thread"),
    "LINEAR": ("time", "owns takes a constant time, or SLOW says that it does not"),
    "TRIMS_LIVE": ("trim", "trim leaves live blocks alone"),
    "FILLS_ALL": ("statistics", "statistics fills in bytes that are live and held, inside size"),
    "REFUSES_SHORT": ("statistics", "statistics fills in bytes that are live and held"),
    "WALKS_FEW": ("walk", "walk visits the allocator's own memory, and live blocks"),
    "OTHERS_FUNCTION": ("structure", "all of its functions lie in the object that publishes them"),
    "OTHER_VERSION": ("structure", "version is ALLOCATOR_REGISTRY_VERSION"),
    "LONG_NAME": ("structure", "name is of at most 63 bytes, printable ASCII"),
}

# What a constructor of the file does, and what is then said.
ENDS = {
    "exit(0);": "the process ended with status 0",
    "_exit(1);": "the process ended with status 1",
    "abort();": "the process died: Aborted",
    "for (;;) pause();": "it did not end within 2 seconds",
    "for (int i = 0; i < 64; i++) close(i);": "the process ended with status 3",
}
GOES_ON = {
    "output": 'puts("not in the document");',
    "blocked": "sigset_t all; sigfillset(&all); sigprocmask(SIG_BLOCK, &all, NULL);",
    "children ignored": "signal(SIGCHLD, SIG_IGN);",
    "alarms ignored": "signal(SIGALRM, SIG_IGN);",
}


def run(*command):
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=240,
        env=environment,
    )


class Conformance(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.work = Path(directory.name)

    def build(self, name, *words):
        made = self.work / f"{name}.so"
        command = ["cc", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-D_GNU_SOURCE", "-pthread"]
        command += [f"-I{options.source / 'include'}", *words, "-o", made]
        done = run(*command)
        self.assertEqual(done.returncode, 0, done.stderr)
        return made

    def examine(self, file, *words):
        done = run(options.command, "test", "--json", "--timeout", "5", *words, "--registry", file)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual(document["homefree_registry"], 1)
        (member,) = document["members"]
        return done.returncode, member

    def wrong(self, name):
        check, rule = WRONG[name]
        source = options.source / "tests/registry/wrong.c"
        made = self.build(name, "-w", f"-DWRONG={name}", source)
        only = [] if check == "structure" else ["--only", check]
        status, member = self.examine(made, *only)
        found = member["checks"][0]
        return (status, found["check"], found["result"]), found["rule"] or "", rule

    def test_each_wrong_one_is_refused(self):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for name, (got, said, rule) in zip(WRONG, pool.map(self.wrong, WRONG)):
                with self.subTest(name):
                    self.assertEqual(got, (1, WRONG[name][0], "refused"))
                    self.assertTrue(said.startswith(rule), said)

    def test_the_right_one_is_clean(self):
        made = self.build("right", options.source / "tests/registry/wrong.c")
        status, member = self.examine(made)
        bad = [check for check in member["checks"] if check["result"] == "refused"]
        self.assertEqual((status, bad), (0, []))
        skipped = [check["check"] for check in member["checks"] if check["result"] == "skipped"]
        self.assertEqual(skipped, ["ready"])

    def build_with(self, name, constructor, *words):
        source = self.work / f"{name}.c"
        source.write_text(
            "#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
            f"__attribute__((constructor)) static void begin(void) {{ {constructor} }}\n"
        )
        return self.build(name, "-w", *words, source, options.source / "tests/registry/wrong.c")

    def test_a_file_that_ends_the_process(self):
        for constructor, how in ENDS.items():
            with self.subTest(constructor):
                made = self.build_with("ends", constructor)
                done = run(options.command, "test", "--timeout", "2", "--registry", made)
                self.assertEqual((done.returncode, done.stdout), (3, ""))
                self.assertIn(f"cannot load '{made}': {how}", done.stderr)

    def test_what_a_file_leaves_behind(self):
        for name, constructor in GOES_ON.items():
            with self.subTest(name):
                made = self.build_with("clean", constructor)
                status, member = self.examine(made, "--only", "constant")
                self.assertEqual((status, member["checks"][0]["result"]), (0, "ok"))
                made = self.build_with("wrong", constructor, "-DWRONG=READS_FOREIGN")
                status, member = self.examine(made, "--only", "foreign addresses")
                self.assertEqual((status, member["checks"][0]["result"]), (1, "refused"))
                made = self.build_with("hangs", constructor, "-DWRONG=LOCKS")
                status, member = self.examine(made, "--only", "signals")
                self.assertEqual((status, member["checks"][0]["result"]), (1, "refused"))

    def test_what_is_no_file(self):
        fifo = self.work / "fifo"
        os.mkfifo(fifo)
        for path in (fifo, self.work, "/dev/zero"):
            done = run(options.command, "test", "--registry", path)
            self.assertEqual(done.returncode, 2)
            self.assertIn("is no file", done.stderr)

    def test_other_options(self):
        made = self.build("right", options.source / "tests/registry/wrong.c")
        for words, said in {
            ("--only", "nothing"): "no check of --registry is named 'nothing'",
            ("--jobs", "2"): "--registry takes --only, --timeout and --json alone",
            ("--junit", self.work / "junit.xml"): "--registry takes",
            ("--list",): "--registry takes",
        }.items():
            done = run(options.command, "test", *words, "--registry", made)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)

    def test_no_member(self):
        source = self.work / "none.c"
        source.write_text("int nothing;\n")
        done = run(options.command, "test", "--registry", self.build("none", source))
        self.assertEqual(done.returncode, 3)
        self.assertIn("publishes no member of the registry", done.stderr)

    def test_adapters_of_installed_allocators(self):
        for name, libraries in {
            "mimalloc": ["-lmimalloc"],
            "tcmalloc": ["-ltcmalloc_minimal"],
        }.items():
            with self.subTest(name):
                header = {"mimalloc": "mimalloc.h", "tcmalloc": "gperftools/tcmalloc.h"}[name]
                if not Path("/usr/include", header).exists():
                    self.skipTest(f"no {header}")
                source = options.source / f"adapters/{name}.c"
                status, member = self.examine(self.build(name, source, *libraries))
                bad = [check for check in member["checks"] if check["result"] == "refused"]
                self.assertEqual((status, bad), (0, []))


if __name__ == "__main__":
    options, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
