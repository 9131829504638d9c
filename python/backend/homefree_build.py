# SPDX-License-Identifier: BSD-2-Clause
"""The build backend that pyproject.toml names: meson-python, which refuses a package with
`limited-api = true` for a free-threaded CPython. Those have no limited API that meson-python could
build for before 3.15; there the extension is compiled for one version, and the wheel says so.

Where there is no Linux, or with `pip wheel -C pure=true`, the wheel is pure Python (pure_wheel.py).
"""

import pathlib
import sys
import sysconfig
import tempfile

import built_in
import mesonpy
import pure_wheel
from mesonpy import (
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]


def _settings(given, *own):
    settings = dict(given or {})
    arguments = settings.get("setup-args", [])
    arguments = [arguments] if isinstance(arguments, str) else list(arguments)
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        own = ("-Dpython.allow_limited_api=false", *own)
    # What the user says comes last, and counts.
    settings["setup-args"] = [*own, *arguments]
    return settings


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    if sys.platform != "linux" or (config_settings or {}).get("pure") == "true":
        return pure_wheel.build(wheel_directory)
    settings = _settings(config_settings)
    # Where meson-python would make a directory of its own, too.
    with tempfile.TemporaryDirectory(prefix=".mesonpy-", dir=".") as build:
        build = settings.setdefault("build-dir", build)
        name = mesonpy.build_wheel(wheel_directory, settings, metadata_directory)
        built_in.add(pathlib.Path(wheel_directory) / name, build)
    return name


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    settings = _settings(config_settings, "-Deditable=true")
    return mesonpy.build_editable(wheel_directory, settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    return mesonpy.build_sdist(sdist_directory, _settings(config_settings))
