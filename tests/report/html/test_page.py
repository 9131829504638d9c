"""The page of `homefree report --html` in a real browser, headless: what it shows of large, empty,
broken and hostile documents; that it asks nothing of a network and runs nothing of the data; that
everybody can read and use it.

Usage: test_page.py REPORT.HTML [unittest arguments]. Without chromium, its driver or selenium, the
exit status is 77.
"""

import http.server
import os
import shutil
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import reports

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    webdriver = None

SKIPPED = 77
TEMPLATE = reports.template(Path(sys.argv.pop(1)).resolve())
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver", path=os.environ.get("PATH", "") + ":/usr/lib/chromium")

# All text that can be seen whose contrast with what lies behind it is below 4.5, as WCAG counts it.
FAINT = """
    const channel = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const parse = (text) => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
    const behind = (element) => {
        for (let e = element; e; e = e.parentElement) {
            const colour = parse(getComputedStyle(e).backgroundColor);
            if (colour[3] !== 0) return colour;
        }
        return [255, 255, 255];
    };
    return [...document.querySelectorAll('body *')].filter((element) =>
        element.checkVisibility() && !element.closest('.unseen') &&
        [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== ''))
    .map((element) => {
        const style = getComputedStyle(element);
        const [a, b] = [light(parse(element.ownerSVGElement ? style.fill : style.color)),
            light(behind(element))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        const name = `${element.tagName}.${element.getAttribute('class')}`;
        return [ratio, `${name}: ${element.textContent.slice(0, 30)}`];
    }).filter(([ratio]) => ratio < 4.5);
"""

# What can be operated and is not hidden. Of the matrix, one cell alone is reached by Tab.
OPERABLE = (
    "a[href], button, input, select, summary, [tabindex='0']:not(.heat *), .heat [tabindex='0']"
)


class Counting(http.server.BaseHTTPRequestHandler):
    """Whoever asks this server for something has broken the page's promise."""

    asked = []

    def do_GET(self):
        self.asked.append(self.path)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *arguments):
        pass


def start_browser(profile):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (
        "--headless=new",
        # The sandbox wants a user of its own, which root in a container is not.
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--disable-background-networking",
        "--no-first-run",
        "--window-size=1280,900",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(DRIVER))


def setUpModule():
    """One browser for all tests: starting it takes longer than most of them."""
    tests, later = InBrowser, unittest.addModuleCleanup
    tests.directory = Path(tempfile.mkdtemp(prefix="homefree-test-page-"))
    later(shutil.rmtree, tests.directory, ignore_errors=True)
    tests.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Counting)
    later(tests.server.server_close)
    threading.Thread(target=tests.server.serve_forever, daemon=True).start()
    later(tests.server.shutdown)
    tests.address = f"http://127.0.0.1:{tests.server.server_port}"
    tests.browser = start_browser(tests.directory / "profile")
    later(tests.browser.quit)


class InBrowser(unittest.TestCase):
    """After each test, the console is empty and nothing was asked for."""

    def setUp(self):
        Counting.asked.clear()
        self.console_expected = False
        self.screen(1280, 900)
        self.media()
        for kind in ("browser", "performance"):
            self.browser.get_log(kind)

    def tearDown(self):
        self.assertEqual(Counting.asked, [], "the page asked a network for something")
        if not self.console_expected:
            self.assertEqual(self.browser.get_log("browser"), [], "the console is not empty")
        for entry in self.browser.get_log("performance"):
            # The browser's own first page may still be loading.
            if (
                '"Network.requestWillBeSent"' in entry["message"]
                and '"documentURL":"chrome:' not in entry["message"]
            ):
                self.assertRegex(entry["message"], r'"url":"(file|data):', "a request was made")

    def screen(self, width, height):
        self.browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )

    def media(self, scheme="light", medium=""):
        self.browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {
                "media": medium,
                "features": [{"name": "prefers-color-scheme", "value": scheme}],
            },
        )

    def show(self, document):
        path = self.directory / "page.html"
        path.write_text(reports.page(TEMPLATE, document), encoding="utf-8")
        self.browser.get(path.as_uri())

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector):
        """The text as it is written, whether or not it can be seen now."""
        return " ".join(self.one(selector).get_property("textContent").split())

    def texts(self, selector):
        return [" ".join(e.get_property("textContent").split()) for e in self.all(selector)]

    def read_aloud(self, selector):
        """[(name, role)] of elements for assistive technology. Selenium has calls for both only
        since 4.1, the browser since long."""
        ask = self.browser.execute_cdp_cmd
        root = ask("DOM.getDocument", {"depth": 0})["root"]["nodeId"]
        found = ask("DOM.querySelectorAll", {"nodeId": root, "selector": selector})["nodeIds"]
        trees = [
            ask("Accessibility.getPartialAXTree", {"nodeId": node, "fetchRelatives": False})
            for node in found
        ]
        return [
            tuple(tree["nodes"][0].get(what, {}).get("value", "") for what in ("name", "role"))
            for tree in trees
        ]

    def script(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def until(self, condition, what):
        WebDriverWait(self.browser, 20, 0.02).until(lambda _: condition(), what)

    def press(self, *keys):
        for key in keys:
            self.browser.switch_to.active_element.send_keys(key)

    def search(self, words):
        box = self.one("#search")
        box.clear()
        box.send_keys(words)
        terms = words.lower().split()
        self.until(lambda: self.script("return view.terms") == terms, "the search began")

    def open_all(self):
        """Opens every group and every site that is drawn."""
        self.script(
            "for (const kind of ['.group', '.site', '#pair-list'])"
            " for (const one of document.querySelectorAll(kind)) one.open = true"
        )
        self.until(
            lambda: self.script(
                "return [...document.querySelectorAll('.group')].every((g) => g.filled) &&"
                " [...document.querySelectorAll('.site')].every((s) => s.open && s.filled) ||"
                " (document.querySelectorAll('.site').forEach((s) => s.open = true), false)"
            ),
            "all is open",
        )


class Small(InBrowser):
    def setUp(self):
        super().setUp()
        self.show(reports.small())

    def test_summary(self):
        self.assertEqual(
            self.text(".verdict"), "3 errors, 1 warning and 1 note found in 3 processes."
        )
        self.assertEqual(self.texts(".tile .number"), ["3", "1", "1", "1,322,987", "758 MiB", "3"])
        self.assertEqual(
            self.texts(".gaps li"),
            [
                "1,200 events were not recorded, because there was no room for them.",
                "1 file is cut short or damaged; what could be read is shown.",
                "2 processes wrote no file, because the directory held as many as it may.",
                "1 process ran in the mode “count”, which looks for no faults.",
            ],
        )
        # What python3.11 freed of unknown origin is no crossing that is known.
        self.assertIn("51,911 blocks crossed", self.text("#summary"))

    def test_groups_worst_first(self):
        self.assertEqual(
            self.texts(".group h3"),
            ["foreign-free", "double-free", "array-new-delete", "boundary-leak"],
        )
        self.assertEqual(
            self.texts(".owners"),
            [
                "from jemalloc (libtabula.so.2) to libc (libc.so.6)",
                "from heap (libhomefree.so.1) to unknown",
                "from libc (libc.so.6) to libc (libc.so.6)",
                "from jemalloc (libtabula.so.2) to libgeometry.so",
            ],
        )
        self.assertEqual(self.texts(".group .sums")[0], "2 sites · 22 times · 67 KiB")

    def test_drill_down(self):
        self.assertEqual(self.all(".site"), [], "sites are drawn before they are looked at")
        self.one(".group summary").click()
        self.until(lambda: len(self.all(".site")) == 2, "the sites of the first group")
        self.assertEqual(self.all(".side"), [])
        self.one(".site summary").click()
        self.until(lambda: len(self.all(".side")) == 2, "both sides of the first site")
        allocated, freed = self.texts(".side")
        for words in ("je_tabula_mallocx", "table.cc:312", "tabula::ReadTable", "load_trips"):
            self.assertIn(words, allocated)
        for words in ("join_drop_table", "/srv/app/join.c:204"):
            self.assertIn(words, freed)
        self.assertIn("glibc would have aborted", self.text(".what"))
        whole = self.text(".whole")
        self.assertTrue(whole.startswith("What to do"), "the remedy comes first")
        places = [whole.index(word) for word in ("Without homefree", "called", "Python stack")]
        self.assertEqual(places, sorted(places))
        self.assertLess(whole.index("Python stack"), whole.index("Native stack"))

    def test_frames_that_tell_little_are_folded(self):
        self.open_all()
        sides = self.all(".site .side")[:2]
        for side, shown, folded, words in (
            (sides[0], ["#0", "#1"], "1 frame of the interpreter", "_PyEval_EvalFrameDefault"),
            (sides[1], ["#0"], "2 frames without a name", "fastjoin.so+0x5400"),
        ):
            stack = side.find_element(By.CSS_SELECTOR, "[aria-label='Native stack']")
            frames = stack.find_elements(By.CSS_SELECTOR, ":scope > li[data-number]")
            self.assertEqual([f"#{one.get_attribute('data-number')}" for one in frames], shown)
            self.assertNotIn(words, stack.get_property("textContent"))
            summary = stack.find_element(By.CSS_SELECTOR, ".folded summary")
            self.assertEqual(summary.text, folded)
            summary.click()
            self.until(lambda: words in stack.get_property("textContent"), words)  # noqa: B023

    def test_findings_come_first(self):
        """Seen without scrolling, also on a telephone; behind them what is not wrong."""
        for width, height in (1280, 900), (390, 844):
            self.screen(width, height)
            self.show(reports.small())
            self.assertLess(self.top("#groups"), height)
        order = [self.top(part) for part in ("#findings", "#matrix", "#numbers", "#timeline")]
        self.assertEqual(order, sorted(order))
        self.show({**reports.small(), "findings": reports.small()["findings"][:1]})
        self.assertLess(self.top(".remedy"), 2 * height)
        self.assertLess(self.top(".remedy"), self.top(".stack"))

    def test_findings_lead_to_their_page(self):
        """To homefree's own, and to nothing else that a document may name."""
        ours = "file:///a%20b/findings.html#report-foreign-free"
        for address in ours, "javascript:alert(1)//findings.html#report-x", "https://x/", None, 1:
            report = reports.small()
            report["findings"] = [{**report["findings"][0], "help": address}]
            self.show(report)
            links = self.all("#findings .what a")
            there = [link.get_attribute("href") for link in links]
            self.assertEqual(there, [ours] if address == ours else [])

    def top(self, selector):
        return self.script("return arguments[0].getBoundingClientRect().top", self.one(selector))

    def test_null_reads_unknown(self):
        self.open_all()
        freed = self.texts(".group:nth-child(2) .side")[1]
        self.assertEqual(
            freed.split("Python stack")[0],
            "Freed" + "".join(k + "unknown" for k in ("called", "in", "at", "object", "allocator")),
        )
        self.assertNotRegex(
            self.text("main"), r"\b(null|NaN|Infinity)\b|object Object|undefined(?! behaviour)"
        )

    def test_matrix(self):
        self.assertEqual(len(self.all(".heat tbody tr")), 8)
        self.assertEqual(
            self.texts(".heat thead th"),
            ["python3.11", "libtabula.so.2", "libgeometry.so", "fastjoin.so"],
        )
        # Two objects with one file name are told apart.
        rows = self.texts(".heat tbody th")
        self.assertIn("libstdc++.so.6 (x86_64-linux-gnu)", rows)
        self.assertIn("libstdc++.so.6 (lib)", rows)
        self.assertIn("unknown", rows)
        # The worst pair is shown first, with whole paths.
        self.assertIn("/srv/app/fastjoin.so", self.text("#pair-detail"))
        self.assertIn("foreign-free (2)", self.text("#pair-detail"))
        self.assertEqual(
            self.one(".heat [aria-selected='true']").get_attribute("aria-label"),
            "libtabula.so.2 to fastjoin.so: 22 blocks, 67 KiB, 2 findings",
        )
        cells = self.all(".heat td.own")
        cells[0].click()
        self.assertIn("The same object on both sides", self.text("#pair-detail"))
        self.all(".heat tbody th")[1].click()
        self.assertIn("Blocks allocated120,252", self.text("#pair-detail"))

    def test_matrix_measure_order_crossing(self):
        self.one("#measure input[value='bytes']").click()
        self.assertEqual(self.texts(".heat tbody th")[0], "libtabula.so.2")
        self.assertEqual(self.texts(".heat td[class*=heat-8]"), ["658M", "87M"])
        self.script(
            "order = document.getElementById('order'); order.value = 'name';"
            "order.dispatchEvent(new Event('change', {bubbles: true}))"
        )
        names = self.texts(".heat thead th")
        self.assertEqual(names, sorted(names))
        self.one("#crossing").click()
        self.assertEqual(self.all(".heat .own"), [])
        self.assertIn("As a list: 7 pairs", self.text("#pair-list"))

    def test_matrix_keyboard(self):
        self.assertEqual(len(self.all(".heat [tabindex='0']")), 1)
        self.script("document.querySelector('.heat [tabindex=\"0\"]').focus()")
        focused = lambda: self.browser.switch_to.active_element.get_attribute("aria-label")  # noqa: E731
        self.press(Keys.ARROW_LEFT)
        self.assertIn("libtabula.so.2 to libgeometry.so: 230", focused())
        self.press(Keys.ARROW_DOWN)
        self.assertEqual(focused(), "libstdc++.so.6 (x86_64-linux-gnu) to libgeometry.so: none")
        self.press(Keys.HOME)
        self.assertEqual(focused(), "allocated by libstdc++.so.6 (x86_64-linux-gnu)")
        self.press(Keys.END, Keys.PAGE_UP)
        self.assertEqual(focused(), "freed by fastjoin.so")
        self.press(Keys.ARROW_UP, Keys.ARROW_RIGHT)
        self.assertEqual(focused(), "freed by fastjoin.so", "the edge holds")
        self.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
        self.assertEqual(len(self.all(".heat [tabindex='0']")), 1)
        self.press(Keys.ENTER)
        self.assertEqual(self.script("return document.activeElement.id"), "findings")
        self.assertEqual(self.texts(".group h3"), ["foreign-free"])

    def test_findings_of_a_pair(self):
        self.one("#pair-detail button").click()
        self.assertEqual(self.text("#matches"), "2 of 5 findings.")
        self.assertEqual(self.text("#only-pair"), "Only libtabula.so.2 → fastjoin.so ✕")
        self.one("#only-pair").click()
        self.assertEqual(self.text("#matches"), "5 findings.")
        self.assertFalse(self.one("#only-pair").is_displayed())

    def test_severities(self):
        self.one("#severities input[value='error']").click()
        self.assertEqual(self.texts(".group h3"), ["array-new-delete", "boundary-leak"])
        self.one("#severities input[value='warning']").click()
        self.one("#severities input[value='note']").click()
        self.assertEqual(self.text("#groups"), "No finding matches.")

    def test_search(self):
        self.press("/")
        self.assertEqual(self.script("return document.activeElement.id"), "search")
        self.search("POLYGON libc")
        self.assertEqual(
            self.text("#matches"),
            "1 of 5 findings, 0 of 11 pairs in the matrix and 0 of 3 processes match the search.",
        )
        self.assertEqual(self.texts(".group h3"), ["array-new-delete"])
        self.assertEqual(self.text("#heat"), "No pair of objects matches.")
        self.search("fastjoin")
        self.assertEqual(self.texts(".heat tbody th"), ["fastjoin.so", "libtabula.so.2"])
        # Only a frame of Python has this name.
        self.search("load_trips")
        self.assertEqual(self.text("#matches").split(",")[0], "1 of 5 findings")
        self.search("spawn_main")
        self.assertIn("1 of 3 processes match", self.text("#processes"))
        self.press(Keys.ESCAPE)
        self.until(lambda: self.text("#matches") == "5 findings.", "Escape clears the search")

    def test_pairs_sorted(self):
        self.script("document.querySelector('#pair-list summary').click()")
        self.until(lambda: self.all("#pair-list tbody tr"), "the list of pairs")
        blocks = lambda: [t.replace(",", "") for t in self.texts("#pair-list td:nth-child(3)")]  # noqa: E731
        self.assertEqual(blocks()[0], "980000")
        self.assertEqual(len(blocks()), 11)
        button = self.all("#pair-list th button")[2]
        button.click()
        self.assertEqual(blocks()[0], "3")
        self.assertEqual(self.all("#pair-list th")[2].get_attribute("aria-sort"), "ascending")

    def test_timeline(self):
        self.assertEqual(len(self.all("#chart polygon")), 4)
        self.assertEqual(
            self.texts("#owners tbody td:first-child"),
            ["libtabula.so.2", "python3.11", "fastjoin.so", "unknown"],
        )
        self.assertEqual(self.text("#moment-text"), "8.00 s: 52.5 MiB")
        self.script("document.getElementById('moment').focus()")
        self.press(Keys.HOME)
        self.assertEqual(self.text("#moment-text"), "0.00 s: 2 MiB")
        self.assertEqual(self.texts("#owners tbody td:nth-child(2)")[0], "0 bytes")
        self.script(
            "p = document.getElementById('timeline-process'); p.value = 1;"
            "p.dispatchEvent(new Event('change', {bubbles: true}))"
        )
        self.assertEqual(len(self.all("#chart polygon")), 1)

    def test_processes(self):
        self.assertEqual(
            self.texts("#processes .ending"),
            ["killed by SIGABRT", "ended with status 0", "unknown: killed, or still running"],
        )
        rows = self.texts("#processes tbody tr")
        self.assertIn("python3 app.py --table trips.parquet", rows[0])
        self.assertIn("started 2026-09-21 14:13:20 UTC · child of 4700 · on node-3", rows[0])
        self.assertIn("12.4 s", rows[0])
        self.assertIn("1,200 events not recorded", rows[1])
        self.assertIn("file cut short or damaged", rows[2])

    def test_suppressed(self):
        self.assertEqual(len(self.all("#suppressed tbody tr")), 1)
        self.assertIn("emergency pool", self.text("#suppressed"))
        self.search("fastjoin")
        self.assertIn("No pattern matches.", self.text("#suppressed"))


class Everybody(InBrowser):
    """The page with the keyboard alone, in the dark, on a narrow screen, read aloud, on paper."""

    def test_every_control_by_tab(self):
        self.show(reports.small())
        self.open_all()
        wanted = self.script(
            f"return [...document.querySelectorAll({OPERABLE!r})]"
            ".filter((e) => e.checkVisibility({visibilityProperty: true})"
            # Of radio buttons with one name, Tab reaches the one that is chosen.
            " && !(e.type === 'radio' && !e.checked))"
        )
        reached = set()
        self.script("document.activeElement.blur()")
        for _ in range(3 * len(wanted)):
            self.browser.switch_to.active_element.send_keys(Keys.TAB)
            element = self.browser.switch_to.active_element
            if element.tag_name == "body" or element in reached:
                break
            outline = element.value_of_css_property("outline-style")
            self.assertNotEqual(outline, "none", "the focus cannot be seen")
            self.assertFalse(
                self.script(
                    "const h = document.querySelector('header'), e = arguments[0];"
                    "return !h.contains(e) && !e.matches('.skip') &&"
                    " e.getBoundingClientRect().top < h.getBoundingClientRect().bottom - 1",
                    element,
                ),
                "the header hides what has the focus: " + element.get_attribute("outerHTML")[:90],
            )
            reached.add(element)
        missed = [e.get_attribute("outerHTML")[:90] for e in wanted if e not in reached]
        self.assertEqual(missed, [])

    def test_names_and_landmarks(self):
        self.show(reports.small())
        self.open_all()
        for control, (name, _) in zip(self.all(OPERABLE), self.read_aloud(OPERABLE)):
            if control.is_displayed():
                self.assertTrue(name, control.get_attribute("outerHTML")[:200])
        for selector, role in {
            "header": "banner",
            "header search": "search",
            "nav": "navigation",
            "main": "main",
            "footer": "contentinfo",
            "#findings": "region",
            ".heat": "grid",
            "#matches": "status",
        }.items():
            self.assertEqual([found for _, found in self.read_aloud(selector)], [role], selector)
        levels = self.script(
            "return [...document.querySelectorAll('h1, h2, h3, h4, h5')]"
            ".filter((h) => h.checkVisibility()).map((h) => Number(h.tagName[1]))"
        )
        self.assertEqual(levels.count(1), 1)
        for above, below in zip(levels, levels[1:]):
            self.assertLessEqual(below, above + 1, "a level of headings is left out")
        ids = self.script("return [...document.querySelectorAll('[id]')].map((e) => e.id)")
        self.assertEqual(len(ids), len(set(ids)))

    def test_skip_link(self):
        self.show(reports.small())
        self.script("document.activeElement.blur()")
        self.press(Keys.TAB)
        self.assertEqual(self.text(":focus"), "Skip to the findings")
        self.press(Keys.ENTER)
        self.assertEqual(self.script("return document.activeElement.id"), "findings")

    def background(self):
        return self.script("return getComputedStyle(document.body).backgroundColor")

    def test_dark(self):
        self.show(reports.small())
        light = self.background()
        self.media("dark")
        button = self.one("#theme")
        self.until(lambda: button.get_attribute("aria-pressed") == "true", "the button follows")
        dark = self.background()
        self.assertNotEqual(light, dark)
        button.click()
        self.assertEqual(self.background(), light)
        self.assertEqual(button.get_attribute("aria-pressed"), "false")
        button.click()
        self.media("light")
        self.assertEqual(self.background(), dark, "the reader's choice holds")

    def test_browser_without_light_dark(self):
        """The colours of both schemes, as in a browser that knows no light-dark()."""
        colours = {}
        for scheme in ("light", "dark"):
            self.media(scheme)
            self.show(reports.small())
            colours[scheme] = self.background()
        script = "CSS.supports = () => false;"
        added = self.browser.execute_cdp_cmd(
            "Page.addScriptToEvaluateOnNewDocument", {"source": script}
        )
        self.addCleanup(
            self.browser.execute_cdp_cmd, "Page.removeScriptToEvaluateOnNewDocument", added
        )
        self.media("light")
        self.show(reports.small())
        for scheme in ("light", "dark", "light"):
            self.media(scheme)
            self.until(lambda: self.background() == colours[scheme], scheme)  # noqa: B023
            style = self.one("style").get_property("textContent")
            self.assertNotIn("light-dark(", style)
            self.assertEqual(self.script(FAINT), [])

    def test_contrast(self):
        for document in (reports.small(), reports.huge(findings=300, moments=200)):
            for scheme in ("light", "dark"):
                with self.subTest(scheme=scheme):
                    self.media(scheme)
                    self.show(document)
                    if len(document["findings"]) < 10:
                        self.open_all()
                    self.assertEqual(self.script(FAINT), [])

    def test_narrow(self):
        for document in (reports.small(), reports.hostile(self.address)):
            self.screen(400, 800)
            self.show(document)
            self.open_all()
            self.assertLessEqual(self.script("return document.documentElement.scrollWidth"), 400)
            small = self.script(
                "return [...document.querySelectorAll('button, select, summary, nav a')]"
                ".filter((e) => e.checkVisibility() && e.getBoundingClientRect().height < 24)"
                ".map((e) => e.outerHTML.slice(0, 80))"
            )
            self.assertEqual(small, [], "too small for a finger")

    def test_paper(self):
        self.show(reports.small())
        self.media("dark", "print")
        self.assertFalse(self.one("nav").is_displayed())
        self.assertFalse(self.one("#theme").is_displayed())
        self.assertFalse(self.one("#search").is_displayed())
        self.assertEqual(
            self.script("return getComputedStyle(document.body).color"), "rgb(23, 32, 43)"
        )
        self.script("dispatchEvent(new Event('beforeprint'))")
        self.assertEqual(len(self.all(".whole")), 5, "every site is opened for printing")
        self.assertEqual(len(self.all("#pair-list tbody tr")), 11)
        self.script("dispatchEvent(new Event('afterprint'))")
        self.assertEqual(self.all(".group[open]"), [])
        self.media()
        self.assertTrue(self.browser.execute_cdp_cmd("Page.printToPDF", {})["data"])


class Endings(InBrowser):
    """Documents with nothing in them, and those that cannot be shown."""

    def test_empty(self):
        self.show(reports.empty())
        self.assertEqual(self.text(".verdict"), "Nothing was found in 1 process.")
        self.assertEqual(self.text("#groups"), "Nothing was found.")
        for part in ("#matrix", "#timeline", "#suppressed", "#severities"):
            self.assertFalse(self.one(part).is_displayed(), part)
        self.assertEqual(
            [e.text for e in self.all("nav a") if e.is_displayed()],
            ["Summary", "Findings", "In numbers", "Processes"],
        )

    def test_nothing_found_in_a_part(self):
        report = reports.empty()
        report["processes"][0].update(dropped=1)
        self.show(report)
        self.assertIn("in what 1 process recorded, which is not all", self.text(".verdict"))
        self.assertEqual(
            self.texts(".gaps li"),
            ["1 event was not recorded, because there was no room for them."],
        )

    def test_only_counted(self):
        report = reports.empty()
        report["processes"][0].update(mode="count")
        self.show(report)
        self.assertIn("Nothing was looked for", self.text(".verdict"))

    def test_no_process(self):
        self.show({"homefree_report": 1})
        self.assertEqual(self.text(".verdict"), "Nothing was found: this report has no processes.")

    def test_newer(self):
        self.show(reports.newer())
        self.assertIn("version 2, and the page can show version 1 only", self.text("#problem"))
        self.assert_problem_alone()

    def test_broken(self):
        whole = reports.page("@HOMEFREE_REPORT@", reports.small())
        for document in ("", "{", "nonsense", whole[: len(whole) // 2], "@HOMEFREE_REPORT@"):
            with self.subTest(document=document[:20]):
                self.show(document)
                self.assertIn("damaged or was cut short", self.text("#problem"))
                self.assert_problem_alone()

    def test_not_a_report(self):
        for document in ("null", "[]", "{}", "7", '"x"', '{"homefree_report": "1"}'):
            with self.subTest(document=document):
                self.show(document)
                self.assertIn("not a report of homefree", self.text("#problem"))
                self.assert_problem_alone()

    def assert_problem_alone(self):
        self.assertTrue(self.one("#problem").is_displayed())
        self.assertEqual(self.one("#problem").get_attribute("role"), "alert")
        for section in self.all("main > section:not(#problem)"):
            self.assertFalse(section.is_displayed())


class Hostile(InBrowser):
    def assert_not_owned(self):
        self.assertIsNone(self.script("return window.owned"))
        self.assertEqual(self.browser.title, "homefree report")
        self.assertEqual(len(self.all("script")), 1)
        self.assertEqual(
            self.all("img, iframe, object, embed, base, form, link[rel=stylesheet]"), []
        )
        self.assertEqual(len(self.all("style")), 1)
        handlers = self.script(
            "return [...document.querySelectorAll('*')].flatMap((e) => e.getAttributeNames())"
            ".filter((name) => name.startsWith('on') || name === 'autofocus')"
        )
        self.assertEqual(handlers, [])

    def test_names_are_text(self):
        self.show(reports.hostile(self.address))
        self.open_all()
        self.assert_not_owned()
        self.assertIn("</script><script>document.title = 'owned'", self.text("main"))
        self.assertEqual(
            self.script(
                r"return document.body.innerText.match(/[^\P{C}\n\t]/u)?.[0].codePointAt(0)"
            ),
            None,
            "a control character reached the screen",
        )
        self.assertIn("evil\\u{202e}txt.so", self.text("main"))
        for words in ("script", "onerror", "202e", "__proto__", "constructor"):
            self.search(words)
            self.assertNotIn("0 of", self.text("#matches").split(",")[0])
        for cell in self.all(".heat [tabindex]")[::7]:
            self.script("arguments[0].click()", cell)
        self.assert_not_owned()

    def test_long_names(self):
        self.show(reports.hostile(self.address))
        self.open_all()
        lengths = self.script(
            "return [...document.querySelectorAll('.name')].map((e) => e.textContent.length)"
        )
        self.assertLess(max(lengths), 700)
        button = next(
            b for b in self.all(".side button") if "10,00" in b.get_property("textContent")
        )
        self.script("arguments[0].click()", button)
        shown = self.script("return document.activeElement.textContent")
        self.assertIn("S" * 10000, shown)
        self.assertLessEqual(self.script("return document.documentElement.scrollWidth"), 1280)

    def test_enter_shows_findings_of_long_names(self):
        """The button that shows a long name stands before the one that leads to the findings."""
        report = reports.small()
        name = "/" + "N" * 5000
        report["matrix"] = [{"allocated_by": name, "freed_by": name, "blocks": 1, "bytes": 1}]
        for side in ("allocated", "freed"):
            report["findings"][0][side]["object"] = name
        self.show(report)
        self.script("document.querySelector('.heat [tabindex=\"0\"]').focus()")
        self.press(Keys.ENTER)
        self.assertEqual(self.text("#matches"), "1 of 5 findings.")

    def test_policy(self):
        """Even a script inside the page could reach no network and evaluate no text."""
        self.console_expected = True
        self.show(reports.small())
        outcome = self.browser.execute_async_script(
            """
            const [address, done] = arguments;
            const image = new Promise((resolve) => {
                const element = new Image();
                element.onload = () => resolve('loaded');
                element.onerror = () => resolve('refused');
                element.src = address + '/img';
            });
            const fetched = fetch(address).then(() => 'fetched', () => 'refused');
            const frame = document.createElement('iframe');
            frame.src = address + '/frame';
            document.body.append(frame);
            Promise.all([image, fetched]).then(done);
            """,
            self.address,
        )
        self.assertEqual(outcome, ["refused", "refused"])
        self.browser.get("about:blank")
        # What the browser refused to send is in its log of requests all the same.
        self.browser.get_log("performance")

    def test_template(self):
        self.assertEqual(TEMPLATE.count(reports.MARKER), 1)
        script = TEMPLATE[TEMPLATE.rindex("<script>") :]
        for word in (
            *("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("),
            *("new Function", "srcdoc", "DOMParser", "createContextualFragment"),
        ):
            self.assertNotIn(word, script)
        self.assertNotRegex(
            TEMPLATE.replace("http://www.w3.org/2000/svg", ""),
            r"https?://|//[a-z]+\.|url\(|@import",
        )
        self.assertIn("default-src 'none'", TEMPLATE)


class Sizes(InBrowser):
    def matrix_of(self, objects):
        names = [f"/usr/lib/lib{i}.so" for i in range(objects)]
        return {
            "homefree_report": 1,
            "matrix": [
                {"allocated_by": name, "freed_by": names[(i * 7 + 1) % objects], "blocks": i + 1,
                 "bytes": 64, "threads": 1}
                for i, name in enumerate(names)
            ],
        }  # fmt: skip

    def test_matrices(self):
        for objects, shown, last in (
            (1, 1, "lib0.so"),
            (3, 3, "lib0.so"),
            (15, 15, "lib0.so"),
            (30, 15, "16 others"),
            (300, 15, "286 others"),
        ):
            with self.subTest(objects=objects):
                self.show(self.matrix_of(objects))
                rows = self.texts(".heat tbody th")
                self.assertEqual(len(rows), shown)
                self.assertEqual(rows[-1], last)
                self.assertEqual(len(self.all(".heat tbody td")), shown * shown)
                total = self.script(
                    "return [...heat.cells.values()].flatMap((r) => [...r.values()])"
                    ".reduce((t, c) => t + c.blocks, 0)"
                )
                self.assertEqual(total, objects * (objects + 1) // 2, "others are not lost")

    def test_the_matrix_fits(self):
        """Nothing of it is hidden, and of a larger one that the reader asks for the chosen pair."""
        document = reports.huge(findings=300, moments=0)
        hidden = (
            "const [h, c] = [document.getElementById('heat'),"
            " document.querySelector('.heat [aria-selected]')]"
            ".map((e) => e.getBoundingClientRect());"
            "return [document.getElementById('heat').scrollWidth - h.width > 1,"
            " c.right > h.right + 1 || c.left < h.left]"
        )
        for width, least in (1280, 10), (390, 3):
            self.screen(width, 900)
            self.show(document)
            self.assertEqual(self.script(hidden), [False, False])
            self.assertGreaterEqual(len(self.all(".heat thead th")), least)
            self.script(
                "most = document.getElementById('most'); most.value = 60;"
                "most.dispatchEvent(new Event('change', {bubbles: true}))"
            )
            self.assertEqual(self.script(hidden), [True, False])
        self.screen(1280, 900)
        self.show(document)
        self.screen(390, 900)
        self.until(lambda: self.script(hidden) == [False, False], "it is drawn anew")

    def test_others_show_their_findings(self):
        self.show(reports.huge(findings=1000, moments=0))
        cell = self.all(".heat tbody tr:last-child td")[-1]
        self.script("arguments[0].click()", cell)
        self.assertIn("other objects", self.text("#pair-detail"))
        self.one("#pair-detail button").click()
        shown = self.text("#matches").split(" of ")[0].replace(",", "")
        self.assertGreater(int(shown), 10)

    def test_huge(self):
        document = reports.huge()
        before = time.monotonic()
        self.show(document)
        self.assertLess(time.monotonic() - before, 60, "the page took too long to appear")
        self.assertEqual(
            self.text(".verdict"),
            "2,522 errors, 1,857 warnings and 621 notes found in 400 processes.",
        )
        self.assertLess(self.script("return document.querySelectorAll('*').length"), 4000)
        self.assertEqual(len(self.all(".group")), 25)
        self.assertEqual(len(self.all("#processes tbody tr")), 20)
        # In the page itself, because the machine may be busy.
        self.assertLess(
            self.script("t = performance.now(); redraw(); return performance.now() - t"), 1500
        )
        before = time.monotonic()
        self.search("needle_in_the_haystack")
        self.assertLess(time.monotonic() - before, 60, "the search took too long")
        self.assertEqual(self.text("#matches").split(",")[0], "1 of 5")
        self.until(lambda: self.all(".site"), "a single finding is opened")
        self.assertIn("needle_in_the_haystack", self.text(".side"))
        self.search("libpart2.so double-free")
        self.assertGreater(len(self.all(".group")), 5)

    def test_show_more(self):
        self.show(reports.huge(findings=1000, moments=0))
        button = self.one("#groups > button.more")
        self.assertRegex(button.text, r"^Show 25 more \(\d+ groups left\)$")
        button.click()
        self.assertEqual(len(self.all(".group")), 50)
        self.assertEqual(
            self.script("return [...document.querySelectorAll('.group > summary')]"
                        ".indexOf(document.activeElement)"), 25,
            "the focus is on the first of the new groups",
        )  # fmt: skip
        self.script("document.querySelector('#pair-list summary').click()")
        self.until(lambda: len(self.all("#pair-list tbody tr")) == 50, "a part of the pairs")
        self.script("document.querySelector('#pair-list button.more').click()")
        self.assertEqual(len(self.all("#pair-list tbody tr")), 100)
        self.script("dispatchEvent(new Event('beforeprint'))")
        self.assertLess(len(self.all(".whole")), 150, "paper has its bounds")

    def test_many_moments(self):
        report = reports.huge(findings=0, pairs=1, moments=40000)
        report["timeline"][20000]["bytes"] = 10**12
        self.show(report)
        points = self.one("#chart polygon").get_attribute("points").split()
        self.assertLessEqual(len(points), 802)
        self.assertIn("933 GiB", self.text("#moment-text"), "the peak is not lost")

    def test_one_moment(self):
        report = reports.empty()
        report["timeline"] = [{"pid": 310, "time": 0.5, "object": "/a.so", "bytes": 5}]
        self.show(report)
        self.assertEqual(len(self.all("#chart polygon")), 1)
        self.assertEqual(self.text("#moment-text"), "0.50 s: 5 bytes")


if __name__ == "__main__":
    if webdriver is None or CHROMIUM is None or DRIVER is None:
        print("needs chromium, chromium-driver and python3-selenium")
        sys.exit(SKIPPED)
    unittest.main()
