# SPDX-License-Identifier: BSD-2-Clause
"""`homefree doctor` as text: how the program ended, each process's allocators, the objects that use
other ones than most, routing and findings, and then what to do.

State: none.
"""

from . import findings
from .terminal import Page, base_name, clean, plural, signal_name, size

_MOMENTS = {
    "exit": "at its end",
    "start": "at its start",
    "signal": "when a signal ended it",
    "asked": "on request",
    "live": "while it runs",
}


def text(document, path, every):
    """The text of a document that goes to `path`; every: with all objects. Result: bytes."""
    page = Page(path)
    if "command" in document:
        page.line(f"{_ending(document['command'])}.")
        page.line()
    remedies = {}
    if "homefree_core" in document:
        from . import doctor_core_text  # which is not where homefree is pure Python

        doctor_core_text.lines(page, document)
        remedies = {document["finding"]: {**document, "rule": document["finding"]}}
    if "log" in document:
        _log(page, document["log"])
        remedies = {each["rule"]: each for each in document["log"]["findings"]}
    for process in document["processes"]:
        title = clean(process["program"] or "(unnamed)")
        moment = _MOMENTS[process["recorded"]]
        page.line(f"{page.styled('bold', title)}, process {process['pid']}, {moment}")
        page.title("Allocators:")
        _allocators(page, process)
        _objects(page, process, every)
        _routing(page, process)
        page.line("Findings:" if process["findings"] else "Findings: none.")
        findings.lines(page, process["findings"], _message)
        page.line()
        for finding in process["findings"]:
            remedies.setdefault(finding["rule"], finding)
    findings.remedies(page, findings.worst_first(remedies.values()))
    return page.bytes()


def _log(page, log):
    found = log["findings"]
    what = "stdin" if log["path"] == "-" else clean(log["path"])
    page.line(f"{page.styled('bold', what)}, {log['lines']} line{plural(log['lines'])}")
    if log["frames"]:
        page.title("The thread of Python that died:")
        for frame in log["frames"]:
            page.line(f"  {frame}")
    if log["modules"]:
        page.title("Extension modules of:")
        page.wrapped("  ", ", ".join(log["modules"]))
    page.line()
    page.line("Findings:" if found else "Findings: none.")
    findings.lines(page, found, _told)
    page.line()


def _told(finding):
    times = f", {finding['count']} times" if finding["count"] > 1 else ""
    names = ", ".join(finding["names"])
    return finding["message"] + times + (f": {names}" if names else "")


def _ending(command):
    program = clean(command["arguments"][0])
    if command["signal"] is None:
        return f"{program} exited with status {command['status']}"
    core = " and left a core file" if command["core"] else ""
    return f"{program} was ended by {signal_name(command['signal'])}{core}"


# ---- allocators and their users --------------------------------------------------------------


def _use(process, allocator):
    users = allocator["users"]
    if allocator["heap"]:
        blocks = process["heap"].get("allocated")
        return "the heap" + (f", {size(blocks)} in blocks" if blocks is not None else "")
    if allocator["name"] == "homefree":
        return "forwards to the heap"
    if users:
        return f"used by {users} object{plural(users)}"
    if allocator["home"]:
        return "its own; homefree sends its pointers home"
    return "used by no object" if allocator["name"] in (None, "libc") else "its own"


def _allocators(page, process):
    rows = process["allocators"]
    for row, following in zip(rows, [*rows[1:], None]):
        name = clean(row["name"] or "unknown")
        mapped = f", {size(row['mapped'])} mapped" if row["mapped"] else ""
        page.line(f"  {name:<10} {clean(row['object'])}: {_use(process, row)}{mapped}")
        last = following is None or following["object"] != row["object"]
        if last and row["mapped"] is None and row["mapped_in_object"]:
            page.line(f"{'':12} {size(row['mapped_in_object'])} mapped by these together")


def _kind(each, libcs):
    """ "silent": an object that calls no allocator by name; "usual": one that allocates from libc,
    frees to it, and is fully routed."""
    if not any(each[name] for name in ("malloc", "free", "new", "delete")):
        return "silent"
    usual = libcs.issuperset(each["malloc"] + each["free"]) and not each["refused"]
    return "usual" if usual else "other"


def _objects(page, process, every):
    objects = [each for each in process["objects"] if each["role"] in ("ordinary", "runtime")]
    libcs = {
        each["path"] for each in process["objects"] if (each["soname"] or "").startswith("libc.so")
    }
    known = {row["object"]: row["name"] for row in reversed(process["allocators"]) if row["name"]}
    kinds = [_kind(each, libcs) for each in objects]
    shown = [each for each, kind in zip(objects, kinds) if every or kind == "other"]
    if shown:
        page.title("Objects (whose malloc, whose free; slots routed, slots refused):")
    for each in shown:
        where = f" (namespace {each['namespace']})" if each["namespace"] else ""
        owners = ", ".join(
            ", ".join(clean(known.get(path) or base_name(path)) for path in each[function]) or "-"
            for function in ("malloc", "free")
        )
        page.line(f"  {clean(each['path'])}{where}: {owners}; {each['routed']}, {each['refused']}")
    if not every:
        usual, silent = kinds.count("usual"), kinds.count("silent")
        page.line()
        page.line(
            f"{usual} {'other ' if shown else ''}object{'s use' if usual != 1 else ' uses'} libc's "
            f"malloc and free; {silent} use{'s' if silent == 1 else ''} no allocator by name "
            "(--all lists them)."
        )


def _routing(page, process):
    if process.get("unseen") is not None:
        page.line()
        page.line(f"Not seen: {clean(process['unseen'])}.")
    objects = process["objects"]
    many = f"{len(objects)} objects"
    page.line()
    if not process.get("homefree", True):
        page.line(f"Routing: none; homefree is not in this process. {many}.")
    elif process["routing"] is None:
        page.line(f"Routing: unknown; {many}.")
    else:
        beyond = sum(
            each["out_of_reach"] is not None and each["role"] != "linker" for each in objects
        )
        page.line(
            f"Routing: {'on' if process['routing'] else 'off'}; {many}, "
            f"{sum(each['routed'] for each in objects)} slots look up the owner first, "
            f"{sum(each['refused'] for each in objects)} were left alone, "
            f"{beyond} object{' is' if beyond == 1 else 's are'} out of reach."
        )
    page.line()


def _message(finding):
    names = finding["names"]
    more = ", ..." if finding["count"] > len(names) else ""
    return finding["message"] + (": " if names else "") + ", ".join(names) + more
