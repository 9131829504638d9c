# SPDX-License-Identifier: BSD-2-Clause
"""Reads and writes a wheel as its members; RECORD is made anew. For the build backend, and for
loader/wheels/free_threaded.py.

State: none.
"""

import base64
import hashlib
import re
import zipfile


def read(path):
    """Result: {name: (zipfile.ZipInfo, bytes)}, in the file's order, without RECORD."""
    with zipfile.ZipFile(path) as archive:
        members = {one.filename: (one, archive.read(one)) for one in archive.infolist()}
    del members[f"{information(members)}/RECORD"]
    return members


def information(members):
    """The name of the directory *.dist-info."""
    (name,) = (name for name in members if name.endswith(".dist-info/WHEEL"))
    return name.rpartition("/")[0]


def member(name, like):
    """A member for `name` with the date and the mode of another."""
    info = zipfile.ZipInfo(name, like.date_time)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = like.external_attr
    return info


def tag(path, members, old, new):
    """Puts a tag, as "cp39-abi3", in place of another, a pattern. Result: the wheel's new path."""
    name = f"{information(members)}/WHEEL"
    info, text = members[name]
    text, count = re.subn(rf"(?m)^Tag: {old}-".encode(), f"Tag: {new}-".encode(), text)
    assert count, text
    members[name] = info, text
    return path.with_name(re.sub(rf"-{old}-(?=[^-]+$)", f"-{new}-", path.name))


def write(path, members):
    """Writes what read() returns, and RECORD behind it. Everybody may read what is installed: the
    permissions of a source's files may be those of the user who unpacked it.
    """
    directory = information(members)
    lines = [f"{name},sha256={_digest(data)},{len(data)}\n" for name, (_, data) in members.items()]
    name = f"{directory}/RECORD"
    info = member(name, members[f"{directory}/WHEEL"][0])
    record = info, "".join([*lines, f"{name},,\n"]).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, data in [*members.values(), record]:
            runs = info.external_attr >> 16 & 0o100
            info.external_attr = (0o100755 if runs else 0o100644) << 16
            archive.writestr(info, data)


def _digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
