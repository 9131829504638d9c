"""dlopen() with homefree loads the file that the dynamic linker would load, or fails as it does.

homefree stands between the caller and dlopen(), and looks into the caller's RPATH or RUNPATH in its
place. So directories are filled at random with files that the linker loads, skips (another class or
machine, unreadable) or gives up at (damaged files, directories), also in hardware subdirectories,
and one program opens them twice: alone, and with libhomefree preloaded. What it says must be the
same.

usage: test_same_file.py PROGRAM LIBHOMEFREE FOUND RUNPATH RPATH LINKED
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile

program, homefree, found, runpath, rpath, linked = map(os.path.abspath, sys.argv[1:7])

NAME = "libwanted.so"
DIRECTORIES = ["one", "two", "three"]
SUBDIRECTORIES = [
    "",
    "glibc-hwcaps/x86-64-v2",
    "glibc-hwcaps/x86-64-v3",
    "glibc-hwcaps/x86-64-v4",
    "glibc-hwcaps/x86-64-v9",
    "tls",
    "tls/x86_64",
    "x86_64",
    "haswell",
]
with open(found, "rb") as file:
    GOOD = file.read()


def change(offset, value):
    return GOOD[:offset] + bytes([value]) + GOOD[offset + 1 :]


# What is in the place of a file; None: nothing.
KINDS = {
    "nothing": None,
    "good": GOOD,
    "another class": change(4, 1),
    "another machine": change(18, 243),
    "another byte order": change(5, 2),
    "another version": change(6, 7),
    "another system": change(7, 9),
    "another class, damaged": change(4, 7),
    "a program for another machine": change(18, 3)[:16] + b"\2\0" + change(18, 3)[18:],
    "garbage": b"no ELF file at all" * 100,
    "short": GOOD[:20],
    "empty": b"",
    "an object file": GOOD[:16] + b"\1\0" + GOOD[18:],
}


def put(random_, path, kind):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if kind == "directory":
        os.mkdir(path)
    elif kind == "loop":
        os.symlink(os.path.basename(path), path)
    elif kind == "link to nothing":
        os.symlink("nowhere", path)
    elif kind == "link":
        target = path + ".1"
        put(random_, target, random_.choice(["good", "another class"]))
        os.symlink(os.path.basename(target), path)
    elif KINDS[kind] is not None:
        with open(path, "wb") as file:
            file.write(KINDS[kind])
        if random_.random() < 0.1:
            os.chmod(path, 0)


def fill(random_, root):
    """One arrangement: mostly files that the linker skips, so that it searches far."""
    others = [kind for kind in KINDS if kind not in ("nothing", "good")]
    skipped = ["another class", "another machine", "link to nothing", "nothing"]
    kinds = [*others, "directory", "link", "good"]
    for directory in DIRECTORIES:
        for subdirectory in SUBDIRECTORIES:
            if random_.random() < 0.4:
                kind = random_.choice(skipped if random_.random() < 0.7 else kinds)
                put(random_, os.path.join(root, directory, subdirectory, NAME), kind)


def prepare(random_, root):
    fill(random_, root)
    opener = random_.choice([runpath, rpath, linked])
    place = os.path.join(root, os.path.basename(opener))
    shutil.copy(opener, place)
    if opener == linked:
        shutil.copy(os.path.join(os.path.dirname(linked), "opener.so"), root)
    names = [NAME, NAME, "$ORIGIN/one/" + NAME, "${ORIGIN}/two/glibc-hwcaps/../" + NAME]
    names += ["$ORIGIN/one/../$ORIGIN/" + NAME, "$ORIGINAL/" + NAME, "${ORIGIN/" + NAME]
    names += ["$ORIGIN", "$ORIGIN_/one/" + NAME, "one/" + NAME, "./$LIB/" + NAME, "$LIB"]
    return [f"{place}\t{name}" for name in names]


def same(line, one, other):
    """The error names the file as it was asked for, or its path."""
    if ("$" in line or "wrong ELF class" in one) and ": " in one:
        return one.partition(": ")[2] == other.partition(": ")[2]
    return one == other


def answers(lines, cwd, **environment):
    # Unprivileged if possible, because root can read every file.
    result = subprocess.run(
        [os.path.join(cwd, "opens")],
        input="".join(line + "\n" for line in lines),
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], **environment},
        cwd=cwd,
        timeout=120,
        user=65534 if os.geteuid() == 0 else None,
    )
    assert result.returncode == 0, (result.returncode, result.stderr)
    return result.stdout.splitlines()


def main():
    seed = int(os.environ.get("HOMEFREE_TEST_SEED", "20261121"))
    random_ = random.Random(seed)
    lines = []
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        shutil.copy(program, os.path.join(top, "opens"))
        shutil.copy(homefree, os.path.join(top, "libhomefree.so.1"))
        for i in range(60):
            lines += prepare(random_, os.path.join(top, str(i)))
        # The program's $ORIGIN, which its own dynamic section does not use.
        put(random_, os.path.join(top, "beside", NAME), "good")
        put(random_, os.path.join(top, "$ORIGINAL", NAME), "good")
        lines += [
            "-\t" + name
            for name in (
                "$ORIGIN/beside/" + NAME,
                "${ORIGIN}/beside/" + NAME,
                "beside/" + NAME,
                "./$ORIGINAL/" + NAME,
                "$ORIGIN/missing.so",
                "$ORIGIN",
                "${ORIGIN}",
                NAME,
                "$ORIGIN/",
            )
        ]
        library_path = os.path.join(top, "0", "one") + ":" + os.path.join(top, "beside")
        for environment in ({}, {"LD_LIBRARY_PATH": library_path}):
            alone = answers(lines, top, **environment)
            preload = os.path.join(top, "libhomefree.so.1")
            together = answers(lines, top, LD_PRELOAD=preload, **environment)
            assert len(alone) == len(lines)
            different = [
                f"{line}\n  alone:    {one}\n  homefree: {other}"
                for line, one, other in zip(lines, alone, together)
                if not same(line, one, other)
            ]
            assert not different, f"seed {seed}\n" + "\n".join(different)
            loaded = sum(": " not in one for one in alone)
            print(f"{len(lines)} names, {loaded} loaded")


if __name__ == "__main__":
    main()
