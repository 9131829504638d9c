"""`homefree inspect` as a gate: which findings make it fail, and the files that CI systems read.

Usage: test_gate.py HOMEFREE LIBRARY SHIM [unittest arguments]
"""

import fcntl
import json
import os
import pty
import re
import signal
import subprocess
import unittest
import xml.etree.ElementTree
from pathlib import Path

from command import HOMEFREE, LIBRARY, MODULE, MORE, SHIM, InspectTest, inspect, main

ALLOCATES = MODULE + "#include <stdlib.h>\nvoid *keep; void f(void) { keep = malloc(1); }"
LINKED = (str(SHIM), str(LIBRARY), "-lpthread")
NEEDS = "-Wl,--no-as-needed,-lm"  # breaks unused-library, a note


class GateTest(InspectTest):
    def setUp(self):
        super().setUp()
        self.bad = self.module("it.so", MORE, script=None)
        self.good = self.module("good/it.so")


class FailOn(GateTest):
    def test_only_the_rules_that_are_named(self):
        stack = self.module("stack/it.so", MODULE, "-Wl,-z,execstack")
        for rules, status in (
            ("extra-exports", 1),
            ("executable-stack", 0),
            ("executable-stack,extra-exports", 1),
            ("error", 0),
            ("warning", 1),
        ):
            with self.subTest(rules):
                done = inspect(self.bad, "--fail-on", rules)
                self.assertEqual(done.returncode, status)
                self.assertIn(b"extra-exports", done.stdout)
        both = ("--fail-on", "executable-stack", "--fail-on", "extra-exports")
        self.assertEqual(inspect(*both, stack).returncode, 1)

    def test_a_note_can_be_named(self):
        noted = self.module("noted/it.so", MODULE, NEEDS)
        wheel = self.wheel("x.whl", {"it.so": noted})
        self.assertEqual(inspect(wheel).returncode, 0)
        done = inspect("--fail-on", "unused-library", wheel)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"unused-library", done.stdout)

    def test_what_cannot_be_inspected_fails_always(self):
        self.assertEqual(inspect("--fail-on", "error", self.file("x.so", "text")).returncode, 3)

    def test_an_unknown_rule(self):
        rules = json.loads(inspect("--rules", "--json").stdout)["rules"]
        for wrong, near in ("extra-export", "extra-exports"), ("own-fee", "own-free"):
            done = inspect("--fail-on", wrong, self.bad)
            self.assertEqual((done.returncode, done.stdout), (2, b""))
            message = done.stderr.decode()
            self.assertEqual(message.count("\n"), 1)
            self.assertIn(f"unknown rule '{wrong}' (did you mean '{near}'?)", message)
            for rule in rules:
                self.assertIn(rule["rule"], message)
        for wrong in "", "own-free,", ",", "x" * 500:
            self.assertEqual(inspect("--fail-on", wrong, self.bad).returncode, 2)
        self.assertNotIn(b"did you mean", inspect("--fail-on", "zzz", self.bad).stderr)


class RequireHomefree(GateTest):
    def findings_of(self, module, *arguments):
        done = inspect("--json", "--require-homefree", *arguments, module)
        (file,) = json.loads(done.stdout)["files"]
        return done.returncode, {one["rule"]: one for one in file["findings"]}, file

    def test_a_module_that_allocates(self):
        module = self.module("allocates/it.so", ALLOCATES)
        self.assertEqual(inspect(module).returncode, 0)
        status, findings, file = self.findings_of(module)
        self.assertEqual(status, 1)
        self.assertIn("malloc", findings["not-linked"]["names"])
        self.assertTrue(file["allocates"])
        self.assertEqual(self.findings_of(module, "--fail-on", "error")[0], 1)
        self.assertEqual(inspect("--fail-on", "not-linked", module).returncode, 1)
        self.assertNotIn(b"calls no malloc", inspect(module).stdout)

    def test_a_module_that_does_not(self):
        status, findings, file = self.findings_of(self.good)
        self.assertEqual((status, findings, file["allocates"]), (0, {}, False))
        self.assertIn(b"not linked with homefree (it calls no malloc)", inspect(self.good).stdout)

    def test_a_module_that_is_linked(self):
        status, findings, file = self.findings_of(self.module("linked/it.so", ALLOCATES, *LINKED))
        self.assertEqual((status, findings, file["allocates"]), (0, {}, False))

    def test_a_module_that_is_linked_and_allocates_past(self):
        """The library is linked and not used, as where libstdc++ comes before the shim."""
        module = self.module("past/it.so", ALLOCATES, "-Wl,--no-as-needed", str(LIBRARY))
        status, findings, _ = self.findings_of(module, "--fail-on", "error")
        self.assertEqual((status, findings["allocates-elsewhere"]["names"]), (1, ["malloc"]))
        self.assertNotIn("not-linked", findings)
        self.assertEqual(inspect("--fail-on", "allocates-elsewhere", module).returncode, 1)

    def test_a_severity_does_not_look_for_it(self):
        module = self.module("allocates/it.so", ALLOCATES)
        self.assertEqual(inspect("--fail-on", "warning", module).returncode, 0)

    def test_a_library_is_no_extension_module(self):
        source = ALLOCATES.replace("PyInit_it", "begin")
        library = self.module("libit.so", source, script="{ local: *; };")
        self.assertEqual(self.findings_of(library)[:2], (0, {}))

    def test_a_module_with_an_allocator_of_its_own(self):
        hidden = "__attribute__((used)) static int private_mallctl(void) { return 1; }"
        status, findings, _ = self.findings_of(self.module("own/it.so", MODULE + hidden))
        self.assertEqual(status, 1)
        self.assertIn("contains an allocator", findings["not-linked"]["message"])


class Documents(GateTest):
    def written(self, *arguments):
        """The status, the JUnit file's root and the SARIF document."""
        junit, sarif = self.directory / "junit.xml", self.directory / "out.sarif"
        done = inspect("--junit", junit, "--sarif", sarif, *arguments)
        root = xml.etree.ElementTree.parse(junit).getroot()
        return done, root, json.loads(sarif.read_text())

    def test_junit(self):
        wheel = self.wheel("x.whl", {"a/it.so": self.bad, "b/it.so": self.good, "c.so": b"\x7fELF"})
        done, root, _ = self.written(wheel, self.bad)
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"extra-exports", done.stdout)
        self.assertEqual(
            root.attrib | {"name": ""}, {"name": ""} | dict(tests="4", failures="2", errors="1")
        )
        files, inside = root
        self.assertEqual((files.get("name"), inside.get("name")), ("files", str(wheel)))
        cases = {case.get("name"): case for case in inside}
        self.assertEqual(set(cases), {"a/it.so", "b/it.so", "c.so"})
        failure = cases["a/it.so"].find("failure")
        self.assertEqual(failure.get("type"), "extra-exports")
        self.assertIn("warning extra-exports: it exports 1 symbol", failure.text)
        self.assertIn("version script", failure.text)
        self.assertEqual(len(cases["b/it.so"]), 0)
        self.assertIsNotNone(cases["c.so"].find("error"))

    def test_junit_fails_as_the_command_does(self):
        done, root, _ = self.written(self.bad, "--fail-on", "own-free")
        self.assertEqual((done.returncode, root.get("failures")), (0, "0"))
        self.assertIn("extra-exports", root.find(".//system-out").text)

    def test_sarif(self):
        wheel = self.wheel("a wheel.whl", {"a/it.so": self.bad, "c.so": b"\x7fELF"})
        _, _, document = self.written(wheel)
        (run,) = document["runs"]
        self.assertEqual(document["version"], "2.1.0")
        rules = run["tool"]["driver"]["rules"]
        (result,) = run["results"]
        self.assertEqual(rules[result["ruleIndex"]]["id"], result["ruleId"])
        self.assertEqual((result["ruleId"], result["level"]), ("extra-exports", "warning"))
        self.assertIn("a/it.so: it exports 1 symbol", result["message"]["text"])
        (place,) = result["locations"]
        uri = place["physicalLocation"]["artifactLocation"]["uri"]
        self.assertEqual(uri, wheel.as_uri())
        self.assertEqual(place["logicalLocations"][0]["fullyQualifiedName"], "a/it.so")
        (invocation,) = run["invocations"]
        self.assertFalse(invocation["executionSuccessful"])
        self.assertEqual(len(invocation["toolExecutionNotifications"]), 1)
        for path in "it.so", self.bad:
            relative = json.loads(inspect(path, "--sarif", "-", cwd=self.directory).stdout)
            place = relative["runs"][0]["results"][0]["locations"][0]
            self.assertEqual(place["physicalLocation"]["artifactLocation"]["uri"], "it.so")

    def test_the_document_is_the_same_whoever_writes_it(self):
        """The command for objects alone, Python beside another form."""
        paths = self.bad, self.good, "/nowhere"
        alone = inspect("--json", *paths)
        beside = inspect("--json", "--junit", self.directory / "out.xml", *paths)
        self.assertEqual(alone.returncode, beside.returncode)
        self.assertEqual(alone.stdout, beside.stdout)

    def test_one_form_on_stdout(self):
        printed = inspect(self.bad, "--junit", "-").stdout
        self.assertTrue(printed.startswith(b"<?xml"))
        self.assertNotIn(b"What to do", printed)
        self.assert_usage("--json", "--junit", "-", "x", word="only one of")

    def test_a_file_that_cannot_be_written(self):
        done = inspect(self.good, "--junit", "/nowhere/x.xml")
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"cannot write '/nowhere/x.xml'", done.stderr)


class Baseline(GateTest):
    def setUp(self):
        super().setUp()
        self.known = self.directory / "known.json"

    def test_what_is_known_does_not_fail(self):
        self.assertEqual(inspect(self.bad, "--write-baseline", self.known).returncode, 0)
        done = inspect(self.bad, self.good, "--baseline", self.known)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertIn(b"Known: extra-exports (1 object)", done.stdout)
        self.assertIn(b"2 shared objects, clean", done.stdout)
        self.assertIn(b"(known)\n", inspect(self.bad, "--baseline", self.known).stdout)
        other = self.module("other/it.so", MORE, script=None)
        done = inspect(self.bad, other, "--baseline", self.known, "--json")
        self.assertEqual(done.returncode, 1)
        known = [
            one["known"] for file in json.loads(done.stdout)["files"] for one in file["findings"]
        ]
        self.assertEqual(known, [True, False])

    def test_every_form_knows_it(self):
        inspect(self.bad, "--write-baseline", self.known)
        known = self.bad, "--baseline", self.known
        self.assertIn(b'failures="0"', inspect(*known, "--junit", "-").stdout)
        sarif = json.loads(inspect(*known, "--sarif", "-").stdout)
        (result,) = sarif["runs"][0]["results"]
        self.assertEqual(result["suppressions"], [{"kind": "external"}])
        self.assertEqual(inspect(*known, "--github", "-").stdout, b"")

    def test_the_file_can_be_reviewed(self):
        """A line for each, without what changes with each build."""
        wheel = self.wheel(
            "x-1.0.whl", {"x.libs/liba-0123456789ab.so.1": self.bad, "b.so": self.bad}
        )
        done = inspect(wheel, "--write-baseline", "-")
        rows = [json.loads(line.strip(b" ,")) for line in done.stdout.splitlines()[3:-2]]
        self.assertEqual([row["file"] for row in rows], ["b.so", "x.libs/liba.so.1"])
        self.assertEqual(rows[0]["says"], "it exports 1 symbol besides PyInit_it")
        self.known.write_bytes(done.stdout.replace(b"1 symbol", b"17 symbol"))
        self.assertEqual(inspect(wheel, "--baseline", self.known).returncode, 0)

    def test_what_is_gone(self):
        inspect(self.bad, "--write-baseline", self.known)
        done = inspect(self.good, self.good, "--baseline", self.known)
        self.assertIn(b"1 of the known findings are not there any more", done.stdout)

    def test_one_is_not_replaced_where_nothing_is_inspected(self):
        known = self.file("known.json", "as it was")
        done = inspect("/nowhere", "--write-baseline", known)
        self.assertEqual((done.returncode, known.read_text()), (3, "as it was"))
        self.assertIn(b"no baseline is written", done.stderr)

    def test_no_baseline(self):
        os.mkfifo(self.directory / "pipe")
        hostile = {
            "empty": "",
            "list": "[]",
            "deep": "[" * 100_000,
            "number": "1" * 5000,
            "other": '{"homefree_inspect_baseline": 2}',
        }
        for number, known in enumerate(
            (3, [3], [{"rule": "x", "file": "y"}], [{"rule": [], "file": {}, "says": 1}])
        ):
            document = {"homefree_inspect_baseline": 1, "known": known}
            hostile[f"known{number}"] = json.dumps(document)
        paths = [self.file(name, content) for name, content in hostile.items()]
        for path in *paths, self.directory / "pipe", self.directory, "/nowhere", "/dev/zero":
            with self.subTest(path):
                done = inspect(self.bad, "--baseline", path)
                self.assertEqual((done.returncode, done.stderr.count(b"\n")), (3, 1), done.stderr)


class GitHub(GateTest):
    def test_annotations(self):
        bad = self.module("a,%/it.so", MORE, script=None)
        done = inspect(bad, self.bad, "/nowhere", "--github", "-", cwd=self.directory)
        error, warning = done.stdout.decode().splitlines()
        self.assertTrue(error.startswith("::error title=homefree inspect::/nowhere: "), error)
        start = (
            "::warning file=a%2C%25/it.so,title=homefree inspect%3A extra-exports::a,%25/it.so: it"
        )
        self.assertTrue(warning.startswith(start), warning)
        self.assertIn("%0Ait.so: it exports", warning)

    def test_names_are_no_commands(self):
        """In text, which GitHub's runner reads as well; a wheel's members are no files of the
        repository."""
        names = "::stop-commands::a.so", "##[error]b.so", "c\n::error::.so", "d%0A.so"
        wheel = self.wheel("x.whl", dict.fromkeys(names, self.bad))
        for options in (), ("--all",), ("--environment", "--fail-on", "note"):
            text = inspect(wheel, *options).stdout.decode()
            self.assertNotRegex(text, r"(?m)^\s*::|##\[")
        self.assertIn("    ?:stop-commands::a.so\n", inspect(wheel).stdout.decode())
        (line,) = inspect("x.whl", "--github", "-", cwd=self.directory).stdout.splitlines()
        self.assertTrue(line.startswith(b"::warning file=x.whl,title="), line)


class Hooks(unittest.TestCase):
    """For pre-commit, whose file has few forms."""

    def test_they_can_be_run(self):
        text = (Path(__file__).parents[3] / ".pre-commit-hooks.yaml").read_text("utf-8")
        entries = re.findall(r"^  entry: homefree inspect(.*)$", text, re.MULTILINE)
        files, environment = re.findall(r"^  files: (.*)$", text, re.MULTILINE)
        for options in entries:
            self.assertEqual(inspect(*options.split(), "--help").returncode, 0)
        for name in "a/b.so", "libx.so.1.2", "dist/x-1-py3-none-any.whl", "x.pyd", "libx.dylib":
            self.assertRegex(name, files)
        for name in "requirements-dev.txt", "a/pyproject.toml", "uv.lock", "poetry.lock":
            self.assertRegex(name, environment)
        self.assertNotRegex("x.sofa", files)


class Waiting(GateTest):
    """An archive that cannot be opened while there is a lease on it stands for a large one."""

    def waiting(self, *paths):
        """The command, which waits for the first path; the terminal that is its stderr; what that
        shows; and the lease."""
        lease = os.open(paths[0], os.O_RDWR)
        self.addCleanup(os.close, lease)
        signal.signal(signal.SIGIO, signal.SIG_IGN)  # somebody wants to open it
        try:
            fcntl.fcntl(lease, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as error:
            self.skipTest(f"no lease on a file: {error.strerror}")
        primary, secondary = pty.openpty()
        self.addCleanup(os.close, primary)
        process = subprocess.Popen(
            [HOMEFREE, "inspect", *paths], stdout=subprocess.PIPE, stderr=secondary
        )
        self.addCleanup(process.stdout.close)
        os.close(secondary)
        return process, primary, os.read(primary, 65536), lease

    def test_a_line_on_a_terminal_alone(self):
        wheel = self.wheel("x.whl", {"it.so": self.good, "sub/it.so": self.good})
        process, terminal, shown, lease = self.waiting(wheel)
        fcntl.fcntl(lease, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        text = process.stdout.read()
        self.assertEqual(process.wait(60), 0)
        while not shown.endswith(b"\r\x1b[K"):
            shown += os.read(terminal, 65536)  # fails when the command has said all
        line = re.escape("\r\x1b[Khomefree inspect: 0 objects, reading ") + "/"
        self.assertRegex(shown.decode(), line)
        self.assertNotIn(b"\x1b", text)

    def test_a_process_that_dies_of_an_archive(self):
        wheels = [self.wheel(name, {"it.so": self.good}) for name in ("x.whl", "y.whl")]
        process, terminal, shown, lease = self.waiting(*wheels)
        (reader,) = children(process.pid)
        os.kill(reader, signal.SIGKILL)
        text = process.stdout.read()
        self.assertEqual(process.wait(60), 3)
        while b"\n" not in shown:
            shown += os.read(terminal, 65536)
        self.assertIn(b"x.whl': the process that read it ended by signal 9\r\n", shown)
        self.assertIn(b"y.whl: 1 shared object, clean\n", text)


def children(parent):
    for directory in os.listdir("/proc"):
        try:
            stat = Path("/proc", directory, "stat").read_text()
        except OSError:
            continue
        if stat.rpartition(")")[2].split()[1] == str(parent):
            yield int(directory)


if __name__ == "__main__":
    main()
