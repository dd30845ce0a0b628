"""Estimators: how a gradient gets past a choice of keys, which itself has none.

    s = best(θ + g),   gⱼ ~ Gumbel, of mean 0        for one key of n: s ~ softmax(θ)

While training, an estimator draws s and says what takes the place of its gradient. In eval mode it takes
best(θ), and nothing is random. For a row, best is argmax; a structure (`regard.structures`) brings its own.

An unbiased gradient needs the loss, not only its slope at s. So a draw of `Reinforce` or `Exact` is a node of
the graph, a `Draw`, that `regard.losses.expected_loss` finds; if nobody does, backward raises.

The Gumbel-max trick: Gumbel (1954); as perturb-and-MAP Papandreou & Yuille (2011).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import torch
from torch import Generator, Tensor, nn
from torch.autograd import Function

from regard.core.compiling import in_backward, untraced
from regard.core.shapes import check, check_float, widened
from regard.maps.argmax import argmax
from regard.maps.sparsemax import sparsemax


class Vertices(Protocol):
    """What is chosen from: the best vertex for scores, and the point of their polytope nearest to them."""

    acts_on: Literal["row", "matrix"]

    def best(self, scores: Tensor) -> Tensor: ...

    def nearest(self, scores: Tensor) -> Tensor: ...


class OneKey:
    """One key of n: the corners of the simplex."""

    acts_on: Literal["row", "matrix"] = "row"
    best = staticmethod(argmax)
    nearest = staticmethod(sparsemax)


ONE_KEY = OneKey()
EULER = 0.5772156649015329  # the mean of −log of Exp(1) noise
ALWAYS = -2  # no backward pass has this number


class Estimator(nn.Module, ABC):
    """Called with scores (..., n) it gives weights (..., n); what it draws, and its gradient, are its own."""

    structured: ClassVar[bool] = True  # whether it can choose from any structure, or from one key of n alone
    usage: ClassVar[str] = ""  # how a loss is computed, for those whose gradient comes through the losses

    def forward(
        self, scores: Tensor, among: Vertices = ONE_KEY, generator: Generator | None = None
    ) -> Tensor:
        """Weights (..., n) for scores (..., n): drawn while training, the best in eval mode."""
        check_float("scores", scores)
        check("scores", scores, "... n")
        theta = widened(scores)
        drawing = self.training and theta.numel() > 0
        weights = self.draw(theta, among, generator) if drawing else among.best(theta)
        return weights.to(scores.dtype)

    @abstractmethod
    def draw(self, theta: Tensor, among: Vertices, generator: Generator | None) -> Tensor:
        """The weights (..., n) of a draw for scores (..., n), and the way back."""


def exponential(theta: Tensor, generator: Generator | None) -> Tensor:
    """Exp(1) noise like scores (..., n), what Gumbel noise is made of."""
    if generator is not None and in_backward():
        raise RuntimeError(
            "keys are drawn again inside backward (checkpointing), which sets back torch's own generator but "
            "not the one given. Use generator=None, or do not checkpoint this attention."
        )
    noise = torch.empty_like(theta, memory_format=torch.contiguous_format, requires_grad=False)
    return noise.exponential_(generator=generator)


def gumbel(noise: Tensor) -> Tensor:
    """Gumbel noise of mean 0 from Exp(1) noise: it does not push a structure to take more keys, or fewer."""
    return -EULER - noise.log()


def sampled(theta: Tensor, among: Vertices, generator: Generator | None) -> Tensor:
    """A vertex drawn for scores (..., n), without gradient; for one key of n, from their softmax."""
    with torch.no_grad():
        return among.best(theta + gumbel(exponential(theta, generator)))


class _Through(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(hard: Tensor, soft: Tensor) -> Tensor:
        return hard.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        return None, gradient


def through(hard: Tensor, soft: Tensor) -> Tensor:
    """The first of two tensors, with the gradient of the second."""
    apply: Callable[..., Tensor] = _Through.apply
    return apply(hard, soft)


@dataclass(eq=False)
class Note:
    """What a `Draw` remembers besides its scores and keys."""

    estimator: Estimator
    baseline: Tensor | None = None  # (), its value before anything was drawn
    counted: Tensor | None = None  # (b,): False for examples whose draw was swapped for soft weights
    claim: int | None = None  # the backward pass that comes from `expected_loss`

    def accept(self) -> None:
        """The backward pass under way comes from `expected_loss`; with create_graph, so do those to come."""
        self.claim = ALWAYS if torch.is_grad_enabled() else torch._C._current_graph_task_id()

    @property
    def accepted(self) -> bool:
        return self.claim in (ALWAYS, torch._C._current_graph_task_id())


class Draw(Function):
    """One key of each row, drawn: a constant for backward, and a node for `expected_loss` to find."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, note: Note, generator: Generator | None) -> Tensor:
        drawn = sampled(theta, ONE_KEY, generator)
        ctx.note = note
        ctx.save_for_backward(theta, drawn.argmax(-1))
        return drawn

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[None, None, None]:
        if not ctx.note.accepted:
            estimator = ctx.note.estimator
            raise RuntimeError(
                f"keys were drawn by {type(estimator).__name__}(), whose gradient comes through the losses, "
                f"one for each example (b,): use {estimator.usage}, not losses.mean().backward()."
            )
        return None, None, None


def draw(theta: Tensor, note: Note, generator: Generator | None) -> Tensor:
    """One key of each row of scores (..., n), as a `Draw`: weights (..., n)."""
    if torch._C._are_functorch_transforms_active():
        raise NotImplementedError(
            f"{type(note.estimator).__name__} finds its draws in autograd's graph, which torch.func "
            "(vmap, grad, …) does not build. Use backward() or torch.autograd.grad, or StraightThrough()."
        )
    if not theta.requires_grad:  # nothing will ask
        return sampled(theta, ONE_KEY, generator)
    apply: Callable[..., Tensor] = Draw.apply
    return apply(theta, note, generator)


UNTRACED = "Reinforce() and Exact() find their draws in autograd's graph: compile without fullgraph=True."
untraced(draw, UNTRACED)  # a Draw is made by autograd, between what is compiled


def log_softmax(theta: Tensor) -> Tensor:
    """log p of scores (..., n): (..., n), −inf where hidden; a row of nothing has 0, and no gradient."""
    empty = (theta == -torch.inf).all(-1, keepdim=True)
    return torch.where(empty, 0, torch.where(empty, 0, theta).log_softmax(-1))


def by_example(rows: Tensor) -> Tensor:
    """Rows (b, ...) summed over all axes but the first: (b,). No axes: (1,)."""
    return rows.flatten(1).sum(1) if rows.dim() > 1 else rows.reshape(-1)
