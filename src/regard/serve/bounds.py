"""Limits of what a server accepts."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Bounds:
    """Limits of requests; a longer text, a larger body or one request too many is refused."""

    longest: int = 512  # tokens of a text; characters are bounded accordingly, before any work
    seconds: float = 20.0  # to arrive, to wait in the queue, to be answered: each
    room: int = 32  # requests in the queue, the one at work included
    bytes: int = 1 << 18  # of the body of a request
    connections: int = 1000
    panels: int = 4  # runs side by side on a page
