"""What comes of a misuse of the heap: the table of what homefree promises, with and without its
checks. promises.cc has the misuses; each runs in a process of its own under `homefree run`.

Usage: test_promises.py --homefree COMMAND --program FILE [unittest arguments]
"""

import argparse
import concurrent.futures
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from diagnosis import Diagnosis, Directories, needs_names_of_modules  # noqa: E402

ABORTS = "aborts"  # SIGABRT, with one line of homefree that says why
GOES_ON = "goes on"  # undetected; the heap survives these few calls
FAULTS = "faults"  # SIGSEGV: in libc's free, or at a write to memory that nobody may touch

# misuse: (as it is, with HOMEFREE_CONF=checks:full, the rule that `--diagnose` finds, and the rule
# that `--diagnose --sample 1` finds).
# Diagnosis never ends the process of these, and a rule of None means that it finds nothing.
# Wrong sizes are known to the diagnosed operators alone: libstdc++'s own drop them before free.
# Past the end of a block, diagnosis looks from its footer on, the last bytes of the size class;
# what the guarded sample has behind it is a guard page.
PROMISES = {
    "double": (ABORTS, ABORTS, "double-free", "double-free"),
    "double-delayed": (ABORTS, ABORTS, "double-free", "double-free"),
    "double-long-delayed": (ABORTS, ABORTS, "double-free", "double-free"),
    "double-large": (ABORTS, ABORTS, "double-free", "double-free"),
    "double-large-delayed": (ABORTS, ABORTS, "double-free", "double-free"),
    "interior": (ABORTS, ABORTS, "interior-free", "interior-free"),
    "interior-unaligned": (ABORTS, ABORTS, "interior-free", "interior-free"),
    "interior-large": (ABORTS, ABORTS, "interior-free", "interior-free"),
    "never-allocated": (ABORTS, ABORTS, "unmapped-free", "unmapped-free"),
    "static": (ABORTS, ABORTS, "static-free", "static-free"),
    "stack": (ABORTS, ABORTS, "stack-free", "stack-free"),
    "unmapped": (FAULTS, FAULTS, "unmapped-free", "unmapped-free"),
    "null-page": (FAULTS, FAULTS, "unmapped-free", "unmapped-free"),
    "wrong-size": (GOES_ON, GOES_ON, "sized-delete", "sized-delete"),
    "under-aligned": (GOES_ON, GOES_ON, "aligned-delete", "aligned-delete"),
    "overflow-one": (GOES_ON, ABORTS, None, "overrun"),
    "overflow-next": (GOES_ON, ABORTS, "overrun", "overrun"),
    "write-after-free": (GOES_ON, GOES_ON, None, "use-after-free"),
    "write-after-free-large": (GOES_ON, FAULTS, None, None),
}

arguments = argparse.ArgumentParser()
arguments.add_argument("--homefree", required=True)
arguments.add_argument("--program", required=True)
options, rest = arguments.parse_known_args()
directories = Directories()


def undiagnosed(name, configuration):
    done = subprocess.run(
        [options.homefree, "run", "--", options.program, name],
        env={**os.environ, "HOMEFREE_CONF": configuration},
        capture_output=True,
        text=True,
        timeout=60,
    )
    if done.returncode in (-6, 134) and done.stderr.startswith("homefree: fatal: free("):
        return ABORTS
    words = {0: GOES_ON, -11: FAULTS, 139: FAULTS}
    return words.get(done.returncode, f"{done.returncode}: {done.stderr}")


def diagnosed(name, directory, *more):
    run = Diagnosis(options.homefree, [options.program, name], directory=directory, options=more)
    rules = sorted({finding["rule"] for finding in run.report["findings"]})
    if run.status != 0 or len(rules) > 1:
        return f"{run.status}: {rules}: {run.errors}"
    return rules[0] if rules else None


class Promises(unittest.TestCase):
    maxDiff = None

    def test_table(self):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            came = {
                name: (
                    pool.submit(undiagnosed, name, "checks:default"),
                    pool.submit(undiagnosed, name, "checks:full"),
                    pool.submit(diagnosed, name, directories.new()),
                    pool.submit(diagnosed, name, directories.new(), "--sample", "1"),
                )
                for name in PROMISES
            }
        came = {name: tuple(future.result() for future in four) for name, four in came.items()}
        self.assertEqual(came, PROMISES)

    def test_no_misuse_is_missing(self):
        names = subprocess.run([options.program], capture_output=True, text=True, timeout=60)
        self.assertEqual(names.stdout.split(), list(PROMISES))


if __name__ == "__main__":
    needs_names_of_modules()
    unittest.main(argv=[sys.argv[0], *rest])
