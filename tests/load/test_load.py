"""homefree.load(): what it loads is routed and (if asked) adopted; what it refuses, it refuses with
an ImportError that says why and what to do, before any code of the file runs; the process lives on.

usage: test_load.py MODULES-DIRECTORY
"""

import os
import shutil
import sys
import unittest

import pieces

KINDS = """
def kinds(module):
    return {homefree.owner_of(block).kind for block in module.allocate().values()}
"""


class Loads(pieces.TestCase):
    def load(self, code):
        self.fine(code, prelude=pieces.PRELUDE + KINDS)

    def test_as_import_does(self):
        path = self.take("multi")
        self.load(f"""
            module = homefree.load({str(path)!r})
            assert sys.modules["multi"] is module
            assert module.__name__ == "multi" and module.__file__ == {str(path)!r}
            assert module.__spec__.origin == {str(path)!r}
            assert (module.count(), module.count()) == (1, 2)
            import pathlib
            assert homefree.load(pathlib.Path({str(path)!r})) is module
            entries = [e for e in homefree.route_report().entries if e.object == {str(path)!r}]
            assert not [e for e in entries if e.state == "refused"], entries
            assert "heap" not in kinds(module)
        """)

    def test_relative_and_named(self):
        self.take("inner", "some/directory/thing.so")
        self.load(f"""
            os.chdir({str(self.directory)!r})
            module = homefree.load("some/directory/thing.so", name="pack.inner")
            assert module.__name__ == "pack.inner" and sys.modules["pack.inner"] is module
            assert os.path.isabs(module.__file__)
            try:
                homefree.load("some/directory/thing.so", name="")
            except ValueError:
                pass
            else:
                raise AssertionError
        """)

    def test_single_phase(self):
        path = self.take("single")
        self.load(f"""
            module = homefree.load({str(path)!r})
            assert sys.modules["single"] is module
            assert module.count() == 1
        """)

    def test_adopt(self):
        for name in ("multi", "single"):
            path = self.take(name)
            self.load(f"""
                module = homefree.load({str(path)!r}, adopt=True)
                assert kinds(module) == {{"heap"}}, kinds(module)
                functions = {{e.function for e in homefree.route_report().entries
                              if e.object == {str(path)!r} and e.state == "changed"}}
                assert {{"malloc", "strdup", "calloc"}} <= functions, functions
                # libc and Python work as before.
                import ctypes
                libc = ctypes.CDLL(None)
                libc.malloc.restype = ctypes.c_void_p
                assert homefree.owner_of(libc.malloc(100)).kind != "heap"
            """)

    def test_adopt_afterwards(self):
        path = self.take("multi")
        self.load(f"""
            module = homefree.load({str(path)!r})
            assert "heap" not in kinds(module)
            assert homefree.load({str(path)!r}, adopt=True) is module
            assert kinds(module) == {{"heap"}}
        """)

    def test_what_python_raises(self):
        """The module's own error is passed on unchanged, and nothing is left in sys.modules."""
        path = self.take("multi")
        self.load(f"""
            import importlib.machinery
            def fail(*_):
                raise RuntimeError("mine")
            importlib.machinery.ExtensionFileLoader.exec_module = fail
            try:
                homefree.load({str(path)!r})
            except RuntimeError as error:
                assert str(error) == "mine"
            assert "multi" not in sys.modules
        """)


class Refuses(pieces.TestCase):
    def test_missing(self):
        self.refused(self.directory / "nothing.so", "No such file", "check the path")

    def test_directory(self):
        self.refused(self.directory, "it is a directory")

    def test_fifo(self):
        os.mkfifo(self.directory / "fifo.so")
        self.refused(self.directory / "fifo.so", "not a regular file")

    def test_device(self):
        self.refused("/dev/zero", "not a regular file")

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_permission(self):
        path = self.take("multi")
        path.chmod(0)
        self.refused(path, "ermission denied", "make it readable")

    def test_permission_as_root(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to change the user")
        path = self.take("multi")
        path.chmod(0)
        self.refused(
            path, "ermission denied", "make it readable", before="homefree.load; os.seteuid(65534)"
        )

    def test_null_in_the_path(self):
        self.fine(
            """
            try:
                homefree.load("/tmp/a\\0b.so")
            except ImportError as error:
                assert "null" in str(error), error
            """,
            prelude="import homefree\n",
        )

    def test_not_elf(self):
        for content in (b"", b"import os\n", b"\x7fELF", b"!<arch>\n" + bytes(100)):
            path = self.directory / "multi.so"
            path.write_bytes(content)
            self.refused(path, "build or install it again")

    def test_truncated(self):
        whole = self.take("multi").read_bytes()
        path = self.directory / "multi.so"
        for length in (40, 64, 200, 500, 1000):
            path.write_bytes(whole[:length])
            self.refused(path)
            self.refused(path, arguments=", private=True")
        self.assertEqual(self.left(), [])

    def test_machine(self):
        content = bytearray(self.take("multi").read_bytes())
        machine = int.from_bytes(content[18:20], "little")
        for other in (183 if machine == 62 else 62, 3):
            content[18:20] = other.to_bytes(2, "little")
            path = self.directory / "multi.so"
            path.write_bytes(content)
            self.refused(path, "this machine is", "build it for this machine")

    def test_class(self):
        content = bytearray(self.take("multi").read_bytes())
        content[4] = 1
        path = self.directory / "multi.so"
        path.write_bytes(content)
        self.refused(path, "for this machine")

    def test_another_python(self):
        for tag in (
            "cpython-36m-x86_64-linux-gnu",
            "cpython-399-x86_64-linux-gnu",
            "pypy39-pp73-x86_64-linux-gnu",
            "graalpy310-310-native-x86_64-linux",
        ):
            path = self.take("multi", f"multi.{tag}.so")
            self.refused(path, "built for another Python", tag.split("-")[0], "for this Python")

    def test_another_stable_abi(self):
        """PEP 803: "abi3t" is the stable ABI of CPython 3.15 with and without a GIL. From 3.16 on,
        the machine may be part of the name."""
        import importlib.machinery

        for tag in ("abi3t", "abi3t-x86_64-linux-gnu", "abi3-x86_64-linux-gnu"):
            if f".{tag}.so" not in importlib.machinery.EXTENSION_SUFFIXES:
                path = self.take("multi", f"multi.{tag}.so")
                self.refused(path, "built for the stable ABI", f"({tag})", "for this Python")

    def test_this_python(self):
        import importlib.machinery

        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            path = self.take("multi", f"multi{suffix}")
            self.fine(f"homefree.load({str(path)!r})", prelude="import homefree\n")

    def test_another_name(self):
        path = self.take("multi", "other.so")
        self.refused(path, "it defines PyInit_multi, not PyInit_other", "name='multi'")

    @unittest.skipIf(sys.version_info >= (3, 15), "this CPython calls PyModExport")
    def test_of_a_later_python(self):
        """PEP 793: CPython calls PyModExport from 3.15 on, and every CPython calls PyInit."""
        path = self.take("later")
        alone = "it defines PyModExport_later alone, which CPython calls from 3.15 on"
        for arguments in ("", ", private=True", ", adopt=True"):
            self.refused(path, alone, "PyInit_later", "for this Python", arguments=arguments)
        path = self.take("later", "other.so")
        self.refused(path, "it defines PyModExport_later, not PyInit_other", "name='later'")

    @unittest.skipIf(sys.version_info >= (3, 15), "this CPython calls PyModExport")
    def test_of_earlier_and_later_pythons(self):
        path = self.take("both")
        self.fine(
            f"""
            for options in ({{}}, {{"private": True}}, {{"private": True, "adopt": True}}):
                module = homefree.load({str(path)!r}, **options)
                assert (module.count(), module.count()) == (1, 2)
                assert module.__file__ == {str(path)!r}
            assert sys.modules["both"].count() == 3
            """,
            prelude=pieces.PRELUDE,
        )
        path = self.take("both", "other.so")
        both = ("PyInit_both", "PyModExport_both", "not PyInit_other", "name='both'")
        self.refused(path, *both)

    def test_names_of_functions(self):
        """PyInitU and PyModExportU stand for names beyond ASCII (PEP 489)."""
        self.fine("""
            from homefree.loading import _load
            rests = {"a.b.greet": "_greet", "größe": "U_gre_6ka8i", "é": "U_9ca",
                     "pkg.naïve_mod": "U_nave_mod_v2a", "模块": "U_gfs105b"}
            for name, rest in rests.items():
                assert _load._rest(name) == rest
                assert _load._name_of(rest) == name.rpartition(".")[2]
            assert _load._name_of("U_\\u00e9") and _load._name_of("U_") == ""
        """)

    def test_no_module(self):
        path = self.take("worker-c-now", "worker.so")
        self.refused(path, "PyInit_worker", "ctypes")

    def test_newer_homefree(self):
        self.refused(self.take("newer"), "HOMEFREE_1.99", "upgrade homefree")

    def test_allocator_of_its_own(self):
        """The module can be loaded, but not adopted."""
        path = self.take("hoarder")
        for arguments in (", adopt=True", ", adopt=True, private=True"):
            self.refused(path, "an allocator of its own", arguments=arguments, ran=True)
        self.fine(f"homefree.load({str(path)!r})", prelude="import homefree\n")

    def test_allocator_inside(self):
        """Routing cannot see the allocator: it is found in the file, before any of its code
        runs."""
        path = self.take("embedded")
        for arguments in (", adopt=True", ", adopt=True, private=True"):
            self.refused(path, "own inside (jemalloc)", "adopt=False", arguments=arguments)
        self.fine(f"homefree.load({str(path)!r})", prelude="import homefree\n")

    def test_hidden_allocator(self):
        """A module with a jemalloc inside is loaded from a copy in which the heap replaces it."""
        for name in ("hidden", "hidden_single"):
            if not (pieces.MODULES / f"{name}.so").exists():
                self.skipTest("there is no jemalloc to link, or the processor is another")
            path = self.take(name)
            self.fine(
                f"""
                path = {str(path)!r}
                module = homefree.load(path, adopt=True)
                assert kinds(module) == {{"heap"}}
                assert module.__file__ == module.__spec__.origin == path, module.__file__
                assert homefree.load(path, adopt=True) is module
                private = homefree.load(path, adopt=True, private=True)
                assert kinds(private) == {{"heap"}} and private is not module
                assert private.count() == 1 == module.count()
                (entry,) = [entry for entry in homefree.route_report().entries
                            if (entry.reason or "").startswith("adopted: ")
                            and "-{name}.so" in entry.object
                            and ".homefree-" not in entry.object]
                assert "jemalloc" in entry.reason and entry.state == "changed", entry
                """,
                prelude=pieces.PRELUDE + KINDS,
                XDG_CACHE_HOME=str(self.directory / "cache"),
            )
            self.assertEqual(len(list((self.directory / "cache/homefree/adopted").iterdir())), 1)
            shutil.rmtree(self.directory / "cache")

    def test_routing_off(self):
        path = self.take("multi")
        self.fine(
            f"""
            refused({str(path)!r}, "route:off", adopt=True)
            homefree.load({str(path)!r})
            """,
            prelude=pieces.PRELUDE,
            HOMEFREE_CONF="route:off",
        )

    def test_missing_library(self):
        """The library of the state modules belongs in a directory beside them and is missing."""
        path = self.take("state-runpath", "state.so")
        self.refused(path, "PyInit_state")

    def test_static_tls(self):
        """The module needs more than glibc keeps for late libraries. The message must say that,
        not that the module defines no function."""
        path = self.take("huge")
        for arguments in ("", ", private=True"):
            self.refused(
                path,
                "static TLS block",
                "it needs 20000 bytes of static TLS",
                "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=32768",
                arguments=arguments,
            )
        code = f"""
            import homefree
            homefree.load({str(path)!r})
        """
        self.fine(code, GLIBC_TUNABLES="glibc.rtld.optional_static_tls=32768")

    def test_changes_meanwhile(self):
        path = self.take("multi")
        for arguments in ("", ", private=True", ", adopt=True"):
            self.refused(
                path,
                "changed while",
                "try again",
                arguments=arguments,
                before="""
            from homefree import _homefree
            look = _homefree.file_facts
            def change(path, rest):
                result = look(path, rest)
                os.utime(path, ns=(1, os.stat(path).st_mtime_ns + 1))
                return result
            _homefree.file_facts = change""",
            )

    def test_name_is_taken(self):
        first, second = self.take("multi"), self.take("multi", "again/multi.so")
        self.fine(
            f"""
            module = homefree.load({str(first)!r})
            refused({str(second)!r}, "loaded already")
            assert homefree.load({str(second)!r}, private=True) is not module
            """,
            prelude=pieces.PRELUDE,
        )

    def test_missing_file_of_a_name_that_is_taken(self):
        self.take("multi")
        before = f"homefree.load({str(self.directory / 'multi.so')!r})"
        path = self.directory / "nowhere/multi.so"
        forget = "os.unsetenv('PHASE_RAN'); os.unsetenv('PHASE_CONSTRUCTED')"
        self.refused(path, "No such file", "check the path", before=f"{before}; {forget}")


if __name__ == "__main__":
    pieces.support.main()
