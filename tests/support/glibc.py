"""Which glibc the tests run with."""

import os
import sys

VERSION = tuple(int(part) for part in os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")[:2])
NAMES_MODULES = VERSION >= (2, 35)  # docs/limits.md


def needs_names_of_modules():
    """Ends a test as skipped where diagnostics mode cannot tell who allocates and frees."""
    if not NAMES_MODULES:
        print("skipped: before glibc 2.35, diagnostics mode does not name modules")
        sys.exit(77)
