"""For the tests of load(): the modules that they load, in a directory of each test's own."""

import os
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import support

MODULES = pathlib.Path(sys.argv.pop(1)).resolve()

PRELUDE = """
import os, sys
import homefree
def refused(path, *texts, **options):
    try:
        homefree.load(path, **options)
    except ImportError as error:
        for text in texts:
            assert text in str(error), error
    else:
        raise AssertionError("it was loaded")
"""


class TestCase(support.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="homefree-test-load-"))
        self.directory.chmod(0o755)
        self.addCleanup(shutil.rmtree, self.directory)

    def take(self, name, to=None):
        """Puts a module into the test's directory."""
        path = self.directory / (to or f"{name}.so")
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(MODULES / f"{name}.so", path)
        return path

    def left(self, directory=None):
        """What private copies have left behind."""
        found = []
        for root, directories, files in os.walk(directory or self.directory):
            found += [
                os.path.join(root, name)
                for name in directories + files
                if name.startswith((".homefree-", "homefree-"))
            ]
        return found

    def refused(self, path, *texts, arguments="", before="", ran=False):
        """load() raises an ImportError that contains all of the texts; no code of the file has
        run."""
        prelude = "import ctypes, os, sys, homefree\n"
        code = f"""
            path = {os.fspath(path)!r}
            {before}
            try:
                homefree.load(path{arguments})
            except ImportError as error:
                said = str(error)
                assert error.path == path, error.path
            else:
                raise AssertionError("it was loaded")
            for text in {texts!r}:
                assert text in said, said
            assert "; " in said, said
            getenv = ctypes.CDLL(None).getenv
            getenv.restype = ctypes.c_char_p
            assert getenv(b"PHASE_RAN") is None
            assert {ran} or getenv(b"PHASE_CONSTRUCTED") is None
        """
        self.fine(code, prelude=prelude)
