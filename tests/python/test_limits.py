"""A bounded region, and fork: arenas of pymalloc's that come and go cost no address space, and
functions registered with os.register_at_fork before homefree came use what they like while threads
allocate. Of 2 GiB, 560 MiB used to be left with CPython 3.9."""

import support


class Limits(support.TestCase):
    def test_arena_churn_costs_no_address_space(self):
        self.fine(
            """
            import gc, random
            homefree.install()
            heap = ctypes.CDLL("libhomefree.so.1")
            malloc = function(heap, "hf_malloc", pointer, size_t)
            release = function(heap, "hf_free", None, pointer)
            random.seed(1)
            for turn in range(3):
                chunks, blocks = [], []
                for i in range(160):
                    chunks.append([bytes(360) for _ in range(2700)])
                    if i % 3 == turn:
                        blocks.append(malloc(random.choice([40000, 300000, 700000])))
                random.shuffle(chunks)
                while chunks:
                    chunks.pop()
                random.shuffle(blocks)
                for block in blocks:
                    release(block)
                gc.collect()
            mebibytes = 0
            while malloc(1 << 20):
                mebibytes += 1
            assert mebibytes > 460, mebibytes
            """,
            HOMEFREE_CONF="region:512M",
        )

    def test_functions_registered_at_fork(self):
        self.fine(
            f"""
            import os, threading
            kept = []
            def use():
                kept.append([bytes(5000 * i) for i in range(40)])
                del kept[:-1]
            os.register_at_fork(before=use, after_in_parent=use, after_in_child=use)
            import homefree
            homefree.install(python={support.MODES[-1]!r})
            stop = False
            def allocate():
                while not stop:
                    use()
            threads = [threading.Thread(target=allocate) for _ in range(3)]
            for thread in threads:
                thread.start()
            for _ in range(10):
                child = os.fork()
                if child == 0:
                    use()
                    os._exit(0)
                assert os.waitpid(child, 0)[1] == 0
            stop = True
            for thread in threads:
                thread.join()
            """,
            prelude="",
        )


if __name__ == "__main__":
    support.main()
