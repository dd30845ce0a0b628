"""SparseMAP for a batch of scores: threads over the instances, and what they leave behind."""

from dataclasses import dataclass
from math import prod
from typing import Any
from warnings import warn
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from regard.kernels.common.pool import load_kernels, over_rows

CHOICE, BUDGET, CHAIN, MATCHING, TREE, OWN = range(6)  # as in oracles.py; OWN: `limit` is a key of OWNERS
NAMES = ("choice", "budget", "path", "matching", "tree", "structure")
OWNERS: WeakValueDictionary[int, Any] = WeakValueDictionary()  # by handle: those of oracle.py


@dataclass(frozen=True, eq=False)
class Solved:
    """What a solver hands back, for scores (*batch, m, n)."""

    kind: int
    marginals: Tensor  # (*batch, m, n)
    gap: Tensor  # (*batch,)
    faces: Any  # sparsemap_jacobian.Faces
    owner: Any = None  # of the oracle, if it is somebody's own: lives as long as what it solved


def _array(tensor: Tensor, *shape: int) -> Any:
    return tensor.detach().to("cpu", torch.float64).contiguous().numpy().reshape(shape)


def report(kind: int, status: Any, gap: Any, batch: tuple[int, ...]) -> None:
    """Raise for the first instance that no vertex fits; warn of those that were not finished."""
    kernels = load_kernels("regard.kernels.sparsemap.sparsemap_rows")
    if (status == kernels.INFEASIBLE).any():
        at = np.unravel_index(int((status == kernels.INFEASIBLE).argmax()), batch)
        place = f"scores[{', '.join(str(int(i)) for i in at)}]" if batch else "scores"
        raise ValueError(
            f"{place} must leave room for a {NAMES[kind]}; got a mask (−inf) under which none fits. "
            "Let more be seen, or hide all of what is not to take part."
        )
    if (status == kernels.UNFINISHED).any():
        warn(
            f"SparseMAP over a {NAMES[kind]} stopped early in {int((status == kernels.UNFINISHED).sum())} of "
            f"{len(status)} instances, with a duality gap of up to {gap.max():.1e}.",
            RuntimeWarning,
            stacklevel=2,
        )


def joined(parts: list[Any]) -> Any:
    """Faces of several ranges of instances as one."""
    return type(parts[0])(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def solve(scores: Tensor, transitions: Tensor, kind: int, limit: int, complete: bool = True) -> Solved:
    """Solve scores (*batch, m, n), with transitions (*batch, s, s); `complete`: the faces serve gradients."""
    *batch, m, n = scores.shape
    if kind == OWN:
        solved: Solved = OWNERS[limit].solve_all(scores, complete)
        return solved
    kernels = load_kernels("regard.kernels.sparsemap.sparsemap_rows")
    b, s = prod(batch), transitions.shape[-1]
    theta, moves = _array(scores, b, m * n), _array(transitions, b, s, s)
    marginals, gap, status = np.zeros((b, m * n)), np.zeros(b), np.zeros(b, np.int64)
    parts: dict[int, Any] = {}

    def run(start: int, stop: int) -> None:
        found = kernels.solve(
            start, stop, kind, limit, (m, n), theta, moves, marginals, gap, status, complete
        )
        parts[start] = load_kernels("regard.kernels.sparsemap.sparsemap_jacobian").trimmed(*found)

    if theta.size:
        over_rows(run, b, 64 * theta.size)
        report(kind, status, gap, tuple(batch))
    faces = (
        joined([parts[start] for start in sorted(parts)])
        if parts
        else load_kernels("regard.kernels.sparsemap.sparsemap_jacobian").nothing(b, 1)
    )
    shaped = torch.from_numpy(marginals).reshape(scores.shape)
    return Solved(kind, shaped, torch.from_numpy(gap).reshape(batch), faces)


def best(scores: Tensor, transitions: Tensor, kind: int, limit: int) -> Tensor:
    """The best vertex for scores (*batch, m, n), 0 or 1, in their dtype."""
    *batch, m, n = scores.shape
    if kind == OWN:
        answers: Tensor = OWNERS[limit].best_all(scores)
        return answers.to(scores)
    b, s = prod(batch), transitions.shape[-1]
    theta, moves = _array(scores, b, m * n), _array(transitions, b, s, s)
    vertex, status = np.zeros_like(theta), np.zeros(len(theta), np.int64)
    if theta.size:
        run = load_kernels("regard.kernels.sparsemap.sparsemap_rows").best
        over_rows(run, len(theta), 8 * theta.size, kind, limit, (m, n), theta, moves, vertex, status)
        report(kind, status, np.zeros(1), tuple(batch))
    return torch.from_numpy(vertex).reshape(scores.shape).to(scores)


def jacobian_product(solved: Solved, gradient: Tensor, along: Tensor) -> tuple[Tensor, Tensor]:
    """The Jacobian times gradient (..., *batch, m, n) and along (..., *batch, s, s), in the same shapes."""
    faces, s, shape = solved.faces, along.shape[-1], solved.marginals.shape
    k, b, d = prod(gradient.shape[: -len(shape)]), prod(shape[:-2]), prod(shape[-2:])
    g, a = _array(gradient, k, b, d), _array(along, k, b, s, s)
    answer, turned = np.zeros_like(g), np.zeros_like(a)
    if answer.size:
        first, corner = np.cumsum(faces.size) - faces.size, np.cumsum(faces.size * (faces.size + 1) // 2)
        corner -= faces.size * (faces.size + 1) // 2
        run = load_kernels("regard.kernels.sparsemap.sparsemap_jacobian").jacobian_product
        marginals = solved.marginals.numpy().reshape(b, d)
        over_rows(
            run, b, 8 * answer.size, solved.kind, s, first, corner, faces, marginals, g, a, answer, turned
        )
    to_scores, to_transitions = torch.from_numpy(answer), torch.from_numpy(turned)
    return to_scores.reshape(gradient.shape).to(gradient), to_transitions.reshape(along.shape).to(along)
