"""The module is compiled once, and memory crosses between it and libc in both directions."""

import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys

import words
from homefree import check

TEXT = "the words of a text"


def loaded(_):
    """Where a worker has the module from."""
    return words._words.__file__, words.sort(TEXT)


def test_words_are_sorted():
    assert words.sort(TEXT) == "a of text the words"
    assert words.sort("  two  spaces ") == "spaces two"
    assert words.sort("") == words.sort(" ") == ""


def test_spawned_workers_load_what_is_compiled_already():
    before = pathlib.Path(words._words.__file__).stat()
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        found = set(pool.map(loaded, range(16)))
    assert found == {(words._words.__file__, words.sort(TEXT))}
    assert pathlib.Path(words._words.__file__).stat().st_mtime_ns == before.st_mtime_ns


def test_a_warm_import_needs_no_compiler():
    directory = pathlib.Path(words.__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", "import words; print(words.sort('b a'))"],
        cwd=directory,
        env={**os.environ, "PATH": "/nowhere"},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("a b\n", "")


def test_a_changed_source_is_compiled(tmp_path):
    for name in ("words.py", "words.c"):
        shutil.copy(pathlib.Path(words.__file__).with_name(name), tmp_path)
    source = tmp_path / "words.c"
    source.write_text(source.read_text().replace("return strcmp", "return -strcmp"))
    code = "import words; print(words.sort('a b'))"
    assert subprocess.check_output([sys.executable, "-c", code], cwd=tmp_path) == b"b a\n"


def test_libc_grows_memory_of_the_module_and_the_module_frees_memory_of_libc():
    words.sort(TEXT)
    with check.watch() as seen:
        words.sort(TEXT)
    assert seen.crossed(allocated_by="_words", freed_by="libc") > 0
    assert seen.crossed(allocated_by="libc", freed_by="_words") > 0
