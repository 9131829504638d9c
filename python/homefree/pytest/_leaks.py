# SPDX-License-Identifier: BSD-2-Clause
"""Blocks that a test loses: allocated while its body runs, never freed, and nothing points to them.

The rule is hf_findings_lost()'s (homefree/diagnose.h): the memory of the whole process is read, and
a block is lost if no word of it points there. So what a cache keeps, the interpreter's or a
module's, is never reported, in the first run of a test as little as in the second.
"""

import gc

import pytest

from .. import _homefree

ROOM = 1 << 17  # different addresses that a test may allocate and free


def wants(item, default):
    """Whether to look for what this test loses: its nearest mark decides, then the options."""
    for mark in item.iter_markers("homefree"):
        if "leaks" in mark.kwargs:
            return mark.kwargs["leaks"]
    return default


class Leaks:
    """A plugin. `unknown`: why it could not be told whether the test lost something, or None."""

    def __init__(self, config):
        self.default = config.option.homefree_leaks or config.getini("homefree_leaks")
        self.unknown = None

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item):
        self.unknown = None
        if not wants(item, self.default):
            yield
            return
        try:
            watch = _homefree.watch_begin(ROOM)
        except (RuntimeError, MemoryError) as error:
            self.unknown = str(error) or "there is no memory for a watch"
            yield
            return
        try:
            yield
            gc.collect()
        finally:
            _homefree.watch_end(watch)
        try:
            _homefree.watch_lost(watch)
            if _homefree.watch_report(watch)[5]:
                self.unknown = f"it allocated at more than {ROOM} addresses"
        except (RuntimeError, MemoryError) as error:
            self.unknown = str(error) or "there is no memory for a watch"
