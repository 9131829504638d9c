# SPDX-License-Identifier: BSD-2-Clause
"""Kinds of crossings: what an object is, what can be read of its memory, and its deleter in C.

Runs in hosts, with or without homefree, in any interpreter of the process. ctypes may be missing in
an interpreter with a GIL of its own; what needs it is then left out.
"""

import sys

try:
    import ctypes
except ImportError:
    ctypes = None

# The kinds, those that say most first; a crossing of a later kind is left out first.
KINDS = (
    "capsule",
    "dlpack",
    "arrow",
    "array",
    "buffer",
    "pointer",
    "callback",
    "object",
    "string",
    "call",
)

_ENOUGH = 64 << 20  # bytes that are read of one object
_DEEP = 2  # levels of containers that are looked into
_WIDE = 16  # elements of each that are looked at
_DLPACK = ("dltensor", "dltensor_versioned")
_ARROW = ("arrow_schema", "arrow_array", "arrow_array_stream")
_ARROW_EXPORTS = ("__arrow_c_array__", "__arrow_c_stream__", "__arrow_c_schema__")

if ctypes is not None:
    _capsule_name = ctypes.pythonapi.PyCapsule_GetName
    _capsule_name.restype = ctypes.c_char_p
    _capsule_name.argtypes = [ctypes.py_object]
    _capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    _capsule_pointer.restype = ctypes.c_void_p
    _capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    _capsule_context = ctypes.pythonapi.PyCapsule_GetContext
    _capsule_context.restype = ctypes.c_void_p
    _capsule_context.argtypes = [ctypes.py_object]
    _capsule_rename = ctypes.pythonapi.PyCapsule_SetName
    _capsule_rename.restype = ctypes.c_int
    _capsule_rename.argtypes = [ctypes.py_object, ctypes.c_char_p]

    class _Tensor(ctypes.Structure):
        _fields_ = [
            ("data", ctypes.c_void_p),
            ("device", ctypes.c_int32 * 2),
            ("ndim", ctypes.c_int32),
            ("code", ctypes.c_uint8),
            ("bits", ctypes.c_uint8),
            ("lanes", ctypes.c_uint16),
            ("shape", ctypes.POINTER(ctypes.c_int64)),
            ("strides", ctypes.POINTER(ctypes.c_int64)),
            ("byte_offset", ctypes.c_uint64),
        ]

    class _Managed(ctypes.Structure):
        _fields_ = [
            ("tensor", _Tensor),
            ("context", ctypes.c_void_p),
            ("deleter", ctypes.c_void_p),
        ]

    class _ManagedVersioned(ctypes.Structure):
        _fields_ = [
            ("version", ctypes.c_uint32 * 2),
            ("context", ctypes.c_void_p),
            ("deleter", ctypes.c_void_p),
            ("flags", ctypes.c_uint64),
            ("tensor", _Tensor),
        ]

    # For each of Arrow's structs, its words, and which of them is `release`.
    _ARROW_STRUCTS = {"arrow_schema": (9, 7), "arrow_array": (10, 8), "arrow_array_stream": (5, 3)}

    # What DLPack's capsules are called once their deleter is taken. A capsule keeps the address of
    # its name and may outlive this module, so a reference to each name is never given back.
    _USED = {name: f"used_{name}".encode() for name in _DLPACK}
    for _name in _USED.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_name))


def capsule_name(thing):
    name = _capsule_name(thing) if ctypes is not None else None
    return name.decode(errors="replace") if name is not None else None


def is_capsule(thing):
    return type(thing).__name__ == "PyCapsule"


def _is_array(thing):
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(thing, getattr(numpy, "ndarray", ()))


def _has(thing, names):
    return next((name for name in names if hasattr(type(thing), name)), None)


def _owner_of(address):
    """The owner of an address, if homefree is there to ask."""
    homefree = sys.modules.get("homefree")
    if homefree is None or not 0 < address < 1 << 63:
        return None
    try:
        return homefree.owner_of(address)
    except (AttributeError, ValueError, OverflowError):
        return None


def block_size(address):
    """The size of the live block that begins at an address, or None."""
    owner = _owner_of(address)
    if owner is None or owner.kind not in ("heap", "libc", "allocator"):
        return None
    return owner.size if owner.block == address else None


def _address(thing):
    """Where an object's memory begins, or the object itself."""
    if _is_array(thing):
        return thing.__array_interface__["data"][0]
    if is_capsule(thing) and ctypes is not None:
        return _capsule_pointer(thing, _capsule_name(thing))
    try:
        with memoryview(thing) as seen:
            return ctypes.addressof(ctypes.c_char.from_buffer(seen))
    except Exception:  # no buffer, a read-only one, or no ctypes
        return id(thing)


def owner(thing):
    """Whose memory an object has, in words."""
    found = _owner_of(_address(thing))
    if found is None:
        return "unknown memory"
    name = found.allocator or found.kind
    return f"{name} ({found.object})" if found.object else name


def call(function, argument):
    """Calls a deleter in C, with the GIL, as another library does."""
    ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(function)(argument)


def classify(thing, depth=0):
    """The kind of an object. The most telling element of a tuple or list decides for it."""
    if is_capsule(thing):
        name = capsule_name(thing)
        return "dlpack" if name in _DLPACK else "arrow" if name in _ARROW else "capsule"
    if isinstance(thing, type) or thing is None or isinstance(thing, (bool, float, complex)):
        return "call"
    if isinstance(thing, int):
        return "pointer" if thing > 1 << 16 and block_size(thing) else "call"
    if isinstance(thing, (str, bytes)):
        return "string"
    if _is_array(thing):
        return "array"
    if isinstance(thing, (tuple, list)) and depth < _DEEP:
        found = [classify(one, depth + 1) for one in thing[:_WIDE]]
        return min([*found, "object"], key=KINDS.index)
    if _has(thing, _ARROW_EXPORTS):
        return "arrow"
    if hasattr(type(thing), "__dlpack__"):
        return "dlpack"
    try:
        memoryview(thing).release()
    except Exception:  # whatever a module's own code raises
        return "object"
    return "buffer"


# ---- reading -------------------------------------------------------------------------------------


def _at(address, size):
    return ctypes.string_at(address, min(size, _ENOUGH))


def _managed(capsule):
    """The DLPack struct of a capsule that nobody has consumed, or None."""
    name = capsule_name(capsule)
    if name not in _DLPACK:
        return None
    struct = _Managed if name == "dltensor" else _ManagedVersioned
    return struct.from_address(_capsule_pointer(capsule, name.encode()))


def _read_tensor(tensor):
    if tensor.device[0] != 1 or not tensor.data or not 0 <= tensor.ndim <= 64:
        return None
    lengths = [tensor.shape[i] for i in range(tensor.ndim)]
    item = (tensor.bits * tensor.lanes + 7) // 8
    if 0 in lengths:
        return b""
    if tensor.strides:
        spans = [(lengths[i] - 1) * tensor.strides[i] * item for i in range(tensor.ndim)]
        before = sum(span for span in spans if span < 0)
        after = sum(span for span in spans if span > 0)
    else:
        before, after = 0, item
        for length in lengths:
            after *= length
        after -= item
    return _at(tensor.data + tensor.byte_offset + before, after - before + item)


def _read_capsule(capsule):
    if ctypes is None:
        return None
    managed = _managed(capsule)
    if managed is not None:
        return _read_tensor(managed.tensor)
    name = _capsule_name(capsule)
    address = _capsule_pointer(capsule, name)
    words = _ARROW_STRUCTS.get(capsule_name(capsule))
    if words is not None:
        return _at(address, 8 * words[0])
    size = block_size(address)
    return _at(address, size) if size else None


def read(thing, depth=0):
    """The bytes of an object's memory, a list of such, or None where nothing can be read."""
    if isinstance(thing, str):
        return thing.encode("utf-8", "surrogatepass")
    if isinstance(thing, (bytes, bytearray)):
        return bytes(thing)
    if is_capsule(thing):
        return _read_capsule(thing)
    if isinstance(thing, int) and not isinstance(thing, bool):
        size = block_size(thing) if thing > 1 << 16 else None
        return _at(thing, size) if size and ctypes is not None else None
    if thing is None or isinstance(thing, (bool, float, complex, type)):
        return None
    if isinstance(thing, (tuple, list)) and depth < _DEEP:
        return [read(one, depth + 1) for one in thing[:_WIDE]]
    try:
        with memoryview(thing) as seen:
            return seen.tobytes() if seen.nbytes <= _ENOUGH else None
    except Exception:
        pass
    try:
        export = _has(thing, ("__dlpack__", *_ARROW_EXPORTS))
        if export is not None:
            # Each export is a struct of its own: its address must not be compared.
            made = getattr(thing, export)()
            contents = read(made, depth + 1)
            return contents if export == "__dlpack__" else None
        repr(thing)
    except Exception:
        pass
    return None


# ---- deleters in C -------------------------------------------------------------------------------


def _arrow_deleters(capsule, name):
    """Moves the struct out of the capsule, as a consumer does: its release, and free() for what it
    was moved to."""
    words, release = _ARROW_STRUCTS[name]
    address = _capsule_pointer(capsule, name.encode())
    struct = (ctypes.c_void_p * words).from_address(address)
    function = struct[release]
    if not function:
        return []
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    copy = libc.malloc(ctypes.c_size_t(8 * words))
    ctypes.memmove(copy, address, 8 * words)
    struct[release] = None
    return [(function, copy), (ctypes.cast(libc.free, ctypes.c_void_p).value, copy)]


def _record_deleters(capsule):
    """A deleter of homefree's (hf_release), of which a reference is taken."""
    context = _capsule_context(capsule)
    try:
        library = ctypes.CDLL("libhomefree.so.1", mode=4)  # RTLD_NOLOAD
        library.hf_release_is.restype = ctypes.c_bool
        if not context or not library.hf_release_is(ctypes.c_void_p(context)):
            return []
    except (OSError, AttributeError):
        return []
    library.hf_release_take(ctypes.c_void_p(context))
    return [(ctypes.cast(library.hf_release_drop, ctypes.c_void_p).value, context)]


def _tensor_deleters(capsule, name):
    """A tensor's own deleter; the capsule is renamed, as a consumer does."""
    managed = _managed(capsule)
    if not managed.deleter:
        return []
    _capsule_rename(capsule, _USED[name])
    return [(managed.deleter, ctypes.addressof(managed))]


def _capsules_of(thing):
    """What an object has in capsules: its memory's owner, or what it exports."""
    if _is_array(thing):
        return thing.base
    export = _has(thing, ("__dlpack__", *_ARROW_EXPORTS))
    if export is None:
        return None
    try:
        return getattr(thing, export)()
    except Exception:  # it need not be able to
        return None


def deleters(thing, depth=0):
    """[(function, argument)] in C that free an object's memory without Python, and that the caller
    must call once each, in this order: the object will not do so any more."""
    if ctypes is None:
        return []
    if isinstance(thing, (tuple, list)) and depth < _DEEP:
        return [found for one in thing for found in deleters(one, depth + 1)]
    if not is_capsule(thing):
        return deleters(_capsules_of(thing), depth + 1) if depth < _DEEP else []
    name = capsule_name(thing)
    if name in _ARROW:
        return _arrow_deleters(thing, name)
    if name in _DLPACK:
        return _tensor_deleters(thing, name)
    return _record_deleters(thing)
