# SPDX-License-Identifier: BSD-2-Clause
"""The build backend that pyproject.toml names: meson-python, which refuses a package with
`limited-api = true` for a free-threaded CPython. Those have no limited API that meson-python could
build for before 3.15; there the extension is compiled for one version, and the wheel says so.

It says what the package is without building it, which meson-python cannot. The same commit gives
the same archives, in any directory (source_archive.py).

Where there is no Linux, or with `pip wheel --config-settings=pure=true`, the wheel is pure Python
(pure_wheel.py).
"""

import contextlib
import os
import pathlib
import sys
import sysconfig
import tempfile

import needs

try:
    import mesonpy
    import packaging.version
    from mesonpy import (
        get_requires_for_build_editable,
        get_requires_for_build_sdist,
        get_requires_for_build_wheel,
    )

    try:
        import tomllib
    except ImportError:  # before Python 3.11; meson-python needs it there
        import tomli as tomllib
except ImportError as error:
    # Without build isolation. A message in an ImportError would not reach pip's user.
    sys.exit(needs.remedy_of_packages(error))

import built_in
import pure_wheel
import source_archive
import wheel_file

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def _pure(config_settings):
    return sys.platform != "linux" or (config_settings or {}).get("pure") == "true"


def _settings(given, *own):
    settings = dict(given or {})
    arguments = settings.get("setup-args", [])
    arguments = [arguments] if isinstance(arguments, str) else list(arguments)
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        own = ("-Dpython.allow_limited_api=false", *own)
    # What the user says comes last, and counts.
    settings["setup-args"] = [*own, *arguments]
    return settings


@contextlib.contextmanager
def _with_remedy(settings):
    """What Meson said stands above."""
    try:
        yield
    except SystemExit:
        remedy = needs.remedy(settings["setup-args"])
        if remedy:
            print(remedy, file=sys.stderr, flush=True)
        raise


def _as_committed():
    os.environ["SOURCE_DATE_EPOCH"] = str(source_archive.date(_ROOT))
    os.umask(0o022)


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Without this, pip would build the whole wheel to learn what it needs."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    version = pure_wheel.version()
    about = pathlib.Path(metadata_directory, f"homefree-{version}.dist-info")
    about.mkdir()
    if _pure(config_settings):
        metadata = pure_wheel.metadata(version).encode()
    else:
        found = mesonpy.Metadata.from_pyproject(project, _ROOT)
        found.version = packaging.version.Version(version)
        metadata = bytes(found.as_rfc822())
    (about / "METADATA").write_bytes(metadata)
    return about.name


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    if _pure(config_settings):
        return pure_wheel.build(wheel_directory)
    _as_committed()
    settings = _settings(config_settings)
    # Where meson-python would make a directory of its own, too.
    with _with_remedy(settings), tempfile.TemporaryDirectory(prefix=".mesonpy-", dir=".") as build:
        build = settings.setdefault("build-dir", build)
        name = mesonpy.build_wheel(wheel_directory, settings, metadata_directory)
        return _finished(pathlib.Path(wheel_directory) / name, build)


def _finished(wheel, build):
    """Completes a wheel that meson-python has built in a directory. Result: its name."""
    members = wheel_file.read(wheel)
    built_in.add(members, build)
    wheel.unlink()
    # meson-python takes the limited API for switched off where Meson, before 1.3, has no option for
    # it. What the extension is compiled for is in its name.
    if "homefree/_homefree.abi3.so" in members and "-abi3-" not in wheel.name:
        wheel = wheel_file.tag(wheel, members, r"(cp\d+)-cp\d+", r"\1-abi3")
    wheel_file.write(wheel, members)
    return wheel.name


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    settings = _settings(config_settings, "-Deditable=true")
    with _with_remedy(settings):
        return mesonpy.build_editable(wheel_directory, settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    _as_committed()
    settings = _settings(config_settings)
    with _with_remedy(settings):
        return mesonpy.build_sdist(sdist_directory, settings)
