#!/usr/bin/env python3
"""Measures how much of the resident memory of real programs gets an owner.

    attributed.py [--rows N] [--also PYTHON] [--json]      PYTHONPATH must lead to the package

Run it by a CPython that has pandas, polars, pyarrow, gunicorn and ipykernel, and torch unless
--also names one that has it, such as Debian's; what neither has is left out. Each program works and
then waits while it is looked at: from outside, by `homefree memory --pid`, in a process without
homefree; and from outside and inside, by homefree.memory(), in one with install().
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import homefree
from homefree._command import find

DATA = """
import numpy
random = numpy.random.default_rng(1)
columns = {"key": random.integers(0, 1000, ROWS), "value": random.random(ROWS)}
"""
PROGRAMS = {
    "pandas": DATA
    + """
import pandas
frame = pandas.DataFrame(columns)
frame["name"] = [str(key) for key in columns["key"]]
sums = frame.groupby("key").value.sum()
kept = frame.sort_values("value"), frame.merge(sums.reset_index(), on="key")
""",
    "polars": DATA
    + """
import polars
frame = polars.DataFrame(columns)
means = frame.group_by("key").agg(polars.col("value").mean())
kept = frame.sort("value"), frame.join(means, on="key")
""",
    "pyarrow": DATA
    + """
import pyarrow
table = pyarrow.table(columns)
kept = table.group_by("key").aggregate([("value", "sum")]), table.sort_by("value")
""",
    "torch": """
import torch
layers = [torch.nn.Linear(1000, 1000) for _ in range(10)]
model = torch.nn.Sequential(*layers)
model(torch.rand(ROWS // 1000, 1000)).sum().backward()
""",
}
INSIDE = """
import homefree
document = homefree.memory()
print(document["attributed"], flush=True)
"""


def look(pid):
    done = subprocess.run(
        [find(), "memory", "--json", "--pid", str(pid)], stdout=subprocess.PIPE, check=True
    )
    document = json.loads(done.stdout)
    return document["resident"] / (1 << 20), document["attributed"]


def end(process):
    """A program that has children of its own ends with them."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def start(python, *words, **more):
    package = os.path.dirname(os.path.dirname(homefree.__file__))
    environment = {**os.environ, "PYTHONPATH": os.path.abspath(package)}
    return subprocess.Popen(
        [python, *words], start_new_session=True, text=True, env=environment, **more
    )


def measure(python, source, rows, way):
    """Result: (MiB, attributed outside, attributed inside or None); None if it cannot be run."""
    begin = "import homefree; homefree.install()\n" if way == "install" else ""
    inside = INSIDE if way == "install" else "print(flush=True)"
    source = f"{begin}ROWS = {rows}\n{source}\n{inside}\ninput()"
    process = start(
        python,
        "-c",
        source,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        line = process.stdout.readline()
        if not line:
            return None
        return (*look(process.pid), float(line) if way == "install" else None)
    finally:
        end(process)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def wait_for(answer, seconds=30):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = answer()
        if found:
            return found
        time.sleep(0.1)
    return None


def measure_gunicorn(python, way):
    """A worker of a server that was asked once."""
    begin = "import homefree; homefree.install()\n" if way == "install" else ""
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "app.py"), "w", encoding="utf-8") as file:
            file.write(
                f"{begin}import json\ntable = {{str(n): [n] * 10 for n in range(100000)}}\n"
                "def app(environ, answer):\n"
                "    answer('200 OK', [])\n"
                "    return [json.dumps(table).encode()]\n"
            )
        place = os.path.join(directory, "socket")
        words = "-m", "gunicorn", "--bind", f"unix:{place}", "app:app"
        quiet = subprocess.DEVNULL
        process = start(python, *words, cwd=directory, stdout=quiet, stderr=quiet)
        try:
            if not wait_for(lambda: os.path.exists(place) or process.poll() is not None):
                return None
            worker = wait_for(lambda: process.poll() is None and children(process.pid), 10)
            if not worker:
                return None
            ask(place)
            return (*look(worker[0]), None)
        finally:
            end(process)


def ask(place):
    import socket

    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.connect(place)
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        while client.recv(1 << 16):
            pass


def measure_kernel(python, way):
    """A notebook's kernel that has worked a cell."""
    begin = "import homefree; homefree.install()\n" if way == "install" else ""
    source = (
        begin
        + """
import sys
from jupyter_client import KernelManager
kernel = KernelManager()
kernel.start_kernel()
client = kernel.blocking_client()
client.start_channels()
client.wait_for_ready(timeout=60)
client.execute(CELL)
client.get_shell_msg(timeout=60)
print(kernel.provisioner.pid, flush=True)
input()
"""
    )
    source = f"CELL = {begin + 'table = [[n] * 10 for n in range(100000)]'!r}\n{source}"
    quiet = subprocess.DEVNULL
    process = start(
        python, "-c", source, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=quiet
    )
    pid = None
    try:
        pid = process.stdout.readline().strip()
        return (*look(int(pid)), None) if pid else None
    finally:
        if pid:
            os.kill(int(pid), signal.SIGKILL)
        end(process)


def measure_all(options):
    found = {}
    for name in (*PROGRAMS, "gunicorn worker", "notebook kernel"):
        if options.only and options.only not in name:
            continue
        for way in ("plain", "install"):
            row = None
            for python in filter(None, (sys.executable, options.also)):
                if name in PROGRAMS:
                    row = measure(python, PROGRAMS[name], options.rows, way)
                else:
                    rest = measure_gunicorn if name.startswith("gunicorn") else measure_kernel
                    row = rest(python, way)
                if row is not None:
                    break
            if row is not None:
                found.setdefault(name, {})[way] = row
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=4_000_000, help="of a table (%(default)s)")
    parser.add_argument("--also", metavar="PYTHON", help="tried for what this Python cannot import")
    parser.add_argument("--only", help="programs whose name has this in it")
    parser.add_argument("--json", action="store_true", help="a JSON document instead of the table")
    options = parser.parse_args()
    found = measure_all(options)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{'':18}{'MiB':>8}{'outside':>9}{'MiB':>9}{'outside':>9}{'inside':>9}")
    for name, ways in found.items():
        line = f"{name:18}"
        for way in ("plain", "install"):
            if way in ways:
                size, outside, inside = ways[way]
                line += f"{size:9.1f}{100 * outside:8.1f}%"
                line += f"{100 * inside:8.1f}%" if inside is not None else ""
        print(line)


if __name__ == "__main__":
    main()
