# SPDX-License-Identifier: BSD-2-Clause
"""`python -m homefree.harness`: what `homefree test` becomes."""

import sys

from ._main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
