"""install() and what goes on around it: threads, fork, and exit with live objects and threads."""

import sys
import textwrap

import support


class Case(support.TestCase):
    def fine_in_both_modes(self, code):
        """Calls fine() with `mode` set to each mode."""
        for mode in support.MODES:
            with self.subTest(mode=mode):
                self.fine(f"mode = {mode!r}\n" + textwrap.dedent(code))


class Threads(Case):
    def test_install_from_many(self):
        self.fine_in_both_modes(
            """
            barrier = threading.Barrier(8)
            states, stop = [], threading.Event()
            def work():
                barrier.wait()
                for _ in range(50):
                    states.append(homefree.install(mode))
                    churn(50)
            def allocate():
                # Allocates in the RAW domain, without the GIL, while the hooks are being written.
                malloc = function(bare, "PyMem_RawMalloc", pointer, size_t)
                release = function(bare, "PyMem_RawFree", None, pointer)
                barrier.wait()
                while not stop.is_set():
                    for block in [malloc(size) for size in range(1, 3000, 50)]:
                        release(block)
            others = started(2, allocate)
            joined(started(6, work))
            stop.set()
            joined(others)
            in_force = "raw" if "t" in sys.abiflags else mode
            assert len(set(states)) == 1 and states[0].python == in_force
            """
        )

    def test_install_waits_detached(self):
        """While install() calls CPython's allocators, its thread may have to wait for the GIL: in
        PyMem_SetAllocator() since 3.13, here in a hook that another tool has put on top. Another
        thread that calls install() meanwhile must not keep the GIL."""
        self.fine(
            """
            import faulthandler
            faulthandler.dump_traceback_later(30, exit=True)
            MALLOC = ctypes.CFUNCTYPE(pointer, pointer, size_t)
            class Allocator(ctypes.Structure):
                _fields_ = [("ctx", pointer), ("malloc", MALLOC)] + [
                    (name, pointer) for name in ("calloc", "realloc", "free")]
            get = function(python, "PyMem_GetAllocator", None, ctypes.c_int, pointer)
            set = function(python, "PyMem_SetAllocator", None, ctypes.c_int, pointer)
            homefree.install()
            ours, hooked = Allocator(), Allocator()
            get(0, ctypes.byref(ours))
            get(0, ctypes.byref(hooked))
            address = ctypes.cast(ours.malloc, pointer).value
            malloc = ctypes.PYFUNCTYPE(pointer, pointer, size_t)(address)  # keeps the GIL
            inside, both = threading.Event(), threading.Event()
            @MALLOC
            def hook(context, size):
                if size == 1 and threading.current_thread() is first and not inside.is_set():
                    inside.set()
                    both.wait()
                return malloc(context, size)
            hooked.malloc = hook
            first = threading.Thread(target=homefree.install)
            set(0, ctypes.byref(hooked))
            sys.setswitchinterval(100)
            first.start()
            inside.wait()
            both.set()
            homefree.install()
            first.join()
            set(0, ctypes.byref(ours))
            """
        )

    def test_install_and_uninstall(self):
        self.fine(
            """
            import itertools
            numbers = itertools.count()
            def work():
                number = next(numbers)
                for _ in range(100):
                    (homefree.install if number % 2 else homefree.uninstall)()
                    keep = [str(i) for i in range(3000)], bytearray(5000), raw_malloc(100)
                    raw_free(keep[2])
            joined(started(4, work))
            """
        )


class Forks(Case):
    def test_fork(self):
        for when in ("before", "after"):
            with self.subTest(when=when):
                self.fine(
                    f"""
                    mode = {support.MODES[-1]!r}
                    keep = [str(i) for i in range(50000)]
                    if {when!r} == "after":
                        homefree.install()
                    pids = []
                    for _ in range(5):
                        pid = os.fork()
                        if pid == 0:
                            homefree.install()
                            assert kind(raw_malloc(10)) == "heap"
                            del keep
                            churn()
                            homefree.install(mode)
                            churn()
                            sys.exit(0)
                        pids.append(pid)
                    for pid in pids:
                        assert os.waitpid(pid, 0)[1] == 0
                    assert churn() == 80000
                    """
                )

    def test_fork_beside_threads(self):
        self.fine(
            """
            homefree.install()
            stop = threading.Event()
            def work():
                while not stop.is_set():
                    homefree.install()
                    churn(200)
            threads = started(3, work)
            for _ in range(20):
                pid = os.fork()
                if pid == 0:
                    homefree.install()
                    churn(200)
                    os._exit(0)
                assert os.waitpid(pid, 0)[1] == 0
            stop.set()
            joined(threads)
            """
        )


class Exits(Case):
    def test_live_objects(self):
        self.fine_in_both_modes(
            """
            class Node:
                def __del__(self):
                    self.more = [str(i) for i in range(100)]
            early = [Node() for _ in range(1000)]
            early[0].ring = early
            homefree.install(mode)
            late = [Node() for _ in range(20000)]
            late[0].ring = late
            import builtins
            builtins.keep = late[:100]
            """
        )

    def test_daemon_threads(self):
        self.fine_in_both_modes(
            """
            homefree.install(mode)
            started = threading.Barrier(5)
            def work():
                started.wait()
                while True:
                    churn(100)
            for _ in range(4):
                threading.Thread(target=work, daemon=True).start()
            started.wait()
            """
        )

    def test_exit_in_a_thread(self):
        self.fine(
            """
            homefree.install()
            thread = threading.Thread(target=churn)
            thread.start()
            """
        )


if __name__ == "__main__":
    sys.exit(support.main())
