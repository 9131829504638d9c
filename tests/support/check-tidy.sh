#!/bin/sh
# clang-tidy 14 over our own sources, with the compile commands of the build folder given. Later
# versions know other checks under the same names.
set -eu
cd "$(dirname "$0")/../.."
tidy=$(command -v clang-tidy-14 || echo clang-tidy)
version=$("$tidy" --version | sed -n 's/.*version \([0-9]*\).*/\1/p')
if [ "$version" != 14 ]; then
    echo "clang-tidy 14 is wanted; this is clang-tidy $version"
    exit 77
fi
commands=$(mktemp -d)
trap 'rm -rf "$commands"' EXIT
python3 tests/support/tidy_commands.py . "$1" "$commands" >"$commands/files"
[ -s "$commands/files" ]
xargs -0 -P "$(nproc)" -n 1 "$tidy" --quiet -p "$commands" <"$commands/files"
