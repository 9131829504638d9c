#!/bin/sh
# CPython's own regression tests, without and with homefree. See cpython.py, which does the work.
#
#   tests/long/suites/cpython.sh [--python FILE] [--shard I/N] [OPTION…] [SECONDS]
exec python3 "$(dirname "$0")/cpython.py" "$@"
