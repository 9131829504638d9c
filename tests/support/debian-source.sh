#!/bin/sh
# Fetches the source of a Debian package, from where this machine's packages come, and unpacks it.
# Nothing is installed, and the machine's own lists are left alone.
#
# usage: tests/support/debian-source.sh [--unpatched] PACKAGE FOLDER [SUITE]
#
# FOLDER must not exist; afterwards it is the package's source, with Debian's patches unless
# --unpatched is given. SUITE is a release by its code name; this machine's unless it is named.
set -eu
patched=yes
[ "${1-}" != --unpatched ] || {
    patched=
    shift
}
[ $# -eq 2 ] || [ $# -eq 3 ] || {
    echo "usage: tests/support/debian-source.sh [--unpatched] PACKAGE FOLDER [SUITE]" >&2
    exit 2
}
package=$1
suite=${3-}
case $2 in
/*) folder=$2 ;;
*) folder=$PWD/$2 ;;
esac
[ ! -e "$folder" ] || {
    echo "debian-source: $folder exists" >&2
    exit 2
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/sources" "$work/lists/partial" "$work/cache/archives/partial"
# The same sources, of the other kind.
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -f "$list" ] && grep '^deb .*debian' "$list" | sed 's/^deb /deb-src /' >>"$work/sources/all.list"
done
for list in /etc/apt/sources.list.d/*.sources; do
    [ -f "$list" ] && grep -q 'debian-archive-keyring' "$list" &&
        sed 's/^Types:.*/Types: deb-src/' "$list" >"$work/sources/$(basename "$list")"
done
# Of another release: its main archive, without its updates.
if [ -n "$suite" ]; then
    for list in "$work"/sources/*; do
        case $list in
        *.sources)
            awk -v suite="$suite" 'BEGIN { RS = ""; ORS = "\n\n" }
                !/-security/ { sub(/Suites:[^\n]*/, "Suites: " suite); print }' "$list"
            ;;
        *) sed -n "/-security/d; s/^\\(deb-src .*debian\\/* \\)[a-z-]*/\\1$suite/p" "$list" ;;
        esac >"$work/list"
        mv "$work/list" "$list"
    done
fi
privately() {
    apt-get -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/sources" \
        -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root "$@"
}
fetch() {
    if [ -n "$patched" ]; then
        privately -q source "$package"
    else
        privately -q source --download-only "$package" &&
            dpkg-source --skip-patches -x "$work"/*.dsc "$work/source"
    fi
}
cd "$work"
{ privately -q update && fetch; } >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    exit 3
}
for unpacked in "$work"/*/debian; do
    mv "$(dirname "$unpacked")" "$folder"
done
