# SPDX-License-Identifier: BSD-2-Clause
"""The table on a terminal: crossings by conditions, then what died and how."""

import os
import re
import shutil
import textwrap

from . import _grouping, _verdict

_SHORT = {"ok": "ok", "died": "DIED", "leaked": "LEAK", "timed out": "TIME", "skipped": "-"}
_COLOURS = {"ok": "32", "died": "1;31", "leaked": "33", "timed out": "35", "skipped": "2"}
_PLAIN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def printable(text):
    """Text from outside, without what would control a terminal."""
    return _PLAIN.sub("?", text)


def coloured(stream):
    return stream.isatty() and not os.environ.get("NO_COLOR")


class Table:
    def __init__(self, stream, everything=False):
        self.stream = stream
        self.colours = coloured(stream)
        self.everything = everything
        self.conditions = ()

    def write(self, text=""):
        self.stream.write(text + "\n")

    def paint(self, text, colour):
        return f"\x1b[{colour}m{text}\x1b[0m" if self.colours else text

    # ---- the rows ----

    def _result(self, cell, width):
        if cell is None or cell.result is None:
            return " " * width
        return self.paint(_SHORT[cell.result].ljust(width), _COLOURS[cell.result])

    def _heads(self, indent):
        """Two lines, since most conditions have two words. Returns {condition: width}."""
        words = {name: name.partition(" ")[::2] for name in self.conditions}
        widths = {name: max(4, *map(len, pair)) + 1 for name, pair in words.items()}
        for line in range(2):
            heads = "".join(pair[line].ljust(widths[name]) for name, pair in words.items())
            self.write((" " * indent + heads).rstrip())
        return widths

    def crossings(self, outcome):
        indent = 30
        self.conditions = _grouping.conditions(outcome)
        widths = self._heads(indent)
        for crossing, row in _grouping.by_crossing(outcome).items():
            clean = all(cell.result in ("ok", "skipped") for cell in row)
            name = printable(f"{crossing.name}  [{crossing.kind}]")
            if clean and not self.everything:
                done = sum(cell.result == "ok" for cell in row)
                skipped = len(row) - done
                more = f", {skipped} skipped" if skipped else ""
                words = f"{done} ok{more}"
                colour = _COLOURS["ok"] if done else _COLOURS["skipped"]
                self.write(f"{name}: {self.paint(words, colour)}")
                continue
            self.write(name)
            for hosts, (results, *_) in _grouping.rows(row):
                label = "  " + ", ".join(hosts)
                if len(label) >= indent:
                    self.write(label)
                    label = ""
                line = "".join(
                    self._result(results.get(name), width) for name, width in widths.items()
                )
                self.write((label.ljust(indent) + line).rstrip())

    # ---- what happened ----

    def findings(self, outcome):
        """Each death, leak and hang once, with the cells that share it."""
        width = max(60, min(shutil.get_terminal_size().columns, 110))
        for cell, places in _grouping.findings(outcome):
            how = f"{cell.result}, {cell.signal}" if cell.signal else cell.result
            self.write()
            self.write(f"{self.paint(how, _COLOURS[cell.result])}: {printable(cell.crossing.name)}")
            for host, conditions in places.items():
                text = f"{host}: {', '.join(conditions)}"
                self.write(
                    textwrap.fill(text, width, initial_indent="  ", subsequent_indent="    ")
                )
            for text in (cell.message, _verdict.parties(cell)):
                if text:
                    self.write(
                        textwrap.fill(
                            printable(text), width, initial_indent="  ", subsequent_indent="  "
                        )
                    )

    def saved(self, outcome):
        """What homefree would save: crossings that end a process without it and not with it."""
        saved, died = _grouping.saved(outcome)
        if died:
            self.write()
            self.write(f"homefree would save {saved} of {died} cells that die without it.")

    def show(self, outcome):
        if outcome.learned.crossings:
            self.crossings(outcome)
        self.findings(outcome)
        self.saved(outcome)
        for note in outcome.notes:
            self.write()
            self.write(textwrap.fill(printable(note), 100))
        counts = _grouping.counts(outcome)
        total = sum(counts.values())
        parts = [
            self.paint(f"{counts[result]} {result}", _COLOURS[result])
            for result in _verdict.RESULTS
            if counts[result]
        ]
        self.write()
        self.write(
            f"{outcome.target.module}: {len(outcome.learned.crossings)} crossings, "
            f"{total} cells in {outcome.seconds:.1f} s: {', '.join(parts) or 'none'}"
        )
