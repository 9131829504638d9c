#!/bin/sh
# Inside a root with a compiler: modules are built against the wheel by that Debian's own compiler,
# which may be older or newer than the wheel's. Ends with one line: the compiler.
#
#   tests/long/prebuilt/compiler.sh WHEEL
set -eu
tree=$(cd "$(dirname "$0")/../../.." && pwd)
wheel=$1
environment=/var/tmp/homefree-environment

DEBIAN_FRONTEND=noninteractive
export DEBIAN_FRONTEND
packages='ca-certificates clang g++ libc6-dev pkg-config python3-dev python3-venv'
# shellcheck disable=SC2086
if [ "$(dpkg-query -W -f '${db:Status-Status}\n' $packages 2>/dev/null | grep -c '^installed')" != 7 ]; then
    apt-get update >/dev/null
    # shellcheck disable=SC2086
    apt-get install -y --no-install-recommends $packages >/dev/null
fi
rm -rf "$environment"
python3 -m venv "$environment"
PATH=$environment/bin:$PATH
export PATH
pip install --disable-pip-version-check --quiet "$wheel" ninja setuptools wheel pybind11 pytest
"$environment/bin/python" -m unittest -v "$tree/tests/long/prebuilt/test_compiler.py" >&2
echo "modules of $(cc --version | sed -n 1p) and $(clang --version | sed -n 1p)"
