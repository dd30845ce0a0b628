"""A server of small runs, and a client of it."""

import json
import socket
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from threading import Thread
from time import monotonic, sleep

from inspection.tiny_runs import folder_of
from regard.serve import Bounds, open_runs
from regard.serve.server import LOOPBACK, make_server


def opened(*names):
    """Small runs by name, ready to be served."""
    return open_runs([folder_of(name) for name in names])


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
    """Sends requests to a server at a port."""

    port: int

    def get(self, path, **headers):
        """GET a path."""
        return self.send("GET", path, None, headers)

    def post(self, path, value, **headers):
        """POST a value as JSON, or bytes as they are."""
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        return self.send("POST", path, body, {"Content-Type": "application/json", **headers})

    def inspect(self, text, run="heads", **more):
        """Have a run answer a text."""
        return self.post("/api/inspect", {"run": run, "text": text, **more})

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
