# SPDX-License-Identifier: BSD-2-Clause
"""`homefree memory --blocks` for people: a row for each size of the heap's blocks.

loader/command/memory/memory.c reads the process, and hands over a document in memory. The
word `document` is its descriptor. The document is the last line; lines before it, which list the
blocks, are shown as they are.

State: none. One thread.
"""

import json

from . import output
from .terminal import Page, size


def main(words):
    descriptor = dict(word.split("=", 1) for word in words)["document"]
    with open(int(descriptor), "rb") as file:
        file.seek(0)
        listed, line, document = file.read().rstrip(b"\n").rpartition(b"\n")
    output.write("-", listed + line + _text(json.loads(document)))
    return 0


def _text(document):
    page = Page()
    classes, large = document["classes"], document["large"]
    page.line(
        f"{'size':>8} {'live':>12} {'free':>12} {'in live ones':>12} {'in all':>12} {'unused':>9}"
    )
    for row in classes:
        _row(page, row["size"], row["live"], row["free"], row["live"] * row["size"], row["bytes"])
    used, free = large["live_bytes"], large["free"]
    _row(page, "larger", large["live"], free, used, used + large["free_bytes"])
    free += sum(row["free"] for row in classes)
    _row(page, "all", document["live"], free, document["live_bytes"], document["bytes"])
    if not document["complete"]:
        page.line("There is more, which could not be read.")
    return page.bytes()


def _row(page, name, live, free, used, total):
    unused = 100 * (total - used) / total if used <= total and total else 0
    page.line(
        f"{name:>8} {live:>12} {free:>12} {size(used):>12} {size(total):>12} {unused:>7.1f} %"
    )
