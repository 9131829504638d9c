#!/usr/bin/env python3
"""Builds homefree for aarch64 and passes its tests there, without an aarch64 machine.

usage: tests/long/aarch64/aarch64.py [--in WAY,…] [--programs] [--suite NAME]… [--only PATTERN]…
                                     [--resume] [--seconds N] [--write] [--cache DIRECTORY]
                                     [--jobs N]

--in WAY        system-4k   a whole emulated machine, with Debian's kernel
                system-16k  the same with Debian's kernel with pages of 16 KiB
                user        the emulator for single programs: the tests that are programs in C
                All three, unless said otherwise.
--programs      the tests that are programs in C, and not those in Python that run others
--suite NAME    this suite of Meson's alone; may be repeated
--only PATTERN  the tests with such a name alone; may be repeated
--resume        leaves out what has passed or was skipped with this build of the library
--seconds N     how long it may take; what is not reached by then does not count as failed
--write         writes the table of all outcomes that the cache has into README.md
--cache DIRECTORY  where Debian's files for aarch64 and the outcomes are kept: 5 GB
                (build/long/aarch64)
--jobs N        compilers at once, and tests in the emulator for single programs (2)

Cross-compiles the tree in build-aarch64, with warnings as errors, against Debian's files for
aarch64, then runs what Meson lists as tests, without Meson. The machine has no network. Tests that
need packages from elsewhere are left out (suites examples, packaging and real). expected.txt names
each test that cannot pass in a way, and why: a test that fails without being named there fails, and
so does one that passes although it is.

Prints each test, those that count as failed with what they printed, and a table at the end. Exit
status: 0 nothing failed, 1 something failed, 77 a tool is missing or not root.
"""

import argparse
import fnmatch
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
sys.path.insert(0, str(HERE))
import machine  # noqa: E402
import rows  # noqa: E402
import run_tests  # noqa: E402
import table  # noqa: E402

WAYS = {"user": None, "system-4k": 4, "system-16k": 16}
TOOLS = {
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
    "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu",
    "debootstrap": "debootstrap",
    "debugfs": "e2fsprogs",
    "e2fsck": "e2fsprogs",
    "depmod": "kmod",
    "meson": "meson",
    "qemu-aarch64-static": "qemu-user-static",
    "qemu-system-aarch64": "qemu-system-arm",
}
SUITES_LEFT_OUT = {"homefree:examples", "homefree:packaging", "homefree:real"}
# An emulated processor is slower than this machine's, which is all that a test's time limit knows.
# That of a whole machine counts instructions as time, whatever else the host does.
TIME_FACTOR = {"user": 10, "system-4k": 10, "system-16k": 10}
ADDRESS_SPACE = 16 << 30  # of each program in the way "user"
BUILD = ROOT / "build-aarch64"

CROSS_FILE = """[constants]
root = '{root}'
[binaries]
c = [{ccache}'aarch64-linux-gnu-gcc', '--sysroot=' + root]
cpp = [{ccache}'aarch64-linux-gnu-g++', '--sysroot=' + root]
ar = 'aarch64-linux-gnu-ar'
objcopy = 'aarch64-linux-gnu-objcopy'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-aarch64-static', '-L', root]
# What tests build modules with.
gcc = ['aarch64-linux-gnu-gcc', '--sysroot=' + root]
clang = ['clang', '--target=aarch64-linux-gnu', '--sysroot=' + root]
c++ = ['aarch64-linux-gnu-g++', '--sysroot=' + root]
[properties]
sys_root = root
pkg_config_libdir = root + '/usr/lib/aarch64-linux-gnu/pkgconfig:' + root + '/usr/share/pkgconfig'
needs_exe_wrapper = true
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
"""


def build(cache, root, jobs):
    """Cross-compiles the tree. Returns Meson's list of tests."""
    cross = cache / "cross.ini"
    ccache = "'ccache', " if shutil.which("ccache") else ""
    text = CROSS_FILE.format(root=root, ccache=ccache)
    if not cross.exists() or cross.read_text() != text:
        cross.write_text(text)
        shutil.rmtree(BUILD, ignore_errors=True)
    # A cross compiler looks for linkers under names of its own.
    linkers = cache / "linkers"
    linkers.mkdir(exist_ok=True)
    for name in ("ld.lld", "ld.mold"):
        link = linkers / f"aarch64-linux-gnu-{name}"
        found = shutil.which(name)
        if found and not link.is_symlink():
            link.symlink_to(found)
    # Debian's own Python, of which the emulated machine has the same.
    path = f"{linkers}:/usr/bin:/usr/sbin:/bin:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    if not (BUILD / "build.ninja").exists():
        command = ["meson", "setup", BUILD, ROOT, "--cross-file", cross]
        options = ["-Dwerror=true", "-Dexamples=false", "-Dpython=/usr/bin/python3"]
        machine.call([*command, *options], cache / "setup.log", env=environment)
    machine.call(["ninja", "-k0", f"-j{jobs}", "-C", BUILD], cache / "build.log", env=environment)
    listed = machine.call(["meson", "introspect", "--tests", BUILD], env=environment)
    return json.loads(listed)


def is_program(test):
    """Whether a test is a program in C, and not one in Python that runs others."""
    return pathlib.Path(test["cmd"][0]).is_relative_to(BUILD)


def stage(cache, tests):
    """Copies what tests need into a disk: the committed and changed files, and what is built."""
    directory = cache / "tree"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    listed = machine.call(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"])
    for name in listed.splitlines():
        if (ROOT / name).is_file():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, directory / name, follow_symlinks=False)

    def left_out(path, names):
        out = set(fnmatch.filter(names, "*.o")) | {".ninja_deps", ".ninja_log"} & set(names)
        return out | {name for name in names if name.endswith(".a.p") and "jemalloc" in name}

    shutil.copytree(BUILD, directory / BUILD.name, symlinks=True, ignore=left_out)
    (directory / "tests.json").write_text(json.dumps(tests))
    return directory


def build_of_library():
    """A short name of what libhomefree is now."""
    libraries = [path for path in BUILD.glob("loader/**/*.so.1.*") if path.is_file()]
    data = b"".join(path.read_bytes() for path in sorted(libraries))
    return hashlib.sha256(data).hexdigest()[:12]


class Outcomes:
    """The last outcome of each test in a way, and what it printed unless it passed."""

    def __init__(self, directory):
        self.directory = directory
        self._file = directory / "outcomes.json"
        self._of = json.loads(self._file.read_text()) if self._file.exists() else {}

    @property
    def system(self):
        """The kernel, and the size of its pages."""
        path = self.directory / "system.txt"
        return path.read_text() if path.exists() else ""

    def get(self, test):
        """Returns (outcome, seconds, build of the library)."""
        return self._of.get(test, ("not reached", 0, ""))

    def log(self, test):
        path = self.directory / run_tests.log_name(test)
        return path.read_text(errors="replace") if path.exists() else ""

    def forget(self, tests):
        for test in tests:
            self._of.pop(test, None)
            (self.directory / run_tests.log_name(test)).unlink(missing_ok=True)

    def add(self, results, build):
        """Takes over what run_tests.py has left in a directory."""
        self.directory.mkdir(parents=True, exist_ok=True)
        path = results / "outcomes.txt"
        for line in path.read_text().splitlines() if path.exists() else ():
            outcome, seconds, test = line.split("\t")
            self._of[test] = (outcome, float(seconds), build)
            log = results / run_tests.log_name(test)
            if log.exists():
                shutil.copy(log, self.directory)
        if (results / "system.txt").exists():
            shutil.copy(results / "system.txt", self.directory)
        self.save()

    def did_not_run(self, tests, build):
        for test in tests:
            if test not in self._of:
                self._of[test] = ("did not run", 0, build)
        self.save()

    def save(self):
        self.directory.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps(self._of, indent=1))


# In a user namespace, a kernel from 6.7 on has a binfmt_misc of its own: programs for aarch64 start
# like others, also as children, and the host's other processes see nothing of it.
MAGIC = "7f454c46020101000000000000000000" + "0200b700"
MASK = "ffffffffffffff00ffffffffffffffff" + "feffffff"
REGISTER = """mount -t binfmt_misc none /proc/sys/fs/binfmt_misc &&
printf %s "$1" >/proc/sys/fs/binfmt_misc/register && shift && exec "$@"
"""


def escaped(digits):
    return "".join(f"\\x{digits[i : i + 2]}" for i in range(0, len(digits), 2))


def run_user(cache, root, tests, options, seconds, results):
    """Returns why it cannot be done, or None; and whether all tests were reached."""
    emulator = shutil.which("qemu-aarch64-static")
    line = f":aarch64:M::{escaped(MAGIC)}:{escaped(MASK)}:{emulator}:PF"
    # The emulator keeps a table of a program's pages, which takes tens of gigabytes for a region of
    # the usual size. Under this limit homefree reserves a smaller one.
    inside = [
        "prlimit",
        f"--as={ADDRESS_SPACE}",
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        REGISTER,
        "sh",
        line,
    ]
    environment = {**os.environ, "QEMU_LD_PREFIX": str(root)}
    if subprocess.run([*inside, root / "bin/true"], env=environment, check=False).returncode:
        return "the kernel has no binfmt_misc for user namespaces (Linux 6.7)", False
    listed = cache / "user.json"
    listed.write_text(json.dumps(tests))
    command = [sys.executable, HERE / "run_tests.py", "--list", listed, "--results", results]
    command += ["--build", BUILD, "--factor", str(TIME_FACTOR["user"])]
    command += ["--jobs", str(options.jobs), "--seconds", str(seconds)]
    began = time.monotonic()
    subprocess.run([*inside, *command], stdin=subprocess.DEVNULL, env=environment, check=True)
    return None, time.monotonic() - began < seconds


def run_system(cache, root, way, tests, seconds, results):
    """Returns whether all tests were reached."""
    kernel = machine.fetch_kernel(cache, WAYS[way])
    initial = cache / f"initial-{way}.gz"
    machine.make_initial(root, kernel, initial)
    shutil.copy(HERE / "guest_init.sh", root / "sbin/guest_init")
    (root / "sbin/guest_init").chmod(0o755)
    disk = cache / "root.img"
    machine.make_disk(root, disk, 3000)
    directory = stage(cache, tests)
    words = ["--list", ROOT / "tests.json", "--results", ROOT / "results", "--build", BUILD]
    words += ["--jobs", 1, "--factor", TIME_FACTOR[way]]
    (directory / "words").write_text("\n".join(map(str, words)))
    tree = cache / "tree.img"
    machine.make_disk(directory, tree, 2500)
    options = [f"homefree.tree={ROOT}", "homefree.tests=words"]
    try:
        return machine.boot(kernel, initial, [disk, tree], options, seconds, cache / f"{way}.log")
    finally:  # also when it was interrupted
        if machine.read_disk(tree, "/results", cache / "read"):
            shutil.copytree(cache / "read/results", results)


def read_expected(way, tests):
    """Returns {test: (what it does, why)}, which expected.txt says in lines of its form."""
    expected = {}
    for line in (HERE / "expected.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            pattern, does, name, reason = (field.strip() for field in line.split("|", 3))
            if fnmatch.fnmatch(way, pattern):
                for test in fnmatch.filter((test["name"] for test in tests), name):
                    expected[test] = (does, reason)
    return expected


def judge(tests, outcomes, expected):
    """Returns {test: "passed", "skipped", "expected", "not reached", or what is wrong}."""
    verdicts = {}
    for test in tests:
        outcome = outcomes.get(test["name"])[0]
        does, reason = expected.get(test["name"], ("", ""))
        if does == "is not run" or (does == "fails" and outcome == "failed"):
            outcome = "expected"
        elif does == "fails" and outcome == "passed":
            outcome = f"passed, though expected.txt says: {reason}"
        verdicts[test["name"]] = outcome
    return verdicts


def select(listed, way, options):
    """The tests that this run is about."""
    tests = [test for test in listed if not SUITES_LEFT_OUT & set(test["suite"])]
    if way == "user" or options.programs:
        tests = [test for test in tests if is_program(test)]
    if options.suite:
        wanted = {f"homefree:{name}" for name in options.suite}
        tests = [test for test in tests if wanted & set(test["suite"])]
    if options.only:
        tests = [
            test
            for test in tests
            if any(fnmatch.fnmatch(test["name"], pattern) for pattern in options.only)
        ]
    return tests


def pass_in(way, cache, root, listed, options, left):
    """Runs the tests in a way. Returns how many passed and failed."""
    outcomes = Outcomes(cache / f"results-{way}")
    tests = select(listed, way, options)
    expected = read_expected(way, tests)
    build = build_of_library()
    run = []
    for test in tests:
        outcome, _, of = outcomes.get(test["name"])
        done = options.resume and outcome in ("passed", "skipped") and of == build
        if expected.get(test["name"], ("",))[0] != "is not run" and not done:
            run.append(test)
    if run and left <= 0:
        rows.row(f"aarch64, {way}", "", "skipped: the time was over")
        return 0, 0
    if run:
        results = cache / f"new-{way}"
        shutil.rmtree(results, ignore_errors=True)
        outcomes.forget(test["name"] for test in run)
        reached = False
        try:
            if way == "user":
                reason, reached = run_user(cache, root, run, options, left, results)
                if reason:
                    rows.row(f"aarch64, {way}", "", f"skipped: {reason}")
                    print(f"{way}: skipped: {reason}")
                    return 0, 0
            else:
                reached = run_system(cache, root, way, run, left, results)
        finally:
            outcomes.add(results, build)
        if reached:  # the machine has ended by itself
            outcomes.did_not_run([test["name"] for test in run], build)
    verdicts = judge(tests, outcomes, expected)
    for name, verdict in verdicts.items():
        if verdict not in table.GOOD:
            print(f"\n{way}: {name}: {verdict}\n{outcomes.log(name)[-3000:]}")
    counts = table.count(verdicts)
    figure = table.figure(counts)
    print(f"\n{way}: {figure}\n", flush=True)
    rows.row(f"aarch64, {way}", figure, "failed" if counts["failed"] else "passed")
    return counts["passed"], counts["failed"]


def first_line(command):
    return machine.call(command).splitlines()[0]


def write_page(cache, listed, options):
    options.programs = options.suite = options.only = None
    parts = []
    for way in ("system-4k", "system-16k", "user"):
        outcomes = Outcomes(cache / f"results-{way}")
        for what in ("C", "Python"):
            tests = select(listed, way, options)
            tests = [test for test in tests if is_program(test) == (what == "C")]
            expected = read_expected(way, tests)
            if tests:
                parts.append((way, what, judge(tests, outcomes, expected), outcomes, expected))
    project = json.loads(machine.call(["meson", "introspect", "--projectinfo", BUILD]))
    versions = {
        "homefree": project["version"],
        "compiler": f"GCC {first_line(['aarch64-linux-gnu-gcc', '-dumpfullversion'])}",
        "emulator": "QEMU " + first_line(["qemu-system-aarch64", "--version"]).split()[3],
    }
    (HERE / "README.md").write_text(table.page(parts, build_of_library(), versions))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--in", dest="ways", type=lambda text: text.split(","), default=list(WAYS))
    parser.add_argument("--programs", action="store_true")
    parser.add_argument("--suite", action="append")
    parser.add_argument("--only", action="append")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "build/long/aarch64")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=6 * 3600)
    options = parser.parse_args()
    if unknown := set(options.ways) - set(WAYS):
        parser.error(f"--in {unknown.pop()}: choose from {', '.join(WAYS)}")
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    missing = sorted({TOOLS[tool] for tool in TOOLS if not shutil.which(tool, path=path)})
    if missing or os.geteuid() != 0:
        print(f"install {' '.join(missing)}" if missing else "it needs root, for Debian's files")
        return 77
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what it has started ends as well
    began = time.monotonic()
    cache = options.cache.resolve()
    cache.mkdir(parents=True, exist_ok=True)
    root = machine.make_root(cache)
    listed = build(cache, root, options.jobs)
    failed = passed = 0
    for way in options.ways:
        left = options.seconds - (time.monotonic() - began)
        counts = pass_in(way, cache, root, listed, options, left)
        passed += counts[0]
        failed += counts[1]
    if options.write:
        write_page(cache, listed, options)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
