#!/usr/bin/env python3
"""The page of findings: a section for each rule of the command's tables, with what has caused it,
an example, and what to do. docs/generated.py writes docs/findings.md, whose examples are written
there and stay; the build makes the page that is installed, to which findings lead
(loader/command/rules.h).

usage: findings.py FILE     writes the installed page
"""

import html
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python/homefree"), str(ROOT / "python")]
sys.dont_write_bytecode = True
from command import doctor_log, page  # noqa: E402
from tables import read, rows  # noqa: E402

PAGE = "docs/findings.md"
TABLES = {
    "inspect": ("loader/inspect/rules.def", "HF_RULE"),
    "doctor": ("loader/record/process_record.def", "HF_DOCTOR_RULE"),
    "report": ("alloc/diagnose/report_rules.def", "HF_REPORT_RULE"),
}
KEPT = "<!-- From here on written by docs/generated.py, which keeps the examples. -->\n"
DEATHS = "loader/command/report/report_deaths.def"
EXAMPLE = re.compile(r"^## (\S+ \S+)\n(?:(?!#|```).*\n)*```\n((?:(?!```).*\n)+)```$", re.MULTILINE)


def said_in_logs():
    """{rule: [(what a line contains, who says it)]}"""
    said = {}
    for rule, who, text in doctor_log._FORMS:
        said.setdefault(rule, []).append((text.decode(), who))
    return said


class Finding:
    """A section: its title, severity, paragraphs, lists of (text in a log, who says it), example
    and remedy. The title makes the anchor."""

    def __init__(self, command, severity, name, texts, lines, example):
        self.command, self.name = command, name
        self.title, self.severity = f"{command} {name}", severity.lower()
        self.anchor = f"{command}-{name}"
        # Lines of logs and core files tell what diagnostics mode tells, too.
        self.kind = re.sub(r"^(log|core)-", "", name)
        self.cause, *self.without, self.remedy = texts
        self.lines, self.example = lines, example


def findings():
    examples = dict(EXAMPLE.findall(read(ROOT, PAGE)))
    logs = said_in_logs()
    deaths = " ".join(text for _, text in rows(read(ROOT, DEATHS), "HF_REPORT_DEATH"))
    for command, (path, macro) in TABLES.items():
        for _, name, severity, *texts in rows(read(ROOT, path), macro):
            if name:
                title = f"{command} {name}"
                texts = [deaths if text == "NULL" else text for text in texts]
                lines = logs.get(name, ()) if command == "doctor" else ()
                yield Finding(command, severity, name, texts, lines, examples.get(title))


def markdown(one):
    """A finding below its title."""
    if one.example is None:
        sys.exit(f"{PAGE}: write an example: '## {one.title}', and a block of code")
    yield f"{one.severity.capitalize()}. {escaped(one.cause)}\n"
    yield f"```\n{one.example}```\n"
    if one.lines:
        yield "\n".join(f"- {who}: `` {text.strip()} ``" for text, who in one.lines) + "\n"
    for text in one.without:
        yield f"Without homefree: {escaped(text)}\n"
    yield f"What to do: {escaped(one.remedy)}\n"


def section(one):
    """A section of docs/findings.md."""
    return "\n".join([f"## {one.title}\n", *markdown(one)])


def escaped(text):
    return re.sub(r"([<>*_|\[\]])", r"\\\1", text)


def installed():
    """The installed page."""
    body, escape = [], html.escape
    for one in findings():
        body.append(f'<h2 id="{one.anchor}"><a href="#{one.anchor}">{one.title}</a></h2>')
        body.append(f"<p>{one.severity.capitalize()}. {escape(one.cause)}</p>")
        body.append(f"<pre>{escape(one.example or '')}</pre>")
        if one.lines:
            said = (f"<li>{who}: <code>{escape(text)}</code></li>" for text, who in one.lines)
            body.append("<ul>{}</ul>".format("\n".join(said)))
        body.extend(f"<p>Without homefree: {escape(text)}</p>" for text in one.without)
        body.append(f"<p>What to do: {escape(one.remedy)}</p>")
    template = ROOT / "docs/findings.html"
    return page.fill(template, {"FINDINGS": "\n".join(body).encode()})


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: findings.py FILE")
    Path(sys.argv[1]).write_bytes(installed())
