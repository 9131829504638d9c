"""`homefree memory --blocks --pid`: it finds from outside the blocks that the process itself finds.

Usage: see looking.py.
"""

import json
import os
import signal

from looking import Looking, arguments, main

PAGE = 4096


class Heap(Looking):
    def heap(self, pid, *more):
        done = self.command("memory", "--blocks", "--json", *more, "--pid", pid)
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual(document["homefree"]["document"], "heap")
        self.assertEqual(document["pid"], pid)
        return document

    def walk(self, **environment):
        """What a stopped process shows, and what its own walk found just before."""
        target = self.run_target(arguments.walked, env=environment)
        target.process.stdin.write("\n")
        target.process.stdin.flush()
        _, status = os.waitpid(target.pid, os.WUNTRACED)
        self.assertTrue(os.WIFSTOPPED(status))
        document = self.heap(target.pid, "--all")
        target.process.send_signal(signal.SIGCONT)
        inside = [tuple(map(int, line.split())) for line in target.process.stdout]
        self.assertEqual(target.end(), 0)
        self.assertGreater(len(inside), 1000)
        self.assertEqual(len(set(inside)), len(inside))
        return document, inside

    def check_sums(self, document):
        live = [block for block in document["blocks"] if block["live"]]
        large = [block["size"] for block in live if block["kind"] == "large"]
        self.assertTrue(document["complete"])
        self.assertEqual(document["live"], len(live))
        self.assertEqual(document["live_bytes"], sum(block["size"] for block in live))
        self.assertEqual(document["large"]["live"], len(large))
        self.assertEqual(document["large"]["live_bytes"], sum(large))
        self.assertGreater(document["bytes"], document["live_bytes"])
        for row in document["classes"]:
            self.assertLessEqual((row["live"] + row["free"]) * row["size"], row["bytes"])

    def test_stopped(self):
        document, inside = self.walk(HOMEFREE_CONF="checks:default")
        blocks = [(block["address"], block["size"], block["live"]) for block in document["blocks"]]
        outside = [(address, size) for address, size, live in blocks if live]
        self.assertEqual(sorted(outside), sorted(inside))
        self.assertEqual(outside, sorted(outside))
        self.check_sums(document)
        for (address, size, _), (following, _, _) in zip(blocks, blocks[1:]):
            self.assertLessEqual(address + size, following)

    def test_guards(self):
        for tier in ("hardened", "full"):
            with self.subTest(tier=tier):
                document, inside = self.walk(HOMEFREE_CONF=f"checks:{tier}")
                live = [block for block in document["blocks"] if block["live"]]
                self.assertEqual(len(live), len(inside))
                for block, (address, size) in zip(live, sorted(inside)):
                    self.assertLessEqual(block["address"], address)
                    self.assertLess(address + size, block["address"] + block["size"] + PAGE)
                    self.assertLessEqual(size, block["size"])
                self.check_sums(document)

    def test_table(self):
        target = self.run_target(env={"LD_PRELOAD": arguments.preload})
        rows = self.command("memory", "--blocks", "--pid", target.pid).stdout.splitlines()
        self.assertEqual(rows[0].split()[0], "size")
        self.assertEqual([row.split()[0] for row in rows[-2:]], ["larger", "all"])
        listed = self.command(
            "memory", "--blocks", "--all", "--pid", target.pid
        ).stdout.splitlines()
        self.assertEqual(listed[-len(rows) :], rows)
        address, size, kind, state = listed[0].split()
        self.assertGreater(int(address, 16), 0)
        self.assertEqual((int(size) % 16, kind), (0, "small"))
        self.assertIn(state, ("live", "free"))
        self.assertEqual(target.end(), 0)

    def test_busy(self):
        """Threads that allocate and free while they are looked at, and a process that ends."""
        target = self.run_target(arguments.target, env={"LD_PRELOAD": arguments.preload})
        for _ in range(4):
            self.assertEqual(target.tell("grow"), "done")
        for _ in range(20):
            document = self.heap(target.pid)
            self.assertTrue(document["complete"])
            self.assertLessEqual(document["live_bytes"], document["bytes"])
        target.process.kill()
        done = self.command("memory", "--blocks", "--pid", target.pid)
        self.assertIn(done.returncode, (0, 3))

    def test_without_one(self):
        target = self.run_target()
        self.refused(3, "homefree is not in it", "memory", "--blocks", "--pid", target.pid)
        self.refused(2, "give a process", "memory", "--blocks")
        for lie, message in (("VERSION", "another version"), ("NEW", "has not started")):
            with self.subTest(lie=lie):
                target = self.run_target(arguments.liar, lie)
                self.refused(3, message, "memory", "--blocks", "--pid", target.pid)


if __name__ == "__main__":
    main()
