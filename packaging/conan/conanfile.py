"""Conan's recipe of homefree's C library and its command. The Python package is in the wheel.

The package's own CMake files are used, because they have functions. Its files for pkg-config know
where it was built, so Conan writes others.
"""

import os
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.files import copy, get
from conan.tools.layout import basic_layout
from conan.tools.meson import Meson, MesonToolchain

required_conan_version = ">=2.4"


class Homefree(ConanFile):
    name = "homefree"
    description = "Allocate anywhere, free anywhere: every free goes home to the owner of the block"
    license = "BSD-2-Clause AND MIT"  # MIT: Zydis
    topics = ("allocator", "malloc", "free", "jemalloc")
    package_type = "shared-library"
    languages = "C"
    settings = "os", "arch", "compiler", "build_type"

    def validate(self):
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("homefree needs Linux on x86-64 or 64-bit Arm")

    def layout(self):
        basic_layout(self, src_folder="source")

    def build_requirements(self):
        self.tool_requires("meson/[>=1.0]")

    def source(self):
        get(self, **self.conan_data["sources"][self.version], strip_root=True)

    def generate(self):
        toolchain = MesonToolchain(self)
        toolchain.project_options.update(
            tests=False,
            examples=False,
            python="none",
            # jemalloc and Zydis are in the source archive.
            wrap_mode="nodownload",
        )
        toolchain.generate()

    def build(self):
        meson = Meson(self)
        meson.configure()
        meson.build()

    def package(self):
        Meson(self).install()
        licenses = Path(self.package_folder, "licenses")
        copy(self, "LICENSE", self.source_folder, licenses)
        for pattern in "jemalloc-*/COPYING", "zyantific-*/LICENSE":
            copy(self, pattern, Path(self.source_folder, "subprojects"), licenses)

    def package_info(self):
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "homefree")]
        self.cpp_info.set_property("pkg_config_name", "homefree")
        self.cpp_info.libs = ["homefree_shim", "homefree"]
        # What the linker is asked for beforehand stands in the installed file alone.
        installed = Path(self.package_folder, "lib/pkgconfig/homefree.pc").read_text()
        words = installed.partition("\nLibs: ")[2].split()
        asked = [word for word in words if word.startswith("-Wl,")]
        self.cpp_info.sharedlinkflags = self.cpp_info.exelinkflags = asked
