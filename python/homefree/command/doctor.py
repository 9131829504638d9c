# SPDX-License-Identifier: BSD-2-Clause
"""`homefree doctor` for people.

loader/command/doctor/ looks at processes, and hands over a document (homefree-doctor(1)) in memory.
The words, NAME=VALUE: `document`, its descriptor; `output`, the path of the result; and `all`, for
every object.

State: none. One thread.
"""

import json

from . import doctor_text, output


def main(words):
    words = dict(word.split("=", 1) for word in words)
    path = words["output"]
    with open(int(words["document"]), "rb") as file:
        file.seek(0)
        document = json.load(file)
    output.write(path, doctor_text.text(document, path, "all" in words))
    summary = document["summary"]
    return 3 if summary["failed"] else int(summary["errors"] + summary["warnings"] > 0)
