"""Runs small enough for tests, and a server around them."""

import json
import socket
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from threading import Thread
from time import monotonic, sleep

from regard.runs import fit, resolved
from regard.serve import Bounds, open_runs
from regard.serve.server import LOOPBACK, make_server

MODELS = {
    "heads": {"name": "transformer", "width": 32, "inner": 32, "layers": 2, "heads": 2},
    "sparse": {"name": "bahdanau", "width": 16, "map": "entmax15"},
    "rnn": {"name": "rnn", "width": 16},
}
STEPS = {"heads": 40, "sparse": 5, "rnn": 2}  # fewer, and all it writes is white space


def train(folder, names=("heads", "sparse")):
    """The folders of runs that have begun to learn to copy; every word has several pieces."""
    for name in names:
        settings = {
            "seed": 4,
            "data": {"corpus": "copy", "pairs": 300, "held_out": 4, "tokens": "character", "vocabulary": 60},
            "model": {**MODELS[name], "dropout": 0.0},
            "training": {
                "steps": STEPS[name],
                "tokens": 256,
                "rate": 0.01,
                "warmup": 5,
                "validate": 500,
                "save": 500,
            },
            "decoding": {"beam": 2 if name == "sparse" else 1, "most": 24},
        }
        fit(resolved(settings), folder / name)
    return [folder / name for name in names]


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    headers: dict
    body: bytes

    def json(self):
        """The body as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Client:
    """Asks a server at a port."""

    port: int

    def get(self, path, **headers):
        """GET a path."""
        return self.send("GET", path, None, headers)

    def post(self, path, value, **headers):
        """POST a value as JSON, or bytes as they are."""
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        return self.send("POST", path, body, {"Content-Type": "application/json", **headers})

    def look(self, text, **more):
        """Ask the first run."""
        return self.post("/api/look", {"run": "heads", "text": text, **more})

    def send(self, method, path, body, headers):
        """One request on a connection of its own."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        found = connection.getresponse()
        reply = Reply(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read())
        connection.close()
        return reply


@contextmanager
def serving(runs, bounds=None, names=frozenset(LOOPBACK), token=None):
    """A client of a server of these runs, which stops with the block."""
    there = socket.create_server(("127.0.0.1", 0))
    server = make_server(runs, bounds or Bounds(), names, token)
    thread = Thread(target=server.run, kwargs={"sockets": [there]}, daemon=True)
    thread.start()
    until = monotonic() + 30
    while not server.started and monotonic() < until:
        sleep(0.01)
    try:
        yield Client(there.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(30)
        there.close()
        assert not thread.is_alive()


def opened(folder, names=("heads", "sparse")):
    """The runs themselves."""
    return open_runs(train(folder, names))
