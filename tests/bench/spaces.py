#!/usr/bin/env python3
"""Measures spaces: pairs of each size, and traces of training, serving and a DataLoader.

    spaces.py --programs DIR --library FILE [--double DIRECTORY] [--rounds N] [--only pairs,traces]
    spaces.py ... --cuda         against the functions of CUDA's runtime too (a real device)
    spaces.py ... --callgrind    instructions of a pair instead of time (needs valgrind)

A sample is a fresh process, rivals take turns, and a ratio is one of medians, as in bench.py. Pairs
of hf_space_alloc() and hf_space_free() are compared with those of hf_malloc() and hf_free() of the
same size. Traces are also compared with what a model of torch's caching allocators would reserve
(traces/torch_model.py). The exit status is 77 if there is neither a device nor a double.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import arguments
from bench import (
    SKIPPED,
    Row,
    Sampler,
    Unmeasurable,
    count_instructions,
    print_table,
    quartiles,
    ratio_row,
)

sys.path.insert(0, str(Path(__file__).parent / "traces"))
import torch_model  # noqa: E402
import traces  # noqa: E402

SIZES = [256 * 4**power for power in range(10)]
WANTED_PAIR = 1.3
WANTED_RESERVED = 1.1
# What a program would call instead, and the wanted ratio at the size of most interest. The figures
# are those of time on the wall, because these calls sleep in the driver.
CUDA_PEERS = {
    "pinned": {"hostalloc": 0.001},
    "device": {"async": 0.2, "cudamalloc": None},
}
CUDA_SIZE = 1 << 20
# Beside a trace only what is quick enough to play it.
TRACE_PEERS = {"pinned": (), "device": ("async",)}
# Each trace, and the space it is played in.
TRACES = {"training": "device", "serving": "device", "loader": "pinned"}
COUNTS = (200, 1200)


def shown(size):
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size} {unit}"
        size //= 1024
    return f"{size} GiB"


def variant(sampler, options, program, how, *more):
    words = [program, "--how", how, "--cpu", options.cpu, "--library", sampler.library]
    if options.runtime:
        words += ["--runtime", options.runtime]
    return sampler.command(*words, *more)


def usable(sampler, options):
    """The spaces that are here; a message about each other one."""
    found = []
    for how in ("pinned", "device"):
        command = variant(sampler, options, "space_pairs", how, "--only", 256, "--count", 1)
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode == 0:
            found.append(how)
        elif done.returncode == SKIPPED:
            print(f"skipped: {how}: {done.stderr.strip()}", file=sys.stderr)
        else:
            raise Unmeasurable(f"{how}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
    return found


def measure_pairs(sampler, options):
    rivals = [*options.spaces, "heap"]
    if options.cuda:
        rivals += [peer for space in options.spaces for peer in CUDA_PEERS[space]]
    # The runtime's functions take up to tens of milliseconds.
    few = ["--repeats", 5] if options.cuda else []
    variants = {how: (variant(sampler, options, "space_pairs", how, *few), None) for how in rivals}
    sampler.interleave(variants, options.rounds)
    rows = []
    for space in options.spaces:
        for size in SIZES:
            what = f"pair of {shown(size)}, {space} / hf_malloc"
            rows.append(ratio_row(sampler, what, space, "heap", f"pair.{size}", WANTED_PAIR))
        for peer, wanted in CUDA_PEERS[space].items() if options.cuda else ():
            if peer in sampler.samples:
                what = f"pair of {shown(CUDA_SIZE)}, {space} / {peer}"
                rows.append(ratio_row(sampler, what, space, peer, f"real.{CUDA_SIZE}", wanted))
    return rows


def written(directory, **changes):
    """The traces as files, with the operations."""
    for name, space in TRACES.items():
        operations = traces.make(name, **changes)
        file = directory / f"{name}.trace"
        file.write_text("".join(" ".join(map(str, each)) + "\n" for each in operations))
        yield name, space, file, operations


def measure_traces(sampler, options):
    rows = []
    with tempfile.TemporaryDirectory(prefix="homefree-traces-") as directory:
        for name, space, file, operations in written(Path(directory)):
            if space not in options.spaces:
                continue
            names = {space: f"{name} {space}", "heap": f"{name} heap"}
            if options.cuda:
                names.update({peer: f"{name} {peer}" for peer in TRACE_PEERS[space]})
            variants = {
                names[how]: (variant(sampler, options, "replay_trace", how, "--trace", file), None)
                for how in names
            }
            sampler.interleave(variants, max(3, options.rounds // 3))
            rows += trace_rows(sampler, options, name, space, names, operations)
    return rows


def trace_rows(sampler, options, name, space, names, operations):
    rows = []
    ours = sampler.samples[names[space]]
    peak, modelled = torch_model.reserved(operations, space)
    title = f"trace {name}, {space}"
    row = Row(f"{title}: reserved/requested", WANTED_RESERVED)
    row.value = statistics.median(ours["trace.ratio"])
    row.quartiles = quartiles(ours["trace.ratio"])
    row.beside = f"{peak / 1e6:.0f} MB requested; after repeats {ours['trace.again'][0]:.3f}"
    rows.append(row)
    row = Row(f"{title}: reserved / a model of torch's policy", 1.0)
    row.value = statistics.median(ours["trace.reserved"]) / modelled
    row.beside = f"the model: {modelled / peak:.3f} of what is requested"
    rows.append(row)
    rows.append(ratio_row(sampler, f"{title}: pair / hf_malloc", names[space], names["heap"],
                          "trace.pair"))  # fmt: skip
    row = Row(f"{title}: million pairs a second", unit="M/s")
    row.value = 1e3 / statistics.median(ours["trace.pair"])
    row.beside = f"hf_malloc {1e3 / sampler.median(names['heap'], 'trace.pair'):.2f}"
    rows.append(row)
    for peer in TRACE_PEERS[space] if options.cuda else ():
        if names[peer] in sampler.samples:
            what = f"{title}: pair / {peer}"
            rows.append(ratio_row(sampler, what, names[space], names[peer], "trace.real"))
    return rows


# ---- callgrind -----------------------------------------------------------------------------------


def per_pair(command, low, high, pairs):
    runs = [count_instructions(None, [*command, "--count", str(n)], None) for n in (low, high)]
    return (runs[1] - runs[0]) / (high - low) / pairs


def counted_row(what, ours, heap, wanted):
    row = Row(what, None, "instructions")
    row.value = ours
    row.beside = f"hf_malloc {heap:.0f}, ratio {ours / heap:.2f}"
    row.beside += f" (≤ {wanted}: {'ok' if ours <= wanted * heap else 'missed'})" if wanted else ""
    return row


def measure_instructions(sampler, options):
    if shutil.which("valgrind") is None:
        raise Unmeasurable("valgrind is not installed")
    rows = []
    for size in SIZES:
        counts = {
            how: per_pair(
                variant(sampler, options, "space_pairs", how, "--only", size), *COUNTS, pairs=1
            )
            for how in [*options.spaces, "heap"]
        }
        for space in options.spaces:
            what = f"pair of {shown(size)}, {space}"
            rows.append(counted_row(what, counts[space], counts["heap"], WANTED_PAIR))
    with tempfile.TemporaryDirectory(prefix="homefree-traces-") as directory:
        for name, space, file, operations in written(Path(directory), model="tiny"):
            if space not in options.spaces:
                continue
            pairs = len(operations) // 2
            ours, heap = (
                per_pair(variant(sampler, options, "replay_trace", how, "--trace", file), 1, 3,
                         pairs)
                for how in (space, "heap")
            )  # fmt: skip
            rows.append(counted_row(f"trace {name}, pair, {space}", ours, heap, None))
    return rows


MEASURES = {"pairs": measure_pairs, "traces": measure_traces}


def options_of_call():
    parser = arguments.parser_of(__doc__, MEASURES, rounds=11)
    parser.add_argument("--double", type=Path, help="directory of a double of the CUDA runtime")
    parser.add_argument("--runtime", help="the CUDA runtime (libcudart.so.13)")
    parser.add_argument("--cuda", action="store_true", help="against the runtime's functions too")
    return arguments.parse(parser, MEASURES)


def main():
    options = options_of_call()
    if options.double:
        before = os.environ.get("LD_LIBRARY_PATH")
        directories = [str(options.double.resolve())] + ([before] if before else [])
        os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(directories)
        # What its stream-ordered functions free comes back only when its clock is moved.
        for peers in CUDA_PEERS.values():
            peers.pop("async", None)
        TRACE_PEERS["device"] = ()
        # Nothing of it is touched, but valgrind has little address space.
        memory = 1 << 30 if options.callgrind else 32 << 30
        os.environ.setdefault("DOUBLE_CUDA_MEMORY", str(memory))
    programs, library = options.programs.resolve(), options.library.resolve()
    rows, failures, samples = [], [], {}
    measures = [measure_instructions] if options.callgrind else []
    measures = measures or [MEASURES[name] for name in options.only.split(",")]
    options.spaces = usable(Sampler(programs, library), options)
    if not options.spaces:
        return SKIPPED
    for measure in measures:
        sampler = Sampler(programs, library)
        try:
            rows += measure(sampler, options)
        except (Unmeasurable, subprocess.TimeoutExpired, OSError) as error:
            failures.append(f"{measure.__name__}: {error}")
        samples[measure.__name__.removeprefix("measure_")] = sampler.samples
    if options.json:
        rows = [row.as_json() for row in rows]
        document = {"version": 1, "rows": rows, "failures": failures, "samples": samples}
        print(json.dumps(document, indent=2))
    else:
        print_table(rows)
    for failure in failures:
        print(f"could not measure: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
