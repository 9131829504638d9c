"""`homefree trim --pid`: a running process gives back what it does not use, by its background
thread; who has none says so, and what lies does no harm."""

import json
import subprocess

from looking import Looking, arguments, main


class Trim(Looking):
    def run_with(self, conf):
        return self.run_target(env={"LD_PRELOAD": arguments.library, "HOMEFREE_CONF": conf})

    def test_what_it_gave(self):
        target = self.run_with("background:on")
        self.assertEqual(target.tell("blocks", 10), "done")
        document = self.document("trim", target.pid, statuses=(0,))
        self.assertEqual((document["homefree_trim"], document["pid"]), (1, target.pid))
        rows = document["rows"]
        self.assertEqual([row["allocator"] for row in rows], ["homefree", "libc"])
        self.assertEqual([row["how"] for row in rows], ["hf_trim", "malloc_trim"])
        for row in rows:
            self.assertIsNone(row["object"])
            self.assertGreater(row["before"], 1 << 19)
            self.assertGreater(row["after"], 1 << 19)
        done = self.command("trim", "--pid", target.pid)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.count("\n"), 3)
        self.assertIn("malloc_trim", done.stdout)
        self.assertEqual(target.end(), 0)

    def test_several_ask_at_once(self):
        target = self.run_with("background:on")
        askers = [
            subprocess.Popen(
                [arguments.homefree, "trim", "--json", "--pid", str(target.pid)],
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(4)
        ]
        for asker in askers:
            text, _ = asker.communicate(timeout=60)
            self.assertEqual(asker.returncode, 0)
            self.assertEqual(json.loads(text)["pid"], target.pid)

    def test_without_the_thread(self):
        target = self.run_with("")
        self.refused(3, "HOMEFREE_CONF=background:on", "trim", "--pid", target.pid)

    def test_in_a_forked_child_without_it(self):
        target = self.run_with("background:on")
        child = int(target.tell("fork").split()[1])
        self.refused(3, "it has no thread that answers", "trim", "--pid", child)
        self.document("trim", target.pid, statuses=(0,))

    def test_without_homefree(self):
        self.refused(3, "homefree is not in it", "trim", "--pid", self.run_target().pid)

    def test_wrong_usage(self):
        self.refused(2, "--pid PID is missing", "trim")
        self.refused(2, "is not a process number", "trim", "--pid", "me")
        self.refused(2, "it takes no operands", "trim", "--pid", "1", "2")

    def test_a_liar(self):
        done = self.command("trim", "--pid", self.run_target(arguments.liar, "TRIM").pid)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("\x1b", done.stdout)
        self.assertLess(len(done.stdout), 64 * 1000)

    def test_nothing_is_written_elsewhere(self):
        """To memory that the process itself may not write."""
        target = self.run_target(arguments.liar, "ELSEWHERE")
        self.refused(3, "cannot ask process", "trim", "--pid", target.pid)
        self.assertEqual(target.end(), 0)


if __name__ == "__main__":
    main()
