"""`homefree report` as its users call it: exit status, one-line errors, text, document, files.

Usage: test_report.py HOMEFREE [unittest arguments]
"""

import json
import os
import re
import signal
import subprocess
import sys
import unittest
from pathlib import Path

from recorded import (
    ALLOCATED,
    ALLOCATORS,
    CHUNK,
    CHUNK_HEAD,
    DIAGNOSE,
    EXEC,
    EXIT,
    FUNCTION_NAMES,
    FUNCTIONS,
    OBJECTS,
    PAIRS,
    RULES,
    RUNS,
    SIGNAL,
    SITES,
    STACKS,
    STRINGS,
    Recorded,
    rows,
    something_of_everything,
)

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))
from subcommand import Subcommand, SubcommandTest  # noqa: E402

HOMEFREE = Path(sys.argv.pop(1)).resolve()
HF_REPORT_PROCESSES_MAX = 1000
UMASK = os.umask(0)
os.umask(UMASK)


report = Subcommand(HOMEFREE, "report")


class ReportTest(SubcommandTest):
    command = report

    def write(self, recorded, name="4711-0.hfreport"):
        return recorded.write(self.directory / name)

    def document(self, *arguments, status=None):
        done = report("--json", *arguments)
        if status is not None:
            self.assertEqual(done.returncode, status, done)
        return json.loads(done.stdout)

    def text(self, *arguments, status=None, **options):
        done = report(*arguments, **options)
        if status is not None:
            self.assertEqual(done.returncode, status, done)
        return done.stdout.decode()


class CommandLine(ReportTest):
    def test_wrong_usage(self):
        self.assert_usual_refusals("give at least one file or directory", "takes no path")
        self.assert_usage("--html", word="--html")
        self.assert_usage("--json", "--html", "-", "x", word="only one result")

    def test_help(self):
        done = report("--help")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertTrue(done.stdout.startswith(b"Usage: homefree report"))

    def test_rules(self):
        listed = json.loads(report("--rules", "--json").stdout)["rules"]
        known = [name for _, name in rows("report_rules.def", "HF_REPORT_RULE") if name]
        self.assertEqual([rule["rule"] for rule in listed], known)
        self.assertEqual(len(known), 20)
        text = self.text("--rules", status=0)
        for name in known:
            self.assertRegex(text, rf"(?m)^{name} \((error|warning|note)\)$")

    def test_results_that_cannot_be_written(self):
        path = self.write(something_of_everything())
        done = report("--html", self.directory / "missing/page.html", path)
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"No such file", done.stderr)
        with open("/dev/full", "w") as full:
            done = report("--json", path, stdout=full)
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"No space left", done.stderr)

    def test_streams_that_are_closed_or_full(self):
        path = self.write(something_of_everything())
        command = [HOMEFREE, "report", path]

        def status(redirections):
            shell = f'exec "$@" {redirections}'
            done = subprocess.run(["sh", "-c", shell, "sh", *command], capture_output=True)
            self.assertLessEqual(len(done.stderr.splitlines()), 1, done)
            return done.returncode, done.stderr

        self.assertEqual(status("<&-"), (1, b""))
        self.assertEqual(status(">/dev/full 2>/dev/full"), (3, b""))
        self.assertEqual(status("<&- >/dev/null 2>&-"), (1, b""))
        code, why = status("<&- >&-")
        self.assertEqual((code, b"cannot write to stdout" in why), (3, True), why)


class WithoutPython(ReportTest):
    """What people read needs Python; what programs read does not."""

    def environment(self, python):
        return {**os.environ, "HOMEFREE_PYTHON": str(python)}

    def assert_remedy(self, python, why):
        path = self.write(something_of_everything())
        for arguments in [path], ["--html", self.directory / "page.html", path]:
            done = report(*arguments, env=self.environment(python))
            self.assertEqual((done.returncode, done.stdout), (3, b""), done)
            self.assertRegex(
                done.stderr.decode(),
                rf"\Ahomefree report: [^\n]*{why}[^\n]*CPython 3.9 or later[^\n]*HOMEFREE_PYTHON, "
                r"or use --json, which needs no Python\n\Z",
            )
        self.assertFalse((self.directory / "page.html").exists())
        for arguments in ["--json"], ["--folded", "-"]:
            done = report(*arguments, path, env=self.environment(python))
            self.assertEqual((done.returncode, done.stderr), (1, b""), done)

    def test_none(self):
        self.assert_remedy(self.directory / "python3", "No such file")

    def test_one_that_is_too_old(self):
        """Told of another version; the rest of it is real."""
        old = self.directory / "python3"
        old.write_text(
            f"#!{sys.executable}\n"
            "import sys\n"
            "sys.version_info = (3, 8, 20, 'final', 0)\n"
            "code = sys.argv.index('-c') + 1\n"
            "words, sys.argv = sys.argv, ['-c', *sys.argv[code + 1:]]\n"
            "exec(words[code])\n"
        )
        old.chmod(0o755)
        self.assert_remedy(old, "is Python 3.8; name ")

    def test_what_users_have_set_for_python(self):
        (self.directory / "json.py").write_text("raise SystemExit('of the current directory')\n")
        path = self.write(something_of_everything())
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.directory),
            "PYTHONHOME": "/nonexistent",
            "PYTHONIOENCODING": "ascii",
            "LC_ALL": "C",
        }
        done = report(path, env=environment, cwd=self.directory)
        self.assertEqual((done.returncode, done.stderr), (1, b""), done)
        self.assertEqual(done.stdout, report(path).stdout)

    def test_nobody_reads(self):
        path = self.write(something_of_everything())
        reading, writing = os.pipe()
        os.close(reading)
        with open(writing, "wb") as pipe:
            done = subprocess.run([HOMEFREE, "report", path], stdout=pipe, stderr=subprocess.PIPE)
        self.assertEqual((done.returncode, done.stderr), (-signal.SIGPIPE, b""))


class BadFiles(ReportTest):
    def file(self, name, content):
        path = self.directory / name
        path.write_bytes(content)
        return path

    def test_no_reports(self):
        whole = something_of_everything().bytes()
        self.assert_refused(self.directory / "missing", "No such file")
        self.assert_refused(self.directory, "no report in")
        self.assert_refused("", "No such file")
        self.assert_refused("/dev/null", "not a regular file")
        self.assert_refused(self.file("empty", b""), "the file is empty")
        self.assert_refused(self.file("text", b"hello\n"), "not the report of a process")
        self.assert_refused(self.file("foreign", b"TROPERFH" + whole[8:]), "not the report")
        self.assert_refused(self.file("short", whole[:1000]), "too short")
        newer = something_of_everything(version=2).bytes()
        self.assert_refused(self.file("newer", newer), "written by a newer homefree")
        os.mkfifo(self.directory / "fifo.hfreport")
        self.assert_refused(self.directory / "fifo.hfreport", "not a regular file")
        loop = self.directory / "loop.hfreport"
        loop.symlink_to(loop)
        self.assert_refused(loop, "symbolic links")

    def test_a_forbidden_file(self):
        path = self.write(something_of_everything())
        path.chmod(0)
        if os.access(path, os.R_OK):
            self.skipTest("root may read everything")
        self.assert_refused(path, "Permission denied")

    def test_the_others_are_read(self):
        self.write(something_of_everything(1), "1-0.hfreport")
        self.file("2-0.hfreport", b"")
        self.file("3-0.hfreport", something_of_everything(3).bytes()[:3000])
        os.mkfifo(self.directory / "4-0.hfreport")
        (self.directory / "5-0.hfreport").mkdir()
        done = report("--json", self.directory)
        self.assertEqual(done.returncode, 1, done)
        self.assertEqual(done.stderr.count(b"\n"), 4, done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual([process["pid"] for process in document["processes"]], [1])
        self.assertEqual(document["left_out"], 4)
        self.assertIn("4 processes are left out:", self.text(self.directory))

    def test_cut_short(self):
        """Whatever is left is shown, and the document says that something is missing."""
        whole = something_of_everything().bytes()
        for size in range(5000, len(whole), 4099):
            path = self.file("1-0.hfreport", whole[:size])
            document = self.document(path)
            self.assertEqual(document["processes"][0]["truncated"], True, size)
        self.assertIn("1 file is cut short or damaged", self.text(path))

    def test_a_huge_sparse_file(self):
        path = self.write(something_of_everything())
        os.truncate(path, 1 << 40)
        document = self.document(path, status=1)
        self.assertFalse(document["processes"][0]["truncated"])
        os.truncate(self.file("2-0.hfreport", b""), 1 << 40)
        self.assert_refused(self.directory / "2-0.hfreport", "not the report")

    def test_numbers_beyond_everything(self):
        recorded = Recorded()
        far = 0xFFFFFFFF
        recorded.finding("foreign-free", far, far, far, allocated_stack=far, freed_stack=far)
        recorded.finding(999)
        recorded.finding(0)
        recorded.pair(65534, 65533, 1, 1)
        recorded.sample(0, far, 1)
        document = self.document(self.write(recorded), status=1)
        self.assertTrue(document["processes"][0]["truncated"])
        (finding,) = document["findings"]
        self.assertEqual(finding["rule"], "foreign-free")
        for side in "allocated", "freed":
            self.assertEqual(finding[side]["object"], None)
            self.assertEqual(finding[side]["stack"], [])

    def test_a_stack_that_came_while_the_file_was_read(self):
        """A finding may get its allocating stack later: missing it is damage only after the end."""
        for end, truncated in (RUNS, False), (EXIT, True):
            recorded = Recorded(end=end)
            site = recorded.site(recorded.object("/lib.so"), 100)
            position = recorded.stack([(1, 100)])
            recorded.finding("malloc-delete", 0, site, site, allocated_stack=position + 24)
            document = self.document(self.write(recorded), status=1)
            self.assertEqual(document["processes"][0]["truncated"], truncated)
            (finding,) = document["findings"]
            self.assertEqual(finding["allocated"]["stack"], [])

    def test_chunks_that_lie(self):
        for field, value in [
            ("type", 99),
            ("used", 0xFFFFFFFF),
            ("used", 16369),
            ("first", 0xFFFFFFF0),
        ]:
            recorded = something_of_everything()
            whole = bytearray(recorded.bytes())
            offset = {"type": 0, "used": 4, "first": 8}[field]
            for chunk, (kind, _, _) in enumerate(recorded.chunks, 1):
                if field == "first" and kind not in (STRINGS, OBJECTS, SITES, ALLOCATORS, STACKS):
                    continue  # nothing refers to the others by number
                damaged = bytearray(whole)
                at = chunk * CHUNK + offset
                damaged[at : at + 4] = value.to_bytes(4, "little")
                document = self.document(self.file("1-0.hfreport", damaged))
                self.assertTrue(document["processes"][0]["truncated"], (field, value, chunk))

    def test_a_string_without_an_end(self):
        recorded = Recorded()
        number = recorded.object("/opt/lib/libtable.so")
        recorded.pair(number, number, 1, 1)
        chunk = next(chunk for chunk in recorded.chunks if chunk[0] == STRINGS)
        chunk[2][-1:] = b"x"
        document = self.document(self.write(recorded), status=0)
        self.assertTrue(document["processes"][0]["truncated"])
        self.assertEqual(document["matrix"][0]["allocated_by"], None)

    def test_names_that_are_no_text(self):
        """Names reach a terminal without its control codes, and a document as Unicode."""
        recorded = Recorded(command=b"a\x1b[2J\0\xff\0")
        number = recorded.object("/opt/\x1b[31m\udcff</script>.so")
        site = recorded.site(number, 10)
        recorded.finding("foreign-free", recorded.allocator("je\nmalloc"), site, site)
        path = self.write(recorded)
        text = self.text(path, status=1)
        self.assertNotIn("\x1b", text)
        self.assertIn("/opt/?[31m?</script>.so", text)
        document = self.document(path)
        self.assertEqual(document["processes"][0]["command"], ["a\x1b[2J", "\ufffd"])
        self.assertEqual(
            document["findings"][0]["freed"]["object"], "/opt/\x1b[31m\ufffd</script>.so"
        )
        self.assertEqual(self.text("--folded", "-", path).count("\n"), 1)

    def test_counts_that_overflow(self):
        most = (1 << 64) - 1
        for name in "1", "2":
            recorded = Recorded()
            number = recorded.object("/opt/bin/app")
            recorded.finding("double-free", count=most, size=most)
            recorded.pair(number, number, most, most, threads=0xFFFFFFFF)
            recorded.pair(number, ALLOCATED, most, most)
            recorded.pair(number, ALLOCATED, most, most)
            self.write(recorded, f"{name}-0.hfreport")
        document = self.document(self.directory, status=1)
        self.assertEqual(document["findings"][0]["count"], most)
        self.assertEqual(document["matrix"][0]["blocks"], most)
        self.assertEqual(document["processes"][0]["blocks"], most)

    def test_stacks_that_multiply(self):
        """A small file must not become a large document through stacks that all share."""
        recorded = Recorded()
        number = recorded.object("/opt/bin/app")
        stack = recorded.stack([(number, 100)] * 1000)
        for address in range(20000):
            site = recorded.site(number, address)
            recorded.finding("foreign-free", 0, site, site, allocated_stack=stack)
        path = self.write(recorded)
        done = report("--json", path)
        self.assertLess(len(done.stdout), 300 * path.stat().st_size)
        self.assertTrue(json.loads(done.stdout)["processes"][0]["truncated"])


class Document(ReportTest):
    def test_as_described(self):
        path = self.write(something_of_everything())
        document = self.document(path, status=1)
        self.assertEqual(
            list(document),
            [
                "homefree_report",
                "processes",
                "left_out",
                "rules",
                "findings",
                "suppressed",
                "matrix",
                "timeline",
            ],
        )
        self.assertEqual(document["homefree_report"], 1)
        self.assertEqual(
            document["processes"],
            [
                {
                    "pid": 4711,
                    "parent": 4700,
                    "host": "box",
                    "command": ["python3", "app.py"],
                    "mode": "report",
                    "started": 1790000000.125,
                    "ended": 1790000003.5,
                    "end": "exit",
                    "status": 0,
                    "homefree": "1.0.0",
                    "blocks": 1000,
                    "bytes": 100000,
                    "dropped": 0,
                    "truncated": False,
                    "file": str(path),
                }
            ],
        )
        found = document["findings"]
        kinds = [(finding["rule"], finding["severity"], finding["count"]) for finding in found]
        self.assertEqual(
            kinds,
            [
                ("foreign-free", "error", 17),
                ("sized-delete", "error", 2),
                ("double-free", "error", 1),
                ("array-new-delete", "warning", 5),
                ("boundary-leak", "note", 3),
            ],
        )
        rules = [(rule["rule"], rule["severity"], rule["findings"]) for rule in document["rules"]]
        self.assertEqual(sorted(rules), sorted((rule, severity, 1) for rule, severity, _ in kinds))
        foreign = found[0]
        self.assertEqual(foreign["bytes"], 68000)
        self.assertIn(foreign["remedy"], [rule["remedy"] for rule in document["rules"]])
        self.assertEqual(foreign["processes"], [4711])
        self.assertIn("munmap_chunk(): invalid pointer", foreign["without_homefree"])
        self.assertIn("Free the block", foreign["remedy"])
        place = {"symbol": None, "file": None, "line": None}
        self.assertEqual(
            foreign["allocated"],
            {
                "object": "/opt/lib/libtable.so",
                "allocator": "jemalloc",
                "allocator_object": "/opt/lib/libtable.so",
                "function": "malloc",
                **place,
                "offset": 0x1234,
                "stack": [
                    {"object": "/opt/lib/libtable.so", **place, "offset": 0x1234},
                    {"object": "/opt/bin/app", **place, "offset": 0x800},
                ],
                "python": [
                    {"file": "app.py", "function": "main", "line": 3},
                    {"file": "app.py", "function": "<module>", "line": 9},
                ],
            },
        )
        self.assertEqual(foreign["freed"].keys(), foreign["allocated"].keys())
        self.assertEqual(foreign["freed"]["object"], "/opt/bin/app")
        self.assertEqual(foreign["freed"]["function"], "free")
        # The program has no allocator of its own, so its free is libc's.
        self.assertEqual(foreign["freed"]["allocator"], "libc")
        self.assertEqual(found[4]["freed"]["allocator"], None)
        self.assertEqual((found[1]["asked"], found[1]["said"]), (64, 32))
        self.assertEqual(found[2]["first_freed"]["object"], "/opt/bin/app")
        self.assertEqual(found[3]["allocated"]["function"], "operator new[](unsigned long)")
        self.assertEqual(found[4]["freed"]["object"], None)
        self.assertEqual(
            document["suppressed"], [{"pattern": "new-free", "why": "the tests", "count": 6}]
        )
        self.assertEqual(
            document["matrix"],
            [
                {
                    "allocated_by": "/opt/lib/libtable.so",
                    "freed_by": "/opt/lib/libtable.so",
                    "blocks": 800,
                    "bytes": 80000,
                    "threads": 1,
                },
                {
                    "allocated_by": "/opt/lib/libtable.so",
                    "freed_by": "/opt/bin/app",
                    "blocks": 17,
                    "bytes": 68000,
                    "threads": 2,
                },
                {
                    "allocated_by": "/opt/bin/app",
                    "freed_by": None,
                    "blocks": 4,
                    "bytes": 400,
                    "threads": 1,
                },
            ],
        )
        self.assertEqual(len(document["timeline"]), 8)
        self.assertEqual(
            document["timeline"][2],
            {"pid": 4711, "time": 0.25, "object": "/opt/bin/app", "bytes": 1000},
        )

    def test_ends(self):
        for end, name, status in (
            (RUNS, None, None),
            (SIGNAL, "signal", 6),
            (EXEC, "exec", None),
        ):
            recorded = Recorded(end=end, status=6, ended=0, parent=0, host=b"", mode=3)
            process = self.document(self.write(recorded), status=0)["processes"][0]
            self.assertEqual((process["end"], process["status"]), (name, status))
            self.assertEqual((process["ended"], process["parent"]), (None, None))
            self.assertEqual((process["host"], process["mode"]), (None, "strict"))

    def test_every_function_and_rule_has_its_name(self):
        recorded = Recorded()
        number = recorded.object("/opt/bin/app")
        for address, function in enumerate(FUNCTIONS):
            site = recorded.site(number, address + 1, function)
            recorded.finding("foreign-free", 0, site, site)
        for rule in RULES.values():
            if rule != 0:
                recorded.finding(rule, 0, site, 0)
        document = self.document(self.write(recorded))
        self.assertFalse(document["processes"][0]["truncated"])
        names = {finding["freed"]["function"] for finding in document["findings"]}
        known = {name or None for name in FUNCTION_NAMES.values()}
        self.assertEqual(names, known)
        self.assertEqual({finding["rule"] for finding in document["findings"]}, set(RULES) - {""})

    def test_the_order_of_arguments_makes_no_difference(self):
        paths = []
        for process in range(6):
            recorded = something_of_everything(process + 1, 0x7F0000000000 + (process << 12))
            recorded.finding("interior-free", count=process)
            paths.append(self.write(recorded, f"{process}/{process}-0.hfreport"))
        first = report("--json", *paths).stdout
        self.assertEqual(report("--json", *reversed(paths)).stdout, first)
        self.assertEqual(report("--json", self.directory).stdout, first)
        self.assertEqual(report("--json", self.directory, *paths, self.directory).stdout, first)

    def test_moments_are_thinned(self):
        recorded = Recorded()
        number = recorded.object("/opt/bin/app")
        other = recorded.object("/opt/lib/libtable.so")
        for moment in range(60000):
            recorded.sample(moment * 1000, number, moment)
            recorded.sample(moment * 1000, other, 1)
        timeline = self.document(self.write(recorded))["timeline"]
        self.assertLess(len(timeline), 21000)
        self.assertGreater(len(timeline), 10000)
        self.assertEqual(timeline[0]["time"], 0)
        self.assertEqual(timeline[-1]["time"], 0.059999)
        by_time = {}
        for moment in timeline:
            by_time.setdefault(moment["time"], []).append(moment["object"])
        self.assertEqual({len(objects) for objects in by_time.values()}, {2})


class Merging(ReportTest):
    def test_processes_are_one(self):
        """Addresses differ from process to process, and paths from machine to machine."""
        self.write(something_of_everything(1), "1-0.hfreport")
        self.write(something_of_everything(2, base=0x7E0000000000), "2-0.hfreport")
        other = something_of_everything(3, base=0x7D0000000000, host=b"other").bytes()
        moved = other.replace(b"/opt/lib/libtable.so", b"/srv/lib/libtable.so")
        (self.directory / "machine").mkdir()
        (self.directory / "machine/3-0.hfreport").write_bytes(moved)
        document = self.document(self.directory, status=1)
        counts = {finding["rule"]: finding["count"] for finding in document["findings"]}
        # jemalloc is named by its object's path, which is another one there.
        self.assertEqual(counts["array-new-delete"], 15)
        self.assertEqual(counts["double-free"], 3)
        foreign = [
            finding["count"]
            for finding in document["findings"]
            if finding["rule"] == "foreign-free"
        ]
        self.assertEqual(sorted(foreign), [17, 34])
        sized = next(item for item in document["findings"] if item["rule"] == "sized-delete")
        self.assertEqual(sized["processes"], [1, 2, 3])
        crossing = next(pair for pair in document["matrix"] if pair["bytes"] == 3 * 68000)
        self.assertEqual((crossing["blocks"], crossing["threads"]), (51, 6))

    def test_other_builds_are_others(self):
        for name, build in ("1", b"one"), ("2", b"two"), ("3", b""), ("4", b""):
            recorded = Recorded(int(name))
            site = recorded.site(recorded.object("/opt/bin/app", 0, build), 100)
            recorded.finding("stack-free", 0, site, site)
            self.write(recorded, f"{name}-0.hfreport")
        counts = [finding["count"] for finding in self.document(self.directory)["findings"]]
        self.assertEqual(counts, [2, 1, 1])

    def test_a_stack_that_another_process_has(self):
        self.write(Recorded(1), "1-0.hfreport")
        for name in "1", "2":
            recorded = Recorded(int(name))
            number = recorded.object("/opt/bin/app")
            site = recorded.site(number, 100)
            stack = recorded.stack([(number, 100)]) if name == "2" else 0
            recorded.finding("stack-free", 0, site, site, freed_stack=stack)
            self.write(recorded, f"{name}-0.hfreport")
        (finding,) = self.document(self.directory)["findings"]
        self.assertEqual(len(finding["freed"]["stack"]), 1)

    def test_pairs_come_in_tables(self):
        """A process writes a table of pairs for each thread, and numbers only the tables."""
        recorded = Recorded()
        number = recorded.object("/opt/bin/app")
        for _ in range(2000):
            recorded.pair(number, number, 1, 10)
            recorded.pair(0, 0, 0, 0, threads=0)
        for table, chunk in enumerate(c for c in recorded.chunks if c[0] == PAIRS):
            chunk[1] = table
        recorded.suppressed("*", None, 4)
        document = self.document(self.write(recorded))
        self.assertFalse(document["processes"][0]["truncated"])
        self.assertEqual([pair["blocks"] for pair in document["matrix"]], [2000])
        self.assertEqual(document["suppressed"], [{"pattern": "*", "why": None, "count": 4}])

    def test_a_full_directory(self):
        self.write(Recorded())
        (self.directory / "index").write_bytes(b"+" * (HF_REPORT_PROCESSES_MAX + 7))
        self.assertEqual(self.document(self.directory)["left_out"], 7)
        (self.directory / "index").write_bytes(b"+" * HF_REPORT_PROCESSES_MAX)
        self.assertEqual(self.document(self.directory)["left_out"], 0)

    def test_who_would_have_died(self):
        """What dies is the allocator whose free is called: the freeing object's own, or libc."""
        recorded = Recorded()
        mimalloc = recorded.object("/opt/lib/libmi.so")
        plain = recorded.object("/opt/bin/app")
        jemalloc = recorded.allocator("jemalloc", "/opt/lib/libje.so")
        own = recorded.allocator("mimalloc", "/opt/lib/libmi.so")
        libc = recorded.allocator("libc", "/usr/lib/libc.so.6")
        cases = [
            (jemalloc, plain, "glibc aborts"),
            (jemalloc, mimalloc, "mimalloc reads"),
            (own, mimalloc, "glibc aborts"),
            (libc, mimalloc, "mimalloc reads"),
            (libc, plain, None),
            (0, plain, "glibc aborts"),  # such as a mapping
        ]
        for count, (allocator, number, _) in enumerate(cases):
            site = recorded.site(number, 100 + count, "free")
            recorded.finding("foreign-free", allocator, 0, site, count=10 - count)
        document = self.document(self.write(recorded))
        for finding, (_, _, what) in zip(document["findings"], cases):
            if what is None:
                self.assertEqual(finding["freed"]["allocator"], None)
                self.assertEqual(finding["without_homefree"], None)
            else:
                self.assertTrue(finding["without_homefree"].startswith(what), finding)


class Text(ReportTest):
    def test_nothing_found(self):
        recorded = Recorded()
        number = recorded.object("/opt/bin/app")
        recorded.pair(number, ALLOCATED, 12, 120)
        text = self.text(self.write(recorded), status=0)
        self.assertTrue(text.startswith("Nothing found in 1 process: 12 blocks allocated"), text)
        self.assertNotIn("more: ", text)

    def test_only_counted(self):
        text = self.text(self.write(Recorded(mode=1)), status=0)
        self.assertTrue(text.startswith("Blocks counted in 1 process: 0 blocks allocated"), text)

    def test_notes_alone_are_clean(self):
        recorded = Recorded()
        recorded.finding("boundary-leak")
        self.assertTrue(self.text(self.write(recorded), status=0).startswith("1 note in"))

    def test_an_access_is_no_free(self):
        recorded = Recorded()
        heap = recorded.allocator("heap")
        app = recorded.object("/opt/bin/app")
        made, freed = recorded.site(app, 0x100), recorded.site(app, 0x200, "free")
        read, written = recorded.site(app, 0x300, "read"), recorded.site(app, 0x400, "write")
        stacks = {
            "first_stack": recorded.stack([(app, 0x200)]),
            "freed_stack": recorded.stack([(app, 0x300)]),
        }
        recorded.finding("use-after-free", heap, made, read, first=freed, **stacks)
        recorded.finding("overrun", heap, made, written)
        recorded.finding("boundary-leak", heap, made, 0, first=freed)
        path = self.write(recorded)
        text = self.text(path, status=1)
        for part in (
            "Blocks of the heap, accessed by /opt/bin/app\n",
            "    freed       0x200 in app, with free\n    accessed    0x300 in app, with a read\n",
            "    accessed    0x400 in app, with a write\n",
            "    others freed 0x200 in app, with free\n",
            "    stack of the free\n      0x200 in app\n",
            "    stack of the access\n      0x300 in app\n",
        ):
            self.assertIn(part, text)
        (after,) = [
            finding
            for finding in self.document(path, status=1)["findings"]
            if finding["rule"] == "use-after-free"
        ]
        self.assertEqual(after["freed"]["function"], "a read")
        self.assertEqual(len(after["first_freed"]["stack"]), 1)
        self.assertIn(";-- accessed by --;", self.text("--folded", "-", path))

    def test_the_order(self):
        text = self.text(self.write(something_of_everything()), status=1)
        self.assertEqual(
            text.splitlines()[0],
            "3 errors, 1 warning, 1 note in 1 process; the worst is foreign-free, 17 times.",
        )
        places = [
            text.index(part)
            for part in (
                "Blocks of jemalloc in /opt/lib/libtable.so, freed by /opt/bin/app\n",
                "Blocks of libc in /usr/lib/libc.so.6, freed by /opt/bin/app\n",
                "Suppressed\n  6 times  new-free  (the tests)\n",
                "Who frees whose blocks\n",
            )
        ]
        self.assertEqual(places, sorted(places))
        self.assertNotIn("\x1b", text)
        for part in "what to do: Free the block with a function", "what to do: Use delete[]":
            self.assertEqual(text.count(part), 1)
        self.assertLess(text.index("what to do"), text.index("stack of the"))
        self.assertIn("    freed       0x1000 in app, with free\n", text)
        self.assertIn("      Python  main (app.py:3)\n", text)
        self.assertIn("2 times; allocated with 64, freed with 32\n", text)

    def test_pairs_that_crossed_come_first(self):
        recorded = Recorded()
        program = recorded.object("/opt/bin/app")
        for number in range(20):
            library = recorded.object(f"/opt/lib/lib{number:02}.so")
            recorded.pair(library, library, 1000 + number, 10)
        recorded.pair(library, program, 1, 10)
        recorded.pair(program, library, 2, 10)
        rows = self.text(self.write(recorded), status=0).split("freed by\n")[1].splitlines()
        self.assertEqual([int(row.split()[0]) for row in rows[:3]], [2, 1, 1019])
        self.assertEqual(rows[12:], ["         ...  10 more"])

    def test_many_findings(self):
        recorded = Recorded()
        number = recorded.object("/opt/bin/app")
        for address in range(1, 251):
            recorded.finding("foreign-free", 0, recorded.site(number, address), 0, count=address)
        text = self.text(self.write(recorded), status=1)
        self.assertIn("\n150 more findings; --json and --html show all.\n", text)
        self.assertIn("250 times", text)
        self.assertEqual(text.count("  error "), 100)

    def test_a_terminal(self):
        path = self.write(something_of_everything())
        for columns in 60, 100:
            text = report.on_terminal(path, COLUMNS=str(columns))
            self.assertIn("\x1b[31merror", text)
            plain = re.sub(r"\x1b\[\d*m", "", text)
            wrapped = plain[plain.index("Who frees") :].splitlines()
            wrapped += re.findall(r"(?s)without homefree.*?\n {0,5}\S", plain)[0].splitlines()[:-1]
            self.assertLessEqual(max(len(line) for line in wrapped), columns)
        self.assertNotIn("\x1b", report.on_terminal(path, NO_COLOR="1"))
        self.assertNotIn("\x1b", report.on_terminal(path, TERM="dumb"))


class Folded(ReportTest):
    def test_lines(self):
        path = self.write(something_of_everything())
        output = self.directory / "folded"
        text = self.text("--folded", output, path, status=1)
        self.assertIn("what to do", text)
        lines = output.read_text().splitlines()
        self.assertEqual(lines, sorted(lines))
        self.assertEqual(len(lines), 5)
        for line in lines:
            self.assertRegex(line, r"\A[a-z-]+(;[^;]+)+ \d+\Z")
        self.assertIn(
            "foreign-free;<module> (app.py);main (app.py);app+0x800;libtable.so+0x1234;malloc;"
            "-- freed by --;libpython3.11.so.1.0+0x100;app+0x1000;free 17",
            lines,
        )
        self.assertEqual(self.text("--folded", "-", path, status=1).splitlines(), lines)


class Stacks(ReportTest):
    def test_the_interpreter_below_python(self):
        recorded = Recorded()
        module, python = recorded.object("/opt/m.so"), recorded.object("/usr/bin/python3.11")
        native = [(module, 0x10), (python, 0x20), (module, 0x30), (python, 0x40)]
        lines = [("app.py", "main", 3)]
        site = recorded.site(module, 0x10)
        for rule, stack in (
            ("static-free", recorded.stack(native, lines)),
            ("stack-free", recorded.stack(native)),
        ):
            recorded.finding(rule, 0, site, site, allocated_stack=stack)
        text = self.text(self.write(recorded), status=1)
        self.assertIn("      Python  main (app.py:3)\n      0x10 in m.so\n      ... 3 of the", text)
        self.assertIn("      0x10 in m.so\n      0x20 in python3.11\n      0x30 in m.so\n", text)


class Files(ReportTest):
    """Where results go."""

    def test_a_file_changes_as_a_whole_and_keeps_its_permissions(self):
        path, page = self.write(something_of_everything()), self.directory / "page.html"
        report("--html", page, path)
        made = page.stat()
        self.assertEqual(made.st_mode & 0o777, 0o666 & ~UMASK)
        report("--html", page, path)
        self.assertEqual(page.stat().st_mtime_ns, made.st_mtime_ns)
        page.write_text("old")
        page.chmod(0o604)
        link = self.directory / "link.html"
        link.symlink_to(page.name)
        report("--html", link, path)
        self.assertTrue(link.is_symlink())
        self.assertEqual(page.stat().st_mode & 0o777, 0o604)
        self.assertIn("</html>", page.read_text(encoding="utf-8"))
        self.assertEqual(len(list(self.directory.iterdir())), 3)

    def test_a_link_to_a_file_that_is_still_to_be_made(self):
        link, target = self.directory / "link", self.directory / "target"
        link.symlink_to(target.name)
        for option in "--html", "--folded":
            report(option, link, self.write(something_of_everything()))
            self.assertTrue(link.is_symlink())
            self.assertGreater(target.stat().st_size, 0)
            target.unlink()


class Html(ReportTest):
    def test_the_document_is_in_the_page(self):
        recorded = something_of_everything()
        site = recorded.site(recorded.object("/opt/</script><b>.so"), 10)
        recorded.finding("static-free", 0, site, site)
        path = self.write(recorded)
        page = self.directory / "page.html"
        report("--html", page, path)
        text = page.read_text(encoding="utf-8")
        self.assertNotIn("@HOMEFREE_REPORT@", text)
        self.assertNotIn("</script><b>", text)
        found = re.search(r"<script[^>]*application/json[^>]*>(.*?)</script>", text, re.DOTALL)
        self.assertEqual(json.loads(found[1]), self.document(path))
        self.assertTrue(text.rstrip().endswith(">"))
        done = report("--html", "-", path)
        self.assertEqual(done.stdout.decode(), text)


class Comparing(ReportTest):
    def recorded(self, offset=0, **counts):
        recorded = Recorded()
        library = recorded.object("/opt/lib/libtable.so", 0, bytes([offset + 1]))
        for rule, count in counts.items():
            site = recorded.site(library, 100 + offset, "free")
            recorded.finding(rule.replace("_", "-"), 0, site, site, count=count)
        return recorded

    def both(self):
        """The same program after a change: another build, other addresses."""
        old = self.write(
            self.recorded(stack_free=3, static_free=5, no_gil=2, new_free=4), "old/1-0.hfreport"
        )
        new = self.write(
            self.recorded(7, stack_free=4, static_free=1, new_free=4, double_free=9),
            "new/1-0.hfreport",
        )
        return old, new

    def assert_compared(self, comparison, old):
        self.assertEqual(list(comparison), ["old", "new", "more", "fewer", "gone"])
        self.assertEqual(comparison["old"], str(old))
        for kind, rule, before, count in (
            ("new", "double-free", 0, 9),
            ("more", "stack-free", 3, 4),
            ("fewer", "static-free", 5, 1),
            ("gone", "no-gil", 2, 0),
        ):
            (item,) = comparison[kind]
            self.assertEqual(
                (item["rule"], item["count_before"], item["count"]), (rule, before, count)
            )
            self.assertEqual(item["freed"]["object"], "/opt/lib/libtable.so")

    def test_files_directories_and_documents(self):
        old, new = self.both()
        saved = self.directory / "old.json"
        saved.write_bytes(report("--json", old).stdout)
        for path in old, old.parent, saved:
            document = self.document("--compare", path, new, status=1)
            self.assert_compared(document["compare"], path)

    def test_text(self):
        old, new = self.both()
        text = self.text("--compare", old, new)
        self.assertIn(": 1 new, 1 gone, 1 more often, 1 less often, 1 the same\n", text)
        self.assertIn("  gone   no-gil  2 -> 0  allocated by libtable.so, freed by", text)

    def test_names_of_functions(self):
        """A function known on one side only is the same; different functions are different."""
        side = {"object": "/opt/lib/libtable.so", "function": "free", "symbol": "make"}
        new = self.write(self.recorded(stack_free=3))
        finding = {"rule": "stack-free", "severity": "error", "count": 3}
        for count, symbols in (0, ["make"]), (1, ["make", "take"]):
            findings = [
                {**finding, "allocated": {**side, "symbol": name}, "freed": side}
                for name in symbols
            ]
            saved = self.directory / "old.json"
            saved.write_text(json.dumps({"homefree_report": 1, "findings": findings}))
            comparison = self.document("--compare", saved, new)["compare"]
            self.assertEqual(len(comparison["gone"]), count)
            self.assertEqual(comparison["new"], [])

    def test_older_reports_that_are_none(self):
        new = self.write(self.recorded(stack_free=3))
        for content, word in (
            ("", "neither a report nor a document"),
            ("{}", "neither a report nor a document"),
            ("[" * 100000, "neither a report nor a document"),
            ('{"homefree_report": 2, "findings": []}', "newer homefree"),
            ('{"homefree_report": 1, "findings": [{}]}', "no rule"),
            ('{"homefree_report": 1, "findings": [[], 1]}', "no rule"),
        ):
            saved = self.directory / "old.json"
            saved.write_text(content)
            done = report("--compare", saved, new)
            self.assertEqual((done.returncode, done.stdout), (3, b""), content[:50])
            self.assertIn(word, done.stderr.decode())
        done = report("--compare", self.directory / "missing", new)
        self.assertEqual(done.returncode, 3)
        os.mkfifo(self.directory / "fifo")
        self.assertEqual(report("--compare", self.directory / "fifo", new).returncode, 3)


class Logged(Recorded):
    """Keeps the order in which records were added."""

    def __init__(self, *arguments, **header):
        self.log = []
        super().__init__(*arguments, **header)

    def add(self, kind, record):
        number = super().add(kind, record)
        chunk = self.last[kind]
        self.log.append((chunk, len(chunk[2]) - len(record), record))
        return number

    def replay(self, file):
        """Writes the file as the process does: a record, then the number of bytes in use."""
        numbers = {id(chunk): number for number, chunk in enumerate(self.chunks, 1)}
        os.ftruncate(file, (1 + len(self.chunks)) * CHUNK)
        os.pwrite(file, self.bytes()[:CHUNK], 0)
        for chunk, offset, record in self.log:
            at = numbers[id(chunk)] * CHUNK
            if offset == 0:
                os.pwrite(file, CHUNK_HEAD.pack(chunk[0], 0, chunk[1], 0), at)
            os.pwrite(file, record, at + CHUNK_HEAD.size + offset)
            os.pwrite(file, (offset + len(record)).to_bytes(4, sys.byteorder), at + 4)


class Running(ReportTest):
    def test_a_file_that_is_being_written(self):
        """Every finding that is read has the names to which it refers."""
        recorded = Logged(end=RUNS, ended=0)
        for number in range(30000):
            library = recorded.object(f"/opt/lib/lib{number}.so")
            site = recorded.site(library, number + 1)
            recorded.finding("stack-free", 0, site, site)
        path = self.write(Recorded(end=RUNS))
        writer = os.fork()
        if writer == 0:
            try:
                recorded.replay(os.open(path, os.O_WRONLY))
            finally:
                os._exit(0)
        counts = []
        while os.waitpid(writer, os.WNOHANG) == (0, 0):
            document = self.document(path)
            self.assertFalse(document["processes"][0]["truncated"])
            for finding in document["findings"]:
                self.assertNotEqual(finding["allocated"]["object"], None)
            counts.append(len(document["findings"]))
        self.assertEqual(counts, sorted(counts))
        self.assertEqual(len(self.document(path)["findings"]), 30000)


class Many(ReportTest):
    def test_a_thousand_files(self):
        """A directory of 1000 files of 200 KiB takes seconds, and the report adds them all up."""
        recorded = something_of_everything(end=RUNS)
        for number in range(2000):
            library = recorded.object(f"/opt/lib/lib{number % 200}.so", number % 200 << 20)
            recorded.pair(library, 1, 1, 10)
            recorded.sample(number, library, number)
        content = recorded.bytes()
        content += bytes(max(0, 200 * 1024 - len(content)))
        for number in range(1000):
            (self.directory / f"{number}-0.hfreport").write_bytes(content)
        document = self.document(self.directory, status=1)
        self.assertEqual(len(document["processes"]), 1000)
        self.assertEqual(document["findings"][0]["count"], 17000)


if __name__ == "__main__":
    assert DIAGNOSE.is_dir()
    unittest.main()
