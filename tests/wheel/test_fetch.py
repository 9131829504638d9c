"""subprojects/fetch.py: archives of others are fetched whole and right, or missed in one line; and
nothing else is left behind.

usage: test_fetch.py SOURCE-DIRECTORY [unittest's arguments]
"""

import hashlib
import http.server
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1))
DATA = b"an archive"
WRAP = """[wrap-file]
directory = thing-1
source_url = {url}
source_filename = thing_1.tar.gz
source_hash = {hash}
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(DATA)

    def log_message(self, *words):
        pass


class Fetch(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = pathlib.Path(work.name)
        shutil.copy2(SOURCE / "subprojects/fetch.py", self.work)
        self.cache = self.work / "packagecache"
        # apt is asked, and has no archives.
        none = 'Dir::Etc::SourceList "/dev/null"; Dir::Etc::SourceParts "/dev/null";'
        (self.work / "apt.conf").write_text(none)

    def wrap(self, url, data=DATA, name="thing"):
        text = WRAP.format(url=url, hash=hashlib.sha256(data).hexdigest())
        (self.work / f"{name}.wrap").write_text(text.replace("thing", name))

    def served(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}/thing"

    def fetch(self, *names):
        left_out = ("MESON_PACKAGE_CACHE_DIR", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
        env = {name: text for name, text in os.environ.items() if name not in left_out}
        env["APT_CONFIG"] = str(self.work / "apt.conf")
        command = [sys.executable, self.work / "fetch.py", *names]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)

    def assert_missed(self, why):
        done = self.fetch()
        self.assertEqual(done.returncode, 1, done.stderr)
        *_, last = done.stderr.splitlines()
        for text in ("cannot fetch thing_1.tar.gz", why, str(self.cache), "source archive"):
            self.assertIn(text, last)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual([path for path in self.work.rglob("*") if path.parent == self.cache], [])

    def test_what_cannot_be_reached(self):
        self.wrap("http://127.0.0.1:1/thing")
        self.assert_missed("Connection refused")

    def test_what_is_something_else(self):
        self.wrap(self.served(), b"another archive")
        self.assert_missed("another hash")

    def test_what_is_right_is_fetched_once(self):
        self.wrap(self.served())
        self.assertEqual(self.fetch().returncode, 0)
        (kept,) = self.cache.iterdir()
        self.assertEqual((kept.name, kept.read_bytes()), ("thing_1.tar.gz", DATA))
        self.wrap("http://127.0.0.1:1/thing")
        done = self.fetch()
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_what_is_unpacked_or_not_asked_for_is_not_fetched(self):
        self.wrap("http://127.0.0.1:1/thing")
        self.wrap("http://127.0.0.1:1/other", name="other")
        (self.work / "thing-1").mkdir()
        self.assertEqual(self.fetch("thing").returncode, 0)
        self.assertFalse(self.cache.exists())

    def test_a_name_that_is_no_wrap(self):
        self.wrap("http://127.0.0.1:1/thing")
        done = self.fetch("other")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^homefree: there is no \S+other\.wrap \(but thing\)\n$")

    def test_a_cache_that_cannot_be_written(self):
        self.wrap(self.served())
        self.cache.write_text("a file")
        done = self.fetch()
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^homefree: cannot fetch thing_1\.tar\.gz \(.*\n$")


if __name__ == "__main__":
    unittest.main()
