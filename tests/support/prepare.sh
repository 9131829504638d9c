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
# Needs $root, the project's folder.

homefree_packages() {
    echo build-essential patch meson ninja-build pkg-config libelf-dev check python3-dev
    echo pybind11-dev python3-numpy libmimalloc-dev libgoogle-perftools-dev
    if [ "$1" = tests ]; then
        echo cmake valgrind clang clang-format clang-tidy libjemalloc2 python3-venv lld
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

# Debian's source package holds the release archive bit for bit. Where there is none that fits, Meson
# downloads it from its origin.
homefree_fetch_jemalloc() {
    name=$(sed -n 's/^source_filename = //p' "$root/subprojects/jemalloc.wrap")
    archive=$root/subprojects/packagecache/$name
    homefree_archive_is_right "$archive" && return
    command -v apt-get >/dev/null || return 0
    echo "homefree: fetching jemalloc's source" >&2
    work=$(mktemp -d)
    mkdir -p "$work/parts" "$work/lists/partial" "$work/archives/partial"
    # The configured lists, asking for sources instead of packages.
    for list in /etc/apt/sources.list.d/*.sources; do
        [ -f "$list" ] && sed 's/^Types:.*/Types: deb-src/' "$list" >"$work/parts/${list##*/}"
    done
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -f "$list" ] && sed -n 's/^deb\(-src\)\{0,1\} /deb-src /p' "$list" | sort -u \
            >"$work/parts/$(basename "$list" .list)-src.list"
    done
    (
        cd "$work" || exit
        set -- -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$work/parts" \
            -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work" -o APT::Sandbox::User=root
        apt-get "$@" update && apt-get "$@" source --download-only jemalloc
    ) >"$work/log" 2>&1 || true
    for found in "$work"/jemalloc_*.orig.tar.bz2; do
        if homefree_archive_is_right "$found"; then
            mkdir -p "${archive%/*}"
            cp "$found" "$archive"
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
