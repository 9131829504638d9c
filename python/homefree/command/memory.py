# SPDX-License-Identifier: BSD-2-Clause
"""`homefree memory`: looks at a process, once, twice, or again and again, and shows what it sees.

The words are NAME=VALUE: the options of loader/command/memory/memory.c, `self`, the path of the
command, and `command` for each word of a program to run.

Owns: the program that it runs. One thread.
"""

import contextlib
import json
import os
import signal
import subprocess
import time

from . import memory_table, memory_text, output, start
from .memory_facts import Files, Outside
from .memory_process import Gone
from .start import Failure

_PAUSE = 0.02  # between two looks at how large a program is
_GROWN = 1.05  # how much larger it must be to be looked at again
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def main(words):
    options = start.options(words)
    program = options.pop("command", None)
    options = {name: values[-1] for name, values in options.items()}
    look = _Look(options)
    try:
        if program:
            return _run(look, program, options)
        if "watch" in options:
            return _watch(look)
        if "diff" in options:
            _show_diff(look, options)
        else:
            _show(look.document(), options)
    except Gone as why:
        raise Failure(str(why)) from None
    return 0


class _Look:
    """A process that is looked at, once or more often."""

    def __init__(self, options):
        self.pid, self._command = options.get("pid"), options.get("self")
        self._files = Files(self._command)
        self.every = "all" in options

    def document(self):
        facts = Outside(self._command, self.pid, self._files)
        return memory_table.document(self.pid, facts)


def _show(document, options):
    every = "all" in options
    written = [_form(document, options, name) for name in ("html", "pprof") if name in options]
    if "json" in options:
        output.write("-", _json(document))
    elif "openmetrics" in options:
        from .memory_metrics import metrics

        output.write("-", metrics(document))
    elif "-" not in written:
        output.write("-", memory_text.text(document, every))


def _form(document, options, name):
    path = options[name]
    if name == "html":
        from .memory_page import page

        output.write(path, page(document))
    else:
        from .memory_pprof import profile

        output.write(path, profile(document))
    return path


def _json(document):
    return (json.dumps(document, indent=2) + "\n").encode()


def _show_diff(look, options):
    text = options["diff"]
    seconds = float(text.rstrip("smh")) * _SECONDS.get(text[-1], 1)
    before = look.document()
    time.sleep(max(0.0, seconds - (time.time() - before["time"])))
    document = memory_table.diff(before, look.document())
    if "json" in options:
        output.write("-", _json(document))
    else:
        output.write("-", memory_text.diff_text(document, look.every))


# ---- again and again -------------------------------------------------------------------------


def _watch(look, running=lambda: True):
    """As top does, in the terminal's other screen; without one, one table after the other."""
    terminal = os.isatty(1)
    try:
        if terminal:
            output.write("-", b"\033[?1049h\033[?25l")
        while running():
            began = time.monotonic()
            try:
                text = memory_text.text(look.document(), look.every)
            except Gone:
                if terminal:
                    break
                raise
            output.write("-", _screen(text) if terminal else text + b"\n")
            time.sleep(max(0.2, 1 - (time.monotonic() - began)))
    except KeyboardInterrupt:
        pass
    finally:
        if terminal:
            output.write("-", b"\033[?1049l\033[?25h")
    return 0


def _screen(text):
    """From the upper left corner, as many lines as fit, each to its end."""
    try:
        lines = os.get_terminal_size(1).lines
    except OSError:
        lines = 24
    shown = text.split(b"\n")[: max(lines - 1, 1)]
    return b"\033[H" + b"".join(line + b"\033[K\n" for line in shown) + b"\033[J"


# ---- a program -------------------------------------------------------------------------------


def _run(look, program, options):
    """Runs it, and shows its memory where that was largest."""
    # What the command prints of it goes to stdout, so what the program prints does not.
    to_stderr = {"json", "openmetrics"} & options.keys() or "-" in options.values()
    try:
        running = subprocess.Popen(program, stdout=2 if to_stderr else None)
    except OSError as error:
        raise Failure(f"cannot run '{program[0]}': {error.strerror}") from None
    look.pid = str(running.pid)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program's to obey; its memory is shown then
    if "watch" in options:
        _watch(look, lambda: running.poll() is None)
        return int(running.wait() != 0)
    document, largest = None, 0
    while running.poll() is None:
        now = _resident(running.pid)
        if now > _GROWN * largest:
            with contextlib.suppress(Gone):
                document = look.document()
                largest = max(now, document["resident"])
        time.sleep(_PAUSE)
    if document is None:
        raise Failure(f"'{program[0]}' ended before its memory could be looked at")
    _show(document, options)
    return int(running.returncode != 0)


def _resident(pid):
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, IndexError):
        return 0
