"""C46, C51 and C54: without positions attention does not see the order, and nothing else does."""

from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.claims.claim import Figures, at_least, at_most, between, claim, must_fail
from regard.claims.quick import sized
from regard.claims.toy_pairs import FIRST, batch_of, train, translator
from regard.data import Batch
from regard.tasks.translation import target_in

entry = partial(claim, group="Positions, heads, depth", fixed="c8690d8")


def transformer(seed: int = 0, vocabulary: int = 24, **settings: Any) -> Any:
    """A small one."""
    sizes = {"width": 32, "heads": 4, "inner": 64, "layers": 1}
    return translator(
        "transformer", seed, source_vocabulary=vocabulary, target_vocabulary=vocabulary, **(sizes | settings)
    )


def order_blind(seed: int = 0, **settings: Any) -> Any:
    """One without positions in its encoder."""
    model = transformer(seed, **settings)
    model.source.positions = None
    return model


def encoded(model: Any) -> Callable[[Tensor], Tensor]:
    """The encoder as a function of tokens (b, n)."""

    def states(tokens: Tensor) -> Tensor:
        memory: Tensor = model.encode(tokens, torch.full((len(tokens),), tokens.shape[1])).encoded
        return memory

    return states


@torch.no_grad()
def moves(model: Any, tokens: Tensor) -> float:
    """How far the outputs of permuted inputs are from the permuted outputs."""
    order = torch.randperm(tokens.shape[1], generator=torch.Generator().manual_seed(0))
    states = encoded(model.double().eval())
    return float((states(tokens[:, order]) - states(tokens)[:, order]).abs().max())


def a_before_b(seed: int, size: int = 64, n: int = 10, words: int = 16) -> Iterator[Batch]:
    """Is word a before word b? Both are there once, among others; the target is yes or no."""
    generator = torch.Generator().manual_seed(seed)
    a, b, yes, no = FIRST, FIRST + 1, FIRST + 2, FIRST + 3
    while True:
        source = torch.randint(FIRST + 4, FIRST + words, (size, n), generator=generator)
        at = torch.rand(size, n, generator=generator).argsort(-1)[:, :2]
        source.scatter_(1, at, torch.tensor([a, b]).expand(size, 2))
        target = torch.where(at[:, :1] < at[:, 1:], yes, no)
        yield batch_of(list(source), list(target))


def knows_the_order(model: Any, seed: int) -> float:
    """The share of answers right after 400 steps."""
    train(model, a_before_b(seed), 400)
    batch = next(a_before_b(1000 + seed, sized(2000, 64)))
    with torch.inference_mode():
        hidden = model(batch["source"], batch.lengths["source"], target_in(batch["target"])[:, :1])
        return float((model.logits(hidden)[:, 0].argmax(-1) == batch["target"][:, 0]).float().mean())


@entry(
    "C46",
    says="Self-attention without positions does not see the order.",
    source="000:217-218; 004:1181",
    experiment="Permute the input of an encoder of 3 layers; learn “is a before b?”, 400 steps.",
    control="With sinusoids and relative positions.",
    conditions=[
        at_most(1e-12, "outputs off, without positions"),
        must_fail(at_least(1e-3, "outputs off, sinusoids")),
        must_fail(at_least(1e-3, "outputs off, relative")),
        at_most(0.55, "right without positions"),
        must_fail(at_least(0.98, "right with sinusoids")),
    ],
    seeds=(5, 6, 7, 8, 9),
    minutes=0.5,
)
def order(seed: int) -> Figures:
    """Equivariance and accuracy."""
    tokens = torch.randint(FIRST, 24, (2, 9), generator=torch.Generator().manual_seed(seed))
    return {
        "outputs off, without positions": moves(order_blind(seed, layers=3), tokens),
        "outputs off, sinusoids": moves(transformer(seed, layers=3), tokens),
        "outputs off, relative": moves(transformer(seed, layers=3, positions="relative"), tokens),
        "right without positions": knows_the_order(order_blind(seed), seed),
        "right with sinusoids": knows_the_order(transformer(seed), seed),
    }


def sentences(seed: int, longest: int = 20, shortest: int = 3, size: int = 32) -> Iterator[Tensor]:
    """Tokens (size, n), n the same for all of a batch; each is to be labelled with the one before it."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        n = int(torch.randint(shortest, longest + 1, (), generator=generator))
        yield torch.randint(FIRST, 24, (size, n), generator=generator)


def labels(model: Any, tokens: Tensor) -> Tensor:
    """Logits (b, n − 1, vocabulary) of the positions from the second on, by the encoder alone."""
    logits: Tensor = model.logits(encoded(model)(tokens)[:, 1:])
    return logits


def word_before_loss(model: Any, tokens: Tensor) -> Tensor:
    """Cross-entropy of the word before."""
    return F.cross_entropy(labels(model, tokens).flatten(0, 1), tokens[:, :-1].flatten())


@entry(
    "C51",
    says="Sinusoids are as good as learned positions; relative ones go further.",
    source="004:1355",
    experiment="Each word names the one before it, one encoder layer, trained at 3–20 words, 1,000 "
    "steps; at 20 and 30.",
    control="All name it at 20 words.",
    conditions=[
        *between(-0.01, 0.01, "sinusoidal, 20 words − learned, 20 words", "as good in range"),
        at_least(0.1, "relative, 30 words − sinusoidal, 30 words", "relative ones go further"),
        at_least(0.1, "relative, 30 words − learned, 30 words", "relative ones go further"),
        at_least(0.98, "relative, 30 words", "relative ones go further"),
    ],
    seeds=(5, 6, 7, 8, 9),
    minutes=1.0,
    changed="1,000 steps: after 400, seeds 0 and 1, sinusoids were behind learned positions at 20 words.",
    remark="In self-attention; not for a whole translator, where attention to the source has no "
    "positions at all.",
)
def kinds_of_positions(seed: int) -> Figures:
    """The share of labels right, at a length of training and beyond."""
    found = {}
    for kind in ("sinusoidal", "learned", "relative"):
        model = transformer(seed, positions=kind, longest=40, reach=8)
        train(model, sentences(seed), 1000, loss=word_before_loss)
        for n in (20, 30):
            tokens = next(sentences(1000 + seed, n, n, size=sized(200, 16)))
            with torch.inference_mode():
                right = labels(model, tokens).argmax(-1) == tokens[:, :-1]
            found[f"{kind}, {n} words"] = right.float().mean().item()
    return found


class Nothing(nn.Module):
    """An attention that leaves everything where it is."""

    def forward(self, query: Tensor, *others: Any, **settings: Any) -> SimpleNamespace:
        """The query as the context."""
        return SimpleNamespace(context=query)


def dependencies(layers: Any, x: Tensor) -> Tensor:
    """Which output depends on which input: (n, n), outputs first."""

    def run(x: Tensor) -> Tensor:
        for layer in layers:
            x = layer(x, None)
        return x

    jacobian: Tensor = torch.autograd.functional.jacobian(run, x)  # (1, n, d, 1, n, d)
    return jacobian[0, :, :, 0].abs().amax((1, 3)) > 0


@entry(
    "C54",
    says="Self-attention is the only place where positions interact.",
    source="004:1335",
    experiment="Jacobian of the encoder, pre- and post-norm, attention replaced by the identity: "
    "entries off the diagonal.",
    control="With attention none is 0.",
    conditions=[
        at_most(0, "without attention, dependencies off the diagonal"),
        must_fail(at_most(0, "with attention, independent pairs")),
    ],
    exact=True,
)
def interactions(seed: int) -> Figures:
    """Counts of pairs of positions."""
    independent = off = 0
    for norm in ("pre", "post"):
        model = transformer(seed, norm=norm, layers=2).double().eval()
        x = torch.randn(1, 6, 32, dtype=torch.float64)
        independent += int((~dependencies(model.encoder, x)).sum())
        for layer in model.encoder:
            layer.attention = Nothing()
        off += int((dependencies(model.encoder, x) & ~torch.eye(6, dtype=torch.bool)).sum())
    return {
        "without attention, dependencies off the diagonal": float(off),
        "with attention, independent pairs": float(independent),
    }
