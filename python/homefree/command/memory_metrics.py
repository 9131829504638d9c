# SPDX-License-Identifier: BSD-2-Clause
"""The document of a process's memory as OpenMetrics text, which Prometheus reads. State: none."""

from .terminal import base_name

_GAUGES = (
    ("homefree_memory_resident_bytes", "Resident memory by whose it is."),
    ("homefree_memory_live_bytes", "Bytes in live blocks of an allocator."),
    ("homefree_memory_free_bytes", "Bytes of an allocator that nobody uses."),
    ("homefree_memory_attributed_ratio", "How much of the resident memory has a known owner."),
    ("homefree_memory_page_tables_bytes", "Page tables, which are not resident memory."),
    ("homefree_limit_bytes", "What a library may have of homefree's heap."),
    ("homefree_limit_used_bytes", "What a library with a limit has of it."),
    ("homefree_limit_peak_bytes", "The most that it ever had."),
)


def _label(text):
    """A label's value. What was no text is shown as such."""
    text = (text or "").encode("utf-8", "replace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _samples(document):
    """{name of a gauge: [(labels, value)]}. Rows with the same labels become one."""
    sums = {name: {} for name, _ in _GAUGES}

    def add(gauge, labels, value):
        if value is not None:
            key = tuple((name, _label(text)) for name, text in labels)
            sums[gauge][key] = sums[gauge].get(key, 0) + value

    for row in document["rows"]:
        labels = [("kind", "allocator"), ("allocator", row["allocator"] or "none")]
        labels.append(("object", row["wheel"] or base_name(row["object"] or "")))
        for name in ("resident", "live", "free"):
            add(f"homefree_memory_{name}_bytes", labels, row[name])
    for row in document["rest"]:
        labels = [("kind", row["kind"]), ("allocator", "")]
        labels.append(("object", row["wheel"] or base_name(row["object"] or "")))
        add("homefree_memory_resident_bytes", labels, row["resident"])
    for row in document.get("limits") or []:
        labels = [("name", base_name(row["name"]))]
        add("homefree_limit_bytes", labels, row["limit"])
        add("homefree_limit_used_bytes", labels, row["used"])
        add("homefree_limit_peak_bytes", labels, row["peak"])
    add("homefree_memory_attributed_ratio", [], round(document["attributed"], 6))
    add("homefree_memory_page_tables_bytes", [], document["page_tables"])
    return sums


def metrics(document):
    """Result: bytes."""
    samples, lines = _samples(document), []
    for name, about in _GAUGES:
        unit = name.rpartition("_")[2]
        lines += [f"# TYPE {name} gauge", f"# UNIT {name} {unit}", f"# HELP {name} {about}"]
        for labels, value in samples[name].items():
            inside = ",".join(f'{label}="{text}"' for label, text in labels)
            lines.append(f"{name}{{{inside}}} {value}" if inside else f"{name} {value}")
    lines.append("# EOF\n")
    return "\n".join(lines).encode()
