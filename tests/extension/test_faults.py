"""What can be wrong with the arguments, the compiler, the sources, the cache's directory and files.
Each ends in an error that says what to do, or in a build; never in a wait."""

import os
import random
import shutil
import subprocess
import unittest

import support
from support import MODULE


class Arguments(support.TestCase):
    def test_names_that_are_no_identifiers(self):
        self.fine(
            """
            odd = "", "1a", "a-b", "a.", ".a", "a..b", "a/b", "../a", "a b", "a\\0", "ä", "a;b"
            for name in odd:
                refused("not a valid module name", "identifiers", kind=ValueError, name=name)
            """
        )

    def test_name_of_another_type(self):
        self.fine("refused('str', kind=TypeError, name=3)")

    def test_no_sources(self):
        self.fine("refused('no sources', kind=ValueError, sources=[])")

    def test_missing_source(self):
        self.fine(
            "refused('there is no file', 'missing.c', 'check the path', sources=['missing.c'])"
        )

    def test_language_that_is_not_known(self):
        self.fine("refused('suffix', '.cpp', kind=ValueError, sources=['fast.f90'])")

    def test_flags_in_one_str(self):
        self.fine("refused('list', kind=TypeError, extra_cflags='-O2 -g')")

    def test_flag_with_a_newline(self):
        self.fine("refused('argument', kind=ValueError, extra_cflags=['-DA=\\n'])")


class Compiler(support.TestCase):
    def test_missing_compiler(self):
        self.fine("refused('no C compiler', 'build-essential', 'CC')", CC="/nowhere/cc")

    def test_missing_cuda_compiler(self):
        self.write("kernel.cu", "")
        self.fine(
            "refused('no CUDA compiler', 'CUDA_HOME', sources=['kernel.cu'])", CUDA_HOME="/nowhere"
        )

    def test_missing_ninja(self):
        tools = self.work / "tools"
        tools.mkdir()
        (tools / "cc").symlink_to(shutil.which("cc"))
        self.fine("refused('no ninja', 'ninja-build', 'pip')", CC="cc", PATH=tools)

    def test_syntax_error_shows_the_compilers_lines_and_command(self):
        self.write("value.h", "#define VALUE nonsense here\n")
        said = self.fine("print(refused('correct'))")
        self.assertRegex(said, r"value\.h:1:\d+: error: .nonsense. undeclared")
        self.assertIn(" -c ", said)
        self.assertNotIn("Traceback", said)
        self.assertNotIn("FAILED", said)
        self.assertNotIn("ninja", said)

    def test_missing_headers_of_python(self):
        self.fine(
            """
            import sysconfig
            sysconfig.get_path = lambda *_: "/nowhere"
            refused("Python.h", "python3-dev")
            """
        )

    def test_missing_part_of_homefree(self):
        self.fine(
            """
            from homefree import _paths
            _paths.INCLUDE = ""
            refused("has no headers", "install homefree")
            """
        )

    def test_failure_is_not_kept(self):
        self.write("value.h", "#define VALUE nonsense\n")
        self.fine("refused('nonsense')")
        self.write("value.h", "#define VALUE 4\n")
        self.assertEqual(self.value(), 4)

    def test_failure_leaves_nothing_half_done(self):
        self.write("value.h", "#define VALUE nonsense\n")
        self.fine("refused('nonsense')")
        self.assertEqual([path.name for path in (self.cache / "fast").iterdir()], ["lock"])

    def test_undefined_function(self):
        self.write("value.h", "int nowhere(void);\n#define VALUE nowhere()\n")
        self.fine("refused('undefined symbol', 'nowhere', 'extra_ldflags')")

    def test_library_that_is_not_there(self):
        self.fine("refused('nosuchlibrary', extra_ldflags=['-lnosuchlibrary'])")

    def test_source_without_an_init_function(self):
        self.write("fast.c", "int nothing;\n")
        self.fine("refused('PyInit_fast', 'HF_MODULE_INIT')")

    def test_exception_of_the_module_itself_is_passed_on(self):
        self.write(
            "fast.c",
            MODULE.replace(
                "return PyModuleDef_Init(&module);",
                'PyErr_SetString(PyExc_ImportError, "of my own"); return NULL;',
            ),
        )
        self.fine("assert refused() == 'of my own'")

    def test_source_that_never_stops_changing(self):
        self.counting("cc", "cc", before=f"echo '/* */' >>{self.work}/value.h")
        self.fine("refused('change while they are compiled')")
        self.assertEqual(self.compiled(), 5)


class Directory(support.TestCase):
    def test_directory_that_cannot_be_made(self):
        self.write("file", "")
        self.fine("refused('cannot write', 'HOMEFREE_BUILD_DIR')", HOMEFREE_BUILD_DIR="file/cache")

    def test_directory_that_cannot_be_written_to(self):
        self.fine("refused('cannot write', 'HOMEFREE_BUILD_DIR')", HOMEFREE_BUILD_DIR="/proc/cache")

    def test_directory_that_others_may_write_to(self):
        self.cache.mkdir()
        os.chmod(self.cache, 0o777)
        self.fine("refused('other users may write', 'chmod')")

    def test_modules_directory_that_others_may_write_to(self):
        self.value()
        os.chmod(self.cache / "fast", 0o770)
        self.fine("refused('other users may write', 'chmod')")

    @unittest.skipIf(os.geteuid() != 0, "only root gives files away")
    def test_directory_of_another_user(self):
        self.value()
        os.chown(self.cache, 12345, 12345)
        self.fine("refused('another user', '12345', 'HOMEFREE_BUILD_DIR')")

    def test_warm_directory_is_only_read(self):
        self.value()
        before = {path: path.stat().st_mtime_ns for path in self.cache.rglob("*")}
        self.value()
        self.assertEqual({path: path.stat().st_mtime_ns for path in self.cache.rglob("*")}, before)

    def test_limit_of_file_sizes(self):
        code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, -1))\nrefused()"
        for size in (0, 100, 3000):
            with self.subTest(size=size):
                self.fine(code.format(size))
        self.assertEqual(self.value(), 1)

    @unittest.skipIf(os.geteuid() != 0, "only root mounts")
    def test_full_disk(self):
        self.cache.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=32k,mode=700", "tmpfs", self.cache],
            stderr=subprocess.DEVNULL,
        )
        if mounted.returncode != 0:
            self.skipTest("root may not mount here")
        self.addCleanup(subprocess.run, ["umount", self.cache])
        self.fine("refused('No space left', 'free some space', 'HOMEFREE_BUILD_DIR')")

    def test_lock_file_that_is_a_link(self):
        self.cache.mkdir(0o700)
        (self.cache / "fast").mkdir(0o700)
        (self.cache / "fast/lock").symlink_to(self.work / "value.h")
        self.fine("refused('lock')")
        self.assertEqual((self.work / "value.h").read_text(), "#define VALUE 1\n")


class Damage(support.TestCase):
    """The cache contains something else than homefree put there."""

    def assert_made_again(self, count=2):
        self.assertEqual(self.value(), 1)
        self.assertEqual(self.compiled(), count)
        self.assertEqual(self.value(), 1)
        self.assertEqual(self.compiled(), count)

    def test_module_cut_short(self):
        self.value()
        os.truncate(self.module(), 5000)
        self.assert_made_again()

    def test_module_cut_short_to_nothing(self):
        self.value()
        os.truncate(self.module(), 0)
        self.assert_made_again()

    def test_module_with_another_byte_and_the_same_time(self):
        self.value()
        path = self.module()
        status = path.stat()
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        self.assert_made_again()

    def test_module_removed(self):
        self.value()
        self.module().unlink()
        self.assert_made_again()

    def test_record_cut_short(self):
        self.value()
        record = self.entries()[0] / "record"
        os.truncate(record, record.stat().st_size // 2)
        # While nothing has changed, only the index is read.
        os.utime(self.work / "value.h")
        self.assert_made_again()

    def test_cache_that_was_copied_is_read_and_reused(self):
        self.value()
        shutil.copytree(self.cache, self.work / "copy")
        os.chmod(self.work / "copy", 0o700)
        self.assertEqual(self.value(HOMEFREE_BUILD_DIR=self.work / "copy"), 1)
        self.assertEqual(self.compiled(), 1)

    def test_index_removed(self):
        self.value()
        (self.cache / "fast/index").unlink()
        self.assert_made_again()

    def test_index_with_garbage_in_it(self):
        self.value()
        index = self.cache / "fast/index"
        whole = index.read_bytes()
        changed = random.Random(4)
        cuts = [whole[:cut] for cut in range(0, len(whole), 13)]
        for _ in range(200):
            noisy = bytearray(whole)
            for _ in range(changed.randint(1, 5)):
                noisy[changed.randrange(len(noisy))] = changed.choice(b"\n\t\0/9 \xffa")
            cuts.append(bytes(noisy))
        for number, content in enumerate(cuts):
            (self.work / f"garbage-{number}").write_bytes(content)
        # Whatever the index says, load() finds a matching module or none, and so does a process
        # that reads the whole index.
        self.fine(
            f"""
            from homefree.extension import _cache, _request
            request = _request.Request("fast", ["fast.c"])
            good = request.find()
            assert good
            for number in range({len(cuts)}):
                os.rename(f"garbage-{{number}}", request.directory + "/index")
                assert request.find() in (good, None), number
                assert _cache.find(request) in (good, None), number
            """
        )

    def test_module_that_goes_before_it_is_opened(self):
        self.value()
        out = self.fine(
            """
            import shutil
            from homefree.extension import Request
            found = Request.find
            def find(request):
                path = found(request)
                if path is not None:
                    shutil.rmtree(os.path.dirname(path))
                    Request.find = found
                return path
            Request.find = find
            print(load().value())
            """
        )
        self.assertEqual(out, "1\n")
        self.assertEqual(self.compiled(), 2)

    def test_entries_that_the_index_does_not_know_go_when_one_builds(self):
        self.value()
        (self.cache / "fast/index").unlink()
        self.write("cache/fast/0123456789abcdef/record", "")
        self.value()
        self.assertEqual(len(self.entries()), 1)

    def test_leftovers_of_others_go_when_one_builds(self):
        for name in ("cache/fast/build-1-2/0.o", "cache/fast/index.7.new"):
            self.write(name, "")
        os.chmod(self.cache, 0o700)
        os.chmod(self.cache / "fast", 0o700)
        self.value()
        names = sorted(path.name for path in (self.cache / "fast").iterdir() if path.is_file())
        self.assertEqual(names, ["index", "lock"])
        self.assertEqual(len(self.entries()), 1)


if __name__ == "__main__":
    support.main()
