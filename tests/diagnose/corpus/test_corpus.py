"""Crashes that public threads report, each cause rebuilt as a small module: a diagnosis from a
plain start names the rule and both sides. Correct programs that look alike have no finding.

Usage: test_corpus.py --homefree COMMAND --host PROGRAM --guests MODULE… --linked PROGRAM…
       [unittest arguments]
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from diagnosis import TIMEOUT, DiagnosisTest, arguments, main, parser  # noqa: E402

parser.add_argument("--host", required=True, type=os.path.abspath)
parser.add_argument("--guests", required=True, nargs="+", type=Path)
parser.add_argument("--linked", nargs="*", default=[], type=os.path.abspath)

DELETE = "operator delete(void*)"
ARRAY = "operator delete[](void*)"
# Debian's jemalloc needs more static TLS than glibc keeps for objects that come late.
TUNABLES = {"GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=16384"}


class Corpus(DiagnosisTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.guests = {path.stem: path.resolve() for path in arguments.guests}

    def guest(self, name):
        """A guest that this machine could build, or None."""
        return self.guests.get(f"guest-{name}")

    def side(self, name, flags="l"):
        return f"{flags}:{self.guest(name)}"

    def diagnose(self, *words, **environment):
        env = {**os.environ, **TUNABLES, **environment}
        run = super().diagnose(arguments.host, *words, env=env)
        self.assertNotEqual(run.status, 77, run.errors)
        return run

    def plain(self, *command, **environment):
        env = {**os.environ, **TUNABLES, **environment}
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT, env=env)
        return done.returncode, done.stdout.decode()

    def check(self, run, rule, allocated, freed):
        """Asserts that there is one finding. Sides: what their members contain, None for null."""
        (finding,) = run.report["findings"]
        self.assertEqual(finding["rule"], rule, finding)
        for side, members in (("allocated", allocated), ("freed", freed)):
            for member, text in members.items():
                if text is None:
                    self.assertIsNone(finding[side][member], finding)
                else:
                    self.assertIn(text, finding[side][member] or "", finding)

    def survives(self, run):
        self.assertEqual((run.status, run.output), (0, "survived\n"), run.errors)

    def each(self, prefix):
        return [name[len("guest-") :] for name in self.guests if name.startswith(f"guest-{prefix}")]

    def test_blocks_of_a_private_allocator_leave_the_module(self):
        """github.com/jemalloc/jemalloc/issues/2660: hidden, and freed by others."""
        ways = {"malloc": ("free", "free"), "new": ("new", DELETE), "array": ("array", ARRAY)}
        for name in self.each("private-"):
            for take, (give, function) in ways.items():
                with self.subTest(guest=name, take=take):
                    run = self.diagnose(self.side(name), take, "host", give)
                    self.survives(run)
                    self.check(
                        run,
                        "foreign-free",
                        {"allocator": name[len("private-") :], "allocator_object": name},
                        {"function": function, "object": "host", "allocator": "libc"},
                    )

    def test_blocks_of_others_reach_a_private_allocator(self):
        """github.com/jemalloc/jemalloc/issues/2376 (strdup), github.com/chdb-io/chdb-core/issues/42
        (realpath, getcwd)."""
        for name in self.each("private-"):
            guest = self.side(name)
            for side, what, owner in (
                (guest, "strdup", "libc.so"),
                (guest, "realpath", "libc.so"),
                (guest, "getcwd", "libc.so"),
                ("host", "malloc", "host"),
            ):
                with self.subTest(guest=name, what=what):
                    run = self.diagnose(side, what, guest, "free")
                    deaths = (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGILL)  # tcmalloc traps
                    self.assertIn(run.status, deaths, run.errors)
                    self.check(
                        run,
                        "foreign-free",
                        {"allocator": "heap", "object": owner},
                        {"object": name},
                    )

    def test_malloc_in_one_library_and_another_allocators_free(self):
        """github.com/jemalloc/jemalloc/issues/2404: malloc here, dallocx there."""
        for name in self.each("beside-"):
            with self.subTest(guest=name):
                run = self.diagnose("host", "malloc", self.side(name), "free")
                self.survives(run)
                self.check(
                    run,
                    "foreign-free",
                    {"allocator": "heap", "object": "host", "function": "malloc"},
                    {"object": name, "allocator": name[len("beside-") :]},
                )

    def test_blocks_of_an_allocator_beside(self):
        for name in ("beside-mimalloc", "beside-tcmalloc"):
            if self.guest(name):
                with self.subTest(guest=name):
                    run = self.diagnose(self.side(name), "malloc", "host", "free")
                    self.survives(run)
                    allocator = name[len("beside-") :]
                    self.check(run, "foreign-free", {"allocator": allocator}, {"object": "host"})

    def test_a_module_that_is_linked_with_an_allocator(self):
        """github.com/explosion/spaCy/issues/938: a module linked with tcmalloc, and a C++ runtime
        that came earlier. In a diagnosed process the operators are homefree's, also for the module:
        nothing crosses."""
        for name in self.each("beside-"):
            for flags in "lg":
                with self.subTest(guest=name, flags=flags):
                    run = self.diagnose(self.side(name, flags), "string", "host", "string")
                    self.survives(run)
                    self.assertEqual(run.report["findings"], [])

    def test_a_preloaded_allocator_and_a_private_one(self):
        """github.com/ray-project/ray/issues/39135: a preloaded tcmalloc, and a jemalloc inside."""
        for library in ("libtcmalloc_minimal.so.4", "libjemalloc.so.2", "libmimalloc.so.2"):
            if self.plain("/bin/true", LD_PRELOAD=library)[0] != 0:
                continue
            for name in self.each("private-"):
                with self.subTest(preloaded=library, guest=name):
                    words = [self.side(name), "string", "host", "string"]
                    command = [arguments.homefree, "run", "--", arguments.host, *words]
                    self.assertEqual(self.plain(*command, LD_PRELOAD=library), (0, "survived\n"))
                    words = [self.side(name), "malloc", "host", "free"]
                    run = self.diagnose(*words, LD_PRELOAD=library)
                    self.survives(run)
                    allocator = name[len("private-") :]
                    self.check(run, "foreign-free", {"allocator": allocator}, {"object": "host"})

    def test_a_program_that_is_linked_with_an_allocator(self):
        """It may mix that allocator's functions with the standard ones."""
        for program in arguments.linked:
            with self.subTest(program=program):
                plain = self.plain(program)
                self.assertEqual(plain, (0, "survived\n"))
                self.assertEqual(self.plain(arguments.homefree, "run", "--", program), plain)
                run = self.diagnose(program)
                self.survives(run)
                self.assertEqual(run.report["findings"], [])

    def test_objects_that_only_look_different(self):
        """github.com/pytorch/pytorch/issues/3059 and drake's issue 12073 (RTLD_GLOBAL,
        RTLD_DEEPBIND), github.com/NVIDIA/TensorRT/issues/4592 (a C++ runtime linked statically),
        linkers that fold the operators, operators of a module's own that call malloc: what crosses
        there is one allocator's."""
        for name in ["plain", "static-runtime", "symbolic", "operators", *self.each("folded-")]:
            for flags in "lgd":
                guest = self.side(name, flags)
                words = [guest, "string", guest, "string"]
                for what in ("malloc", "new", "array", "string"):
                    give = "free" if what == "malloc" else what
                    words += [guest, what, "host", give, "host", what, guest, give]
                with self.subTest(guest=name, flags=flags):
                    run = self.diagnose(*words)
                    self.survives(run)
                    self.assertEqual(run.report["findings"], [])

    def test_two_runtimes(self):
        """The same with a hidden runtime: its operator new is another function than everybody
        else's operator delete expects."""
        guest = self.side("hidden-runtime")
        run = self.diagnose(guest, "new", "host", "new")
        self.survives(run)
        self.check(
            run,
            "malloc-delete",
            {"object": "hidden-runtime", "function": "malloc"},
            {"object": "host", "function": DELETE},
        )
        run = self.diagnose("host", "array", guest, "array")
        self.survives(run)
        self.check(
            run,
            "new-free",
            {"object": "host", "function": "operator new[](unsigned long)"},
            {"object": "hidden-runtime", "function": "free"},
        )

    def test_new_and_free(self):
        """github.com/rapidsai/cudf/issues/18412, and data that an array got with OWNDATA
        (github.com/numpy/numpy/issues/8253, github.com/serge-sans-paille/pythran/issues/1913)."""
        for take, function in (("new", "operator new("), ("array", "operator new[](")):
            run = self.diagnose(self.side("plain"), take, "host", "free")
            self.survives(run)
            self.check(
                run,
                "new-free",
                {"object": "guest-plain", "function": function},
                {"object": "host", "function": "free"},
            )

    def test_a_literal(self):
        """github.com/pybind/pybind11/issues/5976."""
        run = self.diagnose(self.side("plain"), "literal", "host", "free")
        self.survives(run)
        self.check(run, "static-free", {"allocator": None}, {"object": "host", "function": "free"})

    def test_memory_of_a_device(self):
        """github.com/wilicc/gpu-burn/issues/17: free() of page-locked memory, a mapping."""
        for give in ("free", "realloc"):
            run = self.diagnose(self.side("plain"), "mapping", "host", give)
            self.survives(run)
            self.check(run, "foreign-free", {"allocator": None}, {"object": "host"})


if __name__ == "__main__":
    main(needs_names=True)
