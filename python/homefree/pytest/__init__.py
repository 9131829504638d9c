# SPDX-License-Identifier: BSD-2-Clause
"""What `pytest --homefree` does. The plugin begins in the module pytest_homefree.

_supervisor  starts pytest again, diagnosed, and says what is known if that process dies
_leaks       blocks that a test loses, where that is asked for
_phases      the hooks: findings belong to the test and the phase in which they are made
_findings    findings as values of JSON: keys, patterns, baselines, text
_reports     what `homefree report` knows about the processes
"""
