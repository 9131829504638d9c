# Compares hf_python_line(), in the library given, with what CPython says of the line of every
# instruction in many modules; then reads tables of random bytes.
import ctypes
import dis
import importlib.util
import random
import sys
import types

line_of = ctypes.CDLL(sys.argv[1]).hf_python_line
line_of.restype = ctypes.c_uint32
line_of.argtypes = (
    ctypes.c_uint, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_int64,
)  # fmt: skip
VERSION = sys.version_info[0] << 8 | sys.version_info[1]
MODULES = "argparse ast dataclasses datetime decimal email.message inspect typing tarfile turtle"


def codes(module):
    with open(importlib.util.find_spec(module).origin, encoding="utf-8") as file:
        waiting = [compile(file.read(), module, "exec")]
    while waiting:
        code = waiting.pop()
        yield code
        waiting += [const for const in code.co_consts if isinstance(const, types.CodeType)]


def expected(code):
    """{byte of an instruction: its line, or 0}."""
    lines = {}
    if VERSION >= 0x30A:
        for start, end, line in code.co_lines():
            for at in range(start, end, 2):
                lines[at] = line or 0
        return lines
    starts = dict(dis.findlinestarts(code))
    line = code.co_firstlineno
    for at in range(0, len(code.co_code), 2):
        lines[at] = line = starts.get(at, line)
    return lines


checked = 0
for module in MODULES.split():
    for code in codes(module):
        table = code.co_lnotab if VERSION == 0x309 else code.co_linetable
        wanted = expected(code)
        for at in [*wanted][:: 1 if len(wanted) < 200 else 7]:
            found = line_of(VERSION, table, len(table), code.co_firstlineno, at)
            assert found == wanted[at], (module, code, at, found, wanted[at])
            checked += 1
assert checked > 10000, checked
for _ in range(3000):
    table = random.randbytes(random.randrange(40))
    for version in 0x309, 0x30A, 0x30D:
        line_of(version, table, len(table), 1, random.choice([-2, 0, 30, 2**40]))
print("done")
