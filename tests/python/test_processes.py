"""install() and what goes on around it: threads, fork, and exit with live objects and threads."""

import sys

import support


class Threads(support.TestCase):
    def test_install_from_many(self):
        for mode in ("arena", "full"):
            with self.subTest(mode=mode):
                self.fine(
                    f"""
                    barrier = threading.Barrier(8)
                    states, stop = [], threading.Event()
                    def work():
                        barrier.wait()
                        for _ in range(50):
                            states.append(homefree.install({mode!r}))
                            churn(50)
                    def allocate():
                        # RAW, without the GIL, while the hooks are written.
                        malloc = function(bare, "PyMem_RawMalloc", pointer, size_t)
                        release = function(bare, "PyMem_RawFree", None, pointer)
                        barrier.wait()
                        while not stop.is_set():
                            for block in [malloc(size) for size in range(1, 3000, 50)]:
                                release(block)
                    threads = [threading.Thread(target=work) for _ in range(6)]
                    others = [threading.Thread(target=allocate) for _ in range(2)]
                    for thread in threads + others:
                        thread.start()
                    for thread in threads:
                        thread.join()
                    stop.set()
                    for thread in others:
                        thread.join()
                    assert len(set(states)) == 1 and states[0].python == {mode!r}
                    """
                )

    def test_install_and_uninstall(self):
        self.fine(
            """
            def work(number):
                for _ in range(100):
                    (homefree.install if number % 2 else homefree.uninstall)()
                    keep = [str(i) for i in range(3000)], bytearray(5000), raw_malloc(100)
                    raw_free(keep[2])
            threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            """
        )


class Forks(support.TestCase):
    def test_fork(self):
        for when in ("before", "after"):
            with self.subTest(when=when):
                self.fine(
                    f"""
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
                            homefree.install("full")
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
            threads = [threading.Thread(target=work) for _ in range(3)]
            for thread in threads:
                thread.start()
            for _ in range(20):
                pid = os.fork()
                if pid == 0:
                    homefree.install()
                    churn(200)
                    os._exit(0)
                assert os.waitpid(pid, 0)[1] == 0
            stop.set()
            for thread in threads:
                thread.join()
            """
        )


class Exits(support.TestCase):
    def test_live_objects(self):
        for mode in ("arena", "full"):
            with self.subTest(mode=mode):
                self.fine(
                    f"""
                    class Node:
                        def __del__(self):
                            self.more = [str(i) for i in range(100)]
                    early = [Node() for _ in range(1000)]
                    early[0].ring = early
                    homefree.install({mode!r})
                    late = [Node() for _ in range(20000)]
                    late[0].ring = late
                    import builtins
                    builtins.keep = late[:100]
                    """
                )

    def test_daemon_threads(self):
        for mode in ("arena", "full"):
            with self.subTest(mode=mode):
                self.fine(
                    f"""
                    homefree.install({mode!r})
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
