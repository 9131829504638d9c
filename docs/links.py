"""Follows the links of the site, pictures and style sheets among them: each leads to a file, and
each anchor to a place in it.

usage: links.py DIRECTORY [--external]      with --external, links to other sites too
"""

import sys
import urllib.error
import urllib.parse
import urllib.request
from html.parser import HTMLParser
from pathlib import Path

# Sites that answer programs with these have been found.
ANSWERS = {401, 403, 405, 429}


class Page(HTMLParser):
    """The links of a page, and the anchors that lead into it."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = set(), {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.add(value)
            elif name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value)


def dead_inside(site, path, link, pages):
    """Why a link leads nowhere; None if it leads somewhere."""
    parts = urllib.parse.urlsplit(link)
    name = urllib.parse.unquote(parts.path)
    found = (path.parent / name).resolve() if name else path
    if site not in found.parents or not found.is_file():
        return "there is no such file"
    if found in pages and urllib.parse.unquote(parts.fragment) not in pages[found].anchors:
        return "there is no such anchor"
    return None


def dead_outside(link):
    request = urllib.request.Request(link, headers={"User-Agent": "Mozilla/5.0 (links.py)"})
    try:
        urllib.request.urlopen(request, timeout=30).close()
    except urllib.error.HTTPError as error:
        return None if error.code in ANSWERS else f"status {error.code}"
    except OSError as error:
        return str(error)
    return None


def main():
    site = Path(sys.argv[1]).resolve()
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    told, outside = [], {}
    for path, page in pages.items():
        for link in sorted(page.links):
            scheme = urllib.parse.urlsplit(link).scheme
            if scheme in ("http", "https"):
                outside.setdefault(urllib.parse.urldefrag(link)[0], path)
            elif not scheme:
                why = dead_inside(site, path, link, pages)
                told += [f"{path.relative_to(site)}: {link}: {why}"] if why else []
    if sys.argv[2:] == ["--external"]:
        for link, path in outside.items():
            why = dead_outside(link)
            told += [f"{path.relative_to(site)}: {link}: {why}"] if why else []
    if told:
        print("\n".join(told), file=sys.stderr)
    links = sum(len(page.links) for page in pages.values())
    print(f"{len(pages)} pages, {links} links, {len(told)} dead")
    return 1 if told or not links else 0


if __name__ == "__main__":
    sys.exit(main())
