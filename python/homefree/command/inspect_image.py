# SPDX-License-Identifier: BSD-2-Clause
"""Reads the tar file of a container's image (`docker save`, an OCI layout), or of a file system
(`docker export`): applies its layers, one above the other, and writes what inspection needs of the
result below a directory: shared objects, links, and what lists packages. Runs in the reader's
process (inspect_reader.py).

Images are hostile. Nothing is written before the layers are one tree, in which links lead to places
in it, and nothing is written through a link. Devices and pipes are not written. What no container
could use is refused: names that lead out, hard links to what is not there, and contents without an
end. A name that begins with / is below the image's root, as container engines take it.

State: the tree of one image, and the files with its contents. One thread.
"""

import json
import os
import platform
import tarfile

from .inspect_archive import CHUNK, MEMBERS_MAX, MIB, SUM_MAX, Refused, check_ratio, reason

_SUM_MAX = 8 * SUM_MAX  # bytes of all members of all layers
_DOCUMENT_MAX = 16 * MIB
_LAYERS_MAX = 1000
_DEEP_MAX = 250
_LINKS_MAX = 40  # as Linux has it
_ZSTD = b"\x28\xb5\x2f\xfd"  # what Python's tarfile does not read everywhere
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class _Node:
    """A directory (children), a link (target), or a file (content: its number, None: not wanted);
    and the layer that has it last."""

    __slots__ = "children", "content", "layer", "target"

    def __init__(self, layer, children=None, target=None, content=None):
        self.layer, self.children, self.target, self.content = layer, children, target, content


class Image:
    """members: none, as of an archive that has none; problems: (name, why)."""

    def __init__(self, directory):
        """directory: an empty one, which gets `root` and, with its contents, `files`."""
        self.members, self.others, self.problems = [], [], []
        self._root = _Node(0, {})
        self._top, self._files = f"{directory}/root", f"{directory}/files"
        self._layer = self._count = self._contents = self._total = 0
        left = os.statvfs(directory)
        self._left = left.f_bavail * left.f_frsize * 3 // 4

    def read(self, path, _):
        try:
            os.mkdir(self._files)
            self._packed = os.path.getsize(path)
            if not os.path.isfile(path):
                raise Refused("it is no file")
            with _open(path) as outer:
                blobs = {}
                for member in outer:
                    self._reckon(member)
                    blobs[os.path.normpath(member.name)] = member
                layers = _layers(outer, blobs)
                self._total = 0
                for name in layers or ():
                    with outer.extractfile(blobs[name]) as stream:
                        self._apply(stream)
            if layers is None:  # the file system itself
                with open(path, "rb") as stream:
                    self._apply(stream)
            self._write()
        except Refused as error:
            self.problems.append(("", str(error)))
        except KeyError as error:
            self.problems.append(("", f"it is no image, or not whole: it has no {error}"))
        except Exception as error:  # whatever a decoder thinks of damaged data
            self.problems.append(("", reason(error)))

    # ---- layers ------------------------------------------------------------------------------

    def _reckon(self, member):
        self._count += 1
        self._total += max(member.size, 0)
        if self._count > 4 * MEMBERS_MAX or self._total > _SUM_MAX:
            raise Refused("it has more members, or larger ones, than are read")
        check_ratio(self._total, self._packed)

    def _apply(self, stream):
        self._layer += 1
        _check_packing(stream)
        with tarfile.open(fileobj=stream, mode="r|*") as layer:
            for member in layer:
                self._reckon(member)
                parts = _parts(member.name)
                if parts:
                    self._add(layer, member, parts)

    def _add(self, layer, member, parts):
        name = parts.pop()
        children = self._directory(parts).children
        if name == ".wh..wh..opq":
            self._prune(children)
        elif name.startswith(".wh."):
            if name[4:] in children:
                only = {name[4:]: children.pop(name[4:])}
                self._prune(only)
                children.update(only)
        elif member.isdir():
            old = children.get(name)
            kept = old.children if old is not None and old.children is not None else {}
            children[name] = _Node(self._layer, kept)
        elif member.issym():
            children[name] = _Node(self._layer, target=member.linkname)
        elif member.islnk():
            *above, last = _parts(member.linkname) or [""]
            linked = self._directory(above).children.get(last)
            if linked is None or linked.children is not None:
                raise Refused(f"'{member.name}' is a link to what is not there")
            children[name] = _Node(self._layer, None, linked.target, linked.content)
        elif not member.isreg():  # a device or a pipe
            children[name] = _Node(self._layer)
        else:
            content = self._keep(layer.extractfile(member), member.size, parts, name)
            children[name] = _Node(self._layer, content=content)

    def _prune(self, children):
        """Removes what lower layers have."""
        pending = [children]
        while pending:
            these = pending.pop()
            for name, node in list(these.items()):
                if node.children:
                    pending.append(node.children)
                if node.layer < self._layer and not node.children:
                    del these[name]

    def _directory(self, parts):
        """The directory of a path, in which links lead to others; made where there is none."""
        way, pending, links = [self._root], parts[::-1], 0
        while pending:
            part = pending.pop()
            if part == "..":
                way = way[:-1] or way
            elif part not in ("", "."):
                node = way[-1].children.setdefault(part, _Node(self._layer, {}))
                if node.target is not None:
                    links += 1
                    if links > _LINKS_MAX:
                        raise Refused("its links lead in a circle")
                    way = [self._root] if node.target.startswith("/") else way
                    pending += node.target.split("/")[::-1]
                elif node.children is None:
                    raise Refused(f"'{'/'.join(parts)}' goes through a file")
                else:
                    way.append(node)
                if len(way) > _DEEP_MAX:
                    raise Refused(f"its directories are more than {_DEEP_MAX} deep")
        return way[-1]

    # ---- contents ----------------------------------------------------------------------------

    def _keep(self, stream, size, parts, name):
        """The number of a file's contents, if they are wanted."""
        start = stream.read(min(4, size))
        listing = name == "RECORD" and parts and parts[-1].endswith(".dist-info")
        if not (start == b"\x7fELF" or listing or [*parts, name] == ["etc", "ld.so.cache"]):
            return None
        self._left -= size
        if self._left < 0:
            raise Refused("its shared objects need more space than there is for temporary files")
        self._contents += 1
        with open(f"{self._files}/{self._contents}", "xb") as file:
            while start:
                file.write(start)
                start = stream.read(CHUNK)
        return self._contents

    def _write(self):
        """Writes the tree: a directory before what is in it, and links last of what is there."""
        pending = [(self._top, self._root)]
        while pending:
            path, node = pending.pop()
            os.mkdir(path)
            for name, each in node.children.items():
                below = f"{path}/{name}"
                if each.children is not None:
                    pending.append((below, each))
                elif each.target is not None:
                    os.symlink(each.target, below)
                elif each.content is not None:
                    os.link(f"{self._files}/{each.content}", below)


def _open(path):
    with open(path, "rb") as stream:
        _check_packing(stream)
    try:
        return tarfile.open(path)
    except tarfile.ReadError:
        raise Refused("it is no tar file, or it was cut short") from None


def _check_packing(stream):
    if stream.read(len(_ZSTD)) == _ZSTD:
        raise Refused("it is compressed with zstd; save it with gzip or uncompressed")
    stream.seek(0)


def _parts(name):
    parts = name.split("/")
    if ".." in parts:
        raise Refused(f"'{name}' leads out of the image")
    return [part for part in parts if part not in ("", ".")]


def _layers(outer, blobs):
    """The names of the layers' members, the lowest first; None: it is no image."""
    if "manifest.json" in blobs:
        images = _document(outer, blobs, "manifest.json")
        if len(images) != 1:
            raise Refused(f"it has {len(images)} images; save one by itself")
        names = images[0]["Layers"]
    elif "index.json" in blobs:
        names = _oci(outer, blobs)
    else:
        return None
    if len(names) > _LAYERS_MAX:
        raise Refused(f"it has {len(names)} layers; the limit is {_LAYERS_MAX}")
    return [os.path.normpath(name) for name in names]


def _oci(outer, blobs):
    document = _document(outer, blobs, "index.json")
    for _ in range(3):  # an index may be of indices
        if "layers" in document:
            break
        ours = _ARCHITECTURES.get(platform.machine())
        found = [
            each
            for each in document["manifests"]
            if each.get("platform", {}).get("architecture", ours) == ours
        ]
        if len(found) != 1:
            raise Refused(f"it has {len(found)} images for this machine; save one by itself")
        document = _document(outer, blobs, _blob(found[0]["digest"]))
    return [_blob(each["digest"]) for each in document["layers"]]


def _blob(digest):
    return "blobs/" + digest.replace(":", "/", 1)


def _document(outer, blobs, name):
    member = blobs[name]
    if member.size > _DOCUMENT_MAX:
        raise Refused(f"its {name} is too large")
    with outer.extractfile(member) as stream:
        return json.loads(stream.read())
