#!/bin/sh
# Inside a root: a wheel for aarch64 is imported by that Debian's Python for aarch64, under qemu-user.
# Ends with one line: what answered. The emulator has no heap segment and shows the emulated process's
# mappings only in part, so this is no test of everything.
#
#   tests/long/prebuilt/emulator.sh WHEEL
set -eu
here=$(cd "$(dirname "$0")" && pwd)
wheel=$1
folder=/var/tmp/homefree-aarch64

DEBIAN_FRONTEND=noninteractive
export DEBIAN_FRONTEND
dpkg --add-architecture arm64
if [ ! -x "$folder/usr/bin/python3" ]; then
    apt-get update >/dev/null
    apt-get install -y --no-install-recommends ca-certificates qemu-user python3-venv >/dev/null
    rm -rf "$folder"
    mkdir -p "$folder/packages"
    cd "$folder/packages"
    # The packages of a Python, unpacked: two Pythons cannot be installed at once.
    python=$(apt-cache depends python3-minimal:arm64 | sed -n 's/^ *Depends: \(python3\.[0-9]*-minimal\).*/\1/p' | head -n 1)
    version=${python%-minimal}
    apt-get download -o APT::Sandbox::User=root "$version-minimal:arm64" "lib$version-minimal:arm64" \
        "lib$version-stdlib:arm64" libc6:arm64 libgcc-s1:arm64 libexpat1:arm64 zlib1g:arm64 \
        libffi7:arm64 libssl1.1:arm64 >/dev/null
    for package in *.deb; do
        dpkg-deb --extract "$package" "$folder"
    done
    ln -sf "$version" "$folder/usr/bin/python3"
fi
rm -rf "$folder/site"
python3 -m venv "$folder/tools"
"$folder/tools/bin/python" -m zipfile -e "$wheel" "$folder/site"
PYTHONPATH=$folder/site QEMU_LD_PREFIX=$folder timeout 300 qemu-aarch64 "$folder/usr/bin/python3" \
    "$here/emulated.py"
