"""`python -m homefree …` is the command `homefree …`: this process becomes it."""

import os
import signal
import sys

from ._command import find


def main():
    """Run the command in this process's place. Returns an exit status only if that fails."""
    # Python ignores these two, and what it ignores would stay ignored in the command.
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    # The Python that the command looks at when it is not told of another program.
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
