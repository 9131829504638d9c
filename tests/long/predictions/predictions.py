#!/usr/bin/env python3
"""What `homefree inspect --environment` says beforehand of some seventy libraries, and what is seen
when they run: alone, and several in one process.

usage: predictions.py [--build DIRECTORY] [--python PROGRAM] [--venv DIRECTORY] [--only NAME,…]
           [--write] [SECONDS]

    --build DIRECTORY   what `ninja -C build` has built (build)
    --python PROGRAM    the CPython, 3.12 unless said otherwise; the libraries are installed for it
    --venv DIRECTORY    where they are installed, and stay; unless said otherwise in
                     DIRECTORY/long/predictions, which is removed in the end: 11 GB
    --only NAME,…    these libraries alone
    --write          writes README.md: the tables

Each library is imported and does a piece of real work in four ways: without homefree, with
homefree.install() before, with it after, when the work is done once more, and with what can be
adopted adopted. Then its other compiled modules are imported as well, to see what it may bring.
Then groups of libraries do the same in one process, in one order and the other; the largest does so
in random orders, too. What is predicted is compared with what is seen:

    allocators       mimalloc and jemalloc say so themselves, asked by their own variables
    runtimes         OpenMP, BLAS, OpenSSL and others: the process has mapped the library's file, or
                     another with its soname
    same soname      of several files, the process has mapped the one that was there first alone
    failures         an import or the work fails without homefree, in one order or the other

Exit status: 0 precision and recall reach what is wanted and homefree changed no outcome, 1 not, 77
no such CPython.
"""

import argparse
import collections
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(ROOT / "tests/support"), str(HERE.parent / "interpreter_modules")]
import more_libraries  # noqa: E402
from interpreters import number, with_gil  # noqa: E402
from libraries import LIBRARIES as FEW  # noqa: E402
from rows import row  # noqa: E402

WANTED = 0.95
LIBRARIES = {
    # Those that pip installs under their own names.
    **{one.name: one.code for one in FEW if one.needs.split()[:1] in ([], [one.name])},
    **more_libraries.LIBRARIES,
}
# jemalloc reads its settings from a variable with its prefix in front, and complains of wrong ones;
# mimalloc says when it starts.
ASK = {
    "MIMALLOC_VERBOSE": "1",
    **dict.fromkeys(
        (
            f"{prefix}MALLOC_CONF"
            for prefix in ("", "JE_", "_RJEM_", "JE_ARROW_", "DUCKDB_JE_", "DUCKDB_")
        ),
        "homefree_asks:1",
    ),
}
ANSWERS = {"mimalloc": r"^mimalloc: ", "jemalloc": r"^<\w*jemalloc>: "}
FAILURES = {"newer-glibc", "several-openmps", "static-tls-together"}
RUNTIMES = {
    "OpenMP": r"lib(gomp|omp|omp5|iomp5)\b",
    "BLAS": r"lib(scipy_)?openblas|libmkl_rt",
    "OpenSSL": r"libcrypto\b",
    "C++": r"lib(stdc\+\+|c\+\+)\b",
    "CUDA": r"libcudart\b",
    "TBB": r"libtbb\b",
}
WAYS = "without", "install", "late", "adopted"
TIMEOUT = 240
GROUPS, SIZE, ORDERS = 16, 4, 3
TOGETHER = (
    # Those that bring allocators, OpenMP, BLAS, protobuf or GDAL.
    ("pyarrow", "polars", "duckdb", "catboost", "datafusion"),
    ("mkl-service", "paddlepaddle", "scikit-learn"),
    ("torch", "scikit-learn", "xgboost", "lightgbm", "faiss-cpu"),
    ("tensorflow", "torch", "onnxruntime", "protobuf", "grpcio"),
    ("rasterio", "fiona", "pyproj", "shapely", "netCDF4", "h5py", "tables"),
    ("opencv-python-headless", "av", "pillow", "matplotlib", "rdkit"),
    ("psycopg2-binary", "cryptography", "confluent-kafka", "pymongo", "uvloop"),
    ("jaxlib", "numba", "tensorflow", "cvxpy"),
)

# Two dozen of those that share a process in practice, among them six with an allocator inside.
MANY = (
    "numpy", "pandas", "pyarrow", "polars", "duckdb", "scipy", "scikit-learn", "matplotlib",
    "pillow", "lxml", "orjson", "msgpack", "cryptography", "pydantic_core", "grpcio", "protobuf",
    "pyzmq", "regex", "tokenizers", "shapely", "h5py", "catboost", "rerun-sdk", "sedonadb",
)  # fmt: skip

CHILD = r"""
import importlib, importlib.machinery, importlib.metadata, json, os, sys
way, whole, libraries = sys.argv[1], sys.argv[2] == "whole", json.loads(sys.argv[3])
def work():
    for name, code in libraries.items():
        exec(compile(code, name, "exec"), {"where": lambda address: "heap", "__name__": "__main__"})
if way == "late":
    work()
if way != "without":
    import homefree
    homefree.install()
if way == "adopted":
    homefree.import_hook(adopt=True)
work()
for name in libraries if whole else ():
    for file in map(str, importlib.metadata.files(name) or ()):
        ends = [end for end in importlib.machinery.EXTENSION_SUFFIXES if file.endswith(end)]
        if ends and ".." not in file and "test" not in file:
            try:
                importlib.import_module(file[: -len(ends[0])].replace("/", "."))
            except BaseException:
                pass
with open("/proc/self/maps") as lines, open(os.environ["HOMEFREE_SEEN"], "w") as seen:
    seen.writelines({line.split(None, 5)[5] for line in lines if ".so" in line})
"""


class Environment:
    """A CPython with all libraries, and what is predicted of it."""

    def __init__(self, build, python, directory):
        self.build, self.directory = build, directory
        self.python = directory / "bin/python"
        if not (directory / "ready").exists():
            subprocess.run([python, "-m", "venv", "--clear", directory], check=True)
            subprocess.run([self.python, "-m", "pip", "install", "-q", "uv"], check=True)
            # pip takes more than ten times as long for so many.
            wanted = *LIBRARIES, *more_libraries.NEEDED
            install = ["-m", "uv", "pip", "install", "-q", "--only-binary", ":all:", *wanted]
            subprocess.run([self.python, *install, "--python", self.python], check=True)
            (directory / "ready").touch()
        self.versions = json.loads(self._ask("versions"))
        start = time.monotonic()
        self.files = self.inspect(directory)
        self.took = time.monotonic() - start
        self.by_path = {file["path"]: file for file in self.files}
        # What a package brings for its own objects.
        self.by_soname = {(f["package"], f["soname"]): f["path"] for f in self.files if f["soname"]}
        self.requires = json.loads(self._ask("requires"))

    def _ask(self, what):
        code = """
import importlib.metadata as m, json, re, sys
def plain(name):
    return re.sub(r"[-_.]+", "_", name).lower()
made = {}
for one in m.distributions():
    needs = [need for need in one.requires or () if "extra ==" not in need]
    made[plain(one.name)] = (
        one.version if sys.argv[1] == "versions"
        else sorted({plain(re.match(r"[\\w.-]+", need)[0]) for need in needs})
    )
print(json.dumps(made))
"""
        return subprocess.check_output([self.python, "-c", code, what], text=True)

    def environ(self, **variables):
        left = ("PYTHON", "LD_", "HOMEFREE_")
        return {
            **{name: text for name, text in os.environ.items() if not name.startswith(left)},
            "MPLCONFIGDIR": str(self.directory),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "PYTHONPATH": str(self.build / "python"),
            **variables,
        }

    def inspect(self, *paths):
        """The files of `homefree inspect --environment`."""
        command = [self.build / "loader/command/homefree", "inspect", "--json", "--environment"]
        done = subprocess.run(
            [*command, *paths], env=self.environ(), capture_output=True, text=True
        )
        if done.returncode not in (0, 1):
            raise RuntimeError(done.stderr)
        return json.loads(done.stdout)["files"]

    def packages(self, name, deep):
        """The distributions of a library as inspect names them: its own and what it requires, only
        what is no library of the table unless it is deep."""
        names = set(map(plain, LIBRARIES))
        found = [plain(name)]
        for one in found:
            for need in self.requires.get(one, ()):
                if need in self.requires and need not in found and (deep or need not in names):
                    found.append(need)
        return set(found)

    def run(self, way, names, whole=False):
        """(what went wrong, the objects that were mapped, what was said)"""
        seen = self.directory / f"seen-{threading.get_ident()}"
        seen.unlink(missing_ok=True)
        words = [CHILD, way, "whole" if whole else "", json.dumps({n: LIBRARIES[n] for n in names})]
        try:
            done = subprocess.run(
                [self.python, "-s", "-W", "ignore", "-c", *words],
                env=self.environ(HOMEFREE_SEEN=str(seen), **(ASK if way == "without" else {})),
                cwd=self.directory, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, text=True, errors="replace", timeout=TIMEOUT, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "hangs", set(), ""
        said = done.stderr
        mapped = set(seen.read_text().splitlines()) if seen.exists() else set()
        if done.returncode == 0:
            return "", mapped, said
        lines = [line for line in said.strip().splitlines() if not asked(line)] or ["nothing said"]
        return f"exit status {done.returncode}: {lines[-1][:200]}", mapped, said


def plain(name):
    return re.sub(r"[-_.]+", "_", name).lower()


def asked(line):
    return any(re.match(form, line) for form in ANSWERS.values())


def answered(said):
    return {(name,) for name, form in ANSWERS.items() if re.search(form, said, re.M)}


def allocators_of(files):
    return {(one["name"],) for file in files for one in file["allocators"]}


def runtimes(files):
    """{(runtime, soname)}"""
    return {
        (what, file["soname"])
        for file in files
        for what, form in RUNTIMES.items()
        if re.match(form, os.path.basename(file["path"]))
    }


class Score:
    """How many claims of each kind were right."""

    def __init__(self):
        self.right, self.false, self.missed = (collections.Counter() for _ in range(3))
        self.wrong, self._lock = [], threading.Lock()

    def compare(self, kind, where, predicted, seen):
        false, missed = predicted - seen, seen - predicted
        with self._lock:
            self.right[kind] += len(predicted & seen)
            self.false[kind] += len(false)
            self.missed[kind] += len(missed)
            for how, those in ("predicted, not seen", false), ("missed", missed):
                self.wrong += [f"{kind}, {where}: {how}: {' '.join(map(str, o))}" for o in those]

    def ratios(self, kind=None):
        kinds = {kind} if kind else self.kinds()
        right, false, missed = (
            sum(counts[one] for one in kinds) for counts in (self.right, self.false, self.missed)
        )
        return (
            right / (right + false) if right + false else 1,
            right / (right + missed) if right + missed else 1,
        )

    def kinds(self):
        return sorted({*self.right, *self.false, *self.missed})


def alone(env, name, score):
    """A library's row, and whether homefree changed an outcome."""
    own = env.packages(name, False)
    files = [file for file in env.files if file["package"] and plain(file["package"]) in own]
    wrong, mapped, said = env.run("without", [name], whole=True)
    there = [env.by_path[path] for path in mapped if path in env.by_path]
    allocators = allocators_of(files)
    predicted = runtimes(file for file in files if plain(file["package"]) == plain(name))
    if not wrong:
        # It may load others, where they are installed. Not all allocators can be asked.
        inside = {one for one in allocators_of(there) if one[0] in ANSWERS}
        score.compare("allocators", name, inside, answered(said))
        score.compare("runtimes", name, predicted, runtimes(there) & predicted)
    ways = {way: env.run(way, [name]) for way in WAYS}
    outcomes = {way: ways[way][0] for way in WAYS}
    copies = sorted(
        re.sub(r"^[0-9a-f]{32}-", "", os.path.basename(path))
        for path in ways["adopted"][1]
        if "/homefree/adopted/" in path
    )
    tls = sum(file["tls"]["bytes"] for file in files if file["tls"]["static"])
    cells = [
        f"{name} {env.versions.get(plain(name), '')}",
        str(len(files)),
        ", ".join(sorted(one for (one,) in allocators)),
        str(tls or ""),
        ", ".join(sorted({what for what, _ in predicted})),
        ", ".join(copies),
        "; ".join(f"{way}: {text}" for way, text in outcomes.items() if text) or "works",
    ]
    changed = not outcomes["without"] and any(outcomes.values())
    print(*cells, sep=" | ", flush=True)
    return cells, changed


def clashes(env, mapped):
    """({soname} of which two mapped objects need two files, {soname} of which one of them has the
    other's)"""
    needed = collections.defaultdict(set)
    for file in (env.by_path[path] for path in mapped if path in env.by_path):
        for library in file["libraries"]:
            path = env.by_soname.get((file["package"], library["name"]))
            if path is not None:
                needed[library["name"],].add(path)
    # Files of one size are the same.
    sizes = {soname: {*map(os.path.getsize, paths)} for soname, paths in needed.items()}
    several = {soname for soname in needed if len(sizes[soname]) > 1}
    return several, {soname for soname in several if needed[soname] - mapped}


def together(env, names, score):
    """A group's row, and whether homefree changed an outcome."""
    packages = set().union(*(env.packages(name, True) for name in names))
    files = [file for file in env.files if file["package"] and plain(file["package"]) in packages]
    found = env.inspect(*(file["path"] for file in files))
    rules = {finding["rule"] for file in found for finding in file["findings"]}
    warned = {(one,) for one in rules & FAILURES}
    outcomes, several, clashed = {}, set(), set()
    for order in names, names[::-1]:
        for way in WAYS:
            wrong, there, _ = env.run(way, order)
            outcomes.setdefault(way, []).append(wrong)
            if way == "without" and not wrong:
                found_several, found_clashed = clashes(env, there)
                several |= found_several
                clashed |= found_clashed
    failed = [text for text in outcomes["without"] if text]
    # A failure that a rule predicted is that rule's; any other is one that no rule predicted.
    seen = (warned or {("no rule",)}) if failed else set()
    score.compare("failures", " ".join(names), warned, seen)
    same = {
        (file["soname"],)
        for file in found
        if any(finding["rule"] == "same-soname" for finding in file["findings"])
    }
    # What nothing of the group has loaded shows nothing.
    score.compare("same soname", " ".join(names), same & several, clashed)
    cells = [
        ", ".join(names),
        ", ".join(sorted(rules - {"unused-library"})) or "nothing",
        "; ".join(dict.fromkeys(failed)) or "works",
        *("; ".join(dict.fromkeys(filter(None, outcomes[way]))) or "works" for way in WAYS[1:]),
    ]
    changed = any(a and not b for way in WAYS[1:]
                  for a, b in zip(outcomes[way], outcomes["without"], strict=True))  # fmt: skip
    print(*cells, sep=" | ", flush=True)
    return cells, changed


def groups(names):
    chance = random.Random(37)  # the same groups each time
    orders = [MANY, *(chance.sample(MANY, len(MANY)) for _ in range(ORDERS - 1))]
    chosen = [tuple(one for one in group if one in names) for group in (*TOGETHER, *orders)]
    for _ in range(GROUPS):
        chosen.append(tuple(chance.sample(names, min(SIZE, len(names)))))
    return [group for group in dict.fromkeys(chosen) if len(group) > 1]


HEAD = """# What is predicted of an environment, and what is seen

Written by `predictions.py --write`. {count} libraries with compiled code were installed from PyPI
into one environment of CPython {version}: {objects} shared objects, inspected in {took:.0f} s by
`homefree inspect --environment`. Each was imported and did a piece of real work alone, and several
did in one process, in one order and the other: without homefree, with `homefree.install()` before
the imports, with it after them and then once more, and with `homefree.import_hook(adopt=True)`,
too.

| claim | right | predicted, not seen | missed | precision | recall |
|---|---|---|---|---|---|
{scores}

- **allocators**: objects that an import has mapped have a mimalloc or a jemalloc inside. Seen: that
  allocator answers to its own variable (`MIMALLOC_VERBOSE`, `…MALLOC_CONF`).
- **runtimes**: a file of a library is one of OpenMP's, BLAS', OpenSSL's, C++'s, CUDA's or TBB's
  runtimes. Seen: the process has mapped it, or another with its soname, once all compiled modules
  of the library are imported.
- **same soname**: of the files with one soname, the one that was loaded first serves all. Seen: an
  object that needs one of them runs with another.
- **failures**: a finding above "note" says that the group cannot work in one process. Seen: it
  fails without homefree in one of two orders.

{wrong}
"""
ALONE = """## One library

"Objects" are the library's and those of what it alone requires. "TLS": bytes of static thread-local
storage. "Adopted": the objects whose allocator gave way to the heap.

| library | objects | allocators | TLS | runtimes | adopted | outcome |
|---|---|---|---|---|---|---|
"""
GROUPED = """## Several in one process

| libraries | findings | without homefree | installed before | after | adopted |
|---|---|---|---|---|---|
"""


def write(env, score, tables):
    scores = []
    for kind in score.kinds():
        counts = score.right[kind], score.false[kind], score.missed[kind]
        cells = [kind, *map(str, counts), *(f"{ratio:.2f}" for ratio in score.ratios(kind))]
        scores.append("| " + " | ".join(cells) + " |")
    version = subprocess.check_output([env.python, "-V"], text=True).split()[1]
    text = HEAD.format(
        count=len(tables[0]), version=version, objects=len(env.files), took=env.took,
        scores="\n".join(scores), wrong="\n".join(f"- {one}" for one in score.wrong),
    )  # fmt: skip
    for head, table in zip((ALONE, GROUPED), tables, strict=True):
        text += "\n" + head + "".join("| " + " | ".join(cells) + " |\n" for cells in table)
    (HERE / "README.md").write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--python", type=Path)
    parser.add_argument("--venv", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("seconds", nargs="?", type=float, default=3600)
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    build = options.build.resolve()
    python = options.python or next(
        (path for path, text in with_gil() if number(text)[:2] == (3, 12)), None
    )
    if python is None:
        print("no CPython 3.12, for which most libraries have files")
        return 77
    directory = (options.venv or build / "long/predictions").absolute()
    directory.parent.mkdir(parents=True, exist_ok=True)
    env = Environment(build, python, directory)
    score, tables, changes = Score(), ([], []), 0
    only = set(filter(None, options.only.split(",")))
    names = [name for name in LIBRARIES if not only or name in only]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for table, attempt, ones in (tables[0], alone, names), (tables[1], together, groups(names)):

            def in_time(one, attempt=attempt):
                return attempt(env, one, score) if time.monotonic() < end else None

            for cells, changed in filter(None, pool.map(in_time, ones)):
                table.append(cells)
                changes += changed
                if options.write:
                    write(env, score, tables)
    if options.venv is None:
        shutil.rmtree(directory, ignore_errors=True)
    print(*score.wrong, sep="\n")
    precision, recall = score.ratios()
    fine = precision >= WANTED and recall >= WANTED and not changes
    said = f"precision {precision:.3f}, recall {recall:.3f}, {changes} outcomes changed by homefree"
    row("what an environment's inspection predicts", said, "passed" if fine else "failed")
    print(said)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
