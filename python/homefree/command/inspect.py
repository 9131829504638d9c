# SPDX-License-Identifier: BSD-2-Clause
"""`homefree inspect` of directories, archives and distributions, and of anything for people and CI.

loader/command/inspect/inspect_command.c has the command line, and hands it over as words
NAME=VALUE:

    file, package   what is inspected, each several times
    self            the command itself, which inspects objects (inspect_objects.py)
    memory          the descriptor of a file in memory, for what archives hold
    root            the file system that all files are of, if not this one (inspect_root.py)
    python          the Python that knows the distributions
    static_tls      what glibc has for libraries that are loaded late, and how much of it may go to
                    those that could do without; bytes
    fails           a rule whose findings make the exit status 1, several times
    baseline        the file of what is known (inspect_baseline.py)
    environment     1: what the objects would do to each other
    json, all       1: print the document; show clean objects, too
    junit, sarif, github, write-baseline    files to write, or -
    adoption, require-homefree  1: what objects are asked beyond the usual
    version, format  homefree's version, and the document's

State: none. One thread.
"""

import importlib

from . import findings, inspect_text, output, start
from .inspect_objects import Inspected

_FORMS = {
    "junit": "inspect_junit",
    "sarif": "inspect_sarif",
    "github": "inspect_github",
    "write-baseline": "inspect_baseline",
}


def main(words):
    options = start.options(words)
    inspected = Inspected(options)
    try:
        _take(inspected, options)
    finally:
        inspected.close()
    status = _status(inspected)
    for path, compose in _forms(options):
        try:
            output.write(path, compose(inspected))
        except start.Failure as error:
            start.complain("homefree inspect", str(error))
            status = start.FAILED
    return status


def _take(inspected, options):
    if "root" in options:
        inspected.enter(options["root"][0])
    for path in options.get("file", ()):
        inspected.take(path)
    for name in options.get("package", ()):
        inspected.take_package(name)
    if inspected.environment and not inspected.given:
        inspected.take_environment()
    inspected.end()


def _forms(options):
    """Where the forms of the result go, and what makes each."""
    paths = {form: options[form][0] for form in _FORMS if form in options}
    if "json" in options:
        yield "-", _document
    elif "-" not in paths.values():
        yield "-", lambda inspected: inspect_text.text(inspected, "all" in options)
    for form, path in paths.items():
        yield path, importlib.import_module(f".{_FORMS[form]}", __package__).compose


def _status(inspected):
    if any(file["error"] is not None for file in inspected.files):
        return start.FAILED
    if not inspected.files:
        start.complain(
            "homefree inspect", "nothing was inspected: what was given has no shared objects"
        )
        return start.FAILED
    return start.FINDINGS if any(map(inspected.fails, inspected.files)) else 0


def _document(inspected):
    """The document that the command writes by itself for files alone (inspected.c)."""
    found = [finding for file in inspected.files for finding in file.get("findings", ())]
    return output.document(
        {
            **output.head(inspected.options, "inspect"),
            "files": inspected.files,
            "containers": [
                {
                    "name": group.name,
                    "kind": group.kind,
                    "objects": group.objects,
                    "clean": group.objects - group.found,
                    "failed": group.failed,
                    "left_out": group.left_out,
                }
                for group in inspected.containers
            ],
            "summary": {
                "files": len(inspected.files),
                "failed": sum(file["error"] is not None for file in inspected.files),
                **findings.counts(found),
            },
        }
    )
