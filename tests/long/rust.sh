#!/bin/sh
# The example in Rust (examples/bindings/rust) with the real PyO3 and maturin. The crates are
# Debian's, since not every machine reaches Rust's registry: of the release that has PyO3 0.22,
# downloaded from the archive that apt has configured, unpacked beside the build, and kept there.
#
#   tests/long/rust.sh [BUILD]        the build directory of the tree (build)
#
# Exit status: 0 passed, 77 something is missing, which the last line names.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$root" && cd "${1-build}" && pwd)
place=$build/long/rust
release=trixie
crates=$place/usr/share/cargo/registry

skip() {
    echo "$*"
    exit 77
}

command -v cargo >/dev/null || skip "cargo is missing"
[ -e "$build/wheels/tools/ready" ] || skip "the tools that examples are built with are missing"

download() {
    command -v apt-get >/dev/null || skip "the crates are Debian's packages, and there is no apt-get"
    archive=$(apt-get indextargets --no-release-info --format '$(SITE)' 'Created-By: Packages' |
        grep -m 1 '/debian$') || skip "apt has no archive of Debian's configured here"
    # Lists and packages of their own: nothing here changes the machine's.
    mkdir -p apt/etc/apt/apt.conf.d apt/etc/apt/preferences.d apt/etc/apt/trusted.gpg.d \
        apt/var/lib/apt/lists/partial apt/var/cache/apt/archives/partial apt/var/lib/dpkg debs
    : >apt/var/lib/dpkg/status
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    echo "deb [signed-by=$keyring] $archive $release main" >apt/etc/apt/sources.list
    printf 'Dir "%s";\nDir::State::status "%s";\nAPT::Sandbox::User "root";\n' \
        "$place/apt" "$place/apt/var/lib/dpkg/status" >apt/apt.conf
    export APT_CONFIG="$place/apt/apt.conf"
    apt-get -q update
    packages=
    for crate in pyo3 pyo3-ffi pyo3-build-config pyo3-macros pyo3-macros-backend quote syn proc-macro2 \
        unicode-ident heck indoc unindent memoffset libc cfg-if once-cell portable-atomic \
        target-lexicon autocfg cc shlex jobserver; do
        packages="$packages librust-$crate-dev"
    done
    # shellcheck disable=SC2086 # a list of words
    (cd debs && apt-get -q download $packages)
    unset APT_CONFIG
    for package in debs/*.deb; do
        dpkg-deb -x "$package" .
    done
    rm -rf apt debs
    touch ready
}

mkdir -p "$place"
if [ ! -e "$place/ready" ]; then
    (cd "$place" && download) || exit
fi
if [ ! -x "$place/tools/bin/maturin" ]; then
    /usr/bin/python3 -m venv --clear "$place/tools"
    "$place/tools/bin/python" -m pip install -q --disable-pip-version-check 'maturin>=1.13,<2'
fi

export HOMEFREE_CRATES="$crates" PATH="$PATH:$place/tools/bin"
for form in wheel prefix; do
    echo "---- with homefree as a $form"
    /usr/bin/python3 "$root/tests/examples/test_example.py" "$root/examples/bindings/rust" \
        --form "$form" --build "$build"
done

echo "---- a wheel for others"
/usr/bin/python3 "$root/tests/rust/rust_wheel.py" "$build" "$root" "$place/work"
echo "example in Rust: built by maturin, repaired, and tested with homefree as a wheel and below a prefix"
