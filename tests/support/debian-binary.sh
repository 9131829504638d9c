#!/bin/sh
# Fetches a Debian package, from where this machine's packages come, and unpacks it in a directory.
# Nothing is installed, and the machine's own lists are left alone.
#
# usage: tests/support/debian-binary.sh PACKAGE DIRECTORY [SUITE]
#
# DIRECTORY must not exist; afterwards it has the package's files, and what the package says of
# itself in DIRECTORY/DEBIAN. SUITE is a release by its code name; this machine's unless it is
# named.
set -eu
here=$(dirname "$0")
# shellcheck source=tests/support/debian-suite.sh
. "$here/debian-suite.sh"
[ $# -eq 2 ] || [ $# -eq 3 ] || {
    echo "usage: tests/support/debian-binary.sh PACKAGE DIRECTORY [SUITE]" >&2
    exit 2
}
[ ! -e "$2" ] || {
    echo "debian-binary: $2 exists" >&2
    exit 2
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
debian_suite "$work" deb "${3-}"
{ privately "$work" -q update && cd "$work" && privately "$work" -q download "$1" && cd "$OLDPWD"; } \
    >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    exit 3
}
dpkg-deb -R "$work"/*.deb "$2"
