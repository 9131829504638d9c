#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Builds the consumer by CMake and by Meson against an installed homefree, and runs it.
#
# usage: try.sh DIRECTORY     where it is built; made
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cd "$1"
cmake -S "$here" -B cmake
cmake --build cmake
(cd cmake && ctest --output-on-failure)
meson setup meson "$here"
meson test -C meson --print-errorlogs
