#!/usr/bin/env python3
"""Writes what documents have from elsewhere, so that no fact is written twice.

usage: docs/generated.py            writes the files
       docs/generated.py --check    writes nothing; exit status 1 if a file is not current

docs/findings.md  the rules of the command's tables (findings.py); the examples stay
docs/options.md   its table is alloc/base/options.def
docs/package.md   README.md's first screen and its table, for package indexes: these show a page
                  without the repository around it, so relative links and pictures are left out
"""

import re
import sys
from pathlib import Path

import findings

ROOT = Path(__file__).resolve().parents[1]
MARK = "<!-- From here on written by docs/generated.py. -->\n"
END = "<!-- Down to here. -->\n"


def between_marks(text, made):
    head, rest = text.split(MARK)
    return head + MARK + "\n" + made + "\n" + END + rest.split(END)[1]


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


# ---- the options ----


def option_default(kind, preset, choices):
    value = eval(re.sub(r"UINT64_C\((\d+)\)", r"\1", preset), {"__builtins__": {}})
    if kind in choices:
        return choices[kind][value]
    suffixes = ["", "K", "M", "G", "T"]
    while kind == "size" and value and value % 1024 == 0 and len(suffixes) > 1:
        value //= 1024
        suffixes.pop(0)
    return f"{value}{suffixes[0]}"


def options():
    text = read("alloc/base/options.def")
    text = text[text.index("*/") :]
    choices = {
        name: re.findall(r'"(\w+)"', words)
        for name, words in re.findall(
            r"(\w+)_choices\[\] = \{(.*?)\}", read("alloc/base/options.c"), re.DOTALL
        )
    }
    lines = ["| key | takes | default | effect |", "|---|---|---|---|"]
    for row in re.findall(r"^HF_OPTION\((.*?)\)$", text, re.MULTILINE | re.DOTALL):
        numbers, *texts = re.split(r',\s*(?=")', row, maxsplit=2)
        name, kind, preset, _, _ = re.split(r",\s*", numbers)
        unit, effect = ("".join(re.findall(r'"([^"]*)"', part)) for part in texts)
        unit += " (K, M, G, T)" if kind == "size" else ""
        default = option_default(kind, preset, choices)
        lines.append(f"| `{name}` | {unit} | {default} | {effect} |")
    return between_marks(read("docs/options.md"), "\n".join(lines) + "\n")


# ---- the page on a package index ----


def package():
    text = read("README.md")
    text = text[: text.index("\n## Install\n")]
    text = re.sub(r"<picture>.*?</picture>\n\n", "", text, flags=re.DOTALL)
    # Whoever reads it there has an index, and no checkout.
    text, count = re.subn(
        r"There is no release .*?From the first release on, w", "W", text, flags=re.DOTALL
    )
    assert count == 1
    text = re.sub(r" \(\[[^\]]*\]\((?!https?:)[^)]*\)\)", "", text)
    text = re.sub(r"\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", text)
    return (
        "<!-- Written by docs/generated.py from README.md. -->\n\n"
        + text
        + "\n## Documentation\n\n"
        + "`homefree help` and `help(homefree)` describe the command and the package. The source\n"
        + "archive has README.md, the guides and the examples.\n"
    )


def findings_page():
    head = read(findings.PAGE).split(findings.KEPT)[0]
    return f"{head}{findings.KEPT}\n" + "\n".join(map(findings.section, findings.findings()))


GENERATED = {
    "docs/findings.md": findings_page,
    "docs/options.md": options,
    "docs/package.md": package,
}


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit("usage: docs/generated.py [--check]")
    old = []
    for name, make in GENERATED.items():
        text, path = make(), ROOT / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            old.append(name)
            if not sys.argv[1:]:
                path.write_text(text, encoding="utf-8")
    if sys.argv[1:] and old:
        sys.exit(f"not current: {', '.join(old)}; run docs/generated.py")


if __name__ == "__main__":
    main()
