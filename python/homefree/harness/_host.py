# SPDX-License-Identifier: BSD-2-Clause
"""A host: a Python process that has loaded the tested module and forks a process for each request.

Executed by path as `python _host.py CONFIGURATION`, because it must also run without homefree. The
configuration is JSON: what to import, in which order, and the descriptor of a socket over which
requests and answers go as JSON lines. The host answers many requests at once. Whatever the module
prints goes to pipes; a request's process gets pipes of its own.
"""

import contextlib
import errno
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import time

_TAIL = 8192  # bytes of a process's output that are kept


def _enter_package(package):
    """Makes this directory a package under another name, which needs no `homefree`."""
    import types

    directory = os.path.dirname(os.path.abspath(__file__))
    made = types.ModuleType(package)
    made.__path__ = [directory]
    sys.modules[package] = made
    with contextlib.suppress(ValueError):
        sys.path.remove(directory)


def _describe(error):
    """An exception's text in one line, or its type if it has none or cannot tell it."""
    try:
        return " ".join(str(error).split()) or type(error).__name__
    except Exception:
        return type(error).__name__


def _open_standard_streams():
    """A module may have closed them; a pipe of ours must not take their place."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)


def _loaded(part):
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        return any(part in line for line in maps)


def _die_with_parent():
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class _Child:
    """A process that works on a request."""

    def __init__(self, request, pid, result, output):
        self.request = request
        self.pid = pid
        self.pipes = {result: bytearray(), output: bytearray()}
        self.result, self.output = result, output
        self.end = time.monotonic() + request["timeout"]
        self.timed_out = False
        try:
            self.watch = os.pidfd_open(pid)
        except (AttributeError, OSError):
            self.watch = None

    def drain(self, descriptor):
        with contextlib.suppress(BlockingIOError):
            while True:
                more = os.read(descriptor, 65536)
                if not more:
                    return
                kept = self.pipes[descriptor]
                kept += more
                if descriptor == self.output:
                    del kept[:-_TAIL]
                if len(more) < 65536:
                    return

    def kill_group(self):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def reap(self):
        """The answer if the process has ended, or None."""
        pid, status, used = os.wait4(self.pid, os.WNOHANG)
        if pid == 0:
            return None
        self.kill_group()  # what the module may have started
        for descriptor in self.pipes:
            self.drain(descriptor)
            os.close(descriptor)
        if self.watch is not None:
            os.close(self.watch)
        steps = []
        for line in self.pipes[self.result].splitlines():
            try:
                steps.append(json.loads(line))
            except ValueError:  # cut short by a death
                continue
        return {
            "id": self.request["id"],
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            "status": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "timed_out": self.timed_out,
            "seconds": used.ru_utime + used.ru_stime,
            "steps": steps,
            "output": self.pipes[self.output].decode("utf-8", "replace"),
        }


class Host:
    """The loop of a host. It ends when the controller closes the socket."""

    def __init__(self, configuration, channel):
        self.configuration = configuration
        self.channel = channel
        self.children = []
        self.unread = b""
        self.root = None
        self.turns = []

    def send(self, **message):
        self.channel.sendall((json.dumps(message) + "\n").encode())

    def start(self):
        """Imports what the configuration names. Returns whether that worked."""
        started = os.getpid()
        stage = "homefree"
        import importlib

        finder = importlib.import_module(self.configuration["package"] + "._finder")
        try:
            if self.configuration["first"]:
                finder.load_homefree()
            stage = "beside"
            for path in self.configuration["beside"]:
                import ctypes

                loaded = ctypes.CDLL(path)
                with contextlib.suppress(AttributeError):
                    self.turns.append(loaded.homefree_hidden_turn)
            stage = "module"
            finder.find_file(self.configuration["module"], self.configuration["path"])
            self.root = self.configuration["module"]
            importlib.import_module(self.root)
            stage = "host"
            if os.getpid() == started:
                _open_standard_streams()
                facts = self.facts()
        except BaseException as error:
            if os.getpid() != started:
                os._exit(1)
            self.send(
                ready=False,
                stage=stage,
                kind=type(error).__name__,
                error=_describe(error),
            )
            return False
        if os.getpid() != started:  # the module forked, and this is the child
            os._exit(0)
        self.send(ready=True, **facts)
        return True

    def facts(self):
        file = None
        with contextlib.suppress(Exception):  # whatever the module has put there
            file = getattr(sys.modules[self.root], "__file__", None)
        return {
            "homefree": _loaded("libhomefree"),
            "file": file if isinstance(file, str) else None,
            "python": sys.version.split()[0],
            "threads": len(os.listdir("/proc/self/task")),
        }

    def loop(self):
        """Serves requests. Returns a function to call in a process that is to run one."""
        while True:
            now = time.monotonic()
            for child in list(self.children):
                if now > child.end and not child.timed_out:
                    child.timed_out = True
                    child.kill_group()
                answer = child.reap()
                if answer is not None:
                    self.children.remove(child)
                    self.send(**answer)
            readable = self.wait(now)
            for child in self.children:
                for descriptor in child.pipes:
                    if descriptor in readable:
                        child.drain(descriptor)
            if self.channel.fileno() in readable:
                more = self.channel.recv(1 << 20)
                if not more:
                    for child in self.children:
                        child.kill_group()
                    os._exit(0)
                *lines, self.unread = (self.unread + more).split(b"\n")
                for line in lines:
                    request = json.loads(line)
                    if "warm" in request:
                        self.warm(request)
                        continue
                    work = self.fork(request)
                    if work is not None:
                        return work

    def wait(self, now):
        polled = select.poll()
        polled.register(self.channel, select.POLLIN)
        first = None
        for child in self.children:
            for descriptor in child.pipes:
                polled.register(descriptor, select.POLLIN)
            if child.watch is not None:
                polled.register(child.watch, select.POLLIN)
            else:
                first = now + 0.005
            if not child.timed_out:
                first = min(first or child.end, child.end)
        timeout = None if first is None else max(0, int((first - now) * 1000) + 1)
        events = polled.poll(timeout)
        ended = {
            descriptor
            for child in self.children
            for descriptor in child.pipes
            for found, event in events
            if found == descriptor and not event & select.POLLIN
        }
        if ended and len(ended) == len(events):
            time.sleep(0.001)  # pipes that were closed early; wait for the process itself
        return {descriptor for descriptor, event in events if event & select.POLLIN}

    def warm(self, request):
        """Imports what the crossings import, so that not each process has to."""
        import importlib

        for name in request["warm"]:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        self.send(id=request["id"])

    def fork(self, request):
        """Starts a process. Returns what it is to call, in that process, else None."""
        result_read, result_write = os.pipe()
        output_read, output_write = os.pipe()
        with contextlib.suppress(Exception):  # the module may have put anything there
            sys.stdout.flush()
        gc.freeze()  # processes need not look at, and so copy, what is here; see _cells.run()
        pid = os.fork()
        if pid != 0:
            with contextlib.suppress(OSError):
                os.setpgid(pid, pid)
            for descriptor in (result_write, output_write):
                os.close(descriptor)
            for descriptor in (result_read, output_read):
                os.set_blocking(descriptor, False)
            self.children.append(_Child(request, pid, result_read, output_read))
            return None
        os.setpgid(0, 0)
        _die_with_parent()
        self.channel.close()
        for descriptor in (result_read, output_read):
            os.close(descriptor)
        for child in self.children:
            for descriptor in (*child.pipes, child.watch):
                if descriptor is not None:
                    os.close(descriptor)
        os.dup2(output_write, 1)
        os.dup2(output_write, 2)
        os.close(output_write)
        with contextlib.suppress(OSError):
            os.chdir(self.configuration["directory"])
        return lambda: self.work(request, result_write)

    def work(self, request, result):
        import importlib

        package = self.configuration["package"]
        request["homefree"] = _loaded("libhomefree")
        request["path"] = self.configuration["path"]
        if "tries" in request:
            importlib.import_module(package + "._tries").run(request, self.root, result)
            os._exit(0)
        cells = importlib.import_module(package + "._cells")
        conditions = importlib.import_module(package + "._conditions")
        function, _ = conditions.CONDITIONS[request["condition"]]
        cells.run(cells.Cell(request, self.root, result), function)


def main():
    configuration = json.loads(sys.argv[1])
    sys.argv[1:] = []
    channel = socket.socket(fileno=configuration["channel"])
    channel.set_inheritable(False)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _enter_package(configuration["package"])
    sys.path[:] = configuration["sys_path"]
    import faulthandler
    import warnings

    # Without the C stack that 3.14 adds: libc's unwinder may wait for what the process has locked.
    faulthandler.enable(**({"c_stack": False} if sys.version_info >= (3, 14) else {}))
    warnings.filterwarnings("ignore", message=".*multi-threaded.*", category=DeprecationWarning)
    host = Host(configuration, channel)
    if not host.start():
        os._exit(0)
    import importlib

    # What the processes of requests need, loaded once for all of them.
    for name in ("_conditions", "_tries", "_unload"):
        with contextlib.suppress(ImportError):
            importlib.import_module(f"{configuration['package']}.{name}")
    damage = sys.modules[configuration["package"] + "._damage"]
    damage.turns += host.turns
    work = host.loop()
    del host
    work()


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ECONNRESET, errno.EBADF):
            raise
        os._exit(0)
