# SPDX-License-Identifier: BSD-2-Clause
"""What a cell's process did, in one of five words and a message."""

import re

from ..command.terminal import signal_name

RESULTS = ("ok", "died", "leaked", "timed out", "skipped")
FINDINGS = ("died", "leaked", "timed out")

# What a cell was doing, for the message: the last step that it told.
_DOING = {
    "made": "while it was made",
    "loaded": "while homefree was loaded",
    "used": "while its memory was read",
    "freed": "while it was freed",
    "repeated": "while it was made and freed again and again",
    "pickled": "while it was pickled",
    "unpickled": "while it was unpickled",
    "interpreter": "in a subinterpreter",
    "crossed": "while it crossed to another interpreter",
    "interpreter-end": "while the subinterpreter ended",
    "forgotten": "after its module was forgotten",
    "exiting": "while the process ended",
}
_NOISE = re.compile(
    r"^(Fatal Python error: (Segmentation|Aborted|Bus|Illegal|Floating)|Current thread|Thread 0x|"
    r"Stack \(|  File |  Binary file | *<[^<>]+>$|Extension modules: |  Garbage-collecting|$)"
)


def last_words(output):
    """The line of a process's output that says most about its death."""
    lines = output.splitlines()
    fatal = [line for line in lines if line.startswith("homefree: fatal:")]
    if fatal:
        return fatal[-1][:500]
    lines = [line for line in lines if not _NOISE.match(line)]
    return lines[-1].strip()[:300] if lines else None


def _message(how, cell, output):
    words = last_words(output)
    during = cell.step == "made" and cell.crossing.kind in ("call", "callback")
    doing = "during the call" if during else _DOING.get(cell.step)
    message = " ".join(part for part in (how, doing) if part)
    return f"{message}: {words}" if words else message


def parties(cell):
    """Who allocated and who freed, of a cell between interpreters; None of any other."""
    if cell.allocated is None:
        return None
    freed = f"freed by {cell.freed}" if cell.freed is not None else "not freed yet"
    return f"allocated by {cell.allocated}; {freed}"


def judge(cell, answer):
    """Fills in a cell's result from what its host answered."""
    cell.result = cell.signal = cell.message = cell.allocated = cell.freed = None
    if answer is None:
        cell.result, cell.message = "died", "the host process itself ended"
        return
    steps = answer["steps"]
    cell.seconds = answer["seconds"]
    done = [step["step"] for step in steps if "step" in step]
    cell.step = done[-1] if done else None
    told = {key: value for step in steps for key, value in step.items()}
    cell.allocated, cell.freed = told.get("allocated"), told.get("freed")
    ended = bool(told.get("end"))
    number = answer["signal"]
    if answer["timed_out"]:
        cell.result = "timed out"
        cell.message = _message("it did not end", cell, answer["output"])
    elif number is not None:
        cell.result, cell.signal = "died", signal_name(number)
        cell.message = _message("", cell, answer["output"])
    elif "damaged" in told:
        cell.result, cell.message = "died", "damaged: " + told["damaged"]
    elif told.get("child"):
        if "skipped" in told:
            cell.result, cell.message = "skipped", told["skipped"]
        else:
            cell.result, cell.signal = "died", signal_name(told.get("signal"))
            cell.message = _message("in the child,", cell, answer["output"])
    elif "skipped" in told:
        cell.result, cell.message = "skipped", told["skipped"]
    elif answer["status"] not in (0, 120) or not ended:
        cell.result = "died"
        how = f"it exited with status {answer['status']}"
        cell.message = _message(how, cell, answer["output"])
    elif "leaked" in told:
        cell.result, cell.message = "leaked", told["leaked"]
    else:
        cell.result = "ok"
