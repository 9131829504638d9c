"""The page of `homefree test --html` in a real browser, headless: it shows what the document says,
runs nothing of the data, asks nothing of a network, and everybody can read and use it. The JUnit
file of the same run is read as well.

usage: test_harness_page.py REPORT.HTML COMMAND PACKAGE-DIRECTORY MODULES-DIRECTORY
[unittest's arguments]
Without chromium, its driver or selenium, the exit status is 77.
"""

import pathlib
import sys
import unittest
from xml.etree import ElementTree

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "report/html")]
# Each takes its arguments off the command line, in this order.
import test_page as browser  # noqa: E402, I001
import harness  # noqa: E402

HOSTILE = "</script><script>document.title = 'run'</script>&#10;\"'\x1b[31m"


setUpModule = browser.setUpModule


class Page(browser.InBrowser):
    @classmethod
    def setUpClass(cls):
        cls.page, cls.junit = cls.directory / "test.html", cls.directory / "test.xml"
        cls.scripted = cls.directory / "hostile.py"
        cls.scripted.write_text(f"import echoes\nechoes.echo({HOSTILE!r})\n", encoding="utf-8")
        (cls.directory / "echoes.py").write_text("def echo(text):\n    return text\n")
        cls.done = harness.run(
            *("faulty", "--only", "s() / *e* thread / without", "-j", "4"),
            *("--html", str(cls.page), "--junit", str(cls.junit)),
        )

    def test_result(self):
        self.assertEqual(self.done.returncode, 1, self.done.stderr)

    def show_page(self):
        self.browser.get(self.page.as_uri())

    def test_what_it_says(self):
        self.show_page()
        self.assertEqual(self.text("h1"), "homefree test: faulty")
        self.assertRegex(
            self.text(".verdict"), r"^\d+ of 8 cells have a finding, in \d+ crossings\.$"
        )
        numbers = [int(text) for text in self.texts(".tile .number")]
        cells = len(self.all("td[data-detail]"))
        self.assertEqual(sum(numbers), cells)
        self.assertEqual(len(self.all("td.died")), numbers[1])
        self.assertEqual(len(self.all("td.leaked")), numbers[2])
        results = self.texts(".group .badge")
        self.assertEqual(results, sorted(results, key=["died", "leaked", "timed out"].index))
        self.assertEqual(len(self.all(".group[open]")), 1, "the worst")
        self.script("for (const group of document.querySelectorAll('.group')) group.open = true")
        words = " ".join(self.texts(".group"))
        self.assertRegex(words, r"diedfaulty\.dies_always\(\)\d causes? · \d cells?died, SIGABRT ")
        self.assertIn("bytes stay behind", words)
        self.assertFalse(self.one("#notes").is_displayed())

    def test_filters(self):
        self.show_page()
        everything = len(self.all("tbody"))
        self.one("#bad").click()
        shown = self.all("tbody:not([hidden])")
        self.assertLess(len(shown), everything)
        self.assertEqual({one.get_attribute("data-bad") for one in shown}, {"1"})
        self.one("#search").send_keys("leaks")
        only = ["faulty.leaks() capsule"]
        self.until(lambda: self.texts("tbody:not([hidden]) .crossing") == only, "the search began")
        self.assertEqual(self.texts(".group:not([hidden]) h3"), ["faulty.leaks()"])
        self.press(browser.Keys.ESCAPE)
        self.assertEqual(len(self.all(".group[hidden]")), 0)

    def test_keyboard(self):
        self.show_page()
        self.one("#bad").click()
        self.press(browser.Keys.TAB)
        focused = self.script("return document.activeElement.getAttribute('aria-label')")
        self.assertIn("faulty.dies_always(), same thread: died", focused)
        self.press(browser.Keys.ARROW_RIGHT)
        self.assertIn("faulty.dies_always(), other thread: died", self.text("#detail"))
        self.assertIn("double free", self.text("#detail"))
        self.press(browser.Keys.ARROW_DOWN)
        self.assertIn(", other thread: ", self.text("#detail"))
        self.assertNotIn("dies_always", self.text("#detail"))
        self.assertEqual(len(self.all("td[tabindex='0']")), 1)
        self.assertEqual(len(self.all("td[aria-selected]")), 1)

    def test_contrast_and_width(self):
        self.show_page()
        for scheme in ("light", "dark"):
            self.media(scheme)
            self.assertEqual(self.script(browser.FAINT), [])
        for width in (1280, 390):
            self.screen(width, 800)
            for beyond in ("document.documentElement", "document.querySelector('.scroll')"):
                wide = f"return {beyond}.scrollWidth - {beyond}.clientWidth"
                self.assertLessEqual(self.script(wide), 0, width)

    def test_hostile_text(self):
        page, junit = self.directory / "hostile.html", self.directory / "hostile.xml"
        done = harness.run(
            *("echoes", "--script", str(self.scripted), "--only", "/ same thread / without"),
            *("--html", str(page), "--junit", str(junit)),
            directory=self.directory,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.browser.get(page.as_uri())
        self.assertEqual(self.browser.title, "homefree test: echoes")
        self.assertIn("</script><script>document", self.text(".crossing"))
        (case,) = ElementTree.parse(junit).iter("testcase")
        self.assertIn("</script>", case.get("classname"))

    def test_junit(self):
        root = ElementTree.parse(self.junit).getroot()
        cases = list(root.iter("testcase"))
        self.assertEqual(int(root.get("tests")), len(cases))
        failures = list(root.iter("failure"))
        self.assertEqual(int(root.get("failures")), len(failures))
        self.assertIn("died SIGABRT", {one.get("type") for one in failures})
        self.assertIn("leaked", {one.get("type") for one in failures})


if __name__ == "__main__":
    if browser.webdriver is None or browser.CHROMIUM is None or browser.DRIVER is None:
        print("needs chromium, chromium-driver and python3-selenium")
        sys.exit(browser.SKIPPED)
    unittest.main()
