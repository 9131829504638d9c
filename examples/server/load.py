"""Starts a server on a free port, sends it requests from four threads, and compares each answer
with the model's own.

usage: load.py REQUESTS COMMAND…        load.py 200 uvicorn app:app --port 0
"""

import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import subprocess
import sys

from model import load


class Server:
    """A server that runs. Its log is read until it says where it listens, and then at the end."""

    def __init__(self, *command, **environment):
        self.process = subprocess.Popen(
            command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
        )  # fmt: skip
        self.log = ""
        for line in self.process.stdout:
            self.log += line
            if found := re.search(r"http://(127\.0\.0\.1):(\d+)", line):
                self.place = found[1], int(found[2])
                return
        raise RuntimeError(f"the server has not started:\n{self.log}")

    def ask(self, body, method="POST", path="/"):
        """The status, the answer as JSON, and the headers."""
        with contextlib.closing(http.client.HTTPConnection(*self.place)) as connection:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read()), answer.headers

    def end(self):
        """Asks it to end, and waits for that."""
        self.process.terminate()
        self.log += self.process.communicate()[0]
        return self.process.returncode


def main():
    server = Server(*sys.argv[2:])
    texts = [[number, 7 * number, 3] for number in range(int(sys.argv[1]))]
    bodies = [json.dumps({"words": words}) for words in texts]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(server.ask, bodies))
    server.end()
    model = load()
    equal = [answer[1].get("kinds") == model(words) for answer, words in zip(answers, texts)]
    print(sum(equal), "of", len(texts), "equal")


if __name__ == "__main__":
    main()
