# SPDX-License-Identifier: BSD-2-Clause
"""The objects that `homefree inspect` was given: finds them, and has them inspected.

The command inspects them in a process of its own (loader/command/inspect/inspected.h), which reads
a list and answers with a line for each object. A process that dies costs the object that it died
of; the rest of the list is given to another one.

Everything that is read is hostile: links that lead in circles, FIFOs, damaged archives and names
with any byte give an error for what they are, and the rest is inspected.

State: what was found, and the file in memory with the contents of one archive. One thread.
"""

import os
import re
import stat

from . import asked
from .start import READ_ONLY, Failure, complain
from .terminal import Progress

_WHO = "homefree inspect"
_ELF = b"\x7fELF"
_ZIP = b"PK\3\4", b"PK\5\6"
_OTHERS = b"\xca\xfe", b"\xce\xfa", b"\xcf\xfa", b"\xfe\xed", b"MZ"  # Mach-O or PE, perhaps
_ZIPS = ".whl", ".zip"
_TARS = ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz"
_NAMED_OBJECT = re.compile(r"\.so(\.[0-9.]*)?\Z")  # libx.so, libx.so.1.2; not libx.so.debug
_PYTHON = re.compile(r"python|pypy|graalpy", re.IGNORECASE)
_SOURCES = ".py", ".pyc", ".pyi", ".h", ".hpp"  # of most files of an environment
_ASKED = "adoption", "environment", "require-homefree"
_BATCH = 500  # files that one process inspects
_ROOT = "//"  # HF_INSPECTION_ROOT


class Group:
    """The objects of a directory, an archive or a distribution, or of the files that were given."""

    def __init__(self, kind, name):
        self.kind = kind
        self.name = name
        self.directory = name.rstrip("/")  # in which its files are
        self.installed = False  # a Python imports from it
        self.files = []
        self.left_out = 0  # other ELF files
        self.objects = 0
        self.found = 0  # objects that matter; known at the end
        self.failed = 0  # what could not be inspected


class Inspected:
    """files: the document's, in the order in which they were found."""

    def __init__(self, options):
        self.options = options
        self.given = len(options.get("file", [])) + len(options.get("package", []))
        self.environment = "environment" in options
        self.static_tls = tuple(map(int, options.get("static_tls", ["0 0"])[0].split()))
        self.files = []
        self.loose = Group("files", "files")
        self.containers = []
        self._fails = {rule: rank for rank, rule in enumerate(options.get("fails", ()))}
        self._command = options["self"][0]
        self._memory = int(options["memory"][0])
        self._python = options["python"][0]
        self.outdated = 0  # known findings that are not there any more
        self._baseline = "baseline" in options or "write-baseline" in options
        self._known = None  # all, which are about to be written
        if "baseline" in options:
            from . import inspect_baseline

            known = inspect_baseline.read(options["baseline"][0])
            self._known = None if "write-baseline" in options else known
        self._asked = [f"--{name}" for name in _ASKED if name in options]
        self._cache = None
        if self.environment and self._command and "root" not in options:
            from .inspect_cache import Cache

            self._cache = Cache(self._command, self._asked)
        self._pending = []
        self._progress = Progress(_WHO)
        self._reader = None
        self._kernels = set()
        self._met = set()
        self.root = None  # whose files these are, if not this system's
        self._rules = None

    def groups(self):
        return [self.loose, *self.containers] if self.loose.files else self.containers

    def fails(self, file):
        """Whether one of the object's findings makes the command fail."""
        return any(self.rank(finding) is not None for finding in file.get("findings", ()))

    def rank(self, finding):
        """The place of a rule among those that make the command fail; None: it is not there, or
        the finding is known."""
        return None if finding.get("known") else self._fails.get(finding["rule"])

    @staticmethod
    def matters(file):
        """Whether one of the object's findings is no note, and not known."""
        return any(
            finding["severity"] != "note" and not finding.get("known")
            for finding in file.get("findings", ())
        )

    def rules(self):
        """The table of rules, as the command prints it."""
        if self._rules is None:
            self._rules = asked.rules("inspect")
        return self._rules

    # ---- another file system -----------------------------------------------------------------

    def enter(self, path):
        """Takes a file system that is not this one for all that is given from now on."""
        from .inspect_root import Root

        self.root = Root(path)
        if self.root.image:
            for why in self.root.unpack(self._archives(), lambda: self._reading(path)):
                self._fail(self._contain("image", path), path, why)
        self._asked += ["--root", self.root.directory or "/"]

    def real(self, path):
        """The path of what a link leads to."""
        return path if self.root is None else self.root.resolve(self.root.inside(path))

    def _show(self):
        """Gives files the names that they have in the other file system."""
        for file in self.files:
            file["path"] = self.root.shown(file["path"])
            file["container"] = file["container"] and self.root.shown(file["container"])
        for group in self.containers:
            group.name, group.directory = map(self.root.shown, (group.name, group.directory))

    # ---- what was given ----------------------------------------------------------------------

    def take(self, path):
        """A shared object, the shared objects in a directory, or those in an archive."""
        if self.root is not None:
            path = f"{self.root.directory}/{path}"
        try:
            path = self.real(path)
            status = os.stat(path)
        except OSError as error:
            self._flush()
            self._fail(self.loose, path, error.strerror)
            return
        start = _magic(path)
        if self.environment and self.root is None and self._is_python(path, status, start):
            self.take_python(path)
        elif stat.S_ISDIR(status.st_mode):
            self._take_directory(path)
        elif stat.S_ISREG(status.st_mode) and start != _ELF and _is_archive(path, start):
            self._take_archive(path)
        elif start[:2] in _OTHERS:
            self._take_other(self.loose, path)
        elif start == _ELF or self._command:
            self._add(self.loose, path)
        else:
            self._fail(self.loose, path, "it is no shared object")

    def _is_python(self, path, status, start):
        """Whether it is a Python of this system, or a script that starts one, by its name: it is
        run, and a program that is not meant must not be."""
        natives = (_ELF[:2],) if self._command else _OTHERS
        runs = stat.S_ISREG(status.st_mode) and os.access(path, os.X_OK)
        named = _PYTHON.search(os.path.basename(path)) and not _NAMED_OBJECT.search(path)
        return runs and named and start.startswith((b"#!", *natives))

    def take_package(self, name):
        """The shared objects of an installed distribution."""
        from . import inspect_package

        group = self._contain("package", name)
        self._progress.show(f"looking for {name}")
        try:
            group.directory, paths = inspect_package.files(self._python, name, _is_object)
            for path in paths:
                if _NAMED_OBJECT.search(path) and not os.path.exists(path):
                    self._fail(group, path, os.strerror(2))
                else:
                    self._take_contained(group, path)
        except Failure as error:
            self._fail(group, name, str(error))

    def take_environment(self):
        """What is meant if nothing is given."""
        if self.root is None:
            self.take_python(self._python)
        else:
            for directory in self.root.environments():
                self._met.clear()  # uv's environments are links to the same files
                self._take_directory(directory, installed=True)

    def take_python(self, python):
        """The shared objects of a Python's packages and of its own modules."""
        from . import inspect_package

        try:
            for directory in inspect_package.directories(python):
                self._take_directory(directory, installed=True)
        except Failure as error:
            self._fail(self._contain("package", python), python, str(error))

    def end(self):
        self._flush()
        self._progress.end()
        if self._cache is not None:
            self._cache.end()
        if self.environment:
            from . import inspect_environment

            inspect_environment.judge(self)
        if self.root is not None:
            self._show()
        if self._baseline:
            from . import inspect_baseline

            self.outdated = inspect_baseline.mark(self.files, self.directories(), self._known)
        for group in self.groups():
            group.found = sum(map(self.matters, group.files))

    def close(self):
        """Required, whatever has happened."""
        if self._reader is not None:
            self._reader.end()
        if self.root is not None:
            self.root.end()

    def directories(self):
        """Of each container's name, where its files are."""
        return {group.name: group.directory for group in self.containers}

    # ---- directories -----------------------------------------------------------------------------

    def _take_directory(self, top, installed=False):
        """Links are not followed, so that none leads in a circle or out of the directory. But those
        of an environment are, once each and last: uv's and Nix's consist of them."""
        group = self._contain("directory", top)
        group.installed = installed
        self._kernels = _kernels() - {os.stat(top).st_dev}
        links = []
        self._walk(group, top, links)
        while self.environment and links:
            path = links.pop()
            try:
                path = self.real(path)
                status = os.stat(path)
                if stat.S_ISREG(status.st_mode):
                    self._take_contained(group, path)
                elif stat.S_ISDIR(status.st_mode) and self._leads_on(path, top, status):
                    self._walk(group, path, links)
            except OSError:  # it leads nowhere
                continue

    def _walk(self, group, top, links):
        stack = [iter([(top, None)])]
        while stack:
            for path, entry in stack[-1]:
                try:
                    if entry is None or self._is_directory(entry):
                        entries = _sorted(path)
                        if group.installed:
                            entries = _imported(entries, path == group.directory)
                        stack.append(iter(_newest(entries) if self.environment else entries))
                        break
                    if entry.is_symlink():
                        links.append(path)
                    elif entry.is_file(follow_symlinks=False):
                        self._take_contained(group, path)
                except OSError as error:
                    self._fail(group, path, error.strerror)
            else:
                stack.pop()

    def _is_directory(self, entry):
        """Where the kernel shows its own state as files is no module, and reading some has effects
        or does not end."""
        return (
            entry.is_dir(follow_symlinks=False)
            and entry.stat(follow_symlinks=False).st_dev not in self._kernels
        )

    def _leads_on(self, path, top, status):
        """Whether a link leads to a directory that is none of those above."""
        real = os.path.realpath(path).rstrip("/") + "/"
        above = f"{os.path.realpath(top)}/".startswith(real)
        return not above and status.st_dev not in self._kernels and self._is_first(status)

    def _is_first(self, status):
        """Whether the file has not been met under another name. The dynamic linker goes by the same
        numbers: it loads each file once."""
        known = len(self._met)
        self._met.add((status.st_dev, status.st_ino))
        return len(self._met) > known

    def _take_contained(self, group, path):
        if self.environment and path.endswith(_SOURCES):
            return
        start = _magic(path)
        if not start and _NAMED_OBJECT.search(path) and os.stat(path).st_size > 0:
            self._add(group, path)  # which says why it cannot be read
        elif start == _ELF:
            if not self.environment or self._is_first(os.stat(path)):
                self._add(group, path)
        elif start in _ZIP and path.lower().endswith(".whl"):
            if not group.installed:
                self._take_archive(path)
        elif start[:2] in _OTHERS and not (group.installed and self._command):
            from .inspect_platforms import is_object

            if is_object(start, path):
                self._take_other(group, path)

    # ---- objects for macOS and Windows -----------------------------------------------------------

    def _take_other(self, group, path):
        from . import inspect_platforms

        self._flush()
        try:
            self._keep_other(group, path, inspect_platforms.file(path), None)
        except inspect_platforms.NoObject as why:
            if group is self.loose:
                self._fail(group, path, str(why))
            else:
                group.left_out += 1
        except inspect_platforms.Damaged as why:
            self._fail(group, path, f"it is damaged: {why}")
        except OSError as error:
            self._fail(group, path, error.strerror)
        self._progress.show(f"{len(self.files)} objects, {path}")

    def _keep_other(self, group, path, found, member):
        """found: as inspect_platforms.py has it."""
        from .inspect_platforms import REMEDIES

        rules = {rule["rule"]: rule for rule in self.rules()}
        for finding in found["findings"]:
            rule = rules[finding["rule"]]
            remedy = REMEDIES.get(rule["rule"], rule["remedy"])
            finding.update(severity=rule["severity"], remedy=remedy, help=rule["help"])
        container = None if group is self.loose else group.name
        place = {"path": path, "container": container, "member": member, "error": None}
        self._keep(group, {**place, **found})

    # ---- archives ----------------------------------------------------------------------------

    def _take_archive(self, path):
        self._flush()
        group = self._contain("archive", path)
        is_tar = path.lower().endswith(_TARS)
        members, others, problems = self._archives().read(path, is_tar, lambda: self._reading(path))
        for name, why in problems:
            self._fail(group, f"{path}!/{name}" if name else path, why, name or None)
        for name, found in others:
            if found is None:
                group.left_out += 1
            else:
                self._keep_other(group, f"{path}!/{name}", found, name)
        members.sort(key=lambda member: _encoded(member[1]))
        self._inspect(
            group,
            [f"{path}!/{name}" for name, _, _, _ in members],
            [(_encoded(_ROOT + place), b"%d" % at, b"%d" % size) for _, place, at, size in members],
            [name for name, _, _, _ in members],
        )

    def _archives(self):
        if self._reader is None:
            from .inspect_reader import Here, Reader

            reader = Reader if self._command else Here
            self._reader = reader(self._memory)
        return self._reader

    def _reading(self, path):
        self._progress.show(f"{len(self.files)} objects, reading {path}")

    # ---- inspecting --------------------------------------------------------------------------

    def _contain(self, kind, name):
        group = Group(kind, name)
        self.containers.append(group)
        return group

    def _add(self, group, path):
        if self._pending and self._pending[0][0] is not group or len(self._pending) >= _BATCH:
            self._flush()
        self._pending.append((group, path))

    def _flush(self):
        if self._pending:
            group = self._pending[0][0]
            paths = [path for _, path in self._pending]
            self._pending = []
            inside = paths if self.root is None else map(self.root.inside, paths)
            self._inspect(group, paths, [(os.fsencode(path), b"", b"") for path in inside])

    def _inspect(self, group, paths, objects, names=None):
        """objects: what the command lists; names: of an archive's members."""
        if group is not self.loose and not self._command and paths:
            group.left_out += len(paths)
            self._progress.end()
            complain(_WHO, f"{len(paths)} objects in '{group.name}' are left out: {asked.NO_ELF}")
            return
        cache = None if names else self._cache
        known = [cache and cache.find(path) for path in paths]
        options = [*self._asked, "--listed", str(self._memory)]
        unknown = [each for each, file in zip(objects, known) if file is None]
        answers = asked.inspect(self._command, options, unknown)
        for path, name, file in zip(paths, names or [None] * len(paths), known):
            if file is None:
                file, signal = next(answers)
                if file is not None:
                    read, missed = file.pop("read"), file.pop("missed", ())
                    if cache is not None:
                        cache.keep(path, file, read, missed)
            if file is not None:
                self._take(group, path, file, name)
            else:
                how = f"by signal {signal}" if signal else "too early"
                self._fail(group, path, f"the process that inspected it ended {how}", name)
            self._progress.show(f"{len(self.files)} objects, {path}")

    def _take(self, group, path, file, member):
        """What was found in an object. What nobody loads is left out of a container: programs,
        object files, and files for other machines (a GPU's) or damaged ones (a test's data) that
        are not even named like shared objects."""
        error = file["error"]
        if group is not self.loose:
            readable = error is None and file["machine"] != "unknown"
            loadable = error is None and file["kind"] == "shared object"
            if not loadable and (readable or not _NAMED_OBJECT.search(path)):
                group.left_out += 1
                return
        if error is not None:
            self._fail(group, path, error, member)
            return
        file["path"] = path
        if group is not self.loose:
            file["container"] = group.name
        file["member"] = member
        if member is not None:
            for library in file["libraries"]:
                found = library["path"]
                if found is not None and found.startswith(_ROOT):
                    library["path"] = f"{group.name}!/{found[len(_ROOT) :]}"
        self._keep(group, file)

    def _fail(self, group, path, why, member=None):
        self._progress.end()
        shown = path if self.root is None else self.root.shown(path)
        complain(_WHO, f"cannot inspect '{shown}': {why}")
        container = group.name if group is not self.loose else None
        self._keep(group, {"path": path, "container": container, "member": member, "error": why})

    def _keep(self, group, file):
        group.files.append(file)
        self.files.append(file)
        if file["error"] is not None:
            group.failed += 1
            return
        group.objects += 1


def _encoded(name):
    return name.replace("\0", "?").encode("utf-8", "surrogateescape")


def _magic(path):
    """The first bytes of a regular file; of anything else none."""
    try:
        file = os.open(path, READ_ONLY)
    except (OSError, ValueError):
        return b""
    try:
        return os.read(file, len(_ELF)) if stat.S_ISREG(os.fstat(file).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(file)


def _is_object(path):
    return bool(_NAMED_OBJECT.search(path)) or _magic(path) == _ELF


def _is_archive(path, start):
    return start in _ZIP or path.lower().endswith(_ZIPS + _TARS)


def _sorted(directory):
    with os.scandir(directory) as entries:
        found = sorted(entries, key=lambda entry: os.fsencode(entry.name))
    return [(entry.path, entry) for entry in found]


def _imported(entries, is_top):
    """Of what is in a directory from which a Python imports. A project that is installed as it lies
    has environments of others in it: those of tox, say, and perhaps the Python's own, which has a
    place of its own (inspect_installed.py)."""
    if is_top:
        return [(path, entry) for path, entry in entries if not entry.name.startswith(".")]
    return [] if any(entry.name == "pyvenv.cfg" for _, entry in entries) else entries


def _newest(entries):
    """Without wheels that are not installed together with another one that is there: of the same
    distribution for the same platform, those of older versions and for older Pythons."""
    newest = {}
    for path, entry in entries:
        parts = entry.name.split("-")
        if entry.name.endswith(".whl") and len(parts) > 4:
            of = parts[0].lower(), parts[-1]
            newest[of] = max(newest.get(of, path), path, key=_in_order)
    wheels = set(newest.values())
    return [
        (path, entry)
        for path, entry in entries
        if path in wheels or not entry.name.endswith(".whl") or entry.name.count("-") < 4
    ]


def _in_order(name):
    """A key by which version 10 comes behind version 9."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


def _kernels():
    """The devices of what is mounted as proc or sysfs."""
    devices = set()
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            for line in file:
                fields, _, kind = line.partition(b" - ")
                if kind.split()[0] in (b"proc", b"sysfs"):
                    major, minor = fields.split()[2].split(b":")
                    devices.add(os.makedev(int(major), int(minor)))
    except (OSError, ValueError, IndexError):
        pass
    return devices
