"""C46, C49, C51 and C54: without positions attention does not see the order, and nothing but attention does.

C49 for the sinusoids of the paper and for the exponent of one lecture, and C50, their wavelengths, are
tests/positions/test_encodings.py; here is what follows for their products.
"""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from claims.experiment import FIRST, batch_of, held, over_seeds, report, target_in, train
from positions.test_encodings import with_the_exponent_of_the_lecture
from regard.models import TRANSLATORS
from regard.positions import sinusoid
from regard.testing import check_permutation


def transformer(seed=0, vocabulary=24, **settings):
    torch.manual_seed(seed)
    sizes = {"width": 32, "heads": 4, "inner": 64, "layers": 1, "dropout": 0.0}
    return TRANSLATORS["transformer"].make(
        source_vocabulary=vocabulary, target_vocabulary=vocabulary, **(sizes | settings)
    )


# C46


def order_blind(**settings):
    model = transformer(**settings)
    model.source.positions = None
    return model


def encoded(model):
    return lambda tokens: model.encode(tokens, torch.full((len(tokens),), tokens.shape[1])).encoded


def test_c46_without_positions_the_encoder_is_equivariant():
    tokens = torch.randint(FIRST, 24, (2, 9), generator=torch.Generator().manual_seed(0))
    check_permutation(encoded(order_blind(layers=3).double()), tokens, outputs="move", atol=1e-12)
    for positions in ("sinusoidal", "learned", "relative"):
        with pytest.raises(AssertionError, match="sees the order"):  # control
            check_permutation(encoded(transformer(layers=3, positions=positions).double()), tokens)


def before(seed, size=64, n=10, words=16):
    """Is word a before word b? Both are there once, among others; the target is yes or no."""
    generator = torch.Generator().manual_seed(seed)
    a, b, yes, no = FIRST, FIRST + 1, FIRST + 2, FIRST + 3
    while True:
        source = torch.randint(FIRST + 4, FIRST + words, (size, n), generator=generator)
        at = torch.rand(size, n, generator=generator).argsort(-1)[:, :2]
        source.scatter_(1, at, torch.tensor([a, b]).expand(size, 2))
        target = torch.where(at[:, :1] < at[:, 1:], yes, no)
        yield batch_of(list(source), list(target))


def knows_the_order(model, seed, steps=400):
    train(model, before(seed), steps)
    batch = next(before(1000 + seed, 2000))
    with torch.inference_mode():
        hidden = model(batch["source"], batch.lengths["source"], target_in(batch["target"])[:, :1])
        return (model.logits(hidden)[:, 0].argmax(-1) == batch["target"][:, 0]).float().mean().item()


@pytest.mark.slow
def test_c46_one_seed():
    assert knows_the_order(order_blind(), 0, 50) <= 0.55
    assert knows_the_order(transformer(), 0) >= 0.98


@pytest.mark.slow
def test_c46_which_word_came_first_takes_positions():
    found = over_seeds(
        lambda seed: {
            "without": knows_the_order(order_blind(seed=seed), seed),
            "with": knows_the_order(transformer(seed=seed), seed),
        }
    )
    report("C46", found)
    assert held(-found["without"], -0.55)
    assert held(found["with"], 0.98)


# C49


def off_toeplitz(table):
    """How much products of places with the same distance differ, at most."""
    products = table @ table.T
    return max(
        (each.max() - each.min()).item() for k in range(len(table)) if len(each := products.diagonal(k))
    )


def test_c49_moving_by_k_turns_every_pair_so_that_products_depend_on_the_distance_alone():
    """The linear map is known: a rotation by k times the speed of the pair. With the exponent of the lecture
    the two of a pair have different speeds, and products depend on the place."""
    d, k = 16, 5
    table = sinusoid(torch.arange(512), d)
    angle = k * 10000.0 ** (-2 * torch.arange(d // 2, dtype=torch.float64) / d)
    pairs = table.unflatten(-1, (-1, 2))[:-k]  # (n, d/2, 2): sine and cosine
    sine, cosine = angle.sin(), angle.cos()
    turned = torch.stack(
        [cosine * pairs[..., 0] + sine * pairs[..., 1], cosine * pairs[..., 1] - sine * pairs[..., 0]], -1
    )
    torch.testing.assert_close(turned.flatten(-2), table[k:], rtol=0, atol=1e-10)
    assert off_toeplitz(table) < 1e-10
    printed = [with_the_exponent_of_the_lecture(t, d) for t in range(512)]
    assert off_toeplitz(torch.tensor(printed, dtype=torch.float64)) > 1


# C51


def words_before(seed, longest=20, shortest=3, size=32):
    """Tokens (size, n), n the same for all of a batch; each is to be labelled with the one before it."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        n = int(torch.randint(shortest, longest + 1, (), generator=generator))
        yield torch.randint(FIRST, 24, (size, n), generator=generator)


def labels(model, tokens):
    """Logits (b, n − 1, vocabulary) of the positions from the second on, by the encoder alone."""
    return model.logits(encoded(model)(tokens)[:, 1:])


def labelled(positions, seed, steps=1000):
    """The share of labels that are right, at lengths 20 (of training) and 30 (beyond)."""
    model = transformer(seed=seed, positions=positions, longest=40, reach=8)
    train(
        model,
        words_before(seed),
        steps,
        loss=lambda model, tokens: F.cross_entropy(
            labels(model, tokens).flatten(0, 1), tokens[:, :-1].flatten()
        ),
    )
    right = []
    for n in (20, 30):
        tokens = next(words_before(1000 + seed, n, n, size=200))
        with torch.inference_mode():
            right.append((labels(model, tokens).argmax(-1) == tokens[:, :-1]).float().mean().item())
    return right


@pytest.mark.slow
def test_c51_sinusoids_are_as_good_as_learned_positions_and_relative_ones_go_further():
    """Where attention to the own sequence decides: every word is to name the one before it."""
    found = over_seeds(
        lambda seed: {kind: labelled(kind, seed) for kind in ("sinusoidal", "learned", "relative")}
    )
    report("C51 at [20, 30]", found)
    inside, beyond = ({kind: values[:, k] for kind, values in found.items()} for k in (0, 1))
    assert held(-abs(inside["sinusoidal"] - inside["learned"]), -0.01)
    for kind in ("sinusoidal", "learned"):
        assert held(beyond["relative"] - beyond[kind], 0.1)
    assert held(beyond["relative"], 0.98)


# C54


class Nothing(nn.Module):
    """An attention that leaves everything where it is."""

    def forward(self, query, *others, **settings):
        return SimpleNamespace(context=query)


def dependencies(layers, x):
    """Which output depends on which input: (n, n), outputs first."""

    def run(x):
        for layer in layers:
            x = layer(x, None)
        return x

    jacobian = torch.autograd.functional.jacobian(run, x)  # (1, n, d, 1, n, d)
    return jacobian[0, :, :, 0].abs().amax((1, 3)) > 0


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_c54_positions_interact_in_attention_alone(norm):
    model, x = transformer(norm=norm, layers=2).double(), torch.randn(1, 6, 32, dtype=torch.float64)
    assert dependencies(model.encoder, x).all()
    for layer in model.encoder:
        layer.attention = Nothing()
    assert dependencies(model.encoder, x).equal(torch.eye(6, dtype=torch.bool))
