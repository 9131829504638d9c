"""One process of the tests of extension modules in interpreters with a GIL of their own: in each of
several threads, one after the other, interpreters are made, import what they are told to, compute
with it, and end. Prints a JSON object {module: "native" or "private"} of the first one.

usage: guest.py THREADS ROUNDS CODE

Exit status 0 if the code raised nothing anywhere; the process also has to end well. 77: this
CPython has no such interpreters.
"""

import json
import os
import sys
import threading

from homefree.interpreters import prepare

try:
    import _interpreters as interpreters
except ImportError:
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        sys.exit(77)
if sys.version_info < (3, 12):
    sys.exit(77)

BEFORE = """
import sys, warnings
sys.path[:] = {path!r}
warnings.simplefilter("ignore")  # NumPy warns about interpreters
import homefree
from homefree.interpreters import prepare
from homefree.loading import _load
prepare()
hook, = _load._hooks
def where(address):
    return homefree.owner_of(address).kind
"""
AFTER = """
import json, os
os.write({out}, json.dumps(hook.loaded).encode() + b"\\n")
"""

# CPython 3.12 and 3.13.0 make and end one interpreter at a time.
lock = threading.Lock()
failed = []


def create():
    if sys.version_info >= (3, 13):
        return interpreters.create("isolated")
    return interpreters.create(isolated=True)


def run(interpreter, code):
    try:
        failure = interpreters.run_string(interpreter, code)
    except Exception as error:  # 3.12 raises, 3.13 returns
        failure = error
    if failure is not None:
        failed.append(str(getattr(failure, "errdisplay", failure)))


def work(rounds, code, out):
    for _ in range(rounds):
        with lock:
            interpreter = create()
            run(interpreter, BEFORE.format(path=sys.path))
        run(interpreter, code + AFTER.format(out=out))
        with lock:
            interpreters.destroy(interpreter)


def main():
    threads, rounds, code = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    prepare()
    readable, writable = os.pipe()
    workers = [threading.Thread(target=work, args=(rounds, code, writable)) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    os.close(writable)
    with os.fdopen(readable) as pipe:
        said = pipe.readlines()
    if failed or len(said) != threads * rounds:
        print(*failed, sep="\n", file=sys.stderr)
        return 1
    assert all(json.loads(line) == json.loads(said[0]) for line in said), said
    print(said[0], end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
