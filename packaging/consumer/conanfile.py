"""Conan's test_package of homefree: the consumer by CMake and by Meson."""

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain
from conan.tools.gnu import PkgConfigDeps
from conan.tools.layout import basic_layout
from conan.tools.meson import Meson, MesonToolchain


class Consumer(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    test_type = "explicit"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def build_requirements(self):
        self.tool_requires("meson/[>=1.0]")
        self.tool_requires("pkgconf/[>=1.8]")

    def layout(self):
        basic_layout(self)

    def generate(self):
        for generator in CMakeToolchain, CMakeDeps, MesonToolchain, PkgConfigDeps:
            generator(self).generate()

    def build(self):
        # One after the other, because both have the same directory.
        for build_system in CMake(self), Meson(self):
            build_system.configure()
            build_system.build()
            if can_run(self):
                build_system.test()

    def test(self):
        pass  # build() did
