#!/usr/bin/env python3
"""Makes every system call fail that homefree causes, one at a time, and the library functions that
it calls, and prints what became of it.

usage: tests/long/failures/failures.py [--only NAME,…] [--calls NAME,…] [--every N] [--jobs N]
                                       [--details] [--seconds N] [BUILD]

Each program runs an operation three times between two marks (rounds.h). A first run under strace
shows the calls between the marks. Then the program runs once for each of them, and that one call
fails (strace's tampering, `man strace`). What must hold then:

- the program ends by itself: no crash, no hang, and a message of homefree's own at most where the
  heap cannot start or protected data cannot be protected again;
- nothing that was allocated or opened successfully is lost (the program checks it);
- a later round succeeds: a failure does not stay;
- no file descriptor and no mapping is left over.

With --seconds, what is not begun in that time is left out: the last line says how much.

Exit status: 0 all of it holds; 1 something does not; 77 strace cannot trace here.
"""

import argparse
import collections
import concurrent.futures
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/support"))
import commands  # noqa: E402
import rows  # noqa: E402

# What each call fails with: an error that the kernel gives for reasons nobody can foresee. Others
# get ENOMEM.
ERRORS = {
    "clone": "EAGAIN",
    "clone3": "EAGAIN",
    "copy_file_range": "ENOSPC",
    "fallocate": "ENOSPC",
    "fchmod": "EPERM",
    "fork": "EAGAIN",
    "ftruncate": "ENOSPC",
    "getcwd": "ENOENT",
    "getdents64": "EIO",
    "ioctl": "EIO",
    "lseek": "EIO",
    "memfd_create": "EMFILE",
    "mkdir": "ENOSPC",
    "open": "EMFILE",
    "openat": "EMFILE",
    "pipe2": "EMFILE",
    "pread64": "EIO",
    "process_vm_readv": "EPERM",
    "pwrite64": "ENOSPC",
    "read": "EIO",
    "readlink": "EACCES",
    "rename": "ENOSPC",
    "rt_sigaction": "EINVAL",
    "rt_sigprocmask": "EINVAL",
    "sendfile": "EIO",
    "socket": "EMFILE",
    "unlink": "EACCES",
    "write": "ENOSPC",
    "writev": "ENOSPC",
}
# Calls that cannot fail, whose failure nobody could handle, or that strace would have to undo: a
# close() that is made to fail leaves the descriptor open.
NOT_FAILED = {
    "arch_prctl",
    "brk",
    "close",
    "execve",
    "exit",
    "exit_group",
    "futex",
    "getegid",
    "geteuid",
    "getgid",
    "getpid",
    "getppid",
    "gettid",
    "getuid",
    "rseq",
    "rt_sigreturn",
    "sched_yield",
    "set_robust_list",
    "set_tid_address",
    "vfork",
    "wait4",
}
# Messages with which homefree may end a process: its heap cannot start, or what it wrote would stay
# writable.
FATAL = re.compile(
    r"homefree: fatal: (no memory to start the heap|"
    r"cannot make homefree's tables of functions writable to start|"
    r"cannot make (homefree's tables of functions|the (relocated data|symbol table) of \S+) "
    r"read-only)"
)
SECONDS = 30
OUTCOMES = ("went on", "error", "fatal", "BAD")


class Program:
    """A program and how to run it.

    marked: whether it has marks; otherwise the calls count that follow the first one that mentions
    `after`. functions: whether library functions fail too. guest: only calls count that homefree's
    code makes or causes, and not those of an interpreter. answers: its output must be the usual one
    if its status is.
    """

    def __init__(
        self,
        command,
        environment=None,
        marked=True,
        functions=True,
        guest=False,
        after="/libhomefree",
        answers=False,
    ):
        self.answers = answers
        self.command = [str(word) for word in command]
        self.environment = {**os.environ, **(environment or {})}
        self.marked, self.functions, self.guest, self.after = marked, functions, guest, after


def programs(build):
    here = build / "tests/long/failures"
    plain, module = here / "libplain_for_failures.so", build / "tests/check/module_first.so"
    library = build / "loader/libhomefree.so.1"
    found = {"start": Program([here / "failures-start"], marked=False)}
    found["late"] = Program([here / "failures-late", library, module])
    for name in (
        "allocate",
        "threads",
        "route",
        "adopt",
        "private",
        "ask",
        "record",
        "watch",
        "fork",
        "strings",
    ):
        found[name] = Program([here / "failures-operations", name, plain, module])
    package = build / "python"
    guest = Path(__file__).with_name("python_rounds.py")
    extension = build / "tests/load/modules/multi.so"
    for name in ("install", "load", "python-private", "python-adopt"):
        found[name] = Program(
            ["/usr/bin/python3", "-S", guest, name, extension],
            {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"},
            functions=False,
            guest=True,
        )
    command = build / "loader/command/homefree"
    report = Path(tempfile.gettempdir()) / f"homefree-failures-{os.getpid()}"
    diagnosed = [command, "run", "--diagnose", "--report", report, "--"]
    found["diagnose"] = Program(
        [*diagnosed, here / "failures-crossing", module], marked=False, functions=False
    )
    found["report"] = Program(
        [command, "report", report], marked=False, functions=False, after="/libc.so"
    )
    found["inspect"] = Program(
        [command, "inspect", "--json", extension, Path(sys.executable).resolve()],
        marked=False,
        functions=False,
        after="/libc.so",
        answers=True,
    )
    return found, report


class Call:
    """A system call of a trace. `counts`: it is between the marks; `loader`: ld.so's own."""

    def __init__(self, name, counts):
        self.name, self.counts, self.objects = name, counts, []

    @property
    def loader(self):
        names = ("ld-linux", "ld.so", "ld-2.")  # ld-2.31.so: before glibc 2.34
        return bool(self.objects) and self.objects[0].startswith(names)

    @property
    def homefree(self):
        return any("homefree" in name for name in self.objects)


def traced(program):
    """How the program ends, and the calls of each process in order, the first process first."""
    with tempfile.NamedTemporaryFile("r", suffix=".strace", errors="replace") as log:
        done = subprocess.run(
            ["strace", "-f", "-k", "-qq", "-e", "signal=none", "-o", log.name, *program.command],
            env=program.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS * 4,
            check=False,
        )
        calls, inside, last = {}, {}, None
        for line in log:
            if line.startswith(" > "):
                if last is not None:
                    last.objects.append(line.split("(")[0].rpartition("/")[2])
                continue
            match = re.match(r"(\d+) +(\w+)\((.*)", line)
            if match is None:
                continue
            process, name, rest = match[1], match[2], match[3]
            first = not calls
            calls.setdefault(process, [])
            # Before the loader opens libhomefree, nothing that fails is homefree's.
            inside.setdefault(process, not first)
            if '"/homefree/end"' in rest:
                inside[process] = False
            last = Call(name, inside[process] and name != "faccessat")
            calls[process].append(last)
            if '"/homefree/begin"' in rest or (not program.marked and program.after in rest):
                inside[process] = True
    return done, list(calls.values())


def targets(program, calls):
    """The numbers of the calls to fail, by name and by whether they are the dynamic loader's."""
    wanted = collections.defaultdict(set)
    for process in calls:
        count = collections.Counter()
        for call in process:
            count[call.name] += 1
            ours = call.homefree or not program.guest
            if call.counts and ours and call.name not in NOT_FAILED:
                wanted[call.name, call.loader].add(count[call.name])
    return {key: sorted(numbers) for key, numbers in sorted(wanted.items())}


class Ending:
    """How a run ended."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err
        self.rounds = [int(text) for text in re.findall(r"^round (-?\d+)$", out, re.M)]
        found = re.search(r"^descriptors (\d+)$", out, re.M)
        self.descriptors = int(found[1]) if found else 0
        found = re.search(r"^mappings (\d+) (\d+)$", out, re.M)
        self.files, self.anonymous = (int(found[1]), int(found[2])) if found else (0, 0)


def run(command, environment):
    return Ending(*commands.run(*command, seconds=SECONDS, env=environment, errors=subprocess.PIPE))


def words_of(ending):
    """Its messages without numbers, and without what the preloaded library counts."""
    return re.sub(r"\d+", "", re.sub(r"^calls \d+\n", "", ending.err, flags=re.M))


def judge(program, normal, ending, call, loader):
    """One of OUTCOMES, and a word or more about it."""
    said = (ending.err.strip().splitlines() or [""])[-1]
    if ending.status is None:
        return "BAD", "hangs"
    if FATAL.search(ending.err) and ending.status in (-signal.SIGABRT, 128 + signal.SIGABRT):
        return "fatal", said
    # glibc's loader dies of its own failures while it starts a program.
    if loader and not program.marked and ending.status in (-signal.SIGSEGV, 128 + signal.SIGSEGV):
        return "error", "the dynamic loader dies"
    if ending.status < 0 or ending.status >= 128:
        return "BAD", f"dies with status {ending.status}: {said}"
    if ending.status == 99:
        return "BAD", ending.out.strip().splitlines()[-1]
    if ending.status != normal.status:
        # A message must say why.
        return ("error", said) if said else ("BAD", f"exit status {ending.status}, and no message")
    if program.answers and ending.out != normal.out:
        return "BAD", "exits with the usual status, and another answer"
    if not program.marked:
        return ("error", said) if said and words_of(ending) != words_of(normal) else ("went on", "")
    failed = [result for result in ending.rounds if result != 0]
    if len(ending.rounds) != len(normal.rounds):
        return "BAD", f"the rounds are {ending.rounds}"
    if len(failed) > 1:
        return "BAD", f"the failure stays: {ending.rounds}"
    if ending.descriptors > normal.descriptors:
        return "BAD", f"{ending.descriptors - normal.descriptors} descriptors are left open"
    # What munmap() is made to leave stays, and glibc's loader unmaps nothing of an object that it
    # could not map as a whole.
    if ending.files > normal.files and call != "munmap" and not loader:
        return "BAD", f"{ending.files - normal.files} mappings of files are left"
    return ("error", os.strerror(-failed[0])) if failed else ("went on", "")


def strace(call, number, command):
    error = ERRORS.get(call, "ENOMEM")
    return [
        "strace",
        "-f",
        "-qqq",
        "--seccomp-bpf",
        "-o",
        "/dev/null",
        "-e",
        f"trace={call}",
        "-e",
        f"inject={call}:error={error}:when={number}",
        *command,
    ]


def preloaded(build, program, function, number):
    return {
        **program.environment,
        "LD_PRELOAD": str(build / "tests/long/failures/libfailing_functions.so"),
        "HOMEFREE_FAIL": f"{function}:{number}",
    }


FUNCTIONS = [
    "pthread_setspecific",
    *re.findall(
        r"^INTERPOSE\((\w+),", Path(__file__).with_name("failing_functions.c").read_text(), re.M
    ),
]


def walk(name, program, options, pool):
    """Yields (call, how many were tried, {outcome: count}, details)."""
    done, calls = traced(program)
    normal = run(program.command, program.environment)
    if done.returncode != normal.status or any(normal.rounds):
        raise SystemExit(f"{name}: fails without any injection: {normal.out}{normal.err}")
    work = []
    for (call, loader), numbers in targets(program, calls).items():
        numbers = numbers[:: options.every]
        work.append(
            (
                call,
                loader,
                normal,
                [(n, strace(call, n, program.command), program.environment) for n in numbers],
            )
        )
    if program.functions:
        for function in FUNCTIONS:
            counted = run(program.command, preloaded(options.build, program, function, 0))
            found = re.search(r"^calls (\d+)$", counted.err, re.M)
            numbers = range(1, int(found[1]) + 1 if found else 1)[:: options.every]
            runs = [
                (n, program.command, preloaded(options.build, program, function, n))
                for n in numbers
            ]
            if runs:
                work.append((f"{function}()", False, counted, runs))
    if options.until:
        random.shuffle(work)  # each time others
    for call, loader, usual, runs in work:
        if options.calls and call not in options.calls:
            continue
        if options.until and time.monotonic() > options.until:
            yield call, 0, collections.Counter({"left out": len(runs)}), []
            continue
        endings = pool.map(lambda one: run(one[1], one[2]), runs)
        counts, details = collections.Counter(), []
        for (number, _, _), ending in zip(runs, endings):
            outcome, why = judge(program, usual, ending, call, loader)
            counts[outcome] += 1
            if outcome == "BAD" or (options.details and outcome != "went on"):
                details.append(f"    {outcome}: {name}: {call} number {number}: {why}")
        yield call + " (loader)" * loader, len(runs), counts, details


def can_trace():
    if shutil.which("strace") is None:
        return "strace is not installed"
    done = subprocess.run(
        strace("getpid", 1, ["true"]), capture_output=True, text=True, check=False
    )
    return None if done.returncode == 0 else f"strace cannot trace here: {done.stderr.strip()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=lambda text: text.split(","), help="programs")
    parser.add_argument("--calls", type=lambda text: text.split(","), help="calls")
    parser.add_argument("--every", type=int, default=1, help="of each call, only each Nth")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, help="for how long")
    parser.add_argument("--details", action="store_true", help="each error too")
    parser.add_argument("build", nargs="?", type=Path, default=ROOT / "build")
    options = parser.parse_args()
    options.build = options.build.resolve()
    reason = can_trace()
    if reason:
        print(reason)
        return 77
    options.until = options.seconds and time.monotonic() + options.seconds
    found, report = programs(options.build)
    names = options.only or list(found)
    total = collections.Counter()
    print(f"{'program':15} {'call':22} {'tried':>6} " + " ".join(f"{o:>8}" for o in OUTCOMES))
    try:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for name in names:
                if name == "report":
                    shutil.rmtree(report, ignore_errors=True)
                    run(found["diagnose"].command, found["diagnose"].environment)
                for call, tried, counts, details in walk(name, found[name], options, pool):
                    total.update(counts)
                    total["tried"] += tried
                    if "left out" in counts:
                        continue
                    row = " ".join(f"{counts[outcome]:8}" for outcome in OUTCOMES)
                    print(f"{name:15} {call:22} {tried:6} {row}", *details, sep="\n", flush=True)
    finally:
        shutil.rmtree(report, ignore_errors=True)
    row = " ".join(f"{total[outcome]:8}" for outcome in OUTCOMES)
    print(f"{'all':15} {'':22} {total['tried']:6} {row}")
    good = total["tried"] > 0 and not total["BAD"]
    figures = f"{total['tried']} calls of {total['tried'] + total['left out']} failed on purpose"
    figures += f", {total['BAD']} with bad effects"
    print(figures)
    rows.row("failures", figures, "passed" if good else "failed")
    return 0 if good else 1


sys.exit(main())
