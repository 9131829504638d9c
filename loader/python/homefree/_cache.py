"""The cache of homefree.extension: what has the same content, who builds, and what is kept.

A record says what a module was made of: lines of text, the last one `end`.

    homefree-record 1
    fast.cpython-311-x86_64-linux-gnu.so    the module, its identity(), and its SHA-256
    …
    …
    1                                       compilers that follow, four lines each:
    cc                                          the command, the file, its identity(), what it
    …                                           answers to --version (SHA-256)
    /home/…/fast.c                          then each file that was read, three lines each:
    …                                           path, identity(), SHA-256
    end

The index has a block for each request that was answered, the last one first:

    homefree-index 1

    <tab>('fast', ['/home/…/fast.c'], …     the request's text
    0123456789abcdef                        the entry that answered it
    fast.cpython-311-x86_64-linux-gnu.so    the module, and its identity()
    …
    3                                       lines of compilers that follow, three for each:
    cc                                          the program that is looked for, the file, its
    …                                           identity()
    /home/…/fast.c                          then what else is watched, two lines each: path,
    …                                           identity()
                                            and an empty line.

extension.find() has warm.c read the index, and believes identity() alone; here what that says to
have changed is read. Headers of packages (the system's, Python's, torch's) are many, and packages
put new files in their place rather than write into old ones: there the index watches the folders.

Everything that writes does so with the module's lock held, under another name first, and renames.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time

from . import _build, _folders, _paths, extension
from .extension import BuildError

RECORD = "homefree-record 1"
INDEX = "homefree-index 1\n\n"

# Entries that a module keeps; the ones that were made or found again last.
KEPT = 16
# How often a file may change while it is compiled.
ATTEMPTS = 5

_REMEDIES = {
    errno.ENOSPC: "free some space there, or set HOMEFREE_BUILD_DIR to a folder with more",
    errno.EDQUOT: "free some space there, or set HOMEFREE_BUILD_DIR to a folder with more",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f)",
    errno.ENOLCK: "set HOMEFREE_BUILD_DIR to a folder on a file system with locks",
    errno.EOPNOTSUPP: "set HOMEFREE_BUILD_DIR to a folder on a file system with locks",
}


# ---- errors of extension.py, which has no room for them ----


def unloadable(name, path, error):
    """What the dynamic linker or Python said of a module that was built, with what to do."""
    why = str(error)
    if error.path != path:
        return error  # of the module's own code
    if "does not define module export function" in why:
        last = name.rpartition(".")[2]
        why = f"its sources define no PyInit_{last}"
        remedy = "write PyMODINIT_FUNC HF_MODULE_INIT(void) with #include <homefree/python.h>"
    elif "undefined symbol" in why:
        remedy = "name what defines it in extra_ldflags or sources, or import that first"
    elif "cannot open shared object file" in why:
        remedy = "name its folder with -Wl,-rpath, in extra_ldflags, or set LD_LIBRARY_PATH"
    elif "failed to map segment" in why:
        remedy = "set HOMEFREE_BUILD_DIR to a folder that is not mounted with noexec"
    else:
        remedy = "run 'homefree inspect' on it"
    return ImportError(f"homefree cannot load {path}: {why}; {remedy}", name=name, path=path)


def occupied(name, path, module):
    """The module that is there if it is this file's; else ImportError."""
    loaded = getattr(module, "__file__", None)
    if path is not None and loaded is not None:
        with contextlib.suppress(OSError):
            if os.path.samefile(loaded, path):
                return module
    raise ImportError(
        f"homefree cannot load {name!r}: a module of that name is loaded already, from {loaded}, "
        "and was made of something else; start a new process, or give another name",
        name=name,
        path=loaded,
    )


@contextlib.contextmanager
def _explained(folder):
    """What goes wrong with the cache's own files, with what to do about it."""
    try:
        yield
    except ImportError:
        raise
    except OSError as error:
        if error.errno is None:  # of homefree's own: a part of the installation is missing
            raise BuildError(str(error)) from None
        remedy = _REMEDIES.get(
            error.errno, "set HOMEFREE_BUILD_DIR to a folder that can be written to"
        )
        raise BuildError(
            f"homefree cannot write to its cache folder {folder}: {error}; {remedy}"
        ) from None


def _trust(folder):
    """Raises BuildError where others can put files. FileNotFoundError where there is none."""
    status = os.stat(folder)
    if status.st_uid != os.geteuid():
        why = f"it belongs to another user (number {status.st_uid})"
    elif status.st_mode & 0o022:
        why = f"others may write to it (mode {status.st_mode & 0o7777:o})"
    else:
        return
    raise BuildError(
        f"homefree does not use the cache folder {folder}: {why}, so that what is loaded from it "
        "could be anybody's; remedy: chmod go-w, or set HOMEFREE_BUILD_DIR to a folder of your own"
    )


def _make_folders(root, folder):
    os.makedirs(os.path.dirname(root), exist_ok=True)
    for path in (root, folder):
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        _trust(path)


# ---- the lock ----

_held = set()


def _forget():
    """In the child of a fork: the lock is the parent's, and must not live as long as the child."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_forget)


class Lock:
    """One process builds a module. flock(2): the kernel drops it when the process ends."""

    def __init__(self, folder, name, say):
        self._path, self._name, self._say = folder + "/lock", name, say

    def _open(self):
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._path, flags, 0o600)
        _held.add(descriptor)
        return descriptor

    def _close(self, descriptor):
        # Not any more when this is the child of a fork that came while the lock was held.
        if descriptor in _held:
            _held.discard(descriptor)
            os.close(descriptor)

    def _is_in_place(self, descriptor):
        """Not when somebody removed the folder meanwhile."""
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self._path))
        except FileNotFoundError:
            return False

    def _wait(self, descriptor):
        holder = os.read(descriptor, 100).decode("ascii", "replace").strip()
        self._say.line(f"waiting: {self._name} is being built by {holder or 'another process'}")
        fcntl.flock(descriptor, fcntl.LOCK_EX)

    def __enter__(self):
        while True:
            descriptor = self._open()
            try:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    self._wait(descriptor)
                if self._is_in_place(descriptor):
                    os.ftruncate(descriptor, 0)
                    since = time.strftime("%H:%M:%S")
                    os.pwrite(descriptor, f"process {os.getpid()} since {since}\n".encode(), 0)
                    break
            except BaseException:
                self._close(descriptor)
                raise
            self._close(descriptor)
        self._descriptor = descriptor
        return self

    def __exit__(self, *_):
        self._close(self._descriptor)


# ---- records ----


def identity(path):
    """What stat() says that changes when a file does. warm.c says the same."""
    status = os.stat(path)
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


class Hashes:
    """SHA-256 of files, each read once, unless stat() says that it is what it was."""

    def __init__(self):
        self._known = {}

    def of(self, path):
        if path not in self._known:
            digest = hashlib.sha256()
            with open(path, "rb") as file:
                for block in iter(lambda: file.read(1 << 20), b""):
                    digest.update(block)
            self._known[path] = digest.hexdigest()
        return self._known[path]


_versions = {}


def version(command, path):
    """What tells a compiler from another one in its place, asked once a process."""
    key = command, path, identity(path)
    if key not in _versions:
        done = subprocess.run(
            [*shlex.split(command), "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        _versions[key] = hashlib.sha256(done.stdout).hexdigest()
    return _versions[key]


def _packaged():
    """Where packages put their headers, as prefixes."""
    folders = ["/usr/include", "/usr/lib", sysconfig.get_path("include")]
    folders.append(sysconfig.get_path("platinclude"))
    if _paths.CMAKE:  # homefree is installed, not in its build folder
        folders += [_folders.get_include() + "/homefree", _folders.get_library_dir()]
    folders.append(os.path.join(os.environ.get("CUDA_HOME") or "/usr/local/cuda", "include"))
    if "torch" in sys.modules:
        folders.append(os.path.join(os.path.dirname(sys.modules["torch"].__file__), "include"))
    return tuple(os.path.normpath(folder) + "/" for folder in folders)


class Record:
    """What a module was made of. compilers: [(command, path, identity, version)], files: [(path,
    identity, SHA-256)]."""

    def __init__(self, file, module, digest, compilers, files):
        self.file, self.module, self.digest = file, module, digest
        self.compilers, self.files = compilers, files

    @classmethod
    def read(cls, path):
        """None where there is none, or not a whole one."""
        try:
            with open(path, "rb") as file:
                lines = os.fsdecode(file.read()).split("\n")
            if lines[0] != RECORD or lines[-1] != "end":
                return None
            first = 5 + 4 * int(lines[4])
            compilers = [tuple(lines[i : i + 4]) for i in range(5, first, 4)]
            files = [tuple(lines[i : i + 3]) for i in range(first, len(lines) - 1, 3)]
            if (len(lines) - 1 - first) % 3 != 0 or os.path.basename(lines[1]) != lines[1]:
                return None
        except (OSError, IndexError, ValueError):
            return None
        return cls(*lines[1:4], compilers, files)

    def write(self, path):
        lines = [RECORD, self.file, self.module, self.digest, str(len(self.compilers))]
        for group in (*self.compilers, *self.files):
            lines += group
        replace(path, "\n".join([*lines, "end"]))

    def watched(self):
        """The lines of the index: what stat() must say for the module to be taken unread."""
        lines = [self.file, self.module, str(3 * len(self.compilers))]
        for command, path, was, _ in self.compilers:
            lines += _build.program_of(command), path, was
        folders = {}
        packaged = _packaged()
        for path, was, _ in self.files:
            if os.path.normpath(path).startswith(packaged):
                folders.setdefault(os.path.dirname(path))
            else:
                lines += path, was
        for path in folders:
            lines += path, identity(path)
        return lines

    def refreshed(self, entry, hashes):
        """The same with what stat() says now; None where the content is another."""
        try:
            path = f"{entry}/{self.file}"
            module = identity(path)
            if module != self.module and hashes.of(path) != self.digest:
                return None
            compilers = []
            for command, path, was, digest in self.compilers:
                found = _build.which(command)
                if found is None:  # nobody could build another one
                    compilers.append((command, path, was, digest))
                    continue
                now = identity(found)
                if found != path or (now != was and version(command, path) != digest):
                    return None
                compilers.append((command, path, now, digest))
            files = []
            for path, was, digest in self.files:
                now = identity(path)
                if now != was and hashes.of(path) != digest:
                    return None
                files.append((path, now, digest))
        except OSError:
            return None
        return Record(self.file, module, self.digest, compilers, files)


def replace(path, text):
    """Writes a file whole or not at all."""
    other = f"{path}.{os.getpid()}.new"
    try:
        with open(other, "wb") as file:
            file.write(os.fsencode(text))
            file.flush()
            os.fsync(file.fileno())
        os.rename(other, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(other)
        raise


# ---- entries ----


def _index(folder):
    """[(request, entry, watched lines)], the last used first; what is damaged is left out."""
    try:
        with open(folder + "/index", "rb") as file:
            blocks = os.fsdecode(file.read()).split("\n\n")
    except FileNotFoundError:
        return []
    found = []
    for block in blocks:
        lines = block.lstrip("\n").split("\n")
        if lines[0].startswith("\t") and len(lines) > 4 and os.path.basename(lines[1]) == lines[1]:
            found.append((lines[0][1:], lines[1], lines[2:]))
    return found


def _write_index(folder, entry, text, record):
    """Puts the entry first, and removes those that came too long ago."""
    blocks = [(text, entry, record.watched())]
    blocks += [block for block in _index(folder) if block[1] != entry]
    texts = ["\n".join(["\t" + text, entry, *lines]) for text, entry, lines in blocks[:KEPT]]
    replace(folder + "/index", INDEX + "".join(text + "\n\n" for text in texts))
    # Those too that a process put there and was killed before it wrote so.
    kept = {entry for _, entry, _ in blocks[:KEPT]}
    for name in os.listdir(folder):
        if name not in kept and os.path.isdir(f"{folder}/{name}") and not name.startswith("build-"):
            _remove(f"{folder}/{name}")


def _same(folder, request, hashes):
    """(entry, record now) of a module that has the same content; None."""
    for text, entry, _ in _index(folder):
        if text != request.text:
            continue
        record = Record.read(f"{folder}/{entry}/record")
        record = record and record.refreshed(f"{folder}/{entry}", hashes)
        if record:
            return entry, record
    return None


def find(root, folder, request):
    """The path of a module with the same content, or None. Nothing is written."""
    try:
        _trust(root)
        _trust(folder)
    except OSError:
        return None
    found = _same(folder, request, Hashes())
    return f"{folder}/{found[0]}/{found[1].file}" if found else None


def find_or_build(root, folder, request, verbose):
    """The path of a module with the same content, which is made if there is none."""
    for path in request.sources:
        if not os.path.isfile(path):
            raise BuildError(
                f"homefree cannot build {request.name!r}: there is no file {path}; check the path "
                "(relative ones start at the current folder)",
                name=request.name,
            )
    say = _build.Terminal(verbose)
    with _explained(root):
        _make_folders(root, folder)
        with Lock(folder, request.name, say):
            return (
                extension.find(root, folder, request)
                or _found_again(folder, request)
                or _made(folder, request, say)
            )


def _found_again(folder, request):
    found = _same(folder, request, Hashes())
    if found is None:
        return None
    entry, record = found
    record.write(f"{folder}/{entry}/record")
    _write_index(folder, entry, request.text, record)
    return f"{folder}/{entry}/{record.file}"


def _made(folder, request, say):
    # What a killed process left: whoever has the lock is the only one who builds.
    for name in os.listdir(folder):
        if name.startswith("build-") or name.endswith(".new"):
            _remove(f"{folder}/{name}")
    before = {}
    for _ in range(ATTEMPTS):
        work = f"{folder}/build-{os.getpid()}-{time.time_ns()}"
        os.mkdir(work, 0o700)
        try:
            start = os.stat(work).st_ctime_ns
            module, files = _build.build(request, work, say)
            after = {path: identity(path) for path in files}
            # Changed since the compilers started: who knows which content they saw? A clock that
            # is ahead, as a file server's may be, is settled the second time.
            if all(
                int(now.rpartition(" ")[2]) <= start or before.get(path) == now
                for path, now in after.items()
            ):
                return _kept(folder, request, work, module, after)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        before = after
    raise BuildError(
        f"homefree cannot build {request.name!r}: its sources change while they are compiled; "
        "try again when nothing writes to them"
    )


def _kept(folder, request, work, module, after):
    """Makes an entry of what was built."""
    hashes = Hashes()
    compilers = []
    for command in request.compilers.values():
        path = _build.which(command)
        compilers.append((command, path, identity(path), version(command, path)))
        # `ccache gcc` is two programs.
        for word in shlex.split(command)[1:]:
            path = None if word.startswith("-") else _build.which(shlex.quote(word))
            if path is not None:
                after[path] = identity(path)
    files = [(path, was, hashes.of(path)) for path, was in after.items()]
    made_of = repr((request.text, [line[::2] for line in files], [line[3] for line in compilers]))
    entry = hashlib.sha256(os.fsencode(made_of)).hexdigest()[:16]
    inside = f"{work}/entry"
    os.mkdir(inside, 0o700)
    file = os.path.basename(module)
    os.rename(module, f"{inside}/{file}")
    descriptor = os.open(f"{inside}/{file}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    path = f"{inside}/{file}"
    record = Record(file, identity(path), hashes.of(path), compilers, files)
    record.write(f"{inside}/record")
    _remove(f"{folder}/{entry}")  # one that was damaged
    os.rename(inside, f"{folder}/{entry}")
    _write_index(folder, entry, request.text, record)
    return f"{folder}/{entry}/{file}"


def _remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
