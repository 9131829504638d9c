# SPDX-License-Identifier: BSD-2-Clause
"""What the command homefree answers when its part in Python asks it. Where homefree is pure Python
there is none, and its path is empty.

State: none. One thread.
"""

import json
import os

from .start import Failure

NO_ELF = (
    "objects for Linux are read by homefree for Linux, in C; here are read those for macOS and "
    "Windows"
)


class Asked:
    """The lines that the command prints; signal: what ended it, 0 if nothing did."""

    def __init__(self, command, arguments, text=b""):
        """command: its path; text: its stdin, of which it reads all before it prints."""
        self.signal = 0
        self._command, self._arguments, self._text = command, arguments, text

    def __iter__(self):
        theirs, ours = os.pipe()
        result, out = os.pipe()
        streams = [(os.POSIX_SPAWN_DUP2, theirs, 0), (os.POSIX_SPAWN_DUP2, out, 1)]
        arguments = [self._command, *self._arguments]
        try:
            child = os.posix_spawn(self._command, arguments, os.environ, file_actions=streams)
        except OSError as error:
            raise Failure(f"cannot run '{self._command}': {error.strerror}") from None
        os.close(theirs)
        os.close(out)
        try:
            with open(result, "rb") as lines:
                try:
                    with open(ours, "wb") as file:
                        file.write(self._text)
                except BrokenPipeError:  # it has ended
                    pass
                yield from lines
        finally:
            self.signal = os.waitpid(child, 0)[1] & 0x7F


def rules(what):
    """The table of rules of `homefree inspect` or `doctor`, as the command prints it."""
    from urllib.parse import quote

    from ._tables import RULES

    page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "findings.html")
    address = f"file://{quote(os.fsencode(page), safe='/-._~+')}"
    return [{**rule, "help": f"{address}#{what}-{rule['rule']}"} for rule in RULES[what]]


def inspect(command, options, objects):
    """Has objects inspected (loader/command/inspect/inspected.h): each a path in bytes, and where
    in the file of `--listed` it begins and ends, or two times nothing.

    Yields for each object what was found, and None; or None, and the signal that ended the process
    that inspected it (0: it ended by itself), which costs this one object."""
    if not command:
        yield from (({"error": NO_ELF, "read": []}, None) for _ in objects)
        return
    done = 0
    while done < len(objects):
        text = b"".join(field + b"\0" for fields in objects[done:] for field in fields)
        asked = Asked(command, ["inspect", *options, "--json"], text)
        for line in asked:
            if line.endswith(b"\n"):
                done += 1
                yield json.loads(line), None
        if done < len(objects):
            done += 1
            yield None, asked.signal
