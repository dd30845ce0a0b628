"""First and second derivatives, by autograd and by torch.func."""

from itertools import product

import pytest
import torch
from torch.func import hessian, jacfwd, jacrev, vmap

from contract.grid import MASKS, SMOOTH, inputs, made, smooth_map
from regard import SCORES, attend
from regard.masks import Causal

# Every entry under one mask for each map with one score and each score with one map, along random directions
# under two others; elsewhere, where only the chain rule joins the two, along random directions.
ENTRIES = [(score, map) for score in SCORES for map in SMOOTH if score == "scaled_dot" or map == "softmax"]
DIRECTIONS = [pair for pair in product(SCORES, SMOOTH) if pair not in ENTRIES]
GRID = [(*pair, mask) for pair in ENTRIES for mask in ("nothing", "joined", "given")]
GRID += [(*pair, "joined") for pair in DIRECTIONS]


@pytest.mark.parametrize(("score", "map", "mask"), GRID)
def test_first_and_second_gradients(score, map, mask):
    along = (score, map) in DIRECTIONS or mask != "joined"
    score, mask = made(score), MASKS[mask](3) if mask == "joined" else MASKS[mask]()
    q, k, v = (t[:, :3].detach().requires_grad_() for t in inputs(grad=True, seed=3))
    mask = mask[:, :3] if isinstance(mask, torch.Tensor) else mask

    def f(q, k, v):
        return attend(q, k, v, score=score, map=map, mask=mask).context

    assert torch.autograd.gradcheck(f, (q, k, v), fast_mode=along)
    assert torch.autograd.gradgradcheck(f, (q, k, v), atol=1e-4, fast_mode=along)


@smooth_map
@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_torch_func_sees_what_autograd_sees(score, map):
    score = made(score)
    q, k, v = inputs()

    def f(q):
        return attend(q, k[0], v[0], score=score, map=map, mask=Causal()).context

    want = torch.stack([torch.autograd.functional.jacobian(f, one) for one in q])
    torch.testing.assert_close(vmap(jacrev(f))(q), want)
    torch.testing.assert_close(jacfwd(f)(q[0]), want[0])
    second = torch.autograd.functional.hessian(lambda x: f(x).square().sum(), q[0])
    torch.testing.assert_close(jacrev(jacrev(lambda x: f(x).square().sum()))(q[0]), second)
    torch.testing.assert_close(hessian(lambda x: f(x).square().sum())(q[0]), second)
