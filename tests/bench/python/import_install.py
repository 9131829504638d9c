"""What importing homefree and install() cost over importing an empty extension, in milliseconds.

usage: import_install.py PACKAGE-DIRECTORY EMPTY-EXTENSION OBJECT [PYTHON [ROUNDS]]

Each measurement is a process of its own, and counts the processor time that it takes; the kinds
take turns, so that the machine's moods meet all of them. OBJECT is a shared object of which 300
copies are loaded for the second line. Budget: 3 ms, and 5 ms with 300 objects.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile

MEASURE = """
import sys, time
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
kind, package, empty, *objects = sys.argv[1:]
if objects:
    import ctypes
    keep = [ctypes.CDLL(name) for name in objects]
name = "empty"
sys.path.insert(0, package)
start = time.process_time_ns()
if kind == "homefree":
    import homefree
    homefree.install()
elif kind == "import":
    import homefree
else:
    spec = spec_from_file_location(name, empty)
    module_from_spec(spec)
print(time.process_time_ns() - start)
"""


def measure(python, kind, package, empty, objects):
    done = subprocess.run(
        [python, "-s", "-c", MEASURE, kind, package, empty, *objects],
        stdout=subprocess.PIPE,
        env={key: value for key, value in os.environ.items() if not key.startswith("PYTHON")},
        check=True,
        text=True,
    )
    return int(done.stdout) / 1e6


def main():
    package, empty, library = sys.argv[1:4]
    python = sys.argv[4] if len(sys.argv) > 4 else sys.executable
    rounds = int(sys.argv[5]) if len(sys.argv) > 5 else 40
    status = 0
    with tempfile.TemporaryDirectory(prefix="homefree-bench-") as directory:
        copies = [os.path.join(directory, f"object-{i}.so") for i in range(300)]
        for copy in copies:
            shutil.copyfile(library, copy)
        # The first import writes the package's bytecode, as an installation does.
        measure(python, "homefree", package, empty, [])
        for title, objects, budget in (("alone", [], 3), ("300 objects", copies, 5)):
            times = {"empty": [], "import": [], "homefree": []}
            for turn in range(rounds):
                kinds = list(times)
                for kind in kinds[turn % 3 :] + kinds[: turn % 3]:
                    times[kind].append(measure(python, kind, package, empty, objects))
            middle = {kind: statistics.median(values) for kind, values in times.items()}
            cost = middle["homefree"] - middle["empty"]
            print(
                f"{title}: empty extension {middle['empty']:.2f} ms, import homefree "
                f"{middle['import']:.2f}, and install() {middle['homefree']:.2f}: "
                f"{cost:.2f} ms more (budget {budget})"
            )
            status |= cost > budget
    return status


if __name__ == "__main__":
    sys.exit(main())
