"""Runs commands for scripts: in an environment that leads nowhere else, and with an end.

Owns nothing. A command runs in a process group of its own, so that what it started ends with it.
"""

import os
import signal
import subprocess

# Beginnings of the names of variables that lead a command to another Python, library or homefree.
LEADING = ("PYTHON", "LD_", "HOMEFREE", "VIRTUAL_ENV", "PIP_USER")


def environment(without=LEADING, **more):
    """The environment without variables whose names begin so, and with others."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(without)}
    return {**kept, **{name: str(value) for name, value in more.items()}}


def run(*command, seconds=None, cwd=None, env=None, errors=subprocess.STDOUT):
    """Runs a command. Result: its exit status and what it wrote, and with `errors=subprocess.PIPE`
    also what it wrote to stderr. The status is None if it took longer than `seconds`; it and all
    that it started are dead then."""
    with subprocess.Popen(
        [str(word) for word in command],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        late = False
        try:
            written = process.communicate(timeout=seconds)
        except BaseException as reason:
            os.killpg(process.pid, signal.SIGKILL)
            written = process.communicate()
            late = isinstance(reason, subprocess.TimeoutExpired)
            if not late:
                raise
    status = None if late else process.returncode
    return (status, *written) if errors == subprocess.PIPE else (status, written[0])
