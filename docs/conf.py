"""Sphinx's configuration of the site. docs/build runs it on the pages that sources.py collects."""

import builtins
import os
import re
import sys
from pathlib import Path

from sphinx import addnodes

ROOT = Path(os.environ["HOMEFREE_DOCS_ROOT"])  # the repository
BUILD = Path(os.environ["HOMEFREE_DOCS_BUILD"])  # a build directory with the Python package
sys.path.insert(0, str(BUILD / "python"))

project = "homefree"
author = "the authors of homefree"
copyright = author
_meson = (ROOT / "meson.build").read_text(encoding="utf-8")
version = release = re.search(r"^  version: '([^']+)'", _meson, re.MULTILINE)[1]

extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "index"
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4
nitpicky = True
# What is CPython's has no page here, and what is private has none.
nitpick_ignore_regex = [(r"py:.*", r"(?!homefree).*|homefree\._.*")]

smartquotes = False  # options begin with two hyphens
html_theme = "furo"
html_title = f"homefree {release}"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
html_static_path = [str(ROOT / "docs" / "static")]
html_css_files = ["site.css"]
html_search_scorer = str(ROOT / "docs" / "static" / "scorer.js")
highlight_language = "none"

autodoc_member_order = "bysource"
add_module_names = False

sys.path.insert(0, str(ROOT / "docs" / "examples" / "python"))
from read import read_examples  # noqa: E402

EXAMPLES = {name: text.splitlines() for name, _, text in read_examples()}

# A paragraph of a docstring that describes parameters: "path: the file", "private, adopt: as in …".
_PARAMETERS = re.compile(r"(\s*)((?:[a-z_]+, )*[a-z_]+): (?=\S)")
_SPECIAL = re.compile(r"([*|\\]|(?<=\w)_(?!\w))")


def _plain(text):
    """Escapes what reStructuredText would take for markup; `code` becomes a literal."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(
        f"`{part}`" if part.startswith("`") and len(part) > 2 else _SPECIAL.sub(r"\\\1", part)
        for part in parts
    )


def _plain_docstring(app, what, name, found, options, lines):
    """The docstrings are plain text: parameters become a list, code and tables literal blocks."""
    result = []
    blocks = "\n".join(lines).strip("\n").split("\n\n")
    for block in blocks:
        rows = block.split("\n")
        if rows[0].startswith("PYTEST_DONT_REWRITE"):
            continue
        if all(row.startswith("    ") for row in rows):
            # Blocks of code with an empty line between them are one.
            if not (len(result) > 1 and result[-2].startswith("    ")):
                result += ["::", ""]
            result += [*rows, ""]
        elif what != "module" and _PARAMETERS.match(block):
            for row in rows:
                match = _PARAMETERS.match(row)
                if match:
                    names = ", ".join(f"**{one}**" for one in match[2].split(", "))
                    result.append(f"- {names}: {_plain(row[match.end() :])}")
                else:
                    result.append(f"  {_plain(row)}")
            result.append("")
        else:
            result += [*map(_plain, rows), ""]
    example = EXAMPLES.get(name)
    if example:
        result += ["", ".. code-block:: pycon", "", *(f"   {row}" for row in example), ""]
    lines[:] = result


def _no_signature(app, what, name, found, options, signature, result):
    """Named tuples made in C have the signature of tuple, which says nothing."""
    return ("", None) if signature and signature.startswith("(iterable=") else None


def _leave_builtins(app, doctree):
    """A type such as `bytes` is no reference to an attribute of that name."""
    for node in list(doctree.findall(addnodes.pending_xref)):
        if node.get("refdomain") == "py" and hasattr(builtins, node["reftarget"]):
            node.replace_self(node.children)


def setup(app):
    app.connect("doctree-read", _leave_builtins)
    app.connect("autodoc-process-signature", _no_signature)
    app.connect("autodoc-process-docstring", _plain_docstring)
