# SPDX-License-Identifier: BSD-2-Clause
"""homefree.import_hook(): extension modules that import loads as load() does.

State: that of _load. Threads: any. Fork: the child keeps the hooks.
"""

from __future__ import annotations

from . import _hook_names, _interpreter_modules, _load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["import_hook"]


def import_hook(
    names: Iterable[str] | None = None,
    *,
    private: bool | str = False,
    adopt: bool | str = False,
    refuse: bool = True,
) -> _load.ImportHook:
    """Load every extension module that this interpreter imports from now on as load() does.

    It applies to all finders. Other modules are imported as before, at no extra cost.

    names: an iterable of modules, packages (with their modules) and distributions (with their
    extension modules, also those of the distributions called after them that they need), to which
    the hook is limited; None applies it to all.
    adopt: as in load(). Without names, a module that cannot be adopted is loaded as without adopt,
    with a RuntimeWarning that says why, once for each package; with names, or with adopt="strict",
    it is an ImportError.
    private: as in load(). A private module is entered in sys.modules, as import does, and
    shared within this interpreter. private="interpreter" is for interpreters with a GIL of their
    own: modules that declare support for these are loaded by Python, all others as private copies,
    and so are the libraries with which they share Python objects; nothing is checked before, and
    the copies' files are removed at once. In the main interpreter, which is the only one that
    homefree uses of a free-threaded CPython, it loads every module as Python does.
    refuse: if false, the checks of load() are skipped, and a module that cannot be adopted or
    copied is loaded by Python as usual, with a RuntimeWarning.

    Returns an ImportHook. If several hooks apply to a module, the latest loads it. Raises TypeError
    if names is a str, and ModuleNotFoundError for a name that nothing has. A with statement raises
    ImportError at its end if no extension module of a name was imported in it (or a module of that
    name before).
    Threads: any. Fork: the child keeps the hook. Since 1.0.
    """
    if names is not None:
        if isinstance(names, str):
            raise TypeError(f"names must be an iterable of names, not one str; write [{names!r}]")
        names = list(names)
        for name in names:
            if not isinstance(name, str):
                raise TypeError(f"names must be str, and {name!r} is not")
        names = _hook_names.meaning(names)
    if isinstance(adopt, str) and adopt != "strict":
        raise ValueError(f'adopt must be True, False or "strict", not {adopt!r}')
    if adopt == "strict" and not refuse:
        raise ValueError('adopt="strict" and refuse=False exclude each other')
    if private == "interpreter":
        if adopt:
            raise ValueError('adopt=True and private="interpreter" exclude each other')
        hook = _interpreter_modules.Hook(names)
    elif isinstance(private, str):
        raise ValueError(f'private must be True, False or "interpreter", not {private!r}')
    else:
        hook = _load.ImportHook(names, bool(private), adopt, bool(refuse))
    _load.add_hook(hook)
    return hook
