#!/usr/bin/env python3
"""Keeps what benchmarks have measured, and writes what documents say of it.

usage: published.py                writes field.md, docs/field.svg and the figures of README.md and
                                   docs/speed.md from the samples in measured/
       published.py --check        writes nothing; exit status 1 if one of them is not current
       published.py --keep NAME    keeps a benchmark's document, from stdin, as measured/NAME.json:
                                   bench.py --json | published.py --keep speed

measured/NAME.json is what a benchmark wrote with --json, every sample of it, with five digits a
number, and the machine's facts; field.json is kept by `run --publish`. CLAIMS says which figure of
a document comes from which samples. A figure that comes from none stands in docs/speed.md below
the heading of those.
"""

import argparse
import json
import re
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE / "python"), str(HERE / "field")]
sys.dont_write_bytecode = True
import figures  # noqa: E402
import picture  # noqa: E402
import python_bench  # noqa: E402
import scaling  # noqa: E402
import tables  # noqa: E402
from machine import machine  # noqa: E402
from samples import PROGRAMS  # noqa: E402

MEASURED = HERE / "measured"


# ---- what is kept --------------------------------------------------------------------------------


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    if isinstance(value, float):
        return int(value) if value == int(value) else float(f"{value:.5g}")
    return value


def text_of(value, depth=3):
    """JSON, with a line for each member down to a depth."""
    if depth == 0 or not isinstance(value, dict) or not value:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    members = (f"{json.dumps(key)}: {text_of(one, depth - 1)}" for key, one in value.items())
    return "{\n" + ",\n".join(members) + "\n}"


def keep(name, document):
    MEASURED.mkdir(exist_ok=True)
    document = rounded({**document, "machine": document.get("machine") or machine()})
    (MEASURED / f"{name}.json").write_text(text_of(document) + "\n", encoding="utf-8")


def kept(name):
    return json.loads((MEASURED / f"{name}.json").read_text(encoding="utf-8"))


def keep_parts(document, parts):
    """Keeps some parts of a field benchmark in place of those that are kept. Beside the facts of
    the machine stands when they were measured."""
    old, here = kept("field"), document["machine"]
    said = f"{here['date']}, commit {here['commit']}, load {here['load at the start']}"
    machine = {**old["machine"], **{part: said for part in parts}}
    made = {part: document[part] for part in parts}
    measured = {name for part in made.values() for name in part}
    failed = [one for one in old["failures"] if re.split("[:,]", one)[0] not in measured]
    failures = list(dict.fromkeys(failed + document["failures"]))
    keep("field", {**old, **made, "failures": failures, "machine": machine})


# ---- the field's page and picture ----------------------------------------------------------------


def titles(document):
    return {name: facts["title"] for name, facts in document["allocators"].items()}


def field_pages(document, link):
    """The page, which shows the picture at `link`, and the picture."""
    named = titles(document)
    drawn = picture.draw(document, named, {name: title for name, (title, _) in PROGRAMS.items()})
    rows = figures.verdicts(document)
    return tables.as_markdown(document, named, rows, link), drawn


# ---- the figures in documents --------------------------------------------------------------------


def programs(way):
    """Of the programs' times by that of the best peer on each, the geometric mean."""
    return lambda: figures.geometric_mean(
        [value for value, _ in figures.ratios_to_best(kept("field"), way).values()]
    )


def start(way):
    return lambda: figures.ratio(kept("field"), "programs", "startup", way, "glibc", "real")


def real(figure, way="preloaded"):
    """Of real programs, to glibc's."""
    return lambda: figures.geometric_mean(figures.real_ratios(kept("field"), way, figure).values())


def real_programs():
    return len(figures.real_ratios(kept("field"), "preloaded", "cpu"))


def works_of_python(how):
    return python_bench.summary(kept("field")["python"]["samples"])[how]


def python_works():
    return len(works_of_python("arena"))


def python(how, but=None):
    """Of works of CPython and NumPy, to those without homefree."""

    def value():
        works = works_of_python(how)
        works.pop(but, None)
        return python_bench.geometric_mean(works)

    return value


def memory(way, figure):
    """Of the programs', to jemalloc's."""
    return lambda: next(
        row.value
        for row in figures.memory_rows(kept("field"), way)
        if figures.MEMORY[figure] in row.what
    )


def pair(ours, theirs, figure="pair.mix"):
    def value():
        samples = kept("field")["pairs"]
        mine, other = (statistics.median(samples[way][figure]) for way in (ours, theirs))
        return mine / other

    return value


def per_cent_more(ratio):
    return lambda: (ratio() - 1) * 100


def instructions(path, way):
    return lambda: kept("field")["instructions"][path][way]


def threads(way, figure):
    """Of threads in a free-threaded CPython, by those without homefree: all works and counts."""

    def value():
        rows = kept("threads")["samples"].values()
        return scaling.mean(
            [scaling.ratio(rivals, way, figure) for row in rows for rivals in row.values()]
        )

    return value


# {document: [(its words, with # for each figure, where the figures come from)]}
CLAIMS = {
    "README.md": [
        (
            "a malloc+free pair takes # of the time that it takes with glibc, and # where 64 "
            "blocks live at a time",
            [pair("homefree", "glibc"), pair("homefree", "glibc", "batch.mix")],
        ),
        (
            "In modules that keep glibc's malloc, a pair takes # % longer",
            [per_cent_more(pair("routed", "glibc"))],
        ),
        (
            "Preloaded, # real programs run in # of glibc's processor time; with `install()`, "
            "# works of CPython and NumPy take # of the time, and ten of a free-threaded CPython #",
            [
                *(real_programs, real("cpu")),
                *(python_works, python("arena"), threads("install()", "wall")),
            ],
        ),
    ],
    "docs/speed.md": [
        (
            "the fastest of five other allocators on each, geometric mean | # late-loaded, "
            "# preloaded (mimalloc 2 #, mimalloc 3 #, tcmalloc #, jemalloc #, glibc #)",
            [
                programs(way)
                for way in (
                    *("late", "preloaded", "mimalloc2", "mimalloc3", "tcmalloc"),
                    *("jemalloc", "glibc"),
                )
            ],
        ),
        (
            "# real programs, preloaded / glibc: processor time, peak memory | #, #",
            [real_programs, real("cpu"), real("peak_kib")],
        ),
        (
            "# works of CPython and NumPy with `install()` / without: processor time | # (# but "
            'for large arrays); # with `"full"`',
            [python_works, python("arena"), python("arena", but="numpy_large"), python("full")],
        ),
        (
            "peak memory of the fifteen / jemalloc's | # late-loaded, # preloaded",
            [memory("late", "peak_kib"), memory("preloaded", "peak_kib")],
        ),
        (
            "twelve seconds in which a process does next to nothing / jemalloc's | # late-loaded, "
            "# preloaded",
            [memory("late", "settled_rss_kib"), memory("preloaded", "settled_rss_kib")],
        ),
        (
            "malloc+free pair in a late-loaded module on homefree / glibc | # (# for 64 blocks at "
            "a time)",
            [pair("homefree", "glibc"), pair("homefree", "glibc", "batch.mix")],
        ),
        (
            "the same / jemalloc, mimalloc 2, mimalloc 3, tcmalloc preloaded | #, #, #, #",
            [pair("homefree", peer) for peer in ("jemalloc", "mimalloc2", "mimalloc3", "tcmalloc")],
        ),
        ("libc's own pair in a routed process / unrouted | #", [pair("routed", "glibc")]),
        (
            "instructions of a malloc+free pair: late-loaded, glibc, jemalloc | #, #, #",
            [instructions("pair", way) for way in ("late", "glibc", "jemalloc")],
        ),
        (
            "starting a process that does nothing / with glibc | # late-loaded, # preloaded",
            [start("late"), start("preloaded")],
        ),
        (
            "steps of 1 MB / glibc, which moves pages, too | #",
            [lambda: figures.ratio(kept("field"), "classes", "coarse", "late", "glibc", "real")],
        ),
        (
            "ten works of a free-threaded CPython on 1 to 8 threads / without homefree: time, peak "
            "memory | `install()` #, #; `homefree run` #, #",
            [threads(way, figure) for way in ("install()", "run") for figure in ("wall", "peak")],
        ),
    ],
}
FIGURE = r"\d+(?:\.\d+)?"
WITHOUT_SAMPLES = "\n## Measured earlier\n"


def pattern(words):
    made = re.escape(words).replace(r"\ ", r"\s+")
    return re.compile(made.replace(r"\#", f"({FIGURE})").replace("#", f"({FIGURE})"))


def filled(name, text):
    """A document with today's figures, each with as many decimals as it has there."""
    for words, sources in CLAIMS[name]:
        found = list(pattern(words).finditer(text))
        if len(found) != 1:
            sys.exit(f"{name}: says {len(found)} times, not once: {words}")
        made, end = "", found[0].start()
        for number, source in enumerate(sources, 1):
            decimals = len(found[0][number].partition(".")[2])
            made += text[end : found[0].start(number)] + f"{source():.{decimals}f}"
            end = found[0].end(number)
        text = text[: found[0].start()] + made + text[end:]
    return text


def unclaimed(name, text):
    """The figures with decimals in a text that no claim has."""
    spans = [
        match.span(number)
        for words, sources in CLAIMS[name]
        for match in pattern(words).finditer(text)
        for number in range(1, len(sources) + 1)
    ]
    return [
        match[0]
        for match in re.finditer(r"\d+\.\d+", text)
        if not any(start <= match.start() < end for start, end in spans)
    ]


def written():
    """{path: text} of all that is made."""
    page, drawn = field_pages(kept("field"), "../../docs/field.svg")
    made = {HERE / "field.md": page, ROOT / "docs/field.svg": drawn}
    for name in CLAIMS:
        text = (ROOT / name).read_text(encoding="utf-8")
        made[ROOT / name] = filled(name, text)
    return made


def write():
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")


def keep_given(name):
    """Keeps what stdin has, if the documents can be written from it."""
    try:
        document = json.load(sys.stdin)
    except ValueError as error:
        sys.exit(f"published: stdin has no document in JSON: {error}")
    if not isinstance(document, dict):
        sys.exit("published: stdin has no benchmark's document, which is an object in JSON")
    path = MEASURED / f"{name}.json"
    before = path.read_bytes() if path.exists() else None
    try:
        keep(name, document)
        written()
    except BaseException as error:
        path.unlink(missing_ok=True)
        if before is not None:
            path.write_bytes(before)
        if isinstance(error, (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)):
            sys.exit(f"published: nothing is kept, because the documents lack a figure: {error!r}")
        raise


def parse():
    parser = argparse.ArgumentParser(usage="published.py [--check | --keep NAME]")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true")
    what.add_argument("--keep", metavar="NAME")
    given = parser.parse_args()
    if given.keep is not None and not re.fullmatch(r"[a-z][a-z0-9_-]*", given.keep):
        parser.error(f"{given.keep!r} is no benchmark's name")
    return given


def main():
    given = parse()
    if given.keep:
        keep_given(given.keep)
    if given.check:
        old = [
            str(path.relative_to(ROOT))
            for path, text in written().items()
            if path.read_text(encoding="utf-8") != text
        ]
        if old:
            sys.exit(f"not current: {', '.join(old)}; run tests/bench/published.py")
    else:
        write()


if __name__ == "__main__":
    main()
