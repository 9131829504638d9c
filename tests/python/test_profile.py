"""homefree.profile(): rows by stack, of Python's frames and of C's; what it says if it cannot."""

import unittest

import support

ROWS = """
homefree.install("MODE")
def innermost(count):
    return [MAKE(1000 + i) for i in range(count)]
def outer():
    return innermost(20000)
homefree.profile_begin(20000)
kept = outer()
homefree.profile_end()
rows = homefree.profile()
assert all(isinstance(row, homefree.ProfileRow) for row in rows)
assert [row.bytes for row in rows] == sorted((row.bytes for row in rows), reverse=True)
exact = sum(range(1000, 21000))
names = [frame.function.rpartition(".")[2] for frame in rows[0].python]
assert "innermost" in names and "outer" in names, rows[0]
assert all(frame.file and frame.line for frame in rows[0].python), rows[0]
mine = [row for row in rows if row.bytes > exact / 50]
assert abs(sum(row.bytes for row in mine) / exact - 1) < 0.1, (exact, rows)
assert abs(sum(row.blocks for row in mine) / len(kept) - 1) < 0.1, rows
for row in mine:
    assert row.samples > 10 and row.object, row
    assert all(frame.address for frame in row.native), row
END
assert sum(row.bytes for row in homefree.profile()) < exact / 20
"""


class Profile(support.TestCase):
    def rows(self, **parts):
        code = ROWS
        for name, part in parts.items():
            code = code.replace(name, part)
        self.fine(code)

    @support.without_gil  # its objects are mimalloc's
    def test_rows(self):
        self.rows(MODE="full", MAKE="bytes", END="del kept")

    def test_rows_of_the_raw_domain(self):
        self.rows(MODE="arena", MAKE="raw_malloc", END="for block in kept: raw_free(block)")

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

    def test_threads(self):
        mode = support.MODES[-1]
        self.fine(
            f"""
            import threading
            homefree.install("{mode}")
            homefree.profile_begin(500)
            over = threading.Event()
            def work():
                while not over.is_set():
                    [bytearray(i) for i in range(600, 700)]
                    [raw_free(raw_malloc(i)) for i in range(600, 700)]
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
