"""The three steps under every mask, in every dtype."""

from functools import partial

import torch

import regard
from contract.grid import (
    D_V,
    MASKS,
    D,
    M,
    N,
    allowed,
    every_map,
    every_mask_and_dtype,
    every_score,
    inputs,
    made,
)
from regard import MAPS, attend
from regard.masks import Causal


@every_mask_and_dtype
@every_map
@every_score
def test_three_steps_under_the_mask(score, map, mask, dtype):
    q, k, v = inputs(dtype)
    seen = attend(q, k, v, score=made(score, dtype), map=map, mask=MASKS[mask]())
    visible = allowed(mask)
    assert seen.context.dtype == seen.weights.dtype == seen.scores.dtype == dtype
    assert seen.context.shape == (2, M, D_V)
    assert seen.weights.shape == (2, M, N)
    assert (seen.weights[~visible] == 0).all()
    assert (seen.context[~visible.any(-1)] == 0).all()
    tol = dict(rtol=1e-9, atol=1e-9) if dtype == torch.float64 else dict(rtol=2e-2, atol=2e-2)
    want = torch.zeros(2, M, N, dtype=torch.float64)
    for b in range(2):
        for i in range(M):
            if visible[b, i].any():  # each row alone, its hidden keys taken out
                want[b, i, visible[b, i]] = MAPS[map](seen.scores[b, i, visible[b, i]].double())
    torch.testing.assert_close(seen.weights.double(), want, **tol)
    torch.testing.assert_close(seen.context.double(), want @ v.double(), **tol)


@every_map
def test_empty_sequences(map):
    seen = attend(torch.randn(2, 3, D), torch.randn(2, 0, D), map=map)
    assert seen.context.tolist() == torch.zeros(2, 3, D).tolist()  # nothing to look at: 0, as under a mask
    assert seen.weights.shape == (2, 3, 0)
    seen = attend(torch.randn(2, 0, D), torch.randn(2, 5, D), map=map)
    assert seen.context.shape == (2, 0, D)
    assert seen.weights.shape == (2, 0, 5)
    none = torch.ones(2, 0, 5, dtype=torch.bool)
    assert attend(torch.randn(2, 0, D), torch.randn(2, 5, D), map=map, mask=none).context.shape == (2, 0, D)
    assert attend(torch.randn(0, 3, D), torch.randn(0, 5, D), map=map, mask=Causal()).context.shape == (
        0,
        3,
        D,
    )


@every_map
def test_a_visible_nan_is_shown_not_hidden(map):
    q, k, v = inputs()
    k[0, 1] = float("nan")
    seen = attend(q, k, v, map=map)
    assert seen.weights[0].isnan().any(-1).all()
    assert seen.context[0].isnan().all()
    assert seen.context[1].isfinite().all()


def test_settings_of_a_map_come_with_partial_or_a_module():
    q, k, v = inputs()
    sharp = attend(q, k, v, map=partial(regard.maps.softmax, temperature=0.5))
    torch.testing.assert_close(sharp.weights, (sharp.scores / 0.5).softmax(-1))
    learned = attend(q, k, v, map=regard.maps.Entmax(learn_alpha=True))
    torch.testing.assert_close(learned.weights.sum(-1), torch.ones(2, M, dtype=torch.float64))
    assert torch.equal(
        attend(q, k, v, map=MAPS["sparsemax"]).weights, attend(q, k, v, map="sparsemax").weights
    )


def test_a_users_own_map_is_masked_too():
    q, k, v = inputs()
    weird = attend(q, k, v, map=lambda s: s.exp() / s.exp().sum(-1, keepdim=True), mask=MASKS["given"]())
    torch.testing.assert_close(weird.weights, attend(q, k, v, mask=MASKS["given"]()).weights)


def test_autocast_does_not_round_the_inside():
    q, k, v = inputs(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        seen = attend(q, k.bfloat16(), v, map="sparsemax")
        torch.testing.assert_close(seen.weights, attend(q, k.bfloat16().float(), v, map="sparsemax").weights)
    assert seen.context.dtype == torch.float32
