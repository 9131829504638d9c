"""Programs that grow in a free-threaded CPython, and with install() in any: what libc keeps free
goes back, so that a process has little more than what lives (tests/bench/python/growing.py).
"""

import os
import subprocess
import sys
from pathlib import Path

import support

BENCH = Path(support.__file__).resolve().parents[1] / "bench/python"
MIB = 200
PROGRAM = """
import sys
sys.path.insert(0, {bench!r})
import ctypes, growing, time
{begin}
kept, live = growing.stranded({mib} << 20)
until = time.monotonic() + 20
while True:
    settled = growing.status("VmRSS")
    if settled < {mib} * 1.2 + 40 or time.monotonic() > until:
        break
    {meanwhile}
assert {mib} * 0.8 < live >> 20 < settled < {mib} * 1.2 + 40, (live >> 20, settled)
"""

# A library that allocates.
USE = """
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
def use():
    for block in [libc.malloc(70000) for _ in range(50)]:
        libc.free(block)
"""


class Growth(support.TestCase):
    def program(self, begin, meanwhile):
        return PROGRAM.format(bench=str(BENCH), begin=begin, mib=MIB, meanwhile=meanwhile)

    def settles(self, how, meanwhile):
        self.fine(self.program(f"import homefree; homefree.install({how})", meanwhile))

    @support.without_gil
    def test_by_install_alone(self):
        """Objects above 512 bytes come from the heap, whose growth is noticed."""
        self.settles("", "pass")

    def test_by_the_thread(self):
        """It sees whatever takes memory; nothing is needed of the program."""
        self.settles("background=True", "time.sleep(0.05)")

    def test_in_a_process_on_the_heap(self):
        """Nothing is stranded: what is freed goes back, as long as the heap is used."""
        words = [sys.executable, "-m", "homefree", "run", "--", sys.executable, "-c"]
        program = self.program(USE, "use()")
        done = subprocess.run([*words, program], env=os.environ, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    support.main()
