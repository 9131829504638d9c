"""`homefree report --pid`: what a process has recorded can be read while it runs, and it goes on.

Usage: see looking.py.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from looking import Looking, arguments, main

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
from glibc import NAMES_MODULES  # noqa: E402


class Report(Looking):
    def report(self, pid, **more):
        document = self.document("report", pid, **more)
        self.assertEqual(document["homefree_report"], 1)
        self.assertEqual(len(document["processes"]), 1)
        return document

    def test_findings_of_a_running_process(self):
        target = self.diagnose()
        before = self.report(target.pid, statuses=(0,))
        self.assertEqual(before["findings"], [])
        self.assertEqual(target.tell("twice"), "done")
        document = self.report(target.pid, statuses=(1,))
        (process,) = document["processes"]
        self.assertEqual((process["pid"], process["end"]), (target.pid, None))
        self.assertFalse(process["truncated"])
        self.assertEqual(os.path.dirname(process["file"]), str(self.directory / "report"))
        (finding,) = document["findings"]
        self.assertEqual((finding["rule"], finding["count"]), ("double-free", 1))
        if NAMES_MODULES:
            self.assertEqual(finding["freed"]["symbol"], "free_twice")
        self.assertEqual(target.tell("blocks", 5), "done")
        self.assertEqual(target.end(), 0)

    def test_forms(self):
        target = self.diagnose()
        self.assertEqual(target.tell("twice"), "done")
        html, folded, old = (self.directory / name for name in ("a.html", "a.folded", "old.json"))
        done = self.command(
            "report", "--html", html, "--folded", folded, "--json", "--pid", target.pid
        )
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("double-free", html.read_text())
        self.assertTrue(folded.exists())
        old.write_text(done.stdout)
        self.assertEqual(target.tell("twice"), "done")
        done = self.command("report", "--compare", old, "--json", "--pid", target.pid)
        (more,) = json.loads(done.stdout)["compare"]["more"]
        self.assertEqual((more["count_before"], more["count"]), (1, 2))
        text = self.command("report", "--pid", target.pid).stdout
        self.assertIn("double-free", text)

    def test_counts_are_as_of_now(self):
        """Also those of a thread that has a table of its own and is asleep."""
        target = self.diagnose()
        self.assertEqual(target.tell("blocks", 10), "done")

        def blocks():
            return self.report(target.pid)["processes"][0]["blocks"]

        def more(*words):
            before = blocks()
            self.assertEqual(target.tell(*words), "done")
            return blocks() - before

        self.assertEqual(more("blocks", 1000) - more("blocks", 0), 1000)
        self.assertGreaterEqual(more("thread", 1000), 1000)
        self.assertEqual(target.end(), 0)

    def test_while_it_records(self):
        """Whatever is being written: what is read is whole, and never less than before."""
        target = self.diagnose()
        self.assertEqual(target.tell("busy"), "done")
        blocks = count = 0
        for _ in range(5):
            document = self.report(target.pid)
            (process,) = document["processes"]
            self.assertFalse(process["truncated"])
            self.assertGreaterEqual(process["blocks"], blocks)
            blocks = process["blocks"]
            found = sum(each["count"] for each in document["findings"])
            self.assertGreaterEqual(found, count)
            count = found

    def test_removed_report(self):
        target = self.diagnose()
        self.assertEqual(target.tell("twice"), "done")
        shutil.rmtree(self.directory / "report")
        document = self.report(target.pid, statuses=(1,))
        self.assertEqual(document["findings"][0]["rule"], "double-free")

    def test_removed_report_of_the_same_user(self):
        """Without privileges, it comes from the process's memory."""
        nobody = self.as_nobody()
        self.directory.chmod(0o777)
        library = self.directory / "libhomefree-diagnose.so"
        shutil.copy(os.path.join(os.path.dirname(arguments.library), library.name), library)
        library.chmod(0o755)
        env = {
            "LD_PRELOAD": str(library),
            "HOMEFREE_DIAGNOSE": f"mode:report,directory:{self.directory}/report",
        }
        owned = {key: nobody[key] for key in ("user", "group", "extra_groups")}
        program = str(self.directory / "target")
        target = self.run_target(program, env=env, stderr=subprocess.DEVNULL, **owned)
        self.assertEqual(target.tell("twice"), "done")
        shutil.rmtree(self.directory / "report")
        document = self.report(target.pid, statuses=(1,), **nobody)
        self.assertEqual(document["findings"][0]["rule"], "double-free")
        self.assertFalse(document["processes"][0]["truncated"])
        refuse = {**os.environ, "LD_PRELOAD": str(self.directory / "refuse")}
        self.refused(3, "has been removed", "report", "--pid", target.pid, env=refuse, **nobody)
        self.assertEqual(target.end(), 0)

    def test_child_without_a_file(self):
        """A forked child that found nothing keeps its records in memory."""
        target = self.diagnose()
        target.process.stdin.write("fork\n")
        target.process.stdin.flush()
        child = int(target.line().split()[1])
        document = self.report(child, statuses=(0,))
        self.assertEqual(document["processes"][0]["pid"], child)
        self.assertIsNone(document["processes"][0]["file"])
        refuse = {**os.environ, "LD_PRELOAD": arguments.refuse}
        self.refused(3, "cannot be read", "report", "--pid", child, env=refuse)
        self.assertEqual(target.tell("twice"), "done")
        document = self.report(child, statuses=(1,))
        self.assertIn(f"/{child}-", document["processes"][0]["file"])
        self.assertEqual(target.end(), 0)

    def test_other_mounts(self):
        """The report and the files that names are looked up in are elsewhere."""
        unshare, inside = self.mounts_of_its_own()
        run = f"{arguments.homefree} run --diagnose --report {inside}/report --"
        script = (
            f"mount -t tmpfs none {inside} && cp {arguments.target} {inside}/program && "
            f"exec {run} {inside}/program 2>{inside}/errors"
        )
        try:
            target = self.run_target(*unshare, "sh", "-c", script)
        except AssertionError:
            self.skipTest("nothing may be mounted")
        self.assertEqual(target.tell("twice"), "done")
        document = self.report(target.pid, statuses=(1,))
        self.assertEqual(os.listdir(inside), [])
        self.assertEqual(document["findings"][0]["freed"]["symbol"], "free_twice")

    def test_not_diagnosed(self):
        target = self.run_target()
        self.refused(3, "is not diagnosed; 'homefree run --diagnose", "report", "--pid", target.pid)
        target = self.run_target(env={"LD_PRELOAD": arguments.library})
        self.refused(3, "is not diagnosed", "report", "--pid", target.pid)
        self.assertEqual(target.end(), 0)

    def test_ending(self):
        self.check_ending_while_looked_at("report", self.diagnose)

    def test_does_not_disturb(self):
        target = self.diagnose()
        self.assertEqual(target.tell("twice"), "done")
        self.check_that_it_does_not_run("report", target)

    def test_numbers(self):
        self.check_processes_that_are_none("report")

    def test_another_user(self):
        self.check_one_of_another_user("report")


if __name__ == "__main__":
    main()
