"""Weights in every form people have them in, as one list of matrices with names; and as numbers to send.

Numbers have few digits where there are few, and two bytes each where there are many. Either way exactly 0
stays exactly 0, and nothing else becomes 0: sparse weights arrive sparse.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.attention import Attended, name_of
from regard.core.errors import ShapeError

Array = NDArray[np.floating[Any]]
Weights = Tensor | Attended | Sequence[Any] | Mapping[str, Any]
DIGITS = 5  # significant ones, of numbers for the browser
CELLS = 1 << 24  # of all matrices together: 4,096 × 4,096


@dataclass(frozen=True, eq=False)
class Matrix:
    """One matrix of weights: a layer's, a head's, or what the caller named."""

    weights: Array  # (m, n)
    name: str = ""
    layer: int | None = None  # from 0; shown from 1
    head: int | None = None
    target: tuple[str, ...] | None = None  # its own, where a view's matrices differ in it

    @property
    def signed(self) -> bool:
        """Whether it holds what is below 0: a difference, a gradient."""
        return bool((self.weights < 0).any())


def matrices_of(weights: Weights) -> tuple[Matrix, ...]:
    """Every matrix (m, n) in `weights`, in order.

    A tensor is (m, n), (heads, m, n) or (1, heads, m, n); so is what an `Attended` holds. A sequence of those
    is one per layer, as Hugging Face models return them. A mapping gives names, as `record` does; there a
    list holds the calls of one attention, one after the other.
    """
    if isinstance(weights, Mapping):
        matrices = tuple(
            replace(found, name=", ".join(filter(None, (str(name), found.name))))
            for name, value in weights.items()
            for found in _heads(calls_of(value) if isinstance(value, list | tuple) else value)
        )
    elif isinstance(weights, list | tuple):
        matrices = tuple(_layers(weights))
    else:
        matrices = tuple(_heads(weights))
    if not matrices:
        raise ValueError("weights must hold at least one matrix; got none.")
    _checked(matrices)
    return matrices


def picked(matrices: tuple[Matrix, ...], layer: int | None, head: int | None) -> tuple[Matrix, ...]:
    """The matrices of this layer and this head, counted from 0; None is all."""
    found = tuple(m for m in matrices if layer in (None, m.layer) and head in (None, m.head))
    if not found:
        some = ", ".join(f"({m.layer}, {m.head})" for m in matrices[:6])
        raise ValueError(f"no matrix has layer={layer} and head={head}; there are (layer, head) {some} ….")
    return found


def same_size(matrices: Iterable[Matrix]) -> tuple[int, int]:
    """The (m, n) that all matrices share."""
    shapes = sorted({m.weights.shape for m in matrices})
    if len(shapes) > 1:
        raise ShapeError(f"weights must be (m, n), all of one shape; got {shapes}. Draw them one by one.")
    m, n = shapes[0]
    return m, n


def facts(weights: Weights) -> str:
    """What an `Attended` knows of itself, its score and its map; of several, if they agree."""
    found: list[Any] = list(weights) if isinstance(weights, list | tuple) else [weights]
    if not all(isinstance(one, Attended) for one in found):
        return ""
    said = {f"Score: {name_of(one.score)}. Map: {name_of(one.map)}. " for one in found}
    return said.pop() if len(said) == 1 else ""


def _layers(layers: Sequence[Any]) -> Iterator[Matrix]:
    for number, layer in enumerate(layers):
        if layer is None:
            raise TypeError(
                f"layer {number + 1} has no weights but None. Hugging Face models return them with "
                "output_attentions=True and attn_implementation='eager'."
            )
        for found in _heads(layer):
            one = len(layers) == 1
            name = ", ".join(filter(None, ("" if one else f"layer {number + 1}", found.name)))
            yield replace(found, name=name, layer=None if one else number)


def _heads(weights: Any) -> Iterator[Matrix]:
    p = _tensor(weights)
    shape = tuple(p.shape)
    if p.dim() == 4 and len(p) == 1:
        p = p[0]
    if p.dim() not in (2, 3):
        raise ShapeError(
            f"weights must be (m, n), (heads, m, n) or (1, heads, m, n); got {shape}. "
            "Of a batch, pick one first: weights[0]."
        )
    if p.dim() == 2 or len(p) == 1:
        yield Matrix(_numbers(p.reshape(p.shape[-2:])))
        return
    for head, one in enumerate(p):
        yield Matrix(_numbers(one), f"head {head + 1}", head=head)


def calls_of(calls: Sequence[Any]) -> Tensor:
    """The rows of every call of one attention under each other, keys they did not have yet with weight 0."""
    tensors = [_tensor(call) for call in calls]
    if not tensors:
        raise ValueError("an attention that was never called has no weights to draw.")
    n = max(p.shape[-1] for p in tensors)
    return torch.cat([torch.nn.functional.pad(p, (0, n - p.shape[-1])) for p in tensors], -2)


def _tensor(weights: Any) -> Tensor:
    if isinstance(weights, Attended):
        return weights.over_tokens
    if isinstance(weights, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(weights))
    if isinstance(weights, Tensor):
        return weights
    raise TypeError(
        "weights must be a tensor, an Attended, a sequence of layers or a mapping by name; "
        f"got {type(weights).__name__}."
    )


def _numbers(p: Tensor) -> Array:
    kind = torch.float64 if p.dtype == torch.float64 else torch.float32
    return p.detach().to("cpu", kind, copy=True).numpy()  # a copy: what is seen stays as it was


def _checked(matrices: tuple[Matrix, ...]) -> None:
    cells = sum(m.weights.size for m in matrices)
    if cells > CELLS:
        raise ShapeError(
            f"at most {CELLS:,} weights can be drawn at once; got {cells:,}. "
            "Pick a layer or a head, or crop: weights[..., :512, :512]."
        )
    for m in matrices:
        if not m.weights.size:
            raise ShapeError(f"weights must hold at least one query and one key; got {m.weights.shape}.")
        if broken := int((~np.isfinite(m.weights)).sum()):
            where = f" of {m.name}" if m.name else ""
            raise ValueError(f"weights must be finite; {broken}{where} are NaN or infinite.")


def rows(p: Array) -> list[list[float]]:
    """Nested lists, rounded to DIGITS significant digits."""
    return [[_short(value) for value in row] for row in p.tolist()]


def packed(p: Array) -> str:
    """Base64 of bfloat16 (the upper half of a float32), little-endian, row by row: about 2½ digits."""
    bits = np.ascontiguousarray(p, dtype=np.float32).view(np.uint32)
    codes = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # round half to even, as hardware does
    lost = (p != 0) & ((codes & 0x7FFF) == 0)
    codes = np.where(lost, 1 | ((p < 0).astype(np.uint32) << 15), codes)
    return b64encode(np.where(p == 0, 0, codes).astype("<u2").tobytes()).decode("ascii")


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS - 1}e}") if value else 0
