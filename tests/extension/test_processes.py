"""Many processes that load one module: one builds, the others wait; builders that are killed."""

import os
import shutil
import signal
import subprocess
import sys

import support

PROCESSES = 16

# Sixteen workers. Each imports this file, and so loads the module, and gets a number of its own.
POOL = """
import multiprocessing, os
from homefree import extension
fast = extension.load("fast", ["fast.c"])

def work(barrier):
    barrier.wait(50)
    return os.getpid(), fast.value()

if __name__ == "__main__":
    context = multiprocessing.get_context({how!r})
    with context.Manager() as manager, context.Pool({count}) as pool:
        barrier = manager.Barrier({count})
        found = pool.map(work, [barrier] * {count}, 1)
    assert len(set(pid for pid, _ in found)) == {count}
    print(sum(value for _, value in found))
"""
# The parent only has the pool, so that the workers find an empty cache.
WORKERS = """
import multiprocessing, os

def work(barrier):
    barrier.wait(50)
    from homefree import extension
    return os.getpid(), extension.load("fast", ["fast.c"]).value()
"""


class Together(support.TestCase):
    def together(self, text, how):
        self.write("pool.py", text.replace("{how!r}", repr(how)).replace("{count}", str(PROCESSES)))
        done = subprocess.run(
            [sys.executable, "-s", "pool.py"],
            cwd=self.work,
            env=self.environment,
            capture_output=True,
            timeout=support.SECONDS,
            text=True,
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, f"{PROCESSES}\n", ""))
        self.assertEqual(self.compiled(), 1)
        self.assertEqual(len(self.entries()), 1)

    def test_spawned_workers_of_a_parent_that_built(self):
        self.together(POOL, "spawn")

    def test_spawned_workers_with_a_cold_cache_build_once(self):
        self.together(
            WORKERS + POOL.partition("    return os.getpid(), fast.value()\n")[2], "spawn"
        )

    def test_workers_of_a_forkserver_with_a_cold_cache_build_once(self):
        self.together(
            WORKERS + POOL.partition("    return os.getpid(), fast.value()\n")[2], "forkserver"
        )

    def test_unrelated_processes_with_a_cold_cache_build_once(self):
        # As torchrun starts them: the processes share only the command line.
        code = "sys.stdin.read(1); print(load().value())"
        processes = [self.begin(code) for _ in range(PROCESSES)]
        for process in processes:
            outcome = self.finish(process)
            self.assertEqual((outcome.status, outcome.out, outcome.err), (0, "1\n", ""))
        self.assertEqual(self.compiled(), 1)


class Killed(support.TestCase):
    """The compiler is a double that reports when it has begun, and waits for permission to
    continue."""

    def setUp(self):
        super().setUp()
        begun, go = self.work / "begun", self.work / "go"
        os.mkfifo(begun)
        os.mkfifo(go)
        # Open for reading and writing, so that opening does not wait.
        self.begun, self.go = os.open(begun, os.O_RDWR), os.open(go, os.O_RDWR)
        self.addCleanup(os.close, self.begun)
        self.addCleanup(os.close, self.go)
        self.slow = self.counting("slow", "cc", before=f"echo >{begun}; read x <{go}")

    def begin_slowly(self, code="load()"):
        """Starts a process and returns when its compiler waits."""
        process = self.begin(code, CC=self.slow)
        self.assertEqual(os.read(self.begun, 100), b"\n")
        return process

    @staticmethod
    def kill(process):
        # Only this process; its children live on.
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

    def remove_cache(self):
        """As somebody who clears the cache: its builder still writes there, and so may bring a
        directory back to life while it is being emptied."""
        aside = self.work / "removed"
        os.rename(self.cache, aside)
        while aside.exists():
            shutil.rmtree(aside, ignore_errors=True)

    def test_next_one_builds_and_removes_what_is_left(self):
        process = self.begin_slowly()
        (left,) = (self.cache / "fast").glob("build-*")
        self.kill(process)
        self.assertTrue(left.is_dir())
        self.assertEqual(self.value(), 1)
        self.assertFalse(left.exists())
        self.assertEqual(len(self.entries()), 1)

    def test_one_that_waits_is_told_whom_for_and_takes_over(self):
        process = self.begin_slowly()
        # The two compilers must have the same name, because it is part of the key.
        os.replace(self.counting("cc", "cc"), self.slow)
        waiter = self.begin("print(load(verbose=True).value())", CC=self.slow)
        said = waiter.stderr.readline()
        self.assertRegex(said, rf"waiting: fast is being built by process {process.pid} since \d")
        self.kill(process)
        outcome = self.finish(waiter)
        self.assertEqual((outcome.status, outcome.out), (0, "1\n"), outcome.err)

    def test_one_that_waits_reuses_what_was_built(self):
        process = self.begin_slowly()
        waiter = self.begin("print(load(verbose=True).value())", CC=self.slow)
        self.assertIn("waiting", waiter.stderr.readline())
        os.write(self.go, b"\n")
        outcome = self.finish(waiter)
        self.assertEqual((outcome.status, outcome.out, outcome.err), (0, "1\n", ""))
        self.assertEqual(self.finish(process).status, 0)
        self.assertEqual(self.compiled(), 1)

    def test_child_of_a_builders_fork_does_not_hold_the_lock(self):
        for name in ("fork", "end"):
            os.mkfifo(self.work / name)
        builder = self.begin_slowly(
            """
            import signal, threading
            threading.Thread(target=load, daemon=True).start()
            open("fork").read()
            if os.fork() == 0:
                print("forked", flush=True)
                open("end").read()
                os._exit(0)
            signal.pause()
            """
        )
        with open(self.work / "fork", "w"):
            pass
        self.assertEqual(builder.stdout.readline(), "forked\n")
        self.kill(builder)
        # The child is alive, but its parent's lock is gone.
        self.assertEqual(self.value(), 1)
        with open(self.work / "end", "w"):
            pass

    def test_stale_lock_file_means_nothing(self):
        self.write("cache/fast/lock", "process 1 since the beginning\n")
        os.chmod(self.cache, 0o700)
        os.chmod(self.cache / "fast", 0o700)
        self.assertEqual(self.value(), 1)

    def test_directory_that_is_removed_meanwhile(self):
        process = self.begin_slowly("refused('removed meanwhile', 'again')")
        self.remove_cache()
        # The lock file is another one by now, so this process need not wait.
        self.assertEqual(self.value(), 1)
        os.write(self.go, b"\n")
        outcome = self.finish(process)
        self.assertEqual(outcome.status, 0, outcome.err)

    def test_lock_of_a_removed_directory_is_none(self):
        first = self.begin_slowly()
        waiter = self.begin("print(load(verbose=True).value())", CC=self.slow)
        self.assertIn(f"by process {first.pid} ", waiter.stderr.readline())
        self.remove_cache()
        second = self.begin_slowly()
        self.kill(first)
        # Its lock file is now one that nobody else can find.
        self.assertIn(f"by process {second.pid} ", waiter.stderr.readline())
        os.write(self.go, b"\n\n")  # also for the first process's compiler
        self.assertEqual(self.finish(waiter).out, "1\n")
        self.assertEqual(self.compiled(), 2)

    def test_interrupted_builder_leaves_nothing(self):
        process = self.begin_slowly()
        os.killpg(process.pid, signal.SIGINT)
        outcome = self.finish(process)
        self.assertIn("KeyboardInterrupt", outcome.err)
        self.assertEqual(sorted(path.name for path in (self.cache / "fast").iterdir()), ["lock"])


if __name__ == "__main__":
    support.main()
