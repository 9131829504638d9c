from typing import Any

def torch_extension_args(
    *, load: bool = False, name: str | None = None, **own: Any
) -> dict[str, Any]: ...
