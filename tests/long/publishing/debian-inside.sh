#!/bin/sh
# The part of debian.sh that runs inside of the root, because it installs what it makes.
#
# usage: debian-inside.sh DIRECTORY
#
# DIRECTORY   where all is built. homefree's packages stay there, and are made again only if a file
#             of the tree is newer.
set -eu
root=$(cd "$(dirname "$0")/../../.." && pwd)
mkdir -p "$1"
place=$(cd "$1" && pwd)
export DEBIAN_FRONTEND=noninteractive
# shellcheck source=tests/support/prepare.sh
. "$root/tests/support/prepare.sh"

# logged COMMAND…: shows the end of what the command printed if it fails.
logged() {
    "$@" >"$place/log" 2>&1 || {
        tail -n 60 "$place/log" >&2
        echo "debian: failed: $*" >&2
        exit 1
    }
}

# A configuration file of the host's apt, which fresh-root copies, may also be a package's.
install() {
    logged apt-get install -y --no-install-recommends -o Dpkg::Options::=--force-confold "$@"
}

# known TAG…: those that this release's lintian knows, each behind a comma. It refuses others.
known() {
    for tag; do
        ! lintian-explain-tags "$tag" >/dev/null 2>&1 || printf ',%s' "$tag"
    done
}

# lint FILE [OPTION…]: lintian finds no error and no warning, but these:
#   initial-upload-closes-no-bugs    the first upload to Debian closes a bug there
#   bogus-mail-host…                 the authors live at example.org until there is a release
#   out-of-date-standards-version    one package for all releases has the oldest one's
#   uses-…distutils, …-stdlib        it is setuptools', which provides it; lintian renamed the tag
unfounded=initial-upload-closes-no-bugs,bogus-mail-host,bogus-mail-host-in-debian-changelog
unfounded=$unfounded,out-of-date-standards-version
lint() {
    changes=$1
    shift
    logged lintian --allow-root --fail-on error,warning "$@" --suppress-tags \
        "$unfounded$(known uses-python-distutils uses-deprecated-python-stdlib)" "$changes"
}

echo "debian: the tools of a Debian developer" >&2
logged apt-get update
install build-essential autoconf autopkgtest devscripts lintian

newer=yes
[ ! -e "$place/made" ] || newer=$(find "$root" -path "$root/build*" -prune -o -type f -newer "$place/made" \
    -print | head -n 1)
if [ -n "$newer" ]; then
    echo "debian: homefree's packages, from its source archive" >&2
    rm -rf "$place"/*homefree*
    homefree_source_archive "$place"
    archive=$(echo "$place"/homefree-*.tar.gz)
    source=${archive%.tar.gz}
    mv "$archive" "$place/homefree_${source##*/homefree-}.orig.tar.gz"
    tar -xf "$place"/homefree_*.orig.tar.gz -C "$place"
    cp -r "$source/packaging/debian" "$source/debian"
    logged apt-get build-dep -y --no-install-recommends "$source"
    cd "$source"
    logged dpkg-buildpackage -us -uc
    touch "$place/made"
fi
lint "$place"/homefree_*.changes --display-info --pedantic --fail-on error,warning,info,pedantic
install --reinstall "$place"/libhomefree1_*.deb "$place"/libhomefree-dev_*.deb "$place"/homefree_*.deb \
    "$place"/python3-homefree_*.deb

# What an earlier run left.
rm -rf "$place"/autopkgtest "$place"/*greet*
echo "debian: autopkgtest" >&2
logged autopkgtest --output-dir "$place/autopkgtest" --no-built-binaries "$place"/*.deb \
    "$place"/homefree_*.dsc -- null
cat "$place/autopkgtest/summary"

echo "debian: a module's package" >&2
cp -r "$root/examples/minimal" "$place/python-greet-1.0"
tar -cJf "$place/python-greet_1.0.orig.tar.xz" -C "$place" python-greet-1.0
cp -r "$root/examples/packages/debian" "$place/python-greet-1.0/debian"
cd "$place/python-greet-1.0"
logged apt-get build-dep -y --no-install-recommends .
logged dpkg-buildpackage -b -us -uc
lint "$place"/python-greet_1.0-1_*.changes
depends=$(dpkg-deb -f "$place"/python3-greet_*.deb Depends)
case $depends in
*libhomefree1*) ;;
*)
    echo "debian: the module's package does not depend on libhomefree1 but on: $depends" >&2
    exit 1
    ;;
esac
install --reinstall "$place"/python3-greet_*.deb

echo "debian: using them" >&2
cd /
[ "$(python3 -c 'import greet; print(greet.greet("you"))')" = "Hello, you!" ]
python3 -c 'import homefree, greet; assert homefree.install().python == "arena"'
logged homefree inspect --require-homefree /usr/lib/python3/dist-packages/greet*.so
for mode in "" --diagnose --explain; do
    # shellcheck disable=SC2086 # nothing, or a word
    logged homefree run $mode -- python3 -c 'import greet; greet.greet("you")'
done
logged homefree doctor -- python3 -c 'import greet'
# The harness opens a helper library by its name.
logged homefree test greet
# The library alone is enough for the module.
logged dpkg --force-depends --remove python3-homefree homefree libhomefree-dev
[ "$(python3 -c 'import greet; print(greet.greet("you"))')" = "Hello, you!" ]
echo "debian: homefree's packages and a module's: built, without a finding of lintian, tested and used"
