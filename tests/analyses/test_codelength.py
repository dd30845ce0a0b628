"""Codelengths: exact where there is a formula, and in order where there is not."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.analyses import by_frequency, control_task, online
from regard.analyses import variational as variational_code
from regard.analyses.variational import SCALES, Uncertain
from regard.core.errors import ShapeError

N, D, K = 1200, 8, 4
variational = partial(variational_code, steps=600)
both = pytest.mark.parametrize("code", [online, variational], ids=["online", "variational"])


def states(seed=0, n=N):
    return torch.randn(n, D, generator=torch.Generator().manual_seed(seed))


def linear(x, seed=1):
    return (x @ torch.randn(D, K, generator=torch.Generator().manual_seed(seed))).argmax(-1)


def at_random(seed=2, n=N):
    return torch.randint(K, (n,), generator=torch.Generator().manual_seed(seed))


@given(labels=st.lists(st.integers(0, 2), min_size=1, max_size=12), classes=st.integers(3, 5))
def test_by_frequency_is_what_counting_along_gives(labels, classes):
    bits, counts = 0.0, [0.5] * classes
    for label in labels:
        bits -= math.log2(counts[label] / sum(counts))
        counts[label] += 1
    assert by_frequency(torch.tensor(labels), classes) == pytest.approx(bits, abs=1e-9)


def test_uniform_and_compression():
    x = states()
    found = online(x, linear(x), K, hidden=0)
    assert found.labels == N and found.classes == K
    assert found.uniform == N * math.log2(K)
    assert found.compression == pytest.approx(found.uniform / found.bits)


@both
def test_labels_that_are_linear_in_the_states_have_a_short_code(code):
    x = states()
    assert code(x, linear(x), K, hidden=0).compression > 2.2


@both
@pytest.mark.parametrize("hidden", [0, 32])
def test_labels_at_random_take_about_their_uniform_length(code, hidden):
    found = code(states(), at_random(), K, hidden=hidden)
    units = (D + 1) + (hidden + 1 if hidden else 0)
    price = units * math.log2(len(SCALES)) if code is variational else 0  # of scales, needed or not
    assert 0.97 < found.uniform / (found.bits - price) < 1.06 and found.compression < 1.03
    assert found.accuracy < 0.4


def test_states_that_say_nothing_leave_the_length_of_the_frequencies():
    """The labels are then one categorical variable: by counting, about N times its entropy."""
    labels = (torch.rand(N, generator=torch.Generator().manual_seed(3)) < 0.1).long()
    counted = by_frequency(labels, 2)
    for code in (online, variational):
        found = code(torch.zeros(N, D), labels, 2, hidden=0)
        assert counted * 0.97 < found.bits < counted * 1.25 < N


def test_more_of_the_same_costs_less_for_each_label():
    short, long = (online(states(n=n), linear(states(n=n)), K, hidden=0) for n in (200, 1200))
    assert long.bits / 1200 < short.bits / 200


def test_the_same_seed_gives_the_same_code_and_disturbs_nobody():
    x, y = states(n=200), linear(states(n=200))
    before = torch.get_rng_state()
    assert online(x, y, K, hidden=4) == online(x, y, K, hidden=4) != online(x, y, K, hidden=4, seed=1)
    assert variational(x, y, K, hidden=4, steps=20) == variational(x, y, K, hidden=4, steps=20)
    assert torch.equal(torch.get_rng_state(), before)


def test_listeners_hear_how_far_it_is():
    told = []
    online(states(n=300), at_random(n=300), K, hidden=0, listen=told.append)
    assert told == sorted(told) and told[-1] == 1
    told.clear()
    variational(states(n=50), at_random(n=50), K, hidden=0, steps=200, listen=told.append)
    assert told == [0.5, 1.0]


def test_the_divergence_is_never_less_than_a_sampled_one():
    """KL(q ‖ p) = E_q[log q − log p], with p the mixture itself."""
    torch.manual_seed(0)
    layer = Uncertain(3, 2).double()
    mean, std = layer.mean.detach(), layer.log_std.detach().exp()
    w = mean + std * torch.randn(20_000, *mean.shape, dtype=torch.float64)
    log_q = torch.distributions.Normal(mean, std).log_prob(w).sum((-1, -2))
    scales = SCALES.double().view(-1, 1, 1, 1)
    by_unit = torch.distributions.Normal(0.0, scales).log_prob(w).sum(-1)  # (k, draws, d + 1)
    log_p = (torch.logsumexp(by_unit, 0) - math.log(len(SCALES))).sum(-1)
    sampled, bound = (log_q - log_p).mean().item(), layer.divergence().item()
    assert sampled - 0.05 < bound < sampled + 4 * math.log(len(SCALES))


def test_the_divergence_from_one_scale_is_the_closed_form():
    """Where all but one scale are hopeless, the bound is KL of two Gaussians and the price of the choice."""
    layer = Uncertain(1, 40).double()
    with torch.no_grad():
        layer.mean.zero_()
        layer.log_std.fill_(math.log(2.0**-3))  # one of SCALES: its KL is 0
    assert layer.divergence().item() == pytest.approx(2 * math.log(len(SCALES)), abs=1e-3)


def test_a_control_task_has_one_label_for_each_type():
    words = ["a", "b", "a", "c", "b", "a"] * 50
    labels = at_random(n=len(words))
    control = control_task(words, labels, seed=3)
    assert control.shape == labels.shape
    for word in "abc":
        assert len({int(c) for c, w in zip(control, words, strict=True) if w == word}) == 1
    assert torch.equal(control, control_task(words, labels, seed=3))


def test_control_labels_are_as_frequent_as_the_real_ones():
    labels = (torch.rand(4000, generator=torch.Generator().manual_seed(0)) < 0.2).long()
    control = control_task(range(4000), labels)
    assert control.float().mean().item() == pytest.approx(labels.float().mean().item(), abs=0.03)


def test_bad_labels_and_states_are_one_sentence():
    x, y = states(n=30), at_random(n=30)
    with pytest.raises(ShapeError, match=r"states must be \(N, d\) with N=30.*got \(29, 8\)"):
        online(x[1:], y, K)
    with pytest.raises(ValueError, match="labels must be from 0 to 1; got 0 to 3"):
        online(x, y, 2)
    with pytest.raises(ValueError, match="classes must be at least 2"):
        variational(x, y * 0, 1)
    with pytest.raises(ValueError, match="finite"):
        variational(x * float("nan"), y, K)
    with pytest.raises(ShapeError, match="whole numbers"):
        by_frequency(y.float(), K)
    with pytest.raises(ValueError, match="needs at least 40 labels to learn from; got 30"):
        online(x, y, K)
    with pytest.raises(ValueError, match="steps"):
        variational(x, y, K, steps=0)
    with pytest.raises(ValueError, match="a label for each word"):
        control_task(["a"], y)
