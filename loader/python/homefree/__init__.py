"""homefree: allocate anywhere, free anywhere."""

from . import _homefree

__version__ = _homefree.version()
