"""The sources and the wheel give the same module, whose memory crosses to libc and back."""

import os
import pathlib
import subprocess
import sys

import words
from homefree import check

SHOW = "import words; print(words.sort('b a')); print(words._words.__file__)"


def installed(**environment):
    """What a process says that has nothing of this directory."""
    done = subprocess.run(
        [sys.executable, "-c", SHOW],
        cwd="/",
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_the_sources_are_compiled():
    assert words.sort("b a") == "a b"
    assert pathlib.Path(words.__file__).parent not in pathlib.Path(words._words.__file__).parents


def test_the_wheel_has_the_module_and_needs_no_compiler(tmp_path):
    answer, path = installed(CC="/nowhere/cc", PATH="/nowhere", HOMEFREE_BUILD_DIR=str(tmp_path))
    assert answer == "a b"
    assert pathlib.Path(path).parent.name == "words"
    assert not pathlib.Path(path).with_name("words.c").exists()
    assert list(tmp_path.iterdir()) == []


def test_libc_grows_memory_of_the_module_and_the_module_frees_memory_of_libc():
    words.sort("b a")
    with check.watch() as seen:
        words.sort("b a")
    assert seen.crossed(allocated_by="_words", freed_by="libc") > 0
    assert seen.crossed(allocated_by="libc", freed_by="_words") > 0
