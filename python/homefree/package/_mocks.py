"""Modules that stand for modules which a package does without: they can be imported, and what is
taken from them raises MockUsed when it is used. Nothing here keeps state."""

from ._package_errors import MockUsed, error


def _is_special(name):
    return name.startswith("__") and name.endswith("__")


class Mock:
    """What a mocked module has under any name."""

    def __init__(self, name):
        self.__dict__["_mocked"] = name

    def __getattr__(self, name):
        if _is_special(name):
            raise AttributeError(name)
        return Mock(f"{self._mocked}.{name}")

    def _use(self, *_, **__):
        raise error(
            MockUsed,
            f"{self._mocked} is used, and its module was mocked when the package was written",
            "write the package with intern() or extern() for it",
        )

    __call__ = __getitem__ = __iter__ = __enter__ = __mro_entries__ = _use

    def __repr__(self):
        return f"<mock of {self._mocked}>"


class MockLoader:
    def __init__(self, name):
        self._name = name

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        name = self._name

        def get(attribute):
            if _is_special(attribute):
                raise AttributeError(f"the mocked module {name!r} has no {attribute!r}")
            return Mock(f"{name}.{attribute}")

        module.__getattr__ = get
