"""Models that predict from selected words alone: hard selection, and rationalizers.

Hard selection: each of the CHOSEN words of highest score has weight 1/CHOSEN, all others 0; the output layer
is linear in the weighted hidden states, which have no context. In training, the gradient is that of softmax.

A rationalizer's selection z is shown as its attention. It has no `intervene`: z is a mask of the input, no
weight of a sum, and sums to as many words as are selected.
"""

import torch
from torch import Tensor

from regard.audits.planted.attending import Functions, Tokens, Toy, fit, functions_of, lengths_of
from regard.audits.planted.kinds import Made, register
from regard.audits.planted.planted_texts import Texts
from regard.audits.planted.trained_classifiers import SMALL
from regard.data.padding import padded
from regard.models.classifiers import CLASSIFIERS
from regard.models.classifiers.rationalizer import Rationalizer

CHOSEN = 4  # a text has at most so many label words
RATE_OF_WORDS = 0.15  # that a rationalizer should select


class HardSelection(Toy):
    """ŷ = W (1/CHOSEN) Σ_{chosen j} h_j + b."""

    def weights(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        theta: Tensor = self.scores(tokens, lengths)
        best = theta.topk(min(CHOSEN, theta.shape[-1])).indices
        chosen = torch.zeros_like(theta).scatter(-1, best, 1.0) * theta.isfinite()
        hard = chosen / chosen.sum(-1, keepdim=True)
        if not self.training:
            return hard
        soft = theta.softmax(-1)
        return hard + soft - soft.detach()


@register("hard selection", faithful=True)
def hard_selection(texts: Texts) -> Made:
    """Four words are chosen; nothing else reaches the output."""
    model = HardSelection()
    fit(model, texts, steps=400, rate=3e-2)
    return Made(functions_of(model))


def rationalized(name: str, texts: Texts) -> Made:
    """A rationalizer of this name, trained, with its selection as attention."""
    model = CLASSIFIERS[name].make(**SMALL, window=1, target_rate=RATE_OF_WORDS)
    assert isinstance(model, Rationalizer)
    fit(model, texts, lambda x, n, y: model.loss(y, x, n) / len(y), steps=350, rate=1e-2)
    model.requires_grad_(False)

    def predict(given: Tokens) -> Tensor:
        found: Tensor = model(*padded(given)).double().softmax(-1)
        return found

    def attention(given: Tokens) -> Tensor:
        return model.selected(*padded(given)).double()

    selected = model.selected(texts.test, lengths_of(texts.test))
    return Made(Functions(predict, attention, None), {"words selected": float(selected.double().mean())})


@register("rationalizer, HardKuma", faithful=True)
def hardkuma(texts: Texts) -> Made:
    """A rationalizer that samples the words its predictor sees; the selection is shown."""
    return rationalized("rationalizer_hardkuma", texts)


@register("rationalizer, entmax", faithful=True)
def entmax(texts: Texts) -> Made:
    """A deterministic rationalizer; the selection is shown."""
    return rationalized("rationalizer_entmax", texts)
