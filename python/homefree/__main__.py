# SPDX-License-Identifier: BSD-2-Clause
"""`python -m homefree …` runs the command `homefree …` in place of this process."""

import os
import signal
import sys

from ._command import find


def main() -> int:
    """Replace this process by the command. Returns an exit status only if that fails."""
    # Python ignores these two signals, and the command would inherit that.
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    # The Python that `homefree doctor` inspects unless it is given another program.
    os.environ["HOMEFREE_PYTHON"] = sys.executable or ""
    try:
        path = find()
        os.execv(path, ["homefree", *sys.argv[1:]])
    except OSError as error:
        line = str(error) if isinstance(error, FileNotFoundError) and not error.errno else None
        print(line or f"homefree: cannot run the command: {error}", file=sys.stderr)
    return 3


if __name__ == "__main__":
    sys.exit(main())
