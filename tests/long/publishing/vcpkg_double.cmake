# A double of vcpkg for homefree's port: the commands that its portfile calls, with the arguments that
# it gives, do here what vcpkg's do, on this machine's tools. What a portfile may rely on is described in
# vcpkg's manual for maintainers.
#
# usage: cmake -DPORT=NAME -DVERSION=VERSION -DPORT_DIRECTORY=DIRECTORY -DWORK=DIRECTORY -P vcpkg_double.cmake
#
# Installs into WORK/packages.
cmake_minimum_required(VERSION 3.18)

set(CURRENT_PACKAGES_DIR "${WORK}/packages")

# arguments(WORD… ): as cmake_parse_arguments, and nothing else may be there.
macro(arguments_are flags one several)
  cmake_parse_arguments(PARSE_ARGV ${first} arg "${flags}" "${one}" "${several}")
  if(DEFINED arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${CMAKE_CURRENT_FUNCTION}: this double does not know ${arg_UNPARSED_ARGUMENTS}")
  endif()
endmacro()

function(must)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "failed: ${ARGV}")
  endif()
endfunction()

function(vcpkg_check_linkage)
  set(first 0)
  arguments_are(ONLY_DYNAMIC_LIBRARY "" "")
endfunction()

function(vcpkg_download_distfile variable)
  set(first 1)
  arguments_are("" "URLS;FILENAME;SHA512" "")
  file(DOWNLOAD "${arg_URLS}" "${WORK}/downloads/${arg_FILENAME}" EXPECTED_HASH "SHA512=${arg_SHA512}")
  set(${variable} "${WORK}/downloads/${arg_FILENAME}" PARENT_SCOPE)
endfunction()

function(vcpkg_extract_source_archive variable)
  set(first 1)
  arguments_are("" ARCHIVE "")
  file(ARCHIVE_EXTRACT INPUT "${arg_ARCHIVE}" DESTINATION "${WORK}/sources")
  file(GLOB inside "${WORK}/sources/*")
  set(${variable} "${inside}" PARENT_SCOPE)
endfunction()

function(vcpkg_configure_meson)
  set(first 0)
  arguments_are("" SOURCE_PATH OPTIONS)
  must(meson setup "${WORK}/built" "${arg_SOURCE_PATH}" "--prefix=${CURRENT_PACKAGES_DIR}" --libdir=lib
    --buildtype=release --wrap-mode=nodownload ${arg_OPTIONS})
endfunction()

function(vcpkg_install_meson)
  must(meson install -C "${WORK}/built")
endfunction()

function(vcpkg_fixup_pkgconfig)
  file(GLOB files "${CURRENT_PACKAGES_DIR}/lib/pkgconfig/*.pc")
  foreach(file IN LISTS files)
    file(READ "${file}" text)
    string(REPLACE "prefix=${CURRENT_PACKAGES_DIR}\n" "prefix=\${pcfiledir}/../..\n" text "${text}")
    if(text MATCHES "${CURRENT_PACKAGES_DIR}")
      message(FATAL_ERROR "${file} names the place where it was built")
    endif()
    file(WRITE "${file}" "${text}")
  endforeach()
endfunction()

function(vcpkg_install_copyright)
  set(first 0)
  arguments_are("" "" FILE_LIST)
  foreach(file IN LISTS arg_FILE_LIST)
    file(READ "${file}" text)
    file(APPEND "${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright" "${text}\n")
  endforeach()
endfunction()

include("${PORT_DIRECTORY}/portfile.cmake")
