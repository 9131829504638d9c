"""homefree.on_pressure() under a real cgroup's limit, and install(background=True)."""

import pathlib
import sys

import support

sys.path.insert(0, str(pathlib.Path(support.__file__).resolve().parents[1] / "support"))
from cgroups import cgroup

LIMIT = 512 << 20
# Joins the cgroup, and takes more than a hundredth of its limit there: what it had is not counted.
INSIDE = """
open(os.environ["CGROUP"] + "/cgroup.procs", "w").write(str(os.getpid()))
kept = bytearray(16 << 20)
called = threading.Event()
calls = []
def note(rows, pressure):
    calls.append((rows, pressure))
    called.set()
"""


class Pressure(support.TestCase):
    def inside(self, code, **environment):
        with cgroup(LIMIT) as made:
            self.fine(
                code,
                prelude=support.PRELUDE + INSIDE,
                CGROUP=str(made.directory),
                **environment,
            )

    def test_what_a_callback_is_told(self):
        self.inside(
            f"""
            handle = homefree.on_pressure(note, at=0.01)
            assert called.wait(20)
            rows, pressure = calls[0]
            assert rows[0].allocator == "CPython" and rows[-1].how == "malloc_trim", rows
            assert isinstance(pressure, homefree.Pressure)
            assert pressure.limit == {LIMIT} and {LIMIT} // 100 <= pressure.usage <= {LIMIT}
            assert pressure.stalled in (False, True)
            assert all(thread.daemon for thread in threading.enumerate()[1:])
            """
        )

    def test_far_from_the_limit_it_is_not_called(self):
        self.inside(
            """
            handle = homefree.on_pressure(note)
            second = homefree.on_pressure(lambda rows, pressure: called.set(), at=0.01)
            assert called.wait(20)
            assert not calls or calls[0][1].stalled
            """
        )

    def test_after_cancel_it_is_not_called(self):
        self.inside(
            """
            handle = homefree.on_pressure(note, at=1.0)
            (thread,) = threading.enumerate()[1:]
            handle.cancel()
            handle.cancel()
            thread.join(10)
            assert not thread.is_alive()
            handles = [homefree.on_pressure(note, at=1.0) for _ in range(16)]
            for each in handles:
                each.cancel()
            """
        )

    def test_a_callback_may_fail_and_cancel(self):
        self.inside(
            """
            failed, made = threading.Event(), threading.Event()
            threading.excepthook = lambda told: (calls.append(told.exc_value), failed.set())
            def fail(rows, pressure):
                assert made.wait(10)
                handle.cancel()
                raise KeyError("cache")
            handle = homefree.on_pressure(fail, at=0.01)
            made.set()
            assert failed.wait(20)
            assert repr(calls) == "[KeyError('cache')]"
            """
        )

    def test_a_forked_child_is_told_too(self):
        self.inside(
            """
            handle = homefree.on_pressure(note, at=0.01)
            assert called.wait(20)
            called.clear()
            child = os.fork()
            if child == 0:
                os._exit(0 if called.wait(20) else 1)
            assert os.waitpid(child, 0)[1] == 0
            """
        )

    def test_what_is_wrong_is_said(self):
        self.fine(
            """
            for wrong, error in ((None, TypeError), (print, ValueError)):
                try:
                    homefree.on_pressure(wrong, at=0)
                except error as raised:
                    assert "on_pressure()" in str(raised)
                else:
                    raise AssertionError(wrong)
            """
        )
        self.fine(
            """
            for call in (
                lambda: homefree.on_pressure(print),
                lambda: homefree.install(background=True),
            ):
                try:
                    call()
                except RuntimeError as raised:
                    assert "background:off" in str(raised)
                else:
                    raise AssertionError(call)
            """,
            HOMEFREE_CONF="background:off",
        )


class Background(support.TestCase):
    THREADS = """
def names():
    return [open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")]
"""

    def test_nobody_is_there_unasked(self):
        self.fine(
            self.THREADS
            + """
homefree.install()
homefree.trim()
assert len(names()) == 1, names()
"""
        )

    def test_install_starts_it(self):
        self.fine(
            self.THREADS
            + """
import time
homefree.install(background=True)
homefree.install(background=True)
end = time.monotonic() + 10
while "homefree\\n" not in names() and time.monotonic() < end:
    time.sleep(0.01)
assert names().count("homefree\\n") == 1 and len(names()) == 2, names()
assert threading.active_count() == 1
"""
        )


if __name__ == "__main__":
    support.main()
