# SPDX-License-Identifier: BSD-2-Clause
"""`homefree report` for people: text, the page for a browser, and what changed since another one.

loader/command/report/report_command.c reads the records, and hands over documents
(homefree-report(1)) in memory. Its words are NAME=VALUE:

    status   the exit status
    text     the document for the text, with as many findings as that shows; else none is printed
    html     the page's file, and `page` the whole document
    compare  the older report's path; `new`, and `old` unless it is a document itself, have of both
             reports' findings what is compared
    json     the document to which the comparison is added, for stdout

`text`, `page`, `new`, `old` and `json` are descriptors.

State: none. One thread.
"""

import json
import os

from . import output, page, report_compare, report_text


def _read(words, name):
    """The bytes of a document; None if there is none."""
    if name not in words:
        return None
    with open(int(words[name]), "rb") as file:
        file.seek(0)
        return file.read()


def main(words):
    words = dict(word.split("=", 1) for word in words)
    comparison = None
    if "compare" in words:
        old = _read(words, "old")
        comparison = report_compare.compare(
            words["compare"],
            json.loads(old) if old is not None else report_compare.read(words["compare"]),
            json.loads(_read(words, "new")),
        )
    shown = _read(words, "page")
    if shown is not None:
        template = os.path.join(os.path.dirname(os.path.abspath(__file__)), "report.html")
        # In a script element, which "</script>" in a name would end.
        document = _add(shown, comparison).replace(b"<", b"\\u003c")
        output.write(words["html"], page.fill(template, {"REPORT": document}))
    whole = _read(words, "json")
    if whole is not None:
        output.write("-", _add(whole, comparison))
    text = _read(words, "text")
    if text is not None:
        output.write("-", report_text.text(json.loads(text), comparison))
    return int(words["status"])


def _add(document, comparison):
    """The document, of which only the end is looked at, with the member "compare"."""
    if comparison is None:
        return document
    added = json.dumps(comparison.document(), indent=2, ensure_ascii=False).replace("\n", "\n  ")
    end = document.rindex(b"}")
    return b'%s,\n  "compare": %s\n}\n' % (
        document[:end].rstrip(),
        added.encode("utf-8", "replace"),
    )
