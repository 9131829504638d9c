# SPDX-License-Identifier: BSD-2-Clause
"""The JUnit file of `homefree test --junit`: a suite for each crossing, a case for each cell."""

from xml.etree import ElementTree

from ..command.inspect_junit import text
from . import _grouping


def _case(suite, cell):
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=text(cell.crossing.name),
        name=f"{cell.condition} / {cell.column.name}",
        time=f"{cell.seconds or 0:.3f}",
    )
    if cell.result == "skipped":
        ElementTree.SubElement(case, "skipped", message=text(cell.message or ""))
    elif cell.result != "ok":
        kind = f"{cell.result} {cell.signal}" if cell.signal else cell.result
        failure = ElementTree.SubElement(
            case, "failure", type=kind, message=text(cell.message or "")
        )
        failure.text = text(f"{kind}: {cell.message}")


def junit(outcome):
    """The file's contents, as bytes."""
    root = ElementTree.Element("testsuites", name=f"homefree test {outcome.target.module}")
    totals = {"tests": 0, "failures": 0, "skipped": 0}
    for crossing, cells in _grouping.by_crossing(outcome).items():
        suite = ElementTree.SubElement(root, "testsuite", name=text(crossing.name))
        numbers = {
            "tests": len(cells),
            "failures": sum(cell.result not in ("ok", "skipped") for cell in cells),
            "skipped": sum(cell.result == "skipped" for cell in cells),
        }
        for key, number in numbers.items():
            suite.set(key, str(number))
            totals[key] += number
        for cell in cells:
            _case(suite, cell)
    for key, number in totals.items():
        root.set(key, str(number))
    root.set("time", f"{outcome.seconds:.3f}")
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
