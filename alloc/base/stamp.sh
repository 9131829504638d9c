#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# stamp.sh SOURCE OUTPUT DEPFILE VERSION: writes HF_BUILD_STAMP, the version and a hash of all
# headers of libhomefree, by which the library and its satellites know that they are of one build
# (satellite.h). The same source gives the same stamp.
set -eu
cd "$1"
list=$(find alloc shim loader \( -name '*.h' -o -name '*.def' \) | LC_ALL=C sort)
# shellcheck disable=SC2086 # no name has a space
hash=$(cat $list | sha256sum | cut -c 1-32)
cd "$OLDPWD"
printf '#define HF_BUILD_STAMP "%s %s"\n' "$4" "$hash" >"$2"
{ printf '%s:' "$2"; for file in $list; do printf ' %s/%s' "$1" "$file"; done; echo; } >"$3"
