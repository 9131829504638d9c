# shellcheck shell=sh
# Sourced by debian-source.sh and debian-binary.sh: apt, asked from where this machine's packages
# come and in lists of its own, so that nothing is installed and the machine's lists are left alone.
#
# debian_suite WORK KIND [SUITE]   prepares WORK, an empty directory. KIND is deb or deb-src. SUITE
# is a
#                                  release by its code name; this machine's unless it is named. Of
#                                  another release: its main archive, without its updates.
# privately WORK …                 apt-get with WORK's lists.

debian_suite() {
    mkdir -p "$1/sources" "$1/lists/partial" "$1/cache/archives/partial"
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -f "$list" ] && grep '^deb .*debian' "$list" | sed "s/^deb /$2 /" >>"$1/sources/all.list"
    done
    for list in /etc/apt/sources.list.d/*.sources; do
        [ -f "$list" ] && grep -q 'debian-archive-keyring' "$list" &&
            sed "s/^Types:.*/Types: $2/" "$list" >"$1/sources/$(basename "$list")"
    done
    [ -n "${3-}" ] || return 0
    for list in "$1"/sources/*; do
        case $list in
        *.sources)
            awk -v suite="$3" 'BEGIN { RS = ""; ORS = "\n\n" }
                !/-security/ { sub(/Suites:[^\n]*/, "Suites: " suite); print }' "$list"
            ;;
        *) sed -n "/-security/d; s/^\\($2 .*debian\\/* \\)[a-z-]*/\\1$3/p" "$list" ;;
        esac >"$1/list"
        mv "$1/list" "$list"
    done
}

privately() {
    privately_in=$1
    shift
    apt-get -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$privately_in/sources" \
        -o Dir::State::Lists="$privately_in/lists" -o Dir::Cache="$privately_in/cache" \
        -o APT::Sandbox::User=root "$@"
}
