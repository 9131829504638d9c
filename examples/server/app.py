"""An ASGI application that answers with a model in interpreters with GILs of their own.

    uvicorn app:app            WORKERS, LIMIT, TIMEOUT and MODEL in the environment

GET /health     200, or 503 if an interpreter is lost
POST /          what answer() of the module MODEL makes of the body; 503 while LIMIT requests are
                waiting, 413 for a body above a megabyte, 500 if the model fails
"""

import asyncio
import importlib
import json
import logging
import os
import sysconfig

from homefree.interpreters import BrokenInterpreters, Executor, Replica

LOG = logging.getLogger("uvicorn.error")
LONGEST = 1 << 20  # bytes of a body


def workers():
    return int(os.environ.get("WORKERS") or len(os.sched_getaffinity(0)))


def time_limit():
    """Seconds for an answer. In a CPython without a GIL an Executor has threads, and no limit."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None
    return float(os.environ.get("TIMEOUT", "60"))


def model_module():
    return importlib.import_module(os.environ.get("MODEL", "model"))


async def read(receive):
    """The body of a request; None if it is too long, or if the client has gone."""
    parts, length, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        length += len(parts[-1])
        if length > LONGEST:
            return None
        more = message.get("more_body", False)
    return b"".join(parts)


def error(text):
    return json.dumps({"error": text}).encode()


class Application:
    """The model in an Executor behind one event loop. Everything is of the loop's thread."""

    def __init__(self):
        self.limit = int(os.environ.get("LIMIT", "100"))
        self.waiting = 0
        self.broken = False

    def start(self):
        """Returns when the model can answer."""
        module = model_module()
        self.answer = module.answer
        self.model = Replica(module.load())
        self.executor = Executor(
            workers(),
            initializer=__import__,
            initargs=(module.__name__,),
            task_time_limit=time_limit(),
        )
        self.executor.submit(type, self.model).result()

    def stop(self):
        self.executor.shutdown()

    async def ask(self, body, receive):
        """The model's answer; None if the client goes before it is there. Then nobody begins what
        no interpreter has begun."""
        asked = asyncio.wrap_future(self.executor.submit(self.answer, self.model, body))
        gone = asyncio.ensure_future(receive())
        try:
            await asyncio.wait((asked, gone), return_when=asyncio.FIRST_COMPLETED)
            return asked.result() if asked.done() else None
        finally:
            asked.cancel()
            gone.cancel()

    async def respond(self, method, path, receive):
        if (method, path) == ("GET", "/health"):
            return 503 if self.broken else 200, json.dumps({"waiting": self.waiting}).encode()
        if (method, path) != ("POST", "/"):
            return 404, error("POST / and GET /health are there")
        body = await read(receive)
        if body is None:
            return 413, error(f"a body has at most {LONGEST} bytes")
        if self.waiting >= self.limit:
            return 503, error("too many requests are waiting")
        self.waiting += 1
        try:
            return await self.ask(body, receive)
        except (Exception, SystemExit) as failure:
            self.broken = isinstance(failure, BrokenInterpreters)
            LOG.error("the model has failed", exc_info=failure)
            return 500, error("the model has failed; the log says why")
        finally:
            self.waiting -= 1

    async def lifespan(self, receive, send):
        for event, call in ("startup", self.start), ("shutdown", self.stop):
            await receive()
            try:
                await asyncio.to_thread(call)
            except Exception as failure:
                await send({"type": f"lifespan.{event}.failed", "message": str(failure)})
                return
            await send({"type": f"lifespan.{event}.complete"})

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            return await self.lifespan(receive, send)
        answer = await self.respond(scope["method"], scope["path"], receive)
        if answer is None:
            return
        status, body = answer
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        if status == 503:
            headers.append((b"retry-after", b"1"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


app = Application()
