"""The reference of the C headers: a page for each, for Sphinx's C domain.

libclang reads the declarations, the types and the comments at types and their members.
alloc/manual/pages.py, which also makes the manual pages, reads the comments of functions.
"""

import re
import subprocess
import sys
import sysconfig

from clang import cindex

INCLUDED = [
    "homefree/homefree.h",
    "homefree/check.h",
    "homefree/interpreters.h",
    "homefree/python.h",
    "homefree/python/numpy.h",
]
UNSEEN = {"homefree/check/support.h", "homefree/homefree.h"}  # nothing in them is for users
# What homefree/python/numpy.h looks for; NumPy itself need not be there.
NUMPY = "#define NPY_ARRAY_OWNDATA 4\ntypedef struct PyArrayObject PyArrayObject;\n"
KIND = cindex.CursorKind
TYPES = (KIND.STRUCT_DECL, KIND.ENUM_DECL, KIND.TYPEDEF_DECL)


def parse(include):
    """The declarations of all public headers."""
    directory = subprocess.run(
        ["cc", "-print-file-name=include"], check=True, capture_output=True, text=True
    ).stdout.strip()
    source = "#define HF_CK_FRAMEWORK_NONE\n#include <Python.h>\n" + NUMPY
    source += "".join(f"#include <{name}>\n" for name in INCLUDED)
    arguments = ["-xc", "-std=c11", "-fparse-all-comments", f"-I{include}", f"-isystem{directory}"]
    arguments.append("-isystem" + sysconfig.get_paths()["include"])
    unit = cindex.Index.create().parse(
        "headers.c",
        arguments,
        unsaved_files=[("headers.c", source)],
        options=cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD
        | cindex.TranslationUnit.PARSE_SKIP_FUNCTION_BODIES,
    )
    errors = [str(one) for one in unit.diagnostics if one.severity >= cindex.Diagnostic.Error]
    if errors:
        sys.exit("\n".join(errors))
    return unit


# ---- text ----


def prose(text):
    """Running text: `code`, functions and constants as what they are; the rest escaped."""
    parts = re.split(r"(`[^`]+`|\bhf_\w+\(\))", " ".join(text.split()))
    out = []
    for part in parts:
        if part.startswith("`"):
            out.append(f"`{part}`")
        elif part.startswith("hf_") and part.endswith("()"):
            # The assertions of check.h are macros.
            role = "macro" if part.startswith("hf_ck_") else "func"
            out.append(f":c:{role}:`{part[:-2]}`")
        else:
            out.append(re.sub(r"([\\*|]|(?<=\w)_(?!\w))", r"\\\1", part))
    # Two roles, or a role and a word, need something between them.
    return "".join(out)


def indented(lines, by="   "):
    return [by + line if line else line for line in lines]


def paragraphs(lines, entries):
    """The paragraphs, lists, tables and examples of a comment, in the form of homefree/base.h."""
    out = []
    blocks = [block.split("\n") for block in re.split(r"\n\n+", "\n".join(lines).strip("\n"))]
    for block in filter(any, blocks):
        if block[0].startswith("    "):
            out += [".. code-block:: c", "", *indented(line[4:] for line in block)]
        elif block[0].startswith("  - "):
            for item in re.split(r"^  - ", "\n".join(block), flags=re.MULTILINE)[1:]:
                out.append(f"- {prose(item)}")
        elif block[0].startswith("  "):
            for name, words in entries(block):
                out += [f"``{name}``", f"   {prose(words)}"]
        else:
            out.append(prose(" ".join(block)))
        out.append("")
    return out


def comment_text(comment):
    """A comment at a type or a member as one paragraph."""
    text = re.sub(r"^\s*\*", "", (comment or "")[2:-2], flags=re.MULTILINE)
    return " ".join(text.split())


# ---- declarations ----


def declared(type_name, name):
    """A C declaration of `name`."""
    type_name = type_name.replace("_Bool", "bool")
    if "(*)" in type_name:
        return type_name.replace("(*)", f"(*{name})", 1)
    array = re.fullmatch(r"(.*?) ?(\[.*\])", type_name)
    if array:
        return f"{array[1]} {name}{array[2]}"
    return f"{type_name}{'' if type_name.endswith('*') else ' '}{name}".strip()


def signature(cursor):
    parameters = [declared(one.type.spelling, one.spelling) for one in cursor.get_arguments()]
    if cursor.type.kind == cindex.TypeKind.FUNCTIONPROTO and cursor.type.is_function_variadic():
        parameters.append("...")
    head = declared(cursor.result_type.spelling, cursor.spelling)
    return f"{head}({', '.join(parameters) or 'void'})"


def directive(kind, heads, body, by=""):
    first, *others = heads
    out = [f"{by}.. c:{kind}:: {first}"]
    pad = " " * (len(kind) + len(".. c::: "))
    out += [f"{by}{pad}{other}" for other in others]
    return [*out, "", *indented(body, by + "   "), ""]


def type_entry(cursor):
    """A struct, an enum or a typedef with its members."""
    body = [prose(comment_text(cursor.raw_comment)), ""]
    if cursor.kind == KIND.TYPEDEF_DECL:
        text = " ".join(token.spelling for token in cursor.get_tokens())
        text = re.sub(r"\s*([(),;])\s*", r"\1", text).replace(",", ", ").replace("* ", "*")
        text = re.sub(r"^typedef ", "", text).rstrip(";")
        return directive("type", [text], body)
    kinds = {
        KIND.FIELD_DECL: ("member", lambda one: declared(one.type.spelling, one.spelling)),
        KIND.ENUM_CONSTANT_DECL: ("enumerator", lambda one: f"{one.spelling}"),
    }
    for member in cursor.get_children():
        if member.kind in kinds:
            kind, head = kinds[member.kind]
            text = comment_text(member.raw_comment)
            inner = member.type.get_declaration()
            if inner.kind == KIND.UNION_DECL and inner.is_anonymous():
                body += [f"{member.spelling}: one of", ""]
                body += [
                    line
                    for one in inner.get_children()
                    for line in directive("member", [declared(one.type.spelling, one.spelling)], [])
                ]
            else:
                body += directive(kind, [head(member)], [prose(text)] if text else [])
    kind = "enum" if cursor.kind == KIND.ENUM_DECL else "struct"
    return directive(kind, [cursor.spelling], body)


def group_entry(group, cursors, pages):
    """The functions or macros that share a comment."""
    macros = group.functions[0].result is None
    heads = []
    for function in group.functions:
        if macros:
            parameters = function.parameters
            heads.append(function.name + (f"({', '.join(parameters)})" if parameters else ""))
        else:
            heads.append(signature(cursors[function.name]))
    fields, body = group.fields, paragraphs(group.effect, pages.entries)
    for field, value in fields.items():
        if isinstance(value, str):
            body.append(f":{field}: {prose(value)}")
        else:
            body.append(f":{field}:")
            body += [f"   - ``{name}``: {prose(text)}" for name, text in value]
    return directive("macro" if macros else "function", heads, body)


def page(header, found, pages):
    """The page of a header, and in the order of the header what is in it."""
    title = header.name.replace("/", "/\u200b")  # a line may end behind a slash
    out = [title, "=" * len(title), "", prose(pages.sentence(header.summary)), ""]
    out += [".. code-block:: c", "", f"   #include <{header.name}>", ""]
    out += paragraphs(header.prose, pages.entries)
    named = (KIND.FUNCTION_DECL, KIND.MACRO_DEFINITION)
    cursors = {one.spelling: one for one in found if one.kind in named}
    entries = []
    for cursor in found:
        if cursor.kind in TYPES and not pages.INTERNAL.match(cursor.spelling):
            entries.append((cursor.extent.start.offset, type_entry(cursor)))
    for group in header.groups:
        place = cursors[group.name].extent.start.offset
        entries.append((place, group_entry(group, cursors, pages)))
    for _, lines in sorted(entries, key=lambda entry: entry[0]):
        out += lines
    return "\n".join(out) + "\n"


def reference(include, manual):
    """The name and the text of each header's page."""
    sys.path.insert(0, str(manual))
    import pages

    unit = parse(include)
    found = {}
    for cursor in unit.cursor.get_children():
        if cursor.location.file:
            found.setdefault(cursor.location.file.name, []).append(cursor)
    for path in sorted((include / "homefree").rglob("*.h")):
        header = pages.read_header(path)
        if header.name not in UNSEEN:
            text = page(header, found.get(str(path), []), pages)
            yield re.sub(r"\W", "-", header.name[len("homefree/") : -len(".h")]), text
