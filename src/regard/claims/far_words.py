"""C6, attention is a shortcut to states far away; C7, without it they are out of reach; C8, any length does.

One word matters, in the middle of noise: d words to each side of it, so that it is d steps from either end of
an encoder that reads both ways. The target is that word.
"""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.claims.claim import Figures, at_least, at_most, between, claim, must_fail
from regard.claims.quick import remembered, sized
from regard.claims.toy_pairs import FIRST, batch_of, exponent, slope, train, translator
from regard.data import Batch
from regard.tasks.translation import target_in

WORDS, NOISE = 10, 10
DISTANCES = [10, 20, 50, 100]
WIDTHS = {"rnn": 37, "bahdanau": 32}  # as many parameters, or a few more without attention
entry = partial(claim, group="Bottleneck and distance", fixed="c8690d8")


def made(name: str, seed: int) -> Any:
    """A model with as many words as there are."""
    size = FIRST + WORDS + NOISE
    return translator(name, seed, source_vocabulary=size, target_vocabulary=size, width=WIDTHS[name])


def lookup(d: int, size: int, generator: torch.Generator) -> Batch:
    """Sources of 2d + 1 words, the one that matters in the middle."""
    source = torch.randint(WORDS, WORDS + NOISE, (size, 2 * d + 1), generator=generator)
    word = torch.randint(WORDS, (size, 1), generator=generator)
    source[:, d : d + 1] = word
    return batch_of(list(FIRST + source), list(FIRST + word))


def held_out(d: int, size: int = 100) -> Batch:
    """The same for every seed."""
    return lookup(d, sized(size, 4), torch.Generator().manual_seed(1000))


def stream(seed: int, farthest: int) -> Iterator[Batch]:
    """Batches at distances from 1 to the farthest."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        d = int(torch.randint(1, farthest + 1, (), generator=generator))
        yield lookup(d, 32, generator)


def first_logits(model: Any, batch: Batch) -> Tensor:
    """Logits (b, vocabulary) of the first target word."""
    hidden = model(batch["source"], batch.lengths["source"], target_in(batch["target"])[:, :1])
    logits: Tensor = model.logits(hidden[:, 0])
    return logits


@torch.inference_mode()
def right(model: Any, d: int) -> float:
    """The share of words named."""
    batch = held_out(d)
    return (first_logits(model, batch).argmax(-1) == batch["target"][:, 0]).float().mean().item()


def reaching(model: Any, d: int) -> float:
    """The norm of the gradient of the loss at the vector of the word that matters, in the mean."""
    seen: list[Tensor] = []
    batch = held_out(d, 32)
    embedding = next(m for m in model.encoder.modules() if isinstance(m, nn.Embedding))
    hook = embedding.register_forward_hook(lambda module, inputs, x: seen.append(x))
    loss = F.cross_entropy(first_logits(model, batch), batch["target"][:, 0], reduction="sum")
    hook.remove()
    (grad,) = torch.autograd.grad(loss, seen)
    return float(grad[:, d].norm(dim=-1).mean())


def gradients(model: Any) -> list[float]:
    """By distance, in double precision."""
    return [reaching(model.double(), d) for d in DISTANCES]


def by_step(values: list[float]) -> float:
    """The slope of log values over the distance: what one step further costs."""
    return slope([float(d) for d in DISTANCES], [math.log(max(v, 1e-300)) for v in values])


@remembered
def taught(seed: int) -> dict[str, Any]:
    """Models after 200 steps at distances from 1 to 100: accuracy, then gradients."""
    found: dict[str, Any] = {}
    for name in WIDTHS:
        model = made(name, seed)
        before = gradients(made(name, seed))
        train(model, stream(seed, 100), 200)
        accuracies = [right(model, d) for d in (*DISTANCES, 200)]
        found[name] = accuracies, before, gradients(model)
    return found


@entry(
    "C6",
    says="Attention is a shortcut for gradients.",
    source="000:287-289; 001:220",
    experiment="One word that matters, d words of noise to each side; gradient at that word, d = 10, "
    "20, 50, 100, before and after 200 steps: slope of its logarithm per step further, ratio at d = "
    "100.",
    control="rnn, whose gradient falls exponentially.",
    conditions=[
        must_fail(at_most(-0.02, "rnn, slope after")),
        *between(-0.005, 0.005, "bahdanau, slope after"),
        at_least(2, "log₁₀ of bahdanau by rnn at 100, after"),
        *between(-1.2, -0.8, "bahdanau, power of the distance before"),
    ],
    seeds=(5, 6, 7, 8, 9),
    minutes=2.0,
    only_if="it has been trained; before, weights are about 1/n and the gradient falls as 1/d",
    changed="The power of the distance is a condition that the first run showed.",
)
def shortcut(seed: int) -> Figures:
    """Slopes and ratio."""
    models = taught(seed)
    found: Figures = {}
    for name, (_, before, after) in models.items():
        found |= {f"{name}, slope before": by_step(before), f"{name}, slope after": by_step(after)}
    found["bahdanau, power of the distance before"] = exponent(
        [float(d) for d in DISTANCES], models["bahdanau"][1]
    )
    ratio = models["bahdanau"][2][-1] / max(models["rnn"][2][-1], 1e-300)
    return found | {"log₁₀ of bahdanau by rnn at 100, after": math.log10(ratio)}


@entry(
    "C7",
    says="Without attention, information many steps back is there in theory only.",
    source="001:57; 001:63",
    experiment="The models of C6 after 200 steps: is the word named?",
    control="Up to 3 words away rnn names it in as many steps (at a rate of 1e-2 instead of 3e-3).",
    conditions=[
        at_most(0.6, "rnn, d = 100"),
        at_least(0.95, "bahdanau, d = 100"),
        must_fail(at_least(0.95, "rnn taught near, d = 3")),
    ],
    seeds=(5, 6, 7, 8, 9),
    minutes=2.2,
    remark="It says nothing of longer training.",
)
def out_of_reach(seed: int) -> Figures:
    """Accuracy by distance; chance is .10."""
    found = {
        f"{name}, d = {d}": share
        for name, (accuracies, _, _) in taught(seed).items()
        for d, share in zip((*DISTANCES, 200), accuracies, strict=True)
    }
    near = made("rnn", seed)
    train(near, stream(seed, 3), 200, rate=1e-2)
    return found | {"rnn taught near, d = 3": right(near, 3)}


@entry(
    "C8",
    says="A recurrent model does not grow with its input.",
    source="001:55-56",
    experiment="Parameters, and whether it runs, at n = 10 and 10,000.",
    control="A table of learned positions ends where it ends.",
    conditions=[
        *between(0, 0, "parameters more at n = 10,000"),
        at_least(1, "runs at n = 10,000"),
        must_fail(at_least(1, "a table of 20 positions refuses 21")),
    ],
    exact=True,
)
def any_length(seed: int) -> Figures:
    """Counts and whether it runs."""
    more, runs = 0, True
    for name in WIDTHS:
        model = made(name, seed)
        before = model.parameter_count()
        with torch.inference_mode():
            for n in (10, sized(10_000, 100)):
                logits = first_logits(model, batch_of([torch.full((n,), 5)], [torch.tensor([5])]))
                runs = runs and bool(logits.isfinite().all())
        more += model.parameter_count() - before
    sizes = {"source_vocabulary": 8, "target_vocabulary": 8, "width": 8, "heads": 2}
    ends = translator("transformer", 0, positions="learned", longest=20, **sizes)
    try:
        ends.encode(torch.full((1, 21), 5), torch.tensor([21]))
        refused = False
    except ValueError:
        refused = True
    return {
        "parameters more at n = 10,000": float(more),
        "runs at n = 10,000": float(runs),
        "a table of 20 positions refuses 21": float(refused),
    }
