"""A layer's step in one kernel is the layer, and is not taken where anything else was asked for."""

import pytest
import torch
from torch import nn

import regard
from regard.models.language.gpt import GPT, Config
from regard.models.parts import self_attention_layer

STEP = self_attention_layer.layer_step


@pytest.fixture
def steps(monkeypatch):
    """How often a step was taken, as the length of a list."""
    taken = []

    def counted(*given):
        taken.append(1)
        return STEP(*given)

    monkeypatch.setattr(self_attention_layer, "layer_step", counted)
    return taken


def written(model, tokens, read):
    """Hidden states of tokens, those after the first `read` one by one."""
    hidden, state = model(tokens[:, :read])
    parts = [hidden]
    for t in range(read, tokens.shape[1]):
        hidden, state = model(tokens[:, t : t + 1], state)
        parts.append(hidden)
    return torch.cat(parts, 1)


def made(kind=torch.float32, **settings):
    """A small model with layer norms that are not the identity, a width no vector divides."""
    torch.manual_seed(0)
    model = GPT(Config(11, 20, 34, 2, 2, **settings)).to(kind).eval()
    for p in model.parameters():
        p.data += 0.1 * torch.randn_like(p)
    return model


@torch.no_grad()
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("activation", ["relu", "squared_relu", "gelu_tanh"])
@pytest.mark.parametrize("positions", ["rotary", "learned"])
def test_equals_the_whole_text(kind, activation, positions, steps):
    for rows, bias in ((1, True), (3, False), (4, True), (7, True)):
        model = made(kind, activation=activation, positions=positions, bias=bias)
        tokens = torch.randint(11, (rows, 24))
        off = 1e-4 if kind is torch.float32 else 1e-9
        torch.testing.assert_close(written(model, tokens, 5), model(tokens)[0], atol=off, rtol=off)
    assert len(steps) == 4 * 2 * 19


@torch.no_grad()
def test_threads_change_nothing(monkeypatch, steps):
    model, tokens = made(), torch.randint(11, (2, 9))
    one = written(model, tokens, 3)
    monkeypatch.setattr("regard.models.parts.layer_step.LEAST", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    for _ in range(20):
        assert written(model, tokens, 3).equal(one)
    assert len(steps) == 21 * 2 * 6


@torch.no_grad()
def test_one_state_goes_on_in_several_ways(steps):
    model, tokens = made(), torch.randint(11, (1, 6))
    _, state = model(tokens)
    ways = [torch.cat([tokens, torch.randint(11, (1, 4))], 1) for _ in range(3)]
    states = [state] * 3
    for t in range(6, 10):
        for i, way in enumerate(ways):
            hidden, states[i] = model(way[:, t : t + 1], states[i])
            torch.testing.assert_close(hidden, model(way[:, : t + 1])[0][:, -1:], atol=1e-4, rtol=1e-4)
    assert len(state[0]) == 6 and len(steps) == 3 * 4 * 2


class Scaled(nn.Linear):
    """Twice what a linear layer says."""

    def forward(self, x):
        return 2 * super().forward(x)


@torch.no_grad()
@pytest.mark.parametrize(
    "change",
    [
        lambda layer: setattr(layer.feed_forward, "W1", Scaled(20, 34)),
        lambda layer: setattr(layer.attention, "W_v", Scaled(20, 20)),
        lambda layer: setattr(layer.around[0], "norm", nn.RMSNorm(20)),
        lambda layer: setattr(layer.around[1], "norm", nn.LayerNorm(20, elementwise_affine=False)),
        lambda layer: setattr(layer.feed_forward, "activation", torch.tanh),
        lambda layer: layer.feed_forward.register_forward_hook(lambda m, x, y: 2 * y),
        lambda layer: layer.attention.W_q.register_forward_hook(lambda m, x, y: 2 * y),
        lambda layer: layer.around[0].norm.register_forward_pre_hook(lambda m, x: (x[0].flip(-1),)),
        lambda layer: setattr(
            layer.attention.W_k, "weight", nn.Parameter(torch.randn(20, 20).T, requires_grad=False)
        ),
    ],
)
def test_what_was_changed_is_heard(change, steps):
    model, tokens = made(), torch.randint(11, (2, 9))
    before = model(tokens)[0]
    for layer in model.layers:
        change(layer)
    whole = model(tokens)[0]
    assert not torch.allclose(whole, before, atol=1e-3)
    torch.testing.assert_close(written(model, tokens, 5), whole, atol=1e-4, rtol=1e-4)
    assert not steps


@torch.no_grad()
def test_many_texts_other_activations_and_looking_take_the_general_way(steps):
    for model, rows in ((made(), 9), (made(activation="gelu"), 1), (made(map="entmax15"), 1)):
        tokens = torch.randint(11, (rows, 8))
        torch.testing.assert_close(written(model, tokens, 5), model(tokens)[0], atol=1e-4, rtol=1e-4)
    model, tokens = made(), torch.randint(11, (1, 8))
    with regard.record(model) as seen:
        written(model, tokens, 5)
    assert {len(calls) for calls in seen.values()} == {4} and not steps


@torch.no_grad()
def test_what_is_not_finite_stays_so(steps):
    model, tokens = made(), torch.randint(11, (2, 6))
    model.words.E.weight[tokens[0, -1]] = float("nan")
    tokens[1] = (tokens[0, -1] + 1) % 11
    found = written(model, tokens, 5)[:, -1]
    assert found[0].isnan().all() and found[1].isfinite().all() and steps
