"""Luong's attentions against their formulas."""

import math

import pytest
import torch

import regard
from regard.models import Luong
from regard.models.luong import Config
from regard.models.parts.local_attention import LocalMask, gaussian

SOURCE, LENGTHS = torch.tensor([[4, 5, 6, 7, 8, 9], [9, 8, 4, 5, 0, 0]]), torch.tensor([6, 4])
TARGET = torch.tensor([[1, 5, 6, 7, 8, 9, 4, 5], [1, 10, 4, 7, 5, 5, 5, 5]])


def make(**settings):
    torch.manual_seed(0)
    return Luong(Config(11, 11, width=8, dropout=0.0, **settings)).double().eval()


def looked(model):
    """Weights (b, m, n) of every step."""
    with regard.record(model, "attention") as seen:
        model(SOURCE, LENGTHS, TARGET)
    return torch.cat([one.weights for one in seen["attention"]], -2)


def test_global_attention_by_its_formula():
    model = make(input_feeding=False)
    memory = model.encode(SOURCE, LENGTHS)
    h, _ = model.decoder(model.target(TARGET), (memory.h.transpose(0, 1), memory.c.transpose(0, 1)))
    theta = model.attention.score(h, memory.values)
    theta = theta.masked_fill(torch.arange(6) >= LENGTHS[:, None, None], -torch.inf)
    context = theta.softmax(-1) @ memory.values
    expected = torch.tanh(model.W(torch.cat([context, h], -1)))
    torch.testing.assert_close(model(SOURCE, LENGTHS, TARGET), expected, rtol=0, atol=1e-12)


def test_input_feeding_hands_the_last_vector_on():
    model = make(layers=1)
    memory = model.encode(SOURCE, LENGTHS)
    first, state = model.step(TARGET[:, 0], model.start(memory), memory)
    assert torch.equal(state.fed, first)
    x = torch.cat([model.target(TARGET[:, 1]), first], -1).unsqueeze(1)
    h, _ = model.decoder(x, (state.h.transpose(0, 1), state.c.transpose(0, 1)))
    second, _ = model.step(TARGET[:, 1], state, memory)
    context = model.attention(h, memory.keys, memory.values, mask=regard.masks.Lengths(LENGTHS)).context
    torch.testing.assert_close(second, torch.tanh(model.W(torch.cat([context, h], -1))).squeeze(1))


@pytest.mark.parametrize("feeding", [False, True])
def test_local_m_looks_around_the_diagonal(feeding):
    weights = looked(make(attention="local-m", window=1, input_feeding=feeding))
    j, t = torch.arange(6), torch.arange(8).unsqueeze(-1)
    visible = ((j - t).abs() <= 1) & (j < LENGTHS[:, None, None])  # (2, 8, 6)
    assert torch.equal(weights > 0, visible)
    some = visible.any(-1).double()
    torch.testing.assert_close(weights.sum(-1), some)  # a window that has left the sentence sees nothing
    assert (some == 0).any()


def test_local_p_scales_after_the_map_and_does_not_normalise_again():
    model = make(attention="local-p", window=2, input_feeding=False)
    with regard.record(model, "attention") as seen:
        model(SOURCE, LENGTHS, TARGET)
    (one,) = seen["attention"]
    p = LENGTHS.unsqueeze(-1) * torch.sigmoid(model.v_p(torch.tanh(model.W_p(one.query)))).squeeze(-1)
    j = torch.arange(6)
    near = ((j - p.unsqueeze(-1)).abs() <= 2) & (j < LENGTHS[:, None, None])
    soft = one.scores.masked_fill(~near, -torch.inf).softmax(-1)
    expected = soft * torch.exp(-((j - p.unsqueeze(-1)) ** 2) / (2 * 1.0**2))  # σ = D/2 = 1
    torch.testing.assert_close(one.weights, expected, rtol=0, atol=1e-12)
    assert (one.weights.sum(-1) < 1).all()


def test_where_to_look_is_learned_through_the_gaussian():
    model = make(attention="local-p", window=3)
    model.logits(model(SOURCE, LENGTHS, TARGET)).square().sum().backward()
    assert model.W_p.weight.grad.any() and model.v_p.weight.grad.any()


@pytest.mark.parametrize("map", ["sparsemax", "entmax15", "sigmoid"])
@pytest.mark.parametrize("attention", ["local-m", "local-p"])
def test_local_attention_with_other_maps(map, attention):
    weights = looked(make(attention=attention, window=2, map=map))
    assert weights.isfinite().all() and (weights.sum(-1) > 0).any()
    assert not weights[1, :, 4:].any()


def test_the_window_as_a_mask():
    centres = torch.tensor([[0.0, 2.6, 9.0], [1.5, -4.0, 4.0]])
    rows = LocalMask(centres, 1.5).rows(0, 3, 3, 5, 1, torch.device("cpu"))
    expected = [[[abs(j - p) <= 1.5 for j in range(5)] for p in row] for row in centres.tolist()]
    assert rows.tolist() == expected
    assert torch.equal(LocalMask(centres, 1.5).rows(1, 2, 3, 5, 1, torch.device("cpu")), rows[:, 1:2])
    found = gaussian(centres, 5, 3.0)
    assert found[0, 1, 2].item() == pytest.approx(math.exp(-(0.6**2) / (2 * 1.5**2)))
    seen = regard.attend(torch.randn(2, 3, 4), torch.randn(2, 5, 4), mask=LocalMask(centres, 1.5))
    assert torch.equal(seen.weights > 0, rows)
    assert not seen.context[0, 2].any()  # nothing within reach of 9
    assert "LocalMask(2, 3)" in repr(LocalMask(centres, 1.5))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (dict(attention="nearby"), "attention must be 'global' or 'local-m' or 'local-p'; got 'nearby'"),
        (dict(window=0), "window must be at least 1; got 0"),
    ],
)
def test_wrong_settings_are_named(settings, says):
    with pytest.raises(ValueError, match=says):
        make(**settings)


def test_begins_as_in_the_paper_when_asked():
    model = make(initial="paper", map="entmax", learn_alpha=True)
    drawn = [p for name, p in model.named_parameters() if not name.endswith("map.a")]
    assert all(p.abs().max() <= 0.1 for p in drawn) and max(p.abs().max() for p in drawn) > 0.09
    assert torch.equal(model.attention.map.alpha, torch.full((1,), 1.5, dtype=torch.float64))
