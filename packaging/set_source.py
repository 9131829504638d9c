#!/usr/bin/env python3
"""Writes into the recipes which source archive they build: its version, URL and hashes.

usage: packaging/set_source.py URL FILE [--packaging DIRECTORY]

FILE   the archive that is to be had at URL; its name has the version (homefree-1.2.3.tar.gz)

--packaging   the directory whose recipes are written; this one by default

Debian's changelog is written by its own tools. Exit status: 0, 1 with a line that says what is
wrong, or 2 for wrong usage; nothing is written then.
"""

import argparse
import hashlib
import pathlib
import re
import sys

URL = r"[^\s\"'\\]+?/homefree-[^/\s]+\.tar\.gz"
# What stands in front of a value, what the value looks like, and which value it is.
FIELDS = {
    "conan/conandata.yml": [
        (r'^  "', r"[^\"]+", "version"),
        (r'url: "', URL, "url"),
        (r'sha256: "', r"[0-9a-f]{64}", "sha256"),
    ],
    "conda/recipe.yaml": [
        (r'^  version: "', r"[^\"]+", "version"),
        (r"url: ", URL, "url"),
        (r'sha256: "', r"[0-9a-f]{64}", "sha256"),
    ],
    "vcpkg/vcpkg.json": [(r'"version": "', r"[^\"]+", "version")],
    "vcpkg/portfile.cmake": [
        (r'URLS "', URL, "url"),
        (r"SHA512 ", r"[0-9a-f]{128}", "sha512"),
    ],
}


def written(text, fields, values, name):
    for before, value, key in fields:
        pattern = re.compile(f"({before}){value}", re.MULTILINE)
        text, count = pattern.subn(lambda found, key=key: found[1] + values[key], text)
        if count != 1:
            sys.exit(f"set_source: {name} has {count} places for its {key}; there must be one")
    return text


def main():
    parser = argparse.ArgumentParser(
        usage="packaging/set_source.py URL FILE [--packaging DIRECTORY]"
    )
    parser.add_argument("url")
    parser.add_argument("file", type=pathlib.Path)
    here = pathlib.Path(__file__).resolve().parent
    parser.add_argument("--packaging", type=pathlib.Path, default=here)
    options = parser.parse_args()
    version = re.fullmatch(r"homefree-([0-9][0-9A-Za-z.]*)\.tar\.gz", options.file.name)
    if not version or not re.fullmatch(URL, options.url):
        sys.exit("set_source: both the URL and the file must end in homefree-VERSION.tar.gz")
    if not options.url.endswith(f"/{options.file.name}"):
        sys.exit(f"set_source: the URL must end in {options.file.name}, as the file does")
    content = options.file.read_bytes()
    if not content.startswith(b"\x1f\x8b"):
        sys.exit(f"set_source: {options.file} is no archive")
    values = {
        "version": version[1],
        "url": options.url,
        "sha256": hashlib.sha256(content).hexdigest(),
        "sha512": hashlib.sha512(content).hexdigest(),
    }
    texts = {
        name: written((options.packaging / name).read_text(), fields, values, name)
        for name, fields in FIELDS.items()
    }
    for name, text in texts.items():
        (options.packaging / name).write_text(text)


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"set_source: {error.filename}: {error.strerror}")
