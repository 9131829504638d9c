# SPDX-License-Identifier: BSD-2-Clause
"""The command where homefree is pure Python: `homefree inspect`, `homefree report` of a document,
and `homefree doctor --log`. Others say what they need.

The command line is loader/command's, as far as it goes; what it does is homefree.command's.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile

from . import __version__, _unavailable
from .command import _tables, asked, output, start

_HERE = {
    "inspect": "what shared objects for macOS and Windows would do to a process",
    "report": "a report that 'homefree report --json' wrote on Linux",
    "doctor": "with --log: what the last lines of a crash mean",
}
_FORMS = {
    "junit": "a JUnit file",
    "sarif": "a SARIF 2.1.0 file",
    "github": "GitHub's annotations",
    "write-baseline": "what is found, for --baseline",
}
_ELSEWHERE = "exports", "memory", "run", "test", "trim"
_WRONG = 2


def main() -> int:
    """The exit status."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print("Usage: homefree COMMAND ...\n")
        for name, what in _HERE.items():
            print(f"  {name:8} {what}")
        print(f"\nThe rest: {_unavailable.message('it')}")
        return 0
    if arguments[0] in ("-V", "--version", "version"):
        print(f"homefree {__version__}")
        return 0
    command, *words = arguments
    if command in _ELSEWHERE:
        start.complain(f"homefree {command}", _unavailable.message("this"))
        return start.FAILED
    if command not in _HERE:
        start.complain("homefree", f"there is no command '{command}'; see 'homefree --help'")
        return _WRONG
    return {"inspect": _inspect, "report": _report, "doctor": _doctor}[command](words)


def _parser(command, **more):
    return argparse.ArgumentParser(
        prog=f"homefree {command}", description=_HERE[command], allow_abbrev=False, **more
    )


def _rules(command, as_json):
    rules = asked.rules(command)
    text = "\n".join(
        f"{rule['rule']} ({rule['severity']})\n  {rule['explanation']}\n  {rule['remedy']}\n"
        for rule in rules
    ).encode()
    if as_json:
        document = {"version": __version__, "document": f"{command} rules", "format": 1}
        text = output.document({"homefree": document, "rules": rules})
    return start.run(f"homefree {command}", lambda _: output.write("-", text) or 0, [])


def _words(options, *flags, **values):
    """What loader/command hands over: NAME=VALUE."""
    words = ["self=", f"version={__version__}", "format=1", f"python={sys.executable}"]
    words += [f"{name}=1" for name in flags if getattr(options, name)]
    return words + [f"{name}={value}" for name, value in values.items() if value is not None]


# ---- inspect -------------------------------------------------------------------------------------


def _inspect(words):
    parser = _parser("inspect")
    for name, text in (
        ("environment", "say what all objects would do to each other in one process"),
        ("json", "print a JSON document instead of the text"),
        ("all", "show each object by itself, clean ones, too"),
        ("rules", "list every rule, and what to do about it"),
    ):
        parser.add_argument(f"--{name}", action="store_true", help=text)
    for name, text in _FORMS.items():
        parser.add_argument(f"--{name}", metavar="FILE", help=f"write {text}; -: print")
    parser.add_argument("--baseline", metavar="FILE", help="findings that are known")
    parser.add_argument("--package", action="append", default=[], help="an installed distribution")
    parser.add_argument("--fail-on", metavar="RULE[,RULE]", help="what makes the exit status 1")
    parser.add_argument("file", nargs="*", help="an object, a wheel, another archive, a directory")
    options = parser.parse_intermixed_args(words)
    if options.rules:
        return _rules("inspect", options.json)
    if not (options.file or options.package or options.environment):
        parser.error("give at least one file")
    forms = {name: getattr(options, name.replace("-", "_")) for name in _FORMS}
    if options.json + list(forms.values()).count("-") > 1:
        names = " -, --".join(_FORMS)
        parser.error(f"only one of --json, --{names} - can be printed")
    fails = _fails(parser, options.fail_on)
    # For what archives hold.
    with tempfile.TemporaryFile() as file:
        more = _words(
            options,
            "environment",
            "json",
            "all",
            baseline=options.baseline,
            memory=file.fileno(),
            **forms,
        )
        more += [f"fails={rule}" for rule in fails]
        more += [f"file={path}" for path in options.file]
        more += [f"package={name}" for name in options.package]
        return _run("inspect", more)


def _fails(parser, wanted):
    rules = _tables.RULES["inspect"]
    if wanted is None:
        return [rule["rule"] for rule in rules if rule["severity"] != "note"]
    names = wanted.split(",")
    known = {word for rule in rules for word in (rule["rule"], rule["severity"])}
    for name in names:
        if name not in known:
            parser.error(f"unknown rule '{name}'; 'homefree inspect --rules' lists them")
    return [rule["rule"] for rule in rules if rule["rule"] in names or rule["severity"] in names]


# ---- report and doctor ---------------------------------------------------------------------------


def _report(words):
    parser = _parser("report")
    parser.add_argument("document", help="what 'homefree report --json' wrote")
    parser.add_argument("--html", metavar="FILE", help="write a page for a browser; no text")
    parser.add_argument("--compare", metavar="OLD", help="what changed since an older document")
    options = parser.parse_args(words)
    try:
        with open(options.document, "rb") as file:
            text = file.read()
        document = json.loads(text)
        findings, *_ = (document[name] for name in ("findings", "processes", "homefree_report"))
    except OSError as error:
        start.complain("homefree report", f"cannot read '{options.document}': {error.strerror}")
        return start.FAILED
    except (ValueError, KeyError, TypeError):
        start.complain(
            "homefree report",
            f"'{options.document}' is no document of 'homefree report --json'; what processes "
            "record is read on Linux",
        )
        return start.FAILED
    with contextlib.ExitStack() as files:
        more = [f"status={1 if findings else 0}"]
        wanted = ["page"] if options.html else ["text"]
        if options.compare:
            more.append(f"compare={options.compare}")
            wanted.append("new")
        if options.html:
            more.append(f"html={options.html}")
        for name in wanted:
            file = files.enter_context(tempfile.TemporaryFile())
            file.write(text)
            file.flush()
            more.append(f"{name}={os.dup(file.fileno())}")
        return _run("report", more)


def _doctor(words):
    parser = _parser("doctor")
    parser.add_argument("--log", metavar="FILE", help="the log; -: stdin")
    parser.add_argument("--output", metavar="FILE", default="-", help="where to write it")
    for name, text in (
        ("json", "print a JSON document instead of the text"),
        ("all", "show all that is known"),
        ("rules", "list every rule, and what to do about it"),
    ):
        parser.add_argument(f"--{name}", action="store_true", help=text)
    options = parser.parse_args(words)
    if options.rules:
        return _rules("doctor", options.json)
    if options.log is None:
        start.complain("homefree doctor", _unavailable.message("all but --log"))
        return start.FAILED
    return _run("doctor", _words(options, "json", "all", log=options.log, output=options.output))


def _run(part, words):
    sys.stdout.flush()
    return start.run(f"homefree {part}", start.find(part), words)


if __name__ == "__main__":
    sys.exit(main())
