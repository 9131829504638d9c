#!/usr/bin/env python3
"""A model of ownership: random sequences of what a process does with memory, against reference.py.

Hypothesis invents the sequences; a real process (world.c) with real allocators and a real CPython
carries them out. After each step every block's owner, size and contents are compared, and how many
blocks of the heap are left. What fails is shrunk to a few steps and printed as a program.

usage: model.py [--build DIRECTORY]
    --seconds N   for how long; 0: a fixed number of examples
    --seed TEXT   which sequences: by default the commit's name, with --seconds others each time
    --turn N      the first of them: "seed TEXT/N/WHAT" is printed
    --start WHAT  plain, or what is preloaded: preload, diagnose (by default all)

Exit status: 0 nothing differs, 1 a difference, 77 something is missing here.
"""

import argparse
import copy
import hashlib
import os
import pathlib
import re
import secrets
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from glibc import VERSION  # noqa: E402

if VERSION < (2, 35):
    print("skipped: before glibc 2.35, it is not known what other allocators own")
    sys.exit(77)

try:
    import hypothesis
except ImportError:
    system = "/usr/bin/python3"  # where a distribution's packages are
    if os.path.realpath(sys.executable) != os.path.realpath(system) and os.path.exists(system):
        os.execv(system, [system, *sys.argv])
    print("hypothesis is not installed (Debian: python3-hypothesis)")
    sys.exit(77)

from commit import commit  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from hypothesis.stateful import (  # noqa: E402
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from reference import KINDS, SIDES, Block, World  # noqa: E402
from rows import row  # noqa: E402

SLOTS = 24  # live blocks at most
DEPTH = 3  # forks within forks
SIZES = (1, 8, 16, 24, 100, 512, 513, 1000, 4096, 5000, 16384, 32769, 70000, 300000, 1 << 20)
OWNERS = {  # enum hf_owner_kind, and the allocator's name
    "heap": ("1", "homefree"),
    "pymalloc": ("2", None),
    "libc": ("3", "glibc"),
    "its jemalloc": ("4", "jemalloc"),
    "its tcmalloc": ("4", "tcmalloc"),
    "tcmalloc": ("4", "tcmalloc"),
    "mimalloc": ("4", "mimalloc"),
}


class Difference(AssertionError):
    """The process did what the reference does not say."""


class Process:
    """world.c, from the first example to the last."""

    def __init__(self, options, preload, reports):
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith("HOMEFREE")
        }
        # A hidden jemalloc needs more static TLS than glibc keeps for objects that come late.
        environment["GLIBC_TUNABLES"] = "glibc.rtld.optional_static_tls=16384"
        if options.libpython:
            environment["PYTHONHOME"] = sys.base_prefix
        if preload is not None:
            environment["LD_PRELOAD"] = str(preload)
        if preload is not None and "diagnose" in preload.name:
            environment["HOMEFREE_DIAGNOSE"] = f"mode:report,directory:{reports}"
        self.environment = environment
        library = str(preload or options.homefree)
        self.command = [options.world, library, options.libpython or "-"]
        self.command += [f"{name}={path}" for name, path in options.paths.items()]
        self.child = None
        self.busy = False  # with an example that did not come to its end

    def begin(self):
        if self.child is None or self.busy:
            self.end()
            self.child = subprocess.Popen(
                self.command,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
                start_new_session=True,
            )
        self.commands = []
        self.tell("begin")
        self.busy = True

    def tell(self, command):
        self.commands.append(command)
        self.child.stdin.write(command + "\n")
        self.child.stdin.flush()
        answer = self.child.stdout.readline().rstrip("\n")
        if not answer.startswith("ok"):
            raise Difference(f"{command}: {answer or 'the process is gone'}")
        return answer[3:]

    def end(self):
        if self.child is not None:
            os.killpg(self.child.pid, signal.SIGKILL)  # an example's processes, too
            self.child.wait()
            self.child.stdin.close()
            self.child.stdout.close()


def machine(process, options, preload):
    """The class of machines that drive a process."""
    sides = [side for side in SIDES if not SIDES[side].file or side in options.paths]
    if not options.libpython:
        sides = [side for side in sides if side not in ("raw", "object")]
    if preload is not None and "diagnose" in preload.name:
        # libstdc++'s own operators, looked up in its handle, jump to others: diagnosis sees those.
        sides.remove("runtime")
    files = [side for side in sides if SIDES[side].file]
    kinds = list(KINDS)
    pick = st.integers(0, 10**6)
    threads = st.integers(0, 3)

    class Ownership(RuleBasedStateMachine):
        def __init__(self):
            super().__init__()
            self.worlds = []  # the last one is the process that obeys
            self.watched = False

        # ---- the process ----

        def tell(self, command):
            return process.tell(command)

        def expect(self, command, *expected):
            answer = self.tell(command)
            if answer not in expected:
                raise Difference(f"{command}: {answer}, not {' or '.join(expected)}")
            return answer

        @property
        def world(self):
            return self.worlds[-1]

        @initialize(
            checks=st.sampled_from(("default", "full")),
            watched=st.booleans(),
            first=st.lists(st.sampled_from(["homefree", *files]), unique=True),
        )
        def begin(self, checks, watched, first):
            process.begin()
            self.worlds = [World()]
            tally["examples"] += 1
            if preload is not None:
                self.worlds = [World(libc="heap", homefree=True)]
            elif checks == "full":
                self.tell("set HOMEFREE_CONF=checks:full")
            self.will_watch = watched
            for name in first:
                if name != "homefree":
                    self.load(name, "now")
                elif not self.world.homefree:
                    self.load_homefree()

        def begin_watch(self, watched):
            if watched:
                self.tell("watch")
                self.watched = True

        def homefree_came(self):
            if not self.world.homefree:
                self.world.homefree = True
                self.begin_watch(self.will_watch and len(self.worlds) == 1)

        def compare(self):
            tally["steps"] += 1
            found = {}
            for entry in self.tell("look").split():
                slot, *rest = entry.split(":")
                found[int(slot)] = rest
            world = self.world
            if set(found) != set(world.blocks):
                raise Difference(f"blocks {sorted(found)}, not {sorted(world.blocks)}")
            for slot, (kind, name, where, usable, start, contents) in found.items():
                block = world.blocks[slot]
                if contents != "intact":
                    raise Difference(f"block {slot} of {block.owner} is damaged")
                if not world.homefree:
                    continue
                expected = OWNERS[block.owner]
                if block.owner == "pymalloc":  # known where it is installed
                    expected = (("2" if block.inside or kind == "2" else "0"), name)
                if (kind, name) != expected:
                    raise Difference(f"block {slot} belongs to {name} ({kind}), not {block.owner}")
                if (where == "inside") != block.inside:  # nothing moves without a resize
                    raise Difference(f"block {slot} of {block.owner} is {where} the region")
                if kind == "0":  # nobody can measure it
                    continue
                if start != "start" or int(usable) < block.size:
                    raise Difference(f"block {slot}: {usable} bytes from {start}, not {block.size}")
            if self.watched and int(left := self.tell("left")) not in world.left_in_heap():
                raise Difference(f"{left} blocks are left in the heap, not {world.left_in_heap()}")

        # ---- loading ----

        @precondition(lambda self: not self.world.homefree)
        @rule()
        def load_homefree(self):
            self.tell("homefree")
            self.homefree_came()
            self.compare()

        @rule(side=st.sampled_from(files), flag=st.sampled_from(("lazy", "now", "global")))
        def load(self, side, flag):
            if side in self.world.loaded:
                return
            if flag == "global" and side.startswith("named-"):
                flag = "lazy"  # the allocator's malloc would be in front of others
            self.tell(f"load {side} {flag}")
            self.world.loaded.add(side)
            if side == "shim":
                self.homefree_came()
            self.compare()

        @precondition(lambda self: self.world.loaded)
        @rule(which=pick)
        def unload(self, which):
            world = self.world
            side = sorted(world.loaded)[which % len(world.loaded)]
            # Without homefree, a hidden allocator's blocks and threads end with it.
            if SIDES[side].takes and not world.homefree:
                return
            self.expect(f"unload {side}", "stays" if SIDES[side].pinned else "gone")
            world.loaded.discard(side)
            world.adopted.discard(side)
            self.compare()

        @precondition(lambda self: self.world.homefree)
        @rule()
        def route(self):
            if int(self.tell("route")) < 0:
                raise Difference("hf_route() failed")
            self.compare()

        @precondition(lambda self: self.world.homefree)
        @rule(side=st.sampled_from([side for side in files if SIDES[side].adoptable]))
        def adopt(self, side):
            if side not in self.world.loaded:
                return
            if int(self.tell(f"adopt {side}")) < 0:
                raise Difference("hf_adopt() failed")
            self.world.adopted.add(side)
            self.compare()

        # ---- blocks ----

        def thread_or_main(self, thread):
            return thread if thread in self.world.threads else 0

        @precondition(lambda self: len(self.world.blocks) < SLOTS)
        @rule(side=pick, kind=pick, size=st.sampled_from(SIZES), thread=threads)
        def allocate(self, side, kind, size, thread):
            world = self.world
            able = [name for name in sides if world.usable(name)]
            side = able[side % len(able)]
            kind = SIDES[side].kinds[kind % len(SIDES[side].kinds)]
            thread = 0 if side == "object" else self.thread_or_main(thread)
            slot = next(slot for slot in range(SLOTS) if slot not in world.blocks)
            owner = world.owner_of_new(side, kind, size)
            where = self.expect(
                f"acquire {thread} {side} {kinds.index(kind)} {slot} {size}", "inside", "outside"
            )
            inside = where == "inside"
            world.blocks[slot] = Block(owner, KINDS[kind], size, side, side, inside)
            tally["blocks"] += 1
            if not world.homefree:
                world.blocks[slot].inside = False
            elif owner != "pymalloc" and inside != (owner == "heap"):
                raise Difference(f"a block of {side} ({kind}) is {where} the region, for {owner}")
            self.compare()

        @precondition(lambda self: len(self.world.blocks) <= SLOTS - len(sides))
        @rule(kind=pick, size=st.sampled_from(SIZES), thread=threads)
        def allocate_everywhere(self, kind, size, thread):
            for side in range(sum(self.world.usable(name) for name in sides)):
                self.allocate(side, kind + side, size, thread)

        def chosen(self, block, side, thread):
            """Slot, side and thread: the first ones from these numbers on that may be chosen."""
            slots = sorted(self.world.blocks)
            slot = slots[block % len(slots)]
            taken = self.world.blocks[slot]
            thread = self.thread_or_main(thread)
            able = [s for s in sides if self.world.may_take(s, taken, thread)]
            return slot, able[side % len(able)] if able else None, thread

        @precondition(lambda self: self.world.blocks)
        @rule(block=pick, side=pick, thread=threads)
        def release(self, block, side, thread):
            slot, side, thread = self.chosen(block, side, thread)
            if side is not None:
                self.give_back(slot, side, thread)
                self.compare()

        @precondition(lambda self: self.world.blocks)
        @rule(side=pick, thread=threads)
        def release_everything(self, side, thread):
            for block in reversed(range(len(self.world.blocks))):
                self.release(block, side + block, thread)

        def give_back(self, slot, side, thread):
            block = self.world.blocks.pop(slot)
            self.expect(f"release {thread} {side} {kinds.index(block.group)} {slot}", "freed")
            tally["crossings"] += side != block.by

        @precondition(lambda self: self.world.blocks)
        @rule(block=pick, side=pick, size=st.sampled_from(SIZES), thread=threads)
        def resize(self, block, side, size, thread):
            slot, side, thread = self.chosen(block, side, thread)
            block = self.world.blocks[slot]
            # CPython's objects may move to another owner; who else resizes them is C's business.
            if side is None or block.group != "malloc" or not SIDES[side].resizes:
                return
            if "pymalloc" in (block.owner, self.world.owner_of_new(side, "malloc", size)):
                return
            where = self.tell(f"resize {thread} {side} {slot} {size}")
            if (where == "inside") != block.inside:
                raise Difference(f"a block of {block.owner} is {where} the region once resized")
            block.size, block.last = size, side
            tally["crossings"] += side != block.by
            self.compare()

        # ---- threads, processes, interpreters ----

        @rule(thread=st.integers(1, 3))
        def start_thread(self, thread):
            if thread not in self.world.threads:
                self.tell(f"thread {thread} start")
                self.world.threads.add(thread)

        @precondition(lambda self: self.world.threads)
        @rule(which=pick)
        def end_thread(self, which):
            thread = sorted(self.world.threads)[which % len(self.world.threads)]
            self.tell(f"thread {thread} end")
            self.world.threads.discard(thread)
            self.compare()

        @precondition(lambda self: len(self.worlds) < DEPTH)
        @rule()
        def fork(self):
            self.tell("fork python" if self.world.python else "fork")
            self.worlds.append(copy.deepcopy(self.world))
            self.world.threads = set()
            tally["forks"] += 1
            self.compare()

        @precondition(lambda self: len(self.worlds) > 1)
        @rule()
        def end_child(self):
            self.tell("end")
            self.worlds.pop()
            self.compare()

        @precondition(lambda self: options.libpython and not self.world.python)
        @rule(mode=st.sampled_from(("off", "arena", "full")))
        def start_python(self, mode):
            if mode == "off" or self.world.homefree:
                self.tell(f"python start {mode}")
                self.world.install(mode, sys.version_info >= (3, 12))
                tally["interpreters"] += 1
                self.compare()

        @precondition(lambda self: self.world.python)
        @rule()
        def run_python(self):
            self.tell("python work")
            self.compare()

        @precondition(lambda self: self.world.python)
        @rule()
        def end_python(self):
            world = self.world
            for slot in [s for s, block in world.blocks.items() if block.owner == "pymalloc"]:
                self.give_back(slot, "object", 0)  # nobody can free them later
            self.expect("python end", "0")
            world.python = ""
            self.compare()

        @precondition(lambda self: self.world.python)
        @rule()
        def subinterpreter(self):
            self.tell("sub start")
            self.compare()
            self.tell("sub end")
            self.compare()

        # ---- the end ----

        def teardown(self):
            if not self.worlds or sys.exc_info()[0] is not None:
                return
            while self.worlds:
                world = self.world
                for slot, block in list(world.blocks.items()):
                    able = [s for s in sides if world.may_take(s, block, 0)]
                    if able:
                        self.give_back(slot, able[slot % len(able)], 0)
                self.compare()
                said = self.tell("end")
                self.worlds.pop()
            # Diagnosis finds every block that crosses; anything else would be a warning.
            if re.sub(
                r"homefree: diagnosis of process \d+: \d+ errors?, 0 warnings; [^;]* more ",
                "",
                said,
            ):
                raise Difference(f"the process wrote: {said}")
            process.busy = False

    return Ownership


tally = dict.fromkeys(("examples", "steps", "blocks", "crossings", "forks", "interpreters"), 0)


def run(options, preload, seed, examples, steps):
    reports = tempfile.TemporaryDirectory(prefix="homefree-model-")
    process = Process(options, preload, reports.name)
    try:
        test = machine(process, options, preload)
        test.TestCase.settings = hypothesis.settings()
        hypothesis.seed(seed)(test)
        run_state_machine_as_test(
            test,
            settings=hypothesis.settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                database=None,
                print_blob=False,
                report_multiple_bugs=False,
                suppress_health_check=list(hypothesis.HealthCheck),
            ),
        )
    except Difference:
        told = [command for command in process.commands if command not in ("look", "left")]
        print("the process was told:", *told, sep="\n    ", file=sys.stderr)
        raise
    finally:
        process.end()
        reports.cleanup()


def figures(began):
    counts = [f"{count} {name}" for name, count in tally.items()]
    return ", ".join([*counts, f"{time.monotonic() - began:.0f} s"])


def libpython():
    """The libpython of this interpreter, if it has a shared one."""
    name = (sysconfig.get_config_var("INSTSONAME") or "").replace(".a", ".so")
    directories = [sysconfig.get_config_var("LIBDIR") or ""]
    directories.append(os.path.join("/usr/lib", sysconfig.get_config_var("MULTIARCH") or ""))
    for path in (
        os.path.join(directory, name + end) for directory in directories for end in ("", ".1.0")
    ):
        if name and os.path.isfile(path):
            return path
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--seed")
    parser.add_argument("--turn", type=int, default=0)
    parser.add_argument("--start", action="append", choices=("plain", "preload", "diagnose"))
    options = parser.parse_args()
    directory = options.build.resolve() / "tests/model"
    loader = options.build.resolve() / "loader"
    options.world = directory / "model-world"
    options.homefree = loader / "libhomefree.so.1"
    paths = {path.stem.partition("-")[2]: path for path in directory.glob("model-*.so")}
    options.paths = {"runtime": "libstdc++.so.6", **paths}
    options.libpython = libpython()
    options.seed = options.seed or (secrets.token_hex(4) if options.seconds else commit())
    starts = {
        "plain": None,
        "preload": loader / "libhomefree-preload.so",
        "diagnose": loader / "libhomefree-diagnose.so",
    }
    began = time.monotonic()
    turn = options.turn
    while turn == options.turn or time.monotonic() - began < options.seconds:
        for start in options.start or starts:
            if tally["examples"] > 0 and 0 < options.seconds < time.monotonic() - began:
                break
            text = f"{options.seed}/{turn}/{start}"
            print(f"seed {text}", flush=True)
            seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
            long = options.seconds > 0
            examples = 40 if long else 30 if start == "plain" else 12
            try:
                run(options, starts[start], seed, examples, 60 if long else 30)
            except Difference:
                print(f"the sequence above shows it; seed {text}", file=sys.stderr)
                row("model of ownership", figures(began), f"failed: seed {text}")
                raise
        turn += 1
    print(figures(began))
    row("model of ownership", figures(began))
    return 0


if __name__ == "__main__":
    sys.exit(main())
