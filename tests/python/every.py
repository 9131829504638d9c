"""Runs a unittest program under every CPython from 3.9 on that this machine has.

usage: every.py [--free-threaded | --with-gil | --newest] [--wheels DIRECTORY]
                PACKAGE-DIRECTORY PROGRAM [argument…]

With --free-threaded it is those without a GIL; with --with-gil the others, for which the build has
compiled modules, and whose interpreters have private copies. With --newest, for what hardly depends
on the version, it is the newest with a GIL alone where HOMEFREE_TEST_PYTHONS is set.
PACKAGE-DIRECTORY is put on PYTHONPATH; with --wheels, so is what tests/support/prepare.sh has
installed in DIRECTORY for that CPython, with NumPy. Fails when one interpreter fails, or when none
is found; with --free-threaded, that is a skip.
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from interpreters import VARIABLE, free_threaded, interpreters, number, site_packages, with_gil


def main():
    words = sys.argv[1:]
    options = set()
    wheels = None
    while words[0].startswith("--"):
        option = words.pop(0)
        options.add(option)
        if option == "--wheels":
            wheels = pathlib.Path(words.pop(0))
    only_free = "--free-threaded" in options
    package, program, *arguments = words
    # Without the LD_LIBRARY_PATH that Meson sets: the package must find its library by itself.
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("PYTHON", "MALLOC_", "LD_"))
    }
    environment |= {"PYTHONPATH": package, "PYTHONDONTWRITEBYTECODE": "1"}

    def environment_of(text):
        if wheels is None:
            return environment
        paths = [package, *map(str, site_packages(wheels, text))]
        return environment | {"PYTHONPATH": os.pathsep.join(paths)}

    if only_free:
        every = free_threaded()
    else:
        every = with_gil() if "--with-gil" in options else interpreters()
    found = [(path, text) for path, text in every if number(text) >= (3, 9)]
    if "--newest" in options and os.environ.get(VARIABLE):
        found = [max(found, key=lambda one: (one[1][-1] != "t", number(one[1])))]
    if only_free and not found:
        print("no free-threaded CPython; tests/support/debian-cpython.sh 3.14t builds one")
        return 77

    def run(one):
        path, text = one
        return subprocess.run(
            [path, "-s", program, *arguments],
            env=environment_of(text),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=550,
            check=False,
        )

    failures = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(run, found)
        for (path, text), done in zip(found, results):
            print(f"CPython {text} ({path}): exit status {done.returncode}")
            # 5: unittest, from 3.12 on, if every test was skipped.
            if done.returncode not in (0, 5):
                failures += 1
                print(done.stdout, done.stderr)
            else:
                print(done.stderr.strip().rpartition("\n")[2])
    if not found:
        print("no CPython from 3.9 on")
    return 1 if failures or not found else 0


if __name__ == "__main__":
    sys.exit(main())
