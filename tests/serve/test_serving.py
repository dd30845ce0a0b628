"""The benchmark of serving, with few clients for a moment: it measures what it says, and finds no error."""

import asyncio
import gc
import json
import math
import os
import socket
import subprocess
from threading import Thread

import pytest
from typer.testing import CliRunner

from regard.bench import serving as subject
from regard.bench.timing import Effort
from regard.cli import app
from regard.serve import server


@pytest.fixture(scope="module")
def results(apart):
    return [apart(case.measure, Effort()).json() for case in subject.cases(clients=[8], seconds=1.5)]


def test_answers_waiting_and_memory_are_measured(results):
    answers, waiting, memory = results
    assert "answers per second" in answers["what"] and answers["seconds"] > 0
    assert waiting["seconds"] >= answers["seconds"]  # eight wait for each other
    assert memory["limit"] == 1.1 and memory["held"], memory
    json.dumps(results)


def test_percentiles():
    load = subject.Load(1, 10.0, [float(i) for i in range(101)][::-1])
    assert load.p95 == 95 and load.per_answer == pytest.approx(10 / 101)


def test_an_answer_that_is_neither_is_an_error(apart):
    with socket.create_server(("127.0.0.1", 0)) as there:

        def answer():
            while True:
                try:
                    one, _ = there.accept()
                except OSError:
                    return
                one.recv(10_000)
                one.sendall(b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno")
                one.close()

        Thread(target=answer, daemon=True).start()
        load = subject.Load(1, 1.0, [])
        asked = subject.client(there.getsockname()[1], load, ["a"], subject.monotonic() + 0.2)
        apart(asyncio.run, asked)
        there.shutdown(socket.SHUT_RDWR)
    assert load.errors[0] == 500 and not load.waits


def test_the_command_is_there():
    done = CliRunner().invoke(app, ["bench", "serving", "--help"], prog_name="regard")
    assert done.exit_code == 0 and "--clients" in done.output


def test_the_collector_of_the_server_leaves_alone_what_its_workers_share(monkeypatch):
    frozen: list[int] = []
    served = type("Served", (), {"run": lambda self, sockets: frozen.append(gc.get_freeze_count())})
    monkeypatch.setattr(server, "make_server", lambda *_: served())
    server.serve({}, port=0, say=lambda _: None)
    assert frozen[0] > 10_000 and gc.get_freeze_count() == 0


def test_memory_of_a_process_whose_child_has_ended():
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert math.isnan(subject.mebibytes(2**22 + 1)) is False and subject.mebibytes(os.getpid()) > 10
    child.wait()
