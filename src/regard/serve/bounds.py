"""What a server takes on."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Bounds:
    """Limits of requests."""

    longest: int = 512  # tokens of a text
    seconds: float = 20.0  # for a request to arrive, to wait for its turn, to be worked on: each
    room: int = 32  # requests that wait or are worked on; more are told to come again
    bytes: int = 1 << 18  # of the body of a request
    connections: int = 1000
    panels: int = 4  # runs beside each other on a page
