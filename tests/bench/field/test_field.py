"""The field benchmark: its programs run, and with the allocators that they are told; and what is
made of samples: ratios, means, verdicts, tables, the picture.

usage: test_field.py DIRECTORY-OF-PROGRAMS LIBHOMEFREE-PRELOAD
"""

import contextlib
import copy
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import figures
import peers
import picture
import real
import samples
import tables

sys.dont_write_bytecode = True
PRELOAD, PROGRAMS = sys.argv.pop(), sys.argv.pop()
HOME = ["--home", "yes"]
TITLES = {"late": "homefree", "glibc": "glibc", "jemalloc": "jemalloc"}


def ways():
    return {
        "late": samples.Way("late", None, HOME),
        "preloaded": samples.Way("plain", PRELOAD, HOME),
        "glibc": samples.Way("plain", None, []),
    }


def taken(chosen=None, scale=0.001):
    return samples.Samples(PROGRAMS, chosen or ways(), scale)


def least_faults(way):
    """Of five processes that do nothing."""
    command = [f"{PROGRAMS}/field", "--start", f"{PROGRAMS}/{way.kind}-nothing.so"]
    counts = []
    for _ in range(5):
        with subprocess.Popen(command, env=samples.bench.environment_of(way.preload)) as process:
            counts.append(os.wait4(process.pid, 0)[2].ru_minflt)
            process.returncode = 0
    return min(counts)


class Programs(unittest.TestCase):
    def test_each_runs_in_each_way(self):
        made = taken()
        times = made.times(samples.PROGRAMS, 1)
        self.assertEqual(made.failures, [])
        for program in samples.PROGRAMS:
            for way in made.ways:
                with self.subTest(program=program, way=way):
                    found = times[program][way]
                    self.assertGreater(found["real"][0], 0)
                    self.assertGreater(found["peak_kib"][0], 500)
                    self.assertIn("after_pss_kib", found)

    def test_each_class_runs_in_each_way(self):
        made = taken()
        times = made.classes(samples.CLASSES, 1)
        self.assertEqual(made.failures, [])
        self.assertEqual(
            {name: set(found) for name, found in times.items()},
            dict.fromkeys(samples.CLASSES, set(made.ways)),
        )

    def test_a_real_program_is_measured_with_the_allocator_that_it_is_told(self):
        made = taken({**ways(), "absent": samples.Way("plain", "/no/such/library.so", [])})
        with tempfile.TemporaryDirectory() as directory:
            found = real.measure(made, pathlib.Path(directory), ["perl"], 2)["perl"]
        self.assertEqual(set(found), {"preloaded", "glibc"})
        self.assertEqual({len(values) for values in found["glibc"].values()}, {2})
        self.assertEqual([text.split(":")[0] for text in made.failures], ["perl, absent"])

    def test_threads_and_fast_paths(self):
        made = taken()
        for program in samples.THREADED:
            for threads in (1, 3, 16):
                command = made.command(program, "late", threads=threads)
                self.assertIn("real", made.sampler.run(command))
        for path in samples.FAST_PATHS:
            made.sampler.run(made.command("fast_paths", "late", what=path))
        with self.assertRaises(samples.bench.Unmeasurable):
            made.sampler.run(made.command("fast_paths", "late", what="no such path"))

    def test_a_start_takes_few_page_faults(self):
        """It took 145 more than a process without homefree, and takes about 70 late-loaded and 80
        preloaded: small variables lie together (alloc/base/apart.h), relocations are few, and what
        most processes need later is done later."""
        # Compilers' runtimes fault too, and coverage's counters.
        more = {name: least_faults(way) for name, way in ways().items()}
        if more["glibc"] > 80 or os.environ.get("LLVM_PROFILE_FILE"):
            self.skipTest("the program itself is instrumented")
        for name in ("late", "preloaded"):
            self.assertLess(more[name] - more["glibc"], 95, name)

    def test_memory_after_settling(self):
        found = taken().memory(["trees"], 1, seconds=1)["trees"]
        for way in ways():
            self.assertEqual(len(found[way]["settled_rss_kib"]), 1)

    def test_a_wrong_allocator_is_refused(self):
        made = taken(
            {
                "not home": samples.Way("plain", None, HOME),
                "not libc": samples.Way("plain", PRELOAD, []),
                "not this file": samples.Way("plain", None, ["--allocator", PRELOAD]),
            }
        )
        self.assertEqual(made.times(["trees"], 2), {"trees": {}})
        self.assertEqual(len(made.failures), 3)

    def test_versions(self):
        made = taken()
        self.assertTrue(made.version("late").startswith("homefree "))
        self.assertEqual(made.version("late"), made.version("preloaded"))
        self.assertEqual(made.version("glibc"), f"glibc {peers.own_libc()}")


def document():
    """Two programs and two peers, of which each is the best on one."""

    def times(late, glibc, jemalloc):
        named = {"late": late, "preloaded": late, "glibc": glibc, "jemalloc": jemalloc}
        return {
            way: {"real": [value, value * 1.1, value * 0.9], "cpu": [value * 2]}
            for way, value in named.items()
        }

    def memory(value):
        return {
            way: {figure: [value * 1024] for figure in (*figures.MEMORY, "after_rss_kib")}
            for way in ("late", "jemalloc")
        }

    return {
        "rounds": 3,
        "machine": {"libc": "glibc <2>"},
        "allocators": {
            way: {"title": title, "version": "1", "from": "here"} for way, title in TITLES.items()
        },
        "programs": {"server": times(2.0, 1.0, 4.0), "hand_over": times(1.0, 4.0, 2.0)},
        "classes": {
            "stress": times(3.0, 9.0, 2.0),
            "coarse": times(8.0, 4.0, 1.0),
            "fine": times(1.0, 4.0, 1.0),
        },
        "real": {
            "lua": {
                "preloaded": {"cpu": [9.0, 1.0], "peak_kib": [2048], "faults": [10]},
                "glibc": {"cpu": [2.0, 3.0], "peak_kib": [1024], "faults": [20]},
                "jemalloc": {"cpu": [0.5], "peak_kib": [1024], "faults": [20]},
            }
        },
        "memory": {"server": memory(10)},
        "scaling": {"server 2": times(1.0, 9.0, 1.0), "server 4": times(1.2, 9.0, 1.0)},
        "instructions": {"pair": {"late": 78.2, "glibc": 141.0}},
        "pairs": {
            name: {"pair.mix": [value]}
            for name, value in (
                ("homefree", 9.0),
                ("glibc", 9.2),
                ("routed", 9.66),
                ("jemalloc", 10.0),
                ("tcmalloc", 18.0),
            )
        },
        "python": {
            "samples": {
                "csv_text": {"stock": [2.0, 2.0], "arena": [1.0, 1.0], "full": [2.0, 2.0]},
                "decimals": {"stock": [1.0, 1.0], "arena": [2.0, 2.0], "full": [1.0, 1.0]},
            }
        },
        "failures": ["server, late: <it fell>"],
    }


def verdict(rows, beginning):
    found = [row for row in rows if row.what.startswith(beginning)]
    assert len(found) == 1, (beginning, [row.what for row in rows])
    return found[0]


class Figures(unittest.TestCase):
    def setUp(self):
        self.rows = figures.verdicts(document())

    def test_the_best_peer_is_each_programs_own(self):
        found = figures.ratios_to_best(document(), "late")
        self.assertEqual(found, {"server": (2.0, "glibc"), "hand_over": (0.5, "jemalloc")})

    def test_means_and_worst(self):
        mean = verdict(self.rows, "late-loaded: programs")
        self.assertAlmostEqual(mean.value, 1.0)
        worst = verdict(self.rows, "late-loaded: worst program")
        self.assertEqual((worst.value, worst.verdict()), (2.0, "missed"))
        self.assertEqual(worst.beside, "server / glibc")
        handed = verdict(self.rows, "late-loaded: hand-over")
        self.assertEqual((handed.value, handed.verdict()), (0.5, "ok"))

    def test_processor_time_on_demand(self):
        given = document()
        given["programs"]["server"]["late"]["cpu"] = [30.0]
        self.assertEqual(figures.ratios_to_best({**given, "by": "cpu"}, "late")["server"][0], 15.0)

    def test_other_parts(self):
        wanted = {
            "late-loaded: peak memory": (1.0, "ok"),
            "late-loaded: settled memory": (1.0, "ok"),
            "late-loaded: 1 to 16 threads": (1.2, "missed"),
            "late-loaded: worst of mimalloc-bench's": (1.5, "missed"),
            "late-loaded: a buffer grown": (2.0, "missed"),
            "real programs: processor time": (0.5, "ok"),
            "real programs: the worst": (2.0, "missed"),
            "real programs: peak": (2.0, "missed"),
            "module pair": (0.9, "ok"),
            "libc's pair": (1.05, "missed"),
            "Python with install() / stock, geometric mean": (1.0, "missed"),
            "Python with install() / stock, worst": (2.0, "missed"),
            'Python with "full"': (1.0, "ok"),
        }
        for beginning, (value, word) in wanted.items():
            with self.subTest(beginning):
                row = verdict(self.rows, beginning)
                self.assertAlmostEqual(row.value, value)
                self.assertEqual(row.verdict(), word)

    def test_what_is_missing_is_skipped(self):
        rows = figures.verdicts({})
        self.assertEqual([row.what for row in rows], [row.what for row in self.rows])
        self.assertEqual({row.verdict() for row in rows}, {"skipped: not measured"})
        given = document()
        del given["programs"]["server"]["late"]
        self.assertEqual(set(figures.ratios_to_best(given, "late")), {"hand_over"})


class Shown(unittest.TestCase):
    def test_tables(self):
        given = document()
        rows = figures.verdicts(given)
        page = tables.as_markdown(given, TITLES, rows, "field.svg")
        self.assertIn("![", page)
        self.assertIn("| server | 2.000 (1.80..2.20) |", page)
        self.assertIn("| server | 10.0 / 10.0 / 10.0 | – / – / – | 10.0", page)
        self.assertIn("| Lua's binary trees | 2.000 / 1 / 0.0 | 0.500 / 1 / 0.0 |", page)
        self.assertIn("| realloc to 512 MB | 16.000 (16.00..16.00) |", page)
        self.assertIn("| malloc and free | 78 | 141 | – |", page)
        self.assertIn("- server, late: <it fell>", page)
        for line in page.splitlines():
            if line.startswith("| server"):
                self.assertEqual(line.count("|"), 5)
        text = tables.as_text(given, TITLES, rows)
        self.assertIn("late-loaded: worst program / its best peer", text)

    def test_the_picture_is_well_formed_and_has_every_mark(self):
        given = document()
        titles = {"server": "server & co", "hand_over": "hand-over"}
        drawn = picture.draw(given, TITLES, titles)
        tree = xml.etree.ElementTree.fromstring(drawn)
        tips = [one.text for one in tree.iter("{http://www.w3.org/2000/svg}title")]
        self.assertIn("server & co, homefree: 2.00", tips)
        self.assertIn("geometric mean, jemalloc: 2.00", tips)
        # The legend, two programs of three and a mean; one of two and a mean in both other panels.
        self.assertEqual(len(tips) - 1, 3 + 2 * 3 + 3 + 2 * (2 + 2))

    def test_a_picture_of_nothing(self):
        xml.etree.ElementTree.fromstring(picture.draw({}, {}, {}))

    def test_ends_of_the_axis(self):
        self.assertEqual(picture.place(picture.LOW), (0.0, False))
        self.assertEqual(picture.place(100), (1.0, True))
        self.assertEqual(picture.place(0.01), (0.0, True))
        self.assertAlmostEqual(picture.place(2)[0], 2 / 3)


class Peers(unittest.TestCase):
    CONTROL = "Package: x\nVersion: 2.18\nDepends: libc6 (>= 2.38), libgcc-s1 (>= 3.0)\n"

    def test_whether_a_package_runs_here(self):
        self.assertTrue(peers.runs_here(self.CONTROL, "2.38"))
        self.assertFalse(peers.runs_here(self.CONTROL, "2.36"))
        self.assertFalse(peers.runs_here(self.CONTROL.replace("2.38", "2.100"), "2.38"))
        self.assertTrue(peers.runs_here("Package: x\n", "2.17"))

    def test_the_next_release_is_asked_and_the_machine_last(self):
        peer = copy.copy(peers.PEERS["tcmalloc"])
        asked = []
        given = {"from_package": None, "from_source": None, "of_machine": "own"}
        with contextlib.ExitStack() as stack:
            for name, answer in given.items():
                stack.callback(setattr, peers, name, getattr(peers, name))

                def ask(*arguments, name=name, answer=answer):
                    asked.append((name, *arguments[1:2]))
                    return answer

                setattr(peers, name, ask)
            self.assertEqual(peers.find(peer, None, "2.36", 1, None), "own")
        pairs = [(way, suite) for suite in peer.suites for way in ("from_package", "from_source")]
        self.assertEqual(asked, [*pairs, ("of_machine",)])

    def test_without_the_network_nothing_is_written(self):
        with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
            stack.callback(setattr, peers, "of_machine", peers.of_machine)
            peers.of_machine = lambda peer: (PRELOAD, "installed")
            found = peers.fetch(pathlib.Path(directory), ["mimalloc3"], fetching=False)
            self.assertEqual(found, {"mimalloc3": {"path": PRELOAD, "from": "installed"}})
            self.assertEqual(list(pathlib.Path(directory).iterdir()), [])

    def test_what_was_fetched_is_kept_and_the_machines_own_is_not(self):
        with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
            directory = pathlib.Path(directory).resolve()
            (directory / "new.so").touch()
            answers = {"jemalloc": (directory / "new.so", "sid"), "tcmalloc": (PRELOAD, "own")}
            asked = []
            stack.callback(setattr, peers, "find", peers.find)

            def find(peer, *rest):
                asked.append(peer.title)
                return answers[peer.title]

            peers.find = find
            with contextlib.redirect_stderr(io.StringIO()):
                first = peers.fetch(directory, list(answers))
                self.assertEqual(peers.fetch(directory, list(answers)), first)
            self.assertEqual(asked, ["jemalloc", "tcmalloc", "tcmalloc"])


if __name__ == "__main__":
    unittest.main()
