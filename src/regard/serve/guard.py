"""The guard around the application: who may send requests, how large, and the headers of every response.

Names   A page of another site can make its own name point here (DNS rebinding) and would then count as ours:
        a request whose Host header is not one of our names is refused.
Token   Where other machines can reach us, every request must have the token: as a bearer, as the
        cookie that the page gets, or once as ?token=…, which turns into the cookie.
Size    The body is bounded, and so is the time it may take to arrive.
Policy  Only the page's own script runs, whatever a text contains.
"""

import asyncio
import hmac
import json
from collections.abc import Collection
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "regard"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True)
class Bounds:
    """Limits of requests; a longer text, a larger body or one request too many is refused."""

    longest: int = 512  # tokens of a text; characters are bounded accordingly, before any work
    seconds: float = 20.0  # to arrive, to wait in the queue, to be answered: each
    room: int = 256  # requests in the queue, those at work included
    bytes: int = 1 << 18  # of the body of a request
    connections: int = 1000
    panels: int = 4  # runs side by side on a page


def problem(status: int, error: str, **headers: str) -> Response:
    """A response that says in one sentence why there is no answer."""
    body = json.dumps({"error": error})  # ASCII, so that any text can be quoted
    return Response(body, status, {k.replace("_", "-"): v for k, v in headers.items()}, "application/json")


@dataclass(frozen=True)
class Guard:
    """An ASGI application around another."""

    app: ASGIApp
    bounds: Bounds
    names: Collection[str] | None  # of this host; None: any, which needs a token
    token: str | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        asked = HTTPConnection(scope)
        response: ASGIApp | None = self._refusal(asked)
        if response is None:
            try:
                body = await asyncio.wait_for(self._body(asked.headers, receive), self.bounds.seconds)
                response, receive = self.app, _again(body, receive)
            except TooLarge:
                response = problem(
                    413, f"a request may have {self.bounds.bytes:,} bytes.", Connection="close"
                )
            except TimeoutError:
                response = problem(408, "the request did not arrive in time.", Connection="close")
        await response(scope, receive, sealed)

    def _refusal(self, asked: HTTPConnection) -> Response | None:
        headers, path = asked.headers, asked.scope["path"]
        name = host_name(headers.get("host", ""))
        if self.names is not None and name not in self.names:
            return problem(421, f"this is not {name[:100]!r}; ask for {' or '.join(sorted(self.names))}.")
        if headers.get("sec-fetch-site") == "cross-site" and path.startswith("/api/"):
            return problem(403, "requests from pages of other sites are refused.")
        if self.token is None:
            return None
        if path == "/" and self._is_token(asked.query_params.get("token")):
            # The fragment behind # stays in the browser, and is kept.
            cookie = f"{COOKIE}={self.token}; Path=/; HttpOnly; SameSite=Strict"
            return Response(status_code=303, headers={"Location": "/", "Set-Cookie": cookie})
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if self._is_token(bearer) or self._is_token(asked.cookies.get(COOKIE)):
            return None
        return problem(
            401,
            "a token is needed: open the address that regard serve printed, or send Authorization: Bearer.",
            WWW_Authenticate="Bearer",
        )

    def _is_token(self, given: str | None) -> bool:
        known = (self.token or "").encode()
        return given is not None and hmac.compare_digest(known, given.encode("utf-8", "replace"))

    async def _body(self, headers: Headers, receive: Receive) -> list[Message]:
        length, found = headers.get("content-length", "0"), []
        if not length.isdecimal() or int(length[:20]) > self.bounds.bytes:
            raise TooLarge
        size, more = 0, True
        while more:
            message = await receive()
            found.append(message)
            size += len(message.get("body", b""))
            if size > self.bounds.bytes:
                raise TooLarge
            more = message.get("more_body", False)
        return found


class TooLarge(Exception):
    """A body of too many bytes."""


def host_name(host: str) -> str:
    """The name in a Host header, without port, brackets and case."""
    name, _, port = host.rpartition(":")
    return (name if port.isdecimal() else host).strip("[]").rstrip(".").lower()


def _again(messages: list[Message], receive: Receive) -> Receive:
    waiting = iter(messages)

    async def next_one() -> Message:
        for message in waiting:
            return message
        return await receive()

    return next_one
