# SPDX-License-Identifier: BSD-2-Clause
"""Findings as text: a line for each, the worst first, and what to do about them. State: none."""

from .terminal import clean

SEVERITIES = "error", "warning", "note"


def counts(found):
    """How many there are of each severity, as a document's summary says it."""
    severities = [finding["severity"] for finding in found]
    return {f"{severity}s": severities.count(severity) for severity in SEVERITIES}


def worst_first(findings):
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding["severity"]))


def lines(page, findings, message):
    """message: the function that says what a finding is."""
    widest = max((len(finding["rule"]) for finding in findings), default=0)
    for finding in worst_first(findings):
        severity = finding["severity"]
        start = f"{page.styled(severity, f'{severity:7}')}  {finding['rule']:{widest}}"
        known = " (known)" if finding.get("known") else ""
        page.line(f"  {start}  {clean(message(finding))}{known}")


def remedies(page, found):
    """found: of each rule a finding, or the rule, in the order in which they are told."""
    if found:
        page.line("What to do:")
    for each in found:
        page.wrapped(f"  {each['rule']}: ", each["remedy"])
        more(page, "    ", each)


def more(page, indent, finding):
    """A line with the address of what explains a finding, or its end where that is too long."""
    address = finding["help"]
    if address is None:
        return
    start = f"{indent}more: "
    if page.width and len(start) + len(address) > page.width:
        address = address.rpartition("/")[2]
    page.line(start + clean(address))
