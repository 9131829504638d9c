"""Rivals of examples/server, as ASGI applications for server_bench.py: the same model and the same
answers, by threads, by processes, and by CPython's own interpreters. Run with examples/server on
the path."""

import asyncio
import concurrent.futures

from app import Application, model_module, workers


class Threads(Application):
    """Threads of one interpreter."""

    def start(self):
        module = model_module()
        self.answer, self.model = module.answer, module.load()
        self.executor = concurrent.futures.ThreadPoolExecutor(workers())


def begin():
    """Of each interpreter of an InterpreterPoolExecutor. Without prepare(), none has NumPy."""
    global module, model
    from homefree.interpreters import prepare

    prepare()
    module = model_module()
    model = module.load()


def answer(body):
    return module.answer(model, body)


class Pool(Application):
    """CPython's own executor of interpreters, each of which has a model of its own."""

    def start(self):
        begin()
        self.executor = concurrent.futures.InterpreterPoolExecutor(workers(), initializer=begin)
        self.executor.submit(int).result()

    async def ask(self, body, _receive):
        return await asyncio.wrap_future(self.executor.submit(answer, body))


def __getattr__(name):
    """An application, made when a server asks for it: "process" is what each of gunicorn's has."""
    if name == "process":
        from loops import Local

        return Local(model_module().load())
    if name in ("threads", "pool"):
        return {"threads": Threads, "pool": Pool}[name]()
    raise AttributeError(name)
