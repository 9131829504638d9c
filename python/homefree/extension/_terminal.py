# SPDX-License-Identifier: BSD-2-Clause
"""Progress on stderr, for one thread at a time."""

import contextlib
import os
import sys


class Terminal:
    """Reports progress on stderr: always with verbose=True, never with False, and with None if it
    is a terminal. A terminal that goes away does not fail the build."""

    def __init__(self, verbose):
        self._stream = sys.stderr
        terminal = False
        with contextlib.suppress(AttributeError, ValueError, OSError):
            terminal = self._stream.isatty()
        self._speaks = self._stream is not None and (terminal if verbose is None else bool(verbose))
        plain = os.environ.get("TERM", "dumb") == "dumb"
        self._moves = self._speaks and terminal and not plain
        self._colours = self._moves and not os.environ.get("NO_COLOR")
        self._shown = False

    def _write(self, text):
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()

    def _text(self, text):
        return f"\x1b[1mhomefree:\x1b[0m {text}" if self._colours else f"homefree: {text}"

    def line(self, text):
        """Print a line that stays."""
        if self._speaks:
            self.clear()
            self._write(self._text(text) + "\n")

    def raw(self, text):
        """Print a line of another program's, as it is."""
        if self._speaks:
            self.clear()
            self._write(text + "\n")

    def status(self, text):
        """Print a line that the next one replaces; without a cursor to move, one that stays."""
        if self._moves:
            self._write("\r" + self._text(text) + "\x1b[K")
            self._shown = True
        elif self._speaks:
            self._write(self._text(text) + "\n")

    def clear(self):
        """Remove the line that status() printed."""
        if self._shown:
            self._write("\r\x1b[K")
            self._shown = False
