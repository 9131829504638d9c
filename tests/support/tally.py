"""Turns one `meson test` run into lines that start with pass, fail or skip.

usage: tally.py NAME BUILD-DIRECTORY LOG [MESON-TEST-OPTIONS…]

Shows the end of what each failed test printed, and nothing of those that passed: where only the
last lines of a run are kept, they are what is needed. Names each skipped test: one that is skipped
everywhere should be noticed.
"""

import json
import pathlib
import sys

KINDS = {"OK": "pass", "EXPECTEDFAIL": "pass", "SKIP": "skip"}
LINES = 60  # shown of each stream of a failed test


def main() -> int:
    name, directory, log = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    setup = next((a.split("=")[1] for a in sys.argv[4:] if a.startswith("--setup=")), None)
    results = directory / "meson-logs" / (f"testlog-{setup}.json" if setup else "testlog.json")
    failed = []
    try:
        lines = results.read_text(encoding="utf-8").splitlines()
        if results.stat().st_mtime < log.stat().st_ctime - 7200 or not lines:
            raise OSError("no results were written")
    except OSError as error:
        print(f"fail {name}: {error}")
        print(log.read_text(errors="replace"), file=sys.stderr)
        return 1
    for line in lines:
        test = json.loads(line)
        kind = KINDS.get(test["result"], "fail")
        print(kind, f"{name}:", test["name"])
        if kind == "fail":
            failed.append(test)
        if kind != "pass":
            word = "FAILED " if kind == "fail" else "skipped"
            print(f"{word} {name}: {test['name']}", file=sys.stderr)
    for test in failed:
        print(f"---- {test['name']}: {test['result']}", file=sys.stderr)
        for stream in ("stdout", "stderr"):
            shown = test.get(stream, "").splitlines()[-LINES:]
            print(*shown, sep="\n", file=sys.stderr)
    if not failed:
        print(f"ok      {name}: {len(lines)} tests", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
