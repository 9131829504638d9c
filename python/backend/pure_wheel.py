# SPDX-License-Identifier: BSD-2-Clause
"""Makes homefree's wheel in pure Python, for systems on which it has no heap: from python/pure/,
and from the parts of python/homefree/ that need no C. Nothing is compiled, and Meson is not needed.

State: none.
"""

import ast
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

import wheel_file

_ROOT = pathlib.Path(__file__).resolve().parents[2]
# Of `homefree memory`, `homefree exports` and `homefree doctor --core`, and what Meson reads.
_LEFT_OUT = re.compile(r"memory.*|exports\.py|(doctor_)?core_?.*\.py|meson\.build")
_IN_C = "Programming Language :: C"
_TIME = 1980, 1, 1, 0, 0, 0


def build(directory):
    """Writes the wheel. Result: its name."""
    number = version()
    name = f"homefree-{number}-py3-none-any.whl"
    info = f"homefree-{number}.dist-info"
    files = {f"homefree/{path}": data for path, data in _package(number).items()}
    files[f"{info}/METADATA"] = metadata(number)
    files[f"{info}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: homefree\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    files["pytest_homefree.py"] = _text("python", "pytest_homefree.py")
    files[f"{info}/entry_points.txt"] = (
        "[console_scripts]\nhomefree = homefree.__main__:main\n\n"
        "[pytest11]\nhomefree = pytest_homefree\n"
    )
    files[f"{info}/licenses/LICENSE"] = _text("LICENSE")
    members = {}
    for path, data in sorted(files.items()):
        members[path] = _member(path), data.encode() if isinstance(data, str) else data
    wheel_file.write(pathlib.Path(directory) / name, members)
    return name


def version():
    return re.search(r"^  version: '(.*)',$", _text("meson.build"), re.MULTILINE)[1]


def _text(*path):
    return _ROOT.joinpath(*path).read_text(encoding="utf-8")


def _member(path):
    member = zipfile.ZipInfo(path, _TIME)
    member.compress_type = zipfile.ZIP_DEFLATED
    member.external_attr = 0o644 << 16
    return member


def _package(version):
    """{path below homefree/: contents}"""
    files = {"py.typed": b""}
    for path in (_ROOT / "python/homefree/command").iterdir():
        if path.is_file() and not _LEFT_OUT.fullmatch(path.name):
            files[f"command/{path.name}"] = path.read_bytes()
    files["command/_tables.py"] = _tables()
    files["command/findings.html"] = _page()
    for path in (_ROOT / "python/pure").glob("*.py"):
        name = path.name.replace("plain_", "")  # two files of one name are confused
        files[name] = path.read_text(encoding="utf-8").replace("@version@", version)
    names, modules = _names()
    filled = files["_unavailable.py"]
    for what, found in (("names", names), ("modules", modules)):
        filled, count = re.subn(rf"= \(\)  # @{what}@", f"= {found!r}", filled)
        assert count == 1
    files["_unavailable.py"] = filled
    # A module of which something is imported says it, too.
    for name in modules:
        files.setdefault(
            f"{name}.py",
            '"""Not on this system."""\n\nfrom ._unavailable import Unavailable\n\n'
            "raise Unavailable(__name__)\n",
        )
    return files


def _names():
    """What homefree/__init__.py has that users name, and the public modules beside it."""
    tree = ast.parse(_text("python", "homefree", "__init__.py"))
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in ("__all__", "_LAZY"):
                found[name] = ast.literal_eval(node.value)
    names = {*found["__all__"], *" ".join(found["_LAZY"].values()).split()}
    directory = _ROOT / "python/homefree"
    modules = {
        path.stem
        for path in directory.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    modules = {name for name in modules if not name.startswith("_")} - {"command", "setuptools"}
    return tuple(sorted(names - modules)), tuple(sorted(modules))


def _page():
    """The page to which findings lead."""
    with tempfile.TemporaryDirectory() as directory:
        page = pathlib.Path(directory) / "findings.html"
        subprocess.run([sys.executable, _ROOT / "docs/findings.py", page], check=True)
        return page.read_bytes()


def _tables():
    path = _ROOT / "python/tables.py"
    spec = importlib.util.spec_from_file_location("tables", path)
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    return tables.tables(_ROOT)


def metadata(version):
    """pyproject.toml's, of which this needs a few lines that look as they do there."""
    project = _text("pyproject.toml").partition("[project]")[2].partition("\n[")[0]

    def value(key):
        return re.search(rf'^{key} = "(.*)"$', project, re.MULTILINE)[1]

    keywords = re.search(r"^keywords = \[(.*)\]$", project, re.MULTILINE)[1].replace('"', "")
    classifiers = re.search(r"^classifiers = \[(.*?)\]", project, re.MULTILINE | re.DOTALL)[1]
    classifiers = classifiers.replace("POSIX :: Linux", "OS Independent")
    lines = [
        "Metadata-Version: 2.4",
        "Name: homefree",
        f"Version: {version}",
        f"Summary: {value('description')}",
        f"Requires-Python: {value('requires-python')}",
        "License-Expression: BSD-2-Clause",
        "License-File: LICENSE",
        f"Keywords: {keywords.replace(', ', ',')}",
        *(f"Classifier: {one}" for one in re.findall(r'"(.*)"', classifiers) if one != _IN_C),
        "Description-Content-Type: text/markdown",
        "",
        _text("docs", "package.md"),
    ]
    return "\n".join(lines)
