# SPDX-License-Identifier: BSD-2-Clause
"""Started by Python in every process of a program that `homefree test` records: its directory is
the first of PYTHONPATH then. Starts the recorder, and then the sitecustomize that this one
hides."""

import contextlib
import os
import sys


def _start():
    import types

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [one for one in sys.path if os.path.abspath(one) != here]
    package = types.ModuleType("homefree_harness")
    package.__path__ = [os.path.dirname(here)]
    sys.modules["homefree_harness"] = package
    from homefree_harness import _recorder

    _recorder.start()


try:
    _start()
except Exception as error:  # the program must run all the same
    sys.stderr.write(f"homefree test: cannot record in process {os.getpid()}: {error!r}\n")

_this = sys.modules.pop("sitecustomize", None)
with contextlib.suppress(ImportError):
    import sitecustomize  # noqa: F401
sys.modules.setdefault("sitecustomize", _this)
