# SPDX-License-Identifier: BSD-2-Clause
"""`homefree inspect --junit`: a suite for each directory, archive and distribution and one for the
files that were given themselves, with a case for each shared object.

State: none.
"""

import re
import xml.etree.ElementTree as xml

from .inspect_text import message
from .terminal import clean, plural

_NO_XML = re.compile("[\ufffe\uffff]")


def compose(inspected):
    """The file's bytes."""
    root = xml.Element("testsuites", name="homefree inspect")
    _count(root, inspected, inspected.files)
    for group in inspected.groups():
        suite = xml.SubElement(root, "testsuite", name=text(group.name))
        _count(suite, inspected, group.files)
        for file in group.files:
            _case(suite, inspected, file)
    xml.indent(root)
    return xml.tostring(root, "UTF-8", xml_declaration=True) + b"\n"


def text(said):
    """What an XML file can hold of it."""
    return _NO_XML.sub("?", clean(said))


def _count(element, inspected, files):
    element.set("tests", str(len(files)))
    element.set("failures", str(sum(map(inspected.fails, files))))
    element.set("errors", str(sum(file["error"] is not None for file in files)))


def _case(suite, inspected, file):
    name = file["path"] if file["member"] is None else file["member"]
    case = xml.SubElement(suite, "testcase", classname=suite.get("name"), name=text(name))
    if file["error"] is not None:
        xml.SubElement(case, "error", type="not-inspected", message=text(file["error"]))
        return
    failing = [finding for finding in file["findings"] if inspected.rank(finding) is not None]
    others = [finding for finding in file["findings"] if inspected.rank(finding) is None]
    if failing:
        more = len(failing) - 1
        said = failing[0]["message"] + (f", and {more} more finding{plural(more)}" if more else "")
        failure = xml.SubElement(case, "failure", type=failing[0]["rule"], message=text(said))
        failure.text = _told(failing)
    if others:
        xml.SubElement(case, "system-out").text = _told(others)


def _told(findings):
    return "\n".join(
        f"{finding['severity']} {finding['rule']}: {text(message(finding))}\n  {finding['remedy']}"
        + (f"\n  {finding['help']}" if finding["help"] else "")
        for finding in findings
    )
