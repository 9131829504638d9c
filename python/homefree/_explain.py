# SPDX-License-Identifier: BSD-2-Clause
"""homefree.explain_crashes(): a crash of this process is explained on stderr.

State: libhomefree-explain.so's, which has the handlers. Threads: any.
"""

import os

from ._command import find
from ._directories import get_library_dir

_NAME = "libhomefree-explain.so"


def explain_crashes() -> None:
    """From now on, SIGSEGV, SIGBUS, SIGABRT and SIGILL are explained on stderr, as by
    `homefree doctor --core`: the stack, the pointer, whose it is, who freed it, what to do. Then
    the handler that was there follows, such as faulthandler's, or the core dump.

    Costs nothing before a crash, in which another process looks at this one; that takes a third of
    a second or so. Whoever sets a handler later has to call the one that was there, as
    faulthandler does. A second call changes nothing.

    Raises OSError if the library or the command is missing, and PermissionError in a privileged
    process. Threads: any; of the main thread, stack overflows are explained as well. Fork: children
    have it, too. Since 1.0.
    """
    import ctypes

    try:
        library = ctypes.CDLL(os.path.join(get_library_dir(), _NAME))
    except OSError as error:
        raise OSError(f"homefree: cannot load {_NAME} ({error}); install homefree again") from None
    error = -library.hf_explain_crashes(os.fsencode(find()))
    if error != 0:
        raise OSError(error, f"homefree: crashes cannot be explained: {os.strerror(error)}")
