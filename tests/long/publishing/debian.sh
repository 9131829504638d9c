#!/bin/sh
# Debian's packages of homefree (packaging/debian) and of a module that is linked with it
# (examples/packages/debian), made with dpkg-buildpackage, read by lintian, tested by autopkgtest,
# installed and used, in a root that debootstrap makes.
#
# usage: debian.sh [--build BUILD] [SUITE]
#
# SUITE   a Debian release by its code name; this machine's by default
#
# The root is BUILD/long/debian-SUITE and stays; a second run makes only what has changed. Uses the
# committed tree. Needs root and debootstrap; takes 5 to 15 minutes the first time, and 2 GiB of
# disk. Exit status: 0 all went well, 77 something is missing here, others failed.
set -eu
root=$(cd "$(dirname "$0")/../../.." && pwd)
build=$root/build
if [ "${1-}" = --build ]; then
    build=$2
    shift 2
fi
suite=${1-$(. /etc/os-release && echo "${VERSION_CODENAME-}")}
[ "$(id -u)" = 0 ] || {
    echo "debian: needs root"
    exit 77
}
command -v debootstrap >/dev/null && command -v apt-get >/dev/null && [ -n "$suite" ] || {
    echo "debian: needs debootstrap and Debian's apt"
    exit 77
}
mkdir -p "$build/long"
exec "$root/tests/fresh-root" -c "sh tests/long/publishing/debian-inside.sh /packages" "$suite" \
    "$build/long/debian-$suite"
