#!/bin/sh
# clang-tidy 14 over our own sources, with the compile commands of the build directory given. Later
# versions know other checks under the same names.
#
# check-tidy.sh BUILD-DIRECTORY [--recent]    recent: those that the last 5 commits have changed, or
#     that are not committed, but for commits that change a word or a line everywhere, which are those
#     of more than 150 files; all files are part of tests/long/run
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
if [ "${2-}" = --recent ]; then
    if [ "$(git rev-list --first-parent --max-count=6 HEAD 2>/dev/null | wc -l)" -lt 6 ]; then
        echo "there is no history that says what has changed"
        exit 77
    fi
    {
        git diff --name-only --relative HEAD
        git log --first-parent --max-count=5 --name-only --relative --format=format:: |
            awk -v RS=: -F '\n' 'NF < 150'
    } | sed "s|^|$PWD/|" >"$commands/changed"
    tr '\0' '\n' <"$commands/files" | grep -Fx -f "$commands/changed" | tr '\n' '\0' \
        >"$commands/recent" || true
    mv "$commands/recent" "$commands/files"
fi
xargs -0 -r -P "$(nproc)" -n 1 "$tidy" --quiet -p "$commands" <"$commands/files"
