# SPDX-License-Identifier: BSD-2-Clause
"""Hosts as the controller sees them: starting them, giving them work, waiting for answers."""

import contextlib
import itertools
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time

# The name under which a host imports this directory; see _host.py.
PACKAGE = "homefree_harness"
_GRACE = 10  # seconds that a host may be late


class HostFailed(Exception):
    """A host could not be started. `how` is "died", "timed out" or "raised"."""

    def __init__(self, how, message, number=None, kind=None):
        super().__init__(message)
        self.how = how
        self.signal = number
        self.kind = kind


class Host:
    """One host. `preload`: a library for LD_PRELOAD. `first`: homefree is imported before the
    module. `beside`: shared objects to load before the module."""

    def __init__(self, target, name, *, first=False, preload=None, beside=()):
        self.target = target
        self.name = name
        self.first = first
        self.preload = preload
        self.beside = list(beside)
        self.process = None
        self.channel = None
        self.unread = b""
        self.facts = None
        self.waiting = {}  # id of a request: when its answer is overdue

    def start(self):
        """Starts the process and waits until it has the module. Raises HostFailed."""
        self.begin()
        self.wait()

    def begin(self):
        """Starts the process; wait() must follow."""
        ours, theirs = socket.socketpair()
        configuration = {
            "package": PACKAGE,
            "channel": theirs.fileno(),
            "module": self.target.module,
            "path": self.target.path,
            "sys_path": self.target.sys_path,
            "directory": self.target.directory,
            "first": self.first,
            "beside": self.beside,
        }
        environment = dict(os.environ)
        environment.pop("HOMEFREE_PYTHON", None)
        # glibc fills what is freed: use after free shows each time, not just if it is reused.
        environment.setdefault("MALLOC_PERTURB_", "165")
        if self.preload is not None:
            former = environment.get("LD_PRELOAD", "")
            environment["LD_PRELOAD"] = f"{self.preload}:{former}" if former else self.preload
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_host.py")
        self.output = os.fdopen(os.memfd_create("homefree-test"), "w+b")
        try:
            self.process = subprocess.Popen(
                [sys.executable, script, json.dumps(configuration)],
                stdin=subprocess.DEVNULL,
                stdout=self.output,
                stderr=self.output,
                pass_fds=[theirs.fileno()],
                env=environment,
                cwd=self.target.start_directory,
                start_new_session=True,
            )
        finally:
            theirs.close()
        self.channel = ours
        self.unread = b""

    def wait(self):
        """Waits until the process has the module. Raises HostFailed."""
        self.facts = self._first_answer()

    def _first_answer(self):
        self.channel.settimeout(self.target.import_timeout)
        try:
            while b"\n" not in self.unread:
                more = self.channel.recv(65536)
                if not more:
                    status = self._wait()
                    if status < 0:
                        raise HostFailed("died", self.said(), -status)
                    raise HostFailed("died", self.said() or f"it exited with status {status}")
                self.unread += more
        except socket.timeout:
            self.stop()
            seconds = self.target.import_timeout
            raise HostFailed("timed out", f"importing took more than {seconds:g} s") from None
        line, _, self.unread = self.unread.partition(b"\n")
        facts = json.loads(line)
        if not facts["ready"]:
            self.stop()
            raise HostFailed("raised", facts["error"], kind=(facts["stage"], facts["kind"]))
        self.channel.setblocking(False)
        return facts

    def _wait(self):
        try:
            return self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.stop()
            return -signal.SIGKILL

    def said(self):
        """The end of what the host printed."""
        with contextlib.suppress(OSError, ValueError):
            size = self.output.seek(0, os.SEEK_END)
            self.output.seek(max(0, size - 8192))
            return self.output.read().decode("utf-8", "replace")
        return ""

    def send(self, request):
        data = (json.dumps(request) + "\n").encode()
        self.channel.setblocking(True)
        try:
            self.channel.sendall(data)
        finally:
            self.channel.setblocking(False)
        self.waiting[request["id"]] = time.monotonic() + request["timeout"] + _GRACE

    def answers(self):
        """What has arrived; None once the host has ended."""
        try:
            more = self.channel.recv(1 << 20)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not more:
            return None
        *lines, self.unread = (self.unread + more).split(b"\n")
        try:
            found = [json.loads(line) for line in lines]
            for answer in found:
                self.waiting.pop(answer["id"], None)
        except (ValueError, KeyError, TypeError, RecursionError):
            return None  # the module has written into the channel
        return found

    def stop(self):
        """Ends the host and everything that it started."""
        if self.channel is not None:
            self.channel.close()
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.2)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.waiting = {}


class Pool:
    """Gives requests to hosts, some at a time."""

    def __init__(self, jobs):
        self.jobs = jobs
        self.hosts = []
        self.number = 0

    def start(self, hosts):
        """Starts hosts, all at the same time. Returns {host: HostFailed} of those that failed."""
        failed = {}
        self.hosts += hosts
        for host in hosts:
            host.begin()
        for host in hosts:
            try:
                host.wait()
            except HostFailed as error:
                failed[host] = error
                self.hosts.remove(host)
                host.stop()
        return failed

    def close(self):
        for host in self.hosts:
            host.channel.close()  # each ends its children, at the same time
        for host in self.hosts:
            host.stop()
        self.hosts = []

    def run(self, work):
        """Answers for an iterator of (host, request), as they come: yields (host, request, answer).
        An answer is None if the host itself ended."""
        requests = {}
        with selectors.DefaultSelector() as selector:
            for host in self.hosts:
                selector.register(host.channel, selectors.EVENT_READ, host)
            while True:
                for host, request in itertools.islice(work, self.jobs - len(requests)):
                    self.number += 1
                    request["id"] = self.number
                    requests[self.number] = (host, request)
                    try:
                        host.send(request)
                    except OSError:
                        host.waiting[self.number] = 0
                if not requests:
                    return
                yield from self._answers(selector, requests)

    def _answers(self, selector, requests):
        lost = []
        for key, _ in selector.select(1):
            answers = key.data.answers()
            if answers is None:
                lost.append(key.data)
                continue
            for answer in answers:
                if answer["id"] in requests:
                    yield (*requests.pop(answer["id"]), answer)
        now = time.monotonic()
        for host in self.hosts:
            overdue = any(now > when for when in host.waiting.values())
            if host in lost or overdue:
                gone = [number for number, (owner, _) in requests.items() if owner is host]
                with contextlib.suppress(KeyError, ValueError):
                    selector.unregister(host.channel)
                host.stop()
                with contextlib.suppress(HostFailed):
                    host.start()
                    selector.register(host.channel, selectors.EVENT_READ, host)
                for number in gone:
                    yield (*requests.pop(number), None)
