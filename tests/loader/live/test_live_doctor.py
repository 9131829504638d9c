"""`homefree doctor --pid`: it sees from outside what `homefree doctor -- CMD` is told from inside.

Usage: see looking.py.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from looking import CC, Looking, arguments, main, names

EMPTY = "#include <stdlib.h>\nvoid use(void) { free(malloc(1)); }\n"
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
LOADS = """
import ctypes, os, sys
for path in sys.argv[1:]:
    ctypes.CDLL(path)
print("ready", os.getpid(), flush=True)
sys.stdin.read()
"""
# Debian's jemalloc wants more static TLS than late libraries get.
TUNABLES = {"GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=16384"}
MIMALLOC = "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2"


def facts(process):
    """What both ways of looking must agree on."""

    def real(paths):
        return sorted({os.path.realpath(path) for path in paths})

    objects = {
        os.path.realpath(each["path"]): (
            each["role"],
            each["static_tls"],
            *(real(each[key]) for key in ("malloc", "free", "new", "delete")),
            each["routed"],
            each["refused"],
            each["out_of_reach"],
        )
        for each in process["objects"]
    }
    allocators = sorted(
        (each["name"], os.path.realpath(each["object"]), each["users"], each["heap"], each["home"])
        for each in process["allocators"]
    )
    return objects, allocators, sorted(each["rule"] for each in process["findings"])


class Doctor(Looking):
    maxDiff = None

    def test_python_with_several_allocators(self):
        command = [PYTHON, "-c", LOADS, *arguments.modules]
        if os.path.exists(MIMALLOC):
            command.append(MIMALLOC)
        told = self.command(
            "doctor",
            "--json",
            "--library",
            arguments.library,
            "--",
            *command,
            env={**os.environ, **TUNABLES},
        )
        self.assertIn(told.returncode, (0, 1), told.stderr)
        preload = {**TUNABLES, "LD_PRELOAD": arguments.library}
        process = self.doctor(self.run_target(*command, env=preload).pid)
        self.assertEqual(facts(process), facts(json.loads(told.stdout)["processes"][0]))
        self.assertEqual((process["routing"], process["homefree"]), (True, True))
        self.assertIsNone(process["unseen"])
        self.assertEqual(process["preload"], arguments.library)
        for module in arguments.modules:
            (allocator,) = (
                each for each in process["allocators"] if os.path.samefile(each["object"], module)
            )
            self.assertTrue(allocator["home"])

    def test_python_on_the_heap(self):
        """CPython's own allocator is one that homefree hosts."""
        if not arguments.package:
            self.skipTest("the package is not built")
        env = {
            "PYTHONPATH": arguments.package,
            "LD_LIBRARY_PATH": os.path.dirname(arguments.library),
        }
        code = f"import homefree\nhomefree.install(python='arena')\n{LOADS}"
        for python in {os.path.realpath(PYTHON), os.path.realpath(sys.executable)}:
            with self.subTest(python=python):
                process = self.doctor(self.run_target(python, "-c", code, env=env).pid)
                found = {each["name"]: each for each in process["allocators"]}
                self.assertTrue(found["pymalloc"]["home"])
                self.assertTrue(found["homefree"]["heap"])
                self.assertTrue(process["routing"])

    def test_mapped_bytes(self):
        if not os.path.exists(MIMALLOC):
            self.skipTest("no mimalloc")
        code = LOADS.replace("CDLL(path)", "CDLL(path).mi_malloc(ctypes.c_size_t(40 << 20))")
        target = self.run_target(
            PYTHON, "-c", code, MIMALLOC, env={"LD_PRELOAD": arguments.library}
        )
        (mapped,) = (
            each["mapped"]
            for each in self.doctor(target.pid)["allocators"]
            if "libmimalloc" in each["object"]
        )
        self.assertGreaterEqual(mapped, 40 << 20)

    def test_without_homefree(self):
        target = self.run_target()
        process = self.doctor(target.pid, statuses=(0,))
        program = next(each for each in process["objects"] if "live-target" in each["path"])
        self.assertEqual(names(program["malloc"]), ["libc.so"])
        self.assertEqual(names(program["free"]), ["libc.so"])
        self.assertEqual((process["routing"], process["homefree"]), (False, False))
        self.assertEqual(process["findings"], [])
        text = self.command("doctor", "--pid", target.pid).stdout
        self.assertIn("homefree is not in this process", text)
        self.assertEqual(target.tell("blocks", 10), "done")
        self.assertEqual(target.end(), 0)

    def test_member_of_the_registry(self):
        """What an object publishes is all that it has, and no hidden allocator."""
        member = self.directory / "member.so"
        root = Path(__file__).parents[3]
        source = (
            '#include "tests/registry/wrong.c"\n'
            '__attribute__((used, visibility("hidden"))) void je_mallctl(void) {}\n'
        )
        command = [*CC, "-x", "c", "-shared", "-fPIC", "-D_GNU_SOURCE", "-pthread", "-"]
        command += [f"-I{root}", f"-I{root / 'include'}", "-o", member]
        subprocess.run(command, input=source, text=True, check=True)
        for env, rule in (
            ({}, "registry-member"),
            ({"LD_PRELOAD": arguments.library}, "foreign-allocator"),
        ):
            with self.subTest(rule):
                target = self.run_target(env=env)
                self.assertEqual(target.tell("load", member), "done")
                process = self.doctor(target.pid, statuses=(0,))
                found = {
                    each["name"]: os.path.basename(each["object"])
                    for each in process["allocators"]
                    if os.path.basename(each["object"]) == "member.so"
                }
                self.assertEqual(found, {"wrong": "member.so"})
                self.assertIn(rule, [each["rule"] for each in process["findings"]])

    def test_preloaded_allocator(self):
        if not os.path.exists(MIMALLOC):
            self.skipTest("no mimalloc")
        target = self.run_target(env={"LD_PRELOAD": MIMALLOC})
        process = self.doctor(target.pid)
        program = next(each for each in process["objects"] if "live-target" in each["path"])
        self.assertEqual(names(program["malloc"]), ["libmimalloc.so"])
        self.assertIn("preloaded-allocator", [each["rule"] for each in process["findings"]])

    def test_routing_off(self):
        env = {"LD_PRELOAD": arguments.library, "HOMEFREE_CONF": "route:off"}
        process = self.doctor(self.run_target(env=env).pid, statuses=(1,))
        self.assertFalse(process["routing"])
        self.assertEqual([each["rule"] for each in process["findings"]], ["routing-off"])

    def test_diagnosed(self):
        process = self.doctor(self.diagnose().pid)
        program = next(each for each in process["objects"] if "live-target" in each["path"])
        self.assertEqual(names(program["malloc"]), ["libhomefree-diagnose.so"])
        self.assertTrue(process["routing"])

    def test_deleted_program_and_library(self):
        program, library = self.directory / "program", self.directory / "library.so"
        shutil.copy(arguments.target, program)
        subprocess.run(
            [*CC, "-x", "c", "-shared", "-fPIC", "-fno-builtin", "-O0", "-", "-o", str(library)],
            input=EMPTY,
            text=True,
            check=True,
        )
        target = self.run_target(str(program))
        self.assertEqual(target.tell("load", library), "done")
        program.unlink()
        library.unlink()
        seen = [self.doctor(target.pid)]
        if os.geteuid() != 0:  # root gets at the files; others put the library together from memory
            self.assertIsNone(seen[0]["unseen"])
        for process in seen:
            for path in (program, library):
                (found,) = (each for each in process["objects"] if each["path"] == str(path))
                self.assertEqual((names(found["malloc"]), names(found["free"])), (["libc.so"],) * 2)
        self.assertEqual(target.end(), 0)

    def test_deleted_library_of_the_same_user(self):
        """Without privileges, its contents come from the process's memory."""
        nobody = self.as_nobody()
        library, program = self.directory / "library.so", self.directory / "target"
        subprocess.run(
            [*CC, "-x", "c", "-shared", "-fPIC", "-fno-builtin", "-O0", "-", "-o", str(library)],
            input=EMPTY,
            text=True,
            check=True,
        )
        library.chmod(0o755)
        owned = {key: nobody[key] for key in ("user", "group", "extra_groups")}
        target = self.run_target(str(program), **owned)
        self.assertEqual(target.tell("load", library), "done")
        library.unlink()
        process = self.doctor(target.pid, **nobody)
        (found,) = (each for each in process["objects"] if each["path"] == str(library))
        self.assertEqual((names(found["malloc"]), names(found["free"])), (["libc.so"],) * 2)
        self.assertIsNone(process["unseen"])

    def test_unreadable_memory(self):
        """What /proc and the files show is shown, and the rest is said to be missing."""
        env = {"LD_PRELOAD": arguments.library}
        target = self.run_target(env=env)
        refused = {"env": {**os.environ, "LD_PRELOAD": arguments.refuse}}
        process = self.doctor(target.pid, **refused)
        self.assertIsNone(process["routing"])
        self.assertTrue(process["homefree"])
        self.assertIn("debugger", process["unseen"])
        self.assertIn("libc", [each["name"] for each in process["allocators"]])
        self.assertIn("homefree", [each["name"] for each in process["allocators"]])
        text = self.command("doctor", "--pid", target.pid, **refused).stdout
        self.assertIn("Not seen: ", text)
        self.assertIn("Routing: unknown", text)

    def test_static_program(self):
        source, program = self.directory / "static.c", self.directory / "static"
        source.write_text(
            "#include <stdio.h>\n#include <unistd.h>\n#include <stdlib.h>\n"
            'int main(void) { free(malloc(9)); printf("ready %d\\n", (int)getpid());\n'
            "fflush(stdout); char byte; while (read(0, &byte, 1) > 0) continue; return 0; }\n"
        )
        if subprocess.run([*CC, "-static", source, "-o", program], capture_output=True).returncode:
            self.skipTest("no static libc")
        target = self.run_target(str(program))
        process = self.doctor(target.pid)
        self.assertEqual([each["path"] for each in process["objects"]], [str(program)])
        self.assertEqual(target.end(), 0)

    def test_32_bit_program(self):
        source, program = self.directory / "small.c", self.directory / "small"
        source.write_text(
            "static int call(int a, int b, const void *c, int d) { int r;\n"
            '__asm__ volatile("int $0x80" : "=a"(r) : "a"(a), "b"(b), "c"(c), "d"(d) : "memory");\n'
            'return r; }\nvoid _start(void) { char c; call(4, 1, "ready 1\\n", 8);\n'
            "while (call(3, 0, &c, 1) > 0) continue; call(1, 0, 0, 0); }\n"
        )
        flags = ["-m32", "-nostdlib", "-static", "-fno-pic", "-fno-stack-protector"]
        if subprocess.run([*CC, *flags, source, "-o", program], capture_output=True).returncode:
            self.skipTest("no 32-bit compiler")
        try:
            target = self.run_target(str(program))
        except (OSError, AssertionError):
            self.skipTest("the kernel runs no 32-bit programs")
        self.refused(3, "32-bit", "doctor", "--pid", target.process.pid)
        self.assertEqual(target.end(), 0)

    def test_other_mounts(self):
        """Its files are not there under their paths."""
        unshare, inside = self.mounts_of_its_own()
        script = (
            f"mount -t tmpfs none {inside} && cp {arguments.target} {inside}/program && "
            f"exec {inside}/program"
        )
        try:
            target = self.run_target(*unshare, "sh", "-c", script)
        except AssertionError:
            self.skipTest("nothing may be mounted")
        process = self.doctor(target.pid)
        self.assertFalse((inside / "program").exists())
        (program,) = (each for each in process["objects"] if each["path"] == f"{inside}/program")
        self.assertEqual(names(program["malloc"]), ["libc.so"])

    def test_other_mounts_of_the_same_user(self):
        """Without privileges, files are opened below the process's root, and checked."""
        nobody = self.as_nobody()
        inside = self.directory / "inside"
        inside.mkdir()
        (inside / "program").write_text("another file of that name\n")
        inside.chmod(0o755)
        script = (
            f"mount -t tmpfs none {inside} && cp {self.directory}/target {inside}/program && "
            f"exec {inside}/program"
        )
        owned = {key: nobody[key] for key in ("user", "group", "extra_groups")}
        try:
            target = self.run_target("unshare", "-rm", "sh", "-c", script, **owned)
        except (AssertionError, OSError):
            self.skipTest("no namespaces")
        process = self.doctor(target.pid, **nobody)
        (program,) = (each for each in process["objects"] if each["path"] == f"{inside}/program")
        self.assertEqual(names(program["malloc"]), ["libc.so"])

    def test_changed_root(self):
        if os.geteuid() != 0:
            self.skipTest("only root may change the root")
        shown = subprocess.run(["ldd", arguments.target], capture_output=True, text=True).stdout
        for word in {word for word in shown.split() if word.startswith("/")} | {arguments.target}:
            to = self.directory / word.lstrip("/")
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(word, to)
        target = self.run_target("chroot", str(self.directory), arguments.target)
        process = self.doctor(target.pid)
        program = next(each for each in process["objects"] if "live-target" in each["path"])
        self.assertEqual(names(program["malloc"]), ["libc.so"])

    def test_stored_function(self):
        target = self.run_target(env={"LD_PRELOAD": arguments.library})
        self.assertEqual(self.doctor(target.pid)["findings"], [])
        self.assertEqual(target.tell("store"), "done")
        (finding,) = self.doctor(target.pid)["findings"]
        self.assertEqual((finding["rule"], finding["count"]), ("stored-pointer", 1))

    def test_strange_names(self):
        program = self.directory / "a program\nwith a line (deleted)"
        shutil.copy(arguments.target, program)
        process = self.doctor(self.run_target(str(program)).pid)
        (found,) = (each for each in process["objects"] if "a program" in each["path"])
        self.assertEqual(names(found["malloc"]), ["libc.so"])

    def test_whole_process(self):
        target = self.run_target(
            arguments.homefree, "run", "--", arguments.target, stderr=subprocess.DEVNULL
        )
        process = self.doctor(target.pid)
        program = next(each for each in process["objects"] if "live-target" in each["path"])
        self.assertEqual(names(program["malloc"]), ["libhomefree-preload.so"])
        self.assertEqual(names(program["free"]), ["libhomefree-preload.so"])

    def test_while_it_loads_and_unloads(self):
        target = self.run_target(env={"LD_PRELOAD": arguments.library})
        self.assertEqual(target.tell("churn", arguments.refuse), "done")
        for _ in range(10):
            process = self.doctor(target.pid)
            program = next(each for each in process["objects"] if "live-target" in each["path"])
            self.assertEqual(names(program["malloc"]), ["libc.so"])
            self.assertTrue(process["routing"])

    def test_ending(self):
        self.check_ending_while_looked_at("doctor", self.run_target)

    def test_does_not_disturb(self):
        target = self.run_target(env={"LD_PRELOAD": arguments.library})
        self.check_that_it_does_not_run("doctor", target)

    def test_numbers(self):
        self.check_processes_that_are_none("doctor")

    def test_another_user(self):
        self.check_one_of_another_user("doctor")

    def test_wrong_usage(self):
        for words in (["--read", "x"], ["--at", "exit"], ["--children"], ["--rules"]):
            with self.subTest(words=words):
                done = self.command("doctor", "--pid", os.getpid(), *words)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)

    def test_output(self):
        target, path = self.run_target(), self.directory / "out.json"
        done = self.command("doctor", "--json", "-o", path, "--pid", target.pid)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertEqual(json.loads(path.read_text())["summary"]["processes"], 1)


if __name__ == "__main__":
    main()
