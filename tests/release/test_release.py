"""What takes a release from a tag to people's machines, as far as it can be tried without one: the
version and its places, the notes, the bill of materials, the workflows.

Usage: test_release.py BUILD-DIRECTORY [unittest arguments]. What checks bills and workflows is from
PyPI (build/wheels/release).
"""

import hashlib
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve()
ROOT = HERE.parents[2]
BUILD = TOOLS = pathlib.Path()


def call(*command, cwd=None):
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def module(path):
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


class Version(unittest.TestCase):
    """In a copy of the files that name it."""

    NEXT = "9.8.7"

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.tree = pathlib.Path(scratch.name)
        for pattern in (
            "release/version", "meson.build", "*.md", "docs/*.md", "examples/**/*.md",
            "alloc/include/homefree/base.h", "shim/rust/Cargo.toml", "packaging/**/*",
        ):  # fmt: skip
            for path in filter(pathlib.Path.is_file, ROOT.glob(pattern)):
                copy = self.tree / path.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)
        self.now = self.version()[1].strip()

    def version(self, *arguments):
        return call(sys.executable, self.tree / "release/version", *arguments)

    def edit(self, name, old, new):
        path = self.tree / name
        text = path.read_text("utf-8")
        self.assertIn(old, text)
        path.write_text(text.replace(old, new), "utf-8")

    def test_every_place_has_it(self):
        self.assertEqual(self.version("--check"), (0, "", ""))
        changelog = (ROOT / "packaging/debian/changelog").read_text("utf-8")
        self.assertTrue(changelog.startswith(f"homefree ({self.now}-"))

    def test_a_place_that_has_another_is_named(self):
        for name, old, new in [
            ("alloc/include/homefree/base.h", f'"{self.now}"', '"1.9.0"'),
            ("alloc/include/homefree/base.h", "HF_VERSION_MINOR ", "HF_VERSION_MINOR 7"),
            ("shim/rust/Cargo.toml", f'version = "{self.now}"', 'version = "1.9.0"'),
        ]:
            before = (self.tree / name).read_text("utf-8")
            with self.subTest(new):
                self.edit(name, old, new)
                status, _, said = self.version("--check")
                self.assertEqual(status, 1)
                self.assertRegex(said, rf"^version: {re.escape(name)}:\d+ has ")
            (self.tree / name).write_text(before, "utf-8")

    def test_it_is_set_everywhere(self):
        self.assertEqual(self.version("--set", self.NEXT), (0, "", ""))
        self.assertEqual(self.version(), (0, f"{self.NEXT}\n", ""))
        self.assertEqual(self.version("--check"), (0, "", ""))
        base = (self.tree / "alloc/include/homefree/base.h").read_text("utf-8")
        self.assertRegex(base, r"MAJOR 9\n.*MINOR 8\n.*PATCH 7\n.*\"9\.8\.7\"")

    def test_what_is_no_version(self):
        for given in ("", "1.2", "1.2.3.4", "01.2.3", "1.2.3\n", "\u0661.\u0662.\u0663"):
            with self.subTest(given):
                status, _, said = self.version("--set", given)
                self.assertEqual(status, 2, said)
                self.assertIn(f"error: {given!r} is no version of three numbers\n", said)
        self.assertEqual(self.version("--check"), (0, "", ""))

    def test_recipes_take_the_source_archive(self):
        name, content = f"homefree-{self.now}.tar.gz", b"\x1f\x8bsource"
        archive = self.tree / name
        archive.write_bytes(content)
        url = f"https://example.org/elsewhere/{name}"
        self.assertEqual(self.version("--archive", url, archive), (0, "", ""))
        sums = {kind: hashlib.new(kind, content).hexdigest() for kind in ("sha256", "sha512")}
        for recipe, kind in [
            ("conan/conandata.yml", "sha256"),
            ("conda/recipe.yaml", "sha256"),
            ("vcpkg/portfile.cmake", "sha512"),
        ]:
            text = (self.tree / "packaging" / recipe).read_text("utf-8")
            self.assertEqual((text.count(url), text.count(sums[kind])), (1, 1), text)

    def test_recipes_take_no_other_archive(self):
        name = f"homefree-{self.now}.tar.gz"
        other, missing, empty = (self.tree / one for one in ("homefree-9.9.9.tar.gz", "no", name))
        other.write_bytes(b"\x1f\x8bsource")
        empty.touch()
        recipes = sorted(filter(pathlib.Path.is_file, (self.tree / "packaging").rglob("*")))
        before = [one.read_bytes() for one in recipes]
        for url, archive, why in [
            (f"https://a/{name}", missing / name, "No such file or directory"),
            (f"https://a/{name}", empty, "is no archive"),
            (f"https://a/{name}", other, f"both the URL and the file must end in {name}"),
            (f"https://a/{other.name}", empty, f"both the URL and the file must end in {name}"),
            (f'https://a"/{name}', empty, f"both the URL and the file must end in {name}"),
        ]:
            with self.subTest(why):
                status, said, errors = self.version("--archive", url, archive)
                self.assertEqual((status, said), (1, ""))
                self.assertRegex(errors, rf"^version: .*{re.escape(why)}\n$")
        self.assertEqual([one.read_bytes() for one in recipes], before)

    def test_no_test_names_it(self):
        """They would fail when it moves. Sample data may say anything."""
        found = []
        pattern = re.compile(rf"(homefree |libhomefree\.so\.|homefree-){re.escape(self.now)}")
        for path in sorted((ROOT / "tests").rglob("*")):
            if path.suffix in (".py", ".sh", ".c", ".build", "") and path.is_file():
                text = path.read_text("utf-8", errors="replace")
                found += [str(path.relative_to(ROOT))] * len(pattern.findall(text))
        sample = {"tests/loader/inspect/test_findings.py", "tests/pytest_plugin/running.py",
                  "tests/pytest_plugin/test_plugin.py", "tests/loader/run/test_run.py",
                  "tests/long/publishing/debian-inside.sh"}  # fmt: skip
        self.assertEqual(set(found) - sample, set())

    def test_a_tag_is_the_version_and_dated(self):
        self.edit("CHANGELOG.md", f"## {self.now} (unreleased)", f"## {self.now} (2030-01-31)")
        self.assertEqual(self.version("--tag", f"v{self.now}"), (0, "", ""))
        for wrong in ("v9.9.9", ""):
            status, _, said = self.version("--tag", wrong)
            self.assertEqual(status, 1)
            self.assertIn(f"the tag is {wrong!r}, and meson.build has {self.now}", said)
        self.edit("CHANGELOG.md", "(2030-01-31)", "(unreleased)")
        status, _, said = self.version("--tag", f"v{self.now}")
        self.assertEqual(status, 1)
        self.assertIn("where its date must stand", said)

    def test_notes_are_one_section_of_the_changelog(self):
        self.edit("CHANGELOG.md", f"## {self.now} (unreleased)",
                  f"## {self.NEXT} (2030-01-31)\n\n- New.\n\n### Heap\n\n- Fast.\n\n"
                  f"## {self.now} (unreleased)")  # fmt: skip
        self.version("--set", self.NEXT)
        self.assertEqual(self.version("--notes"), (0, "- New.\n\n### Heap\n\n- Fast.\n", ""))
        self.version("--set", "9.9.9")
        self.assertEqual(self.version("--notes")[0], 1)


class Abi(unittest.TestCase):
    def test_what_is_no_tree_is_refused_before_anything_is_built(self):
        with tempfile.TemporaryDirectory() as work:
            for words, why in [
                (["v0.0.0"], "'v0.0.0' is neither homefree's tree nor a tag"),
                ([ROOT, ""], "'' is neither homefree's tree nor a tag"),
                ([ROOT, "--jemalloc-build", work], f"{work} is no build directory"),
                ([ROOT, "--work", HERE], f"cannot make {HERE}: File exists"),
            ]:
                with self.subTest(why):
                    command = [sys.executable, ROOT / "release/abi", "--work", work, *words]
                    said = call(*command, cwd=ROOT)
                    self.assertEqual(said, (2, "", f"abi: {why}\n"))


class Date(unittest.TestCase):
    def test_of_a_clone_where_git_is_missing(self):
        with tempfile.TemporaryDirectory() as tree, unittest.mock.patch.dict(os.environ, PATH=tree):
            os.environ.pop("SOURCE_DATE_EPOCH", None)
            pathlib.Path(tree, ".git").mkdir()
            pathlib.Path(tree, "pyproject.toml").touch()
            os.utime(pathlib.Path(tree, "pyproject.toml"), (5, 5))
            source_archive = module(ROOT / "python/backend/source_archive.py")
            self.assertEqual(source_archive.date(pathlib.Path(tree)), 5)


class BillOfMaterials(unittest.TestCase):
    def setUp(self):
        self.made = module(ROOT / "python/backend/built_in.py").bill(BUILD)

    def test_names_each_source_with_its_hash(self):
        found = {one["name"]: one for one in self.made["components"]}
        self.assertIn("jemalloc", found)
        for name in found:
            wrap = (ROOT / f"subprojects/{name}.wrap").read_text("utf-8")
            (reference,) = found[name]["externalReferences"]
            self.assertIn(f"source_url = {reference['url']}\n", wrap)
            self.assertIn(f"source_hash = {reference['hashes'][0]['content']}\n", wrap)
            self.assertIn(found[name]["version"], reference["url"])
            self.assertTrue(found[name]["licenses"][0]["license"]["id"])

    def test_a_validator_takes_it(self):
        if not (TOOLS / "python").exists():
            self.skipTest("there is no validator of CycloneDX (build/wheels/release)")
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            for broken in False, True:
                if broken:
                    self.made["components"][0]["externalReferences"][0]["hashes"][0]["content"] = (
                        "0"
                    )
                file.seek(0)
                file.truncate()
                json.dump(self.made, file)
                file.flush()
                status, said, errors = call(TOOLS / "python", "-c", VALIDATE, file.name)
                self.assertEqual(status, 1 if broken else 0, said + errors)


VALIDATE = """
import sys
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read())
sys.exit(f"{error!r}"[:2000] if error else 0)
"""


class Workflows(unittest.TestCase):
    FILES = sorted((ROOT / ".github").rglob("*.yml"))

    def tool(self, name):
        if not (TOOLS / name).exists():
            self.skipTest(f"there is no {name} (build/wheels/release)")
        return TOOLS / name

    def test_schemas(self):
        tool = self.tool("check-jsonschema")
        for schema, files in [
            (
                "vendor.github-workflows",
                [one for one in self.FILES if one.parent.name == "workflows"],
            ),
            ("vendor.dependabot", [ROOT / ".github/dependabot.yml"]),
        ]:
            status, said, errors = call(tool, "--builtin-schema", schema, *files)
            self.assertEqual(status, 0, said + errors)

    def test_zizmor_finds_nothing(self):
        """Actions are pinned by commits, no token can do more than its job, no text of a stranger
        becomes a command."""
        status, said, errors = call(self.tool("zizmor"), "--offline", "--no-progress",
                                    "--persona=pedantic", ROOT / ".github")  # fmt: skip
        self.assertEqual(status, 0, said + errors)

    def test_actions_are_pinned(self):
        used = re.findall(
            r"uses: (\S+)@(\S+)(.*)", "\n".join(one.read_text("utf-8") for one in self.FILES)
        )
        self.assertGreater(len(used), 5)
        commits = {}
        for action, commit, comment in used:
            self.assertRegex(commit, r"^[0-9a-f]{40}$", action)
            self.assertRegex(comment, r"^ # v\d+\.\d+\.\d+$", action)
            repository = "/".join(action.split("/")[:2])
            self.assertEqual(commits.setdefault(repository, commit), commit, action)


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1))
    TOOLS = BUILD / "wheels/release/bin"
    unittest.main(verbosity=2)
