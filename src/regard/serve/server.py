"""The server: sockets, names and tokens around the application."""

import asyncio
import gc
import os
import re
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.core.errors import SettingsError
from regard.serve.guard import Bounds, Guard
from regard.serve.served_run import ServedRun
from regard.serve.web_app import make_app
from regard.serve.work_queue import WorkQueue

TOKEN = re.compile(r"[A-Za-z0-9_-]{16,}")
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Timed(H11Protocol):
    """HTTP that closes a connection whose request header takes longer than an idle connection may."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        self._head: asyncio.TimerHandle | None = self.loop.call_later(
            self.timeout_keep_alive, transport.close
        )

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._unset()
        elif self._head is None:  # the header has begun, and is not complete
            self._head = self.loop.call_later(self.timeout_keep_alive, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._unset()
        super().connection_lost(exc)

    def _unset(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None


class Server(uvicorn.Server):
    """A server that ends its workers as soon as it is told to stop: no request holds it up."""

    def __init__(self, config: uvicorn.Config, queue: WorkQueue):
        super().__init__(config)
        self.queue = queue

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.queue.close()
        await super().shutdown(sockets)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server at this host."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def token_for(host: str) -> str | None:
    """The token that requests must have: none on loopback, else REGARD_TOKEN or a random one."""
    if is_loopback(host):
        return None
    token = os.environ.get("REGARD_TOKEN") or secrets.token_urlsafe(24)
    if not TOKEN.fullmatch(token):
        raise SettingsError("REGARD_TOKEN must be 16 letters, digits, - or _, or more; it is not.")
    return token


def listen(host: str, port: int) -> socket.socket:
    """A socket at this address; port 0 is any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind((host, port))
    found.listen(128)  # connections made before the server is ready wait
    return found


def serve(
    runs: Mapping[str, ServedRun],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    bounds: Bounds = Bounds(),  # noqa: B008  (frozen)
    device: str = "cpu",
    say: Callable[[str], None] = print,
) -> None:
    """Serve until interrupted; where other machines can reach it, with a token (`token_for`)."""
    near = is_loopback(host)
    token = token_for(host)
    there = listen(host, port)
    name = f"[{host}]" if ":" in host else host
    say(f"http://{name}:{there.getsockname()[1]}/" + ("" if token is None else f"?token={token}"))
    server = make_server(runs, bounds, {host, *LOOPBACK} if near else None, token, device)
    with kept_shared():
        server.run(sockets=[there])


@contextmanager
def kept_shared() -> Iterator[None]:
    """Leave what is in memory now to the workers as it is.

    Garbage collection writes into every object that it looks at: one in the server would give it a copy of
    its own of all that it shares with its workers, and those that are forked later would share the copy.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def make_server(
    runs: Mapping[str, ServedRun],
    bounds: Bounds,
    names: set[str] | None,
    token: str | None = None,
    device: str = "cpu",
) -> uvicorn.Server:
    """The server without its socket."""
    app = make_app(runs, bounds, device)
    config = uvicorn.Config(
        Guard(app, bounds, names, token),
        http=Timed,
        ws="none",
        loop="asyncio",
        log_level="warning",
        access_log=False,  # no text of a user is written anywhere
        proxy_headers=False,
        server_header=False,
        limit_concurrency=bounds.connections,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=2,
    )
    return Server(config, app.state.queue)
