"""What real_modules.py found: a verdict and a row for each module, and the page that README.md is.

Nothing here runs anything or keeps state.
"""

import collections
import datetime
import re

_NO_INIT = "no-init-function"
# What `homefree inspect` must not find in a module that was built with homefree.
_UNWANTED = ("allocates-elsewhere", "extra-exports", "embedded-allocator", _NO_INIT)

# What an entry says for readers; measurements do not depend on it.
TEXTS = ("note", "skipped", "timing", "why")

_PAGE = """\
# Real projects

Written by `tests/long/real_modules/real_modules.py --write` on {date}: homefree {homefree}, CPython
{python}. None of these projects is ours. Each was built from its source package twice: as it is,
and with homefree's line for its build system (README, "Build with it"). A cell has the figure
without homefree, and then the one with it; one figure if both are the same, and a dash for what was
not measured.

{table}

- **lines**: what a user adds to and removes from the build files. The source does not change. Who
  publishes the result also adds homefree to the project's dependencies, one more line.
- **own tests**: the project's, under pytest. They must end the same way with homefree.
- **exports**: the names that the shared objects show to others.
- **size**: the shared objects, in KiB.
- **import**: milliseconds of processor time, the least of {imports} new processes that take turns.
- **auditwheel**: the tag that `auditwheel repair` gives the wheel, without an option; "no" if it
  fails. What it made is imported, and has the same libraries of others as without homefree.
- **findings**: errors that `pytest --homefree` finds in its tests, in diagnostics mode. Each is
  explained below; none may be wrong.
- **harness**: `homefree test` with what its own tests do with the module: cells, and how many of
  them died, leaked or hung.

{notes}"""


def _tally(tests):
    counts = collections.Counter(tests["outcomes"].values())
    parts = [str(counts["passed"])]
    parts += [f"{counts['skipped']} skipped"] if counts["skipped"] else []
    failed = counts["failure"] + counts["error"]
    parts += [f"{failed} failed"] if failed else []
    return ", ".join(parts)


def _repaired(repair):
    if "why" in repair:
        return f"no: {repair['why']}"
    return repair["tag"].removesuffix("_x86_64")


def _errors(diagnosed):
    return [one for one in diagnosed["findings"] if one["severity"] == "error"]


def _bad_cells(harness):
    return sum(harness["summary"][result] for result in ("died", "leaked", "timed_out"))


def _cells(harness):
    count = harness["summary"]["cells"]
    return f"{count}, {_bad_cells(harness)} bad" if count else "nothing learned"


def _differences(one, other):
    """Tests that end in different ways."""
    names = {*one["outcomes"], *other["outcomes"]}
    return sorted(n for n in names if one["outcomes"].get(n) != other["outcomes"].get(n))


class Row:
    """A module's results. `stopped` says why they are not complete: a state, or None."""

    def __init__(self, entry, results, stopped, older=False):
        self._older = older  # measured with another wheel
        self.entry = entry
        self.results = results
        self.name = entry["name"]
        self._stopped = stopped

    def faults(self):
        """What is wrong, in the order of its weight; sentences."""
        found = []
        results = self.results
        inspected = results["objects"]["homefree"]
        # A library of torch operators has no function that initializes it, without homefree too.
        before = results["objects"]["plain"]["findings"]
        found += [
            f"inspect finds {rule}"
            for rule in _UNWANTED
            if rule in inspected["findings"] and not (rule == _NO_INIT and rule in before)
        ]
        found += [f"{name} is not linked with homefree" for name in inspected["past"]]
        repairs = [results[f"repair {build}"] for build in ("plain", "homefree")]
        if "why" in repairs[1]:
            found.append(f"auditwheel: {repairs[1]['why']}")
        elif repairs[0].get("copied", repairs[1]["copied"]) != repairs[1]["copied"]:
            found.append(f"auditwheel copies {', '.join(repairs[1]['copied']) or 'nothing'}")
        different = _differences(results["tests plain"], results["tests homefree"])
        timing = tuple(self.entry.get("timing", ()))
        different = [name for name in different if not name.startswith(timing or "\0")]
        found += [f"{name} ends differently with homefree" for name in different[:3]]
        for build in "plain", "homefree":
            diagnosed = results[f"diagnosed {build}"]
            explained = self.entry.get("why", {})
            rules = {one["rule"] for one in _errors(diagnosed)}
            found += [f"{rule} is not explained ({build})" for rule in rules - {*explained}]
            if not rules:
                different = [
                    name
                    for name in _differences(results[f"tests {build}"], diagnosed)
                    if not name.startswith(timing or "\0")
                ]
                found += [f"{name} ends differently in diagnostics mode" for name in different[:3]]
        harness = results.get("harness homefree")
        if harness and _bad_cells(harness) > 0:
            found.append(f"{_bad_cells(harness)} cells of the harness are bad")
        return found

    def begun(self):
        """Whether there is anything to show, or a failure to tell."""
        return "objects" in self.results or (self._stopped or "").startswith("failed")

    def state(self):
        """passed, or "failed: why", or "skipped: why"."""
        if self._stopped is not None:
            return self._stopped
        faults = self.faults()
        return f"failed: {'; '.join(faults)}" if faults else "passed"

    def cells(self):
        """What the table shows, by column; what is not known is "-"."""
        results = self.results

        def both(step, show):
            shown = [
                show(results[f"{step} {build}"]) if f"{step} {build}" in results else "-"
                for build in ("plain", "homefree")
            ]
            return shown[0] if shown[0] == shown[1] else " → ".join(shown)

        def inspected(name, scale=1):
            if "objects" not in results:
                return "-"
            values = [results["objects"][build][name] for build in ("plain", "homefree")]
            return " → ".join(f"{value / scale:.0f}" for value in values)

        lines = results.get("source")
        times = results.get("import")
        return {
            "project": f"{self.name} {self.entry['version']}",
            "built by": self.entry["build"],
            "lines": f"+{lines['added']} −{lines['removed']}" if lines else "-",
            "own tests": both("tests", _tally),
            "exports": inspected("exports"),
            "size": inspected("bytes", 1024),
            "import": f"{times['plain']:.1f} → {times['homefree']:.1f}" if times else "-",
            "auditwheel": both("repair", _repaired),
            "findings": both("diagnosed", lambda one: str(len(_errors(one)))),
            "harness": both("harness", _cells),
        }

    def figure(self):
        """One line for the table of all long tests."""
        cells = self.cells()
        return "; ".join(f"{name} {cells[name]}" for name in list(cells)[2:] if cells[name] != "-")

    def line(self):
        return f"{self.name}: {self.state()}; {self.figure()}"

    def notes(self):
        """What README says below the table; lines of Markdown."""
        lines = []
        state = self.state()
        if state != "passed":
            lines.append(state[0].upper() + state[1:] + ".")
        if self._older:
            lines.append("Measured with an earlier build of homefree.")
        if "note" in self.entry:
            lines.append(self.entry["note"])
        if "skipped" in self.entry:
            lines.append(f"Not run: {self.entry['skipped']}.")
        objects = self.results.get("objects", {}).get("homefree")
        if objects and objects["linked"] < objects["objects"]:
            lines.append(
                f"{objects['objects'] - objects['linked']} of {objects['objects']} shared objects "
                "call no allocating function of C or C++, only Python's, so the linker left "
                "homefree out. What is left of its line there is the version script."
            )
        for rule, why in self.entry.get("why", {}).items():
            counts = [
                sum(one["rule"] == rule for one in _errors(self.results[step]))
                for step in ("diagnosed plain", "diagnosed homefree")
                if step in self.results
            ]
            lines.append(f"`{rule}` ({' → '.join(map(str, counts))} findings): {why}")
        for build in "plain", "homefree":
            harness = self.results.get(f"harness {build}")
            if harness and _bad_cells(harness):
                hosts = sorted(harness["hosts"].items(), key=lambda item: -item[1])
                text = ", ".join(f"{host} {count}" for host, count in hosts[:4])
                lines.append(f"The harness on the {build} build: {text}.")
        return lines


def page(rows, options):
    """The text of README.md."""
    missing = ", ".join(row.name for row in rows if not row.begun())
    rows = [row for row in rows if row.begun()]
    shown = [row.cells() for row in rows]
    head = list(shown[0])
    table = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    table += ["| " + " | ".join(cells[name] for name in head) + " |" for cells in shown]
    notes = []
    if missing:
        notes += [f"Not measured with this version: {missing}.", ""]
    for row in rows:
        lines = row.notes()
        if lines:
            notes += [f"## {row.name}", "", *(f"- {line}" for line in lines), ""]
    version = re.search(r"homefree-([^-]+)-", options.wheel.name)
    return _PAGE.format(
        date=datetime.datetime.now(datetime.timezone.utc).date(),
        homefree=version.group(1) if version else "?",
        python=options.full_version,
        imports=options.imports,
        table="\n".join(table),
        notes="\n".join(notes),
    )
