#!/bin/sh
# run_in_valgrind.sh COMMAND…: in valgrind, with exit status 99 for an error that it has found.
set -eu
directory=$(cd "$(dirname "$0")" && pwd)
version=$(valgrind --version) # valgrind-3.24.0
minor=${version#valgrind-3.}
minor=${minor%%.*}
sizes=
[ "$minor" -lt 22 ] || sizes=--suppressions=$directory/valgrind_sizes.supp
# Fair: threads that wait for one that spins would wait for seconds.
exec valgrind --quiet --error-exitcode=99 --trace-children=no --fair-sched=try \
    --suppressions="$directory/valgrind.supp" ${sizes:+"$sizes"} "$@"
