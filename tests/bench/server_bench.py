#!/usr/bin/env python3
"""Measures examples/server beside threads, processes and CPython's own interpreters.

    server_bench.py [--rounds N] [--seconds S] [--also PYTHON]… [--write]

PYTHONPATH must lead to the package. Run it by a CPython from 3.12 on that has numpy, uvicorn,
gunicorn, httptools and uvloop; --also names others, for CPython 3.14's InterpreterPoolExecutor and
for threads without a GIL (numpy, uvicorn, httptools and uvloop). The client is wrk, of Debian.

In each round the ways take turns, on one processor and on two, with as many workers as processors:
requests a second, latency, and the processor time of all processes of the server for a request,
which does not depend on what else the machine does. On one processor the client has the other; on
two it shares them. A ratio is the median of the rounds' ratios to gunicorn's processes. Memory is
the sum of the processes' proportional shares (PSS), measured once after 2000 requests, for weights
of 26 and 256 MB. --write puts the table into README.md.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parents[1] / "examples/server"
sys.path.insert(0, str(EXAMPLE))
README = HERE / "README.md"

UVICORN = "-m", "uvicorn", "--port", "0", "--no-access-log"
GUNICORN = "-m", "gunicorn", "-k", "uvicorn.workers.UvicornWorker", "-b", "127.0.0.1:0"
WAYS = {
    "a loop in each interpreter": ("loops.py", "--port", "0"),
    "`Executor` behind one loop": (*UVICORN, "app:app"),
    "threads behind one loop": (*UVICORN, "server_ways:threads"),
    "`InterpreterPoolExecutor` behind one loop": (*UVICORN, "server_ways:pool"),
    "gunicorn's processes": (*GUNICORN, "server_ways:process"),
    "the same with `--preload`": (*GUNICORN, "--preload", "server_ways:process"),
}
RIVAL = "gunicorn's processes"
# What a CPython of --also runs: with a GIL, without.
ALSO = (
    ("a loop in each interpreter", "`InterpreterPoolExecutor` behind one loop", RIVAL),
    ("`Executor` behind one loop", "threads behind one loop", RIVAL),
)
SMALL, LARGE = 100_000, 1_000_000  # words that the model knows, 256 bytes each
SCRIPT = """
wrk.method = "POST"
wrk.body = '{"words": [5, 1, 77, 4242, 1234, 99999, 31337, 2, 8, 500, 40000, 31, 17, 60000]}'
"""


def processes(pid):
    """A process and all below it."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def processor_time(pid):
    ticks = 0
    for one in processes(pid):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def memory(pid):
    """MB."""
    text = "".join(Path(f"/proc/{one}/smaps_rollup").read_text() for one in processes(pid))
    return sum(map(int, re.findall(r"^Pss:\s+(\d+)", text, re.M))) * 1024 / 1e6


class Running:
    def __init__(self, python, way, cpus, workers, words):
        from load import Server

        packages = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        path = [str(EXAMPLE), str(HERE), *map(os.path.abspath, filter(None, packages))]
        self.server = Server(
            "taskset", "-c", cpus, python, *WAYS[way],
            WORKERS=str(workers), GUNICORN_CMD_ARGS=f"-w {workers}", MODEL_WORDS=str(words),
            PYTHONPATH=os.pathsep.join(path),
        )  # fmt: skip
        self.pid = self.server.process.pid
        loops = 1 if WAYS[way][:2] == UVICORN[:2] else workers
        while self.server.log.count("Application startup complete") < loops:
            self.server.log += next(self.server.process.stdout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.end()

    def load(self, script, cpus, seconds, connections):
        """(requests a second, median and 99th percentile of the latency in ms, ms of processors a
        request)."""
        before = processor_time(self.pid)
        url = "http://{}:{}/".format(*self.server.place)
        command = ["taskset", "-c", cpus, "wrk", "-t1", f"-c{connections}", f"-d{seconds}s"]
        command += ["--latency", "--timeout", "10", "-s", script, url]
        done = subprocess.run(command, capture_output=True, text=True)
        said = done.stdout
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {said}{done.stderr}")
        used = processor_time(self.pid) - before
        if found := re.search(r"Non-2xx.*|Socket errors.*", said):
            raise RuntimeError(f"the server did not answer all: {found[0]}")
        units = {"us": 1e-3, "ms": 1, "s": 1e3, "m": 6e4}
        latency = [
            float(number) * units[unit]
            for number, unit in re.findall(r"^ +(?:50|99)% +([\d.]+)(\w+)$", said, re.M)
        ]
        count = int(re.search(r"(\d+) requests in", said)[1])
        rate = float(re.search(r"Requests/sec: +([\d.]+)", said)[1])
        return rate, *latency, used * 1000 / count


def version(python):
    code = "import sys; print(*sys.version_info[:3], sep='.'); print(sys.abiflags)"
    number, flags = subprocess.check_output([python, "-c", code], text=True).split("\n")[:2]
    return number + flags


def contestants(also):
    """[(python, its version, way)]"""
    own = version(sys.executable)
    ways = [way for way in WAYS if "Pool" not in way or own.startswith("3.14")]
    found = [(sys.executable, own, way) for way in ways]
    for python in also:
        text = version(python)
        found += [(python, text, way) for way in ALSO[text.endswith("t")]]
    return found


def measure(one, script, options):
    """{(processors): samples of a round}"""
    python, _, way = one
    found = {}
    for count, cpus, client in (1, "0", "1"), (2, "0,1", "0,1"):
        with Running(python, way, cpus, count, SMALL) as running:
            running.load(script, client, 1, options.connections)
            found[count] = running.load(script, client, options.seconds, options.connections)
    return found


def memories(one, script):
    python, _, way = one
    found = []
    for workers, words in (2, SMALL), (2, LARGE), (4, LARGE):
        with Running(python, way, "0,1", workers, words) as running:
            running.load(script, "0,1", 2, 16)
            found.append(memory(running.pid))
    return found


def rival_of(one, everyone):
    return next(other for other in everyone if other[0] == one[0] and other[2] == RIVAL)


def table(everyone, rounds, used):
    yield (
        "| CPython | way | requests/s, 1 processor | 2 | / gunicorn's, 1, 2 | ms p50, p99, 1 | 2 |"
        " µs of processors a request, 1, 2 | MB: 26 MB, 2 workers; 256 MB, 2; 4 | / gunicorn's |"
    )
    yield "|---" * 10 + "|"
    for one in everyone:
        rival = rival_of(one, everyone)

        def median(count, index, one=one):
            return statistics.median(samples[one][count][index] for samples in rounds)

        ratios = [
            statistics.median(s[one][count][0] / s[rival][count][0] for s in rounds)
            for count in (1, 2)
        ]
        cells = [one[1], one[2], *(f"{median(count, 0):.0f}" for count in (1, 2))]
        cells += [", ".join(f"{ratio:.2f}" for ratio in ratios)]
        cells += [f"{median(count, 1):.1f}, {median(count, 2):.1f}" for count in (1, 2)]
        cells += [", ".join(f"{median(count, 3) * 1000:.0f}" for count in (1, 2))]
        cells += ["; ".join(f"{value:.0f}" for value in used[one])]
        cells += ["; ".join(f"{a / b:.2f}" for a, b in zip(used[one], used[rival], strict=True))]
        yield "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--also", action="append", default=[], metavar="PYTHON")
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    options = parser.parse_args()
    os.chdir(EXAMPLE)
    everyone = contestants(options.also)
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(SCRIPT)
        script.flush()
        used = {one: memories(one, script.name) for one in everyone}
        rounds = [
            {one: measure(one, script.name, options) for one in everyone}
            for _ in range(options.rounds)
        ]
    text = "\n".join(table(everyone, rounds, used)) + "\n"
    print(text, end="")
    if options.write:
        page = README.read_text("utf-8")
        start = page.index("|", page.index("\n### A server\n"))
        end = page.index("\n\n", start) + 1
        README.write_text(page[:start] + text + page[end:], "utf-8")


if __name__ == "__main__":
    main()
