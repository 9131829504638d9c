# SPDX-License-Identifier: BSD-2-Clause
"""`homefree exports --from-objects`: finds the functions by which CPython enters a module in object
files, and has the command write the version script.

loader/command/exports/exports.c has the command line, and needs no Python for names that it is
given. The words: "self=" with its path, and its options, each NAME=VALUE. In the place of
"from-objects=FILE" come the functions that the file defines, each as "found=NAME".

The files are hostile, and of any machine, class and byte order, as for a linker. Every offset and
size is checked, and a file takes linear time. Files are read, not mapped.

State: none. One thread.
"""

import os
import re
import stat
import struct

from .binary import Bytes, Damaged
from .start import FINDINGS, Failure, complain

_WHO = "homefree exports"
_ELF = b"\x7fELF"
_IDENT = 16
_BITCODE = b"BC\xc0\xde", b"\xde\xc0\x17\x0b"
_ARCHIVE, _THIN = b"!<arch>\n", b"!<thin>\n"
_INDICES = b"/", b"//", b"/SYM64/"  # symbol tables, and the table of long names
_TABLE_MAX = 1 << 30

# The functions' names (loader/inspect/module_functions.def) anywhere in a table, since linkers let
# names share their ends.
_FUNCTION = re.compile(rb"(?=(?:PyModExport|PyInit)U?_[^\0])")
# What GCC defines in objects whose code is still to be compiled. Their definitions are elsewhere.
_SLIM = b"__gnu_lto_slim"
# Longer than that of any module that a file system can hold, and what a script can hold.
_SYMBOL_MAX = 2047
_SYMBOL = re.compile("[A-Za-z0-9_.$\u00a0-\U0010ffff]+")

_REL, _DYN = 1, 3
_SECTION_OF = {_REL: 2, _DYN: 11}  # SHT_SYMTAB, SHT_DYNSYM
_STRTAB = 3
_TYPES = 0, 2, 10  # none, which assemblers set by default; function; indirect function
_BINDINGS = 1, 2, 10  # global, weak, unique
_HIDDEN = 1, 2  # internal, hidden

# Of 32 and 64 bits: the header behind its identification, a section header, a symbol; and the
# places of a symbol's name, info, other and section.
_LAYOUTS = {
    1: ("HHIIIIIHHHHHH", "IIIIIIIIII", "IIIBBH", (0, 3, 4, 5)),
    2: ("HHIQQQIHHHHHH", "IIQQQQIIQQ", "IBBHQQ", (0, 1, 2, 3)),
}


class _Seen:
    """What the objects define: functions, in their order, and whether there were hidden ones."""

    def __init__(self):
        self.functions = []
        self.hidden = False


def main(words):
    seen = _Seen()
    command = words[0].partition("=")[2]
    line = [command, "exports"]
    for word in words[1:]:
        option, _, path = word.partition("=")
        if option != "from-objects":
            line.append(f"--{word}")
            continue
        before = len(seen.functions)
        try:
            _read_file(path, seen)
        except OSError as error:
            raise Failure(f"'{path}' cannot be read: {error.strerror}") from None
        except Failure as error:
            raise Failure(f"'{path}' {error}") from None
        line += [f"--found={name}" for name in dict.fromkeys(seen.functions[before:])]
    if not seen.functions:
        complain(_WHO, _nothing(seen))
        return FINDINGS
    try:
        os.execv(command, line)
    except OSError as error:
        raise Failure(f"cannot run '{command}': {error.strerror}") from None


def _nothing(seen):
    if seen.hidden:
        return (
            "the objects define a PyInit_ or PyModExport_ function with hidden visibility, which "
            "cannot be exported; declare it PyMODINIT_FUNC or PyMODEXPORT_FUNC"
        )
    return (
        "none of the objects defines a PyInit_ or PyModExport_ function; give the objects of the "
        "module's own sources, or --module NAME"
    )


# ---- files and members -----------------------------------------------------------------------


def _start(file):
    return file.read(0, min(file.size, len(_ARCHIVE)))


def _read_file(path, seen):
    try:
        # Otherwise, a pipe without a writer would be waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise Failure(f"cannot be opened: {error.strerror}") from None
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise Failure("is a directory")
        if not stat.S_ISREG(status.st_mode):
            raise Failure("is not a regular file")
        file = Bytes(descriptor, 0, status.st_size)
        start = _start(file)
        # What is shorter than an identification may be any text.
        if start.startswith(_ELF) and file.size >= _IDENT:
            _read_elf(file, seen)
        elif start == _ARCHIVE:
            _read_archive(file, seen)
        else:
            raise Failure(_other(start))
    except Damaged:
        raise Failure("cannot be read: it has become shorter") from None
    finally:
        os.close(descriptor)


def _other(start):
    if not start:
        return "is empty"
    if start == _THIN:
        return (
            "is a thin archive, which only names its members; give the members, or make it "
            "without ar's T"
        )
    if start.startswith(_BITCODE):
        return "is LLVM bitcode, not an object file; compile it without -flto"
    return "is not an object file, an archive or a shared object"


def _read_archive(file, seen):
    """Archives contain other files too, such as a compiler's notes; bitcode is code."""
    found = others = False
    for member in _members(file):
        start = _start(member)
        if start.startswith(_ELF):
            _read_elf(member, seen)
            found = True
        elif start.startswith(_BITCODE):
            raise Failure(_other(start))
        others = True
    if others and not found:
        raise Failure("is an archive of other things than ELF objects")


def _members(file):
    """The contents of an archive's members, but its indices."""
    at = len(_ARCHIVE)
    try:
        while at < file.size:
            header = file.read(at, 60)
            size, at = _number(header[48:58]), at + 60
            if header[58:] != b"`\n" or size > file.size - at:
                raise Damaged
            name, member = header[:16].rstrip(b" "), file.part(at, size)
            at += size + size % 2
            if name.startswith(b"#1/"):  # BSD's long name, in front of the content
                length = _number(name[3:])
                name = b"//" if member.read(0, length).startswith(b"__.SYMDEF") else b""
                member = member.part(length, size - length)
            if name not in _INDICES:
                yield member
    except Damaged:
        raise Failure("is a damaged archive") from None


def _number(field):
    digits = field.rstrip(b" ")
    if not digits.isdigit():
        raise Damaged
    return int(digits)


# ---- ELF -------------------------------------------------------------------------------------


def _damaged(why):
    return Failure(f"is a damaged ELF file: {why}")


def _read_elf(file, seen):
    try:
        ident = file.read(0, _IDENT)
        wide, order, version = ident[4:7]
        if wide not in _LAYOUTS or order not in (1, 2) or version != 1:
            raise _damaged("the ELF header is damaged")
        *layouts, places = _LAYOUTS[wide]
        layouts = [struct.Struct("<>"[order - 1] + layout) for layout in layouts]
        header = layouts[0].unpack(file.read(_IDENT, layouts[0].size))
    except Damaged:
        raise _damaged("the file ends within the ELF header") from None
    if header[2] != 1:
        raise _damaged("the ELF header is damaged")
    if header[0] not in _SECTION_OF:
        raise Failure("is neither an object file nor a shared object")
    table, names = _tables(file, header, layouts[1:])
    if table is not None:
        _read_symbols(layouts[2].iter_unpack(table), names, places, seen)


def _tables(file, header, layouts):
    """The symbols and their names, as bytes; None where there are none. What the linker's kind of
    file has at most once is damaged if it is there twice."""
    section, symbol = layouts
    start, entry, count = header[5], header[10], header[11]
    if start == 0:
        return None, None
    if entry != section.size:
        raise _damaged("the section headers have a wrong size")
    try:
        if count == 0:  # too large for the field
            count = section.unpack(file.read(start, entry))[5] or file.size
        if count * entry > _TABLE_MAX:
            raise Damaged
        sections = file.read(start, count * entry)
    except Damaged:
        raise _damaged("the section headers lie outside the file") from None
    wanted = _SECTION_OF[header[0]]
    found = [each for each in section.iter_unpack(sections) if each[1] == wanted]
    if not found:
        return None, None
    if len(found) > 1:
        raise _damaged("there are two symbol tables")
    link, size = found[0][6], found[0][9]
    if size != symbol.size:
        raise _damaged("the symbols have a wrong size")
    names = section.unpack_from(sections, link * entry) if 0 < link < count else None
    if names is None or names[1] != _STRTAB:
        raise _damaged("the symbols have no names")
    strings, table = (_table(file, *each[4:6]) for each in (names, found[0]))
    return table[: len(table) // size * size], strings


def _table(file, at, size):
    if size > _TABLE_MAX:
        raise Failure("cannot be read: a table is larger than 1 GiB")
    try:
        return file.read(at, size)
    except Damaged:
        raise _damaged("a table lies outside the file") from None


def _read_symbols(symbols, names, places, seen):
    functions = {match.start() for match in _FUNCTION.finditer(names)}
    slim = {match.start() for match in re.finditer(_SLIM + rb"(?=\0|\Z)", names)}
    if not functions and not slim:
        return
    next(symbols, None)  # a placeholder
    at_name, at_info, at_other, at_section = places
    for symbol in symbols:
        name = symbol[at_name]
        if name >= len(names):
            raise _damaged("a symbol's name lies outside the names")
        if name in slim:
            raise Failure(
                "holds only link-time-optimization code, not its symbols; compile it with "
                "-ffat-lto-objects"
            )
        info = symbol[at_info]
        defined = symbol[at_section] and info & 15 in _TYPES and info >> 4 in _BINDINGS
        if defined and name in functions:
            function = _name(names, name)
            if symbol[at_other] & 3 in _HIDDEN:
                seen.hidden = True
            else:
                seen.functions.append(function)


def _name(names, at):
    """Goes into a script for the linker, so that only what is a symbol may pass."""
    name = names[at : at + _SYMBOL_MAX + 1].split(b"\0", 1)[0]
    try:
        text = name.decode()
    except UnicodeDecodeError:
        text = ""
    if len(name) > _SYMBOL_MAX or not _SYMBOL.fullmatch(text):
        raise Failure("defines a function of a module whose name no version script can hold")
    return text
