"""C92: weight is not contribution: a token that says nothing gets much weight and adds little.

Sources are five words of `dictionary` and a dot, which is always there and says nothing. In the target each
word is followed by its number and a comma: the target so far decides these, and the end, and nothing in the
source is needed there; but a Transformer (one layer of four heads, and a decay of weights, so that what
nobody needs becomes small) must look somewhere. Its attention to the source is measured by the weights α, the
mean of the heads, and by ‖Σ αf(x)‖, the sum over heads.

Kobayashi et al. (2020), "Attention is Not Only a Weight", arXiv:2004.10102.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from regard.alignment import Links, score
from regard.claims.claim import Figures, at_least, claim, must_fail
from regard.claims.toy_pairs import Pairs, accuracy, inputs, train, translation_loss, translator
from regard.data import Batch
from regard.data.corpora import dictionary
from regard.data.corpora.phrase import Pair
from regard.data.corpora.split import Split
from regard.explanations.norms import contributions
from regard.recording import record

N, WORDS, TEST, HEADS = 5, 10, 200, 4
DECAY = 1e-4


def numbered(seed: int, split: Split) -> Iterator[Pair]:
    """Pairs of a dictionary, a dot after the source, a number and a comma after each word of the target."""
    for pair in dictionary(seed, split, vocabulary=WORDS, shortest=N, longest=N):
        target = [part for k, word in enumerate(pair.target.split(), 1) for part in (word, str(k), ",")]
        yield Pair(f"{pair.source} .", " ".join(target), [(i, 3 * j) for i, j in pair.alignment])


def decayed_loss(model: Any, batch: Batch) -> Tensor:
    """The loss and a decay of all weights."""
    decay: Tensor = DECAY * sum(p.square().sum() for p in model.parameters())
    return translation_loss(model, batch) + decay


@torch.no_grad()
def added(model: Any, batch: Batch) -> tuple[Tensor, Tensor]:
    """Weights (b, h, m, n) of the only attention to the source, and f(x) (b, h, n, d)."""
    (path,) = model.attention_paths["cross"]
    with record(model.eval(), path) as seen:
        model(*inputs(batch))
    (one,), W = seen[path], model.get_submodule(path).W_o.weight
    return one.weights, torch.einsum("bhne,dhe->bhnd", one.values, W.unflatten(-1, (HEADS, -1)))


def links(scores: Tensor) -> list[Links]:
    """The largest of each row of scores (b, m, n + 1), of which the last column is the dot, and no link."""
    best = scores[:, :-1].argmax(-1)  # without the row of the end
    return [Links.of((i, j) for j, i in enumerate(row) if i < N) for row in best.tolist()]


@claim(
    "C92",
    group="Classifiers and explanations",
    fixed="87e2674",
    says="Weight is not contribution: a token that says nothing gets weight and adds little.",
    source="004:1725-1729",
    experiment="dictionary of five words, a dot after each source, a number and a comma after each "
    "word of the target; transformer, one layer of four heads, 300 steps. Weights, and norms of what "
    "tokens add.",
    control="All words are right.",
    conditions=[
        at_least(0.5, "dot has the largest weight", "it gets weight"),
        at_least(0.5, "words that add more than it", "it adds little"),
        at_least(0, "AER by weight − AER by norm", "norms align no worse"),
        must_fail(at_least(0.98, "accuracy")),
    ],
    minutes=0.6,
    changed="The target, after seed 100: two others did no better.",
    remark="The dot is looked at where nothing is needed, in fewer than half of the rows, and what "
    "it adds is not small: it has come to stand for what is said there.",
)
def weighed(seed: int) -> Figures:
    """Weights, norms and links of the trained model."""
    pairs = Pairs(numbered)
    sizes = {"width": 32, "inner": 64, "heads": HEADS, "layers": 1, "tied": "no"}
    model = translator("transformer", seed, **pairs.sizes, **sizes)
    train(model, pairs.train(seed), 300, 1e-2, loss=decayed_loss)
    test = pairs.held_out(TEST)
    batch, gold = pairs.batch(test), [Links.of(pair.alignment) for pair in test]
    weights, f = added(model, batch)
    alpha, norms = weights.mean(1), contributions(weights, f)  # (b, m, n + 1)
    top, whole = alpha.argmax(-1) == N, norms.mean(1)
    found = {
        "accuracy": accuracy(model, batch),
        "dot has the largest weight": top.double().mean().item(),
        "weight of the dot": alpha[..., N].mean().item(),
        "words that add more than it": (whole[:, :N] > whole[:, N:]).double().mean().item(),
        "dot has the largest norm": (norms.argmax(-1) == N).double().mean().item(),
    }
    for name, scores in (("weight", alpha), ("norm", norms)):
        found[f"AER by {name}"] = score(links(scores), gold).aer
        found[f"AER of words by {name}"] = score(links(scores), gold, aligned_words=True).aer
    return found
