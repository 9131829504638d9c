# SPDX-License-Identifier: BSD-2-Clause
"""Applies the rules of loader/record/process_record.def to the record of a process.

State: none.
"""

import signal

from .terminal import signal_name

_NAMES_MOST = 5  # objects that a finding names, of all that it counts
_CRASHES = tuple(
    getattr(signal, name)
    for name in ("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGTRAP", "SIGSYS")
)
# Other libraries of libc's, for whose thread-local variables it makes room. Before glibc 2.34 there
# are several that many programs have.
_LIBCS_OWN = "libm.so", "libpthread.so", "librt.so", "libutil.so", "libresolv.so", "libnss_"


def find(record, signal_number, status):
    """The findings, each once: [{"rule", "message", "count", "names"}]. Counts each object's users.
    signal_number, status: how the process ended, 0 if that is unknown."""
    return _Finding(record, signal_number, status).all()


class _Finding:
    def __init__(self, record, signal_number, status):
        self.record = record
        self.signal, self.status = signal_number, status
        self.crashed = signal_number in _CRASHES
        self.found = {}
        self.preloaded = {
            name.rpartition("/")[2]
            for name in (record.preload or "").replace(":", " ").split(" ")
            if name and not name.endswith("/")
        }

    def all(self):
        _count_users(self.record.objects)
        self._death()
        for each in self.record.objects:
            self._elsewhere(each)
            self._embedded(each)
            self._object(each)
        self._two_mallocs()
        objects = self.record.objects
        self._several(
            "several-homefrees", "libhomefree", [e for e in objects if e.role == "homefree"]
        )
        runtimes = [e for e in objects if e.soname is not None and e.soname.startswith("libstdc++")]
        self._several(
            "several-libstdcxx",
            "libstdc++",
            [e for e in runtimes if e.namespace == runtimes[0].namespace],
        )
        self._several("several-libcs", "libc", [e for e in objects if e.is_libc])
        self._slots()
        if self.record.routing == "off":
            self._add("routing-off", "HOMEFREE_CONF contains route:off")
        return list(self.found.values())

    def _add(self, rule, message, name=None):
        finding = self.found.setdefault(
            (rule, message), {"rule": rule, "message": message, "count": 0, "names": []}
        )
        if name is not None:
            finding["count"] += 1
            if len(finding["names"]) < _NAMES_MOST:
                finding["names"].append(name)

    # ---- how it ended ----------------------------------------------------------------------------

    def _death(self):
        name = signal_name(self.signal)
        if self.crashed:
            self._add("died", f"{name} ended the process")
        elif self.status != 0:
            self._add("program-failed", f"the program exited with status {self.status}")
        elif self.signal != 0:
            self._add("program-failed", f"{name} ended the program")
        place = self._died_inside()
        if place is None:
            return
        _, function, caller = self.record.crash
        self._add(
            "died-in-allocator",
            f"{name} hit an object that contains {_hidden_allocator(place)}"
            + (f", in {function}" if function is not None else "")
            + (f", called from {caller.name}" if caller is not None else ""),
            place.path,
        )

    def _died_inside(self):
        """The object whose hidden allocator was to free another's block when the process died."""
        place = self.record.crash[0] if self.crashed and self.record.freeing else None
        return place if place is not None and _hidden_allocator(place) is not None else None

    # ---- objects ---------------------------------------------------------------------------------

    def _elsewhere(self, each):
        for kinds, names in (
            (("malloc", "free"), ("malloc", "free")),
            (("new", "delete"), ("operator new", "operator delete")),
        ):
            source, target = (each.calls[kind] for kind in kinds)
            if not source or not target or any(one in target for one in source):
                continue
            # A routed free() returns memory of these objects to its owner.
            if each.refused == 0 and all(one.role == "homefree" or one.home for one in source):
                continue
            self._add(
                "free-goes-elsewhere",
                f"{names[0]} comes from {source[0].name}, {names[1]} from {target[0].name}",
                each.path,
            )

    def _embedded(self, each):
        """CPython's own do no harm in it: pymalloc, and the mimalloc of 3.13 and later."""
        if each.role != "ordinary" or each.cpython or each.users > 0:
            return
        if each is self._died_inside():
            return
        for name, foreign in each.inside():
            leaked = ""
            if foreign is not None and foreign.leaked != 0:
                leaked = f", of which {foreign.leaked} blocks were leaked"
            home = foreign is not None and foreign.home
            rule = "foreign-allocator" if home else "embedded-allocator"
            if name in each.published and not home:
                rule = "registry-member"
            self._add(rule, f"contains {name}{leaked}", each.path)

    def _object(self, each):
        ordinary = each.role == "ordinary"
        # A process's mappings name the file that a link leads to, so the soname counts, too.
        if ordinary and each.serves and not self.preloaded.isdisjoint((each.name, each.soname)):
            self._add(
                "preloaded-allocator",
                f"{each.allocator() or 'an allocator'} was preloaded",
                each.path,
            )
        if (
            ordinary
            and each.static_tls
            and not each.program
            and not (each.soname or "").startswith(_LIBCS_OWN)
        ):
            self._add("static-tls", "objects use static TLS", each.path)
        if each.reach is not None and each.role != "linker":
            self._add("out-of-reach", each.reach, each.path)

    def _two_mallocs(self):
        """A preloaded allocator serves the process except for objects loaded with RTLD_DEEPBIND,
        whose scope begins with their own dependencies and therefore with libc."""
        server = _server(self.record.objects)
        # Even if its blocks go home, homefree may not know the owner of those that were allocated
        # before it was loaded.
        if server is None or (server.home and not self.crashed):
            return
        message = (
            f"{server.allocator() or server.name} serves the process, but these use libc's malloc "
            "and free"
        )
        for each in self.record.objects:
            if each is server or each.namespace != 0 or each.role != "ordinary":
                continue
            if any(one.is_libc for one in (*each.calls["malloc"], *each.calls["free"])):
                self._add("two-mallocs", message, each.path)

    def _several(self, rule, what, objects):
        if len(objects) > 1:
            for each in objects:
                self._add(rule, f"{len(objects)} copies of {what}", each.path)

    def _slots(self):
        for each, function, kind, reason in self.record.refusals:
            if self.record.routing == "on":
                rule = "stored-pointer" if kind == "word" else "slot-refused"
                self._add(rule, f"{function} of {each.name}: {reason}", each.path)
        for variable, function in self.record.copies:
            message = f"the program's copy of a variable points to {function}"
            self._add("copy-relocation", message, variable)


def _count_users(objects):
    for each in objects:
        for target in {*each.calls["malloc"], *each.calls["free"]}:
            target.users += target is not each


def _hidden_allocator(each):
    """The allocator in an object that no other object calls by name."""
    if each.role != "ordinary" or each.cpython or each.users > 0:
        return None
    return each.allocator()


def _server(objects):
    """The object whose malloc() and free() a call by name reaches first; None if that is libc."""
    for each in objects:
        if each.namespace != 0:
            continue
        if each.role == "ordinary" and each.serves and each.users > 0:
            return each
        if each.is_libc:
            return None
    return None
