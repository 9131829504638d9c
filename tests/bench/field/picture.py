"""The picture of the field benchmark, as SVG: a line for each program, a dot for each allocator,
and three panels: time, peak memory, settled memory. Only what figures.py computes is drawn.
"""

import math
from html import escape

import figures

# title of a panel, part of the document, figure (None: the time); the rival that is 1
PANELS = (
    ("Time / the best of the others", "programs", None, None),
    ("Peak memory / jemalloc's", "memory", "peak_kib", "jemalloc"),
    ("Settled memory / jemalloc's", "memory", "settled_rss_kib", "jemalloc"),
)
# Colours that people who see colours in other ways can tell apart (Okabe and Ito), and shapes.
MARKS = {
    "late": ("#0072b2", "diamond"),
    "preloaded": ("#56b4e9", "diamond"),
    "glibc": ("#57606a", "circle"),
    "jemalloc": ("#d55e00", "circle"),
    "mimalloc3": ("#009e73", "circle"),
    "mimalloc2": ("#009e73", "ring"),
    "tcmalloc": ("#cc79a7", "circle"),
}
OTHER = ("#e69f00", "ring")
WIDTH, LABELS, GAP, LINE, TOP, PAD = 1050, 140, 66, 25, 92, 14
PANEL = (WIDTH - LABELS - GAP * len(PANELS)) / len(PANELS)
# The axis, logarithmic; what lies outside is drawn at its end, with its figure.
LOW, HIGH, TICKS = 0.5, 4.0, (0.5, 1, 2, 4)
STYLE = """
    text { font: 13px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1f2328; }
    .small { font-size: 11.5px; fill: #57606a; }
    .head { font-weight: 600; }
    .grid { stroke: #d0d7de; stroke-width: 1; }
    .row { stroke: #eaeef2; stroke-width: 1; }
    .one { stroke: #57606a; stroke-width: 1.2; stroke-dasharray: 4 3; }
"""


def place(value):
    """Where a ratio lies on the axis, 0 to 1, and whether it is beyond the axis's end."""
    inside = min(max(value, LOW), HIGH)
    share = (math.log(inside) - math.log(LOW)) / (math.log(HIGH) - math.log(LOW))
    return share, value != inside


def mark(way, x, y, title):
    colour, shape = MARKS.get(way, OTHER)
    tip = f"<title>{escape(title)}</title>"
    if shape == "diamond":
        points = f"{x:.1f},{y - 7:.1f} {x + 7:.1f},{y:.1f} {x:.1f},{y + 7:.1f} {x - 7:.1f},{y:.1f}"
        return f'<polygon points="{points}" fill="{colour}" stroke="#ffffff">{tip}</polygon>'
    fill = colour if shape == "circle" else "#f6f8fa"
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{fill}" stroke="{colour}" '
        f'stroke-width="2">{tip}</circle>'
    )


def ratios(document, part, figure, rival, ways):
    """{program: {way: ratio}}"""
    table = {}
    for program in document.get(part, {}):
        base = rival or figures.best_peer(document, part, program, figure)
        found = {
            way: value
            for way in ways
            if (value := figures.ratio(document, part, program, way, base, figure))
        }
        table[program] = found
    return table


def means(table, ways):
    found = {}
    for way in ways:
        values = [row[way] for row in table.values() if way in row]
        if values:
            found[way] = figures.geometric_mean(values)
    return found


def text(x, y, words, kind="", anchor="start"):
    if not words:
        return ""
    where = f'x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}"'
    return f"<text {where}>{escape(words)}</text>"


def legend(ways, titles):
    parts, x = [], LABELS
    for way in ways:
        parts.append(mark(way, x, 44, titles[way]))
        parts.append(text(x + 12, 48.5, titles[way]))
        x += 34 + 6.9 * len(titles[way])
    return parts


def panel(left, title, rows, ways, titles):
    """rows: [(y, name, {way: ratio})]."""
    bottom = rows[-1][0] + LINE / 2 if rows else TOP
    parts = [text(left, TOP - 20, title, "head")]
    for tick in TICKS:
        x = left + place(tick)[0] * PANEL
        kind = "one" if tick == 1 else "grid"
        points = f'x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{bottom:.1f}"'
        parts.append(f'<line {points} class="{kind}"/>')
        parts.append(text(x, bottom + 15, f"{tick:g}", "small", "middle"))
    for y, name, values in rows:
        points = f'x1="{left:.1f}" y1="{y:.1f}" x2="{left + PANEL:.1f}" y2="{y:.1f}"'
        parts.append(f'<line {points} class="row"/>')
        ends = {0.0: [], 1.0: []}  # homefree's figures beyond the axis's ends
        # homefree's marks last, on top of the others.
        for way in sorted(values, key=lambda way: way in figures.OURS):
            share, beyond = place(values[way])
            x = left + share * PANEL
            parts.append(mark(way, x, y, f"{name}, {titles[way]}: {values[way]:.2f}"))
            if beyond and way in figures.OURS:
                ends[share].append(f"{values[way]:.1f}")
        parts.append(text(left - 10, y + 4, ", ".join(ends[0.0]), "small", "end"))
        parts.append(text(left + PANEL + 10, y + 4, ", ".join(ends[1.0]), "small"))
    return parts


def draw(document, titles, programs):
    """titles: {way: title}; programs: {program: title}, in their order."""
    ways = list(titles)
    names = [name for name in programs if any(name in document.get(p[1], {}) for p in PANELS)]
    places = {name: TOP + LINE * (number + 0.5) for number, name in enumerate(names)}
    mean_y = TOP + LINE * (len(names) + 0.8)
    height = mean_y + LINE + 26
    parts = []
    for number, (title, part, figure, rival) in enumerate(PANELS):
        figure = figure or figures.time_of(document)
        table = ratios(document, part, figure, rival, ways)
        rows = [(places[name], programs[name], table[name]) for name in names if name in table]
        rows.append((mean_y, "geometric mean", means(table, ways)))
        parts += panel(LABELS + number * (PANEL + GAP), title, rows, ways, titles)
    labels = [text(LABELS - 12, y + 4.5, programs[name], "", "end") for name, y in places.items()]
    labels.append(text(LABELS - 12, mean_y + 4.5, "geometric mean", "head", "end"))
    about = "Ratios of medians; logarithmic axes; further left is better. " + machine_line(document)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
            f'width="{WIDTH}" height="{height:.0f}" role="img" '
            'aria-labelledby="title description">',
            '  <title id="title">homefree beside other allocators</title>',
            f'  <desc id="description">{escape(about)} The table beside this picture has the '
            "figures.</desc>",
            f"  <style>{STYLE}  </style>",
            f'  <rect width="{WIDTH}" height="{height:.0f}" rx="10" fill="#f6f8fa" '
            'stroke="#d0d7de"/>',
            "  " + text(PAD, 22, about, "small"),
            *("  " + one for one in legend(ways, titles) + labels + parts if one),
            "</svg>",
            "",
        ]
    )


def machine_line(document):
    machine = document.get("machine", {})
    return "; ".join(str(machine[key]) for key in ("processor", "libc", "date") if key in machine)
