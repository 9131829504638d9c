# SPDX-License-Identifier: BSD-2-Clause
"""`homefree inspect --baseline`: the findings that are known, in a file that is kept with the
project. It has a line for each, sorted, so that a change of it can be reviewed.

A finding is known by its rule, its file as its directory, archive or distribution has it, and what
it says. Numbers in it may differ, and so may the hash that a wheel's repair puts into a name: else
each upgrade of a package would change the file.

State: none.
"""

import json
import os
import re
import stat

from .inspect_text import below, relative
from .start import READ_ONLY, Failure
from .terminal import clean

_MOST = 64 << 20
_FIELDS = "rule", "file", "says"
# auditwheel and others put a hash into the names of what they copy into wheels.
_HASH = re.compile(r"-[0-9a-f]{8,}(?=[-.])")
_NUMBER = re.compile(r"\d+")


def plain_name(name):
    """A file's name without a wheel's hash."""
    return _HASH.sub("", name)


def read(path):
    """The keys of the findings that a file names."""
    try:
        document = json.loads(_content(path))
        if document["homefree_inspect_baseline"] != 1:
            raise Failure(f"'{path}' is a baseline of another version of homefree")
        return {_key(*(entry[field] for field in _FIELDS)) for entry in document["known"]}
    except OSError as error:
        raise Failure(f"cannot read '{path}': {error.strerror}") from None
    except (ValueError, TypeError, LookupError, RecursionError):
        raise Failure(
            f"'{path}' is no baseline: write one with 'homefree inspect --write-baseline'"
        ) from None


def _content(path):
    with open(os.open(path, READ_ONLY), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError
        content = file.read(_MOST + 1)
    if len(content) > _MOST:
        raise ValueError
    return content


def mark(files, directories, known):
    """Marks the findings that are known; known: None for all. directories: of each container's
    name, where its files are. Result: how many of the known were not found."""
    found = set()
    for entry, finding in _entries(files, directories):
        key = _key(*entry)
        finding["known"] = known is None or key in known
        found.add(key)
    return len(known - found) if known is not None else 0


def compose(inspected):
    """A baseline of all findings, as bytes."""
    if all(file["error"] is not None for file in inspected.files):
        raise Failure("no baseline is written: nothing was inspected")
    entries = _entries(inspected.files, inspected.directories())
    lines = {_key(*entry): entry for entry, _ in entries}
    known = (dict(zip(_FIELDS, lines[key])) for key in sorted(lines))
    rows = ",".join(f"\n    {json.dumps(one, ensure_ascii=False)}" for one in known)
    return f'{{\n  "homefree_inspect_baseline": 1,\n  "known": [{rows}\n  ]\n}}\n'.encode()


def _entries(files, directories):
    """Of each finding (rule, file, what it says), and itself."""
    for file in files:
        name = file["path"] if file["member"] is None else file["member"]
        directory = directories.get(file["container"])
        name = relative(name) if directory is None else below(name, directory)
        name = plain_name(clean(name))
        for finding in file.get("findings", ()):
            yield (finding["rule"], name, clean(finding["message"])), finding


def _key(rule, name, says):
    return rule, name, _NUMBER.sub("0", says)
