"""The distribution of a chain against all its assignments."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import chisquare
from torch.autograd import grad, gradcheck, gradgradcheck

from maps.all_assignments import enumerated, two_states
from regard.core.errors import DtypeError, ShapeError
from regard.maps import LinearChain, chain

INF, NAN = float("inf"), float("nan")
f64 = torch.float64
number = st.floats(-5, 5) | st.floats(-60, 60)


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=f64)


def close(got, want, atol=1e-9):
    torch.testing.assert_close(got, want, rtol=0, atol=atol)


@st.composite
def rows(draw, most=5):
    """Scores (n, s) and transitions (s, s) that leave some path."""
    n, s = draw(st.integers(0, most)), draw(st.integers(1, 3))
    some = number | st.just(-INF)
    theta = torch.tensor(draw(st.lists(some, min_size=n * s, max_size=n * s)), dtype=f64).view(n, s)
    T = torch.tensor(draw(st.lists(number, min_size=s * s, max_size=s * s)), dtype=f64).view(s, s)
    if s > 1 and draw(st.booleans()):
        T[0, 1] = -INF
    return theta, T


@given(rows())
def test_everything_agrees_with_all_assignments(given):
    theta, T = given
    assume(enumerated(theta, T)[3] > -INF)
    theta.requires_grad_(), T.requires_grad_()
    found, (states, pairs, log_p, log_z) = LinearChain(theta, T, states=len(T)), enumerated(theta, T)
    p = log_p.exp()
    close(found.marginals, torch.einsum("k,kia->ia", p, states))
    close(found.pairs, torch.einsum("k,kab->ab", p, pairs))
    close(found.log_partition, log_z)
    entropy = -(p * torch.where(p == 0, 0, log_p)).sum()
    close(found.entropy, entropy)
    for got in (found.log_partition, found.entropy):
        assert all(g.isfinite().all() for g in grad(got, (theta, T), retain_graph=True))
    close(grad(found.log_partition, (theta, T), retain_graph=True), (found.marginals, found.pairs), 1e-12)
    best = torch.where(states[log_p.argmax()].any(-1), states[log_p.argmax()].argmax(-1), -1)
    close(found.log_prob(found.best()), log_p.max())
    if (log_p > log_p.max() - 1e-9).sum() == 1:
        assert torch.equal(found.best(), best)
    for k in range(min(len(log_p), 5)):
        if log_p[k] > -INF:
            close(found.log_prob(states[k].argmax(-1)), log_p[k])


def test_claim_c40_the_gradient_of_log_z_is_the_marginals():
    theta, T = random(4, 9).requires_grad_(), random(2, 2, seed=1).requires_grad_()
    found = LinearChain(theta, T)
    (to_theta,) = grad(found.log_partition.sum(), theta)
    close(to_theta, found.weights, 1e-12)
    close(to_theta, chain(theta, T), 1e-12)
    assert gradcheck(lambda theta, T: LinearChain(theta, T).log_partition, (theta, T))
    assert gradgradcheck(lambda theta, T: LinearChain(theta, T).log_partition, (theta, T))


@pytest.mark.parametrize("states", [None, 3])
def test_first_and_second_gradients(states):
    hidden = torch.tensor([[0, 0, 0, 0, 0], [0, 1, 1, 0, 1], [1, 1, 1, 1, 1]]).bool()
    theta = (random(3, 5) if states is None else random(3, 5, states)).requires_grad_()
    T = random(states or 2, states or 2, seed=1).requires_grad_()
    g = random(3, 5, states or 2, seed=2)

    def f(theta, T):
        filled = theta.masked_fill(hidden if states is None else hidden.unsqueeze(-1), -INF)
        found = LinearChain(filled, T, states=states)
        of_pairs = (found.pairs * random(*T.shape, seed=3)).sum((-1, -2))
        return found.log_partition, found.entropy, (found.marginals * g).sum((-1, -2)), of_pairs

    assert gradcheck(f, (theta, T))
    assert gradgradcheck(f, (theta, T))
    z = LinearChain(theta, T, states=states).sample(2)
    assert gradcheck(lambda theta, T: LinearChain(theta, T, states=states).log_prob(z), (theta, T))


@pytest.mark.parametrize("states", [None, 3])
def test_samples_have_the_frequencies_of_the_distribution(states):
    theta = random(4) if states is None else random(4, states)
    T = random(states or 2, states or 2, seed=1)
    found = LinearChain(theta, T, states=states)
    count = 20_000
    z = found.sample(count, torch.Generator().manual_seed(0))
    assert z.shape == (count, 4) and z.dtype == torch.int64
    states_, _, log_p, _ = enumerated(theta if states else two_states(theta), T)
    s = states or 2
    powers = s ** torch.arange(4)
    seen = torch.bincount((z * powers).sum(-1), minlength=s**4)
    want = torch.zeros(s**4, dtype=f64).index_add(0, (states_.argmax(-1) * powers).sum(-1), log_p.exp())
    want, order = (want * count).sort(descending=True)
    many = max(2, int((want > 5).sum()))  # the rest counts as one
    seen, want = (torch.cat([x[: many - 1], x[many - 1 :].sum(0, keepdim=True)]) for x in (seen[order], want))
    assert chisquare(seen, want, sum_check=False).pvalue > 1e-3
    share = torch.nn.functional.one_hot(z, s).double().mean(0)
    error = (found.marginals * (1 - found.marginals) / count).sqrt()
    assert ((share - found.marginals).abs() <= 4 * error).all()


def test_samples_of_many_rows_with_hidden_keys():
    theta = random(3, 2, 6)
    theta[0, 0, 2:4] = theta[1, 1] = theta[2, 0, 0] = -INF
    found = LinearChain(theta, random(2, 1, 2, 2, seed=1).squeeze(1))
    z = found.sample(3000, torch.Generator().manual_seed(1))
    assert z.shape == (3000, 3, 2, 6)
    hidden = theta == -INF
    assert (z[:, hidden] == -1).all() and ((z[:, ~hidden] == 0) | (z[:, ~hidden] == 1)).all()
    p = found.weights
    assert ((z.clamp(min=0).double().mean(0) - p).abs() <= 4.5 * (p * (1 - p) / 3000).sqrt()).all()
    assert torch.equal(z, found.sample(3000, torch.Generator().manual_seed(1)))
    assert not torch.equal(z, found.sample(3000, torch.Generator().manual_seed(2)))
    torch.set_num_threads(2)
    assert torch.equal(z, found.sample(3000, torch.Generator().manual_seed(1)))
    estimate = -found.log_prob(z).mean(0)  # of the entropy
    close(estimate, found.entropy, 0.15)
    assert found.sample(0).shape == (0, 3, 2, 6)


def test_never_draws_what_is_forbidden():
    theta = random(8, 3)
    theta[3, 1] = -INF
    T = random(3, 3, seed=1)
    T[0, 2] = T[2, 2] = -INF
    found = LinearChain(theta, T, states=3)
    z = found.sample(2000, torch.Generator().manual_seed(0))
    assert (z[:, 3] != 1).all()
    follows = (z[:, :-1] * 3 + z[:, 1:]).unique().tolist()
    assert 2 not in follows and 8 not in follows
    assert found.log_prob(z).isfinite().all()
    z[0, 3] = 1
    assert found.log_prob(z)[0] == -INF


def test_probabilities_of_all_assignments_sum_to_1():
    theta, T = random(2, 6), random(2, 2, seed=1)
    theta[1, [0, 3]] = -INF
    found = LinearChain(theta, T)
    z = torch.cartesian_prod(*[torch.arange(2)] * 6).unsqueeze(1).expand(64, 2, 6)
    p = found.log_prob(z).exp()
    close(p[:, 0].sum(), torch.ones((), dtype=f64))
    close(p[:, 1].sum() / 4, torch.ones((), dtype=f64))  # each four times: hidden keys do not count


def test_a_row_of_nothing_has_one_assignment():
    for scores, states in (
        (torch.full((2, 3), -INF), None),
        (torch.empty(2, 0), None),
        (torch.empty(2, 0, 4), 4),
    ):
        scores.requires_grad_()
        found = LinearChain(scores, states=states)
        n = scores.shape[1]
        assert found.log_partition.tolist() == found.entropy.tolist() == [0, 0]
        assert found.marginals.shape == (2, n, states or 2) and (found.marginals == 0).all()
        assert found.best().tolist() == [[-1] * n] * 2
        assert found.sample(2).tolist() == [[[-1] * n] * 2] * 2
        assert found.log_prob(found.best()).tolist() == [0, 0]
        (gradient,) = grad(found.entropy.sum() + found.log_partition.sum(), scores)
        assert (gradient == 0).all()


def test_a_flaw_is_shown():
    found = LinearChain(torch.tensor([[0.0, NAN, 1], [0, 1, 2], [0, INF, -INF]]))
    for x in (
        found.log_partition,
        found.entropy,
        found.weights.sum(-1),
        found.log_prob(torch.ones(3, 3).long()),
    ):
        assert x.isnan().tolist() == [True, False, True]
    assert (found.best()[[0, 2]] == -1).all() and (found.sample(1)[:, [0, 2]] == -1).all()


def test_long_rows():
    theta = random(2, 4096)
    theta[1, ::5] = -INF
    theta.requires_grad_()
    found = LinearChain(theta, 2.0)
    z = found.sample(50, torch.Generator().manual_seed(0))
    close(grad(found.log_partition.sum(), theta, retain_graph=True)[0], found.weights, 1e-12)
    deviation = (-found.log_prob(z) - found.entropy).abs()  # log p(z) varies by about √n
    assert (deviation < 6 * 4096**0.5).all()
    assert (found.log_prob(found.best()) >= found.log_prob(z)).all()
    (gradient,) = grad(found.entropy.sum(), theta)
    assert gradient.isfinite().all() and (gradient[1, ::5] == 0).all()


def test_batched_transitions_and_dtypes():
    theta, T = random(2, 3, 4, 5), random(3, 1, 2, 2, seed=1)
    found = LinearChain(theta, T)
    one = LinearChain(theta[1, 2, 3], T[2, 0])
    for name in ("marginals", "weights", "pairs", "log_partition", "entropy"):
        close(getattr(found, name)[1, 2, 3], getattr(one, name), 1e-12)
    assert torch.equal(found.best()[1, 2, 3], one.best())
    z = found.sample(2)
    close(found.log_prob(z)[1, 1, 2, 3], one.log_prob(z[1, 1, 2, 3]), 1e-12)
    half = LinearChain(theta.bfloat16(), T.bfloat16())
    want = LinearChain(theta.bfloat16().float(), T.bfloat16().float())
    for name in ("marginals", "weights", "pairs", "log_partition", "entropy"):
        assert torch.equal(getattr(half, name), getattr(want, name).bfloat16())
    assert half.log_prob(z).dtype == torch.bfloat16
    assert torch.equal(half.best(), want.best())


def test_bad_input_is_named():
    found = LinearChain(random(2, 3))
    with pytest.raises(DtypeError, match="assignment must be int64; got torch.float32"):
        found.log_prob(torch.zeros(2, 3))
    with pytest.raises(ShapeError, match=r"assignment must end in \(2, 3\); got \(3,\)"):
        found.log_prob(torch.zeros(3, dtype=torch.int64))
    with pytest.raises(ValueError, match="assignment must give every visible key a state from 0 to 1"):
        found.log_prob(torch.full((2, 3), -1))
    with pytest.raises(ValueError, match="count must be at least 0; got -1"):
        found.sample(-1)
    with pytest.raises(ShapeError, match=r"transitions must be \(..., 3, 3\) for states=3"):
        LinearChain(random(2, 4, 3), torch.eye(2), states=3)
    with pytest.raises(ShapeError, match=r"scores must be \(..., n, s\) with s=3"):
        LinearChain(random(2, 4), states=3)
    stuck = LinearChain(random(2, 3), torch.full((2, 2), -INF))
    for ask in (stuck.best, lambda: stuck.sample(1), lambda: stuck.entropy, lambda: stuck.weights):
        with pytest.raises(
            ValueError, match="transitions must leave a path through every row; row 0 has none"
        ):
            ask()
