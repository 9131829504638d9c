#!/bin/sh
# NumPy's own tests, without and with homefree. See numpy_tests.py, which does the work.
#
#   tests/long/suites/numpy.sh [--numpy VERSION] [--shard I/N] [OPTION…] [SECONDS]
exec python3 "$(dirname "$0")/numpy_tests.py" "$@"
