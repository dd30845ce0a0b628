"""C52, what residuals and layer norm do in a deep model, and how long it trains with and without a warm-up.

6 + 6 layers copy 2 to 6 words, at a rate of 3e-3 from the first step, 300 steps.
"""

from typing import Any

from torch import Tensor

from regard.claims.claim import Figures, at_least, at_most, between, claim, must_fail
from regard.claims.toy_pairs import Pairs, train, translation_loss, translator
from regard.data.corpora import copy
from regard.models.parts.residual import Residual

KINDS = ("pre", "post", "none")


class Bare(Residual):
    """The sublayer with its norm, and no way around it."""

    def forward(self, x: Tensor, sublayer: Any) -> Tensor:
        """The output of the sublayer alone."""
        out: Tensor = self.dropout(sublayer(self.norm(x)))
        return out


def made(kind: str, pairs: Pairs, seed: int, layers: int = 6) -> Any:
    """A Transformer, so many layers to read and to write: "pre", "post" or, without residuals, "none"."""
    sizes = {"width": 32, "heads": 4, "inner": 64, "layers": layers, "positions": "learned", "longest": 8}
    model = translator("transformer", seed, **pairs.sizes, norm="post" if kind == "post" else "pre", **sizes)
    if kind == "none":
        for module in model.modules():
            if isinstance(module, Residual):
                module.__class__ = Bare
    return model


def loss_after(
    kind: str, pairs: Pairs, seed: int, *, rate: float = 3e-3, warmup: int = 0, layers: int = 6
) -> float:
    """The loss after 300 steps at a constant rate, in the mean of the last 20."""
    model = made(kind, pairs, seed, layers)
    losses = train(model, pairs.train(seed, 32), 300, rate, warmup=warmup, schedule="constant")
    return sum(losses[-20:]) / len(losses[-20:])


def first_over_last(kind: str, pairs: Pairs, seed: int) -> float:
    """The gradient at the first layer of the decoder over that at its last, before training."""
    model = made(kind, pairs, seed)
    translation_loss(model, next(pairs.train(seed))).backward()
    first, last = (model.decoder[k].feed_forward for k in (0, -1))
    norms = [sum(p.grad.square().sum() for p in layer.parameters()).sqrt().item() for layer in (first, last)]
    return float(norms[0] / norms[1])


def toy() -> Pairs:
    """Copies of 2 to 6 words out of 8."""
    return Pairs(copy, vocabulary=8, shortest=2, longest=6)


@claim(
    "C52",
    group="Positions, heads, depth",
    fixed="c8690d8",
    says="Residuals and layer norm matter, and their order.",
    source="004:1201-1214; 004:1345",
    experiment="6 + 6 layers copy 2–6 words, rate 3e-3 from the first step, 300 steps: loss, and the "
    "gradient of the first decoder layer over that of the last.",
    control="Without residuals nothing is learned (log 8 = 2.079).",
    conditions=[
        at_most(0.1, "loss, pre"),
        at_least(0.2, "loss, post − loss, pre"),
        must_fail(at_least(1.5, "loss, none")),
        *between(0.5, 2, "first by last gradient, pre"),
        at_most(0.5, "first by last gradient, post"),
        at_most(1e-3, "first by last gradient, none"),
    ],
    seeds=(5, 6, 7, 8, 9),
    minutes=0.5,
    changed="Learned positions, a rate of 3e-3 and 300 steps: with sinusoids, 1e-3 and 200 steps the "
    "losses of one seed were in the same order, and nearer to each other.",
)
def depth(seed: int) -> Figures:
    """Losses and gradients by kind."""
    pairs, found = toy(), {}
    for kind in KINDS:
        found[f"loss, {kind}"] = loss_after(kind, pairs, seed)
        found[f"first by last gradient, {kind}"] = first_over_last(kind, pairs, seed)
    return found
