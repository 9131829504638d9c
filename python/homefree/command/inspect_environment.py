# SPDX-License-Identifier: BSD-2-Clause
"""`homefree inspect --environment`: what the objects of an environment would do to each other in
one process. A warning is true of the files, whatever is imported in which order; what only may
happen is a note.

The rules are those at the end of loader/inspect/rules.def.

State: none.
"""

import collections
import csv
import hashlib
import os
import re
import stat

from .inspect_baseline import plain_name
from .start import READ_ONLY

_RUNTIMES = {
    "OpenMP": re.compile(r"lib(gomp|omp|omp5|iomp5)\.so"),
    "the C++ runtime": re.compile(r"lib(stdc\+\+|c\+\+)\.so"),
    "OpenBLAS": re.compile(r"lib(scipy_)?openblas\w*\.so"),
    "MKL": re.compile(r"libmkl_(rt|core)\.so"),
    "OpenSSL": re.compile(r"libcrypto\.so"),
    "protobuf": re.compile(r"libprotobuf(-lite)?\.so"),
    "the CUDA runtime": re.compile(r"libcudart\.so"),
    "oneTBB": re.compile(r"libtbb\.so"),
}
_RECORD_MOST = 64 << 20
_STACKS_REFUSED = 2, 41  # by this glibc and later ones
_OBJECT = re.compile(r"\.(so|dylib|dll|pyd)\b")
_LLVMS_OPENMP = re.compile(r"lib(omp|omp5|iomp5)\.so")
_REGISTERS_IN_MEMORY = b"__KMP_REGISTERED_LIB_%d_%d"


def judge(inspected):
    """Gives each object of an Inspected what is found of it and others, in place of what may be
    true of it alone: of that, errors stay."""
    files = [file for file in inspected.files if file["error"] is None]
    others = [file for file in files if "platform" in file]
    files = [file for file in files if "platform" not in file]
    rules = {rule["rule"]: rule for rule in inspected.rules()}

    def add(rule, file, message):
        told = {"message": message, "count": 0, "names": []}
        file["findings"].append({**_told(rules[rule]), **told})

    glibc = _own_glibc() if inspected.root is None else inspected.root.glibc()
    for file in files:
        file["findings"] = [*_alone(file["findings"], glibc, rules)]
        file["package"] = None
    # Those that were found in another file system are of Pythons of their own.
    apart = inspected.root is not None and not inspected.given
    for together in [group.files for group in inspected.containers] if apart else [files]:
        together = [one for one in together if one["error"] is None and "platform" not in one]
        _Together(together, add, inspected.static_tls, glibc).find(_Packages(inspected.real))
    if others:
        from . import inspect_together

        packages = _Packages(inspected.real)
        for file in others:
            file["package"] = packages.of(file)
        inspect_together.judge(others, add)


def _alone(findings, glibc, rules):
    """What is true of an object alone and hinders it here."""
    for finding in findings:
        if finding["severity"] == "error":
            yield finding
        elif finding["rule"] == "executable-stack":
            refused = glibc is not None and _version(glibc) >= _STACKS_REFUSED
            yield finding if refused else {**finding, **_told(rules["executable-stacks"])}


def _told(rule):
    return {key: rule[key] for key in ("rule", "severity", "remedy", "help")}


class _Together:
    def __init__(self, files, add, static_tls, glibc):
        self._files, self._add, self._own_glibc = files, add, glibc
        # The static TLS that glibc has for what is loaded late; libraries that could do without may
        # take some of it (inspection.h).
        self._tls, self._tls_optional = static_tls

    def find(self, packages):
        for file in self._files:
            file["package"] = packages.of(file)
        self._glibc()
        self._openmp()
        self._static_tls()
        self._allocators()
        self._copies()
        self._sonames()

    # ---- rules -----------------------------------------------------------------------------------

    def _glibc(self):
        here = self._own_glibc
        for file in self._files if here is not None else ():
            needed = file["glibc_needed"]
            if needed is not None and _version(needed) > _version(here):
                self._add("newer-glibc", file, f"it needs glibc {needed}; here is {here}")

    def _openmp(self):
        # Those with one soname are one, unless they are loaded by their paths. Older ones register
        # in the environment, newer ones in shared memory, and neither look where the others do.
        found = {}
        for file in self._distinct(lambda file: _LLVMS_OPENMP.match(_plain_name(file))):
            same = found.setdefault(_holds(file, _REGISTERS_IN_MEMORY), {})
            same[file["soname"] or file["path"]] = file
        for files in (same.values() for same in found.values() if len(same) > 1):
            for file in files:
                message = f"one of {len(files)} runtimes of LLVM's or Intel's OpenMP"
                self._add("several-openmps", file, message)

    def _static_tls(self):
        found = [file for file in self._files if file["tls"]["static"] and file["tls"]["bytes"]]
        each = {}  # those with one soname are one, unless they are loaded by their paths
        for file in found:
            name = file["soname"] or file["path"]
            each[name] = max(each.get(name, 0), file["tls"]["bytes"])
        total = sum(each.values())
        if total <= self._tls - self._tls_optional:
            return
        rule = "static-tls-together" if total > self._tls else "static-tls-order"
        for file in found:
            own = file["tls"]["bytes"]
            message = f"it needs {own} bytes of static TLS, of {total} that all need; glibc has "
            self._add(rule, file, message + str(self._tls))

    def _allocators(self):
        # A member of the registry says itself which blocks are its own.
        found = [
            (file, one)
            for file in self._files
            for one in file["allocators"]
            if not (one["published"] or file["homefree"]["itself"] or file["module"] == "_homefree")
        ]
        for file, one in found if len(found) > 1 else ():
            exported = ", which others can call by name" if one["exported"] else ""
            self._add("several-allocators", file, f"it contains {one['name']}{exported}")

    def _copies(self):
        for what, form in _RUNTIMES.items():
            found = self._distinct(lambda file, form=form: form.match(_plain_name(file)))
            for file in found if len(found) > 1 else ():
                self._add("several-copies", file, f"one of {len(found)} copies of {what}")

    def _sonames(self):
        needed = {library["name"] for file in self._files for library in file["libraries"]}
        names = collections.Counter(file["soname"] for file in self._files)
        for name in sorted(needed.intersection(names)):
            found = self._distinct(lambda file, name=name: file["soname"] == name)
            for file in found if len(found) > 1 else ():
                self._add("same-soname", file, f"one of {len(found)} files with the soname {name}")

    def _distinct(self, wanted):
        """Of the files that are wanted, one of those that have the same contents."""
        files = [file for file in self._files if wanted(file)]
        sizes = collections.Counter(map(_size, files))
        return list({_contents(file, sizes): file for file in files}.values())


# ---- files ---------------------------------------------------------------------------------------


def _plain_name(file):
    """The name by which others need it, without a wheel's hash."""
    return plain_name(file["soname"] or os.path.basename(file["path"]))


def _size(file):
    """None: a member of an archive, which is like no other, or it is not there any more."""
    try:
        return os.stat(file["path"]).st_size if file["member"] is None else None
    except OSError:
        return None


def _contents(file, sizes):
    """What tells the contents of files apart. sizes: how many have each."""
    size = _size(file)
    if size is None or sizes[size] == 1:
        return file["path"]
    digest = hashlib.sha256()
    try:
        for piece in _pieces(file):
            digest.update(piece)
    except OSError:
        return file["path"]
    return digest.digest()


def _holds(file, text):
    """Whether a file contains a text; so does, perhaps, what cannot be read."""
    before = b""
    try:
        for piece in _pieces(file):
            if text in before + piece:
                return True
            before = piece[-len(text) :]
    except OSError:
        return True
    return False


def _pieces(file):
    with open(file["path"], "rb") as opened:
        while piece := opened.read(1 << 20):
            yield piece


def _version(text):
    return tuple(map(int, text.split(".")[:2]))


def _own_glibc():
    """The version of this system's, "2.36"; None: it has another libc."""
    try:
        name, version = os.confstr("CS_GNU_LIBC_VERSION").split()
    except (AttributeError, ValueError, OSError):
        return None
    return version if name == "glibc" else None


class _Packages:
    """Which distribution a file is of, by the RECORD that lists it."""

    def __init__(self, real):
        self._real = real
        self._known = {}  # by directory that has distributions: {path: name}; {} for others

    def of(self, file):
        if file["member"] is not None:
            return os.path.basename(file["container"]).partition("-")[0]
        path = directory = os.path.abspath(file["path"])
        while directory != (directory := os.path.dirname(directory)):
            listed = self._known.get(directory)
            if listed is None:
                listed = self._known[directory] = self._listed(directory)
            if path in listed:
                return listed[path]
        return None

    def _listed(self, directory):
        listed = {}
        try:
            names = [name for name in os.listdir(directory) if name.endswith(".dist-info")]
        except OSError:
            return listed
        for name in names:
            try:
                lines = _record(self._real(os.path.join(directory, name, "RECORD")))
                for row in csv.reader(line for line in lines if _OBJECT.search(line)):
                    if row:
                        path = os.path.normpath(os.path.join(directory, row[0]))
                        listed[path] = name.partition("-")[0]
            except (OSError, ValueError, csv.Error):
                continue
        return listed


def _record(path):
    """The lines of a RECORD; none of a pipe, a device, or what is too large to be one."""
    with open(os.open(path, READ_ONLY), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > _RECORD_MOST:
            return []
        return file.read(_RECORD_MOST).decode("utf-8").splitlines()
