"""Exact marginalisation: every choice in turn, weighed by its probability; for few keys.

    E[L] = Σ_s p(s) L(s),      p(s) = Π softmax(θ)

No variance and no bias, at the cost of one run of the model for each joint choice of all rows of an example,
n^rows: for small problems, and to see what the other estimators are off by. Examples of a batch do not
multiply: they go through their choices together.

`expected_loss(lambda: losses)` runs the model again and again; in each run the draws find, through a context
variable, the keys they are to take. A later draw may depend on the keys of an earlier one.
"""

from collections.abc import Callable
from contextvars import ContextVar
from math import prod

import torch
from torch import Generator, Tensor

from regard.core.compiling import in_backward, untraced
from regard.core.errors import ShapeError
from regard.maps.estimators.estimator import (
    UNTRACED,
    Estimator,
    Note,
    Vertices,
    by_example,
    draw,
    log_softmax,
)


class Exact(Estimator):
    """Every key of every row in turn, in at most `paths` runs of the model.

    Its gradient comes through `regard.losses.expected_loss`, given a function. Elsewhere one key is drawn.
    """

    structured = False
    usage = "regard.losses.expected_loss(lambda: losses).backward(), with a function that runs the model"

    def __init__(self, paths: int = 1000) -> None:
        super().__init__()
        if paths < 1:
            raise ValueError(f"paths must be at least 1; got {paths}.")
        self.paths = paths

    def draw(self, theta: Tensor, among: Vertices, generator: Generator | None) -> Tensor:
        """The keys that are their turn, or drawn ones, for scores (b, ..., n): weights (b, ..., n)."""
        course = _course.get()
        if course is not None:
            return course.take(theta, self.paths)
        if in_backward():
            raise RuntimeError("Exact cannot choose again inside backward: do not checkpoint this attention.")
        return draw(theta, Note(self), generator)

    def terms(self, theta: Tensor, keys: Tensor, note: Note) -> tuple[Tensor, Tensor]:
        """Exact has none: it asks for a function."""
        raise TypeError(
            "Exact tries every choice, so it must be able to run the model; got a tensor of losses. Use "
            f"{self.usage}."
        )

    def extra_repr(self) -> str:
        return f"paths={self.paths}"


untraced(Exact.draw, UNTRACED)  # a context variable cannot be traced


class Course:
    """One joint choice of all draws, and then the next: an odometer with one digit for each draw."""

    def __init__(self) -> None:
        self.digits: list[int] = []
        self.sizes: list[int] = []  # how many choices each draw has
        self.log_p: list[Tensor] = []  # of the draws of this run: (b,) or (1,) each

    def take(self, theta: Tensor, limit: int) -> Tensor:
        """The keys of scores (b, ..., n) whose turn it is: weights (b, ..., n)."""
        rows = theta.reshape(-1 if theta.dim() > 1 else 1, prod(theta.shape[1:-1]), theta.shape[-1])
        options = [row.nonzero().flatten().tolist() or [0] for row in (rows != -torch.inf).any(0)]
        at, size = len(self.log_p), prod(len(keys) for keys in options)
        if at == len(self.digits):
            self.digits.append(0)
            self.sizes.append(size)
            if prod(self.sizes) > limit:
                raise ValueError(
                    f"Exact would run the model {prod(self.sizes):,} times or more; it may {limit:,} times. "
                    "Use fewer keys, queries or heads, a larger Exact(paths=…), or Reinforce()."
                )
        if self.sizes[at] != size:
            raise RuntimeError("with the same keys chosen, the model came to other choices: it must not.")
        chosen, rest = [], self.digits[at]
        for keys in options:
            rest, which = divmod(rest, len(keys))
            chosen.append(keys[which])
        key = torch.tensor(chosen, device=theta.device).expand(len(rows), -1)  # (b, rows)
        first = torch.tensor([keys[0] for keys in options], device=theta.device)  # (rows,)
        taken = rows.gather(-1, key.unsqueeze(-1)).squeeze(-1)  # (b, rows)
        empty = (rows == -torch.inf).all(-1)
        log_p = log_softmax(rows).gather(-1, key.unsqueeze(-1)).squeeze(-1)
        log_p = torch.where(empty & (key != first), -torch.inf, log_p)  # nothing to choose: counts once
        self.log_p.append(by_example(log_p))
        with torch.no_grad():
            there = torch.arange(rows.shape[-1], device=theta.device) == key.unsqueeze(-1)
            weights = (there & (taken != -torch.inf).unsqueeze(-1)).to(theta.dtype)
            wrong = rows.isnan().any(-1, keepdim=True) | (rows == torch.inf).any(-1, keepdim=True)
            return torch.where(wrong, torch.nan, weights).reshape(theta.shape)

    def run(self, compute: Callable[[], Tensor]) -> Tensor:
        """p(s) L(s) (b,) of this choice."""
        self.log_p = []
        token = _course.set(self)
        try:
            losses = compute()
        finally:
            _course.reset(token)
        if not self.log_p:
            return losses
        log_p = torch.zeros_like(losses)
        for part in self.log_p:
            if len(part) not in (1, len(losses)):
                raise ShapeError(
                    f"losses must be ({len(part)},), one for each example of the scores; "
                    f"got {tuple(losses.shape)}."
                )
            log_p = log_p + part
        p = log_p.exp()
        return torch.where(p == 0, 0, p * losses)

    def advance(self) -> bool:
        """Go on to the next choice, the last draw first; False if there is none."""
        while self.digits and self.digits[-1] == self.sizes[-1] - 1:
            self.digits.pop()
            self.sizes.pop()
        if self.digits:
            self.digits[-1] += 1
        return bool(self.digits)


def marginal(compute: Callable[[], Tensor]) -> Tensor:
    """Σ_s p(s) L(s) (b,) over the choices of all `Exact` draws in compute() → L (b,)."""
    course = Course()
    total = course.run(compute)
    while course.advance():
        total = total + course.run(compute)
    return total


_course: ContextVar[Course | None] = ContextVar("regard_course", default=None)
