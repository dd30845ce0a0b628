"""Every model learns its toy task, and one fixed vector is a bottleneck."""

import pytest
import torch
from torch.nn import functional as F

from regard.core.tokens import BOS, EOS
from regard.models import TRANSLATORS


def batch(size, low, high, reverse):
    """Sentences of ten letters, and the same copied or reversed."""
    rows = [torch.randint(4, 14, (int(n),)) for n in torch.randint(low, high + 1, (size,))]
    targets = [row.flip(0) if reverse else row for row in rows]
    pad = lambda rows: torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)  # noqa: E731
    before = pad([torch.cat([torch.tensor([BOS]), row]) for row in targets])
    return (
        pad(rows),
        torch.tensor(list(map(len, rows))),
        before,
        pad([torch.cat([row, torch.tensor([EOS])]) for row in targets]),
    )


def accuracy(name, steps, length, *, rate=1e-2, reverse=True, low=None, **settings):
    """The share of right tokens, decoded greedily at the greatest length, after so many steps of 64."""
    torch.manual_seed(0)
    model = TRANSLATORS[name].make(
        source_vocabulary=14, target_vocabulary=14, width=32, dropout=0.0, **settings
    )
    optimiser = torch.optim.Adam(model.parameters())
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = rate * min(1, (step + 1) / 30) * (1 - step / steps)
        source, lengths, before, after = batch(64, low or length, length, reverse)
        real = after != 0
        loss = F.cross_entropy(model.logits(model(source, lengths, before)[real]), after[real])
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    model.eval()
    with torch.inference_mode():
        source, lengths, before, after = batch(200, length, length, reverse)
        memory = model.encode(source, lengths)
        state, token, right = model.start(memory), before[:, 0], 0.0
        for wanted in after.unbind(1):
            hidden, state = model.step(token, state, memory)
            token = model.logits(hidden).argmax(-1)
            right += (token == wanted).float().mean().item() / after.shape[1]
    return right


def test_bahdanau_reverses_what_a_fixed_vector_of_the_same_size_cannot_yet():
    attending, fixed = accuracy("bahdanau", 100, 6), accuracy("rnn", 100, 6)
    assert attending > 0.95
    assert attending - fixed > 0.2


def test_rnn_learns_what_fits_into_its_vector():
    assert accuracy("rnn", 200, 3) > 0.95


@pytest.mark.parametrize(
    "settings",
    [
        {"input_feeding": True, "low": 3},
        {"attention": "local-m", "window": 2, "reverse": False, "input_feeding": False},
        {"attention": "local-p", "window": 4, "input_feeding": False},
    ],
    ids=["global", "local-m", "local-p"],
)
def test_luong_learns(settings):
    assert accuracy("luong", 150, 6, layers=1, **settings) > 0.9


@pytest.mark.parametrize("fusion", ["deep", "shallow"])
def test_lstmn_fusion_learns(fusion):
    assert accuracy("lstmn_fusion", 120, 4, fusion=fusion) > 0.9


@pytest.mark.parametrize(
    "settings",
    [{}, {"norm": "post", "positions": "learned", "longest": 8}, {"map": "entmax15"}],
    ids=["softmax", "post-norm", "entmax15"],
)
def test_transformer_learns(settings):
    assert accuracy("transformer", 150, 6, heads=4, inner=64, layers=1, **settings) > 0.9
