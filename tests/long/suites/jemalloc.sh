#!/bin/sh
# jemalloc's own tests, of a stock build and of homefree's. See jemalloc_tests.py, which does the work.
#
#   tests/long/suites/jemalloc.sh [--only PROGRAM,...] [OPTION…] [SECONDS]
exec python3 "$(dirname "$0")/jemalloc_tests.py" "$@"
