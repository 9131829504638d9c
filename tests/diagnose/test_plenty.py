"""A report grows with what there is to tell: nothing is lost, whether the process ends, is killed
or forks, on a kernel that cannot back a mapped file, and with hundreds of objects. Where the file
may not grow, the process goes on, and the loss is told.

Usage: test_plenty.py --homefree COMMAND --plenty PROGRAM --old-kernel PROGRAM --crossings PROGRAM
       --plugin MODULE [unittest arguments]
"""

import os
import resource
import shutil
import signal
import tempfile

from diagnosis import DiagnosisTest, arguments, main, parser

for option in ("--plenty", "--old-kernel", "--crossings", "--plugin"):
    parser.add_argument(option, required=True, type=os.path.abspath)

WAYS = 120
MIB = 1 << 20
MODULES = 400


class Plenty(DiagnosisTest):
    def run_it(self, what, before=(), **more):
        run = self.diagnose(*before, arguments.plenty, what, **more)
        if run.status == 77:
            self.skipTest("the kernel has no seccomp filters")
        return run

    def largest(self, run):
        return max(path.stat().st_size for path in run.directory.glob("*.hfreport"))

    def check_all(self, run, status=0, times=1):
        """By the text, which shows the worst ones, because a document of all stacks is large."""
        self.assertEqual(run.status, status, run.errors)
        self.assertNotIn("found no room", run.errors)
        text = run.text()
        count = "1 time" if times == 1 else f"{times} times"
        self.assertTrue(text.startswith(f"{WAYS * WAYS} warnings in "), text[:100])
        self.assertEqual(text.count(f"  new-free  {count}, "), text.count("  new-free  "))
        self.assertNotIn("not recorded", text)

    def test_ends(self):
        run = self.run_it("ends")
        self.check_all(run)
        self.assertGreater(self.largest(run), 8 * MIB)

    def test_killed(self):
        self.check_all(self.run_it("killed"), -signal.SIGKILL)

    def test_forks(self):
        self.check_all(self.run_it("forks"), times=2)

    def test_old_kernel(self):
        self.check_all(self.run_it("ends", [arguments.old_kernel]))

    def test_limit_on_data(self):
        def limit_data():
            resource.setrlimit(resource.RLIMIT_DATA, (96 * MIB, 96 * MIB))

        self.check_all(self.run_it("ends", preexec_fn=limit_data))

    def test_limit_on_addresses(self):
        """The report is smaller, but it is written."""

        def limit_addresses():
            resource.setrlimit(resource.RLIMIT_AS, (200 * MIB, 200 * MIB))

        run = self.run_it("ends", preexec_fn=limit_addresses)
        self.assertEqual(run.status, 0, run.errors)
        self.assertGreater(self.largest(run), 2 * MIB)

    def test_limit_on_the_size_of_files(self):
        limit = 5 * MIB + 1234

        def limit_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        for before in ((), (arguments.old_kernel,)):
            run = self.run_it("ends", before, preexec_fn=limit_files)
            self.assertEqual(run.status, 0, run.errors)
            self.assertLessEqual(self.largest(run), limit)
            self.assertRegex(run.errors, "; [0-9]+ more events found no room in the report")
            self.assertRegex(run.text(), "[0-9]+ events were not recorded, because there was no")


class ManyObjects(DiagnosisTest):
    def test_each_pair_is_counted(self):
        with tempfile.TemporaryDirectory(prefix="homefree-test-diagnose-") as directory:
            modules = [f"{directory}/{number}.so" for number in range(MODULES)]
            for path in modules:
                shutil.copy(arguments.plugin, path)
            environment = {**os.environ, "MODULES": ":".join(modules)}
            run = self.diagnose(arguments.crossings, "many", env=environment)
            self.assertEqual((run.status, run.output), (0, "survived\n"), run.errors)
            (process,) = run.report["processes"]
            self.assertEqual(process["dropped"], 0)
            self.assertGreaterEqual(process["blocks"], 2 * MODULES)


if __name__ == "__main__":
    main(needs_names=True)
