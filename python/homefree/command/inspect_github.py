# SPDX-License-Identifier: BSD-2-Clause
"""`homefree inspect --github`: what GitHub Actions shows beside a change, a line for each rule, the
worst first, because GitHub shows ten errors and ten warnings of a step.

State: none.
"""

from . import findings
from .inspect_text import message, relative
from .terminal import clean, plural

_OBJECTS_MAX = 20
_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def compose(inspected):
    """The lines, as bytes."""
    lines = [
        _line(
            "error", _place(file), "homefree inspect", f"{relative(file['path'])}: {file['error']}"
        )
        for file in inspected.files
        if file["error"] is not None
    ]
    rules = {}
    for file in inspected.files:
        for finding in file.get("findings", ()):
            if not finding.get("known"):
                rules.setdefault(finding["rule"], []).append((file, finding))
    for first in findings.worst_first([found[0][1] for found in rules.values()]):
        lines.append(_rule(rules[first["rule"]]))
    return "".join(lines).encode("utf-8", "replace")


def _rule(found):
    file, first = found[0]
    told = [
        f"{relative(file['path'])}: {message(finding)}" for file, finding in found[:_OBJECTS_MAX]
    ]
    if len(found) > _OBJECTS_MAX:
        more = len(found) - _OBJECTS_MAX
        told.append(f"and {more} more finding{plural(more)}")
    text = "\n".join([*map(clean, told), first["remedy"], first["help"] or ""])
    kind = _COMMANDS[first["severity"]]
    return _line(kind, _place(file), f"homefree inspect: {first['rule']}", text)


def _place(file):
    """The file that may be the repository's: of an archive's member the archive."""
    return relative(file["path"] if file["member"] is None else file["container"])


def _line(kind, path, title, text):
    """A command of a workflow. A file that is not the repository's has no place in it."""
    place = "" if path.startswith("/") else f"file={_value(clean(path))},"
    return f"::{kind} {place}title={_value(title)}::{_text(text.strip())}\n"


def _text(text):
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _value(text):
    return _text(text).replace(":", "%3A").replace(",", "%2C")
