"""A process that is audited or profiled by the dynamic linker works as it does without homefree.

Then a call through an unresolved slot does not resolve it (_dl_runtime_profile).

usage: test_audited.py PROGRAM LIBHOMEFREE PRELOAD DIAGNOSE AUDITOR MODULE
"""

import glob
import os
import subprocess
import sys
import tempfile
import unittest

program, late, preload, diagnose, auditor, module = map(os.path.abspath, sys.argv[1:7])


class Audited(unittest.TestCase):
    def check(self, **environment):
        for way, (library, loaded) in {
            "alone": (None, []),
            "late": (None, [late]),
            "late, a module": (None, [late, module]),
            "preloaded": (preload, [module]),
            "diagnosed": (diagnose, [module]),
        }.items():
            with self.subTest(way=way), tempfile.TemporaryDirectory() as directory:
                variables = {
                    **os.environ,
                    "LD_PROFILE_OUTPUT": directory,
                    "SOTRUSS_OUTNAME": f"{directory}/calls",
                    "HOMEFREE_DIAGNOSE": f"mode:strict,quiet:1,directory:{directory}",
                    **environment,
                }
                if library:
                    variables["LD_PRELOAD"] = library
                result = subprocess.run(
                    [program, *loaded], env=variables, capture_output=True, text=True, timeout=120
                )
                self.assertEqual(
                    (result.returncode, result.stdout, result.stderr), (0, "done\n", "")
                )

    def test_audited(self):
        self.check(LD_AUDIT=auditor)

    def test_sotruss(self):
        found = glob.glob("/usr/lib/*/audit/sotruss-lib.so")
        if not found:
            self.skipTest("glibc's sotruss is not installed")
        self.check(LD_AUDIT=found[0])

    def test_profiled(self):
        self.check(LD_PROFILE="libc.so.6")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
