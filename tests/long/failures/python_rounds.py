"""Operations of the Python package, for failures.py: python_rounds.py NAME MODULE.

MODULE is an extension module. A round is 0, or -1 if it raised an exception, which is how the
package reports errors.
"""

import importlib
import os
import sys

name, module = sys.argv[1:]
heap = {}


def install():
    import homefree

    homefree.install()
    blocks = [bytearray(100_000) for _ in range(10)]
    homefree.stats()
    homefree.uninstall()
    del blocks


def load():
    import homefree

    homefree.load(module)


def private():
    import homefree

    homefree.load(module, private=True)


def adopt():
    import homefree

    homefree.load(module, adopt=True)


OPERATIONS = {"install": install, "load": load, "python-private": private, "python-adopt": adopt}


def main():
    results = []
    os.access("/homefree/begin", os.F_OK)
    for _ in range(3):
        try:
            OPERATIONS[name]()
            results.append(0)
        except Exception as error:
            results.append(-1)
            heap["error"] = error
            # CPython remembers for ever which directories it could not look into.
            sys.path_importer_cache.clear()
            importlib.invalidate_caches()
    os.access("/homefree/end", os.F_OK)
    for result in results:
        print("round", result)
    print("descriptors", len(os.listdir("/proc/self/fd")))
    if "error" in heap:
        print(f"{type(heap['error']).__name__}: {heap['error']}", file=sys.stderr)


main()
