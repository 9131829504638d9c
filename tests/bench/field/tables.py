"""The results of the field benchmark as text: a terminal's tables, and the page in Markdown."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import bench  # noqa: E402
import figures  # noqa: E402
import python_bench  # noqa: E402
import real  # noqa: E402
from samples import CLASSES, FAST_PATHS, PROGRAMS, THREADED, THREADS  # noqa: E402

MISSING = "–"


def title_of(work):
    for known in (PROGRAMS, CLASSES, real.WORKS):
        if work in known:
            return known[work][0]
    return work


def seconds(document, work, way, figure, part="programs"):
    """ "0.412 (0.40..0.43)": the median, and the quartiles."""
    values = document.get(part, {}).get(work, {}).get(way, {}).get(figure)
    if not values:
        return MISSING
    low, high = bench.quartiles(values)
    return f"{figures.statistics.median(values):.3f} ({low:.2f}..{high:.2f})"


def mib(document, work, way, figure):
    value = figures.median(document, "memory", work, way, figure)
    return MISSING if value is None else f"{value / 1024:.1f}"


def mean_line(document, part, figure, ways, rival):
    """The geometric means of the ratios to a rival, or to the best peer."""
    cells = []
    for way in ways:
        found = []
        for work in document.get(part, {}):
            base = rival or figures.best_peer(document, part, work, figure)
            value = base and figures.ratio(document, part, work, way, base, figure)
            if value:
                found.append(value)
        cells.append(f"{figures.geometric_mean(found):.3f}" if found else MISSING)
    return cells


def verdict_table(rows):
    return [["what", "measured", "wanted", "", "beside"], *(row.cells() for row in rows)]


def time_table(document, ways, titles, figure, part="programs"):
    lines = [["program", *(titles[way] for way in ways)]]
    for work in document.get(part, {}):
        cells = [seconds(document, work, way, figure, part) for way in ways]
        lines.append([title_of(work), *cells])
    lines.append(
        ["mean of ratios to the best peer", *mean_line(document, part, figure, ways, None)]
    )
    return lines


def real_table(document, ways, titles):
    """Seconds, MiB and thousands of page faults: the least of the samples."""
    ways = [way for way in ways if any(way in row for row in document["real"].values())]
    lines = [["program", *(titles[way] for way in ways)]]
    for work, row in document["real"].items():
        cells = []
        for way in ways:
            time, peak, faults = (
                figures.least(document, work, way, figure)
                for figure in ("cpu", "peak_kib", "faults")
            )
            shown = way in row and time is not None
            cells.append(
                f"{time:.3f} / {peak / 1024:.0f} / {faults / 1000:.1f}" if shown else MISSING
            )
        lines.append([title_of(work), *cells])
    cells = []
    for way in ways:
        means = [figures.real_ratios(document, way, one) for one in ("cpu", "peak_kib")]
        shown = [f"{figures.geometric_mean(found.values()):.3f}" for found in means if found]
        cells.append(" / ".join(shown) or MISSING)
    lines.append(["mean of ratios to glibc's", *cells])
    return lines


def memory_table(document, ways, titles):
    lines = [["program", *(titles[way] for way in ways)]]
    figures_shown = ("peak_kib", "after_rss_kib", "settled_rss_kib")
    for work in document.get("memory", {}):
        cells = [" / ".join(mib(document, work, way, one) for one in figures_shown) for way in ways]
        lines.append([title_of(work), *cells])
    means = [mean_line(document, "memory", one, ways, "jemalloc") for one in figures_shown]
    lines.append(["mean of ratios to jemalloc's", *(" / ".join(cells) for cells in zip(*means))])
    return lines


def instruction_table(document, ways, titles):
    lines = [["path", *(titles[way] for way in ways)]]
    for path, values in document.get("instructions", {}).items():
        cells = [f"{values[way]:.0f}" if way in values else MISSING for way in ways]
        lines.append([FAST_PATHS.get(path, path), *cells])
    return lines


def scaling_table(document, ways, titles):
    ways = [way for way in ways if any(way in row for row in document["scaling"].values())]
    lines = [["program, threads", *(titles[way] for way in ways)]]
    for program in THREADED:
        for threads in THREADS:
            work = f"{program} {threads}"
            if work in document["scaling"]:
                cells = [seconds(document, work, way, "real", "scaling") for way in ways]
                lines.append([f"{title_of(program)}, {threads}", *cells])
    return lines


def python_table(document):
    samples = document["python"]["samples"]
    table = python_bench.summary(samples)
    hows = list(table)
    lines = [["work", "stock, ms", *hows]]
    for work, rivals in samples.items():
        stock = figures.statistics.median(rivals["stock"]) * 1e3
        cells = ["{:.3f} ({:.3f}..{:.3f})".format(*table[how][work]) for how in hows]
        lines.append([python_bench.TITLES.get(work, work), f"{stock:.2f}", *cells])
    means = [f"{python_bench.geometric_mean(table[how]):.3f}" for how in hows]
    lines.append(["geometric mean", "", *means])
    return lines


def tables(document, titles, rows):
    """[(heading, explanation, lines)] of what was measured."""
    ways = list(titles)
    made = [("Wanted and reached", "Ratios; in parentheses quartiles.", verdict_table(rows))]
    if document.get("programs"):
        about = "Seconds: the median, in parentheses the quartiles."
        made.append(("Time", about, time_table(document, ways, titles, "real")))
        about = "Seconds of all threads, and of child processes."
        made.append(("Processor time", about, time_table(document, ways, titles, "cpu")))
    if document.get("classes"):
        about = "Seconds of all threads. Written anew after the programs in parentheses."
        lines = time_table(document, ways, titles, "cpu", "classes")
        made.append(("Classes of mimalloc-bench", about, lines))
    if document.get("real"):
        about = (
            "Preloaded: seconds of processor time / peak MiB / thousands of page faults; "
            "the least of the rounds."
        )
        made.append(("Real programs", about, real_table(document, ways, titles)))
    if document.get("memory"):
        about = (
            "Resident MiB: the peak / after the work / when it has settled, which is after "
            f"{document.get('settle_seconds', '?')} seconds with next to no work."
        )
        made.append(("Memory", about, memory_table(document, ways, titles)))
    if document.get("instructions"):
        about = "Instructions of one call with its free, counted by callgrind."
        made.append(("Fast paths", about, instruction_table(document, ways, titles)))
    if document.get("scaling"):
        about = "Seconds for the same work, whatever the number of threads."
        made.append(("Threads", about, scaling_table(document, ways, titles)))
    if document.get("python", {}).get("samples"):
        about = (
            f"{document['python'].get('version', 'CPython')}: processor time as a ratio to stock, "
            "the median of the rounds' own ratios; in parentheses their quartiles."
        )
        made.append(("Python", about, python_table(document)))
    return made


def aligned(lines):
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    shown = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)) for line in lines]
    shown.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in shown)


def as_text(document, titles, rows):
    parts = [about_machine(document), about_peers(document)]
    for heading, about, lines in tables(document, titles, rows):
        parts.append(f"{heading}. {about}\n\n{aligned(lines)}")
    return "\n\n".join(parts) + "\n"


def pipes(lines):
    cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    cells.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)


def as_markdown(document, titles, rows, picture):
    """picture: the path of the SVG file, as seen from the page; None: no picture."""
    parts = [
        "# The field",
        "homefree beside other allocators, on the same work. Made by `tests/bench/run --publish`; "
        "[the benchmarks' page](README.md#the-field) says what each program stands for and how "
        "it is measured.",
        about_machine(document),
        pipes([["allocator", "version", "from"], *peer_lines(document)]),
    ]
    if picture:
        alt = "Time and memory of each program and allocator, as the tables below have them"
        parts.append(f"![{alt}]({picture})")
    for heading, about, lines in tables(document, titles, rows):
        parts.append(f"## {heading}\n\n{about}\n\n{pipes(lines)}")
    if document.get("failures"):
        failed = "\n".join(f"- {failure}" for failure in document["failures"])
        parts.append(f"## Not measured\n\n{failed}")
    return "\n\n".join(parts) + "\n"


def about_machine(document):
    machine = document.get("machine", {})
    words = [f"{name}: {value}" for name, value in machine.items()]
    return "; ".join([*words, f"rounds: {document.get('rounds')}"]) + "."


def peer_lines(document):
    return [
        [facts["title"], facts["version"], facts["from"]]
        for facts in document.get("allocators", {}).values()
    ]


def about_peers(document):
    return "\n".join("  ".join(line) for line in peer_lines(document))
