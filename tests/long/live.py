"""Storms on modules whose allocator gets its guards while 64 threads run it, 100 000 cycles each.

Usage: live.py STORM MODULE… [--rounds N]. Each round is a process of its own, since a module is
changed once. Prints how many rounds passed.
"""

import argparse
import os
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("storm")
parser.add_argument("modules", nargs="+")
parser.add_argument("--rounds", type=int, default=20)
parser.add_argument("--threads", type=int, default=64)
parser.add_argument("--cycles", type=int, default=100_000)
options = parser.parse_args()

for number in range(options.rounds):
    for module in options.modules:
        result = subprocess.run(
            [options.storm, os.path.abspath(module), str(options.threads), str(options.cycles)],
            capture_output=True,
            text=True,
            timeout=600,
        )
        if (result.returncode, result.stdout, result.stderr) != (0, "done\n", ""):
            sys.exit(
                f"round {number}, {module}: {result.returncode}\n{result.stdout}{result.stderr}"
            )
print(f"{options.rounds} rounds with {len(options.modules)} modules passed")
