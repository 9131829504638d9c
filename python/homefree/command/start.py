# SPDX-License-Identifier: BSD-2-Clause
"""The process from its start to its end: which module runs, and what becomes of what it raises.

State: none. One thread.
"""

import contextlib
import gc
import importlib
import os

FINDINGS, FAILED = 1, 3  # exit statuses
_SAID_MAX = 500

# How files are opened that are read, where the system has it: nothing is waited for, and nothing
# becomes this process's terminal.
READ_ONLY = os.O_RDONLY
for _name in ("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_BINARY"):
    READ_ONLY |= getattr(os, _name, 0)


class Failure(Exception):
    """What the user is told in one line; the process ends with status 3."""


def find(part):
    """The function main() of a module. It gets a list of words and returns an exit status."""
    return importlib.import_module(f".{part}", __package__).main


def options(words):
    """The values of each name, of words NAME=VALUE."""
    found = {}
    for word in words:
        name, _, value = word.partition("=")
        found.setdefault(name, []).append(value)
    return found


def run(who, main, words):
    """Ends the process."""
    # What was closed must not become the number of a file.
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(opened)
    # It ends before garbage could matter, and a document has a million objects to look at.
    gc.disable()
    status = _status(who, main, words)
    # An interpreter that ends tries once more to write what could not be written, and changes the
    # status.
    os._exit(status)


def _status(who, main, words):
    try:
        return main(words)
    except Failure as error:
        why = str(error)
    except MemoryError:
        why = "out of memory"
    except KeyboardInterrupt:
        _end_by("SIGINT")
    except BrokenPipeError:  # nobody reads the result
        _end_by("SIGPIPE")
    except Exception as error:  # a mistake of homefree's own
        import traceback

        where = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {error}"[:_SAID_MAX]
        why = f"internal error in {os.path.basename(where.filename)}:{where.lineno}: {said}"
    complain(who, why)
    return FAILED


def complain(who, why):
    """A line on stderr, and no command for GitHub's runner (terminal.py)."""
    line = "".join(c if c.isprintable() else "?" for c in f"{who}: {why}").replace("##[", "##?")
    with contextlib.suppress(OSError):
        os.write(2, (line + "\n").encode("utf-8", "replace"))


def _end_by(name):
    """As a program ends that leaves the signal alone."""
    import signal

    number = getattr(signal, name, None)
    if number is None:  # Windows has no SIGPIPE
        os._exit(FAILED)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
