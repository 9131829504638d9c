"""A memory cgroup of its own for a test, of version 1 or 2, where this machine lets one be made."""

import contextlib
import os
import pathlib
import subprocess
import time
import unittest

TREE = pathlib.Path("/sys/fs/cgroup")
# Runs what follows inside.
ENTER = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"']


class Cgroup:
    def __init__(self, directory, first):
        self.directory = directory
        self.limit_file = "memory.limit_in_bytes" if first else "memory.max"

    def limit(self, size):
        (self.directory / self.limit_file).write_text(str(size))

    def run(self, command, **how):
        return subprocess.run(
            [*ENTER[:2], ENTER[2], str(self.directory), *map(str, command)],
            check=False,
            text=True,
            capture_output=True,
            timeout=120,
            **how,
        )


def _place():
    """The tree's root, and whether it is of version 1. None: memory is not controlled here."""
    if (TREE / "memory/memory.limit_in_bytes").exists():
        return TREE / "memory", True
    controllers = TREE / "cgroup.controllers"
    if controllers.exists() and "memory" in controllers.read_text().split():
        with contextlib.suppress(OSError):
            (TREE / "cgroup.subtree_control").write_text("+memory")
        return TREE, False
    return None


@contextlib.contextmanager
def cgroup(size):
    """A Cgroup with that limit in bytes, and without swap where that can be said. SkipTest if none
    can be made."""
    place = _place()
    if place is None:
        raise unittest.SkipTest("no cgroup controls memory on this machine")
    directory = place[0] / f"homefree-test-{os.getpid()}"
    try:
        directory.mkdir()
    except OSError as error:
        raise unittest.SkipTest(f"no cgroup can be made: {error}") from None
    made = Cgroup(directory, place[1])
    try:
        try:
            made.limit(size)
        except OSError as error:
            raise unittest.SkipTest(f"a cgroup here takes no limit: {error}") from None
        with contextlib.suppress(OSError):
            if place[1]:
                (directory / "memory.memsw.limit_in_bytes").write_text(str(size))
            else:
                (directory / "memory.swap.max").write_text("0")
        yield made
    finally:
        for _ in range(100):  # the kernel may still take what ended from it
            try:
                directory.rmdir()
                break
            except OSError:
                time.sleep(0.05)
