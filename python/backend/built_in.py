# SPDX-License-Identifier: BSD-2-Clause
"""What of other projects is compiled into a wheel, written into it: a software bill of materials
(PEP 770, CycloneDX 1.6).

The list is Meson's: the subprojects that the build has used. Addresses and hashes are those of
subprojects/*.wrap, names of licences those of subprojects/packagefiles/*/meson.build.

State: none.
"""

import json
import pathlib
import re

import wheel_file

_ROOT = pathlib.Path(__file__).resolve().parents[2]
BILL = "sboms/homefree.cdx.json"


def add(members, build):
    """Adds the bill to the members of a wheel that was built in the Meson directory `build`."""
    information = wheel_file.information(members)
    name = f"{information}/{BILL}"
    like, _ = members[f"{information}/WHEEL"]
    data = json.dumps(bill(pathlib.Path(build)), indent=1).encode() + b"\n"
    members[name] = wheel_file.member(name, like), data


def bill(build):
    """The document, as JSON has it."""
    known = json.loads((build / "meson-info/intro-projectinfo.json").read_text(encoding="utf-8"))
    version = known["version"]
    used = {one["name"]: one["version"] for one in known["subprojects"]}
    if _jemalloc_is_the_systems(build):
        used.pop("jemalloc", None)
        components = [{"type": "library", "bom-ref": "jemalloc", "name": "jemalloc"}]
    else:
        components = []
    components += [_component(name, used[name]) for name in sorted(used)]
    names = [one["name"] for one in components]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": "homefree",
                "name": "homefree",
                "version": version,
                "licenses": _licenses("meson.build"),
                "purl": f"pkg:pypi/homefree@{version}",
            }
        },
        "components": components,
        "dependencies": [
            {"ref": "homefree", "dependsOn": names},
            *({"ref": name} for name in names),
        ],
    }


def _jemalloc_is_the_systems(build):
    options = json.loads((build / "meson-info/intro-buildoptions.json").read_text(encoding="utf-8"))
    return any(one["name"] == "jemalloc" and one["value"] == "system" for one in options)


def _component(name, version):
    wrap = _text(f"subprojects/{name}.wrap")
    url, digest = (
        re.search(rf"^source_{key} = (.*)$", wrap, re.MULTILINE)[1] for key in ("url", "hash")
    )
    repository = re.match(r"https://github\.com/(.+?/.+?)/", url)[1]
    return {
        "type": "library",
        "bom-ref": name,
        "name": name,
        "version": version,
        "licenses": _licenses(f"subprojects/packagefiles/{name}/meson.build"),
        "purl": f"pkg:github/{repository}@{url.rpartition('/')[2]}",
        "externalReferences": [
            {
                "type": "source-distribution",
                "url": url,
                "hashes": [{"alg": "SHA-256", "content": digest}],
            }
        ],
    }


def _licenses(path):
    return [{"license": {"id": re.search(r"\blicense: '(.+?)'", _text(path))[1]}}]


def _text(path):
    return (_ROOT / path).read_text(encoding="utf-8")
