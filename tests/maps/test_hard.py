"""Hard attention: what is drawn, what is never drawn, and that it is a map like the others."""

import math
from copy import deepcopy

import pytest
import torch
from torch.func import vmap

import regard
from maps.map_settings import ESTIMATORS, made
from regard import MAPS, Attention, MultiHead, attend
from regard.losses import expected_loss
from regard.maps import Hard, argmax, facts_of, hard
from regard.maps.estimators import Exact, GumbelSoftmax, PerturbAndMap, Reinforce, Spigot, StraightThrough
from regard.masks import Causal, Lengths
from regard.structures import Budget, Chain, Choice, Matching

DRAWN = [name for name in ESTIMATORS if name not in ("gumbel", "spigot", "straight through the best")]
THROUGH_LOSSES = (Reinforce, Exact)
every_estimator = pytest.mark.parametrize("name", ESTIMATORS)
drawn = pytest.mark.parametrize("name", DRAWN)
INF, NAN = math.inf, math.nan


def scores(*shape, seed=0, dtype=torch.float64):
    return 1.5 * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def gradient(map, theta, slope):
    """d⟨slope, weights⟩/dθ, whichever way it comes: theta and slope (b, n)."""
    theta = theta.clone().requires_grad_()
    if isinstance(map.estimator, THROUGH_LOSSES):
        compute = lambda: (map(theta).nan_to_num() * slope).sum(-1)  # noqa: E731
        exact = isinstance(map.estimator, Exact)
        (expected_loss(compute if exact else compute()) * len(theta)).backward()
    else:
        map(theta).backward(slope)
    return theta.grad


@drawn
def test_one_key_is_drawn_as_often_as_softmax_says(name):
    theta, rows = scores(5), 40_000
    p = made(name)(theta.expand(rows, 5))
    assert ((p == 0) | (p == 1)).all()
    assert (p.sum(-1) == 1).all()
    q = theta.softmax(-1)
    error = (p.mean(0) - q) / (q * (1 - q) / rows).sqrt()
    assert error.abs().max() < 4


@every_estimator
def test_eval_takes_the_best_and_nothing_is_random(name):
    map, theta = made(name).eval(), scores(50, 6)
    assert torch.equal(map(theta), argmax(theta))
    assert torch.equal(hard(theta, map.estimator), argmax(theta))


@every_estimator
def test_a_generator_repeats_the_draws(name):
    theta = scores(20, 6)
    assert torch.equal(made(name, seed=1)(theta), made(name, seed=1)(theta))
    again = made(name, seed=1)
    first = again(theta)
    fixed = name in ("spigot", "straight through the best")
    assert torch.equal(again(theta), first) == fixed  # it goes on, and does not start anew
    torch.manual_seed(3)
    one = Hard(ESTIMATORS[name]())(theta)
    torch.manual_seed(3)
    assert torch.equal(Hard(ESTIMATORS[name]())(theta), one)


@every_estimator
def test_hidden_keys_are_never_drawn_and_have_no_gradient(name):
    theta = scores(500, 6)
    hidden = torch.rand(500, 6, generator=torch.Generator().manual_seed(1)) < 0.5
    theta = theta.masked_fill(hidden, -INF)
    map = made(name)
    p, some = map(theta), ~hidden.all(-1)
    assert (p[hidden] == 0).all()
    assert torch.allclose(p.sum(-1), some.double())
    grad = gradient(map, theta[:20], scores(20, 6, seed=2))
    assert grad.isfinite().all()
    assert (grad[hidden[:20]] == 0).all()
    assert (grad != 0).any()


@every_estimator
def test_a_row_of_nothing_has_no_gradient(name):
    assert (gradient(made(name), torch.full((1, 3), -INF), torch.ones(1, 3)) == 0).all()


def test_its_entry_says_neither_more_nor_less():
    entry, theta = MAPS["hard"], scores(400, 6)
    torch.manual_seed(0)
    p = entry(theta)
    assert (entry.acts_on, entry.simplex, entry.sparse, entry.stochastic) == ("row", True, True, True)
    assert entry.differentiable and not entry.ordered and not entry.neighbours
    assert not torch.equal(entry(theta), p)
    assert not torch.equal(p, argmax(theta))  # not ordered: a lower score can be drawn
    assert facts_of(Hard(Reinforce())) is entry
    assert entry.says.endswith(".")


def test_it_needs_an_estimator():
    with pytest.raises(TypeError, match="estimator must be one of regard.maps.estimators, made"):
        Hard(Reinforce)
    assert isinstance(Hard().estimator, StraightThrough)
    assert "Reinforce(baseline=0.9" in repr(Hard(Reinforce()))


# Inside attention


@every_estimator
def test_the_context_is_the_value_of_the_key_that_was_drawn(name):
    q, k, v = scores(3, 2, 4), scores(3, 6, 4, seed=1), scores(3, 6, 4, seed=2)
    mask = Lengths(torch.tensor([6, 2, 0]))
    seen = attend(q, k, v, map=made(name), mask=mask)
    assert seen.weights is not None and torch.equal(seen.weights, seen.weights)
    torch.testing.assert_close(seen.weights @ seen.values, seen.context)
    assert (seen.weights[1, :, 2:] == 0).all()
    assert (seen.context[2] == 0).all()


@every_estimator
def test_in_every_attention_recorded_and_changed(name):
    x = scores(2, 5, 8, dtype=torch.float32)
    model = torch.nn.ModuleDict({"one": Attention(map=made(name)), "heads": MultiHead(8, 2, map=made(name))})
    with regard.record(model) as seen:
        context = model["one"](x, x, mask=Causal()).context
        model["heads"](context, mask=Causal() & Lengths(torch.tensor([5, 3])))
    one, heads = seen["one"][0], seen["heads"][0]
    torch.testing.assert_close(one.weights @ x, one.context)
    assert heads.weights.shape == (2, 2, 5, 5)
    assert (heads.weights.triu(1) == 0).all()
    with regard.intervene(model["one"], torch.zeros_like):
        assert (model["one"](x, x).context == 0).all()


def test_swapped_into_a_model_each_attention_has_its_own():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    model = torch.nn.TransformerEncoder(layer, 2)
    regard.swap(model, map=Hard(Reinforce()))
    averages = [name for name in model.state_dict() if name.endswith("average")]
    assert len(averages) == 2
    expected_loss(model(scores(3, 4, 8, dtype=torch.float32)).square().mean((1, 2))).backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    assert all(model.state_dict()[name] < 0 for name in averages)
    assert all((block.self_attn.in_proj_weight.grad != 0).any() for block in model.layers)


def test_a_copy_draws_the_same_from_a_generator_of_its_own():
    map, theta = made("straight through"), scores(9, 5)
    copy = deepcopy(map)
    assert torch.equal(copy(theta), map(theta))
    assert copy.generator is not map.generator


# Under transforms and the compiler


@pytest.mark.parametrize("name", [n for n in ESTIMATORS if "reinforce" not in n and n != "exact"])
def test_surrogates_compile_and_batch(name):
    theta, map = scores(4, 6), Hard(ESTIMATORS[name]())
    p = vmap(map, randomness="different")(theta)
    assert torch.allclose(p.sum(-1), torch.ones(4, dtype=torch.float64))
    torch._dynamo.reset()
    compiled = torch.compile(map, fullgraph=True, backend="aot_eager")
    x = theta.clone().requires_grad_()
    compiled(x).backward(scores(4, 6, seed=1))
    assert (x.grad != 0).any()
    map.eval()
    torch._dynamo.reset()
    assert torch.equal(torch.compile(map, fullgraph=True, backend="aot_eager")(theta), argmax(theta))


@pytest.mark.parametrize("name", ["reinforce", "exact"])
def test_those_that_need_the_graph_say_so(name):
    theta, map = scores(4, 6).requires_grad_(), Hard(ESTIMATORS[name]())
    with pytest.raises(NotImplementedError, match="finds its draws in autograd's graph"):
        vmap(map, randomness="different")(theta)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="compile without fullgraph=True"):
        torch.compile(map, fullgraph=True, backend="aot_eager")(theta)


def test_reinforce_works_between_what_is_compiled():
    torch._dynamo.reset()
    map = Hard(Reinforce(), generator=torch.Generator().manual_seed(0))
    values, theta = scores(6, 1), scores(4, 6)

    def losses(theta):
        return (map(2 * theta) @ values).square().sum(-1)

    grads = []
    for run in (losses, torch.compile(losses, backend="aot_eager")):
        map.generator.manual_seed(0)
        map.estimator.average.zero_()
        map.estimator.batches.zero_()
        x = theta.clone().requires_grad_()
        expected_loss(run(x)).backward()
        grads.append(x.grad)
    torch.testing.assert_close(*grads)
    assert (grads[0] != 0).any()


# Over structures


class Pairs:
    """Two keys of n, for a test: best and nearest by trying all pairs, and by many small steps."""

    acts_on = "row"
    simplex = False
    neighbours = False

    def best(self, scores):
        top = scores.topk(2, -1).indices
        return torch.zeros_like(scores).scatter(-1, top, 1.0)

    def nearest(self, scores):
        p = torch.full_like(scores, 2 / scores.shape[-1])
        for step in range(2000):
            towards = self.best(scores - p)
            p = p + (towards - p) * 2 / (step + 2)
        return p


@pytest.mark.parametrize(
    "name", ["straight through", "straight through the best", "perturb and map", "spigot"]
)
def test_any_structure_can_be_chosen_from(name):
    map = Hard(ESTIMATORS[name](), Pairs())
    theta = scores(300, 4)
    p = map(theta)
    assert (p.sum(-1) == 2).all()
    assert ((p == 0) | (p == 1)).all()
    assert torch.equal(map.eval()(theta), Pairs().best(theta))
    assert not facts_of(map).simplex
    x = theta[:5].clone().requires_grad_()
    map.train()(x).backward(scores(5, 4, seed=1))
    assert x.grad.isfinite().all() and (x.grad != 0).any()


def test_spigot_projects_onto_the_polytope_of_its_structure():
    theta, slope = scores(3, 4), scores(3, 4, seed=1)
    x = theta.clone().requires_grad_()
    Hard(Spigot(0.5), Pairs())(x).backward(slope)
    best = Pairs().best(theta)
    want = best - Pairs().nearest(best - 0.5 * slope)  # best is its own nearest
    torch.testing.assert_close(x.grad, want, rtol=0, atol=1e-3)


STRUCTURES = {
    "choice": Choice,
    "budget": lambda: Budget(2),
    "chain": lambda: Chain(0.7),
    "matching": Matching,
}


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("name", ["straight through", "perturb and map", "spigot"])
def test_inside_attention_over_every_structure(name, structure):
    among = STRUCTURES[structure]()
    map = Hard(ESTIMATORS[name](), among, generator=torch.Generator().manual_seed(0))
    assert facts_of(map).acts_on == among.acts_on
    q, k, v = (scores(2, 4, 3, seed=s).requires_grad_() for s in range(3))
    lengths = torch.tensor([4, 3])
    inside = torch.arange(4) < lengths[:, None]
    mask = inside[:, None, :] & inside[:, :, None]  # padding is hidden on both sides
    for training in (True, False):
        map.train(training)
        seen = attend(q, k, v, map=map, mask=mask)
        p = seen.weights
        assert ((p == 0) | (p == 1)).all()
        assert (p[~mask] == 0).all()
        filled = seen.scores.masked_fill(~mask, -INF)
        if not training or name == "spigot":
            assert torch.equal(p, among.best(filled.detach()))
        torch.testing.assert_close(p @ seen.values, seen.context)
        if training:
            seen.context.square().sum().backward()
            assert q.grad.isfinite().all()
            assert (q.grad != 0).any() or torch.equal(p, among.best(filled.detach()))  # then there is no news


@pytest.mark.parametrize("structure", STRUCTURES)
def test_spigot_asks_for_nothing_where_the_loss_does(structure):
    x = scores(3, 4, 4).requires_grad_()
    Hard(Spigot(), STRUCTURES[structure]())(x).backward(torch.zeros(3, 4, 4))
    assert x.grad.abs().max() < 1e-9


def test_over_one_key_of_n_a_structure_changes_nothing():
    theta, slope = scores(20, 5), scores(20, 5, seed=1)
    for name in ("straight through", "perturb and map", "spigot"):
        answers = []
        for among in (None, Choice()):
            x = theta.clone().requires_grad_()
            p = Hard(ESTIMATORS[name](), among, generator=torch.Generator().manual_seed(0))(x)
            p.backward(slope)
            answers.append((p.detach(), x.grad))
        torch.testing.assert_close(*answers)


def test_perturbed_budgets_have_an_unbiased_gradient():
    """The slope of the perturbed mean, by differences of means over the same noise."""
    theta, slope, among, rows = scores(4), scores(4, seed=1), Budget(2), 100_000
    map = Hard(PerturbAndMap(), among, generator=torch.Generator().manual_seed(0))
    x = theta.expand(rows, 4).clone().requires_grad_()
    map(x).backward(slope.expand(rows, 4))
    mean, error = x.grad.mean(0), x.grad.std(0) / rows**0.5
    noise = torch.empty(400_000, 4).double().exponential_(generator=torch.Generator().manual_seed(1))
    noisy = theta - noise.log() - 0.5772156649015329
    for j in range(4):
        step = 0.2 * torch.eye(4).double()[j]
        change = (among.best(noisy + step) - among.best(noisy - step)) @ slope / 0.4
        spread = (error[j] ** 2 + change.var() / len(change)).sqrt()
        assert abs(change.mean() - mean[j]) < 3 * spread + 0.01  # 0.01 for the curvature over the step


@pytest.mark.parametrize("estimator", [Reinforce(), GumbelSoftmax(), Exact()])
def test_the_others_draw_one_key_and_say_so(estimator):
    with pytest.raises(ValueError, match="draws one key of n, so structure must be None; got Pairs"):
        Hard(estimator, Pairs())
