"""The manual pages: groff has no complaint, and they name every command, option and rule there is.

Usage: test_pages.py HOMEFREE PAGE... [-- unittest arguments]
"""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest

HOMEFREE, *PAGES = sys.argv[1:]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
COMMANDS = re.findall(
    r"^  ([a-z]+) ",
    subprocess.run(
        [HOMEFREE, "--help"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.split("Commands:")[1],
    re.MULTILINE,
)


def text_of(name):
    path = next(page for page in PAGES if os.path.basename(page) == name)
    with open(path, encoding="utf-8") as file:
        return file.read()


class Pages(unittest.TestCase):
    def test_lint(self):
        linted = 0
        for tool in (["groff", "-mdoc", "-ww", "-z"], ["mandoc", "-T", "lint", "-W", "warning"]):
            if shutil.which(tool[0]) is None:
                continue
            linted += 1
            for page in PAGES:
                with self.subTest(page=page, tool=tool[0]):
                    result = subprocess.run(
                        [*tool, page], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
                    )
                    self.assertEqual(result.stdout, "")
        if linted == 0:
            self.skipTest("no groff, no mandoc")

    def test_every_command(self):
        page = text_of("homefree.1")
        for command in COMMANDS:
            self.assertIn(f".Xr homefree-{command} 1", page)
            self.assertIn(f".Dt HOMEFREE-{command.upper()} 1", text_of(f"homefree-{command}.1"))

    def test_every_option_of_every_command(self):
        for command in COMMANDS:
            help_text = subprocess.run(
                [HOMEFREE, command, "--help"], stdout=subprocess.PIPE, text=True, check=True
            ).stdout
            page = text_of(f"homefree-{command}.1")
            for option in set(re.findall(r"^  (?:-\w, )?--([a-z-]+)", help_text, re.MULTILINE)):
                with self.subTest(command=command, option=option):
                    self.assertIn(f"Fl Fl {option}", page)

    def test_every_rule(self):
        for command in "doctor", "report":
            page = text_of(f"homefree-{command}.1")
            rules = json.loads(
                subprocess.run(
                    [HOMEFREE, command, "--rules", "--json"], stdout=subprocess.PIPE, check=True
                ).stdout
            )["rules"]
            for rule in rules:
                self.assertIn(f".It Li {rule['rule']} Pq {rule['severity']}", page)

    def test_every_key(self):
        with open(os.path.join(ROOT, "alloc/base/options.def"), encoding="utf-8") as file:
            keys = re.findall(r"^HF_OPTION\((\w+),", file.read(), re.MULTILINE)
        page = text_of("homefree.1")
        self.assertIn("the default is Li 16T", page)
        for key in keys:
            self.assertIn(f".It Li {key} : Ns Ar value", page)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
