"""peak.py counts a process's own memory, and not that of whoever starts it."""

import sys
import unittest

import peak

MIB = 1 << 20


class Peak(unittest.TestCase):
    def of(self, code):
        status, out, err, most = peak.run([sys.executable, "-c", code])
        self.assertEqual((status, out, err), (3, b"out", b"err"))
        return most

    def test_what_the_parent_has_does_not_count(self):
        mine = bytearray(300 * MIB)
        code = "import sys; print('out', end=''); sys.stderr.write('err'); sys.exit(3)"
        self.assertLess(self.of(code), 100 * MIB)
        self.assertGreater(self.of("more = bytearray(200 << 20); " + code), 200 * MIB)
        del mine

    def test_a_process_that_is_killed(self):
        self.assertEqual(peak.run(["sh", "-c", "kill -9 $$"])[0], -9)


if __name__ == "__main__":
    unittest.main()
