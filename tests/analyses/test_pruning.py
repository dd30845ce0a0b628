"""Pruning: gates in the weights are gates on the heads; what a task needs stays, the rest goes."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard.analyses import prune
from regard.analyses.pruning import HeadGates, gated, scaled
from regard.core.errors import UnknownNameError
from regard.heads import MultiHead

WIDTH, HEADS = 8, 4


class OneLayer(nn.Module):
    """One attention over tokens (b, n), read at every place."""

    def __init__(self, classes=5):
        super().__init__()
        self.embed, self.attention = nn.Embedding(classes, WIDTH), MultiHead(WIDTH, HEADS)
        self.read = nn.Linear(WIDTH, classes)

    def forward(self, tokens):
        x = self.embed(tokens)
        return self.read(x + self.attention(x).context)


class Copy:
    """Say at every place which token is there: what the residual has, so that no head is needed."""

    def __init__(self, n=6):
        self.n = n

    def batches(self, epoch, skip):
        chance = torch.Generator().manual_seed(epoch)
        for _ in range(20):
            yield torch.randint(5, (16, self.n), generator=chance)

    def wanted(self, tokens):
        return tokens

    def loss(self, model, tokens):
        logits = model(tokens).flatten(0, 1)
        return F.cross_entropy(logits, self.wanted(tokens).flatten(), reduction="sum"), tokens.numel()

    def validate(self, model):
        tokens = next(self.batches(10_000, 0))
        assert not model.training
        loss, count = self.loss(model, tokens)
        right = (model(tokens).argmax(-1) == self.wanted(tokens)).float().mean()
        return {"loss": loss.item() / count, "accuracy": right.item()}


class MostOften(Copy):
    """Say at every place which token there is most of: heads are needed."""

    def wanted(self, tokens):
        return F.one_hot(tokens, 5).sum(-2, keepdim=True).argmax(-1).expand_as(tokens)


def trained(task, steps=150):
    torch.manual_seed(0)
    model = OneLayer()
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    for epoch in range(-(-steps // 20)):
        for tokens in task.batches(epoch, 0):
            loss, count = task.loss(model, tokens)
            optimiser.zero_grad()
            (loss / count).backward()
            optimiser.step()
    return model.eval()


def test_gates_in_the_weights_are_gates_on_the_heads():
    torch.manual_seed(0)
    heads, x = MultiHead(WIDTH, HEADS).double(), torch.randn(2, 5, WIDTH, dtype=torch.float64)
    gates = torch.tensor([1.0, 0.0, 0.5, 0.0], dtype=torch.float64)
    hook = heads.W_o.register_forward_pre_hook(lambda _, given: scaled(given[0], gates))
    wanted = heads(x).context
    hook.remove()
    with torch.no_grad():
        heads.W_o.weight.copy_(scaled(heads.W_o.weight, gates))
    torch.testing.assert_close(heads(x).context, wanted)
    by_hand = sum(  # head by head
        gates[h]
        * (heads(x).weights[:, h] @ heads.W_v(x)[..., 2 * h : 2 * h + 2])
        @ whole.T[2 * h : 2 * h + 2]
        for h, whole in enumerate([restored(heads, gates)] * HEADS)
    )
    torch.testing.assert_close(wanted, by_hand + heads.W_o.bias)


def restored(heads, gates):
    """W_o before the gates; what a closed head had is not known, and not needed."""
    return scaled(heads.W_o.weight.detach(), torch.where(gates > 0, 1 / gates.clamp(min=1e-9), 0.0))


def test_what_is_not_needed_goes_and_the_model_stays_as_it_is():
    model, task = trained(Copy()), Copy()
    weights = {name: p.clone() for name, p in model.state_dict().items()}
    told = []
    found = prune(model, task, 1.0, paths="attention", steps=150, rate=1e-2, listen=told.append)
    assert told == list(range(1, 151))
    assert (found.kept, found.heads, found.penalty) == (0, HEADS, 1.0)
    assert min(found.before["accuracy"], found.after["accuracy"]) > 0.98
    assert all(torch.equal(p, weights[name]) for name, p in model.state_dict().items())
    assert not found.model.training and not found.model.attention.W_o._forward_pre_hooks
    assert (found.model.attention.W_o.weight == 0).all()


def test_what_is_needed_stays_and_a_higher_price_keeps_fewer():
    task = MostOften()
    model = trained(task, 300)
    found = [prune(model, task, price, paths="attention", steps=150) for price in (0.0, 5.0)]
    assert found[0].kept == HEADS
    assert found[1].kept == 0 and found[1].after["loss"] > found[0].after["loss"] + 0.1  # it had been needed
    assert found[0].after["loss"] <= found[0].before["loss"] + 0.05


def test_prices_are_expected_counts():
    parts = gated(OneLayer(), "attention")
    gates = HeadGates(parts)
    with torch.no_grad():
        gates.theta[0].copy_(torch.tensor([50.0, -50.0, 50.0, -50.0]))
    assert gates.price().item() == pytest.approx(2)
    assert gates.values()[0].tolist() == [1, 0, 1, 0]


def test_what_cannot_be_pruned_is_one_sentence():
    model, task = OneLayer().eval(), Copy()
    with pytest.raises(ValueError, match="penalty must be at least 0 and finite; got -1"):
        prune(model, task, -1.0)
    with pytest.raises(ValueError, match="steps"):
        prune(model, task, 0.1, steps=0)
    with pytest.raises(UnknownNameError, match="no attention at"):
        prune(model, task, 0.1, paths="encoder.*")
    none = SimpleNamespace(batches=lambda *_: iter(()), validate=lambda _: {"loss": 0.0}, loss=None)
    with pytest.raises(ValueError, match="nothing to train on"):
        prune(model, none, 0.1, paths="attention")
