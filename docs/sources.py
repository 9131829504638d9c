"""Collects the pages of the site in one directory, from which Sphinx makes it.

usage: sources.py ROOT BUILD DIRECTORY

The documents of the repository are copied with their places kept, README.md as index.md; links to
directories lead to their READMEs, and to directories without one nowhere. The pages below
reference/ are made: of the C headers and the command (their manual pages, by mandoc), and of the
Python package (by Sphinx's autodoc). Each section of docs/findings.md becomes a page below
findings/, named as its heading: the title is what the tools print, so that a search leads there. A
page whose text has not changed is not written again.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "alloc" / "manual"))
import findings
import pages as section3

UNSEEN = {"homefree/check/support.h", "homefree/homefree.h"}  # nothing in them is for users
# docs/package.md repeats README's first screen.
LEFT_OUT = {"docs/package.md"}
DOCUMENTS = [
    "*.md",
    "adapters/*.md",
    "docs/*.md",
    "docs/proposals/*.md",
    "examples/**/*.md",
    "packaging/*.md",
    "shim/rust/*.md",
    "tests/bench/*.md",
    "tests/gpu/*.md",
    "tests/long/*/*.md",
]
DIRECTORY = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s:]+)\)")
LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)\s]*)?\))")
PICTURE = re.compile(r"<picture>.*?</picture>", re.DOTALL)
MANUALS = [
    ("homefree", "loader/command/homefree.1", True),
    ("homefree-run", "loader/command/run/homefree-run.1", False),
    ("homefree-report", "loader/command/homefree-report.1", True),
    ("homefree-inspect", "loader/command/homefree-inspect.1", True),
    ("homefree-memory", "loader/command/memory/homefree-memory.1", False),
    ("homefree-doctor", "loader/command/homefree-doctor.1", True),
    ("homefree-test", "loader/command/test/homefree-test.1", False),
    ("homefree-exports", "loader/command/exports/homefree-exports.1", False),
]
# Documents whose names begin so have their place below another one in the table of contents.
PARENTS = {
    "adapters/": "docs/registry.md",
    "docs/proposals/": "docs/registry.md",
    "examples/bindings/README.md": "examples/README.md",
    "examples/bindings/": "examples/bindings/README.md",
    "examples/guides/": "",
    "examples/": "examples/README.md",
    "packaging/": "examples/guides/publishing.md",
    "shim/rust/": "examples/bindings/README.md",
    "tests/bench/": "docs/speed.md",
    "tests/gpu/": "docs/tests.md",
    "tests/long/": "docs/tests.md",
}
# In mandoc's Markdown, a term of a list and its text, which is quoted, or behind a tab as code is.
TERM = re.compile(r"\d|\w+|(?:[*`\[-]|&#45;).*[^:.]")
TEXT = re.compile(r"> |\t")
PYTHON = [
    "homefree",
    "homefree.extension",
    "homefree.package",
    "homefree.setuptools",
    "homefree.check",
    "homefree.interpreters",
    "homefree.cuda",
]


class Pages:
    """The directory of sources. Files that this run does not put there are removed at the end."""

    def __init__(self, directory):
        self.directory, self.made = directory, set()

    def write(self, name, text):
        path = self.directory / name
        self.made.add(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")

    def copy(self, root, name):
        path = self.directory / name
        self.made.add(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, path)

    def remove_others(self):
        for path in self.directory.rglob("*"):
            if path.is_file() and path not in self.made:
                path.unlink()


def document(root, path, pages, end):
    """Copies a document, and what it links to that is no document."""
    text = path.read_text(encoding="utf-8")
    directory = path.parent

    def link(match):
        start, target, end = match.groups()
        found = (directory / target).resolve()
        if found == root / findings.PAGE and end != ")":
            return f"{start}/findings/{end[1:-1]}.md)"
        if found == root / "README.md":
            return f"{start}{target[: -len('README.md')]}index.md{end}"
        if found.is_dir() and (found / "README.md").exists():
            return f"{start}{target.rstrip('/')}/README.md{end}"
        if found.is_file() and found.suffix != ".md":
            pages.copy(root, found.relative_to(root))
        return match[0]

    def without_directory(match):
        found = (directory / match[2]).resolve()
        nowhere = found.is_dir() and not (found / "README.md").exists()
        return match[1] if nowhere else match[0]

    def linked(part):
        return (
            part
            if part.startswith("```")
            else LINK.sub(link, DIRECTORY.sub(without_directory, part))
        )

    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    text = "".join(map(linked, parts))
    text = PICTURE.sub(lambda match: themed(root, directory, match[0], pages), text)
    name = path.relative_to(root)
    if str(name) == findings.PAGE:
        text = text.split(findings.KEPT)[0] + table_of_findings()
    if str(name) == "README.md":
        text += "\n" + (root / "docs" / "contents.txt").read_text(encoding="utf-8")
        name = "index.md"
    pages.write(name, text + end)


def themed(root, directory, picture, pages):
    """A picture as the theme shows it: the reader may choose light and dark by hand."""
    dark = re.search(r'srcset="([^"]+)"', picture)[1]
    light = re.search(r'src="([^"]+)"', picture)[1]
    text = re.search(r'alt="([^"]+)"', picture)[1]
    images = []
    for file, kind in ((light, "only-light"), (dark, "only-dark")):
        pages.copy(root, (directory / file).resolve().relative_to(root))
        images.append(f"```{{image}} {file}\n:class: {kind}\n:alt: {text}\n:width: 720px\n```\n")
    return "\n".join(images)


def manual(source, head="## {}", left_out="-"):
    """A manual page as Markdown: mandoc's, with lists of terms in place of quotations. head: how a
    section begins. left_out: a pattern of the sections that are not wanted."""
    made = subprocess.run(
        ["mandoc", "-T", "markdown"], input=source, check=True, capture_output=True, text=True
    )
    lines = made.stdout.split("\n")
    # The first line is the page's name and section, the last one names the system and the date.
    body = "\n".join(lines[1:-2]).strip("\n") + "\n"
    body = re.sub(rf"^# ({left_out})\n.*?(?=^# |\Z)", "", body, flags=re.MULTILINE | re.DOTALL)
    body = re.sub(
        r"^# (.*)$", lambda match: head.format(match[1].capitalize()), body, flags=re.MULTILINE
    ).strip("\n")
    result, text = "", False  # whether the last block is the text of a term
    blocks = re.split(r"\n\n+", body)
    for block, following in zip(blocks, [*blocks[1:], ""]):
        if TEXT.match(block) and (text or TERM.fullmatch(result.rsplit("\n\n", 1)[-1])):
            # A term and its text stand on neighbouring lines.
            block = re.sub(r"^(?:> ?|\t)", "", block, flags=re.MULTILINE).replace("\n", "\n  ")
            result += ("\n\n  " if text else "\n: ") + block
            text = True
        else:
            # A term is one line.
            block = " ".join(block.split("\n")) if TEXT.match(following) else block
            result, text = f"{result}\n\n{block}", False
    return result.strip("\n")


def headers(include):
    """The name and the text of each public header's page: its manual pages, one below another."""
    found = [section3.read_header(path) for path in sorted((include / "homefree").rglob("*.h"))]
    for header in found:
        if not (header.groups or header.prose) or header.name in UNSEEN:
            continue
        left_out = "NAME|LIBRARY|FUNCTIONS|SEE ALSO"
        source = "\n".join(section3.header_page(header, found))
        parts = [f"# {header.name}", manual(source, "**{}**", left_out)]
        left_out = "NAME|LIBRARY|TYPES|SEE ALSO"
        for group in header.groups:
            parts.append("## " + ", ".join(f"`{one.name}`" for one in group.functions))
            source = "\n".join(section3.group_page(header, group, {}))
            text = manual(source, "**{}**", f"{left_out}|EXAMPLES")
            parts.append(text.replace(f"**#include &lt;{header.name}>**\n\n", ""))
            for example in section3.examples_of(header, group):
                parts.append(f"**Example.** {example.what}\n\n```c\n{example.code}\n```")
        types = section3.types_of([header])
        shown = [text for name, text in types.items() if not section3.INTERNAL.match(name)]
        if shown:
            parts.append("## Types\n\n```c\n" + "\n\n".join(shown) + "\n```")
        yield header.name[len("homefree/") : -len(".h")].replace("/", "-"), "\n\n".join(parts)


def table_of_findings():
    """What the page of findings has in place of its sections, which have pages of their own."""
    lines = ["| finding | severity | what it says |", "|---|---|---|"]
    for one in findings.findings():
        cause = re.split(r"(?<=[.:]) ", findings.escaped(one.cause))[0]
        link = f"[{one.title}](/findings/{one.anchor}.md)"
        lines.append(f"| {link} | {one.severity} | {cause} |")
    return "\n".join(lines) + "\n"


def page_of_finding(one, others):
    """A page; others: those of the same kind that other commands find."""
    parts = [f"# {one.title}\n", *findings.markdown(one)]
    if others:
        links = ", ".join(f"[{other.title}](/findings/{other.anchor}.md)" for other in others)
        parts.append(f"The same, told by other commands: {links}.\n")
    page = f"/reference/command/homefree-{one.command}.md"
    parts.append(f"Found by [homefree {one.command}]({page}).\n")
    return "\n".join(parts)


def toctree(names):
    return "\n```{toctree}\n:hidden:\n\n" + "\n".join(names) + "\n```\n"


def main():
    root, build, directory = (Path(argument).resolve() for argument in sys.argv[1:])
    pages = Pages(directory)
    below = {}  # what the table of contents has below a document
    for name, text in headers(root / "alloc" / "include"):
        pages.write(f"reference/c/{name}.md", text + "\n")
        below.setdefault("docs/c.md", []).append(f"/reference/c/{name}")
    for module in PYTHON:
        # The methods that importlib calls are no part of the interface.
        options = "   :members:\n   :exclude-members: covers, create\n"
        text = f"{module}\n{'=' * len(module)}\n\n.. automodule:: {module}\n{options}"
        pages.write(f"reference/python/{module}.rst", text)
        below.setdefault("docs/python.md", []).append(f"/reference/python/{module}")
    for name, page, made in MANUALS:
        text = manual(((build if made else root) / page).read_text(encoding="utf-8"))
        pages.write(f"reference/command/{name}.md", f"# {name.replace('-', ' ', 1)}\n\n{text}\n")
        below.setdefault("docs/command.md", []).append(f"/reference/command/{name}")
    told = list(findings.findings())
    for one in told:
        others = [other for other in told if other.kind == one.kind and other is not one]
        pages.write(f"findings/{one.anchor}.md", page_of_finding(one, others))
        below.setdefault(findings.PAGE, []).append(f"/findings/{one.anchor}")
    documents = [path for pattern in DOCUMENTS for path in sorted(root.glob(pattern))]
    documents = [path for path in documents if str(path.relative_to(root)) not in LEFT_OUT]
    for path in documents:
        name = str(path.relative_to(root))
        for start, parent in PARENTS.items():
            if name.startswith(start) and name != parent:
                below.setdefault(parent, []).append("/" + name[: -len(".md")])
            if name.startswith(start):
                break
    for path in documents:
        names = below.get(str(path.relative_to(root)))
        document(root, path, pages, toctree(names) if names else "")
    pages.remove_others()


if __name__ == "__main__":
    main()
