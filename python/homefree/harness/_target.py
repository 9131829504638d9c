# SPDX-License-Identifier: BSD-2-Clause
"""The module that is tested: found by name or by path, before anything of it runs."""

import os
import re
import sys

from .. import _importing


class Refused(Exception):
    """The module cannot be tested; the message says why."""


class Target:
    """`module`: its name. `path`: its file, if it was given as one. The rest is for hosts."""

    def __init__(self, text, directory, import_timeout):
        self.text = text
        self.directory = directory
        self.start_directory = os.getcwd()
        self.import_timeout = import_timeout
        self.sys_path = _clean_path()
        if _is_path(text):
            self.path = os.path.abspath(text)
            self.module = os.path.basename(self.path).split(".")[0]
            self.sys_path.insert(0, os.path.dirname(self.path))
            _check_file(self.path)
            _check_tag(os.path.basename(self.path))
            if not self.module.isidentifier():
                raise Refused(f"'{text}' is not named as a module is: NAME.so or NAME.TAG.so")
        else:
            self.path = None
            self.module = text
            if not all(part.isidentifier() for part in text.split(".")):
                raise Refused(f"'{text}' is neither a module's name nor a path")

    def why_missing(self):
        """What may be the reason that the module is not found, or None."""
        last = self.module.rpartition(".")[2]
        for directory in self.sys_path:
            try:
                files = os.listdir(directory)
            except OSError:
                continue
            for file in sorted(files):
                if file.startswith(last + ".") and file.endswith(".so"):
                    try:
                        _check_tag(file)
                    except Refused as error:
                        return str(error)
        return None


def _clean_path():
    """sys.path for hosts: absolute, since they change directories, and with the user's directory
    first."""
    wanted = [os.getcwd()] + [os.path.abspath(one) for one in sys.path if one]
    return list(dict.fromkeys(wanted))


def _is_path(text):
    return "/" in text or text.endswith((".so", ".py"))


def _check_file(path):
    try:
        with open(path, "rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise Refused(f"cannot open '{path}': {error.strerror}") from None
    if magic != b"\x7fELF":
        raise Refused(
            f"'{path}' is no extension module: it is not an ELF file; a module that is written in "
            "Python, or a package, is given by its name"
        )


def _check_tag(file):
    """Refuses a file name that says that the module is built for another Python."""
    stable = re.search(rf"\.({_importing.STABLE})\.so$", file)
    if stable is not None and stable[0] not in _importing.suffixes():
        raise Refused(
            f"'{file}' is built for the stable ABI of {_importing.stable_abi_needs(stable[1])}, "
            f"which {sys.executable} ({sys.version.split()[0]}) does not load"
        )
    if any(file.endswith(suffix) for suffix in _importing.suffixes()):
        tag = re.search(r"\.(cpython-(\d)(\d+)\w*)[-.]", file)
        ours = sys.implementation.cache_tag
        if tag is None or tag[1].startswith(ours):
            return
    tag = re.search(r"\.(cpython|pypy)-?(\d)(\d+)(\w*)[-.]", file)
    if tag is None:
        return
    python = f"python{tag[2]}.{tag[3]}{tag[4]}"
    raise Refused(
        f"'{file}' is built for another Python than {sys.executable} ({sys.version.split()[0]}); "
        f"try --python {python}"
    )
