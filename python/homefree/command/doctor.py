# SPDX-License-Identifier: BSD-2-Clause
"""`homefree doctor`: reads the records of processes, finds what is wrong in them, and makes the
document (homefree-doctor(1)), or a text of it.

loader/command/doctor/ runs the program or looks at a process, and hands over the records in memory:
each has a line of numbers (signal and status of the process's end, the length of its name, the size
of the record), its name, and the record. The words, NAME=VALUE: `self`, the path of the command;
`document`, the descriptor of the records; `failed`, how many there should be more; `version` and
`format`, homefree's and the document's; the options; and of a program that was run, `argument` for
each word, `status` or `signal`, and `left_core` where it left a core file. With `log`, the path of
a log (doctor_log.py), or `core`, that of a core file (doctor_core.py) with `exe` and `root`, there
are neither records nor what belongs to them.

State: none. One thread.
"""

from . import asked, doctor_findings, doctor_record, doctor_text, findings, output, start

_WHO = "homefree doctor"


def main(words):
    options = start.options(words)
    command = options["self"][0]
    rules = {rule["rule"]: rule for rule in asked.rules("doctor")}
    of_crash = not {"log", "core", "crash"}.isdisjoint(options)
    if "core" in options or "crash" in options:
        document = _of_core(options, command, rules)
    elif "log" in options:
        document = _of_log(options, rules)
    else:
        document = _document(options, command, rules)
    path = options["output"][0]
    summary = document["summary"]
    if "json" in options:
        output.write(path, output.document(document))
    elif summary["processes"] or of_crash:
        output.write(path, doctor_text.text(document, path, "all" in options))
    if summary["failed"]:
        return start.FAILED
    return start.FINDINGS if summary["errors"] + summary["warnings"] else 0


def _summary(processes, failed, found):
    return {"processes": processes, "failed": failed, **findings.counts(found)}


def _of_log(options, rules):
    from . import doctor_log

    facts, found = doctor_log.read(options["log"][0])
    found = [{**_finding(each, rules[each["rule"]]), "line": each["line"]} for each in found]
    return {
        **output.head(options, "doctor"),
        "log": {**facts, "findings": found},
        "processes": [],
        "summary": _summary(0, 0, found),
    }


def _of_core(options, command, rules):
    from . import doctor_core

    root, executable = (options.get(name, [None])[0] for name in ("root", "exe"))
    if "crash" in options:
        core = doctor_core.read_live(options["crash"][0], command)
    else:
        core = doctor_core.read(options["core"][0], root, executable, command)
    rule = rules[core["finding"]]
    core.update(severity=rule["severity"], remedy=rule["remedy"], help=rule["help"])
    return {
        **output.head(options, "doctor"),
        **core,
        "processes": [],
        "summary": _summary(0, 0, [rule]),
    }


def _document(options, command, rules):
    document = output.head(options, "doctor")
    ran = "argument" in options
    if ran:
        document["command"] = _ending(options)
    failed = int(options["failed"][0])
    processes = document["processes"] = []
    for whose, signal, status, data in _handed(int(options["document"][0])):
        try:
            record = doctor_record.read(data)
        except doctor_record.Unreadable as why:
            failed += 1
            start.complain(_WHO, f"cannot read the record of {whose}: {why}")
            continue
        if ran and not signal and record.moment == "signal":
            signal = record.signal
        _look_into_files(record, command)
        processes.append(process(record, signal, status, rules))
    found = [each for one in processes for each in one["findings"]]
    document["summary"] = _summary(len(processes), failed, found)
    return document


def _ending(options):
    def number(name):
        return int(options[name][0]) if name in options else None

    return {
        "arguments": options["argument"],
        "status": number("status"),
        "signal": number("signal"),
        "core": "left_core" in options,
    }


def _handed(descriptor):
    """Yields whose each record is, signal, status, and the record."""
    with open(descriptor, "rb") as file:
        file.seek(0)
        for line in file:
            signal, status, length, size = map(int, line.split())
            whose = file.read(length).decode("utf-8", "surrogateescape")
            yield whose, signal, status, file.read(size)


def _look_into_files(record, command):
    """A process that is looked at from outside has other files; its record has what they hold."""
    if record.moment == "live":
        return
    objects = [
        each
        for each in record.objects
        if each.role == "ordinary"
        and (each.maps or not each.defines.isdisjoint(("malloc", "free")))
    ]
    listed = [(each.path.encode("utf-8", "surrogateescape"), b"", b"") for each in objects]
    for each, (file, _) in zip(objects, asked.inspect(command, ["--listed", "-1"], listed)):
        if file is None or file["error"] is not None:
            continue
        # homefree's own extension has the table of known allocators, and therefore their names.
        if not (file["homefree"]["linked"] and file["module"] == "_homefree"):
            each.published = [member["name"] for member in file["members"]]
            each.contains = [one["name"] for one in file["allocators"] if not one["published"]]


# ---- the document --------------------------------------------------------------------------------


def process(record, signal, status, rules):
    """A process in the document. signal, status: how it ended, 0 if that is unknown; rules: the
    table, by name."""
    found = doctor_findings.find(record, signal, status)  # counts users, too
    live = record.moment == "live"
    facts = {
        "pid": record.pid,
        "program": record.program,
        "recorded": record.moment,
        "routing": None if record.routing == "unknown" else record.routing == "on",
    }
    if live:
        facts["homefree"] = record.routing != "none"
        facts["unseen"] = record.unseen
    return {
        **facts,
        "preload": record.preload,
        "heap": record.heap,
        "allocators": [row for each in record.objects for row in _allocators(each, live)],
        "objects": [_object(each, live) for each in record.objects],
        "findings": [_finding(each, rules[each["rule"]]) for each in found],
    }


def _finding(found, rule):
    return {
        "rule": found["rule"],
        "severity": rule["severity"],
        "message": found["message"],
        "remedy": rule["remedy"],
        "help": rule["help"],
        "count": found["count"],
        "names": found["names"],
    }


def _allocators(each, live):
    """A row for each of an object's allocators. name: None of one that homefree does not know."""
    inside = each.inside()
    if each.role in ("linker", "satellite") or not (
        each.role == "homefree" or inside or each.serves or each.users > 0
    ):
        return
    name, foreign = inside[0] if inside else (None, None)
    yield _allocator(each, live, each.allocator() or name, foreign)
    for name, foreign in inside[1:]:
        # The others that CPython's file holds are not in use.
        if foreign is not None or not each.cpython:
            yield _allocator(each, live, name, foreign)


def _allocator(each, live, name, foreign):
    # From outside it cannot be seen which of several has mapped a page.
    unknown = live and len(each.foreign) > 1
    return {
        "name": name,
        "object": each.path,
        "users": each.users,
        "heap": each.heap,
        "home": foreign is not None and foreign.home,
        "mapped": None if unknown else foreign.mapped if foreign is not None else 0,
        "mapped_in_object": sum(one.mapped for one in each.foreign),
    }


def _object(each, live):
    return {
        "path": each.path,
        "soname": each.soname,
        "namespace": each.namespace,
        "role": each.role,
        "static_tls": each.static_tls,
        **({"linked": each.linked} if live else {}),
        **{kind: [target.path for target in targets] for kind, targets in each.calls.items()},
        "routed": each.routed,
        "refused": each.refused,
        "out_of_reach": each.reach,
    }
