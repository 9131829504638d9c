# SPDX-License-Identifier: BSD-2-Clause
"""Writes the manual pages of section 3 from the comments of the public headers.

Usage: pages.py --list HEADER...           prints the names of all pages
       pages.py --output DIRECTORY HEADER...  writes them

homefree/base.h describes the form of a function's comment. A comment in this form begins a group:
every public function or macro up to the next such comment belongs to it. A group is one page,
named for its first function; each further function is a page that includes it. Each header has an
overview page. A comment that breaks the form, or a public function outside a group, is an error
that names the header and the line.

docs/examples/c/NAME.c has a header's examples, and is a program that a test runs: each is a comment
of one line, which says what it shows, and the code up to the next one. A page has, for each of its
functions, the first example that calls it.
"""

import argparse
import re
import sys
from pathlib import Path

DATE = "July 1, 2026"
FIELDS = [
    "Parameters",
    "Result",
    "Errors",
    "Frees",
    "Threads",
    "Fork",
    "Signals",
    "Source",
    "Since",
]
OPTIONAL = {"Parameters", "Source"}
STARTS = {
    "Threads": ("safe", "attached", "any"),
    "Fork": ("safe", "unsafe"),
    "Signals": ("safe", "unsafe"),
}
# Names that headers must declare although users must not call them.
INTERNAL = re.compile(
    r"(?:hf|HF)_py_|HF_PY_|HF_CK_|hf_ck_(?!assert_|(?:fail_at|fail_reset|calls)\b)"
)
DIRECTION = re.compile(r"(?:in|out|in/out)(?:, [^:]+)?(?:: \S|$)")

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
ATTRIBUTE = re.compile(r"__attribute__\(\((?:[^()]|\([^()]*\))*\)\)")
CXX_ONLY = re.compile(r"^#ifdef __cplusplus\n.*?^#endif$", re.MULTILINE | re.DOTALL)
DIRECTIVE = re.compile(r"^#(?:.*\\\n)*.*$", re.MULTILINE)
TYPE = re.compile(
    r"(?:^/\*(?:(?!\*/).)*?\*/\n)?"
    r"^(?:(?:struct|enum) (?P<tag>hf_\w+) \{.*?^\};|typedef [^;{]*?\b(?P<name>hf_\w+)\([^;]*;)$",
    re.MULTILINE | re.DOTALL,
)


EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples" / "c"
EXAMPLE = re.compile(
    r"^/\* (?P<what>[^*]*) \*/\n+(?P<code>(?:static|struct|START_TEST).*?)(?=^/\*|^int main\()",
    re.MULTILINE | re.DOTALL,
)


class Broken(Exception):
    """The header is not written in the form that pages are made from."""


class Function:
    def __init__(self, name, result, parameters):
        self.name, self.result, self.parameters = name, result, parameters

    def parameter_names(self):
        """The name of each parameter, the one of a function pointer included."""
        names = []
        for parameter in self.parameters or []:
            pointer = re.search(r"\(\*(\w+)\)", parameter)
            names.append(pointer[1] if pointer else re.search(r"(\w+|\.\.\.)\W*$", parameter)[1])
        return names


class Group:
    def __init__(self, effect, fields, functions):
        self.effect, self.fields, self.functions = effect, fields, functions

    @property
    def name(self):
        return self.functions[0].name

    @property
    def summary(self):
        """The first sentence of the effect, without its end."""
        first = " ".join(" ".join(self.effect).split("  ")[0].split())
        return re.split(r"(?<=[\w)\"])[.:](?: |$)", first)[0].rstrip(".")


class Example:
    def __init__(self, what, code):
        self.what, self.code = what, code.strip("\n")

    def calls(self, function):
        return re.search(rf"\b{function.name}\(", self.code)


class Header:
    def __init__(self, path, name, summary, prose, groups):
        self.path, self.name, self.summary, self.prose = path, name, summary, prose
        self.groups = groups

    @property
    def page(self):
        words = [word for word in self.name[: -len(".h")].split("/") if word != "homefree"]
        return "-".join(["homefree", *words])


# ---- reading ----


def comment_lines(comment):
    """A comment's lines without its frame."""
    lines = [re.sub(r"^ \* ?", "", line) for line in comment[2:-2].split("\n")]
    return [line.rstrip() for line in lines[1:-1]]


def split_at_commas(text):
    """Splits at the commas outside parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def without_bodies(text):
    """C code with each block in braces replaced by a semicolon."""
    out, depth = [], 0
    for character in text:
        depth += character == "{"
        if depth == 0:
            out.append(character)
        elif character == "}":
            depth -= 1
            out.append(";" if depth == 0 else "")
    return "".join(out)


def functions_in(code):
    """The public functions and macros that a stretch of a header declares, each once."""
    found = {}
    for name, parameters in re.findall(r"^#define (\w+)(?:\(([^)\n]*)\))?", code, re.MULTILINE):
        function_like = name.startswith(("hf_ck_", "HF_MODULE_"))
        if function_like and not INTERNAL.match(name):
            found[name] = Function(name, None, split_at_commas(parameters) if parameters else None)
    code = without_bodies(DIRECTIVE.sub("", COMMENT.sub("", code)))
    for declaration in code.split(";"):
        words = " ".join(ATTRIBUTE.sub("", declaration).split())
        words = re.sub(r"\b(?:HF_API|HF_MALLOC|static inline|extern inline)\b ?", "", words)
        match = re.fullmatch(r"((?!typedef\b|struct \w+$).*?)\b(hf_\w+)\((.*)\)", words)
        if match is None or INTERNAL.match(match[2]):
            continue
        parameters = [] if match[3] == "void" else split_at_commas(match[3])
        found.setdefault(match[2], Function(match[2], match[1].strip(), parameters))
    return list(found.values())


def entries(lines):
    """A table of names and texts, indented by two."""
    table = []
    for line in lines:
        match = re.match(r"  (\S+(?: \S+)*)  +(\S.*)", line)
        if match and not line.startswith("   "):
            table.append([match[1], match[2]])
        elif table and line.startswith("    "):
            table[-1][1] += " " + line.strip()
        else:
            raise Broken(f"not an entry of a table: {line!r}")
    return table


def parse_group(lines, functions):
    effect, fields, current = [], {}, None
    for line in lines:
        match = re.match(r"([A-Z]\w+):(?: (.*)|$)", line)
        if match and match[1] in FIELDS:
            current = match[1]
            fields[current] = [match[2] or ""]
        elif current is None:
            effect.append(line)
        elif line.startswith("  "):
            fields[current].append(line)
        else:
            raise Broken(f"a line of {current!r} is not indented by two: {line!r}")
    if list(fields) != [field for field in FIELDS if field in fields]:
        raise Broken(f"the fields are not in order: {', '.join(fields)}")
    missing = [field for field in FIELDS if field not in fields and field not in OPTIONAL]
    if missing:
        raise Broken(f"fields are missing: {', '.join(missing)}")
    for field, starts in STARTS.items():
        if not re.match(rf"(?:{'|'.join(starts)})\b", fields[field][0]):
            raise Broken(f"{field!r} begins with none of: {', '.join(starts)}")
    for field in fields:
        table = field == "Parameters" or (field == "Errors" and fields[field][0] == "")
        first, rest = fields[field][0], fields[field][1:]
        fields[field] = entries(rest) if table else " ".join([first, *map(str.strip, rest)])
    if not functions:
        raise Broken("the comment documents nothing")
    declared = {name for function in functions for name in function.parameter_names()}
    described = {name for name, _ in fields.get("Parameters", [])}
    # A printf-like function's arguments are its format's.
    declared -= {"..."} - described
    if declared != described:
        raise Broken(
            f"parameters are {', '.join(sorted(declared))}; described are "
            f"{', '.join(sorted(described))}"
        )
    for name, text in fields.get("Parameters", []):
        if not DIRECTION.match(text):
            raise Broken(f"the parameter {name!r} has no direction")
    return Group(effect, fields, functions)


def read_header(path):
    text = path.read_text(encoding="utf-8")
    comments = [match for match in COMMENT.finditer(text) if "\n" in match[0]]
    lines = comment_lines(comments[0][0])
    top = []
    while lines and lines[0]:
        top.append(lines.pop(0))
    match = re.fullmatch(r"(homefree(?:/[\w/]+)?\.h) - (.*)\.", " ".join(top))
    if match is None:
        raise Broken(f"{path}:1: the header does not begin with 'homefree/NAME.h - SUMMARY.'")
    documented = [comment for comment in comments if "\n * Since: " in comment[0]]
    header = Header(path, match[1], match[2], lines, [])
    ends = [comment.start() for comment in documented[1:]] + [len(text)]
    before = text[: documented[0].start()] if documented else text
    strays = functions_in(CXX_ONLY.sub("", before))
    if strays:
        raise Broken(f"{path}: {strays[0].name} has no comment in the form")
    for comment, end in zip(documented, ends):
        functions = functions_in(CXX_ONLY.sub("", text[comment.end() : end]))
        try:
            header.groups.append(parse_group(comment_lines(comment[0]), functions))
        except Broken as broken:
            line = text.count("\n", 0, comment.start()) + 1
            raise Broken(f"{path}:{line}: {broken}") from None
    return header


def types_of(headers):
    """Each type by its name, with its comment, as the header has it."""
    types = {}
    for header in headers:
        for match in TYPE.finditer(header.path.read_text(encoding="utf-8")):
            types[match["tag"] or match["name"]] = match[0]
    return types


def types_used(group, types):
    """The types that a group's functions mention, and those that these mention."""
    used = []
    pending = [f"{function.result} {function.parameters}" for function in group.functions]
    while pending:
        for name in re.findall(r"\bhf_\w+", COMMENT.sub("", pending.pop(0))):
            if name in types and name not in used:
                used.append(name)
                pending.append(types[name])
    return used


def examples_of(header, group):
    """The examples that a group's page shows."""
    path = EXAMPLES / header.name.replace("homefree/", "", 1).replace("/", "-").replace(".h", ".c")
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    found = [Example(match["what"], match["code"]) for match in EXAMPLE.finditer(text)]
    shown = []
    for function in group.functions:
        first = next(filter(lambda example: example.calls(function), found), None)
        if first is not None and first not in shown:
            shown.append(first)
    return shown


# ---- writing ----


def escaped(text):
    text = text.replace("\\", "\\e").replace("…", "...")
    text = re.sub(r"(?<![\w)])-(?=[\w-])", r"\\-", text)
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def prose(text):
    """Running text: a sentence a line, with functions and names in bold."""
    text = escaped(text)
    text = re.sub(r"\b(hf_\w+)\(\)", r"\\fB\1\\fP()", text)
    text = re.sub(r"`([^`]+)`", r"\\fB\1\\fP", text)
    return re.sub(r"(?<=[.?!])\s+(?=[A-Z*\\])", "\n", text)


def sentence(text, names=()):
    """A field's text as a sentence of its own. One of `names` at its start stays as it is."""
    first = re.match(r"\w*", text)[0]
    if first not in names and "_" not in first:
        text = text[0].upper() + text[1:]
    return text + ("" if text.endswith(".") else ".")


def literal(lines):
    return [".Bd -literal", *map(escaped, lines), ".Ed"]


def tagged(table):
    """A list of names, already marked up, and texts."""
    width = min(12, max(len(re.sub(r"\\|^[A-Z][a-z] ", "", name)) for name, _ in table))
    out = [f".Bl -tag -width {'x' * width}"]
    for name, words in table:
        out += [f".It {name}"] + ([prose(words)] if words else [])
    return [*out, ".El"]


def paragraphs(lines):
    """The paragraphs, lists, tables and examples of a comment."""
    out = []
    blocks = [block.split("\n") for block in re.split(r"\n\n+", "\n".join(lines).strip("\n"))]
    for block in filter(any, blocks):
        if out and not block[0].startswith("    "):
            out.append(".Pp")
        if block[0].startswith("    "):
            out += literal(line[4:] for line in block)
        elif block[0].startswith("  - "):
            for line in block:
                if not line.startswith(("  - ", "    ")):
                    raise Broken(f"a line of a list is not indented: {line!r}")
            items = re.split(r"^  - ", "\n".join(block), flags=re.MULTILINE)[1:]
            out.append(".Bl -bullet")
            for item in items:
                out += [".It", prose(" ".join(item.split()))]
            out.append(".El")
        elif block[0].startswith("  "):
            out += tagged([[escaped(name), words] for name, words in entries(block)])
        else:
            out.append(prose(" ".join(block)))
    # No paragraph break in front of a list or an example: these bring their own.
    return [
        line
        for line, following in zip(out, [*out[1:], ""])
        if line != ".Pp" or not following.startswith((".Bl", ".Bd"))
    ]


def top(name, names, summary):
    summary = summary[0].lower() + summary[1:] if summary[1:2].islower() else summary
    out = [f".Dd {DATE}", f".Dt {name.upper()} 3", ".Os", ".Sh NAME"]
    out += [f".Nm {escaped(other)} ," for other in names[:-1]]
    return [*out, f".Nm {escaped(names[-1])}", f".Nd {escaped(summary)}"]


def prototype(function):
    if function.result is None:
        if function.parameters is None:
            return [f".Fd #define {function.name}"]
        return [" ".join([".Fn", function.name, *function.parameters])]
    parameters = function.parameters or ["void"]
    out = [f'.Ft "{function.result}"', f".Fo {function.name}"]
    return [*out, *(f'.Fa "{parameter}"' for parameter in parameters), ".Fc"]


def see_also(names):
    names = sorted(set(names))
    return [".Sh SEE ALSO", *(f".Xr {name} 3 ," for name in names[:-1]), f".Xr {names[-1]} 3"]


def library(header):
    return [
        ".Sh LIBRARY",
        "homefree",
        ".Pq Pa libhomefree , Fl lhomefree",
        ".Sh SYNOPSIS",
        f".In {header.name}",
    ]


def group_page(header, group, types):
    fields = group.fields
    names = {name for name, _ in fields.get("Parameters", [])}
    out = top(group.name, [function.name for function in group.functions], group.summary)
    out += library(header)
    for function in group.functions:
        out += prototype(function)
    out += [".Sh DESCRIPTION", *paragraphs(group.effect)]
    if "Parameters" in fields:
        parameters = []
        for name, text in fields["Parameters"]:
            direction, _, text = text.partition(": ")
            parameters.append([f"Fa {name} Pq {direction}", sentence(text, names) if text else ""])
        out += [".Pp", "The parameters are:", *tagged(parameters)]
    used = types_used(group, types)
    if used:
        out += [".Sh TYPES", *literal("\n\n".join(types[name] for name in used).split("\n"))]
    if fields["Result"] != "none.":
        out += [".Sh RETURN VALUES", prose(sentence(fields["Result"], names))]
    examples = examples_of(header, group)
    for example in examples:
        out += [".Sh EXAMPLES"] if example is examples[0] else [".Pp"]
        out += [prose(example.what), *literal(example.code.split("\n"))]
    out += [".Sh ERRORS"]
    if isinstance(fields["Errors"], str):
        out += [prose(sentence(fields["Errors"], names))]
    else:
        errors = [[escaped(name), sentence(text, names)] for name, text in fields["Errors"]]
        out += tagged(errors)
    if fields["Frees"] != "nothing.":
        out += [".Sh OWNERSHIP", prose(sentence(fields["Frees"], names))]
    context = [[field, sentence(fields[field], names)] for field in ("Threads", "Fork", "Signals")]
    out += [".Sh THREADS, FORK AND SIGNALS", *tagged(context)]
    out += see_also([header.page, "homefree-base"])
    if "Source" in fields:
        out += [".Sh STANDARDS", prose(sentence(fields["Source"]))]
    return out + [".Sh HISTORY", f"Since homefree {fields['Since']}."]


def header_page(header, headers):
    out = top(header.page, [header.page], header.summary) + library(header)
    out += [".Sh DESCRIPTION", *(paragraphs(header.prose) or [prose(sentence(header.summary))])]
    if header.groups:
        out += [".Sh FUNCTIONS", ".Bl -tag -width Ds"]
        for group in header.groups:
            names = [f"Xr {function.name} 3" for function in group.functions]
            out += [f".It {' , '.join(names)}", prose(sentence(group.summary))]
        out += [".El"]
    pages = [other.page for other in headers if other is not header]
    below = [page for page in pages if page.startswith(f"{header.page}-")]
    parent = header.page.rpartition("-")[0]
    above = [page for page in (parent, "homefree-base") if page in pages and page not in below]
    return out + see_also(above + below)


def pages(headers):
    """Each page's file name and content."""
    types = types_of(headers)
    for header in headers:
        yield f"{header.page}.3", "\n".join(header_page(header, headers))
        for group in header.groups:
            source = f'.\\" Made from {header.name}.\n'
            yield f"{group.name}.3", source + "\n".join(group_page(header, group, types))
            for function in group.functions[1:]:
                yield f"{function.name}.3", f".so man3/{group.name}.3"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--output", type=Path)
    parser.add_argument("headers", nargs="+", type=Path)
    arguments = parser.parse_args()
    try:
        made = list(pages([read_header(path) for path in arguments.headers]))
    except Broken as broken:
        sys.exit(str(broken))
    for name, content in made:
        if arguments.list:
            print(name)
        else:
            (arguments.output / name).write_text(content + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
