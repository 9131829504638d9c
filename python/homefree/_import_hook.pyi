from collections.abc import Iterable

from ._load import ImportHook

def import_hook(
    names: Iterable[str] | None = None,
    *,
    private: bool | str = False,
    adopt: bool | str = False,
    refuse: bool = True,
) -> ImportHook: ...
