"""What the checks share: calling a function again with something changed, and measuring what moved.

Each call starts from the same random state, so that dropout falls alike.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.attention import Attended

Function = Callable[..., Any]
Content = Literal["random", "huge", "nan"]
HUGE = 1e4  # times the spread of the inputs
MANY = 32  # places tried in a long sequence


@contextmanager
def as_it_was(function: Function) -> Iterator[None]:
    """Put back the random state and, of a module, the buffers in the end."""
    module = function if isinstance(function, nn.Module) else getattr(function, "__self__", None)
    buffers = list(module.buffers()) if isinstance(module, nn.Module) else []
    kept = [buffer.clone() for buffer in buffers]
    try:
        with torch.random.fork_rng():
            yield
    finally:
        for buffer, old in zip(buffers, kept, strict=True):
            buffer.data.copy_(old)


def call(function: Function, seed: int, *inputs: Tensor) -> Tensor:
    """The output of the function, from a fixed random state."""
    torch.manual_seed(seed)
    result = function(*inputs)
    found = tensors(result)
    if not found:
        raise TypeError(
            f"the function must return a tensor; got {type(result).__name__}. Wrap it in a lambda."
        )
    return found[0]


def tensors(result: Any) -> list[Tensor]:
    """The tensors of a result: of an `Attended` the context, of a tuple, list or mapping all in it."""
    if isinstance(result, Tensor):
        return [result]
    if isinstance(result, Attended):
        return [result.context]
    parts = (
        result.values() if isinstance(result, Mapping) else result if isinstance(result, list | tuple) else ()
    )
    return [tensor for part in parts for tensor in tensors(part)]


def gradients(output: Tensor, counts: Tensor, seed: int) -> dict[Tensor, Tensor]:
    """The gradient of each leaf of the graph, for a random combination of the outputs that count."""
    leaves: list[Tensor] = []
    waiting, known = [output.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in known:
            known.add(node)
            leaves += [node.variable] if hasattr(node, "variable") else []
            waiting += [before for before, _ in node.next_functions]
    if not leaves:
        return {}
    weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(seed)) * counts
    found = torch.autograd.grad(output, leaves, weights.to(output), retain_graph=True)
    return dict(zip(leaves, found, strict=True))


def replaced(inputs: Tensor, where: Tensor, content: Content, vocabulary: int | None, seed: int) -> Tensor:
    """The inputs, with other contents where `where`, which broadcasts to them, is True."""
    draw = torch.Generator().manual_seed(seed + 123_456_789)  # the inputs may come from the seed itself
    if inputs.is_floating_point():
        spread = float(inputs.detach().double().std().nan_to_num()) or 1.0
        factor = {"random": spread, "huge": HUGE * spread, "nan": torch.nan}[content]
        new = torch.randn(inputs.shape, generator=draw).to(inputs) * factor
    else:
        size = vocabulary or int(inputs.max()) + 1
        new = (inputs + torch.randint(1, size, inputs.shape, generator=draw).to(inputs.device)) % size
    return torch.where(where.to(inputs.device), new, inputs)


def fitting(inputs: Tensor, contents: Sequence[Content]) -> Sequence[Content]:
    """Tokens can only be other tokens."""
    return contents if inputs.is_floating_point() else ("random",)


def apart(before: Tensor, after: Tensor) -> Tensor:
    """How far each number moved; from or to NaN is infinitely far."""
    if before.shape != after.shape:
        raise AssertionError(
            f"the output's shape changed from {tuple(before.shape)} to {tuple(after.shape)}."
        )
    x, y = before.detach().double().cpu(), after.detach().double().cpu()
    same = (x == y) | (x.isnan() & y.isnan())
    return torch.where(same, 0, (x - y).abs().nan_to_num(nan=torch.inf))


def by_place(moved: Tensor, axis: int) -> Tensor:
    """The most at each place of the axis: (n,)."""
    return moved.movedim(axis, 0).flatten(1).amax(1)


def along(axis: int, axes: int, values: Tensor) -> Tensor:
    """Values (n,) along one of so many axes."""
    return values.reshape([-1 if k == axis % axes else 1 for k in range(axes)])


def beside(where: Tensor, tensor: Tensor) -> Tensor:
    """(b, n) with as many axes as the tensor has."""
    return where.reshape((*where.shape, *[1] * tensor.dim())[: tensor.dim()])


def spread(start: int, stop: int) -> list[int]:
    """The places from start to stop (not included); of many, some from all over."""
    return sorted({int(j) for j in torch.linspace(start, stop - 1, min(MANY, max(stop - start, 0)))})


def rounding(output: Tensor) -> float:
    """What sums in another order may differ by."""
    if not output.is_floating_point():
        return 0.0
    size = float(output.detach().abs().nan_to_num(posinf=0).max())
    return float(max(1.0, size) * torch.finfo(output.dtype).eps ** 0.5)


def check_places(output: Tensor, n: int, axis: int) -> None:
    """Require an output for each of n inputs."""
    if output.dim() <= axis or output.shape[axis] != n:
        raise ValueError(f"there must be an output for each of the {n} inputs; got {tuple(output.shape)}.")
