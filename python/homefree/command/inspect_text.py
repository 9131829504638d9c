# SPDX-License-Identifier: BSD-2-Clause
"""`homefree inspect` as text: a summary, then what was found, the worst first, and what to do.

Several objects are shown by rule, and what is the same for many of them is said once. One object,
or with --all each of them, is shown with all that is known of it.

State: none.
"""

import os

from . import findings
from .terminal import Page, clean, plural

_OBJECTS_MAX = 10  # of each rule
_CLEAN_MAX = 20
_NAMES_BRIEF = 2
_NAME_MAX = 60  # a mangled name can fill a screen


def text(inspected, whole):
    """The text of an Inspected; whole: with clean objects, and every object by itself."""
    page = Page()
    one = len(inspected.containers) == 1 if inspected.root is not None else inspected.given == 1
    base = inspected.containers[0].directory if one and inspected.containers else _here()
    shown = [
        file
        for file in inspected.files
        if file["error"] is None and (whole or _found(inspected, file))
    ]
    alone = inspected.files if not inspected.containers and len(inspected.files) == 1 else []
    if not alone:
        _summary(page, inspected, whole, base)
        if whole or (len(shown) == 1 and not inspected.environment):
            page.line()
    if whole or alone or (len(shown) == 1 and not inspected.environment):
        _by_object(page, [file for file in shown or alone if file["error"] is None])
    else:
        _by_rule(page, inspected, base)
    return page.bytes()


def _found(inspected, file):
    return inspected.fails(file) or inspected.matters(file)


def message(finding, most=None):
    """What a finding says, and the names that it found, at most so many of those that it has."""
    names = finding["names"][:most]
    cut = ", ..." if finding["count"] > len(names) else ""
    if finding["rule"] == "embedded-allocator":  # which names them itself
        return finding["message"]
    shown = [name if len(name) <= _NAME_MAX else f"{name[: _NAME_MAX - 3]}..." for name in names]
    return finding["message"] + (": " if shown else "") + ", ".join(shown) + cut


# ---- paths -----------------------------------------------------------------------------------


def _here():
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""


def below(path, base):
    """A path as it is seen from a directory or an archive that it is in."""
    for separator in "!/", "/":
        if base and path.startswith(base + separator):
            return path[len(base) + len(separator) :]
    return path


def relative(path):
    """A path that is below the current directory, as it is seen from there."""
    return below(path, _here())


# ---- the summary -----------------------------------------------------------------------------


def _summary(page, inspected, whole, base):
    groups = [group for group in inspected.groups() if group.files or group.left_out]
    groups = groups or inspected.containers
    if len(groups) > 1:
        objects, found, failed = (
            sum(getattr(group, name) for group in groups) for name in ("objects", "found", "failed")
        )
        page.line(page.styled("bold", _counts("", objects, found, failed)))
    quiet = 0
    for group in sorted(groups, key=lambda group: (-group.failed, -group.found)):
        if whole or len(groups) <= _CLEAN_MAX or group.failed or group.found:
            name = "files" if group is inspected.loose else clean(below(group.name, base))
            start = "" if groups == [inspected.loose] else f"{name}: "
            page.line(_counts(start, group.objects, group.found, group.failed))
        else:
            quiet += 1
    if quiet:
        page.line(f"{quiet} others: clean")
    good = [
        file["path"]
        for file in inspected.loose.files
        if file["error"] is None and not _found(inspected, file)
    ]
    if good and not whole:
        names = ", ".join(clean(below(path, base)) for path in good[:_CLEAN_MAX])
        more = len(good) - _CLEAN_MAX
        page.line(f"Clean: {names}{f' and {more} more' if more > 0 else ''}")


def _counts(start, objects, found, failed):
    if objects:
        line = f"{start}{objects} shared object{plural(objects)}"
        line += f", {found} with errors or warnings" if found else ", clean"
    else:
        line = start + ("nothing inspected" if failed else "no shared objects")
    return line + (f", {failed} problem{plural(failed)}" if failed else "")


# ---- objects ---------------------------------------------------------------------------------


def _by_object(page, files):
    remedies = {}
    for file in files:
        _object(page, file)
        remedies.update((finding["rule"], finding) for finding in file["findings"])
    findings.remedies(page, list(remedies.values()))


def _object(page, file):
    page.line(page.styled("bold", clean(relative(file["path"]))))
    what = file["kind"] if file["kind"] != "other" else "other file"
    if file["module"] is not None:
        what = f"Python module {clean(file['module'])}"
    page.line(f"  {what}, {file['machine']}{_homefree(file)}")
    findings.lines(page, file["findings"], message)
    if not file["findings"]:
        page.line("  clean")
    page.line()


def _homefree(file):
    homefree = file["homefree"]
    if "platform" in file:
        return f", {file['platform']}"
    if homefree["itself"]:
        return ", homefree itself"
    if homefree["linked"]:
        needed = homefree["needed"]
        return ", linked with homefree" + (f" ({clean(needed)})" if needed is not None else "")
    if file["kind"] == "other":
        return ""
    calls = "" if file["allocates"] else " (it calls no malloc)"
    return f", not linked with homefree{calls}"


# ---- rules -----------------------------------------------------------------------------------


def _by_rule(page, inspected, base):
    rules, notes, known = {}, {}, {}
    for file in inspected.files:
        for finding in file.get("findings", ()):
            quiet = (
                finding["severity"] == "note"
                and inspected.rank(finding) is None
                and not inspected.environment
            )
            kind = known if finding.get("known") else notes if quiet else rules
            kind.setdefault(finding["rule"], []).append((file, finding))

    def grave(rule):
        """What makes the command fail comes first, then what is more severe."""
        _, finding = rules[rule][0]
        rank = inspected.rank(finding)
        return (
            rank is None,
            findings.SEVERITIES.index(finding["severity"]),
            rank or 0,
            -len(rules[rule]),
        )

    for rule in sorted(rules, key=grave):
        severity = rules[rule][0][1]["severity"]
        page.line()
        name = f"{page.styled(severity, severity)} {page.styled('bold', rule)}"
        page.line(f"{name}, {_objects(rules[rule])}")
        page.wrapped("  what to do: ", rules[rule][0][1]["remedy"])
        findings.more(page, "  ", rules[rule][0][1])
        _same(page, rules[rule], base)
    for title, quiet in ("Notes", notes), ("Known", known):
        if quiet:
            told = ", ".join(f"{rule} ({_objects(found)})" for rule, found in quiet.items())
            page.line()
            page.line(f"{title}: {told}; --all shows them.")
    if inspected.outdated:
        page.line()
        page.line(f"{inspected.outdated} of the known findings are not there any more.")


def _objects(found):
    count = len({id(file) for file, _ in found})
    return f"{count} object{plural(count)}"


def _same(page, found, base):
    """The objects that have a finding; those of which the same is said, together."""
    groups = {}
    for file, finding in found:
        groups.setdefault(message(finding, _NAMES_BRIEF), []).append((file, finding))
    left = _OBJECTS_MAX
    ranked = sorted(groups.items(), key=lambda group: (-len(group[1]), -group[1][0][1]["count"]))
    for said, group in ranked:
        paths = [clean(below(file["path"], base)) for file, _ in group[:left]]
        if len(group) == 1 and paths:
            page.wrapped("  ", f"{paths[0]}: {clean(said)}")
        elif paths:
            page.wrapped("  ", f"{clean(said)}:")
            for path in paths:
                page.line(f"    {path}")
        left -= len(paths)
    if len(found) > _OBJECTS_MAX:
        page.line(f"  and {len(found) - _OBJECTS_MAX} more; --all and --json show all")
