# SPDX-License-Identifier: BSD-2-Clause
"""The page of `homefree report --html`: the template with the document in it. State: none."""

MARK = b"@HOMEFREE_REPORT@"


def page(template, document):
    """The template's path, and the document's bytes. Result: bytes."""
    with open(template, "rb") as file:
        before, after = file.read().split(MARK, 1)
    # In a script element, which "</script>" in a name would end.
    return b"".join((before, document.replace(b"<", b"\\u003c"), after))
