"""Processes whose memory lies: the command ends soon, says something bounded, and does not crash.

Usage: see looking.py.
"""

import os
import shutil

from looking import Looking, arguments, main

OUTPUT_MOST = 1 << 20


class Hostile(Looking):
    def look(self, what, pid, *options):
        done = self.command(what, *options, "--pid", pid)
        self.assertIn(done.returncode, (0, 1, 3), done.stderr[-2000:])
        self.assertLess(len(done.stdout) + len(done.stderr), OUTPUT_MOST)
        return done

    def test_tables(self):
        for lie in ("COUNTS", "ADDRESSES", "LOOPS", "PAGES", *map(str, range(4))):
            with self.subTest(lie=lie):
                target = self.run_target(arguments.liar, lie)
                self.look("doctor", target.pid)
                self.look("memory", target.pid, "--blocks")
                self.look("memory", target.pid, "--json")
                process = self.doctor(target.pid)
                liar = next(each for each in process["objects"] if "live-liar" in each["path"])
                self.assertEqual(liar["role"], "homefree")
                self.assertNotIn("another version", process["unseen"] or "")
                self.assertEqual(target.end(), 0)

    def test_homefree_that_cannot_be_read(self):
        for lie, message in (("VERSION", "another version"), ("NEW", "has not started")):
            with self.subTest(lie=lie):
                process = self.doctor(self.run_target(arguments.liar, lie).pid)
                self.assertIsNone(process["routing"])
                self.assertTrue(process["homefree"])
                self.assertIn(message, process["unseen"])

    def test_beside_the_real_one(self):
        target = self.run_target(arguments.liar, "LOOPS", env={"LD_PRELOAD": arguments.library})
        self.look("doctor", target.pid, "--json", "--all")
        self.assertEqual(target.end(), 0)

    def test_report(self):
        path = self.directory / "1-0.hfreport"
        target = self.run_target(arguments.liar, "1", str(path))
        for options in ([], ["--json"], ["--html", str(self.directory / "a.html")]):
            self.look("report", target.pid, *options)
        path.unlink()
        self.look("report", target.pid, "--json")
        self.assertEqual(target.end(), 0)

    def test_something_else_of_that_name(self):
        """A library that is called like the diagnosing one, and is not."""
        library = self.directory / "libhomefree-diagnose.so"
        shutil.copy(arguments.refuse, library)
        target = self.run_target(env={"LD_PRELOAD": str(library)})
        self.refused(3, "it has none", "report", "--pid", target.pid)
        self.assertEqual(target.end(), 0)

    def test_many_mappings(self):
        """One library, mapped over and over."""
        command = (
            "import mmap, os, sys\n"
            "file = open(sys.argv[1], 'rb')\n"
            "kept = [mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | 4)\n"
            "        for i in range(6000)]\n"
            "print('ready', os.getpid(), flush=True)\n"
            "sys.stdin.read()\n"
        )
        target = self.run_target("/usr/bin/env", "python3", "-c", command, arguments.refuse)
        process = self.doctor(target.pid)
        self.assertLess(len(process["objects"]), 200)

    def test_itself(self):
        self.look("doctor", os.getpid(), "--json")
        self.refused(3, "is not diagnosed", "report", "--pid", os.getpid())


if __name__ == "__main__":
    main()
