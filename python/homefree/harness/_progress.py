# SPDX-License-Identifier: BSD-2-Clause
"""Progress on stderr: one line that is rewritten, on a terminal; else nothing."""

import shutil
import sys
import time


class Progress:
    def __init__(self):
        self.stream = sys.stderr
        self.shown = self.stream.isatty()
        self.last = 0.0
        self.width = 0

    def say(self, text, now=False):
        if not self.shown or (not now and time.monotonic() - self.last < 0.1):
            return
        self.last = time.monotonic()
        text = text[: shutil.get_terminal_size().columns - 1]
        self.stream.write("\r" + text.ljust(self.width))
        self.stream.flush()
        self.width = len(text)

    def clear(self):
        if self.shown and self.width:
            self.stream.write("\r" + " " * self.width + "\r")
            self.stream.flush()
            self.width = 0
