# SPDX-License-Identifier: BSD-2-Clause
"""Text for a terminal: what comes from outside cannot control it, and lines fit where it is one.

State: none but Progress, which owns the last line of stderr until its end(); looks at stdout and
the environment. One thread.
"""

import os
import re
import signal
import time

_WIDTH_MIN = 40
# What GitHub's runner takes for a command in the output of any program.
_COMMAND = re.compile(r"^( *):(?=:)|##\[", re.MULTILINE)
# Control characters, C1 among them, what ends lines or turns their direction, and what was no text.
_UNSHOWN = re.compile("[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffd]")
_CODES = {
    "ok": "32",
    "note": "36",
    "warning": "33",
    "error": "31",
    "slow": "35",
    "bold": "1",
    "dim": "2",
}
_PATIENCE, _PAUSE = 1.0, 0.1
_UNITS = "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"


def clean(text):
    return _UNSHOWN.sub("?", text)


def base_name(path):
    return path.rpartition("/")[2]


def signal_name(number):
    """ "SIGSEGV"; "signal 99" where it has none; None for None."""
    try:
        return number if number is None else signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def plural(count):
    return "" if count == 1 else "s"


def size(count):
    """A size for people: "74 B", "1.5 MiB"."""
    unit = 0
    while count >= 1024 and unit < len(_UNITS) - 1:
        count /= 1024
        unit += 1
    return f"{count:.{1 if unit else 0}f} {_UNITS[unit]}"


class Page:
    """Lines of text. width: of the terminal; None: it is none, and nothing is wrapped or cut."""

    def __init__(self, path="-"):
        """path: where it will be written (output.py)."""
        terminal = path == "-" and os.isatty(1)
        self.width = _terminal_width() if terminal else None
        self._coloured = (
            terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        )
        self._lines = []

    def line(self, text=""):
        self._lines.append(text)

    def styled(self, style, text):
        return f"\033[{_CODES[style]}m{text}\033[m" if self._coloured else text

    def title(self, text):
        self.line()
        self.line(self.styled("bold", text))

    def wrapped(self, start, text):
        """Text behind `start`, whose further lines are indented as far."""
        indent = len(start)
        line = start
        for word in text.split():
            if self.width and len(line) > indent and len(line) + 1 + len(word) > self.width:
                self.line(line)
                line = " " * indent + word
            else:
                line += f" {word}" if len(line) > indent else word
        self.line(line)

    def path(self, path, most):
        """A path; where more than `most` characters are too many, the end of it."""
        path = clean(path)
        return path if not self.width or len(path) <= most else f"...{path[len(path) - most + 3 :]}"

    def bytes(self):
        text = "".join(f"{line}\n" for line in self._lines)
        return _COMMAND.sub(lambda found: (found[1] or "") + "?", text).encode("utf-8", "replace")


def _terminal_width():
    try:
        width = int(os.environ.get("COLUMNS", "0"))
    except ValueError:
        width = 0
    if width <= 0:
        try:
            width = os.get_terminal_size(1).columns
        except OSError:
            width = 0
    return max(width, _WIDTH_MIN) if width > 0 else 80


class Progress:
    """A line on stderr about what is being done, for whoever waits at a terminal."""

    def __init__(self, who):
        self._who = who
        self._next = time.monotonic() + _PATIENCE if os.isatty(2) else float("inf")
        self._shown = False

    def show(self, text):
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _PAUSE
            self._write(f"\r\033[K{self._who}: {clean(text)[:80]}")
            self._shown = True

    def end(self):
        """Removes the line. Required before anything else is printed."""
        if self._shown:
            self._write("\r\033[K")
            self._shown = False

    @staticmethod
    def _write(text):
        os.write(2, text.encode("utf-8", "replace"))
