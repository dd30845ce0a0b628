"""Rationalizers: the predictor sees selected words only, the rate is held, gradients are right."""

from itertools import pairwise, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

import regard
from regard.core.errors import ShapeError
from regard.models.classifiers import CLASSIFIERS
from regard.models.classifiers.rationalizer import FIRST, STEP, expected_changes, standardize
from regard.models.classifiers.rationalizer_entmax import RationalizerEntmax
from regard.models.classifiers.rationalizer_hardkuma import HIGH, LOW, RationalizerHardKuma, chance, hardkuma
from regard.models.classifiers.rationalizer_reinforce import RationalizerReinforce

KINDS = {
    "rationalizer_reinforce": RationalizerReinforce,
    "rationalizer_hardkuma": RationalizerHardKuma,
    "rationalizer_entmax": RationalizerEntmax,
}
every_kind = pytest.mark.parametrize("name", KINDS)
TOKENS = torch.tensor([[6, 7, 4, 8, 5, 4, 9, 10], [9, 10, 7, 0, 0, 0, 0, 0], [8, 4, 6, 6, 10, 4, 0, 0]])
LENGTHS = torch.tensor([8, 3, 6])
THERE = torch.arange(8) < LENGTHS.unsqueeze(-1)
WANTED = torch.tensor([0, 2, 1])
# where about half of the words pass
LEVEL = {
    "rationalizer_reinforce": 0.0,
    "rationalizer_hardkuma": -0.6,
    "rationalizer_entmax": -1.0,
}
QUIET = {"dropout": 0.0, "word_dropout": 0.0}


def make(name, **own):
    torch.manual_seed(0)
    small = {"vocabulary": 11, "classes": 3, "embedding": 8, "width": 8}
    model = CLASSIFIERS[name].make(**{**small, **own}).double().eval()
    with torch.no_grad():
        torch.nn.init.normal_(model.words.E.weight)
        model.level.fill_(LEVEL[name])
    return model


def test_every_kind_is_in_the_table():
    assert {name: CLASSIFIERS[name].kind for name in KINDS} == KINDS


@every_kind
@given(seed=st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_what_is_not_selected_can_be_anything(name, seed):
    model, chance = make(name), torch.Generator().manual_seed(seed)
    z = model.selected(TOKENS, LENGTHS)
    other = torch.where(z, TOKENS, torch.randint(4, 11, TOKENS.shape, generator=chance))
    first = model.from_selected(model.embed(TOKENS), LENGTHS, z)
    assert torch.equal(first, model(TOKENS, LENGTHS))
    assert torch.equal(model.from_selected(model.embed(other), LENGTHS, z), first)
    noise = model.embed(TOKENS).masked_fill(~z.unsqueeze(-1), torch.nan)
    assert torch.equal(model.from_selected(noise, LENGTHS, z), first)


@every_kind
def test_what_is_selected_matters(name):
    model = make(name)
    z = model.selected(TOKENS, LENGTHS)
    other = torch.where(z, (TOKENS - 1) % 7 + 4, TOKENS)  # another word
    found = model.from_selected(model.embed(other), LENGTHS, z)
    assert not torch.isclose(found, model(TOKENS, LENGTHS)).all(-1).any()


@every_kind
def test_gradients_reach_the_selected_words_alone(name):
    model = make(name)
    embedded = model.embed(TOKENS).detach().requires_grad_()
    model.from_embedded(embedded, LENGTHS).square().sum().backward()
    assert torch.equal(embedded.grad.abs().sum(-1) > 0, model.selected(TOKENS, LENGTHS))


@every_kind
def test_in_eval_mode_some_words_are_selected_by_no_chance(name):
    model = make(name)
    z = model.selected(TOKENS, LENGTHS)
    assert torch.equal(z, model.selected(TOKENS, LENGTHS))
    assert z.any(-1).all() and not z[~THERE].any() and not z[THERE].all()
    model.level.fill_(-100)  # no word is likely
    assert model.selected(TOKENS, LENGTHS).sum(-1).tolist() == [1, 1, 1]
    assert model(TOKENS, LENGTHS).isfinite().all()


@every_kind
def test_only_selected_words_are_looked_at(name):
    model = make(name)
    with regard.record(model, model.attention_paths["reader"]) as seen:
        model(TOKENS, LENGTHS)
    weights = model.over_words(seen)
    assert weights.shape == (3, 1, 8)
    assert torch.equal(weights[:, 0] > 0, model.selected(TOKENS, LENGTHS))


@every_kind
def test_while_training_z_is_from_0_to_1_and_0_for_padding(name):
    model = make(name).train()
    torch.manual_seed(0)
    for found in model.selection(model.embed(TOKENS), LENGTHS):
        assert (found >= 0).all() and (found <= 1).all() and not found[~THERE].any()
    drawn = [model.selection(model.embed(TOKENS), LENGTHS).z for _ in range(2)]
    plain = make(name, **QUIET).train()
    again = [plain.selection(plain.embed(TOKENS), LENGTHS).z for _ in range(2)]
    assert not torch.equal(*drawn)
    assert torch.equal(*again) == (name == "rationalizer_entmax")


@given(chances=st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_changes_are_what_is_to_be_expected(chances):
    """Every selection in turn, weighed by its probability."""
    total = 0.0
    for z in product((0, 1), repeat=len(chances)):
        weight = 1.0
        for one, p in zip(z, chances, strict=True):
            weight *= p if one else 1 - p
        total += weight * sum(a != b for a, b in pairwise(z))
    padded = torch.tensor([[*chances, 0.7, 0.1]], dtype=torch.float64)
    assert expected_changes(padded, torch.tensor([len(chances)])).item() == pytest.approx(total, abs=1e-12)


@given(a=st.floats(0.1, 8), b=st.floats(0.1, 8))
@settings(max_examples=25, deadline=None)
def test_hardkuma_is_kumaraswamys_variable_stretched_and_cut(a, b):
    u = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000  # as even as noise can be
    shape = [torch.full_like(u, value) for value in (a, b)]
    z = hardkuma(u, *shape)
    within = (z > 0.01) & (z < 0.99)
    k = (z - LOW) / (HIGH - LOW)
    below = 1 - (1 - k**a) ** b  # the distribution function of k
    torch.testing.assert_close(below[within], (1 - u)[within], rtol=0, atol=1e-9)
    assert (z > 0).double().mean().item() == pytest.approx(chance(*shape)[0].item(), abs=1e-3)


def test_hardkuma_has_gradients_and_none_is_lost_in_extremes():
    u = torch.tensor([0.3, 0.6, 0.9], dtype=torch.float64)
    a, b = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in ([0.5, 1, 2], [1, 0.7, 1.5]))
    assert torch.autograd.gradcheck(lambda a, b: (hardkuma(u, a, b), chance(a, b)), (a, b))
    model = make("rationalizer_hardkuma").float().train()
    theta = torch.tensor([[-1e4, -50, -5, 0, 5, 50, 1e4, -torch.inf]], requires_grad=True)
    z, p, _ = model.draw(theta)
    (z.sum() + p.sum()).backward()
    assert z.isfinite().all() and p.isfinite().all() and theta.grad.isfinite().all()
    assert p[0, 0] < 1e-4 and p[0, 6] > 0.999 and p[0, 7] == 0
    assert (p[0, 1:].diff()[:-1] >= 0).all()


def parameters_of_the_selector(model):
    return [*model.relevance.parameters(), *model.surroundings.parameters()]


def test_reinforce_has_the_gradient_of_the_expected_loss():
    """20,000 draws of one text of three words against all of its eight selections."""
    model = make("rationalizer_reinforce", **QUIET).train()
    draws = 20_000
    tokens, lengths = torch.tensor([[5, 7, 9]]), torch.tensor([3])
    x, wanted = model.embed(tokens), torch.zeros(draws, dtype=torch.long)
    p = model.selection(x, lengths).chance[0]
    exact = 0
    for z in product((0.0, 1.0), repeat=3):
        z = torch.tensor([z], dtype=torch.float64)
        weight = torch.where(z[0] > 0, p, 1 - p).prod()
        exact = exact + weight * F.cross_entropy(model.from_selected(x, lengths, z), wanted[:1])
    true = torch.autograd.grad(exact, parameters_of_the_selector(model))
    torch.manual_seed(1)
    for _ in range(2):  # the first time there is no baseline, and far more noise
        model.level.fill_(LEVEL["rationalizer_reinforce"])
        loss = model.loss(wanted, tokens.expand(draws, -1), lengths.expand(draws)) / draws
    found = torch.autograd.grad(loss, parameters_of_the_selector(model))
    assert loss.item() == pytest.approx(exact.item(), abs=0.02)
    found, true = (torch.cat([g.flatten() for g in each]) for each in (found, true))
    assert (found - true).norm() < 0.2 * true.norm()


def test_entmax_has_its_own_gradient():
    model = make("rationalizer_entmax", **QUIET).train()
    x = model.embed(TOKENS).detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: model.from_embedded(x, LENGTHS), (x,))


@given(theta=st.floats(-4, 4), alpha=st.floats(1.05, 3))
@settings(max_examples=25, deadline=None)
def test_entmax_weighs_in_against_out(theta, alpha):
    """The z for which zθ + H_α(z, 1 − z) is largest, H_α being Tsallis' entropy: a fine grid is tried."""
    model = make("rationalizer_entmax", alpha=alpha).train()
    z, mean, chance = model.draw(torch.tensor([[theta]], dtype=torch.float64))
    grid = torch.linspace(0, 1, 20_001, dtype=torch.float64)
    entropy = (1 - grid**alpha - (1 - grid) ** alpha) / (alpha * (alpha - 1))
    assert z.item() == pytest.approx(grid[(grid * theta + entropy).argmax()].item(), abs=1e-3)
    assert mean is z and chance.item() == float(z.item() > 0)
    if abs(theta) > 1 / (alpha - 1) + 1e-6:
        assert z.item() == float(theta > 0)


@every_kind
def test_the_level_follows_the_rate(name):
    def after(**own):
        model = make(name, **own).train()
        torch.manual_seed(0)
        for _ in range(4):
            model.loss(WANTED, TOKENS, LENGTHS).backward()
        return model

    many, few = after(target_rate=0.01), after(target_rate=1.0)
    assert CLASSIFIERS[name].make(vocabulary=11, classes=3).level == FIRST
    assert many.level.item() == pytest.approx(LEVEL[name] - 4 * STEP)
    assert LEVEL[name] < few.level.item() <= LEVEL[name] + 4 * STEP + 1e-6
    other = make(name)
    other.load_state_dict(many.state_dict())
    assert other.level == many.level
    many.eval().loss(WANTED, TOKENS, LENGTHS)
    assert many.level == other.level


@every_kind
def test_no_text_can_raise_all_its_words(name):
    """What is added to every score alike, or multiplied with all of them, is taken away again."""
    model = make(name)
    x = model.embed(TOKENS)
    before = model.selection(x, LENGTHS)
    score = model.relevance.forward
    model.relevance.forward = lambda *given: 3 * score(*given) + 7
    for found, wanted in zip(model.selection(x, LENGTHS), before, strict=True):
        torch.testing.assert_close(found, wanted)


@given(seed=st.integers(0, 1000), n=st.integers(2, 8))
@settings(max_examples=25, deadline=None)
def test_scores_of_a_text_have_mean_0_and_deviation_1(seed, n):
    theta = torch.randn(1, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found = standardize(theta, torch.arange(8).unsqueeze(0) < n)[0]
    words = theta[0, :n]
    wanted = (words - words.mean()) / words.std(correction=0)
    torch.testing.assert_close(found[:n], wanted, rtol=1e-3, atol=1e-3)
    assert not found[n:].any()


@every_kind
def test_the_loss_in_eval_mode_counts_the_words(name):
    model = make(name, target_rate=0.25, contiguity=0.5)
    z = model.selected(TOKENS, LENGTHS)
    nll = F.cross_entropy(model(TOKENS, LENGTHS), WANTED)
    differ = sum(int((row[:n].int().diff() != 0).sum()) for row, n in zip(z, LENGTHS, strict=True))
    target = 0.25 * LENGTHS.sum()
    wanted = nll + (z.sum() / target - 1).abs() + 0.5 * differ / target
    assert model.loss(WANTED, TOKENS, LENGTHS).item() == pytest.approx(3 * wanted.item(), rel=1e-5)


@pytest.mark.parametrize(
    ("name", "own", "words"),
    [
        ("rationalizer_reinforce", {"pairs": True}, "one text"),
        ("rationalizer_hardkuma", {"target_rate": 0.0}, "target_rate"),
        ("rationalizer_hardkuma", {"target_rate": 1.1}, "target_rate"),
        ("rationalizer_hardkuma", {"contiguity": -1.0}, "contiguity"),
        ("rationalizer_hardkuma", {"window": 2}, "odd"),
        ("rationalizer_entmax", {"alpha": 1.0}, "alpha"),
    ],
)
def test_what_is_wrong_is_said_at_once(name, own, words):
    with pytest.raises(ValueError, match=words):
        make(name, **own)


def test_a_selection_has_a_number_for_each_word():
    model = make("rationalizer_entmax")
    with pytest.raises(ShapeError, match=r"z must be \(3, 8\)"):
        model.from_selected(model.embed(TOKENS), LENGTHS, torch.ones(3, 7))
