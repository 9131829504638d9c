# One heap serves libraries of both configurations.
set(VCPKG_BUILD_TYPE release)
# The files for CMake find the library and the command from their own place.
set(VCPKG_POLICY_SKIP_LIB_CMAKE_MERGE_CHECK enabled)
set(VCPKG_POLICY_ALLOW_EXES_IN_BIN enabled)
vcpkg_check_linkage(ONLY_DYNAMIC_LIBRARY)

vcpkg_download_distfile(archive
  URLS "https://example.org/homefree-1.0.0.tar.gz"
  FILENAME "homefree-${VERSION}.tar.gz"
  SHA512 00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000
)
vcpkg_extract_source_archive(source ARCHIVE "${archive}")

# The Python package is in the wheel.
vcpkg_configure_meson(
  SOURCE_PATH "${source}"
  OPTIONS -Dtests=false -Dexamples=false -Dpython=none
)
vcpkg_install_meson()
vcpkg_fixup_pkgconfig()

file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
file(GLOB licenses "${source}/subprojects/jemalloc-*/COPYING" "${source}/subprojects/zyantific-*/LICENSE")
vcpkg_install_copyright(FILE_LIST "${source}/LICENSE" ${licenses})
