"""What the contract is tested on: scores, maps, masks, dtypes."""

from itertools import product

import pytest
import torch

import regard
from regard import MAPS, SCORES
from regard.masks import Causal, Lengths, Window

M, N, D, D_V = 3, 5, 4, 2
ROWS = [name for name, entry in MAPS.items() if entry.acts_on == "row" and not entry.stochastic]
SMOOTH = [name for name in ROWS if MAPS[name].differentiable]
every_score = pytest.mark.parametrize("score", SCORES)
every_map = pytest.mark.parametrize("map", ROWS)
smooth_map = pytest.mark.parametrize("map", SMOOTH)
MASKS = {
    "nothing": lambda: None,
    "causal": Causal,
    "lengths": lambda: Lengths(torch.tensor([5, 0])),  # the second sequence is all padding
    "window": lambda: Window(1),
    "joined": lambda n=N: Causal() & Lengths(torch.tensor([4, 2]).clamp(max=n)),
    "given": lambda: torch.tensor(
        [[1, 0, 1, 0, 1], [0, 0, 0, 0, 0], [1, 1, 1, 0, 0]]
    ).bool(),  # one row of nothing
    "each": lambda: torch.tensor([[1, 1, 0, 0, 1], [1, 0, 0, 0, 0]]).bool()[:, None],  # (b, 1, n): keys alone
}
every_mask = pytest.mark.parametrize("mask", MASKS)
every_mask_and_dtype = (
    pytest.mark.parametrize(  # a mask does not know the dtype: two of them will do for most
        ("mask", "dtype"),
        [(mask, torch.float64) for mask in MASKS]
        + list(product(("joined", "given"), (torch.float32, torch.bfloat16, torch.float16))),
        ids=str,
    )
)


def made(score, dtype=torch.float64):
    torch.manual_seed(1)
    return SCORES[score].make(D, D).to(dtype)


def inputs(dtype=torch.float64, grad=False, seed=0):
    g = torch.Generator().manual_seed(seed)
    shapes = [(2, M, D), (2, N, D), (2, N, D_V)]
    return [torch.randn(s, generator=g, dtype=torch.float64).to(dtype).requires_grad_(grad) for s in shapes]


def allowed(mask, m=M, n=N):
    """The mask written out: (2, m, n)."""
    mask = MASKS[mask]()
    if mask is None:
        return torch.ones(2, m, n, dtype=torch.bool)
    return regard.masks.as_mask(mask).rows(0, m, m, n, 1, torch.device("cpu")).expand(2, m, n)
