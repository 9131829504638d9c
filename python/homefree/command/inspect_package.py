# SPDX-License-Identifier: BSD-2-Clause
"""The files of installed distributions, as the Python that has them knows (inspect_installed.py).

State: none. One thread.
"""

import json
import os
import select
import subprocess
import sys

from .start import Failure

_START = b"homefree: "  # of an answer
_MOST, _PATIENCE = 256 << 20, 30  # bytes, and seconds without one


def files(python, name, is_object):
    """The directory in which a distribution is installed, and what it consists of. is_object: tells
    of a path whether it is a shared object."""
    (found,) = _ask(python, [name])
    if "why" in found:
        raise Failure(found["why"])
    if not any(map(is_object, found["files"])):
        others = ""
        if found["required"]:
            required = zip(found["required"], _ask(python, found["required"]))
            for other, of_other in required:
                if any(map(is_object, of_other.get("files", ()))):
                    others += f" --package {other}"
        hint = f"; what it requires has some: homefree inspect{others}" if others else ""
        raise Failure("it has no shared objects" + hint)
    return found["directory"], found["files"]


def directories(python):
    """Where a Python has packages and its own extension modules."""
    (found,) = _ask(python, ["--directories"])
    if "why" in found:
        raise Failure(found["why"])
    return found["directories"]


def _ask(python, names):
    """What is known of each distribution."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inspect_installed.py")
    with open(program, encoding="utf-8") as file:
        line = [python, "-B", "-c", file.read(), *names]
    try:
        printed = _printed(line)
    except OSError as error:
        raise Failure(
            f"cannot run '{python}', which knows the distributions: {error.strerror}; name another "
            "Python with --python"
        ) from None
    lines = [each[len(_START) :] for each in printed.splitlines() if each.startswith(_START)]
    try:
        answers = list(map(json.loads, lines))
    except ValueError:
        answers = []
    if len(answers) == len(names):
        return answers
    raise Failure(f"'{python}' does not say what it has installed; it must be CPython 3.9 or later")


def _printed(line):
    """What a program prints. One that says nothing for long, or does not stop, is ended."""
    if sys.platform == "win32":  # where select() takes no pipes
        return _printed_at_once(line)
    with subprocess.Popen(
        line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        printed = bytearray()
        try:
            while len(printed) < _MOST:
                if not select.select([process.stdout], [], [], _PATIENCE)[0]:
                    raise Failure(f"'{line[0]}' says nothing for {_PATIENCE} seconds")
                piece = os.read(process.stdout.fileno(), 1 << 16)
                if not piece:
                    return bytes(printed)
                printed += piece
            raise Failure(f"'{line[0]}' does not stop printing")
        finally:
            process.kill()


def _printed_at_once(line):
    try:
        done = subprocess.run(
            line,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise Failure(f"'{line[0]}' does not end in {_PATIENCE} seconds") from None
    return done.stdout[:_MOST]
