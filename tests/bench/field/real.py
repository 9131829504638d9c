"""Real programs under each allocator, preloaded: time and peak memory of whole processes.

Each work is a program that Debian packages, with input that this file makes, the same at every run.
A sample is one process with its children; ways take turns. Figures are the least of the rounds,
because a real program's noise only ever adds.
"""

import os
import random
import shutil
import subprocess

import bench

# The program ran with the allocator only if the dynamic linker says nothing of this.
NOT_PRELOADED = b"cannot be preloaded"


def cplusplus(directory):
    """Templates, strings and containers: much is instantiated, little is kept."""
    lines = ["#include <algorithm>", "#include <map>", "#include <regex>", "#include <string>"]
    lines += ["#include <unordered_map>", "#include <vector>"]
    for i in range(6):
        lines.append(f"template <int N> struct node{i} {{ std::map<int, std::string> words;")
        lines.append(
            f"  std::string at(int k) {{ return words[k] + std::to_string(N + {i}); }} }};"
        )
        lines.append(f"std::string use{i}(int k) {{ node{i}<{i}> a; node{i}<{i + 1}> b;")
        lines.append("  std::vector<std::string> all{a.at(k), b.at(k)};")
        lines.append(f"  std::unordered_map<std::string, node{i}<{i + 2}>> by;")
        lines.append(
            "  std::sort(all.begin(), all.end(), [&](auto &x, auto &y) { return x > y; });"
        )
        lines.append("  return by[all[0]].at(k) + all[1]; }")
    lines.append(
        'bool match(const std::string &s) { return std::regex_match(s, std::regex("a.*")); }'
    )
    (directory / "templates.cc").write_text("\n".join(lines) + "\n")
    return ["g++", "-std=c++17", "-O1", "-c", directory / "templates.cc", "-o", os.devnull]


def lua(directory):
    (directory / "trees.lua").write_text(
        "local function tree(depth)\n"
        "  if depth == 0 then return {} end\n"
        "  return {tree(depth - 1), tree(depth - 1)}\n"
        "end\n"
        "local function count(t) return t[1] and 1 + count(t[1]) + count(t[2]) or 1 end\n"
        "local kept, sum = tree(17), 0\n"
        "for depth = 4, 16, 2 do\n"
        "  for i = 1, 2 ^ (17 - depth) do sum = sum + count(tree(depth)) end\n"
        "end\n"
        "assert(count(kept) == 262143 and sum > 0)\n"
    )
    return ["lua5.4", directory / "trees.lua"]


def perl(directory):
    (directory / "words.pl").write_text(
        "my (%count, %lists); my $x = 12345;\n"
        "for my $i (1 .. 600000) {\n"
        "  $x = ($x * 1103515245 + 12345) % 2147483648;\n"
        "  my $word = 'w' . ($x % 60000);\n"
        "  $count{$word}++; push @{$lists{substr $word, 0, 4}}, $word . $i;\n"
        "}\n"
        "my $sum = 0; $sum += @$_ for values %lists;\n"
        "my @sorted = sort { $count{$a} <=> $count{$b} || $a cmp $b } keys %count;\n"
        "die unless $sum == 600000 && @sorted > 50000;\n"
    )
    return ["perl", directory / "words.pl"]


def sqlite(directory):
    (directory / "work.sql").write_text(
        "PRAGMA journal_mode = MEMORY;\n"
        "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, value INTEGER, note TEXT);\n"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 250000)\n"
        "INSERT INTO t SELECT i, 'name' || (i * 7919 % 250000), i * 31 % 1000,\n"
        "  hex(zeroblob(i % 40)) FROM n;\n"
        "CREATE INDEX by_name ON t(name); CREATE INDEX by_value ON t(value, id);\n"
        "SELECT count(*), sum(length(note)) FROM t;\n"
        "SELECT value, count(*), max(name) FROM t GROUP BY value ORDER BY 2 DESC, 1 LIMIT 5;\n"
        "SELECT count(*) FROM t a JOIN t b ON a.name = 'name' || b.id WHERE b.value < 300;\n"
        "UPDATE t SET note = note || name WHERE value % 3 = 0;\n"
        "DELETE FROM t WHERE value % 5 = 0; SELECT group_concat(name) IS NOT NULL FROM t;\n"
    )
    return ["sqlite3", "-batch", ":memory:", f".read {directory / 'work.sql'}"]


def jq(directory):
    draw = random.Random(1)
    with open(directory / "people.json", "w") as file:
        for i in range(30000):
            tags = ",".join(f'"tag{draw.randrange(500)}"' for _ in range(draw.randrange(8)))
            age, score = draw.randrange(90), draw.randrange(10**6) / 1000
            file.write(f'{{"id":{i},"name":"person {draw.randrange(9999)}","age":{age},')
            file.write(
                f'"score":{score},"tags":[{tags}],"home":{{"zip":"{draw.randrange(99999)}"}}}}\n'
            )
    program = "map(select(.age > 20)) | group_by(.age) | map({age: .[0].age, n: length,"
    program += " tags: (map(.tags) | add | unique | length), best: (max_by(.score).name)})"
    return ["jq", "-s", program, directory / "people.json"]


def xmllint(directory):
    draw = random.Random(2)
    with open(directory / "book.xml", "w") as file:
        file.write("<book>\n")
        for i in range(120000):
            words = " ".join(f"word{draw.randrange(3000)}" for _ in range(draw.randrange(12)))
            file.write(f'<entry id="e{i}" kind="k{draw.randrange(20)}"><title>t {i}</title>')
            file.write(f'<text>{words}</text><mark at="{draw.randrange(99)}"/></entry>\n')
        file.write("</book>\n")
    return [
        "xmllint",
        "--noout",
        "--xpath",
        "count(//entry[@kind='k3']/mark)",
        directory / "book.xml",
    ]


def z3(directory):
    """Whether multiplication commutes, for 9 bits, and nine pigeons in eight holes."""
    lines = [
        "(set-logic QF_BV)",
        "(declare-const x (_ BitVec 9))",
        "(declare-const y (_ BitVec 9))",
    ]
    lines += ["(push)", "(assert (not (= (bvmul x y) (bvmul y (bvsub (bvadd x y) y)))))"]
    lines += ["(check-sat)", "(pop)"]
    holes, pigeons = range(8), range(9)
    lines += [f"(declare-const p{p}h{h} Bool)" for p in pigeons for h in holes]
    lines += [f"(assert (or {' '.join(f'p{p}h{h}' for h in holes)}))" for p in pigeons]
    for h in holes:
        lines += [f"(assert (not (and p{p}h{h} p{q}h{h})))" for p in pigeons for q in range(p)]
    lines.append("(check-sat)")
    (directory / "puzzle.smt2").write_text("\n".join(lines) + "\n")
    return ["z3", directory / "puzzle.smt2"]


# name: (title, what makes its input and tells its command, Debian's package)
WORKS = {
    "cplusplus": ("a C++ compilation", cplusplus, "g++"),
    "lua": ("Lua's binary trees", lua, "lua5.4"),
    "perl": ("Perl's hashes", perl, "perl"),
    "sqlite": ("SQLite in memory", sqlite, "sqlite3"),
    "jq": ("jq, grouping", jq, "jq"),
    "xmllint": ("xmllint's tree", xmllint, "libxml2-utils"),
    "z3": ("z3", z3, "z3"),
}


def sample(command, preload):
    """{figure: value} of one process: its processor time and its peak, children included."""
    process = subprocess.Popen(
        command,
        env=bench.environment_of(preload),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    errors = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0 or NOT_PRELOADED in errors:
        raise bench.Unmeasurable(f"exit {process.returncode}: {errors.decode()[-300:]}")
    return {
        "cpu": used.ru_utime + used.ru_stime,
        "faults": used.ru_minflt,
        "peak_kib": used.ru_maxrss,
    }


def measure(samples, directory, works, rounds):
    """{work: {way: {figure: [values]}}}. Late-loaded homefree has no part in it: nobody links these
    programs with the shim."""
    directory.mkdir(parents=True, exist_ok=True)
    ways = {name: way.preload for name, way in samples.ways.items() if name != "late"}
    commands, kept = {}, {}
    for work in works:
        _, make, package = WORKS[work]
        command = [str(word) for word in make(directory)]
        if shutil.which(command[0]) is None:
            samples.failed(work, f"there is no {command[0]} (Debian's package {package})")
            continue
        commands[work] = command
        kept[work] = {way: {} for way in ways}
    for number in range(rounds):
        samples.say(f"round {number + 1} of {rounds}")
        for work, command in commands.items():
            samples.say(f"round {number + 1} of {rounds}, {work}", passing=True)
            for way in list(kept[work])[:: 1 if number % 2 == 0 else -1]:
                try:
                    figures = sample(command, ways[way])
                except (bench.Unmeasurable, OSError) as error:
                    samples.failed(f"{work}, {way}", error)
                    del kept[work][way]
                    continue
                for figure, value in figures.items():
                    kept[work][way].setdefault(figure, []).append(value)
    return kept
