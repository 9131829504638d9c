# SPDX-License-Identifier: BSD-2-Clause
"""`homefree report` as text: a sentence, the findings, then who frees whose blocks.

Of a stack is shown what helps: frames that have a name, and no interpreter below Python's frames.

State: none.
"""

from . import findings
from .report_compare import caller
from .terminal import Page, base_name, clean, plural, size

_SEVERITIES = "error", "warning", "note"
_LINES_MAX = 10  # of each stack
_PAIRS_MAX = 12
_CHANGES_MAX = 50
_SUPPRESSED_MAX = 20
_COLUMN_MIN = 8
_ACCESSES = "a read", "a write", "an access"
_INTERPRETERS = "libpython", "python"


def text(document, comparison):
    """The text of a document and a Comparison or None. Result: bytes."""
    page = Page()
    _summary(page, document)
    _gaps(page, document)
    told = _findings(page, document)
    _suppressed(page, document["suppressed"])
    _matrix(page, document["matrix"])
    if comparison is not None:
        _changes(page, comparison)
    left = [rule for rule in document["rules"] if rule["rule"] not in told]
    if left:
        page.line()
    findings.remedies(page, left)
    return page.bytes()


def _times(count):
    return f"{count} time{plural(count)}"


def _processes(count):
    return f"{count} process{'' if count == 1 else 'es'}"


# ---- the sentence ----------------------------------------------------------------------------


def _summary(page, document):
    processes = document["processes"]
    where = _processes(len(processes))
    if document["findings"]:
        counts = dict.fromkeys(_SEVERITIES, 0)
        for rule in document["rules"]:
            counts[rule["severity"]] += rule["findings"]
        parts = [f"{many} {name}{plural(many)}" for name, many in counts.items() if many]
        worst = document["findings"][0]
        sentence = (
            f"{', '.join(parts)} in {where}; the worst is {worst['rule']}, "
            f"{_times(worst['count'])}."
        )
    else:
        counted = all(process["mode"] == "count" for process in processes)
        blocks = sum(process["blocks"] for process in processes)
        crossed = sum(
            pair["blocks"]
            for pair in document["matrix"]
            if pair["allocated_by"] != pair["freed_by"]
        )
        sentence = (
            f"{'Blocks counted' if counted else 'Nothing found'} in {where}: "
            f"{blocks} blocks allocated, {crossed} freed by another object."
        )
    page.line(page.styled("bold", sentence))


def _gaps(page, document):
    cut = sum(process["truncated"] for process in document["processes"])
    dropped = sum(process["dropped"] for process in document["processes"])
    left_out = document["left_out"]
    if cut:
        page.line(
            f"{cut} file{' is' if cut == 1 else 's are'} cut short or damaged; "
            "what could be read is shown."
        )
    if dropped:
        page.line(
            f"{dropped} event{' was' if dropped == 1 else 's were'} not recorded, because there "
            "was no room for them."
        )
    if left_out:
        page.line(
            f"{_processes(left_out)} {'is' if left_out == 1 else 'are'} left out: the directory "
            "was full, or the file could not be read."
        )


# ---- findings --------------------------------------------------------------------------------


def _is_access(finding):
    """Whether the second side read or wrote the block, rather than freed it."""
    return finding["rule"] == "use-after-free" or finding["freed"]["function"] in _ACCESSES


def _findings(page, document):
    """Result: the rules whose remedies were told."""
    groups = {}
    for finding in document["findings"]:
        allocated = finding["allocated"]
        group = allocated["allocator"], allocated["allocator_object"], finding["freed"]["object"]
        groups.setdefault(group, []).append(finding)
    told = set()
    for group in groups.values():
        page.title(_group_title(page, group[0]))
        for finding in group:
            _finding(page, finding, finding["rule"] not in told)
            told.add(finding["rule"])
    more = sum(rule["findings"] for rule in document["rules"]) - len(document["findings"])
    if more > 0:
        page.line()
        page.line(f"{more} more findings; --json and --html show all.")
    return told


def _group_title(page, finding):
    allocator = finding["allocated"]["allocator"]
    holder, freer = finding["allocated"]["allocator_object"], finding["freed"]["object"]
    most = (page.width or 0) // 3
    title = "Blocks of an unknown allocator"
    if allocator is not None:
        title = f"Blocks of {'the ' if allocator == 'heap' else ''}{clean(allocator)}"
    if holder is not None:
        title += f" in {page.path(holder, most)}"
    if freer is not None:
        how = "accessed" if _is_access(finding) else "freed"
        title += f", {how} by {page.path(freer, most)}"
    return title


def _place(place):
    """ "make_table (table.c:12) in libx.so", or what is known of it."""
    if place["object"] is None:
        return "unknown code"
    found = place["symbol"]
    found = clean(found) if found is not None else f"{place['offset']:#x}"
    if place["file"] is not None:
        found += f" ({clean(base_name(place['file']))}:{place['line'] or 0})"
    return f"{found} in {clean(base_name(place['object']))}"


def _side(page, what, side):
    if side is None or (side["object"] is None and side["function"] is None):
        return
    line = f"    {what:<11} {_place(side)}"
    if side["function"] is not None:
        line += f", with {side['function']}"
    of_python = caller(side)
    if of_python is not None:
        line += f", called by {clean(of_python[0])}:{of_python[1] or 0}"
    page.line(line)


def _finding(page, finding, with_remedy):
    rule, severity, first = finding["rule"], finding["severity"], finding["first_freed"]
    head = f"  {page.styled(severity, f'{severity:<7}')}  {rule}  {_times(finding['count'])}"
    if finding["bytes"]:
        head += f", {size(finding['bytes'])}"
    if finding["asked"] is not None and finding["said"] is not None:
        head += f"; allocated with {finding['asked']}, freed with {finding['said']}"
    if finding["interpreter"] is not None:
        head += f"; first in interpreter {finding['interpreter']}"
    page.line(head)
    access, twice = _is_access(finding), rule == "double-free"
    earlier = "others freed" if rule == "boundary-leak" else "freed"
    _side(page, "allocated", finding["allocated"])
    _side(page, "freed first" if twice else earlier, first)
    second = "accessed" if access else "freed again" if twice else "freed"
    _side(page, second, finding["freed"])
    if finding["without_homefree"] is not None:
        page.wrapped("    without homefree: ", finding["without_homefree"])
    if with_remedy:
        page.wrapped("    what to do: ", finding["remedy"])
        findings.more(page, "    ", finding)
    _stack(page, "allocation", finding["allocated"])
    if first is not None:
        _stack(page, "free" if access else "first free", first)
    _stack(page, "access" if access else "free", finding["freed"])


# ---- stacks ----------------------------------------------------------------------------------


def _stack(page, what, side):
    native, lines = side["stack"], side["python"]
    if not native and not lines:
        return
    page.line(f"    {page.styled('dim', f'stack of the {what}')}")
    shown = [f"Python  {_python_place(line)}" for line in lines[:_LINES_MAX]]
    if len(lines) > _LINES_MAX:
        shown.append(f"... {len(lines) - _LINES_MAX} more")
    for line in shown + _native_lines(native, bool(lines)):
        page.line(f"      {line}")


def _python_place(line):
    function, file = clean(line["function"] or "?"), clean(line["file"] or "?")
    return f"{function} ({file}:{line['line'] or 0})"


def _native_lines(frames, has_python):
    lines, unnamed = [], []
    any_named = any(frame["symbol"] is not None for frame in frames)
    for number, frame in enumerate(frames):
        left = len(frames) - number
        if has_python and number > 0 and _is_interpreter(frame):
            lines += _folded(unnamed)
            return [*lines, f"... {left} of the interpreter"]
        if len(lines) >= _LINES_MAX:
            return [*lines, f"... {left + len(unnamed)} more"]
        if frame["symbol"] is None and any_named and number > 0:
            unnamed.append(frame)
        else:
            lines += _folded(unnamed)
            lines.append(_place(frame))
            unnamed = []
    return lines + _folded(unnamed)


def _is_interpreter(frame):
    return frame["object"] is not None and base_name(frame["object"]).startswith(_INTERPRETERS)


def _folded(frames):
    """Frames without names, as one line or none."""
    if not frames:
        return []
    objects = [clean(base_name(frame["object"])) for frame in frames if frame["object"] is not None]
    objects = list(dict.fromkeys(objects)) or ["unknown code"]
    names = ", ".join(objects[:2]) + (" and others" if len(objects) > 2 else "")
    return [f"... {len(frames)} without a name in {names}"]


# ---- the rest --------------------------------------------------------------------------------


def _suppressed(page, suppressed):
    if not suppressed:
        return
    page.title("Suppressed")
    for item in suppressed[:_SUPPRESSED_MAX]:
        why = f"  ({clean(item['why'])})" if item["why"] is not None else ""
        pattern = clean(item["pattern"]) if item["pattern"] is not None else "unknown"
        page.line(f"  {_times(item['count'])}  {pattern}{why}")
    if len(suppressed) > _SUPPRESSED_MAX:
        page.line(f"  ... {len(suppressed) - _SUPPRESSED_MAX} more")


def _matrix(page, matrix):
    """The largest pairs, those of different objects first."""
    if not matrix:
        return
    titles = "      blocks        bytes  threads  "
    pairs = sorted(matrix, key=lambda pair: pair["allocated_by"] == pair["freed_by"])
    pairs = pairs[:_PAIRS_MAX]
    column = max((page.width - len(titles) - 2) // 2, _COLUMN_MIN) if page.width else 0
    names = [
        tuple(page.path(pair[side] or "unknown", column) for side in ("allocated_by", "freed_by"))
        for pair in pairs
    ]
    widest = max(len("allocated by"), *(len(allocated) for allocated, _ in names))
    widest = min(widest, column) if column else widest
    page.title("Who frees whose blocks")
    page.line(f"{titles}{'allocated by':<{widest}}  freed by")
    for pair, (allocated, freed) in zip(pairs, names):
        page.line(
            f"{pair['blocks']:>12}  {size(pair['bytes']):>11}  {pair['threads']:>7}  "
            f"{allocated:<{widest}}  {freed}"
        )
    if len(matrix) > len(pairs):
        page.line(f"{'...':>12}  {len(matrix) - len(pairs)} more")


def _compared(side):
    name = clean(base_name(side.object)) if side.object is not None else "unknown code"
    return name if side.symbol is None else f"{clean(side.symbol)} in {name}"


def _changes(page, comparison):
    counts = comparison.counts
    page.title(
        f"Since {clean(comparison.old)}: {counts['new']} new, {counts['gone']} gone, "
        f"{counts['more']} more often, {counts['fewer']} less often, {counts['same']} the same"
    )
    for item in comparison.items[:_CHANGES_MAX]:
        page.line(
            f"  {item.change:<5}  {clean(item.rule)}  {item.before} -> {item.after}  "
            f"allocated by {_compared(item.allocated)}, freed by {_compared(item.freed)}"
        )
    if len(comparison.items) > _CHANGES_MAX:
        page.line(f"  ... {len(comparison.items) - _CHANGES_MAX} more")
