"""C86: tokens lose their identity; C87: rollout and flow follow importance; C88: their arithmetic.

A Transformer with a place before the words, which alone is read, learns the number of the subject in
sentences with other nouns around it (`agreement`). Words matter as much as blanking them out changes what it
says.
"""

from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from regard.claims.claim import Figures, at_least, at_most, claim, must_fail
from regard.claims.quick import few, remembered, sized
from regard.core.tokens import UNK
from regard.data import Tokenizer
from regard.data.corpora.agreement import agreement
from regard.data.labelled import Labelled
from regard.explanations import identified, leave_one_out, linear_map
from regard.explanations.flow_network import flowing
from regard.explanations.layer_stack import Stack, bare, stack
from regard.explanations.rollout import rolled
from regard.models.classifiers import CLASSIFIERS
from regard.models.subject import real

LAYERS, STEPS, BATCH, ASKED = 6, 1000, 64, 200
LABELS = {"singular": 0, "plural": 1}
entry = partial(
    claim, group="Classifiers and explanations", fixed="5264917", changed="Seed 0 had been seen before."
)
Encoded = tuple[Tensor, Tensor, Tensor]


def encoded(tokenizer: Tokenizer, texts: list[Labelled]) -> Encoded:
    """Tokens, lengths and classes of labelled texts."""
    rows = [torch.tensor(row) for row in tokenizer.encode_many([text.text for text in texts])]
    lengths = torch.tensor([len(row) for row in rows])
    return pad_sequence(rows, batch_first=True), lengths, torch.tensor([LABELS[text.label] for text in texts])


@remembered
def trained(seed: int) -> tuple[Any, Encoded]:
    """A model, and texts it has not seen."""
    steps = few(STEPS)
    texts = list(islice(agreement(seed), max(steps * BATCH, 2000)))
    tokenizer = Tokenizer.train([text.text for text in texts[:2000]], "word", 71)
    torch.manual_seed(seed)
    sizes = dict(embedding=64, inner=128, heads=8, layers=LAYERS, dropout=0.1, word_dropout=0.1)
    model = CLASSIFIERS["transformer_encoder"].make(
        vocabulary=len(tokenizer), classes=2, read="first", **sizes
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        tokens, lengths, wanted = encoded(tokenizer, texts[step * BATCH : (step + 1) * BATCH])
        for group in optimiser.param_groups:
            group["lr"] = 1e-3 * min((step + 1) / 100, 1)
        optimiser.zero_grad()
        F.cross_entropy(model(tokens, lengths), wanted).backward()
        optimiser.step()
    long = [text for text in islice(agreement(seed, "test"), 3 * ASKED) if len(text.text.split()) >= 6]
    return model.eval(), encoded(tokenizer, long[: sized(ASKED, 12)])


def mean_spearman(scores: Tensor, importance: Tensor, lengths: Tensor) -> float:
    """The mean over texts of the rank correlation of two scores (b, n)."""
    pairs = zip(scores, importance, lengths.tolist(), strict=True)
    found = [spearmanr(a[:n], b[:n]).statistic for a, b, n in pairs if a[:n].std() > 0 and b[:n].std() > 0]
    return float(np.mean(found)) if found else 0.0


@entry(
    "C86",
    says="Tokens lose their identity from layer to layer.",
    source="004:1725",
    experiment="agreement, transformer_encoder, 6 layers of 8 heads, 1,000 steps: the word nearest "
    "to a state, after a linear map learned from other texts.",
    control="Chance is at most 1/6.",
    conditions=[
        at_most(-0.8, "Spearman with the layer"),
        must_fail(at_least(2 / 6, f"told, layer {LAYERS}")),
    ],
    minutes=4.0,
    remark="Of 67 words nearly each can still be told at the top.",
)
def identities(seed: int) -> Figures:
    """The share of words told, by layer."""
    model, (tokens, lengths, _) = trained(seed)
    states: list[Tensor] = []
    hooks = [
        layer.register_forward_hook(lambda *call: states.append(call[-1][:, 1:])) for layer in model.encoder
    ]
    with torch.no_grad():
        model(tokens, lengths)
        vectors = model.embed(tokens)
    for hook in hooks:
        hook.remove()
    half, shares = len(tokens) // 2, []
    for state in states:
        g = linear_map(state[:half], vectors[:half], lengths[:half])
        right = identified(state[half:], vectors[half:], lengths[half:], g=g)
        shares.append(float(right[real(lengths[half:], tokens.shape[1])].mean()))
    falls = spearmanr(range(LAYERS), shares).statistic if len(set(shares)) > 1 else 0.0
    told = {f"told, layer {layer}": share for layer, share in enumerate(shares, 1)}
    return told | {"Spearman with the layer": float(falls)}


@entry(
    "C87",
    says="Rollout and flow follow importance better than weights do, above layer 1.",
    source="004:1756-1773",
    experiment="The same model; Spearman with blanking out a word, by layer.",
    control="Accuracy: a model that has learned.",
    conditions=[
        at_least(0.2, "rollout, layer 6 − weights, layer 6", "rollout"),
        at_least(-0.05, "flow, layer 6 − rollout, layer 6", "flow"),
        at_least(0, "weights, layer 1 − weights, layer 3", "weights are best in layer 1"),
        must_fail(at_least(0.9, "accuracy")),
    ],
    minutes=5.0,
    remark="Flow is better than weights in the mean, and well below rollout.",
)
def correlations(seed: int) -> Figures:
    """Of weights, rollout and flow from the place that is read, up to each layer."""
    model, (tokens, lengths, wanted) = trained(seed)
    with torch.no_grad():
        found = {"accuracy": float((model(tokens, lengths).argmax(-1) == wanted).double().mean())}
    importance = leave_one_out(model, tokens, lengths, by=UNK).abs()
    whole = stack(model, tokens, lengths, "rollout")
    for layer in range(1, LAYERS + 1):
        part = Stack(whole.layers[:layer], whole.lengths, whole.ahead)
        weights = part.layers[-1].weights.mean(1)
        for name, between in (("weights", weights), ("rollout", rolled(part)), ("flow", flowing(part))):
            found[f"{name}, layer {layer}"] = mean_spearman(between[:, 0, 1:], importance, lengths)
    return found


BELOW = torch.tensor([[1, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]], dtype=torch.float64)
ABOVE = torch.tensor([[0, 1, 0], [0, 0, 1], [1, 0, 0]], dtype=torch.float64)
ROLLED = torch.tensor([[0.625, 0.375, 0], [0.125, 0.5, 0.375], [0.5, 0.125, 0.375]], dtype=torch.float64)
FLOWING = torch.tensor([[0.75, 0.5, 0], [0.25, 0.75, 0.5], [0.5, 0.25, 0.5]], dtype=torch.float64)


@claim(
    "C88",
    group="Classifiers and explanations",
    fixed="e1da394",
    says="Arithmetic of rollout and flow.",
    source="004:1756-1773",
    experiment="Three tokens, two layers, half of each W and half of I, worked by hand: sums of "
    "products over paths, and largest flows.",
    control="The product of the weights without the residual is another.",
    conditions=[
        at_most(1e-12, "rollout, off by"),
        at_most(1e-12, "flow, off by"),
        must_fail(at_least(0.1, "without the residual, off by")),
    ],
    exact=True,
)
def by_hand(seed: int) -> Figures:
    """How far rollout and flow are from what a hand gets."""
    layers = bare([BELOW.view(1, 1, 3, 3), ABOVE.view(1, 1, 3, 3)])
    return {
        "rollout, off by": float((rolled(layers)[0] - ROLLED).abs().max()),
        "flow, off by": float((flowing(layers)[0] - FLOWING).abs().max()),
        "without the residual, off by": float((ABOVE @ BELOW - ROLLED).abs().max()),
    }
