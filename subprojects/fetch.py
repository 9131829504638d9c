#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Puts the source archives that wraps name into packagecache/, from where Meson takes them.

usage: subprojects/fetch.py [NAME…]

NAME is a wrap of this directory; without one it is all of them. What is there already, as an archive
or unpacked, is left alone. An archive comes from Debian or Ubuntu if apt is configured for one that
has it: their source packages hold it unchanged as long as one of their releases has that version.
Else it comes from where it was released. One whose hash is not the wrap's is not kept.

Exit status: 0, or 1 with one line on stderr that says what is missing and how to supply it.
"""

import concurrent.futures
import configparser
import hashlib
import http.client
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("MESON_PACKAGE_CACHE_DIR") or HERE / "packagecache")
APT_HELPER = pathlib.Path("/usr/lib/apt/apt-helper")
SECONDS = 10  # for a server to answer


def is_right(file, wrap):
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest() == wrap["source_hash"]
    except OSError:
        return False


def pools():
    """The addresses below which the configured archives keep their files, whether or not apt has
    fetched their lists."""
    if not APT_HELPER.exists():
        return []
    command = ["apt-get", "indextargets", "--no-release-info", "--format", "$(SITE) $(COMPONENT)"]
    done = subprocess.run(
        [*command, "Created-By: Packages"], capture_output=True, text=True, check=False
    )
    sites = re.findall(r"^(\S+) (main|universe)$", done.stdout, re.MULTILINE)
    return [f"{site}/pool/{component}" for site, component in sorted(set(sites))]


def from_pool(pool, wrap, file):
    """apt knows the ways to its archives: proxies, certificates, other methods than http."""
    name = wrap["source_filename"]
    package = name.partition("_")[0]
    settings = ["APT::Sandbox::User=root", "Acquire::Retries=0"]
    settings += [f"Acquire::{scheme}::Timeout={SECONDS}" for scheme in ("http", "https")]
    command = [str(APT_HELPER), *(word for one in settings for word in ("-o", one))]
    subprocess.run(
        [*command, "download-file", f"{pool}/{package[0]}/{package}/{name}", str(file)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )


def from_origin(wrap, file):
    with urllib.request.urlopen(wrap["source_url"], timeout=SECONDS) as answer:
        file.write_bytes(answer.read())


def fetch(wrap, places):
    """Result: None, or why there is no archive."""
    try:
        return try_fetch(wrap, places)
    except (OSError, http.client.HTTPException) as error:
        return getattr(error, "reason", None) or error


def try_fetch(wrap, places):
    target = CACHE / wrap["source_filename"]
    if (HERE / wrap["directory"]).is_dir() or is_right(target, wrap):
        return None
    CACHE.mkdir(parents=True, exist_ok=True)
    print(f"homefree: fetching {target.name}", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        file = pathlib.Path(work, target.name)
        for pool in places:
            from_pool(pool, wrap, file)
            if is_right(file, wrap):
                break
        else:
            from_origin(wrap, file)
            if not is_right(file, wrap):
                return f"what {wrap['source_url']} sends has another hash"
        os.replace(file, target)
    return None


def main(names):
    known = {path.stem: path for path in sorted(HERE.glob("*.wrap"))}
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"homefree: there is no {HERE / unknown[0]}.wrap (but {', '.join(known)})")
    wraps = []
    for name in names or known:
        wrap = configparser.ConfigParser(interpolation=None)
        wrap.read(known[name], encoding="utf-8")
        wraps.append(wrap["wrap-file"])
    places = pools()
    with concurrent.futures.ThreadPoolExecutor() as threads:
        outcomes = list(threads.map(lambda wrap: fetch(wrap, places), wraps))
    missing = {w["source_filename"]: why for w, why in zip(wraps, outcomes) if why is not None}
    if missing:
        sys.exit(
            f"homefree: cannot fetch {', '.join(missing)} ({next(iter(missing.values()))}): put them into"
            f" {CACHE} (source_url in {HERE}/*.wrap says where they are), or build from homefree's"
            " source archive, which has these sources"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
