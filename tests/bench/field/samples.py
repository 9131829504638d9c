"""Takes the samples of the field benchmark: starts the programs, keeps what they print.

A way is an allocator and how it comes into the process. Every sample is a process of its own; ways
take turns, and every other round goes backwards. What fails is told in `failures` and left out
from then on. Nothing is computed here: figures.py does that from the document that ../run writes.
"""

import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import bench  # noqa: E402

# name: (title, what it stands for)
PROGRAMS = {
    "fixed_pairs": ("fixed pairs", "one block at a time, eight sizes"),
    "random_sizes": ("random sizes", "most of them small, random lives"),
    "many_sizes": ("many sizes", "up to 16 KiB, two threads"),
    "server": ("server", "sets of blocks that threads inherit"),
    "hand_over": ("hand-over", "producers allocate, consumers free"),
    "mixed": ("mixed", "hand-over, bursts and large blocks, four threads"),
    "short_threads": ("short threads", "born, allocate 100 blocks, die"),
    "containers": ("C++ containers", "map, string, vector, unordered_map, list"),
    "trees": ("trees", "small nodes with strings"),
    "growth": ("growth", "buffers that grow by realloc"),
    "peaks": ("peaks and return", "100 MB, of which 1 % stays"),
    "large": ("large blocks", "32 KiB to 4 MiB, written to"),
    "zeroed": ("calloc", "16 bytes to 64 KiB"),
    "aligned": ("aligned", "16 to 4096 bytes"),
    "startup": ("start-up", "processes that do nothing"),
}
# Classes of programs that mimalloc-bench has, written anew; beside the programs' mean, not in it.
# name: (title, what it stands for, program, its arguments)
CLASSES = {
    "stress": ("stress (mstress)", "threads exchange arrays and end", "stress", {}),
    "shared_batches": ("batches (xmalloc)", "any thread frees any other's", "shared_batches", {}),
    "generations": ("generations (larson)", "sets that threads hand round", "generations", {}),
    "huge": ("very large (malloc-large)", "5 to 25 MB, written to", "huge", {}),
    "false_sharing": (
        "false sharing (cache-scratch)",
        "one small block a thread",
        "false_sharing",
        {},
    ),
    "coarse": ("realloc to 512 MB", "by 1 MB", "regrowth", {"what": "coarse"}),
    "fine": ("realloc to 256 MB", "by 64 KB", "regrowth", {"what": "fine"}),
}
# These take a number of threads, and share a fixed amount of work between them.
THREADED = ("many_sizes", "server", "hand_over", "mixed", "short_threads")
THREADS = (1, 2, 4, 8, 16)
SCALING_WAYS = ("late", "preloaded", "glibc", "jemalloc")
FAST_PATHS = {
    "pair": "malloc and free",
    "batch": "the same, 64 at a time",
    "calloc": "calloc and free",
    "aligned": "aligned_alloc and free",
    "resize": "realloc in place",
}
# A multiple of the 64,000 calls of a scale of 1.
INSTRUCTIONS_SCALES = (1, 5)
CALLS = 64000
# jemalloc and homefree give pages back over ten seconds.
SETTLE_SECONDS = 12
SETTLING_MAX = 16


class Way:
    """kind: which of the two modules of a program. preload: a library, or None. proof: what the
    program is told to check. facts: title, version, where it is from."""

    def __init__(self, kind, preload, proof, **facts):
        self.kind = kind
        self.preload = None if preload is None else str(preload)
        self.proof = proof
        self.facts = facts


class Samples:
    def __init__(self, programs, ways, scale=1.0, say=None):
        """programs: the directory of the built programs."""
        self.programs = Path(programs)
        self.ways = ways
        self.scale = scale
        self.say = say or (lambda text, passing=False: None)
        self.sampler = bench.Sampler(self.programs, None)
        self.failures = []

    def command(self, program, way, **more):
        chosen = self.ways[way]
        given = {"scale": self.scale, **more}
        return [
            str(self.programs / "field"),
            "--module",
            str(self.programs / f"{chosen.kind}-{program}.so"),
            "--nothing",
            str(self.programs / f"{chosen.kind}-nothing.so"),
            *chosen.proof,
            *(str(word) for name, value in given.items() for word in (f"--{name}", value)),
        ]

    def version(self, way):
        """What the allocator says of itself, asked in a process that has it."""
        chosen = self.ways[way]
        module = str(self.programs / f"{chosen.kind}-nothing.so")
        done = subprocess.run(
            [str(self.programs / "field"), "--who", "yes", "--module", module],
            env=bench.environment_of(chosen.preload),
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.stdout.strip() or f"unknown ({done.stderr.strip()[-200:]})"

    def failed(self, what, error):
        self.failures.append(f"{what}: {error}")
        self.say(f"failed: {what}: {error}")

    def interleave(self, works, ways, rounds):
        """{work: {way: {figure: [values]}}}. works: {work: (program, arguments)}. Each round takes
        one sample of each way for each work."""
        kept = {work: {way: {} for way in ways} for work in works}
        alive = {work: list(ways) for work in works}
        for number in range(rounds):
            self.say(f"round {number + 1} of {rounds}")
            for work, (program, more) in works.items():
                self.say(f"round {number + 1} of {rounds}, {work}", passing=True)
                for way in list(alive[work])[:: 1 if number % 2 == 0 else -1]:
                    command = self.command(program, way, **more)
                    try:
                        figures = self.sampler.measure(command, self.ways[way].preload)
                    except (bench.Unmeasurable, subprocess.TimeoutExpired, OSError) as error:
                        self.failed(f"{work}, {way}", error)
                        alive[work].remove(way)
                        del kept[work][way]
                        continue
                    for figure, value in figures.items():
                        kept[work][way].setdefault(figure, []).append(value)
        return kept

    def times(self, programs, rounds):
        return self.interleave({name: (name, {}) for name in programs}, list(self.ways), rounds)

    def classes(self, names, rounds):
        works = {name: CLASSES[name][2:] for name in names}
        return self.interleave(works, list(self.ways), rounds)

    def scaling(self, programs, rounds):
        works = {
            f"{program} {threads}": (program, {"threads": threads})
            for program in programs
            if program in THREADED
            for threads in THREADS
        }
        ways = [way for way in SCALING_WAYS if way in self.ways]
        return self.interleave(works, ways, rounds)

    def memory(self, programs, rounds, seconds=SETTLE_SECONDS):
        """{program: {way: {figure: [values]}}}. A process works alone, then idles beside others."""
        kept = {program: {way: {} for way in self.ways} for program in programs}
        for number in range(rounds):
            self.say(f"round {number + 1} of {rounds}, {seconds} seconds of settling each")
            settling = []
            for program in programs:
                self.say(f"round {number + 1} of {rounds}, {program}", passing=True)
                for way in self.ways:
                    if len(settling) == SETTLING_MAX:
                        self.settled(kept, *settling.pop(0))
                    settling.append((program, way, *self.worked(program, way, seconds)))
            for one in settling:
                self.settled(kept, *one)
        return {
            program: {way: figures for way, figures in ways.items() if figures}
            for program, ways in kept.items()
        }

    def worked(self, program, way, seconds):
        """A process that has done its work and goes on, and what it printed until then."""
        process = subprocess.Popen(
            self.command(program, way, settle=seconds),
            env=bench.environment_of(self.ways[way].preload),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("after_pss_kib"):
                break
        return process, "".join(lines)

    def settled(self, kept, program, way, process, before):
        after, errors = process.communicate()
        if process.returncode != 0:
            self.failed(f"memory of {program}, {way}", errors.strip()[-300:])
            return
        for figure, value in bench.figures_in(before + after).items():
            if figure.endswith("_kib"):
                kept[program][way].setdefault(figure, []).append(value)

    def instructions(self):
        """{path: {way: instructions of one call}}."""
        kept = {}
        for path in FAST_PATHS:
            self.say(path)
            kept[path] = {}
            for way, chosen in self.ways.items():
                try:
                    low, high = (
                        bench.count_instructions(
                            self.sampler,
                            self.command("fast_paths", way, what=path, scale=scale),
                            chosen.preload,
                        )
                        for scale in INSTRUCTIONS_SCALES
                    )
                except (bench.Unmeasurable, subprocess.TimeoutExpired, OSError) as error:
                    self.failed(f"instructions of {path}, {way}", error)
                    continue
                span = (INSTRUCTIONS_SCALES[1] - INSTRUCTIONS_SCALES[0]) * CALLS
                kept[path][way] = (high - low) / span
        return kept


def progress(part):
    """Tells on stderr how far a part is. On terminals, what passes is shown until more comes."""
    began = time.monotonic()
    terminal = sys.stderr.isatty()

    def say(text, passing=False):
        if passing and not terminal:
            return
        start, end = ("\r\x1b[K", "" if passing else "\n") if terminal else ("", "\n")
        text = f"{start}{part}, {time.monotonic() - began:.0f} s: {text}"
        print(text, end=end, file=sys.stderr, flush=True)

    return say
