#!/bin/sh
# Fetches the source of a Debian package, from where this machine's packages come, and unpacks it.
# Nothing is installed, and the machine's own lists are left alone.
#
# usage: tests/support/debian-source.sh [--unpatched | --archive] PACKAGE DIRECTORY [SUITE]
#
# DIRECTORY must not exist; afterwards it is the package's source, with Debian's patches unless
# --unpatched is given. With --archive it is what the authors released, without Debian's files,
# which are not fetched; the archive's name is printed. SUITE is a release by its code name; this
# machine's unless it is named.
set -eu
here=$(dirname "$0")
# shellcheck source=tests/support/debian-suite.sh
. "$here/debian-suite.sh"
what=patched
case ${1-} in
--unpatched | --archive)
    what=${1#--}
    shift
    ;;
esac
[ $# -eq 2 ] || [ $# -eq 3 ] || {
    echo "usage: tests/support/debian-source.sh [--unpatched | --archive] PACKAGE DIRECTORY [SUITE]" >&2
    exit 2
}
package=$1
case $2 in
/*) directory=$2 ;;
*) directory=$PWD/$2 ;;
esac
[ ! -e "$directory" ] || {
    echo "debian-source: $directory exists" >&2
    exit 2
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
debian_suite "$work" deb-src "${3-}"
fetch() {
    case $what in
    patched) privately "$work" -q source "$package" ;;
    unpatched)
        privately "$work" -q source --download-only "$package" &&
            dpkg-source --skip-patches -x "$work"/*.dsc "$work/source"
        ;;
    archive)
        privately "$work" -q source --tar-only --download-only "$package" &&
            mkdir "$work/source" && tar -xf "$work"/*.orig.tar.* --strip-components=1 -C "$work/source"
        ;;
    esac
}
cd "$work"
{ privately "$work" -q update && fetch; } >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    exit 3
}
if [ "$what" = archive ]; then
    mv "$work/source" "$directory"
    basename "$work"/*.orig.tar.*
    exit
fi
for unpacked in "$work"/*/debian; do
    mv "$(dirname "$unpacked")" "$directory"
done
