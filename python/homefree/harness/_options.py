# SPDX-License-Identifier: BSD-2-Clause
"""The options, which the command has read and checked (loader/command/test/test_command.c). It
hands them over as words NAME=VALUE: those that were given, `module`, and a `command` for each word
of the command."""

import os
import types

from ..command import start


def read(words):
    given = start.options(words)

    def one(name, default=None):
        return given.get(name, [default])[0]

    options = types.SimpleNamespace(
        jobs=int(one("jobs", len(os.sched_getaffinity(0)))),
        timeout=float(one("timeout", 10)),
        limit=int(one("limit", 100)),
        learn=float(one("learn", 30)),
        beside=given.get("beside", []),
        command=given.get("command", []),
    )
    for name in ("json", "list", "pointers", "interpreters", "all"):
        setattr(options, name, name in given)
    for name in ("module", "script", "junit", "html", "only"):
        setattr(options, name, one(name))
    return options
