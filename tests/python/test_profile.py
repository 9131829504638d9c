"""homefree.profile(): rows by stack, of Python's frames and of C's; what it says if it cannot."""

import unittest

import support


class Profile(support.TestCase):
    @support.without_gil
    def test_rows(self):
        self.fine(
            """
            homefree.install("full")
            def innermost(count):
                return [bytes(1000 + i) for i in range(count)]
            def outer():
                return innermost(20000)
            homefree.profile_begin(20000)
            kept = outer()
            homefree.profile_end()
            rows = homefree.profile()
            assert all(isinstance(row, homefree.ProfileRow) for row in rows)
            assert [row.bytes for row in rows] == sorted((row.bytes for row in rows), reverse=True)
            exact = sum(map(len, kept))
            names = [frame.function.rpartition(".")[2] for frame in rows[0].python]
            assert "innermost" in names and "outer" in names, rows[0]
            assert all(frame.file and frame.line for frame in rows[0].python), rows[0]
            mine = [row for row in rows if row.bytes > exact / 50]
            assert abs(sum(row.bytes for row in mine) / exact - 1) < 0.1, (exact, rows)
            assert abs(sum(row.blocks for row in mine) / len(kept) - 1) < 0.1, rows
            for row in mine:
                assert row.samples > 10 and row.object, row
                assert all(frame.address for frame in row.native), row
            del kept
            assert sum(row.bytes for row in homefree.profile()) < exact / 20
            """
        )

    def test_numpy_is_who_asked(self):
        self.fine(
            """
            homefree.install()
            homefree.profile_begin(4096)
            try:
                import numpy
            except ImportError:
                numpy = None
            arrays = [numpy.empty(5000) for _ in range(100)] if numpy else []
            rows = homefree.profile()
            homefree.profile_end()
            if numpy and rows[0].native:
                assert "numpy" in rows[0].object, rows[0]
                assert abs(rows[0].bytes / 4_000_000 - 1) < 0.1, rows[0]
            """
        )

    def test_what_is_wrong_is_said(self):
        self.fine(
            """
            def refused(error, function, *arguments):
                try:
                    function(*arguments)
                except error as caught:
                    return str(caught)
                raise AssertionError(function)
            assert homefree.profile() == []
            assert "profile_begin() first" in refused(RuntimeError, homefree.profile_end)
            refused(ValueError, homefree.profile_begin, 0)
            refused(TypeError, homefree.profile_begin, "512K")
            refused(OverflowError, homefree.profile_begin, -1)
            homefree.profile_begin()
            assert "profile_end() first" in refused(RuntimeError, homefree.profile_begin)
            homefree.profile_end()
            """
        )

    @support.without_gil
    def test_threads(self):
        self.fine(
            """
            import threading
            homefree.install("full")
            homefree.profile_begin(500)
            over = threading.Event()
            def work():
                while not over.is_set():
                    [bytearray(i) for i in range(600, 700)]
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for _ in range(50):
                homefree.profile()
                homefree.profile_end()
                homefree.profile_begin(700)
            over.set()
            for thread in threads:
                thread.join()
            homefree.profile_end()
            """
        )


if __name__ == "__main__":
    unittest.main()
