"""C6, attention is a shortcut to states far away; C7, without it they are out of reach; C8, any length does.

One word matters, in the middle of noise: d words to each side of it, so that it is d steps from either end of
an encoder that reads both ways. The target is that word.
"""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from claims.experiment import FIRST, SEEDS, batch_of, held, over_seeds, report, target_in, train
from regard.models import TRANSLATORS

WORDS, NOISE = 10, 10
DISTANCES = [10, 20, 50, 100]
SIZES = {"rnn": 37, "bahdanau": 32}  # as many parameters, or a few more without attention


def made(name, seed, **settings):
    torch.manual_seed(seed)
    size = FIRST + WORDS + NOISE
    return TRANSLATORS[name].make(
        source_vocabulary=size, target_vocabulary=size, width=SIZES[name], dropout=0.0, **settings
    )


def lookup(d, size, generator):
    source = torch.randint(WORDS, WORDS + NOISE, (size, 2 * d + 1), generator=generator)
    word = torch.randint(WORDS, (size, 1), generator=generator)
    source[:, d : d + 1] = word
    return batch_of(list(FIRST + source), list(FIRST + word))


def held_out(d, size=100):
    return lookup(d, size, torch.Generator().manual_seed(1000))


def stream(seed, farthest):
    generator = torch.Generator().manual_seed(seed)
    while True:
        d = int(torch.randint(1, farthest + 1, (), generator=generator))
        yield lookup(d, 32, generator)


def first_logits(model, batch):
    return model.logits(
        model(batch["source"], batch.lengths["source"], target_in(batch["target"])[:, :1])[:, 0]
    )


@torch.inference_mode()
def right(model, d):
    batch = held_out(d)
    return (first_logits(model, batch).argmax(-1) == batch["target"][:, 0]).float().mean().item()


def reaching(model, d):
    """The norm of the gradient of the loss at the vector of the word that matters, in the mean."""
    seen, batch = [], held_out(d, 32)
    embedding = next(m for m in model.encoder.modules() if isinstance(m, nn.Embedding))
    hook = embedding.register_forward_hook(lambda module, inputs, x: seen.append(x))
    loss = F.cross_entropy(first_logits(model, batch), batch["target"][:, 0], reduction="sum")
    hook.remove()
    (grad,) = torch.autograd.grad(loss, seen)
    return grad[:, d].norm(dim=-1).mean().item()


def gradients(model):
    return [reaching(model.double(), d) for d in DISTANCES]


def by_step(values):
    """The slope of log values over the distance: what one step further costs."""
    return np.polyfit(DISTANCES, np.log(values).T, 1)[0]


def test_c8_the_model_does_not_grow_with_the_sentence():
    for name in SIZES:
        model = made(name, 0)
        before = model.parameter_count()
        with torch.inference_mode():
            for n in (10, 10_000):
                logits = first_logits(model, batch_of([torch.full((n,), 5)], [torch.tensor([5])]))
                assert logits.isfinite().all()
        assert model.parameter_count() == before


def test_c8_control_a_table_of_positions_ends():
    model = TRANSLATORS["transformer"].make(
        source_vocabulary=8, target_vocabulary=8, width=8, heads=2, positions="learned", longest=20
    )
    with pytest.raises(ValueError, match="20"):
        model.encode(torch.full((1, 21), 5), torch.tensor([21]))


def test_c6_before_training_gradients_vanish_with_a_power_of_the_distance_or_exponentially():
    """Weights that have learned nothing are about 1/n, and so is the gradient that comes through them: it
    falls with the distance, as 1/d and not as γᵈ. That it does not fall is true after training."""
    fixed, attending = (gradients(made(name, 0)) for name in SIZES)
    assert by_step(fixed) <= -0.02
    assert attending[-1] >= 100 * fixed[-1]
    power = np.polyfit(np.log(DISTANCES), np.log(attending), 1)[0]
    assert power == pytest.approx(-1, abs=0.2)


@pytest.fixture(scope="module")
def taught():
    """Gradients and accuracy by distance, after 200 steps at distances from 1 to 100."""

    def measure(seed):
        found = {}
        for name in SIZES:
            model = made(name, seed)
            train(model, stream(seed, 100), 200)
            found[f"{name}, accuracy"] = [right(model, d) for d in DISTANCES]
            found[f"{name}, gradient"] = gradients(model)
        return found

    found = over_seeds(measure, SEEDS)
    report(f"C6, C7 at {DISTANCES}", found)
    return found


@pytest.mark.slow
def test_c6_after_training_attention_is_a_shortcut(taught):
    fixed, attending = taught["rnn, gradient"], taught["bahdanau, gradient"]
    print("C6 slopes of log gradient:", by_step(fixed), by_step(attending))
    assert held(-by_step(fixed), 0.02)
    assert held(-np.abs(by_step(attending)), -0.005)
    assert held(np.log10(attending[:, -1] / fixed[:, -1]), 2)


@pytest.mark.slow
def test_c7_what_is_far_away_is_found_with_attention_alone(taught):
    assert held(-taught["rnn, accuracy"][:, -1], -0.6)
    assert held(taught["bahdanau, accuracy"][:, -1], 0.95)


def test_c7_control_what_is_near_is_found_without():
    """In as many steps, at a higher rate, up to 3 words away: the model can learn this."""
    model = made("rnn", 0)
    train(model, stream(0, 3), 200, rate=1e-2)
    assert right(model, 3) >= 0.95
