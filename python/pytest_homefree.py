# SPDX-License-Identifier: BSD-2-Clause
"""The pytest plugin's options, and where it begins: `pytest --homefree`.

This module is apart from the package `homefree`, because pytest imports it in every run, and
importing the package loads the heap into the process. Without --homefree nothing else is imported.

PYTEST_DONT_REWRITE: as in homefree/__init__.py.
"""

import pytest

# (option, what it is called in the help, help)
_VALUES = (
    (
        "report",
        "PATH",
        "keep the report of the processes in this directory, for `homefree report PATH`",
    ),
    ("json", "FILE", "write the findings, with their tests, to FILE"),
    ("baseline", "FILE", "permit the findings that FILE lists; new ones alone fail"),
    ("write-baseline", "FILE", "write all findings to FILE, and fail none of them"),
)


def pytest_addoption(parser):
    group = parser.getgroup("homefree", "homefree: who allocated, who freed?")
    # Two options without values, not one with an optional value, which would take the path after
    # it: `pytest --homefree tests`.
    group.addoption(
        "--homefree",
        dest="homefree",
        action="store_const",
        const="report",
        help="run the tests in diagnostics mode; a test with a finding of severity error fails",
    )
    group.addoption(
        "--homefree=strict",
        dest="homefree",
        action="store_const",
        const="strict",
        help="the same, and warnings fail as well",
    )
    group.addoption(
        "--homefree-leaks",
        action="store_true",
        help="with --homefree: a test fails if it loses memory: blocks that a module allocated "
        "while the test's body ran, that nobody freed, and that nothing points to any more",
    )
    parser.addini(
        "homefree_leaks", "with --homefree: as --homefree-leaks does", type="bool", default=False
    )
    for name, value, text in _VALUES:
        group.addoption(
            f"--homefree-{name}",
            dest=f"homefree_{name.replace('-', '_')}",
            metavar=value,
            help=f"with --homefree: {text}",
        )


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config):
    """Before pytest captures output and loads a conftest.py: diagnoses the process, which takes a
    new one."""
    options = early_config.known_args_namespace
    if options.homefree:
        try:
            from homefree.pytest import _phases, _supervisor
        except ImportError as error:  # homefree in pure Python says why
            raise pytest.UsageError(str(error)) from None

        _supervisor.ensure_diagnosed(early_config)
        _phases.begin()
    yield


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "homefree(allow, leaks): allow permits findings in this test; it is a pattern, or a list "
        "of patterns, for the rule ('foreign-free') or for 'RULE ALLOCATED FREED', where each side "
        "is 'OBJECT:FUNCTION:SYMBOL' as --homefree-json shows them. leaks is True or False: "
        "whether the test fails if it loses memory.",
    )
    config.addinivalue_line(
        "markers",
        "homefree_growth(cycles=20, limit='64 KiB'): runs the body of this test so many times, and "
        "fails if memory grows by more than the limit while it does.",
    )
    if config.option.homefree:
        from homefree.pytest import _leaks, _phases

        leaks = _leaks.Leaks(config)
        config.pluginmanager.register(leaks, "homefree-leaks")
        config.pluginmanager.register(_phases.Recorder(config, leaks), "homefree-recorder")
        return
    for name in "leaks", *(name for name, _, _ in _VALUES):
        if getattr(config.option, f"homefree_{name.replace('-', '_')}"):
            raise pytest.UsageError(f"--homefree-{name} goes with --homefree")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    marker = pyfuncitem.get_closest_marker("homefree_growth")
    if marker is None or getattr(pyfuncitem, "_homefree_grows", False):
        return None
    from homefree.pytest import _growth

    def body():
        pyfuncitem.ihook.pytest_pyfunc_call(pyfuncitem=pyfuncitem)

    pyfuncitem._homefree_grows = True  # the other plugins' turn
    try:
        _growth.run(pyfuncitem, marker, body)
    finally:
        del pyfuncitem._homefree_grows
    return True
