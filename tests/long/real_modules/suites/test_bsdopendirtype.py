"""The demo lists directories as the system does, and what it allocates goes away with its owner."""

import gc
import os
import stat

import _bsdopendirtype
import bsdopendirtype
import pytest

ffi, lib = _bsdopendirtype.ffi, _bsdopendirtype.lib


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "file").write_text("text")
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to("file")
    return os.fsencode(tmp_path)


def test_names_and_kinds(directory):
    found = {os.path.basename(name): mode for name, mode in bsdopendirtype.opendir(directory)}
    assert set(found) == {b"file", b"directory", b"link"}
    assert stat.S_ISREG(found[b"file"])
    assert stat.S_ISDIR(found[b"directory"])
    assert stat.S_ISLNK(found[b"link"])


def test_a_missing_directory_is_an_error(directory):
    with pytest.raises(OSError):
        list(bsdopendirtype.opendir(directory + b"/missing"))


def test_a_listing_that_is_given_up_is_closed(directory):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        next(bsdopendirtype.opendir(directory))
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_many_listings_at_once(directory):
    listings = [bsdopendirtype.opendir(directory) for _ in range(50)]
    assert len([entry for row in zip(*listings) for entry in row]) == 150


def test_memory_of_ffi(directory):
    for size in (1, 100, 10_000, 1_000_000):
        memory = ffi.new("char[]", size)
        assert ffi.buffer(memory)[:] == bytes(size)
    handle = lib.opendir(directory)
    kept = ffi.gc(handle, lib.closedir)
    assert lib.readdir(kept) != ffi.NULL
    ffi.release(kept)
