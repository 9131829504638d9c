"""Programs that have an allocator linked in and embed CPython (host.c): `import homefree` killed
them. Skipped where there is no libpython.

usage: test_hosts.py HOST…
"""

import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
arguments, sys.argv = sys.argv[1:], sys.argv[:1] + sys.argv[-1:]
import support  # noqa: E402
from test_embedding import libpython  # noqa: E402

PROGRAMS = arguments

WORK = """
import ctypes, json, os, sys
import homefree
{install}
libc = ctypes.CDLL(None)
libc.strdup.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
keep = [(str(i), {{i: [i] * (i % 99)}}) for i in range(20000)]
json.loads(json.dumps({{'a': list(range(1000))}}))
for i in range(1000):
    libc.free(libc.strdup(b"x" * i))
    os.listdir("/")
del keep
for entry in homefree.route_report().entries:
    assert "cannot be sent home" not in (entry.reason or ""), entry
"""


@unittest.skipIf(libpython() is None, "no shared libpython")
class Hosts(support.TestCase):
    def test_import_and_install(self):
        for program in PROGRAMS:
            for install in ("", "homefree.install()", "homefree.install(python='full')"):
                with self.subTest(program=program, install=install):
                    done = subprocess.run(
                        [program, libpython(), WORK.format(install=install)],
                        env={**os.environ, "PYTHONHOME": sys.base_prefix},
                        capture_output=True,
                        text=True,
                        timeout=120,
                        check=False,
                    )
                    self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "fine\n", ""))


if __name__ == "__main__":
    sys.exit(support.main())
