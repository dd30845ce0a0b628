"""What the loop asks of a problem, and what it reports."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn


class Problem(Protocol):
    """What is learned: batches, a loss, and figures in validation."""

    def batches(self, epoch: int, skip: int) -> Iterator[Any]:
        """The batches of an epoch from the one numbered `skip` on: always the same ones."""
        ...

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, int]:
        """The sum of a batch's losses, and over how many tokens (or examples) it is."""
        ...

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Figures on held-out data; "loss" is what counts."""
        ...


@runtime_checkable
class Carries(Protocol):
    """A problem whose model keeps a state from one batch to the next, which is part of a checkpoint."""

    def carried(self) -> dict[str, Tensor]:
        """The state after the last batch, by name; of the same shapes in every process. May be empty."""
        ...

    def carry(self, state: Mapping[str, Tensor]) -> None:
        """Go on with such a state."""
        ...


class Diverged(RuntimeError):
    """The loss is no longer a number."""


class Interrupted(RuntimeError):
    """The loop was asked to stop (Ctrl-C, SIGTERM); all is saved."""


@dataclass
class Progress:
    """How far a run is: part of every checkpoint."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # of the epoch, the next one
    best: float = math.inf  # loss in validation
    best_step: int = 0
    since: int = 0  # validations since the best
    halvings: int = 0
    validated: list[int] = field(default_factory=list)  # steps of the last validations
    finished: bool = False


@dataclass(frozen=True)
class StepReport:
    """How training goes, after a step."""

    step: int
    steps: int
    loss: float  # per token, of this step
    rate: float
    tokens_per_second: float
    seconds_left: float
    validation: dict[str, float] | None = None


Listener = Callable[[StepReport], None]
