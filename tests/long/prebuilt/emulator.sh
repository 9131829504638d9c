#!/bin/sh
# Inside a root: a wheel for aarch64 is imported by that Debian's Python for aarch64, under
# qemu-user. Ends with one line: what answered. The emulator has no heap segment and shows the
# emulated process's mappings only in part, so this is no test of everything.
#
#   tests/long/prebuilt/emulator.sh WHEEL
set -eu
here=$(cd "$(dirname "$0")" && pwd)
wheel=$1
directory=/var/tmp/homefree-aarch64

DEBIAN_FRONTEND=noninteractive
export DEBIAN_FRONTEND
dpkg --add-architecture arm64
if [ ! -x "$directory/usr/bin/python3" ]; then
    apt-get update >/dev/null
    apt-get install -y --no-install-recommends ca-certificates qemu-user python3-venv >/dev/null
    rm -rf "$directory"
    mkdir -p "$directory/packages"
    cd "$directory/packages"
    # The packages of a Python, unpacked: two Pythons cannot be installed at once.
    version=$(apt-cache depends python3-minimal:arm64 |
        sed -n 's/^ *PreDepends: \(python3\.[0-9]*\)-minimal:arm64$/\1/p')
    stdlib=lib$version-stdlib:arm64
    # Their names differ between releases.
    libraries=$(apt-cache depends "lib$version-minimal:arm64" "$stdlib" |
        sed -n 's/^ *Depends: \(lib\(ffi\|ssl\)[0-9].*:arm64\)$/\1/p')
    # fetch [OPTION…]: downloads them.
    fetch() {
        # shellcheck disable=SC2086
        apt-get download -o APT::Sandbox::User=root "$@" "$version-minimal:arm64" \
            "lib$version-minimal:arm64" "$stdlib" libc6:arm64 libgcc-s1:arm64 libexpat1:arm64 \
            zlib1g:arm64 $libraries >/dev/null
    }
    # An archive of security fixes may lack those for another machine: then without them.
    release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    fetch || fetch -t "$release"
    for package in *.deb; do
        dpkg-deb --extract "$package" "$directory"
    done
    ln -sf "$version" "$directory/usr/bin/python3"
fi
rm -rf "$directory/site"
python3 -m venv "$directory/tools"
"$directory/tools/bin/python" -m zipfile -e "$wheel" "$directory/site"
# The emulator keeps a table of a program's pages, which takes all memory for a region of the usual
# size.
PYTHONPATH=$directory/site QEMU_LD_PREFIX=$directory HOMEFREE_CONF=region:64G timeout 300 \
    qemu-aarch64 "$directory/usr/bin/python3" "$here/emulated.py"
