# SPDX-License-Identifier: BSD-2-Clause
"""`homefree inspect --sarif`: SARIF 2.1.0, which services for code scanning read. The location of
a finding is the file that was given, relative to the current directory where it is below; a member
of an archive is a logical location in it.

State: none.
"""

import os
from urllib.parse import quote

from . import output
from .inspect_text import message, relative


def compose(inspected):
    """The document's bytes."""
    return output.document(_document(inspected))


def _document(inspected):
    version = inspected.options["version"][0]
    rules = inspected.rules()
    index = {rule["rule"]: number for number, rule in enumerate(rules)}
    return {
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/"
        "sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "homefree inspect",
                        "version": version,
                        "semanticVersion": version,
                        "rules": [_rule(rule) for rule in rules],
                    }
                },
                "invocations": [_invocation(inspected.files)],
                "results": [
                    _result(file, finding, index[finding["rule"]])
                    for file in inspected.files
                    for finding in file.get("findings", ())
                ],
            }
        ],
    }


def _rule(rule):
    address = {"helpUri": rule["help"]} if rule["help"] else {}
    return {
        "id": rule["rule"],
        **address,
        "shortDescription": {"text": rule["explanation"]},
        "help": {"text": rule["remedy"]},
        "defaultConfiguration": {"level": rule["severity"]},
    }


def _invocation(files):
    return {
        "executionSuccessful": all(file["error"] is None for file in files),
        "toolExecutionNotifications": [
            {"level": "error", "message": {"text": file["error"]}, "locations": _locations(file)}
            for file in files
            if file["error"] is not None
        ],
    }


def _result(file, finding, index):
    name = file["path"] if file["member"] is None else file["member"]
    return {
        "ruleId": finding["rule"],
        "ruleIndex": index,
        "level": finding["severity"],
        "message": {"text": f"{name}: {message(finding)}"},
        "locations": _locations(file),
        **({"suppressions": [{"kind": "external"}]} if finding.get("known") else {}),
    }


def _locations(file):
    path = file["path"] if file["member"] is None else file["container"]
    path = relative(path)
    uri = ("file://" if path.startswith("/") else "") + quote(os.fsencode(path))
    location = {"physicalLocation": {"artifactLocation": {"uri": uri}}}
    if file["member"] is not None:
        member = {"fullyQualifiedName": file["member"], "kind": "member"}
        location["logicalLocations"] = [member]
    return [location]
