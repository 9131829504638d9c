"""Turns one `meson test` run into lines that start with pass, fail or skip.

usage: tally.py NAME BUILD-FOLDER LOG [MESON-TEST-OPTIONS…]

Shows the log's error part when a test failed, and each skipped test by name: a test that is skipped
everywhere should be noticed.
"""

import json
import pathlib
import sys

KINDS = {"OK": "pass", "EXPECTEDFAIL": "pass", "SKIP": "skip"}


def main() -> int:
    name, folder, log = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    setup = next((a.split("=")[1] for a in sys.argv[4:] if a.startswith("--setup=")), None)
    results = folder / "meson-logs" / (f"testlog-{setup}.json" if setup else "testlog.json")
    failed = 0
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
            failed += 1
        if kind != "pass":
            word = "FAILED " if kind == "fail" else "skipped"
            print(f"{word} {name}: {test['name']}", file=sys.stderr)
    if failed:
        print(log.read_text(errors="replace"), file=sys.stderr)
    else:
        print(f"ok      {name}: {len(lines)} tests", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
