"""`homefree inspect` as its users call it: exit codes, one-line errors, the table, the document.

Usage: test_command.py HOMEFREE LIBRARY SHIM [unittest arguments]
"""

import html
import json
import os
import re
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlparse

from command import HOMEFREE, MODULE, MORE, ONLY_INIT, InspectTest, inspect, main

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs/findings.md"


class CommandLine(InspectTest):
    def test_wrong_usage(self):
        self.assert_usual_refusals("give at least one file", "takes no file")

    def test_help(self):
        for arguments in ["--help"], ["-h"], ["x", "--help"]:
            done = inspect(*arguments)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            self.assertTrue(done.stdout.startswith(b"Usage: homefree inspect"))
        listed = subprocess.run([HOMEFREE, "--help"], capture_output=True, check=True)
        self.assertIn(b"\n  inspect ", listed.stdout)

    def test_a_file_that_looks_like_an_option(self):
        self.build("-it.so", script=ONLY_INIT)
        self.assertEqual(inspect("--", "-it.so", cwd=self.directory).returncode, 0)


class BadFiles(InspectTest):
    def assert_refused(self, path, word):
        super().assert_refused(path, word, start=r"cannot inspect '[^\n]*': ")

    def test_no_elf_files(self):
        self.assert_refused(self.directory / "missing", "No such file")
        self.assert_refused(self.file("empty", b""), "the file is empty")
        self.assert_refused(self.file("text", "hello\n"), "not an ELF file")
        self.assert_refused(self.file("short", b"\x7fELF\x02\x01\x01"), "ends within")
        self.assert_refused(self.directory / "text" / "below", "Not a directory")
        self.assert_refused("/dev/null", "not a regular file")
        self.assert_refused("/proc/self/maps", "the file is empty")
        self.assert_refused("", "No such file")
        os.mkfifo(self.directory / "fifo")
        self.assert_refused(self.directory / "fifo", "not a regular file")
        loop = self.directory / "loop"
        loop.symlink_to(loop)
        self.assert_refused(loop, "symbolic links")
        self.assert_refused(self.directory / ("x" * 300), "too long")

    def test_a_forbidden_file(self):
        path = self.build("it.so")
        path.chmod(0)
        if os.access(path, os.R_OK):
            self.skipTest("root may read everything")
        self.assert_refused(path, "Permission denied")

    def test_a_truncated_module(self):
        path = self.build("it.so")
        path.write_bytes(path.read_bytes()[:3000])
        self.assert_refused(path, "outside the file")

    def test_the_others_are_inspected(self):
        good = self.build("good.so", script=ONLY_INIT)
        bad = self.build("bad.so", MODULE + "int more(void) { return 1; }")
        files = [good, self.directory / "missing", bad, self.file("text", "x")]
        done = inspect(*files)
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stderr.count(b"\n"), 2)
        self.assertIn(b"good.so", done.stdout)
        self.assertIn(b"extra-exports", done.stdout)
        document = self.document(*files, status=3)
        errors = [file["error"] for file in document["files"]]
        self.assertEqual(errors, [None, "No such file or directory", None, "not an ELF file"])
        self.assertEqual(
            document["summary"], {"files": 4, "failed": 2, "errors": 0, "warnings": 1, "notes": 0}
        )

    def test_a_full_device(self):
        with open("/dev/full", "w") as full:
            done = inspect("--rules", stdout=full)
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"No space left", done.stderr)


class Output(InspectTest):
    def found(self):
        return self.build("it.so", MODULE + "int more(void) { return 1; }", "-Wl,-z,execstack")

    def test_the_table_is_aligned(self):
        done = inspect(self.found())
        self.assertEqual(done.returncode, 1)
        rows = re.findall(r"^  (warning +\S+ +)(it .*)$", done.stdout.decode(), re.M)
        self.assertEqual(len(rows), 2, done.stdout)
        self.assertEqual(len({len(start) for start, _ in rows}), 1)
        self.assertIn("1 symbol besides PyInit_it: more", rows[1][1])
        self.assertIn(b"\nWhat to do:\n", done.stdout)
        self.assertNotIn(b"\x1b", done.stdout)

    def test_colour_on_a_terminal_only(self):
        found = self.found()
        self.assertIn("\x1b[33mwarning", inspect.on_terminal(found, NO_COLOR=""))
        self.assertNotIn("\x1b", inspect.on_terminal(found, NO_COLOR="1"))
        self.assertNotIn("\x1b", inspect.on_terminal(found, NO_COLOR="", TERM="dumb"))

    def test_hostile_names(self):
        """Names may contain any bytes; the table must stay a table and the document JSON."""
        names = ['a\x1b[31m"\\b\x01', "ü\u009b2J"]
        # Assemblers differ in how these are quoted: letters stand for them while it is built.
        letters = [name.translate(str.maketrans('"\\', "QB")) for name in names]
        source = ".globl PyInit_it\nPyInit_it:\n"
        for name in letters:
            source += f'.globl "{name}"\n"{name}": .byte 0\n'
        source += ".section .note.GNU-stack\n"
        module = self.build(
            "it.so", source, "-nostdlib", "-Wl,-soname,s\udcff\n\x7f", language="assembler"
        )
        content = module.read_bytes()
        for old, new in zip(letters, names):
            content = content.replace(old.encode(), new.encode())
        module.write_bytes(content)
        strange = module.rename(self.directory / "it.\x1b[2J\udcff\n.so")
        table = inspect(strange).stdout
        self.assertNotRegex(table, rb"[\x00-\x09\x0b-\x1f\x7f\xff]")
        self.assertNotIn("\u009b".encode(), table)
        (file,) = self.document(strange)["files"]
        self.assertEqual(file["soname"], "s\ufffd\n\x7f")
        (finding,) = (each for each in file["findings"] if each["rule"] == "extra-exports")
        self.assertEqual(sorted(finding["names"]), names)
        missing = inspect(self.directory / "no\x1b[2J\nfile")
        self.assertNotIn(b"\x1b", missing.stderr)
        self.assertEqual(missing.stderr.count(b"\n"), 1)

    def test_a_mistake_of_its_own(self):
        """One line, and a status that is no finding's."""
        self.prepare("from command import inspect_text; inspect_text.text = lambda *_: 1 / 0")
        done = inspect(self.build("it.so"))
        self.assertEqual((done.returncode, done.stdout), (3, b""))
        self.assertRegex(
            done.stderr.decode(),
            r"\Ahomefree inspect: internal error in prepared:\d+: ZeroDivisionError: .*\n\Z",
        )

    def test_the_document_has_a_version(self):
        document = self.document(self.found(), status=1)
        self.assertEqual(document["homefree"]["document"], "inspect")
        self.assertEqual(document["homefree"]["format"], 1)
        self.assertRegex(document["homefree"]["version"], r"^\d+\.\d+\.\d+$")


class Rules(InspectTest):
    def test_listed_and_explained(self):
        done = inspect("--rules", "--json")
        self.assertEqual(done.returncode, 0)
        rules = json.loads(done.stdout)["rules"]
        self.assertGreater(len(rules), 9)
        table = inspect("--rules").stdout.decode()
        for rule in rules:
            with self.subTest(rule["rule"]):
                self.assertIn(f"{rule['rule']} ({rule['severity']})\n", table)
                for key in "explanation", "remedy":
                    self.assertIn(rule[key], table)

    def test_each_has_a_section_in_the_page(self):
        """Where findings of all commands lead: the installed page, and the document."""
        document = DOCUMENT.read_text()
        for command in "inspect", "doctor", "report":
            done = subprocess.run([HOMEFREE, command, "--rules", "--json"], capture_output=True)
            for rule in json.loads(done.stdout)["rules"]:
                with self.subTest(rule["rule"]):
                    page, name = rule["help"].split("#")
                    text = html.unescape(Path(unquote(urlparse(page).path)).read_text())
                    section = text.partition(f'<h2 id="{name}">')[2].partition("<h2")[0]
                    self.assertIn(rule["explanation"], section)
                    self.assertIn(f"<p>What to do: {rule['remedy']}</p>", section)
                    self.assertIn(f"## {command} {rule['rule']}\n", document)

    def test_findings_lead_to_it(self):
        lead = "/findings.html#inspect-extra-exports"
        found = self.build("a it.so", MORE)
        self.assertIn(lead, self.findings(found)["extra-exports"]["help"])
        for form in "--junit", "--sarif":
            self.assertIn(lead, inspect(form, "-", found).stdout.decode())
        self.assertIn("more: file://", inspect(found).stdout.decode())


if __name__ == "__main__":
    main()
