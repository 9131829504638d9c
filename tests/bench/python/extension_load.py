"""What homefree.extension.load() costs over importing the same file, and a cold build over the same
compiler's commands by hand.

usage: extension_load.py PACKAGE-DIRECTORY [PYTHON [ROUNDS]]

warm      a fresh process imports homefree and then has the module, by `import` or by load(); kinds
          take turns. Four figures: from the first import statement on; without homefree's import;
          without that of homefree.extension either, which is load() alone; the whole process.
          Wanted of the third: 1 ms more than import; of the last: 1.2.
16 at once  sixteen such processes that start together, until the last has ended. Wanted: 1.0 within
          what the machine varies by (the quartiles are shown).
cold      load() with an empty cache, from load() on, and the commands that it runs, one after the
          other. Wanted: 0.3 s more at most.

The modules are a small one in C, and one in C++ that needs libstdc++. load() looks into each
directory of PATH before the compiler's, so the first line says how many these are.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SOURCES = {
    "plain.c": """
#include <Python.h>
#include <homefree/python.h>
#include <stdlib.h>
static PyObject *work(PyObject *self, PyObject *args)
{
    (void)self, (void)args;
    free(malloc(100));
    Py_RETURN_NONE;
}
static PyMethodDef methods[] = {{"work", work, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_size = 0, .m_methods = methods};
PyMODINIT_FUNC HF_MODULE_INIT(void)
{
    return PyModuleDef_Init(&module);
}
""",
    "strings.cc": """
#include <Python.h>
#include <homefree/python.h>
#include <algorithm>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>
static PyObject *work(PyObject *, PyObject *)
{
    std::map<std::string, std::vector<int>> numbers{{"a", {3, 1, 2}}};
    std::sort(numbers["a"].begin(), numbers["a"].end());
    std::ostringstream text;
    for (const auto &[key, values] : numbers)
        text << key << values.size();
    return PyUnicode_FromString(text.str().c_str());
}
static PyMethodDef methods[] = {{"work", work, METH_NOARGS, nullptr}, {}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "strings", nullptr, 0, methods,
                             nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC HF_MODULE_INIT(void)
{
    return PyModuleDef_Init(&module);
}
""",
}

MEASURE = """
import sys, time
how, package, name, source, directory = sys.argv[1:]
sys.path[:0] = [package, directory]
before = time.perf_counter_ns()
import homefree
ready = time.perf_counter_ns()
if how == "load":
    import homefree.extension
    imported = time.perf_counter_ns()
    homefree.extension.load(name, [source])
else:
    imported = time.perf_counter_ns()
    __import__(name)
end = time.perf_counter_ns()
print(end - before, end - ready, end - imported)
"""


class Bench:
    def __init__(self, package, python, rounds, work):
        self.package, self.python, self.rounds, self.work = package, python, rounds, work
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        self.environment = {**kept, "HOMEFREE_BUILD_DIR": os.path.join(work, "cache")}
        self.command = [python, "-s", "-c", MEASURE]

    def start(self, how, name, source, directory):
        return subprocess.Popen(
            [*self.command, how, self.package, name, source, directory],
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )

    def once(self, *arguments):
        """[from the first import, the same without homefree's, the last statement alone, the
        process], in ms"""
        before = time.perf_counter_ns()
        process = self.start(*arguments)
        out, _ = process.communicate()
        if process.returncode != 0:
            raise SystemExit("could not measure")
        return [int(word) / 1e6 for word in out.split()] + [(time.perf_counter_ns() - before) / 1e6]

    def together(self, *arguments):
        before = time.perf_counter_ns()
        processes = [self.start(*arguments) for _ in range(16)]
        for process in processes:
            process.communicate()
        return [(time.perf_counter_ns() - before) / 1e6]

    def compare(self, title, sample, rounds, name, source, directory, rows):
        values = {"import": [], "load": []}
        for number in range(rounds):
            for how in list(values)[:: 1 if number % 2 == 0 else -1]:
                values[how].append(sample(how, name, source, directory))
        for row, (label, wanted) in enumerate(rows):
            load, plain = ([one[row] for one in values[how]] for how in ("load", "import"))
            ratios = [a / b for a, b in zip(load, plain)]
            low, _, high = statistics.quantiles(ratios, n=4)
            ratio = statistics.median(load) / statistics.median(plain)
            more = statistics.median(load) - statistics.median(plain)
            is_met = more <= 1 if wanted == "+1 ms" else wanted is None or ratio <= wanted
            verdict = "" if wanted is None else "ok" if is_met else "missed"
            print(
                f"{title + label:44} {ratio:5.2f} ({low:.2f}..{high:.2f})  "
                f"{statistics.median(load):7.2f} ms / {statistics.median(plain):7.2f} ms  {verdict}"
            )

    def output_of(self, code, *arguments):
        return subprocess.run(
            [self.python, "-s", "-c", code, *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        ).stdout

    def cold(self, name, source):
        """(seconds of load(), seconds of the same commands by hand), the least of three."""
        code = (
            "import sys, time; sys.path.insert(0, sys.argv[1]); import homefree.extension as e;"
            "t = time.perf_counter(); e.load(*sys.argv[2:]); print(time.perf_counter() - t)"
        )
        script = (
            "import sys; sys.path.insert(0, sys.argv[1]); from homefree import _link;"
            "from homefree.extension import _commands, _request;"
            "r = _request.Request(sys.argv[2], [sys.argv[3]]);"
            "c = _commands.Commands(r);"
            "import shlex;"
            "print(shlex.join(_link.exports_command('m.map', r.last)));"
            "print(shlex.join(c.compile(r.sources[0], r.languages[0], 'm.o')));"
            "print(shlex.join(c.link(['m.o'], 'm.map', 'm.so')))"
        )
        arguments = [self.package, name, source]
        lines = self.output_of(script, *arguments)
        loads, hands = [], []
        for _ in range(3):
            shutil.rmtree(self.environment["HOMEFREE_BUILD_DIR"], ignore_errors=True)
            loads.append(float(self.output_of(code, *arguments)))
            before = time.perf_counter()
            subprocess.run(["sh", "-ec", lines], cwd=self.work, check=True)
            hands.append(time.perf_counter() - before)
        return min(loads), min(hands)


def directories_before(compiler):
    """How many directories of PATH come before the one that has the compiler."""
    directories = os.environ.get("PATH", os.defpath).split(os.pathsep)
    has = [os.access(os.path.join(directory, compiler), os.X_OK) for directory in directories]
    return has.index(True) if True in has else len(directories)


def main():
    package = os.path.abspath(sys.argv[1])
    python = sys.argv[2] if len(sys.argv) > 2 else sys.executable
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 30
    print(f"directories of PATH before the C compiler's: {directories_before('cc')}")
    with tempfile.TemporaryDirectory(prefix="homefree-bench-") as work:
        bench = Bench(package, python, rounds, work)
        for file, text in SOURCES.items():
            source = os.path.join(work, file)
            with open(source, "w", encoding="utf-8") as out:
                out.write(text)
            name = file.partition(".")[0]
            load, hand = bench.cold(name, source)
            verdict = "ok" if load - hand <= 0.3 else "missed"
            print(f"{name + ', cold: load - by hand':44} {load - hand:5.2f} s", end="")
            print(f"  {load:.2f} s / {hand:.2f} s  {verdict}")
            cache = os.path.join(work, "cache", name)
            entry = next(one for one in os.scandir(cache) if one.is_dir())
            # Each once, so that Python has written its caches.
            for how in ("import", "load"):
                bench.once(how, name, source, entry.path)
            rows = [
                (", warm: from the first import on", None),
                (", warm: and homefree.extension", None),
                (", warm: load() / import", "+1 ms"),
                (", warm: the process", 1.2),
            ]
            bench.compare(name, bench.once, rounds, name, source, entry.path, rows)
            rows = [(", 16 at once", 1.05)]
            bench.compare(name, bench.together, max(5, rounds // 3), name, source, entry.path, rows)


if __name__ == "__main__":
    main()
