"""Programs in places with little address space or memory, or that lock all they have, work with
homefree as they do without: preloaded, diagnosed and loaded late.

Usage: test_limited.py LIMITED HOMEFREE LIBRARY [unittest arguments]
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

LIMITED, HOMEFREE, LIBRARY = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
MIB = 1 << 20
EMULATOR = shutil.which(f"qemu-{os.uname().machine}")

WAYS = {
    "plain": [LIMITED],
    "late": [LIMITED, "load=" + LIBRARY],
    "run": [HOMEFREE, "run", "--", LIMITED],
    "diagnose": [HOMEFREE, "run", "--diagnose=count", "--", LIMITED],
}


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HOMEFREE_", "LD_"))}
    return {**kept, **more}


def limits(*pairs):
    def set_limits():
        for limit, value in pairs:
            resource.setrlimit(limit, (value, resource.getrlimit(limit)[1]))

    return set_limits


class Limited(unittest.TestCase):
    def done(self, way, *actions, before=None, **options):
        with tempfile.TemporaryDirectory() as directory:
            done = subprocess.run(
                [*WAYS[way], *actions],
                env=environment(),
                capture_output=True,
                text=True,
                timeout=120,
                cwd=directory,
                preexec_fn=before,
                **options,
            )
        self.assertEqual(done.returncode, 0, f"{way}: {done.stdout}{done.stderr}")
        return done.stdout

    def in_each_way(self, *actions, before=None):
        for way in WAYS:
            with self.subTest(way=way):
                self.done(way, *actions, before=before)

    def test_all_memory_is_locked(self):
        if subprocess.run([LIMITED, "lock"], capture_output=True).returncode != 0:
            self.skipTest("this process may not lock memory")
        self.in_each_way("lock", "small", f"take={40 * MIB}", "small")

    def test_little_address_space_is_taken(self):
        """Whatever its protection, it counts under RLIMIT_MEMLOCK if a process calls mlockall()."""
        plain = int(self.done("plain", "small", "size"))
        for way, most in ("late", 48), ("run", 48), ("diagnose", 112):
            with self.subTest(way=way):
                # The thread has an arena of its own, and libc's has 64 MiB for it in the plain one.
                self.assertLess(int(self.done(way, "size")), plain + most * 1024)

    def test_most_of_the_address_space_in_one_block(self):
        self.in_each_way(
            "take=3000000000", "small", before=limits((resource.RLIMIT_AS, 4_096_000_000))
        )

    def test_little_data(self):
        """RLIMIT_DATA counts the library's own variables, and what the heap makes usable."""
        limit = limits((resource.RLIMIT_DATA, 16 * MIB), (resource.RLIMIT_STACK, MIB))
        for way in "plain", "late", "run":
            with self.subTest(way=way):
                self.done(way, "take=3000000", "small", before=limit)

    def test_too_little_data(self):
        """Where the heap cannot start, our own message says what to raise."""
        seen = set()
        for limit in range(512, 16 * 1024, 512):
            done = subprocess.run(
                WAYS["late"] + ["small"],
                env=environment(),
                capture_output=True,
                text=True,
                timeout=120,
                preexec_fn=limits(
                    (resource.RLIMIT_DATA, limit << 10),
                    (resource.RLIMIT_STACK, MIB),
                    (resource.RLIMIT_CORE, 0),
                ),
            )
            self.assertNotIn("jemalloc", done.stderr)
            if done.stderr.startswith("homefree: fatal: "):
                self.assertIn("ulimit -d", done.stderr)
            seen.add(done.stderr.split(":")[0])
        self.assertIn("homefree", seen)

    def test_emulated(self):
        if EMULATOR is None:
            self.skipTest("qemu-user is not installed")
        libraries = os.path.dirname(LIBRARY)
        for name in ("libhomefree-preload.so", "libhomefree-diagnose.so"):
            preload = f"LD_PRELOAD={os.path.join(libraries, name)}"
            for way in (
                [EMULATOR, "-E", preload, LIMITED, "small", f"take={40 * MIB}"],
                ["env", preload, EMULATOR, LIMITED, "small", f"take={40 * MIB}"],
            ):
                with self.subTest(way=way), tempfile.TemporaryDirectory() as directory:
                    done = subprocess.run(
                        way,
                        env=environment(),
                        capture_output=True,
                        text=True,
                        timeout=120,
                        cwd=directory,
                        preexec_fn=limits((resource.RLIMIT_CORE, 0)),
                    )
                    self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
