"""What a test of an audit returns: a number, its baseline, an interval, and on how many inputs."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Finding:
    """The outcome of one test; one that could not be made has no value, and `why` says the reason."""

    value: float | None
    yardstick: float | None  # the baseline: what the value must be compared with
    interval: tuple[float, float] | None  # of the value: 95 %, by bootstrap over inputs
    inputs: int
    says: str  # what value and baseline are, one line
    why: str | None = None  # not applicable, because …
    details: dict[str, Any] = field(default_factory=dict)  # further figures, for the report

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def not_applicable(why: str, says: str = "") -> Finding:
    """The finding of a test that could not be made."""
    return Finding(None, None, None, 0, says, why)
