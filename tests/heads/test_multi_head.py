"""Multi-head attention against torch's own, and against one head at a time."""

import pytest
import torch

import regard
from regard import MAPS
from regard.core.errors import ShapeError
from regard.masks import Causal, Lengths

ROWS = [name for name, entry in MAPS.items() if entry.acts_on == "row" and not entry.stochastic]


def one_head_at_a_time(heads, x, y, map, mask=None):
    q, k, v = heads.W_q(x), heads.W_k(y), heads.W_v(y)
    each, times = heads.width // heads.heads, heads.heads // heads.key_value_heads
    parts = []
    for h in range(heads.heads):
        mine, theirs = slice(h * each, (h + 1) * each), slice(h // times * each, (h // times + 1) * each)
        theta = q[..., mine] @ k[..., theirs].mT / each**0.5
        if mask is not None:
            theta = theta.masked_fill(~mask, float("-inf"))
        parts.append(MAPS[map](theta) @ v[..., theirs])
    return heads.W_o(torch.cat(parts, -1))


@pytest.mark.parametrize("map", ROWS)
@pytest.mark.parametrize("shared", [4, 2, 1])
@pytest.mark.parametrize("across", [False, True])
def test_equals_one_head_at_a_time(map, shared, across):
    torch.manual_seed(0)
    heads = regard.MultiHead(
        16,
        4,
        key_value_heads=shared,
        key_width=6 if across else None,
        value_width=6 if across else None,
        map=map,
    )
    heads = heads.double()
    x = torch.randn(2, 5, 16).double()
    y = torch.randn(2, 7, 6).double() if across else x
    mask = torch.rand(5, y.shape[1]) > 0.3
    seen = heads(x, y, mask=mask) if across else heads(x, mask=mask)
    torch.testing.assert_close(seen.context, one_head_at_a_time(heads, x, y, map, mask))
    assert seen.weights.shape == (2, 4, 5, y.shape[1])


def test_separate_values_and_unbatched_inputs():
    torch.manual_seed(0)
    heads = regard.MultiHead(16, 4, value_width=3)
    x, values = torch.randn(5, 16), torch.randn(5, 3)
    assert heads(x, x, values).context.shape == (5, 16)
    torch.testing.assert_close(heads(x, x, values).context, heads(x[None], x[None], values[None]).context[0])


def test_nan_in_padding_reaches_no_gradient_of_any_parameter():
    torch.manual_seed(0)
    for map in ROWS:
        heads = regard.MultiHead(8, 2, map=map)
        x = torch.randn(2, 4, 8)
        x[1, 2:] = float("nan")
        mask = Causal() & Lengths(torch.tensor([4, 2]))
        source = torch.randn(2, 4, 8)
        context = heads(source, x, mask=mask).context
        context.sum().backward()
        assert context.isfinite().all()
        assert all(p.grad is None or p.grad.isfinite().all() for p in heads.parameters())


def test_a_learned_alpha_per_head():
    torch.manual_seed(0)
    heads = regard.MultiHead(16, 4, map=regard.maps.Entmax(learn_alpha=True, heads=4))
    seen = heads(torch.randn(2, 5, 16) * 3)
    seen.context.square().sum().backward()
    (a,) = heads.map.parameters()
    assert a.shape == (4,)
    assert (a.grad != 0).all()


def test_dropout_only_while_training():
    torch.manual_seed(0)
    heads = regard.MultiHead(16, 4, dropout=0.5)
    x = torch.randn(2, 5, 16)
    assert not torch.equal(heads(x).context, heads(x).context)
    heads.eval()
    assert torch.equal(heads(x).context, heads(x).context)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (dict(width=10, heads=4), "heads must divide the width"),
        (dict(width=16, heads=4, key_value_heads=3), "key_value_heads must divide heads"),
        (
            dict(width=16, heads=4, key_value_heads=0),
            "key_value_heads must divide heads; .*key_value_heads=0",
        ),
        (dict(width=16, heads=4, dropout=1.0), "dropout must be at least 0 and less than 1"),
    ],
)
def test_bad_settings_are_named(settings, says):
    with pytest.raises(ValueError, match=says):
        regard.MultiHead(**settings)


def test_bad_inputs_are_named():
    heads = regard.MultiHead(16, 4, key_width=8)
    with pytest.raises(ShapeError, match=r"query must be \(..., m, width\) with width=16; got \(2, 3, 8\)"):
        heads(torch.randn(2, 3, 8))
    with pytest.raises(ShapeError, match=r"keys must be .* with key_width=8; got \(2, 3, 16\)"):
        heads(torch.randn(2, 3, 16))


def test_says_what_it_is():
    assert "heads=4, map=softmax" in repr(regard.MultiHead(16, 4))


@pytest.mark.parametrize(
    ("map", "share"),
    [("entmax15", 0.8), (regard.maps.Entmax(learn_alpha=True, heads=4), 0.8), ("sparsemax", 0.3)],
)
def test_sparse_heads_begin_by_looking_at_most_keys(map, share):
    """A key without weight has no gradient: at the first step most should have some."""
    torch.manual_seed(0)
    x = torch.randn(8, 16, 64)
    seen = regard.MultiHead(64, 4, map=map)(x)
    assert (seen.weights > 0).float().mean() > share
    assert regard.MultiHead(64, 4)(x).scores.std() > 1.5 * seen.scores.std()


@pytest.mark.parametrize("heads", [2, 4])
def test_a_mask_of_keys_alone_hides_them_from_every_head(heads):
    """Also where there are as many heads as sequences."""
    x, real = torch.randn(2, 5, 16), torch.arange(5) < torch.tensor([[5], [3]])
    attention = regard.MultiHead(16, heads)
    with pytest.raises(ShapeError, match=r"mask\[:, None, None, :\]"):
        attention(x, mask=real)
    want = attention(x, mask=Lengths(torch.tensor([5, 3]))).context
    torch.testing.assert_close(attention(x, mask=real[:, None, None, :]).context, want)
    for mask in (real[:, None, :], real[:, None, :].expand(2, 5, 5)):
        with pytest.raises(ShapeError, match=r"mask\[:, None\]"):
            attention(x, mask=mask)
        with pytest.raises(ShapeError, match=r"mask\[:, None\]"):
            attention(x, mask=mask, cache=regard.memories.KeyValue())
        torch.testing.assert_close(attention(x, mask=mask[:, None]).context, want)
    by_head = torch.rand(heads, 5, 5) > 0.3
    assert torch.equal(attention(x, mask=by_head[None]).visible, by_head[None])


@pytest.mark.parametrize("mask", [Causal(), regard.masks.Window(3), Causal() & Lengths(torch.tensor([7, 6]))])
def test_memory_by_concatenation_counts_positions_from_the_end(mask):
    """New tokens stand after the memory, as the mask has it: their part of one long self-attention."""
    torch.manual_seed(0)
    term = regard.positions.Relative(8, 3)
    attention = regard.MultiHead(16, 2, score=regard.scores.ScaledDot() + term)
    x = torch.randn(2, 7, 16)
    want = attention(x, mask=mask).context[:, 4:]
    torch.testing.assert_close(attention(x[:, 4:], x, mask=mask).context, want)
