"""Both servers answer, refuse, fail and end as README.md says."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from load import Server

SERVERS = {
    "app": ("-m", "uvicorn", "app:app", "--port", "0", "--no-access-log"),
    "loops": ("loops.py", "--port", "0"),
}

# A model that fails when it is told to, and waits until it is told to go on.
STRANGE = """
import pathlib

HERE = pathlib.Path(__file__).parent

def load():
    return "model"

def answer(model, body):
    if body == b"fail":
        raise LookupError("not today")
    if body == b"exit":
        raise SystemExit(3)
    while body == b"spin":
        pass
    if body == b"wait":
        (HERE / "started").write_text("")   # each waits until the other end is opened
        (HERE / "go").read_text()
    return 200, b'"done"'
"""


@contextlib.contextmanager
def running(name, **environment):
    grace = "--timeout-graceful-shutdown", environment.get("GRACE", "30")
    command = *SERVERS[name], *(grace if name == "app" else ())
    server = Server(sys.executable, *command, **environment)
    try:
        yield server
    finally:
        with server.process:
            server.process.kill()


def connected(server):
    return socket.create_connection(server.place)


def until_waiting(server, count):
    end = time.monotonic() + 20
    while server.ask(None, "GET", "/health")[1] != {"waiting": count}:
        assert time.monotonic() < end


@pytest.fixture
def strange(tmp_path):
    (tmp_path / "strange.py").write_text(STRANGE)
    for name in "started", "go":
        os.mkfifo(tmp_path / name)
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    return tmp_path, {"MODEL": "strange", "PYTHONPATH": path}


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("workers", [1, 2])
def test_answers_are_the_models(name, workers, monkeypatch):
    monkeypatch.setenv("WORKERS", str(workers))
    command = [sys.executable, "load.py", "100", sys.executable, *SERVERS[name]]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("100 of 100 equal\n", 0), done.stderr


@pytest.mark.parametrize("name", SERVERS)
def test_bad_requests_are_refused(name):
    with running(name) as server:
        for words in (
            "",
            "[]",
            '["one"]',
            "[1e400]",
            "[true]",
            "{" * 9999,
            "[" * 99999,
            f"[{1 << 64}]",
        ):
            body = f'{{"words": {words}}}'
            status, answer, _ = server.ask(body)
            assert status == 400 and answer["error"], body
        assert server.ask(" " * 1_100_000)[0] == 413
        assert server.ask(None, "GET", "/")[0] == 404
        assert server.ask('{"words": [1]}')[0] == 200
        # A client that goes away in the middle of its body.
        with connected(server) as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n{")
        assert server.ask(None, "GET", "/health")[:2] == (200, {"waiting": 0})
        server.end()
        assert "Traceback" not in server.log


@pytest.mark.parametrize("name", SERVERS)
def test_a_model_that_fails_is_an_error_500_and_a_traceback_in_the_log(name, strange):
    with running(name, **strange[1]) as server:
        status, answer, _ = server.ask("fail")
        assert (status, answer) == (500, {"error": "the model has failed; the log says why"})
        assert server.ask("exit")[0] == 500
        assert server.ask("again")[:2] == (200, "done")
        assert server.ask(None, "GET", "/health")[0] == 200
        server.end()
    assert "LookupError: not today" in server.log
    if name == "app":
        assert "In interpreter " in server.log


def test_a_model_that_does_not_return_is_an_error_500_in_time(strange):
    with running("app", WORKERS="1", TIMEOUT="1", **strange[1]) as server:
        assert server.ask("spin")[0] == 500
        assert server.ask("again")[:2] == (200, "done")
        server.end()
    assert "TimeoutError: the task ran for more than 1.0 seconds" in server.log


def test_a_model_that_interpreters_cannot_load_is_said_at_the_start(strange):
    directory, environment = strange
    (directory / "strange.py").write_text(
        "import homefree\nassert homefree._homefree.interpreter_current() == 0, 'not here'\n"
        + STRANGE
    )
    with pytest.raises(RuntimeError, match="not here"):
        Server(sys.executable, *SERVERS["app"], **environment)


def test_more_requests_than_the_limit_are_refused_and_what_runs_is_finished(strange):
    directory, environment = strange
    with running("app", LIMIT="1", **environment) as server:
        answers = []
        first = threading.Thread(target=lambda: answers.append(server.ask("wait")))
        first.start()
        (directory / "started").read_text()
        assert server.ask(None, "GET", "/health")[:2] == (200, {"waiting": 1})
        status, _, headers = server.ask("second")
        assert (status, headers["retry-after"]) == (503, "1")
        server.process.terminate()
        (directory / "go").write_text("")
        first.join()
        assert answers[0][:2] == (200, "done")
        server.end()
        assert "Application shutdown complete" in server.log


def test_a_client_that_goes_gives_back_its_place(strange):
    directory, environment = strange
    with running("app", WORKERS="1", LIMIT="2", **environment) as server:
        first = threading.Thread(target=server.ask, args=("wait",))
        first.start()
        (directory / "started").read_text()
        with connected(server) as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nspin")
            until_waiting(server, 2)
        until_waiting(server, 1)
        (directory / "go").write_text("")
        first.join()
        assert server.ask("again")[:2] == (200, "done")  # nobody spins
        server.end()
        assert "Traceback" not in server.log


def test_loops_finish_what_they_have_begun(strange):
    directory, environment = strange
    with running("loops", **environment) as server:
        answers = []
        first = threading.Thread(target=lambda: answers.append(server.ask("wait")))
        first.start()
        (directory / "started").read_text()
        server.process.terminate()
        (directory / "go").write_text("")
        first.join()
        assert answers[0][:2] == (200, "done")
        assert server.end() == 0


@pytest.mark.parametrize("name", SERVERS)
def test_a_slow_client_is_waited_for_and_new_ones_are_refused(name):
    with running(name, WORKERS="2") as server, connected(server) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n{")
        assert server.ask('{"words": [1]}')[0] == 200
        server.process.terminate()
        with contextlib.suppress(ConnectionError):
            while True:  # until new ones are refused, the slow one still waiting
                connected(server).close()
        client.sendall(b" " * 98)
        assert client.recv(12) == b"HTTP/1.1 400"
        assert server.process.wait(60) in (0, -signal.SIGTERM)


@pytest.mark.parametrize("name", SERVERS)
def test_a_slow_client_is_waited_for_until_the_time_is_up(name):
    with running(name, WORKERS="2", GRACE="1") as server, connected(server) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n{")
        assert server.ask('{"words": [1]}')[0] == 200
        server.process.terminate()
        assert server.process.wait(60) in (0, -signal.SIGTERM)


def test_sigint_after_sigterm_ends_loops_whose_model_does_not_return(strange):
    directory, environment = strange
    options = {"WORKERS": "2", "GRACE": "1", **environment}
    with running("loops", **options) as server, connected(server) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nwait")
        (directory / "started").read_text()
        server.process.terminate()
        while "Shutting down" not in server.process.stdout.readline():
            pass
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(60) == -signal.SIGINT
