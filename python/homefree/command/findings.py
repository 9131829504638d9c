# SPDX-License-Identifier: BSD-2-Clause
"""Findings as text: a line for each, the worst first, and what to do about them. State: none."""

from .terminal import clean

SEVERITIES = "error", "warning", "note"


def worst_first(findings):
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding["severity"]))


def lines(page, findings, message):
    """message: the function that says what a finding is."""
    widest = max((len(finding["rule"]) for finding in findings), default=0)
    for finding in worst_first(findings):
        severity = finding["severity"]
        start = f"{page.styled(severity, f'{severity:7}')}  {finding['rule']:{widest}}"
        page.line(f"  {start}  {clean(message(finding))}")


def remedies(page, found, command):
    """found: {rule: remedy}, in the order in which they are told."""
    if not found:
        return
    page.line("What to do:")
    for rule, remedy in found.items():
        page.wrapped(f"  {rule}: ", remedy)
    page.line(why(command))


def why(command):
    return f"'homefree {command} --rules' says why each matters."
