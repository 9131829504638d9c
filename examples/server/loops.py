"""The same application with an event loop of uvicorn's in each interpreter, the main one among
them: HTTP, too, has as many GILs as there are interpreters. What gunicorn does with processes.

usage: loops.py [--port PORT]      WORKERS, GRACE and MODEL in the environment
"""

import argparse
import asyncio
import contextlib
import os
import signal
import socket

import uvicorn
from app import Application, model_module, workers
from homefree.interpreters import Executor, Replica


class Local(Application):
    """The model in the interpreter that the loop is in, which answers one request after the other;
    those that wait are in the sockets."""

    def __init__(self, model):
        super().__init__()
        self.answer, self.model = model_module().answer, model

    def start(self):
        pass

    stop = start

    async def ask(self, body, receive):
        return self.answer(self.model, body)


class Server(uvicorn.Server):
    """One that ends when the other end of a socket is closed. Signals reach the main interpreter
    alone, whose handler closes it."""

    capture_signals = contextlib.nullcontext

    async def serve_until(self, stopping, listening):
        asyncio.get_running_loop().add_reader(stopping, setattr, self, "should_exit", True)
        with socket.socket(fileno=listening) as one:  # which serve() closes before it waits
            await self.serve([one])


def serve(model, stopping, listening):
    """Serves in this interpreter. stopping, listening: file descriptors, this one its own."""
    grace = int(os.environ.get("GRACE", "30"))  # seconds, for clients that are slow
    config = uvicorn.Config(Local(model), access_log=False, timeout_graceful_shutdown=grace)
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(Server(config).serve_until(stopping, listening))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8000)
    listening = socket.create_server(("127.0.0.1", parser.parse_args().port), backlog=2048)
    stopping, stop = socket.socketpair()

    def end(*_):
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # which ends a model that does not return
        stop.close()

    for number in signal.SIGTERM, signal.SIGINT:
        signal.signal(number, end)
    model = model_module().load()
    shared, others = Replica(model), []
    with contextlib.ExitStack() as stack:
        if workers() > 1:
            executor = stack.enter_context(Executor(workers() - 1))
            stack.callback(stop.close)  # so that the executor ends, whatever happens here
            for _ in range(workers() - 1):
                one = executor.submit(serve, shared, stopping.fileno(), os.dup(listening.fileno()))
                one.add_done_callback(lambda _: stop.close())  # none goes on without the others
                others.append(one)
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        serve(model, stopping.fileno(), listening.detach())
    for one in others:
        one.result()


if __name__ == "__main__":
    main()
