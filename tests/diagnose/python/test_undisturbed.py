"""Programs that do nothing wrong: no finding, and the same output, also where CPython or homefree
puts other allocators in front of the hooks or in their place. Under some CPythons of this machine.

Usage: test_undisturbed.py --homefree COMMAND --library FILE --package DIRECTORY
[unittest arguments]
"""

import os
import unittest

import pythons
from diagnosis import Directories, arguments, main, parser

parser.add_argument("--library", required=True, type=os.path.abspath)
parser.add_argument("--package", required=True, type=os.path.abspath)

# Threads that end before and after the main one, a fork in a thread, subinterpreters, blocks of all
# sizes that live from before to after.
WORK = """
import os, threading
{before}
kept = [bytearray(n) for n in range(0, 3000, 100)]
{begin}
def churn(count=8):
    for i in range(count):
        [bytearray(700 + i) for _ in range(10)]; {str(j): [j] * 200 for j in range(50)}
def fork():
    pid = os.fork()
    if pid == 0:
        churn()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
threads = [threading.Thread(target=churn) for _ in range(2)] + [threading.Thread(target=fork)]
for thread in threads: thread.start()
for thread in threads: thread.join()
try:
    import _xxsubinterpreters as interpreters
    ids = [interpreters.create(isolated=flag) for flag in (True, False)[:{others}]]
    run = interpreters.run_string
except ImportError:
    try:
        import _interpreters as interpreters
        ids = [interpreters.create(name) for name in ("isolated", "legacy")[:{others}]]
        run = interpreters.exec
    except ImportError:
        ids = []
code = "x = [bytes(n) for n in range(0, 3000, 50)]; y = {str(i): i for i in range(999)}"
for number in ids:
    run(number, code)
    thread = threading.Thread(target=run, args=(number, code))
    thread.start()
    thread.join()
    interpreters.destroy(number)
for _ in range({daemons}):
    threading.Thread(target=churn, args=(10**9,), daemon=True).start()
kept.extend(bytearray(n) for n in range(0, 3000, 100))
{end}
print("done")
"""

# CPython before 3.12: a daemon thread that waits for the GIL reads its state once the interpreter
# has ended and freed it (take_gil() in 3.10.13). In these ways something else may be there by then.
NO_DAEMONS = {"debug", "development mode", "full"}
# Refused by a free-threaded CPython, and by homefree.
NEED_GIL = {"malloc", "full"}
WAYS = {
    "plain": {},
    "development mode": {"flags": ["-X", "dev", "-X", "faulthandler"]},
    "malloc": {"PYTHONMALLOC": "malloc"},
    "debug": {"PYTHONMALLOC": "debug"},
    "tracemalloc": {
        "code": {
            "begin": "import tracemalloc; tracemalloc.start(3)",
            "end": "del kept[::2]; tracemalloc.stop(); del kept",
            "others": "0",  # CPython hangs: a raw call takes the main interpreter's GIL
        }
    },
    "install": {"code": {"before": "import homefree", "begin": "homefree.install()"}},
    "full": {"code": {"before": "import homefree", "begin": "homefree.install(python='full')"}},
}


class Undisturbed(unittest.TestCase):
    def test_nothing_is_found(self):
        directories = Directories()
        self.addCleanup(directories.remove)

        def run(path, version, way, directory):
            how = dict(WAYS[way])
            code = WORK
            parts = {"before": "", "begin": "", "end": "", "others": "2", **how.pop("code", {})}
            parts["daemons"] = "0" if version < (3, 12) and way in NO_DAEMONS else "2"
            for name, part in parts.items():
                code = code.replace(f"{{{name}}}", part)
            return (
                path,
                way,
                pythons.run_python(
                    arguments,
                    path,
                    code,
                    directory,
                    prelude="",
                    PYTHONPATH=arguments.package,
                    **how,
                ),
            )

        tasks = [
            (path, version, way, directories.new())
            for path, version in pythons.pythons()
            for way in WAYS
            if not (way in NEED_GIL and version.free_threaded)
        ]
        self.assertTrue(tasks, "this machine has no CPython")
        for path, way, done in pythons.each(run, tasks):
            with self.subTest(path=path, way=way):
                self.assertEqual((done.status, done.output), (0, "done\n"), done.errors)
                self.assertEqual(done.report["findings"], [])


if __name__ == "__main__":
    main()
