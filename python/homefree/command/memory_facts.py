# SPDX-License-Identifier: BSD-2-Clause
"""What the command homefree says about a process and about files, for whoever looks from outside.

Owns: answers about files, for as long as the object lives. One thread.
"""

import bisect
import json
import subprocess

from .memory_owners import Facts

_PATIENCE = 30  # seconds


def ask(command, *words):
    """The document that the command prints; None if it fails, as where homefree is not."""
    try:
        done = subprocess.run(
            [command, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE,
        )
        return json.loads(done.stdout) if done.returncode in (0, 1) else None
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


class Files:
    """Which allocators live in files. command: the path of homefree's, or None."""

    def __init__(self, command):
        self._command, self._known = command, {}

    def allocators_in(self, path):
        if path not in self._known:
            self._known[path] = self._ask(path) if self._command else []
        return self._known[path]

    def _ask(self, path):
        document = ask(self._command, "inspect", "--json", path)
        try:
            facts = document["files"][0]["allocators"]
            return sorted({each["name"] for each in facts})
        except (KeyError, IndexError, TypeError):
            return []


class Outside(Facts):
    """command: the path of homefree's; files: a Files, which may serve several looks."""

    def __init__(self, command, pid, files):
        self.allocators_in = files.allocators_in
        self._pages, self._samples = [], None
        document = ask(command, "memory", "--blocks", "--json", "--pid", str(pid))
        if document is not None:
            self.region = tuple(document["region"])
            self.live = document["live_bytes"]
            self._pages = document["pages"]
            self._samples = document["samples"]

    def asked(self, mappings):
        """Rows by stack (homefree-memory(1), "asked"); None: unknown. mappings: the process's."""
        if self._samples is None:
            return None
        starts = [mapping.start for mapping in mappings]

        def native(address):
            number = bisect.bisect_right(starts, address - 1) - 1
            found = mappings[number] if number >= 0 else None
            inside = found is not None and address <= found.end
            return [found.path or None if inside else None, None, address]

        rows = {}
        for number, sample in enumerate(self._samples):
            key = sample["stack"] or -number  # 0: unknown
            row = rows.get(key)
            if row is None:
                row = rows[key] = {
                    "object": sample["object"] or None,
                    "bytes": 0,
                    "blocks": 0,
                    "samples": 0,
                    "python": sample["python"],
                    "native": [native(address) for address in sample["native"]],
                }
            row["bytes"] += sample["bytes"]
            row["blocks"] += sample["thousandths"]
            row["samples"] += 1
        for row in rows.values():
            row["blocks"] = round(row["blocks"] / 1000)
        return sorted(rows.values(), key=lambda row: -row["bytes"])

    def allocator_at(self, start, end):
        for run in self._pages:
            if run["start"] < end and start < run["end"]:
                first, last = max(start, run["start"]), min(end, run["end"])
                yield first, last, run["allocator"], run["object"]
