"""What the tests of `homefree inspect` share: running it, and building the modules it looks at.

The first argument of a test is the command, the second a directory with libhomefree.so.1, the third
libhomefree_shim.a. The compiler is $CC, or cc.
"""

import json
import os
import shlex
import subprocess
import sys
import unittest
import zipfile
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))
from subcommand import Subcommand, SubcommandTest  # noqa: E402

HOMEFREE, LIBRARY, SHIM = (Path(sys.argv.pop(1)).resolve() for _ in range(3))
CC = shlex.split(os.environ.get("CC", "cc"))
MULTIARCH = Path(f"/usr/lib/{os.uname().machine}-linux-gnu")

MODULE = """
void *PyInit_it(void);
void *PyInit_it(void) { return 0; }
"""
MORE = MODULE + "int more(void) { return 1; }"  # breaks extra-exports
ONLY_INIT = "{ global: PyInit_*; local: *; };"


_built = {}

inspect = Subcommand(HOMEFREE, "inspect")


# A Python that does something before the command begins.
PYTHON = """#!{}
import sys
start, *sys.argv = sys.argv[sys.argv.index("-c") + 1:]
sys.argv.insert(0, "-c")
sys.path.append(sys.argv[3])
{}
exec(start)
"""


class InspectTest(SubcommandTest):
    """Gives each test a directory and a compiler."""

    command = inspect

    def set(self, variable, value):
        patch = mock.patch.dict(os.environ, {variable: str(value)})
        patch.start()
        self.addCleanup(patch.stop)

    def prepare(self, statements):
        """Has the command's part in Python begin with these."""
        python = self.file("prepared", PYTHON.format(sys.executable, statements))
        python.chmod(0o755)
        self.set("HOMEFREE_PYTHON", python)

    def file(self, name, content):
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content)
        return path

    def build(self, name, source=MODULE, *flags, script=None, language="c"):
        """Builds a shared object; `script` is a version script."""
        output = self.directory / name
        output.parent.mkdir(parents=True, exist_ok=True)
        command = [*CC, "-O1", "-fPIC", "-shared", "-o", output, "-x", language]
        command += [self.file(f"{name}.{language}", source), "-x", "none"]
        if script is not None:
            command.append(f"-Wl,--version-script={self.file(name + '.map', script)}")
        done = subprocess.run([*command, *flags], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return output

    def module(self, name, source=MODULE, *flags, script=ONLY_INIT):
        """The same as build(), from a cache: the compiler is the slowest part of these tests."""
        key = (source, flags, script)
        if key not in _built:
            _built[key] = self.build(name, source, *flags, script=script).read_bytes()
        return self.file(name, _built[key])

    def wheel(self, name, members, **options):
        """Writes a zip archive; `members`: name -> bytes or path."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, **options) as archive:
            for member, content in members.items():
                archive.writestr(
                    member, content if isinstance(content, bytes) else content.read_bytes()
                )
        return path

    def document(self, *files, status=None):
        result = inspect("--json", *files)
        if status is not None:
            self.assertEqual(result.returncode, status, result)
        return json.loads(result.stdout)

    def facts(self, file):
        """The part of the document about one file."""
        document = self.document(file)
        self.assertEqual(len(document["files"]), 1)
        return document["files"][0]

    def findings(self, file):
        return {finding["rule"]: finding for finding in self.facts(file)["findings"]}

    def assert_rules(self, file, *rules):
        self.assertEqual(sorted(self.findings(file)), sorted(rules))


def main():
    unittest.main()
