"""The documents that test_page.py shows, and a page as `homefree report --html` makes it."""

import copy
import json
import random
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
MARKER = "@HOMEFREE_REPORT@"


def template(path):
    """The page without a document. path: its template's, in the package `command`."""
    sys.path.append(str(path.parent.parent))
    from command import page

    return page.fill(path, {"REPORT": MARKER.encode()}).decode()


def small():
    return json.loads((HERE / "small.json").read_text(encoding="utf-8"))


def empty():
    return json.loads((HERE / "empty.json").read_text(encoding="utf-8"))


def newer():
    return {"homefree_report": 2, "incidents": [{"kind": "of a later version"}]}


def page(template, document):
    """The template with the document in it; a document that is a string is put there as it is."""
    if not isinstance(document, str):
        document = json.dumps(document, ensure_ascii=False)
        # UTF-8 has no lone surrogates; a document has them escaped.
        document = re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", document)
    return template.replace(MARKER, document.replace("<", "\\u003c"))


# What a watched process may call its files, functions and arguments. {address} is a server of the
# test's own, which nobody may ask for anything.
HOSTILE = [
    "</script><script>document.title = 'owned'; window.owned = 1</script>",
    "<img src='{address}/img' onerror='window.owned = 1'>",
    "<!--<script>window.owned = 1",
    "<style>@import url({address}/style); body {{ display: none }}</style>",
    "<link rel=stylesheet href={address}/link><iframe src={address}/frame></iframe>",
    "javascript:window.owned=1",
    '" onfocus="window.owned=1" autofocus x="',
    "evil\u202etxt.so\u202c \u2066\u2069 \u200b\u200f end",
    "control\x00\x01\x1b[31m\r\n\t\x7f\x9f",
    "__proto__",
    "constructor",
    "S" * 10000,
    "\u0645\u0643\u062a\u0628\u0629.so",
    "\ud800 lone surrogate",
    "@HOMEFREE_REPORT@ $& $1 \\u003c",
    "",
    "/",
]


def hostile(address):
    """The small report, with a hostile name in every place that takes one."""
    names = [
        name.replace("{address}", address).replace("{{", "{").replace("}}", "}") for name in HOSTILE
    ]
    report = small()
    report["matrix"] = [
        {"allocated_by": first, "freed_by": second, "blocks": 1 + i, "bytes": 1e300, "threads": -1}
        for i, first in enumerate(names)
        for second in (names[(i + 1) % len(names)], first)
    ]
    pattern = report["findings"][0]
    report["findings"] = []
    for name in names:
        finding = copy.deepcopy(pattern)
        for side in ("allocated", "freed"):
            known = finding[side]
            for key in ("object", "allocator", "allocator_object", "function", "symbol", "file"):
                known[key] = name
            known["stack"] = [
                {"object": name, "symbol": name, "file": name, "line": 1, "offset": name}
            ] * 3
            known["python"] = [{"file": name, "function": name, "line": 1}]
        finding.update(without_homefree=name, remedy=name, rule=name)
        report["findings"].append(finding)
    report["findings"][0]["severity"] = names[1]
    # Shapes that no version of the command writes.
    report["findings"] += [
        None,
        7,
        {},
        {"allocated": 3, "freed": [], "count": "many", "processes": "all"},
    ]
    report["matrix"] += [None, {"allocated_by": {}, "freed_by": [], "blocks": "x"}]
    for process, name in zip(report["processes"], names):
        process.update(
            command=[name, *names], host=name, mode=name, end=name, file=name, homefree=name
        )
    report["processes"].append({"pid": "x", "command": "not a list", "started": 1e300, "end": {}})
    report["suppressed"] = [{"pattern": name, "why": name, "count": 1} for name in names] + [{}]
    report["timeline"] = [
        {"pid": 4711, "time": i % 5, "object": name, "bytes": 1000 * i}
        for i, name in enumerate(names)
    ] + [{"pid": None, "time": "now"}, {"pid": 1, "time": -3, "object": None, "bytes": -5}]
    return report


RULES = {
    "foreign-free": "error",
    "domain-mismatch": "error",
    "sized-delete": "error",
    "double-free": "error",
    "new-free": "warning",
    "malloc-delete": "warning",
    "array-new-delete": "warning",
    "boundary-leak": "note",
}


def frames(rng, objects, depth):
    return [
        {
            "object": rng.choice(objects),
            "symbol": f"engine::Operator<{rng.randrange(5000)}>::execute(Batch const&, int)",
            "file": f"/build/engine/src/operator_{rng.randrange(400)}.cc",
            "line": rng.randrange(1, 4000),
            "offset": rng.randrange(1 << 24),
        }
        for _ in range(depth)
    ]


def side(rng, objects, allocators):
    stack = frames(rng, objects, 24)
    allocator = rng.choice(allocators)
    return {
        "object": stack[0]["object"],
        "allocator": allocator,
        "allocator_object": objects[allocators.index(allocator)],
        "function": rng.choice(["malloc", "operator new(unsigned long)", "free"]),
        "symbol": stack[0]["symbol"],
        "file": stack[0]["file"],
        "line": stack[0]["line"],
        "stack": stack,
        "python": [
            {"file": f"/srv/app/step_{rng.randrange(90)}.py", "function": "run", "line": i + 1}
            for i in range(8)
        ],
    }


def huge(findings=5000, pairs=2000, objects=300, processes=400, moments=5000):
    """A long run of a large program: always the same one."""
    rng = random.Random(11)
    names = [f"/usr/lib/python3/site-packages/package_{i}/libpart{i}.so" for i in range(objects)]
    allocators = ["libc", "jemalloc", "mimalloc", "tcmalloc", "heap"]
    report = {"homefree_report": 1, "left_out": 17, "suppressed": []}
    report["processes"] = [
        {
            "pid": 1000 + i, "parent": 999, "host": f"node-{i % 16}",
            "command": ["python3", "train.py", f"--rank={i}"], "mode": "report",
            "started": 1790000000 + i, "ended": 1790003600 + i, "end": "exit", "status": 0,
            "homefree": "1.0.0", "blocks": 10**9 + i, "bytes": 10**12, "dropped": 0,
            "truncated": False, "file": f"report/{i}.hfr",
        }
        for i in range(processes)
    ]  # fmt: skip
    report["findings"] = []
    for _ in range(findings):
        rule = rng.choice(list(RULES))
        report["findings"].append(
            {
                "rule": rule,
                "severity": RULES[rule],
                "count": int(rng.paretovariate(0.6)),
                "bytes": rng.randrange(1 << 24),
                "allocated": side(rng, names, allocators),
                "freed": side(rng, names, allocators),
                "without_homefree": "glibc would have aborted",
                "remedy": "Free it where it was allocated.",
                "processes": rng.sample(range(1000, 1000 + processes), 20),
            }
        )
    if findings > 4321:
        report["findings"][4321]["allocated"]["stack"][17]["symbol"] = "needle_in_the_haystack"
    some = set()
    while len(some) < pairs:
        some.add((min(rng.paretovariate(0.4), 1e9) // 1 % objects, rng.randrange(objects)))
    report["matrix"] = [
        {
            "allocated_by": names[int(first)],
            "freed_by": names[second],
            "blocks": int(rng.paretovariate(0.3)) % 10**10,
            "bytes": int(rng.paretovariate(0.2)) % 10**13,
            "threads": rng.randrange(1, 64),
        }
        for first, second in sorted(some)
    ]
    report["timeline"] = [
        {
            "pid": 1000 + i % 4,
            "time": i * 0.5,
            "object": names[i % 23],
            "bytes": int(1e7 * (1 + i % 23) * rng.random()),
        }
        for i in range(moments)
    ]
    return report
