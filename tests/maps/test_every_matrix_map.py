"""What must be true of every map that acts on the whole matrix. A new one is tested when it is entered."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import grad

import reference
import regard
from maps.map_settings import MATRICES, drawn
from regard import MAPS, Attention, MultiHead, attend
from regard.masks import Causal, Lengths

NAMES = list(dict.fromkeys(case.name for case in MATRICES))
every_map = pytest.mark.parametrize("name", NAMES)
every_case = pytest.mark.parametrize("case", MATRICES, ids=str)
SIZE = 4
SQUARE = {"sparsemap_tree"}  # takes square matrices alone
WIDE = {"sparsemap_matching"}  # its definition is for no more queries than keys


def square(*batch, size=SIZE, scale=1.5, seed=0, dtype=torch.float64):
    """Square matrices, which every matrix map takes."""
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*batch, size, size, generator=g, dtype=torch.float64).mul(scale).to(dtype)


@st.composite
def matrices(draw, name):
    n = draw(st.integers(1, 4))
    m = n if name in SQUARE else draw(st.integers(1, n if name in WIDE else 5))
    some = st.floats(-5, 5, width=32)
    return draw(st.lists(st.lists(some, min_size=n, max_size=n), min_size=m, max_size=m))


@every_map
@given(data=st.data())
def test_agrees_with_its_definition(name, data):
    theta, settings = data.draw(matrices(name)), data.draw(drawn(name, None))
    want = torch.tensor(getattr(reference, name)(theta, **settings), dtype=torch.float64)
    found = MAPS[name](torch.tensor(theta, dtype=torch.float64), **settings)
    torch.testing.assert_close(found, want, rtol=0, atol=1e-9 if "sparsemap" in name else 1e-12)
    narrow = MAPS[name](torch.tensor(theta, dtype=torch.float32), **settings)
    torch.testing.assert_close(narrow.double(), want, rtol=0, atol=2e-6)


@every_map
def test_its_entry_says_neither_more_nor_less(name):
    """Each fact holds on every matrix if it is claimed, and fails on some if it is not."""
    entry = MAPS[name]
    theta = torch.cat([square(40, scale=s, seed=3) for s in (0.1, 1.0, 5.0)])
    p = entry(theta)
    tall = [] if name in SQUARE else [entry(torch.cat([theta, theta.roll(1, 0)], -2))]  # more rows than keys
    in_simplex = [((q >= 0).all() & ((q.sum(-1) - 1).abs() < 1e-9).all()).item() for q in (p, *tall)]
    assert entry.simplex == all(in_simplex), "simplex"
    assert entry.sparse == bool((p == 0).any()), "sparse"
    higher, heavier = (x.unsqueeze(-1) - x.unsqueeze(-2) for x in (theta, p))
    assert entry.ordered == bool((heavier[higher > 0] >= -1e-12).all()), "ordered"
    turned = torch.isclose(entry(theta.roll(1, -1)), p.roll(1, -1), atol=1e-9).all()
    assert entry.neighbours != bool(turned), "neighbours"
    x = theta.clone().requires_grad_()
    (gradient,) = grad(entry(x), x, square(120, seed=1))
    assert entry.differentiable == bool((gradient != 0).any()), "differentiable"
    assert torch.equal(entry(theta), p), "stochastic"
    alone = entry(theta[:, :1]) if name not in SQUARE else None
    assert alone is None or not torch.allclose(alone, p[:, :1]), "acts_on"
    assert entry.says.endswith(".")


@every_case
def test_padding_anywhere_changes_nothing(case):
    x, g = square(6, size=3, seed=2).requires_grad_(), square(6, size=3, seed=3)
    i = torch.tensor([0, 2, 5])  # in sparsemap_tree queries and keys are the same words
    padded = torch.full((6, 6, 6), -math.inf, dtype=torch.float64)
    padded[:, i[:, None], i] = x
    p = case(padded)
    torch.testing.assert_close(p[:, i[:, None], i], case(x), rtol=0, atol=1e-12)
    assert torch.equal(p != 0, (p != 0) & (padded > -math.inf))
    torch.testing.assert_close(*(grad(q, x, g)[0] for q in (p[:, i[:, None], i], case(x))))


def inputs(grad=False, seed=0):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(2, SIZE, 3, generator=g, dtype=torch.float64).requires_grad_(grad) for _ in range(3)]


@every_map
def test_inside_attention(name):
    q, k, v = inputs(grad=True)
    seen = attend(q, k, v, map=name)
    torch.testing.assert_close(seen.weights, MAPS[name](seen.scores))
    torch.testing.assert_close(seen.context, seen.weights @ v)
    assert torch.autograd.gradcheck(lambda q, k, v: attend(q, k, v, map=name).context, (q, k, v))


@every_map
def test_refuses_a_causal_mask(name):
    q, k, v = inputs()
    with pytest.raises(ValueError, match="takes no Causal mask"):
        attend(q, k, v, map=name, mask=Causal() & Lengths(torch.tensor([4, 4])))


@every_map
def test_padding_of_both_sequences_changes_nothing(name):
    """Under a mask of real queries and real keys the rest can hold anything."""
    q, k, v = inputs()
    alone = attend(q[:1, :3], k[:1, :3], v[:1, :3], map=name)
    real = torch.tensor([True, True, True, False])
    mask = (real[:, None] & real)[None]
    for filling in (0.0, math.nan, math.inf):
        q2, k2, v2 = (t[:1].clone() for t in (q, k, v))
        for t in (q2, k2, v2):
            t[:, ~real] = filling
            t.requires_grad_()
        seen = attend(q2, k2, v2, map=name, mask=mask)
        torch.testing.assert_close(seen.context[:, :3], alone.context)
        assert (seen.context[:, 3] == 0).all()
        assert (seen.weights[:, 3] == 0).all() and (seen.weights[..., 3] == 0).all()
        for gradient in grad(seen.context.square().sum(), (q2, k2, v2)):
            assert gradient.isfinite().all()
            assert (gradient[:, ~real] == 0).all()


@every_map
def test_lengths_hide_the_padding_of_the_keys(name):
    q, k, v = inputs()
    k[1, 3] = v[1, 3] = math.nan
    k.requires_grad_()
    seen = attend(q, k, v, map=name, mask=Lengths(torch.tensor([4, 3])))
    torch.testing.assert_close(seen.context[0], attend(q[0], k[0], v[0], map=name).context)
    words = 3 if name in SQUARE else 4  # padding that nothing may look at is no word of a tree either
    alone = attend(q[1, :words], k[1, :3], v[1, :3], map=name)
    torch.testing.assert_close(seen.weights[1, :words, :3], alone.weights)
    torch.testing.assert_close(seen.context[1, :words], alone.context)
    assert (seen.weights[1, :, 3] == 0).all()
    (gradient,) = grad(seen.context.square().sum(), k)
    assert gradient.isfinite().all() and (gradient[1, 3] == 0).all()
    heads = MultiHead(8, 2, map=name)
    with regard.record(heads) as record:
        heads(torch.randn(2, SIZE, 8), mask=Lengths(torch.tensor([4, 3])))
    assert (record[""][0].weights[1, ..., 3] == 0).all()


@every_map
def test_heads_records_and_interventions(name):
    torch.manual_seed(0)
    x, real = torch.randn(2, SIZE, 8), torch.tensor([[True] * 4, [True] * 3 + [False]])
    mask = (real[:, :, None] & real[:, None])[:, None]  # (b, 1, m, n)
    heads = MultiHead(8, 2, map=name)
    with regard.record(heads) as record:
        context = heads(x, mask=mask).context
    (seen,) = record[""]
    torch.testing.assert_close(context, heads(x, mask=mask).context)
    filled = seen.scores.masked_fill(~mask, -math.inf)
    torch.testing.assert_close(seen.weights, MAPS[name](filled))
    with regard.intervene(heads, lambda p: p):
        torch.testing.assert_close(heads(x, mask=mask).context, context)
    attention = Attention(map=name)
    with regard.intervene(attention, torch.zeros_like):
        assert (attention(x, x, mask=mask[:, 0]).context == 0).all()
