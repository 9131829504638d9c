"""The page of `homefree memory --html` in a real browser, headless: it shows what the document
says, runs nothing of the data, asks nothing of a network, and everybody can read it.

Usage: test_memory_page.py REPORT.HTML COMMAND-PACKAGE [unittest arguments]. Without chromium, its
driver or selenium, the exit status is 77.
"""

import sys
import unittest

import test_page as browser  # takes its argument off the command line

sys.path.insert(0, sys.argv.pop(1))
from command.memory_page import page  # noqa: E402

HOSTILE = "</script><script>document.title = 'run'</script>\"'\x1b[31m"
MIB = 1 << 20

setUpModule = browser.setUpModule


def row(allocator, path, resident, live=None, free=None, books=None):
    return {
        "allocator": allocator,
        "object": path,
        "wheel": None,
        "resident": resident * MIB,
        "live": live and live * MIB,
        "free": free and free * MIB,
        "books": books and books * MIB,
        "how": "mapped" if live is None else "counted",
    }


def rest(kind, path, resident):
    return {"kind": kind, "object": path, "wheel": None, "resident": resident * MIB}


def stack(bytes_, *functions):
    python = [[name, "work.py", 7] for name in reversed(functions)]
    return {
        "object": "/lib/libpython3.so",
        "bytes": bytes_ * MIB,
        "blocks": 3,
        "samples": 3,
        "python": python,
        "native": [["/lib/libpython3.so", None, 1]],
    }


def document(asked=True):
    return {
        "homefree_memory": 1,
        "pid": 7,
        "program": f"/usr/bin/{HOSTILE}",
        "time": 1.0,
        "resident": 100 * MIB,
        "attributed": 0.97,
        "swapped": MIB,
        "page_tables": MIB,
        "peak": 120 * MIB,
        "unreadable": False,
        "rows": [
            row("homefree", None, 50, 30, 15, 5),
            row("jemalloc", "/x/libarrow.so", 20),
            row(None, f"/x/{HOSTILE}", 10),
        ],
        "rest": [
            rest("code", "/lib/libone.so", 9),
            rest("code", f"/lib/{HOSTILE}", 6),
            rest("stack", None, 2),
            rest("unknown", None, 3),
        ],
        "asked": [stack(30, "main", "outer", HOSTILE), stack(10, "main", "other")] * asked,
    }


class Page(browser.InBrowser):
    def open(self, **more):
        path = self.directory / "memory.html"
        path.write_bytes(page(document(**more)))
        self.browser.get(path.as_uri())

    def test_what_it_says(self):
        self.open()
        self.assertTrue(self.text("h1").startswith("homefree memory: "))
        self.assertIn("100.0 MiB resident; homefree has 50.0 MiB of it (50.0 %)", self.text("h2"))
        self.assertEqual(
            self.texts(".tile .number"),
            ["100.0 MiB", "120.0 MiB", "97.0 %", "30.0 MiB", "15.0 MiB", "1.0 MiB", "1.0 MiB"],
        )
        sizes = self.texts("#rows tbody td:first-child")
        self.assertEqual(sizes, [f"{n}.0 MiB" for n in (50, 20, 15, 10, 3, 2)])
        self.assertEqual(len(self.all("#map .group")), 6)
        areas = [
            one.size["width"] * one.size["height"] for one in self.all("#map .group.allocator")
        ]
        self.assertAlmostEqual(areas[0] / areas[1], 50 / 20, delta=0.2)

    def test_flame_graph(self):
        self.open()
        names = self.texts("#flame button")
        self.assertEqual(names[:3], ["all", "work.py", "main (work.py:7)"])
        self.assertEqual(len(names), 6)
        self.all("#flame button")[3].click()
        self.assertTrue(self.text("#said").startswith("outer (work.py:7): 30.0 MiB (75.0 %)"))
        self.assertEqual(len(self.all("#flame button.above")), 3)
        self.assertEqual(len(self.all("#flame button")), 5)
        self.one("#search").send_keys("outer")
        unmatched = "#flame button.unmatched"
        self.until(lambda: len(self.all(unmatched)) == 4, "the search began")

    def test_without_a_profile(self):
        self.open(asked=False)
        self.assertFalse(self.one("#asking").is_displayed())
        self.assertFalse(self.one("#search").is_displayed())

    def test_hostile_text(self):
        self.open()
        self.assertTrue(self.browser.title.startswith("homefree memory: "))
        self.assertNotIn("\x1b", self.text("body"))
        self.assertEqual(len(self.all("script")), 2)

    def test_contrast_and_width(self):
        self.open()
        for scheme in ("light", "dark"):
            self.media(scheme)
            self.assertEqual(self.script(browser.FAINT), [], scheme)
        for width in (1280, 390):
            self.screen(width, 800)
            for beyond in ("document.documentElement", "document.querySelector('.scroll')"):
                wide = f"return {beyond}.scrollWidth - {beyond}.clientWidth"
                # The map is drawn anew after the change of width.
                self.until(
                    lambda wide=wide: self.script(wide) <= 0, f"nothing is beyond {width} pixels"
                )


if __name__ == "__main__":
    if browser.webdriver is None or not browser.CHROMIUM or not browser.DRIVER:
        sys.exit(browser.SKIPPED)
    unittest.main(verbosity=2)
