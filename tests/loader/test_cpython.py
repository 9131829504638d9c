"""The heap is loaded into every CPython of this machine after it has started, which is what another
malloc library cannot do, and used until after the interpreter has ended (cpython_guest.py).

Each interpreter runs twice: as it is, and with 300 more shared objects loaded. Interpreters:
python3* on PATH and in /usr/bin, and pyenv's; from 3.6 on, with ctypes.

Usage: test_cpython.py GUEST LIBHOMEFREE MODULE
"""

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

OBJECTS = 300
TIMEOUT = 80


def interpreters():
    """Each real interpreter once, as (path, version)."""
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    folders.append(Path("/usr/bin"))
    candidates = [
        file for folder in folders if folder.is_dir() for file in sorted(folder.glob("python3*"))
    ]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    candidates += sorted(pyenv.glob("*/bin/python"))
    found = {}
    for candidate in candidates:
        path = candidate.resolve()
        if not re.fullmatch(r"python(3(\.\d+)?t?)?", candidate.name) or not is_elf(path):
            continue
        if path not in found:
            found[path] = version(path)
    return [(path, text) for path, text in found.items() if text]


def is_elf(path):
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def version(python):
    """Its version, or None if it is too old or has no ctypes."""
    code = "import sys, ctypes; print(*sys.version_info[:3]); assert sys.version_info >= (3, 6)"
    try:
        done = subprocess.run(
            [python, "-E", "-s", "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ".".join(done.stdout.split()) if done.returncode == 0 else None


def run(python, name, arguments):
    """A line that says what is wrong, or None."""
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "MALLOC_"))
    }
    try:
        done = subprocess.run(
            [python, "-E", "-s", "-X", "faulthandler", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{name}: hangs"
    # CPython 3.12 and later warn about fork() in a process with threads.
    errors = [
        line
        for line in done.stderr.splitlines()
        if "DeprecationWarning" not in line and "os.fork()" not in line
    ]
    if done.returncode == 0 and done.stdout == "fine\n" and not errors:
        return None
    return f"{name}: exit status {done.returncode}, said {done.stdout!r}\n{done.stderr}"


def main():
    guest, library, module = sys.argv[1:]
    found = interpreters()
    if not found:
        print("no CPython from 3.6 on with ctypes")
        return 77
    with (
        tempfile.TemporaryDirectory(prefix="homefree-cpython-") as folder,
        concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        copies = []
        for i in range(OBJECTS):
            copies.append(os.path.join(folder, f"object-{i}.so"))
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
