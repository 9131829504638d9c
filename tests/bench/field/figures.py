"""What follows from the samples of the field benchmark: medians, ratios, means and verdicts. Pure:
the same document gives the same figures.

A document has `programs`, `classes`, `real`, `memory` and `scaling` ({work: {way: {figure:
[values]}}}), `instructions` ({path: {way: value}}), `pairs` ({variant: {figure: [values]}}) and
`python` ({work: {how: [values]}}). What was not measured is absent or empty.
"""

import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "python"))
import bench  # noqa: E402
import python_bench  # noqa: E402

OURS = {"late": "late-loaded", "preloaded": "preloaded"}
# At most so much of a rival's time, or of its memory.
WANTED_MEAN, WANTED_WORST, WANTED_THREADS = 1.00, 1.20, 1.20
WANTED_MEMORY = 1.00
WANTED_CLASS, WANTED_REGROWTH = 1.30, 1.05
WANTED_REAL, WANTED_REAL_WORST, WANTED_REAL_PEAK = 0.76, 1.10, 1.04
WANTED_PAIR, WANTED_ROUTED = 0.95, 1.02
# No less than 0.95 of jemalloc's throughput.
WANTED_SCALING = round(1 / 0.95, 3)
REGROWTH = ("coarse", "fine")
MEMORY = {"peak_kib": "peak memory", "settled_rss_kib": "settled memory"}


def geometric_mean(values):
    return statistics.geometric_mean(values)


def median(document, part, work, way, figure):
    """The median of the samples, or None without any."""
    values = document.get(part, {}).get(work, {}).get(way, {}).get(figure)
    return statistics.median(values) if values else None


def peers_of(document, part, work):
    return [way for way in document.get(part, {}).get(work, {}) if way not in OURS]


def best_peer(document, part, work, figure):
    """The way with the least median of those that are not homefree's; None if there is none."""
    medians = {
        way: value
        for way in peers_of(document, part, work)
        if (value := median(document, part, work, way, figure)) is not None
    }
    return min(medians, key=medians.get) if medians else None


def ratio(document, part, work, way, rival, figure):
    """One median by another; None if one of them is missing."""
    mine = median(document, part, work, way, figure)
    other = median(document, part, work, rival, figure)
    return None if mine is None or not other else mine / other


def quartiles_of_ratios(document, part, work, way, rival, figure):
    ways = document[part][work]
    pairs = zip(ways[way][figure], ways[rival][figure])
    return bench.quartiles([mine / other for mine, other in pairs])


def time_of(document):
    """The figure that is compared: real time, or that of the processors (--by cpu)."""
    return document.get("by", "real")


def ratios_to_best(document, way, part="programs"):
    """{program: (ratio, best peer)}."""
    found, figure = {}, time_of(document)
    for program in document.get(part, {}):
        best = best_peer(document, part, program, figure)
        value = best and ratio(document, part, program, way, best, figure)
        if value:
            found[program] = (value, best)
    return found


def row(what, value, wanted, beside="", quartiles=None):
    made = bench.Row(what, wanted)
    made.value = value
    made.beside = beside
    made.quartiles = quartiles
    if value is None:
        made.why_not = "not measured"
    return made


def program_rows(document, way):
    found = ratios_to_best(document, way)
    title = OURS[way]
    values = [value for value, _ in found.values()]
    rows = [
        row(
            f"{title}: programs / the best peer on each, geometric mean",
            geometric_mean(values) if values else None,
            WANTED_MEAN,
            f"{len(values)} programs",
        )
    ]
    worst = max(found, key=lambda program: found[program][0]) if found else None
    rows.append(one_program(document, f"{title}: worst program", worst, way, WANTED_WORST))
    for program, name in (("short_threads", "birth and death"), ("hand_over", "hand-over")):
        chosen = program if program in found else None
        what = f"{title}: {name} of {'threads' if program == 'short_threads' else 'blocks'}"
        rows.append(one_program(document, what, chosen, way, WANTED_THREADS))
    return rows


def one_program(document, what, program, way, wanted):
    what += " / its best peer"
    if program is None:
        return row(what, None, wanted)
    value, best = ratios_to_best(document, way)[program]
    cut = quartiles_of_ratios(document, "programs", program, way, best, time_of(document))
    return row(what, value, wanted, f"{program} / {best}", cut)


def class_rows(document, way):
    """The worst of the classes, and the buffers that grow, which glibc moves by pages."""
    found = ratios_to_best(document, way, "classes")
    found = {name: value for name, value in found.items() if name not in REGROWTH}
    worst = max(found, key=lambda name: found[name][0]) if found else None
    value, best = found.get(worst, (None, ""))
    grown = {
        name: share
        for name in REGROWTH
        if (share := ratio(document, "classes", name, way, "glibc", time_of(document)))
    }
    slowest = max(grown, key=grown.get) if grown else None
    title = OURS[way]
    return [
        row(
            f"{title}: worst of mimalloc-bench's classes / its best peer",
            value,
            WANTED_CLASS,
            worst and f"{worst} / {best}" or "",
        ),
        row(
            f"{title}: a buffer grown by realloc / glibc's",
            grown.get(slowest),
            WANTED_REGROWTH,
            slowest or "",
        ),
    ]


def least(document, work, way, figure):
    """Of a real program's samples, or None without any."""
    values = document.get("real", {}).get(work, {}).get(way, {}).get(figure)
    return min(values) if values else None


def real_ratios(document, way, figure, rival="glibc"):
    """{work: ratio of the least samples}; rival None: the best peer on each work."""
    found = {}
    for work, ways in document.get("real", {}).items():
        peers = [rival] if rival else [peer for peer in ways if peer not in OURS]
        others = [value for peer in peers if (value := least(document, work, peer, figure))]
        mine = least(document, work, way, figure)
        if mine and others:
            found[work] = mine / min(others)
    return found


def real_rows(document):
    times = real_ratios(document, "preloaded", "cpu")
    peaks = real_ratios(document, "preloaded", "peak_kib")
    best = real_ratios(document, "preloaded", "cpu", None)
    worst = max(best, key=best.get) if best else None
    count = f"{len(times)} programs"
    return [
        row(
            "real programs: processor time / glibc's, geometric mean",
            geometric_mean(times.values()) if times else None,
            WANTED_REAL,
            count,
        ),
        row(
            "real programs: the worst / its best peer",
            best.get(worst),
            WANTED_REAL_WORST,
            worst or "",
        ),
        row(
            "real programs: peak memory / glibc's, geometric mean",
            geometric_mean(peaks.values()) if peaks else None,
            WANTED_REAL_PEAK,
            count,
        ),
    ]


def memory_rows(document, way):
    rows = []
    for figure, title in MEMORY.items():
        found = [
            value
            for program in document.get("memory", {})
            if (value := ratio(document, "memory", program, way, "jemalloc", figure))
        ]
        rows.append(
            row(
                f"{OURS[way]}: {title} / jemalloc's, geometric mean",
                geometric_mean(found) if found else None,
                WANTED_MEMORY,
                f"{len(found)} programs",
            )
        )
    return rows


def scaling_row(document, way):
    figure = time_of(document)
    found = {
        work: value
        for work in document.get("scaling", {})
        if (value := ratio(document, "scaling", work, way, "jemalloc", figure))
    }
    worst = max(found, key=found.get) if found else None
    what = f"{OURS[way]}: 1 to 16 threads, worst time / jemalloc's"
    if worst is None:
        return row(what, None, WANTED_SCALING)
    cut = quartiles_of_ratios(document, "scaling", worst, way, "jemalloc", figure)
    return row(what, found[worst], WANTED_SCALING, f"{worst} threads", cut)


def pair_rows(document):
    """Of ../pairs.c, which has one thread, one processor, and the least of many repeats."""
    pairs = document.get("pairs", {})
    sampler = bench.Sampler(None, None)
    sampler.samples = pairs
    preloaded = {
        name: statistics.median(pairs[name]["pair.mix"])
        for name in pairs
        if name not in ("homefree", "glibc", "routed")
    }
    rows = []
    for what, ours, theirs, wanted in (
        (
            "module pair, late-loaded / best preloaded peer",
            "homefree",
            min(preloaded, key=preloaded.get) if preloaded else None,
            WANTED_PAIR,
        ),
        ("libc's pair, routed / unrouted", "routed", "glibc", WANTED_ROUTED),
    ):
        if ours in pairs and theirs in pairs:
            rows.append(bench.ratio_row(sampler, what, ours, theirs, "pair.mix", wanted))
            rows[-1].beside += f" ({theirs})"
        else:
            rows.append(row(what, None, wanted))
    return rows


def python_rows(document):
    samples = document.get("python", {}).get("samples", {})
    table = python_bench.summary(samples)
    rows = []
    for how, wanted_mean in python_bench.WANTED_MEAN.items():
        title = {"arena": "Python with install()", "full": 'Python with "full"'}[how]
        works = table.get(how, {})
        what = f"{title} / stock, geometric mean"
        mean = python_bench.geometric_mean(works) if works else None
        rows.append(row(what, mean, wanted_mean, f"{len(works)} works"))
        if how in python_bench.WANTED_EACH:
            worst = max(works, key=lambda work: works[work][0]) if works else None
            value, low, high = works.get(worst, (None, None, None))
            what = f"{title} / stock, worst work"
            cut = None if value is None else (low, high)
            rows.append(row(what, value, python_bench.WANTED_EACH[how], worst or "", cut))
    return rows


def verdicts(document):
    """The rows of the table of wanted ratios."""
    rows = []
    for way in OURS:
        rows += program_rows(document, way) + class_rows(document, way)
    rows += real_rows(document)
    for way in OURS:
        rows += memory_rows(document, way)
    rows += python_rows(document)
    rows += pair_rows(document)
    rows += [scaling_row(document, way) for way in OURS]
    return rows
