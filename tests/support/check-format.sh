#!/bin/sh
# Every C and C++ file of ours is as clang-format 14 writes it; other versions write some lines
# otherwise.
#
#   check-format.sh [BUILD-DIRECTORY]    whose tools to use; without, the clang-format on PATH
set -eu
cd "$(dirname "$0")/../.."
format=clang-format
[ ! -x "${1-}/tools/bin/clang-format" ] || format=$1/tools/bin/clang-format
case $("$format" --version) in
*"version 14."*) ;;
*)
    echo "clang-format 14 is wanted; this is $("$format" --version)"
    exit 77
    ;;
esac
find adapters alloc include shim loader packaging satellites tests examples docs \( -name '*.[ch]' -o -name '*.cc' -o -name '*.cpp' \) -print0 |
    xargs -0 "$format" --dry-run --Werror
