"""dlopen() on the smallest stack that a thread may have.

What works alone must work with libhomefree, and of the stack homefree may take little more than the
dynamic linker: it searches, routes, and looks into objects with an allocator inside.

usage: test_small_stack.py PROGRAM LIBHOMEFREE FILE...
"""

import os
import subprocess
import sys

program, homefree, *files = sys.argv[1:]

SMALLEST = 16384  # PTHREAD_STACK_MIN
MORE = 3072
# The program's RUNPATH is searched for a bare name.
names = ["found.so", "$ORIGIN/found.so", *files]


def depths(preload, opened):
    environment = {**os.environ, "LD_PRELOAD": preload}
    result = subprocess.run(
        [program, str(SMALLEST), *opened], capture_output=True, text=True, env=environment
    )
    assert result.returncode == 0, (result.returncode, result.stdout, result.stderr)
    lines = [line.partition("\t") for line in result.stdout.splitlines()]
    assert [name for _, _, name in lines] == opened, result.stdout
    return {name: int(depth.split()[0]) for depth, _, name in lines}


alone = depths("", names)
together = depths(homefree, names)
late = depths("", [homefree, *names])
for name, depth in alone.items():
    print(
        f"{os.path.basename(name)}: {depth} bytes alone, {together[name]} preloaded, {late[name]}"
    )
    assert together[name] <= depth + MORE, name
    assert late[name] <= depth + MORE, name
print(f"libhomefree itself: {late[homefree]} bytes")
assert late[homefree] <= alone[names[0]] + MORE
