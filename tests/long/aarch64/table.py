"""What aarch64.py found: figures, and the page that README.md is. Nothing here runs anything."""

import collections
import datetime

GOOD = ("passed", "skipped", "expected", "not reached")

_PAGE = """\
# aarch64, emulated

Written by `tests/long/aarch64/aarch64.py --write` on {date}: homefree {homefree}, {compiler},
{emulator}. None of this has run on aarch64 hardware. The tests are those of the whole tree, without
the suites examples, packaging and real, which need packages from elsewhere.

{table}

- **system-4k**, **system-16k**: a whole emulated machine with one processor and Debian's kernel,
  whose pages have 4 or 16 KiB.
- **user**: the emulator for single programs.
- **skipped**: the test itself says that it has nothing to do there; below.
- **cannot pass**: named in [expected.txt](expected.txt) with the reason, and below.
- **not reached**: the time was over before.
- **earlier**: tests that have not run again since the library was last changed.
- **minutes**: what the tests took by their own clock, which counts instructions in a whole machine.

## Cannot pass

{expected}

## Skipped

{skipped}
"""


def count(verdicts):
    """Returns how many of each verdict there are; what is not good counts as failed."""
    counts = collections.Counter(
        verdict if verdict in GOOD else "failed" for verdict in verdicts.values()
    )
    return counts


def figure(counts):
    parts = [f"{counts['passed']} of {counts.total()} tests passed"]
    for verdict, text in (
        ("skipped", "skipped"),
        ("expected", "cannot pass"),
        ("not reached", "not reached"),
        ("failed", "failed"),
    ):
        parts += [f"{counts[verdict]} {text}"] if counts[verdict] else []
    return ", ".join(parts)


def _markdown(header, lines):
    table = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in table)


def _why_skipped(log):
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("[ended with")]
    return lines[-1] if lines else "it says nothing"


def _grouped(pairs):
    """Returns "name, name: reason" for (name, reason) pairs, one a reason."""
    groups = {}
    for name, reason in pairs:
        groups.setdefault(reason, []).append(name)
    return [f"{', '.join(names)}: {reason}." for reason, names in groups.items()]


def page(parts, build, versions):
    """parts: (way, what, {test: verdict}, Outcomes, expected) each; build: of the library, now."""
    lines = []
    expected_lines = []
    skipped_lines = []
    for way, what, verdicts, outcomes, expected in parts:
        counts = count(verdicts)
        seconds = sum(outcomes.get(test)[1] for test in verdicts)
        lines.append(
            [
                way,
                what,
                outcomes.system,
                len(verdicts),
                *(counts[verdict] for verdict in ("passed", "skipped", "expected", "failed")),
                counts["not reached"],
                sum(outcomes.get(test)[2] not in ("", build) for test in verdicts),
                round(seconds / 60),
            ]
        )
        named = [
            (f"`{test}`", expected[test][1])
            for test, verdict in verdicts.items()
            if verdict == "expected"
        ]
        expected_lines += [f"- {way}: {line}" for line in _grouped(named)]
        named = [
            (f"`{test}`", _why_skipped(outcomes.log(test)))
            for test, verdict in verdicts.items()
            if verdict == "skipped"
        ]
        skipped_lines += [f"- {way}: {line}" for line in _grouped(named)]
    header = ["way", "tests", "kernel", "all", "passed", "skipped", "cannot pass", "failed"]
    return _PAGE.format(
        date=datetime.date.today().isoformat(),
        table=_markdown([*header, "not reached", "earlier", "minutes"], lines),
        expected="\n".join(expected_lines) or "None.",
        skipped="\n".join(skipped_lines) or "None.",
        **versions,
    )
