"""Show, Attend and Tell: its steps, its gate, its estimators, its penalty."""

import pytest
import torch
from torch.nn import functional as F

from regard.core.tokens import BOS, EOS, PAD
from regard.decoding import beam, greedy
from regard.decoding.hypothesis import Limits
from regard.models.captioners import CAPTIONERS
from regard.models.captioners.show_attend_tell import ESTIMATORS
from regard.recording import record
from regard.tasks.translation import target_in

SIZE = {"channels": 1, "height": 8, "width": 8, "classes": 9, "widths": (8,), "blocks": (0,), "stride": 4}


def captioner(**more):
    torch.manual_seed(0)
    return CAPTIONERS["show_attend_tell"].make(**{**SIZE, "embedding": 12, "state": 16, **more})


def spots(b: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A bright quarter, and the tokens 4 + its row, 6 + its column, EOS."""
    x = torch.zeros(b, 1, 8, 8, dtype=torch.uint8)
    captions = []
    for i in range(b):
        row, column = i % 2, i // 2 % 2
        x[i, 0, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = 200 + i % 50
        captions.append([4 + row, 6 + column, EOS])
    return x, torch.tensor(captions)


def test_steps_and_the_whole_agree():
    net = captioner().eval()
    x, target = spots(3)
    whole = net(x, None, target_in(target))
    memory = net.encode(x)
    state = net.start(memory)
    tokens = target_in(target)
    for t in range(3):
        hidden, state = net.step(tokens[:, t], state, memory)
        assert torch.allclose(hidden, whole[:, t], atol=1e-6)


def test_one_step_by_the_formulas_of_the_paper():
    net = captioner().eval()
    x, _ = spots(2)
    a = net.convolutions.annotations(net.pixels.normalise(x)) + net.places
    mean = a.mean(1)
    h, c = torch.tanh(net.begin_h(mean)), torch.tanh(net.begin_c(mean))
    y = net.embed(torch.tensor([BOS, BOS]))
    score = net.attention.score
    theta = score.v(torch.tanh(score.W1(a) + score.W2(h).unsqueeze(1))).squeeze(-1)
    beta = torch.sigmoid(net.gate(h))
    z = beta * (theta.softmax(-1).unsqueeze(1) @ a)[:, 0]
    gates = net.decoder.weight_ih @ torch.cat([y, z], -1).T + net.decoder.weight_hh @ h.T
    i, f, g, o = (gates.T + net.decoder.bias_ih + net.decoder.bias_hh).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)  # tanh for the candidate, not σ
    h = torch.sigmoid(o) * torch.tanh(c)
    expected = net.output(y + net.L_h(h) + net.L_z(z))
    hidden = net(x, None, torch.full((2, 1), BOS))
    assert torch.allclose(net.logits(hidden)[:, 0], expected, atol=1e-5)


@pytest.mark.parametrize("estimator", [None, *ESTIMATORS])
def test_soft_attention_and_every_estimator_learn_or_at_least_descend(estimator):
    more = {} if estimator is None else {"map": "hard", "estimator": estimator}
    net = captioner(**more).train()
    x, target = spots(16)
    if estimator == "exact":  # two words of four cells: 16 runs of the model for each step
        target = torch.stack([target[:, 0], torch.full((16,), EOS)], 1)
    optimiser = torch.optim.Adam(net.parameters(), 0.02)
    losses = []
    for _ in range(20 if estimator == "exact" else 60):
        loss = net.caption_loss(x, target_in(target), target, target != PAD, 0.0)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss) / target.numel())
    assert losses[-1] < 0.5 * losses[0]
    if estimator is None:
        net.eval()
        lengths = torch.full((16,), 4)
        for found in (
            greedy(net, x, lengths, Limits(0, 6, 6)),
            beam(net, x, lengths, Limits(0, 6, 6), width=2),
        ):
            assert [one[0].tokens for one in found] == target[:, :2].tolist()


def test_the_exact_expected_loss_is_the_sum_over_all_choices():
    net = captioner(map="hard", estimator="exact").train()
    x, _ = spots(2)
    target = torch.tensor([[4, EOS], [5, EOS]])
    got = net.caption_loss(x, target_in(target), target, target != PAD, 0.0)
    words, total = target_in(target), torch.zeros(2, dtype=torch.float64)
    memory = net.encode(x)
    for first in range(4):
        for second in range(4):
            state, log_p, loss = net.start(memory), torch.zeros(2), torch.zeros(2)
            for t, cell in enumerate((first, second)):
                theta = net.attention.score(state.h.unsqueeze(1), memory.keys)[:, 0]
                log_p = log_p + theta.log_softmax(-1)[:, cell]
                z = torch.sigmoid(net.gate(state.h)) * memory.values[:, cell]
                y = net.embed(words[:, t])
                h, c = net.decoder(torch.cat([y, z], -1), (state.h, state.c))
                state = type(state)(h, c)
                logits = net.output(y + net.L_h(h) + net.L_z(z))
                loss = loss + F.cross_entropy(logits, target[:, t], reduction="none")
            total = total + (log_p.exp() * loss).double()
    assert float(got) == pytest.approx(float(total.sum()), rel=1e-4)


def test_hard_attention_looks_at_one_cell_and_the_penalty_is_that_of_the_paper():
    x, target = spots(4)
    net = captioner(map="hard", estimator="reinforce").eval()
    with record(net, "attention") as seen:
        net(x, None, target_in(target))
    assert all(bool(((call.weights == 0) | (call.weights == 1)).all()) for call in seen["attention"])
    plain, more = captioner().eval(), captioner(penalty=0.7).eval()
    given = (x, target_in(target), target, target != PAD, 0.0)
    with record(plain, "attention") as seen:
        plain(x, None, target_in(target))
    p = torch.cat([call.weights for call in seen["attention"]], -2)  # (b, steps, n)
    penalty = 0.7 * (1 - p.sum(-2)).square().sum()
    assert float(more.caption_loss(*given) - plain.caption_loss(*given)) == pytest.approx(
        float(penalty), abs=1e-4
    )


def test_without_attention_every_step_sees_the_mean():
    net = captioner(read="mean").eval()
    x, target = spots(4)
    assert net.attention_paths == {} and net(x, None, target_in(target)).shape == (4, 3, 12)
