"""The built command `homefree exports`: exit codes, messages, files, and what a linker makes of it.

Usage: test_command.py HOMEFREE [unittest arguments]. The compiler is $CC, or cc.
"""

import os
import random
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HOMEFREE = Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None
CC = shlex.split(os.environ.get("CC", "cc"))

MODULE_SOURCE = """
int helper(void);
int helper(void) { return 1; }
int api(void);
int api(void) { return 2; }
void *PyInit_x(void);
void *PyInit_x(void) { return (void *)(long)helper(); }
"""

# The same module, entered by what CPython 3.15 calls, by that alone or as well (PEP 793).
EXPORT = "void *PyModExport_x(void);\nvoid *PyModExport_x(void) { return 0; }\n"
HELPER = "int helper(void);\nint helper(void) { return 1; }\n"
SOURCES = {
    "PyInit": MODULE_SOURCE,
    "PyModExport": HELPER + EXPORT,
    "PyInit PyModExport": MODULE_SOURCE + EXPORT,
}

SCRIPT = """/* written by homefree exports; do not edit */
{
    global:
%s    local:
        *;
};
"""
SCRIPT_X = SCRIPT % "        PyModExport[_]x;\n        PyInit[_]x;\n"
SCRIPT_FOUND = SCRIPT % "        PyInit_x;\n"


def run(*arguments, **options):
    options.setdefault("stdout", subprocess.PIPE)
    return subprocess.run(
        [HOMEFREE, *arguments],
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        timeout=60,
        **options,
    )


def exported(shared_object):
    """The symbols that nm shows as visible to others, without addresses."""
    out = subprocess.run(
        ["nm", "-D", "--defined-only", shared_object], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    return sorted(line.split(maxsplit=1)[1] for line in out.splitlines())


class InDirectory(unittest.TestCase):
    """Each test has the name of an empty directory; the helpers report what went wrong."""

    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="homefree-exports-"))
        self.addCleanup(shutil.rmtree, self.directory)

    def clean(self, *arguments):
        """Runs `homefree exports`, which must succeed and print nothing but the result."""
        result = run("exports", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        return result.stdout.decode()

    def refused(self, status, message, *arguments, **options):
        """Runs `homefree exports`, which must print one line on stderr and nothing else."""
        result = run("exports", *arguments, **options)
        errors = result.stderr.decode(errors="replace")
        self.assertEqual(result.returncode, status, errors)
        self.assertIn(result.stdout, (b"", None))
        self.assertEqual(errors.count("\n"), 1, errors)
        self.assertTrue(errors.startswith("homefree exports: "), errors)
        self.assertIn(message, errors)
        return errors

    def file(self, name, content=""):
        path = self.directory / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def compile(self, source=MODULE_SOURCE, name="x.o", flags=()):
        path = self.directory / name
        subprocess.run(
            [*CC, "-fPIC", "-c", "-x", "c", "-", "-o", path, *flags],
            input=source.encode(),
            check=True,
        )
        return path


class Dispatch(unittest.TestCase):
    def test_without_arguments_there_is_help_on_stdout(self):
        for arguments in [(), ("--help",), ("-h",)]:
            result = run(*arguments)
            self.assertEqual((result.returncode, result.stderr), (0, b""))
            self.assertTrue(result.stdout.startswith(b"Usage: homefree COMMAND"))
            self.assertIn(b"\n  exports ", result.stdout)

    def test_version(self):
        result = run("--version")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout.decode(), r"\Ahomefree \d+\.\d+\.\d+\n\Z")

    def test_an_unknown_command_is_named(self):
        for name, kind in [("frobnicate", "command"), ("--frobnicate", "option"), ("", "command")]:
            result = run(name)
            self.assertEqual((result.returncode, result.stdout), (2, b""))
            self.assertIn(f"homefree: unknown {kind} '{name}'".encode(), result.stderr)
            self.assertEqual(result.stderr.count(b"\n"), 1)

    def test_a_full_stdout_is_an_error(self):
        for arguments in [(), ("--version",), ("exports", "--help"), ("exports", "--module", "x")]:
            with open("/dev/full", "wb") as full:
                result = run(*arguments, stdout=full)
            self.assertEqual(result.returncode, 3)
            self.assertIn(b"cannot write to stdout: No space left on device", result.stderr)


class Arguments(InDirectory):
    def test_help(self):
        for option in ("--help", "-h"):
            self.assertTrue(self.clean(option).startswith("Usage: homefree exports "))

    def test_a_module(self):
        for arguments in [
            ("--module", "x"),
            ("--module=x",),
            ("--module", "pkg.sub.x"),
            ("--module", "x", "pkg.x"),
            ("--module", "x", "--module", "x"),
            ("--module", "x", "-o", "-"),
            ("--module", "x", "--", "a.x"),
        ]:
            self.assertEqual(self.clean(*arguments), SCRIPT_X, arguments)

    def test_all_sources_in_the_order_of_the_command_line(self):
        symbols = self.file("symbols", "two\n")
        out = self.clean(
            "--module",
            "one",
            "--symbols",
            symbols,
            "--module",
            "three",
            "four",
            "--version",
            "V_1.0",
        )
        self.assertIn("\nV_1.0 {\n", out)
        lines = [line.strip(" ;") for line in out.splitlines() if line.startswith(" " * 8)]
        modules = [f"{function}[_]" for function in ("PyModExport", "PyInit")]
        expected = [f"{function}one" for function in modules] + ["two"]
        expected += [f"{function}{name}" for name in ("three", "four") for function in modules]
        self.assertEqual(lines, [*expected, "*"])

    def test_names_that_are_not_modules(self):
        for name in ["9x", "my-module", "", "a..b", "a b", "x.", "dir/x", "é\u00a0"]:
            out = self.directory / "out"
            self.refused(
                2, f"'{name}' is not a Python module name: ", "--module", "good", name, "-o", out
            )
            self.assertFalse(out.exists())

    def test_a_name_that_is_not_utf8(self):
        self.refused(2, "is not a Python module name: it is not UTF-8", "--module", b"a\xff")

    def test_a_name_cannot_write_two_lines(self):
        self.assertIn("'a?b'", self.refused(2, "not a Python module name", "--module", "a\nb"))

    def test_a_complaint_cannot_steer_a_terminal(self):
        result = run("exports", "--module", "a\u009b2J\x1b[2J")
        self.assertEqual(result.returncode, 2)
        self.assertNotRegex(result.stderr.decode(), "[\x00-\x09\x0b-\x1f\x7f-\x9f]")
        self.assertIn(b"'a?2J?[2J'", result.stderr)

    def test_wrong_usage_refers_to_the_help(self):
        for arguments in [(), ("x",), ("--frobnicate",), ("--module",)]:
            self.refused(2, "; see 'homefree exports --help'", *arguments)

    def test_wrong_usage(self):
        symbols = self.file("symbols", "f\n")
        for message, arguments in [
            ("give at least one of --module, --from-objects and --symbols", ()),
            ("give at least one of", ("-o", "out")),
            ("'x' follows no --module", ("x",)),
            ("'x' follows no --module", ("--", "x")),
            ("'x' follows no --module", ("--module", "a", "--symbols", symbols, "x")),
            ("unknown option '--frobnicate'", ("--module", "x", "--frobnicate")),
            ("unknown option '-q'", ("--module", "x", "-q")),
            ("unknown option '-q'", ("--module", "x", "-qo", "out")),
            ("option '--module' needs a value", ("--module",)),
            ("option '-o' needs a value", ("--module", "x", "-o")),
            ("option '--version' needs a value", ("--module", "x", "--version")),
            ("'1.0' is not a version node: ", ("--module", "x", "--version", "1.0")),
            ("'' is not a version node: ", ("--module", "x", "--version", "")),
            ("'a-b' is not a version node: ", ("--module", "x", "--version", "a-b")),
        ]:
            self.refused(2, message, *arguments)

    def test_the_command_line_is_checked_before_files_are(self):
        self.refused(2, "unknown option", "--from-objects", "/nowhere", "--frobnicate")
        self.refused(2, "not a Python module name", "--from-objects", "/nowhere", "--module", "9")

    def test_names_beyond_ascii_are_what_python_makes_of_them(self):
        generator = random.Random(1)
        alphabet = (
            "abcxyz_ABC019äöüßéñøåçœαβγδωΩабвгдЯאבגعربيदेवनागरीあいうカタ模块扩展한국어𝔘𝔫𝔦𠀀𠀁"
        )
        names = set()
        while len(names) < 2000:
            name = "".join(generator.choices(alphabet, k=generator.randint(1, 20)))
            if name.isidentifier() and not name.isascii():
                names.add(name)
        names = sorted(names) + ["é" * 127, "𠀀" * 63, "a" * 200 + "𠀀" * 13]
        out = self.clean("--module", *names)
        for name in names:
            encoded = name.encode("punycode").decode().replace("-", "_")
            for function in ("PyInit", "PyModExport"):
                self.assertIn(f"\n        {function}U[_]{encoded};\n", out, name)
        self.assertEqual(out.count("PyInitU[_]"), len(names))

    def test_no_identifier_of_pythons_is_refused(self):
        letters = [
            chr(c)
            for c in range(0x80, 0x110000)
            if not 0xD800 <= c < 0xE000 and ("a" + chr(c)).isidentifier()
        ]
        for start in range(0, len(letters), 16000):
            self.clean("--module", *("a" + letter for letter in letters[start : start + 16000]))


class Objects(InDirectory):
    def test_objects_archives_and_shared_objects(self):
        object_file = self.compile()
        archive = self.directory / "libx.a"
        subprocess.run(["ar", "rcs", archive, object_file], check=True)
        shared = self.directory / "x.so"
        subprocess.run([*CC, "-shared", "-o", shared, object_file], check=True)
        for path in (object_file, archive, shared):
            self.assertEqual(self.clean("--from-objects", path), SCRIPT_FOUND)
        self.assertEqual(self.clean("--from-objects", object_file, archive, shared), SCRIPT_FOUND)

    def test_the_module_is_found_among_other_objects(self):
        other = self.compile("int f(void); int f(void) { return 0; }", "other.o")
        self.assertEqual(self.clean("--from-objects", other, self.compile()), SCRIPT_FOUND)

    def test_no_init_function_is_a_finding(self):
        out = self.directory / "out"
        other = self.compile("int PyInit_y(void); int f(void); int f(void) { return PyInit_y(); }")
        self.refused(
            1,
            "none of the objects defines a PyInit_ or PyModExport_",
            "--from-objects",
            other,
            "-o",
            out,
        )
        self.assertFalse(out.exists())
        self.refused(1, "none of the objects", "--module", "x", "--from-objects", other)

    def test_a_hidden_init_function_is_a_finding(self):
        hidden = self.compile(flags=["-fvisibility=hidden"])
        self.refused(1, "hidden visibility", "--from-objects", hidden)

    def test_files_that_cannot_be_read(self):
        text = self.file("text", "int x;\n")
        for path, why in [
            (self.directory / "nowhere", "cannot be opened: No such file or directory"),
            (text, "is not an object file"),
            (self.directory, "is a directory"),
            (self.file("empty"), "is empty"),
        ]:
            out = self.directory / "out"
            errors = self.refused(3, why, "--module", "x", "--from-objects", path, "-o", out)
            self.assertIn(f"'{path}'", errors)
            self.assertFalse(out.exists())

    def test_the_order_of_the_command_line(self):
        symbols = self.file("symbols", "two\n")
        found = ("--from-objects", self.compile(), "--symbols", symbols, "--version", "V")
        out = self.clean("--module", "one", *found)
        self.assertRegex(out, r"V {\n[^;]*_\]one;[^;]*_\]one;\n +PyInit_x;\n +two;\n +local:")
        out = self.directory / "a b.map"
        self.assertEqual(self.clean("--from-objects", self.compile(), "-o", out), "")
        self.assertEqual(out.read_text(), SCRIPT_FOUND)

    def test_python_is_for_objects_alone(self):
        """Builds write scripts where there is none."""
        env = {"PATH": "/nowhere", "HOMEFREE_PYTHON": "/nowhere"}
        remedy = "install it or name it in HOMEFREE_PYTHON, or give --module NAME, which needs no"
        self.refused(3, remedy, "--from-objects", self.compile(), env=env)
        symbols = self.file("symbols", "two\n")
        done = run("exports", "--module", "x", "--symbols", symbols, env=env)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        shared = self.directory / "x.so"
        subprocess.run([*CC, "-shared", "-o", shared, self.compile()], check=True)
        done = run("exports", "--module", "x", "--check", shared, env=env)
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_a_thin_archive_is_refused_by_name(self):
        archive = self.directory / "thin.a"
        subprocess.run(["ar", "rcsT", archive, self.compile()], check=True)
        self.refused(3, "is a thin archive", "--from-objects", archive)


class Symbols(InDirectory):
    def test_a_list_with_comments(self):
        symbols = self.file("symbols", "# all\n\n  first\t# why\r\n_ZN1a1bEv\nfirst\n$last")
        out = self.clean("--symbols", symbols)
        self.assertEqual(out.count("first;"), 1)
        self.assertRegex(out, r"\n +first;\n +_ZN1a1bEv;\n +\$last;\n +local:")

    def test_a_wrong_line_is_named(self):
        for line, message in [
            ("f*", "it is a wildcard"),
            ("f?", "it is a wildcard"),
            ("[f]", "it is a wildcard"),
            ("a b", "not a linker symbol"),
            ("a;", "not a linker symbol"),
            ("}", "not a linker symbol"),
            ("f@V", "carries a version"),
            ("9", "begins with a digit"),
            ("ns::f", "not a linker symbol"),
            (b"f\xff", "not UTF-8"),
            (b"f\0g", "NUL"),
        ]:
            content = line if isinstance(line, bytes) else line.encode()
            symbols = self.file("symbols", b"# x\ngood\n" + content + b"\n")
            errors = self.refused(2, message, "--symbols", symbols, "-o", self.directory / "out")
            self.assertIn(f"{symbols}:3: ", errors)
            self.assertFalse((self.directory / "out").exists())

    def test_an_empty_list_alone_is_a_finding(self):
        symbols = self.file("symbols", "# nothing\n")
        self.refused(1, "lists no symbol", "--symbols", symbols)
        self.assertEqual(self.clean("--module", "x", "--symbols", symbols), SCRIPT_X)

    def test_a_list_that_cannot_be_read(self):
        self.refused(3, "No such file", "--symbols", self.directory / "nowhere")
        self.refused(3, "Is a directory", "--symbols", self.directory)


class Output(InDirectory):
    def write(self, path, module="x"):
        self.assertEqual(self.clean("--module", module, "-o", path), "")

    def test_a_new_file_has_the_permissions_of_one(self):
        out = self.directory / "out"
        old = os.umask(0o027)
        self.addCleanup(os.umask, old)
        self.write(out)
        self.assertEqual(out.read_text(), SCRIPT_X)
        self.assertEqual(stat.S_IMODE(out.stat().st_mode), 0o640)
        self.assertEqual(os.listdir(self.directory), ["out"])

    def test_the_same_content_leaves_the_file_alone(self):
        out = self.file("out", SCRIPT_X)
        os.utime(out, (1000, 1000))
        before = out.stat()
        self.write(out)
        self.assertEqual((out.stat().st_mtime, out.stat().st_ino), (1000, before.st_ino))

    def test_other_content_is_replaced(self):
        for content in ["", SCRIPT_X + " ", SCRIPT_X[:-1], "x" * 100000]:
            out = self.file("out", content)
            os.chmod(out, 0o604)
            os.utime(out, (1000, 1000))
            inode = out.stat().st_ino
            self.write(out)
            self.assertEqual(out.read_text(), SCRIPT_X)
            self.assertEqual(stat.S_IMODE(out.stat().st_mode), 0o604)
            self.assertNotEqual(out.stat().st_mtime, 1000)
            self.assertNotEqual(out.stat().st_ino, inode, "not written beside and renamed")
            self.assertEqual(os.listdir(self.directory), ["out"])

    def test_a_link_stays_a_link(self):
        other = self.directory / "other"
        other.mkdir()
        (other / "target").write_text("old")
        link = self.directory / "link"
        link.symlink_to("other/target")
        self.write(link)
        self.assertTrue(link.is_symlink())
        self.assertEqual((other / "target").read_text(), SCRIPT_X)

    def test_what_is_no_regular_file_is_written_to_and_not_replaced(self):
        # A pipe instead of a device: as root, a faulty command would replace /dev/null.
        pipe = self.directory / "pipe"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        self.write(pipe)
        self.assertTrue(stat.S_ISFIFO(pipe.stat().st_mode))
        self.assertEqual(os.read(reader, 4096).decode(), SCRIPT_X)

    def test_what_cannot_be_written_is_named(self):
        out = self.directory / "nowhere" / "out"
        self.refused(
            3, f"cannot write '{out}': No such file or directory", "--module", "x", "-o", out
        )
        self.refused(
            3,
            f"cannot write '{self.directory}': Is a directory",
            "--module",
            "x",
            "-o",
            self.directory,
        )
        self.refused(3, "cannot write '': ", "--module", "x", "-o", "")
        self.assertEqual(os.listdir(self.directory), [])

    def test_a_result_that_does_not_fit_leaves_the_old_one(self):
        out = self.file("out", "old")
        limit = ["/bin/sh", "-c", "ulimit -f 0; trap '' XFSZ; exec \"$@\"", "sh", HOMEFREE]
        result = subprocess.run(
            [*limit, "exports", "--module", "x", "-o", out], stderr=subprocess.PIPE, timeout=60
        )
        self.assertEqual(result.returncode, 3)
        self.assertIn(b"': File too large\n", result.stderr)
        self.assertEqual(out.read_text(), "old")
        self.assertEqual(os.listdir(self.directory), ["out"])


class EndToEnd(InDirectory):
    def link(self, *arguments):
        script = self.directory / "exports.map"
        self.clean(*arguments, "-o", script)
        shared = self.directory / "x.so"
        subprocess.run(
            [
                *CC,
                "-shared",
                "-o",
                shared,
                self.compile(),
                f"-Wl,--version-script={script}",
            ],
            check=True,
        )
        return exported(shared)

    def test_without_a_script_the_helper_is_visible(self):
        shared = self.directory / "x.so"
        subprocess.run([*CC, "-shared", "-o", shared, self.compile()], check=True)
        self.assertIn("T helper", exported(shared))

    def test_only_the_init_function_is_visible(self):
        self.assertEqual(self.link("--module", "pkg.x"), ["T PyInit_x"])

    def test_with_a_version_node(self):
        self.assertEqual(
            self.link("--module", "x", "--version", "MINE_1.0"),
            ["A MINE_1.0", "T PyInit_x@@MINE_1.0"],
        )

    def test_from_objects(self):
        self.assertEqual(self.link("--from-objects", self.compile()), ["T PyInit_x"])

    def test_with_symbols(self):
        self.assertEqual(
            self.link("--module", "x", "--symbols", self.file("symbols", "api\n")),
            ["T PyInit_x", "T api"],
        )

    def test_check_finds_what_initializes_the_module(self):
        self.link("--module", "x")
        self.assertEqual(self.clean("--module", "pkg.x", "--check", self.directory / "x.so"), "")

    def test_check_names_what_the_linker_did_not_miss(self):
        """The version script of another name hides the function that is there."""
        self.link("--module", "y")
        message = (
            f"'{self.directory}/x.so' defines no PyInit_y and no PyModExport_y, so Python cannot "
            "import it"
        )
        self.refused(1, message, "--module", "y", "--check", self.directory / "x.so")
        message = "defines no PyInitU_ida and no PyModExportU_ida, so"
        self.refused(1, message, "--module", "ñ", "--check", self.directory / "x.so")

    def test_check_refuses_other_files_and_options(self):
        text = self.file("text", "not a module")
        self.refused(3, "cannot be read: not an ELF file", "--module", "x", "--check", text)
        self.refused(
            3, "cannot be read: No such", "--module", "x", "--check", self.directory / "no"
        )
        message = "--check goes with --module alone"
        self.refused(2, message, "--module", "x", "--symbols", text, "--check", text)

    def test_every_linker_takes_what_the_module_has(self):
        """One of the functions is enough. Linkers may warn of a name that nothing defines (mold),
        or refuse it (lld from 16 on, and the others with --no-undefined-version)."""
        for linker in ("bfd", "gold", "lld", "mold"):
            if shutil.which(f"ld.{linker}") is None:
                continue
            chosen = ["-fuse-ld=" + linker, "-Wl,--no-undefined-version"]
            script = self.directory / "x.map"
            self.clean("--module", "pkg.x", "-o", script)
            for functions, source in SOURCES.items():
                with self.subTest(linker, functions=functions):
                    shared = self.directory / "x.so"
                    command = [*CC, "-shared", *chosen, "-o", shared, self.compile(source)]
                    command += [f"-Wl,--version-script={script}"]
                    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    expected = [f"T {function}_x" for function in functions.split()]
                    self.assertEqual(exported(shared), expected)
                    self.clean("--module", "x", "--check", shared)

    def test_names_beyond_ascii_with_every_function(self):
        source = (EXPORT + "void *PyInit_x(void);\nvoid *PyInit_x(void) { return 0; }\n").replace(
            "_x", "U_n_rga"
        )
        shared = self.directory / "x.so"
        script = self.directory / "x.map"
        self.clean("--module", "ñn", "pkg.nñ", "-o", script)
        command = [*CC, "-shared", "-o", shared, self.compile(source)]
        subprocess.run([*command, f"-Wl,--version-script={script}"], check=True)
        self.assertEqual(exported(shared), ["T PyInitU_n_rga", "T PyModExportU_n_rga"])

    def test_from_objects_with_every_function(self):
        for functions, source in SOURCES.items():
            out = self.clean("--from-objects", self.compile(source))
            found = sorted(line.strip(" ;") for line in out.splitlines() if "Py" in line)
            self.assertEqual(found, [f"{function}_x" for function in functions.split()])


if __name__ == "__main__":
    if HOMEFREE is None:
        sys.exit(__doc__)
    unittest.main()
