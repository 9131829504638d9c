# SPDX-License-Identifier: BSD-2-Clause
"""Pages for a browser: one file each, which asks nothing of any network. A template has
@HOMEFREE_NAME@ where a part of its own belongs, or what all pages share: the head, which says what
a page may not do, the style, and the script.

State: none.
"""

import os
import re

_MARK = re.compile(rb"@HOMEFREE_([A-Z]+)@")
_SHARED = {"HEAD": "page_head.html", "STYLE": "page.css", "SCRIPT": "page.js"}


def fill(template, parts):
    """template: its path; parts: {name: bytes}. Result: bytes."""
    here = os.path.dirname(os.path.abspath(__file__))
    shared = {name: _read(os.path.join(here, file)) for name, file in _SHARED.items()}
    pieces = _MARK.split(_read(template))  # text and names take turns
    pieces[1::2] = [{**shared, **parts}[name.decode()] for name in pieces[1::2]]
    return b"".join(pieces)


def _read(path):
    with open(path, "rb") as file:
        return file.read()
