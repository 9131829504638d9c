"""How much memory a process had at most.

wait4(2) counts what the process had before exec, and that was a copy of its parent. So a small
process starts it, and says what it had.
"""

import os
import subprocess
import sys

STARTER = """
import os, sys
result = int(sys.argv[1])
os.set_inheritable(result, False)
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, used = os.wait4(child, 0)
os.write(result, b"%d %d" % (status, used.ru_maxrss))
"""


def run(command):
    """(exit status, stdout, stderr, bytes at most). The starter has ten megabytes itself."""
    reader, writer = os.pipe()
    with open(reader, "rb") as told:
        words = [sys.executable, "-I", "-S", "-c", STARTER, str(writer), *map(str, command)]
        done = subprocess.run(words, pass_fds=[writer], capture_output=True)
        os.close(writer)
        status, peak = map(int, told.read().split())
    return os.waitstatus_to_exitcode(status), done.stdout, done.stderr, peak << 10
