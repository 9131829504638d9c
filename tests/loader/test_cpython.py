"""The heap is loaded into every CPython of this machine after it has started, which is what another
malloc library cannot do, and used until after the interpreter has ended (cpython_guest.py).

Each interpreter runs twice: as it is, and with 300 more shared objects loaded.

Usage: test_cpython.py GUEST LIBHOMEFREE MODULE
"""

import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import commands  # noqa: E402
from interpreters import interpreters  # noqa: E402

OBJECTS = 300
TIMEOUT = 80


def run(python, name, arguments):
    """A line that says what is wrong, or None."""
    status, said, errors = commands.run(
        *(python, "-E", "-s", "-X", "faulthandler", *arguments),
        seconds=TIMEOUT,
        env=commands.environment(("PYTHON", "MALLOC_")),
        errors=subprocess.PIPE,
    )
    # CPython 3.12 and later warn about fork() in a process with threads.
    wrong = [
        line
        for line in errors.splitlines()
        if "DeprecationWarning" not in line and "os.fork()" not in line
    ]
    if status == 0 and said == "fine\n" and not wrong:
        return None
    how = "hangs" if status is None else f"exit status {status}, said {said!r}"
    return f"{name}: {how}\n{errors}"


def main():
    guest, library, module = sys.argv[1:]
    found = interpreters()
    if not found:
        print("no CPython from 3.6 on with ctypes")
        return 77
    with (
        tempfile.TemporaryDirectory(prefix="homefree-cpython-") as directory,
        concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        copies = []
        for i in range(OBJECTS):
            copies.append(os.path.join(directory, f"object-{i}.so"))
            shutil.copyfile(module, copies[-1])
        running = []
        for python, text in found:
            running.append(pool.submit(run, python, f"CPython {text}", [guest, library]))
            running.append(
                pool.submit(
                    run, python, f"CPython {text} with {OBJECTS} objects", [guest, library, *copies]
                )
            )
        failures = [result for result in (future.result() for future in running) if result]
    print("CPython", ", ".join(text for _, text in found))
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
