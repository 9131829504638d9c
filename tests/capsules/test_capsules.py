"""homefree/python.h in every CPython of this machine from 3.9 on: compiled for each with the full
API, and once with the limited one; what it makes is used there (guest.py), processes end with it in
many ways (endings.py), and a program that embeds CPython outlives it (embed.c).

Usage: test_capsules.py INCLUDE LIBHOMEFREE CC CXX WORK [interpreter…]
"""

import concurrent.futures
import json
import os
import re
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import commands  # noqa: E402
from interpreters import interpreters  # noqa: E402

TIMEOUT = 200
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]

FACTS = """
import json, sys, sysconfig
try:
    import numpy
    includes, version = numpy.get_include(), numpy.__version__
except ImportError:
    includes = version = None
print(json.dumps({
    "version": sys.version_info[:3],
    "include": sysconfig.get_path("include"),
    "numpy_include": includes,
    "numpy": version,
    "shared": bool(sysconfig.get_config_var("Py_ENABLE_SHARED")),
    "library": sysconfig.get_config_var("LDLIBRARY"),
    "directory": sysconfig.get_config_var("LIBDIR"),
    "path": sys.executable,
    "prefix": sys.base_prefix,
    "free_threaded": "t" in sys.abiflags,
}))
"""

# For each ending, the output after Python's end. `state` is the capsule in the module's own state.
# A daemon thread's capsule is never dropped; for running threads, the output can vary.
ENDINGS = {
    "in_globals": {"live": 0, "leaked": 0, "destroyed": 4},
    "in_sys": {"live": 0, "leaked": 0, "destroyed": 3},
    "in_cycle_with_finalizer": {"live": 0, "leaked": 0, "destroyed": 3},
    "in_daemon_thread": {"leaked": 0},
    "daemon_threads_at_work": {"leaked": 0},
    "after_python": {"live": 0, "leaked": 0, "destroyed": 3},
    "tensors": {"live": 0, "leaked": 0, "destroyed": 2},
    "tensors_after_python": {"live": 0, "leaked": 0, "run": 3, "destroyed": 2},
    "buffers": {"live": 0, "leaked": 0, "destroyed": 3},
    "held_by_a_capsule": {"live": 0, "leaked": 0, "run": 2, "destroyed": 1},
    "held_plainly": {"live": 0, "leaked": 0, "run": 2, "destroyed": 1},
    "held_after_python": {"live": 0, "leaked": 1, "run": 1, "destroyed": 1},
    "held_while_ending": {"live": 0, "destroyed": 1, "together": 10001, "begun": True},
    "held_first_by_two": {"live": 0, "leaked": 0, "run": 3, "destroyed": 1},
    "held_never": {"live": 0, "leaked": 0, "run": 1, "destroyed": 1},
}
THREADED = ("held_while_ending", "held_first_by_two")


def call(command):
    """(exit status, output); the status is None after too long."""
    environment = commands.environment(("PYTHON", "MALLOC_"))
    return commands.run(*command, seconds=TIMEOUT, env=environment)


def facts(python):
    status, said = call([python, "-s", "-c", FACTS])
    try:
        known = json.loads(said.splitlines()[-1]) if status == 0 else None
    except (ValueError, IndexError):
        known = None
    if known is None or tuple(known["version"]) < (3, 9):
        return None
    if not Path(known["include"], "Python.h").exists():
        return None
    known["python"] = str(python)
    known["name"] = ".".join(map(str, known["version"])) + "t" * known["free_threaded"]
    if known["numpy"]:
        known["name"] += " with NumPy " + known["numpy"]
    return known


def wanted_of(known, name):
    """What an ending must say. Free-threaded CPython 3.13 never destroys a module once there was a
    second thread, nor what its state holds."""
    wanted = ENDINGS[name]
    if known["free_threaded"] and tuple(known["version"]) < (3, 14) and name in THREADED:
        wanted = {**wanted, "live": 1, "destroyed": wanted["destroyed"] - 1}
        for key in {"run", "together"} & set(wanted):
            wanted[key] -= 1
    return wanted


class Run:
    def __init__(self, include, library, cc, cxx, work):
        self.include, self.library, self.work = include, Path(library).resolve(), Path(work)
        self.compilers = {".c": [*cc.split(), "-std=c11"], ".cc": [*cxx.split(), "-std=c++17"]}
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)

    def compile(self, source, output, includes, *arguments, shared=True):
        """None, or the compiler's messages."""
        output.parent.mkdir(parents=True, exist_ok=True)
        command = [
            *self.compilers[source.suffix],
            *("-shared", "-fPIC") * shared,
            *("-O1", "-g", "-pthread", f"-I{self.include}", *WARNINGS),
            *(word for directory in includes for word in ("-isystem", directory)),
            *(source, "-o", output, self.library, f"-Wl,-rpath,{self.library.parent}"),
            *arguments,
        ]
        status, said = call(command)
        return None if status == 0 else f"{source.name}: does not compile\n{said}"

    def scripts(self, directory):
        for name in ("guest.py", "endings.py"):
            shutil.copy(HERE / name, directory)

    def guest(self, known, directory, what):
        status, said = call(
            [known["python"], "-E", "-s", "-X", "faulthandler", directory / "guest.py"]
        )
        if status != 0 or "\nOK" not in said:
            return [f"{what}: exit status {status}\n{said}"]
        print(what, said.strip().splitlines()[-1], flush=True)
        return []

    def ending(self, known, directory, name, wanted):
        command = [
            known["python"],
            "-E",
            "-s",
            "-X",
            "faulthandler",
            directory / "endings.py",
            name,
        ]
        status, said = call(command)
        found = re.fullmatch(
            r"end: live (\d+) run (\d+) leaked (\d+) destroyed (\d+) wrong (\d+)\n", said
        )
        if status != 0 or not found:
            return [f"ending {name}: exit status {status}, said {said!r}"]
        keys = ("live", "run", "leaked", "destroyed", "wrong")
        seen = dict(zip(keys, map(int, found.groups())))
        seen["together"] = seen["run"] + seen["leaked"]
        seen["begun"] = seen["run"] > 100
        wrong = [f"{key} is {seen[key]}" for key, value in wanted.items() if seen[key] != value]
        if seen["wrong"] != 0:
            wrong.append("memory was not the heap's")
        return [f"ending {name}: {', '.join(wrong)}: {said!r}"] if wrong else []

    def all_endings(self, known, directory):
        results = []
        for name in ENDINGS:
            wanted = wanted_of(known, name)
            # A race: an error would not show every time.
            for _ in range(6 if name == "held_while_ending" else 1):
                results += self.ending(known, directory, name, wanted)
        return results

    def embed(self, known, directory):
        library = Path(known["directory"]) / known["library"]
        if not known["shared"] or not library.exists():
            return []
        program = directory / "embed"
        wrong = self.compile(
            HERE / "embed.c",
            program,
            [known["include"]],
            library,
            f"-Wl,-rpath,{library.parent}",
            shared=False,
        )
        if wrong:
            return [wrong]
        status, said = call(["env", f"PYTHONHOME={known['prefix']}", program])
        return [] if (status, said) == (0, "fine\n") else [f"embed: exit status {status}\n{said}"]

    def one(self, known, newest):
        """Everything with the full API; as C++ too for the newest Python."""
        directory = self.work / known["name"].replace(" ", "-")
        module = HERE / "module.c"
        directory.mkdir(parents=True)
        self.scripts(directory)
        if newest:
            module = Path(shutil.copy(module, directory / "module.cc"))
        wrong = self.compile(module, directory / "capsules.so", [known["include"]])
        if wrong:
            return [wrong]
        if known["numpy"]:
            wrong = self.compile(
                HERE / "numpy_base.c",
                directory / "owns.so",
                [known["include"], known["numpy_include"]],
            )
            if wrong:
                return [wrong]
        return (
            self.guest(known, directory, "CPython " + known["name"])
            + self.all_endings(known, directory)
            + self.embed(known, directory)
        )

    def limited(self, known, every, version):
        """A module that is built with one CPython's headers for the limited API works in all
        that can load it."""
        directory = self.work / f"limited-3.{version}"
        wrong = self.compile(
            HERE / "module.c",
            directory / "capsules.abi3.so",
            [known["include"]],
            f"-DPy_LIMITED_API=0x03{version:02x}0000",
        )
        if wrong:
            return [wrong]
        self.scripts(directory)
        results = []
        for other in every:
            if tuple(other["version"]) >= (3, version):
                what = f"limited API 3.{version}, CPython {other['name']}"
                results += [
                    f"{what}: {line}"
                    for line in self.guest(other, directory, what)
                    + self.ending(
                        other, directory, "held_while_ending", ENDINGS["held_while_ending"]
                    )
                ]
        return results


def main():
    run = Run(*sys.argv[1:6])
    named = sys.argv[6:] or [path for path, _ in interpreters()]
    found = {}
    for known in filter(None, map(facts, named)):
        found.setdefault(known["name"], known)
    if not found:
        print("no CPython from 3.9 on with headers")
        return 77
    every = sorted(found.values(), key=lambda known: known["version"])
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        running = {
            "CPython " + known["name"]: pool.submit(run.one, known, known is every[-1])
            for known in every
        }
        # Free-threaded ones have no limited API before 3.15.
        shared = [known for known in every if not known["free_threaded"]]
        # From 3.12 on the headers take a PyObject for opaque, as those of 3.15t have it.
        for version in (9, 11, 12):
            fitting = [known for known in shared if tuple(known["version"]) >= (3, version)]
            if fitting:
                name = f"limited API 3.{version}"
                running[name] = pool.submit(run.limited, fitting[0], shared, version)
        failures = [
            f"{name}: {line}" for name, future in running.items() for line in future.result()
        ]
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
