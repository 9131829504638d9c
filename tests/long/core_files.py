#!/usr/bin/env python3
"""Every core file of tests/loader/doctor/cores.py, from the kernel and from gdb, and with each
CPython, is explained rightly; and hostile ones end in an answer or an error, in a minute and 500
MB.

usage: core_files.py BUILD SECONDS [SEED]
"""

import json
import random
import struct
import sys
import tempfile
import time
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "loader/doctor")]
import cores  # noqa: E402
import peak  # noqa: E402
from interpreters import interpreters  # noqa: E402
from rows import row  # noqa: E402

MEMORY_MOST, SECONDS_MOST = 500 << 20, 60
BUILD = Path(sys.argv[1]).resolve()
END = time.monotonic() + float(sys.argv[2])
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 30)
HOMEFREE, LIBRARY = BUILD / "loader/command/homefree", BUILD / "loader/libhomefree.so.1"
failed = right = 0


def doctor(path):
    """(status, stdout, stderr, bytes of memory, seconds)."""
    begin = time.monotonic()
    done = peak.run([HOMEFREE, "doctor", "--json", "--core", path])
    return *done, time.monotonic() - begin


def explain(crashes, case, by_kernel, expected):
    """Returns the core file, or None."""
    global failed, right
    name = f"{case}, by {'the kernel' if by_kernel else 'gdb'}"
    try:
        path, pointer = crashes.core(case, by_kernel)
    except cores.Missing as why:
        print(f"skipped {name}: {why}")
        return None
    status, out, err, _, _ = doctor(path)
    try:
        assert status == 1, err
        cores.check(unittest.TestCase(), case, json.loads(out), pointer, expected)
    except (AssertionError, KeyError, TypeError) as error:
        failed += 1
        print(f"FAILED  {name}: {str(error)[-1500:]}")
    else:
        right += 1
        print(f"ok      {name}")
    return path


def mutated(data, chance):
    """A core file that lies: lengths, counts and offsets of headers and notes, what memory holds,
    and where it ends."""
    rows = struct.unpack_from("<H", data, 56)[0]
    notes, length = (struct.unpack_from("<Q", data, 64 + at)[0] for at in (8, 32))
    numbers = 0, 1, 7, 0xFF, 0xFFFF, 1 << 31, (1 << 32) - 1, 1 << 47, 1 << 62, (1 << 64) - 1
    changed, kind = bytearray(data), chance.randrange(4)
    for _ in range(chance.randint(1, 4)):
        value = chance.choice([*numbers, chance.getrandbits(64), chance.randrange(len(data))])
        at = (
            64 + chance.randrange(7 * rows) * 8,
            notes + chance.randrange(length // 4) * 4,
            chance.randrange(len(data) // 8) * 8,
            notes + chance.randrange(100) * 4,
        )[kind]
        struct.pack_into("<Q", changed, min(at, len(data) - 8), value)
    if kind == 3 and chance.random() < 0.3:
        del changed[chance.randrange(len(changed)) :]
    return changed


def attack(paths, directory):
    """Until the time is over."""
    global failed
    whole, chance = [path.read_bytes() for path in paths], random.Random(SEED)
    most = slowest = number = 0
    statuses = {}
    while time.monotonic() < END or number < 10:
        broken = directory / f"hostile-{number}"
        broken.write_bytes(mutated(chance.choice(whole), chance))
        status, out, err, memory, seconds = doctor(broken)
        statuses[status] = statuses.get(status, 0) + 1
        most, slowest = max(most, memory), max(slowest, seconds)
        if (
            (status == 1 and (err or not out))
            or (status == 3 and err.count(b"\n") != 1)
            or status not in (1, 3)
            or memory > MEMORY_MOST
            or seconds > SECONDS_MOST
        ):
            failed += 1
            print(
                f"FAILED  hostile {number} of seed {SEED}: {err.decode('utf-8', 'replace')[-1500:]}"
            )
        broken.unlink()
        number += 1
    return number, f"{statuses.get(1, 0)} explained, {most >> 20} MB, {slowest:.1f} s at most"


def main():
    with tempfile.TemporaryDirectory(prefix="homefree-cores-") as name:
        directory, hostile = Path(name), []
        for number, (python, version) in enumerate(interpreters()):
            place = directory / str(number)
            place.mkdir()
            crashes = cores.Crashes(place, LIBRARY, python)
            print(f"# CPython {version}")
            expected = cores.WITHOUT_GIL if version.endswith("t") else cores.EXPECTED
            for case in expected:
                if number and not case.startswith("python-"):
                    continue
                for by_kernel in (True, False)[not crashes.by_kernel :]:
                    path = explain(crashes, case, by_kernel, expected)
                    if path is not None and number == 0:
                        hostile.append(path)
        row("core files of real crashes", f"{right} explained", "failed" if failed else "passed")
        if hostile:
            before = failed
            count, figures = attack(hostile, directory)
            outcome = "failed" if failed > before else "passed"
            row("hostile core files", f"{count}: {figures}", outcome)
            print(f"{count} hostile core files of seed {SEED}: {figures}")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
