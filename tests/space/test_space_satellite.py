"""The satellite libhomefree-cuda.so is opened when it is first needed, and only then; without it,
spaces say so, and everything else works.

Usage: test_space_satellite.py --homefree FILE --double DIRECTORY [--satellite NAME]
                               [unittest arguments]

Each case runs in a Python of its own, on the double of CUDA. Without --satellite (-Dcuda=disabled),
what needs it is left out.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--homefree", required=True, type=Path)
parser.add_argument("--double", required=True, type=Path)
parser.add_argument("--satellite")

BEGIN = """
import ctypes
import sys

hf = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
cudart = ctypes.CDLL(sys.argv[2] + "/libcudart.so.13", ctypes.RTLD_GLOBAL)
hf.hf_malloc.restype = ctypes.c_void_p
at = ctypes.c_void_p()
PINNED, DEVICE = 1, 2

class Stats(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("numbers", ctypes.c_uint64 * 16)]

def alloc(kind):
    size, alignment = ctypes.c_size_t(100), ctypes.c_size_t(0)
    return hf.hf_space_alloc(ctypes.byref(at), kind, 0, size, alignment, None)

def reason():
    text = ctypes.create_string_buffer(1024)
    assert hf.hf_space_reason(DEVICE, 0, text, ctypes.c_size_t(len(text))) == 0
    return text.value.decode()

def opened():
    with open("/proc/self/maps") as maps:
        return "libhomefree-cuda.so" in maps.read()

def stats():
    got = Stats(ctypes.sizeof(Stats))
    any_stream = ctypes.c_void_p(-2)
    assert hf.hf_space_stats(PINNED, 0, any_stream, ctypes.byref(got)) == 0
    return list(got.numbers)
"""


class Satellite(unittest.TestCase):
    def run_on(self, homefree, text):
        command = [sys.executable, "-c", BEGIN + textwrap.dedent(text), homefree, options.double]
        environment = {"LD_LIBRARY_PATH": str(options.double)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stderr)
        return done.stdout

    def need_satellite(self):
        if options.satellite is None:
            self.skipTest("this build has no such satellite")

    def test_it_is_opened_for_a_space(self):
        self.need_satellite()
        self.run_on(
            options.homefree,
            """
            hf.hf_space_free(ctypes.c_void_p(hf.hf_malloc(ctypes.c_size_t(100))), None)
            assert reason() == "" and not any(stats()) and not opened()
            assert alloc(PINNED) == 0 and opened()
            assert hf.hf_space_free(at, None) == 0
            """,
        )

    def test_it_is_opened_when_cuda_gives_others_memory(self):
        self.need_satellite()
        self.run_on(
            options.homefree,
            """
            free = cudart.cudaFree
            assert not opened()
            assert cudart.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(1 << 60)) != 0
            assert not opened()
            assert cudart.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(100)) == 0 and opened()
            hf.hf_free(at)
            assert free(at) != 0  # it went home
            """,
        )

    def test_without_it_spaces_say_so(self):
        with tempfile.TemporaryDirectory() as directory:
            alone = shutil.copy(options.homefree, Path(directory) / "libhomefree.so.1")
            told = self.run_on(
                alone,
                """
                assert alloc(PINNED) == alloc(DEVICE) == -19 and alloc(7) == -22
                assert hf.hf_space_limit(DEVICE, 0, ctypes.c_uint64(1)) == -19
                assert not any(stats()) and not opened()
                block = ctypes.c_void_p(hf.hf_malloc(ctypes.c_size_t(100)))
                assert hf.hf_space_free(block, None) == 0
                assert cudart.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(100)) == 0
                assert cudart.cudaFree(at) == 0
                assert cudart.cudaHostRegister(block, ctypes.c_size_t(1), 0) == 0
                assert cudart.cudaHostUnregister(block) == 0
                print(reason())
                """,
            )
            self.assertIn(str(Path(directory) / "libhomefree-cuda.so"), told)
            self.assertIn("-Dcuda=disabled", told)


if __name__ == "__main__":
    options, arguments = parser.parse_known_args()
    options.homefree = options.homefree.resolve()
    unittest.main(argv=[sys.argv[0], *arguments])
