"""The process from its start to its end: which module runs, and what becomes of what it raises.

State: none. One thread.
"""

import gc
import importlib
import os
import sys

FAILED = 3


class Failure(Exception):
    """What the user is told in one line; the process ends with status 3."""


def find(part):
    """The function main() of a module. It gets a list of words and returns an exit status."""
    return importlib.import_module(f".{part}", __package__).main


def run(who, main, words):
    # The process ends before garbage could matter, and a document has a million objects to look at.
    gc.disable()
    try:
        status = main(words)
        sys.stdout.flush()
        return status
    except Failure as error:
        why = str(error)
    except MemoryError:
        why = "out of memory"
    except KeyboardInterrupt:
        _end_by("SIGINT")
    except BrokenPipeError:  # nobody reads the result
        _end_by("SIGPIPE")
    line = "".join(c if c.isprintable() else "?" for c in f"{who}: {why}")
    print(line.encode("utf-8", "replace").decode(), file=sys.stderr)
    return FAILED


def _end_by(name):
    """As a program ends that leaves the signal alone."""
    import signal

    number = getattr(signal, name)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
