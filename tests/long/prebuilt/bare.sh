#!/bin/sh
# Inside a fresh root: from nothing but Python to five lines that crash without homefree and run
# with it, and then what else needs no compiler. Ends with one line: how long the five lines took.
#
#   tests/long/prebuilt/bare.sh WHEEL
set -eu
here=$(cd "$(dirname "$0")" && pwd)
wheel=$1
environment=/var/tmp/homefree-environment

DEBIAN_FRONTEND=noninteractive
export DEBIAN_FRONTEND
if ! dpkg-query -W -f '${db:Status-Status}' python3-venv 2>/dev/null | grep -q '^installed'; then
    apt-get update >/dev/null
    apt-get install -y --no-install-recommends ca-certificates python3 python3-venv >/dev/null
fi
for tool in cc gcc g++ clang make; do
    ! command -v $tool || {
        echo "bare: this root has $tool" >&2
        exit 3
    }
done

rm -rf "$environment"
started=$(date +%s%N)
python3 -m venv "$environment"
"$environment/bin/pip" install --disable-pip-version-check --no-index --quiet "$wheel"
{
    echo 'import homefree'
    echo 'homefree.install()'
    cat "$here/five.py"
} >"$environment/five.py"
"$environment/bin/python" "$environment/five.py"
taken=$((($(date +%s%N) - started) / 1000000))

"$environment/bin/pip" install --disable-pip-version-check --only-binary=:all: --quiet numpy duckdb
"$environment/bin/python" "$here/test_bare.py" "$wheel" >&2
echo "five lines after $((taken / 1000)).$((taken % 1000 / 100)) s"
