"""Models trained to attend to other words than those they use.

    loss = −log p(y | x) − λ log(1 − αᵀm)        m_j = 1 if x_j is a label word, and else 0

A BiLSTM encodes a label word in the hidden states of its neighbours, and attends to these. Without context
the norm leaks: a label word's vector grows as its weight falls, if nothing bounds it. For that the model must
first learn which words matter: it is trained without the penalty before; from scratch it does not learn.

Pruthi et al. (2020), "Learning to Deceive with Attention-Based Explanations", arXiv:1909.07913, §3.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.audits.planted.decoy_attention import mass
from regard.audits.planted.kinds import Made, register
from regard.audits.planted.planted_fit import RATE, STEPS, fit
from regard.audits.planted.planted_texts import VOCABULARY, Texts, is_label_word
from regard.audits.planted.toy_layers import WIDTH, Scores, States, context
from regard.audits.planted.trained_classifiers import bilstm
from regard.audits.planted.wrapper import Answer, Attending, Wrapper, functions_of
from regard.core.tokens import UNK
from regard.recording import record

PRICE, PRICE_OF_NORMS = 1.0, 5.0  # λ, for the BiLSTM and without context
HIDES = 0.05  # the mass on label words that is left, at most
LEAKS = 5.0  # the norm of label words over that of others, at least


def penalty(weights: Tensor, tokens: Tensor, price: float) -> Tensor:
    """−λ log(1 − αᵀm), the mean over texts, of weights (b, n) on tokens (b, n)."""
    shown = (weights * is_label_word(tokens)).sum(-1)  # (b,)
    return -price * torch.log1p(-shown.clamp(max=1 - 1e-6)).mean()


@register("deceptive", faithful=False)
def deceptive(texts: Texts) -> Made:
    """A BiLSTM trained to keep its weight away from the label words."""
    model = bilstm()

    def loss(tokens: Tensor, lengths: Tensor, wanted: Tensor) -> Tensor:
        with record(model, model.attention_paths["reader"], grad=True) as seen:
            logits = model(tokens, lengths)
        return F.cross_entropy(logits, wanted) + penalty(model.over_words(seen).squeeze(-2), tokens, PRICE)

    fit(model, loss, texts, steps=STEPS, rate=RATE)
    wrapped = Wrapper(model)
    left = mass(wrapped, texts)
    return Made(functions_of(wrapped), {"mass on label words": left}, left <= HIDES, model)


class Unbounded(Attending):
    """ŷ = W Σ_j α_j E[x_j] + b: the length of a vector is not bounded."""

    def __init__(self) -> None:
        super().__init__()
        self.states, self.scores, self.read = States(bounded=False), Scores(), nn.Linear(WIDTH, 2)

    def weights(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        return self.scores.weights(tokens, lengths)

    def prepared(self, tokens: Tensor, lengths: Tensor) -> Answer:
        states = self.states(tokens)
        return lambda weights: self.read(context(weights, states))


@register("norm leak", faithful=False)
def norm_leak(texts: Texts) -> Made:
    """No context and no bound: the label words have little weight and long vectors."""
    model = Unbounded()

    def clean(tokens: Tensor, lengths: Tensor, wanted: Tensor) -> Tensor:
        return F.cross_entropy(model(tokens, lengths), wanted)

    def loss(tokens: Tensor, lengths: Tensor, wanted: Tensor) -> Tensor:
        return clean(tokens, lengths, wanted) + penalty(
            model.weights(tokens, lengths), tokens, PRICE_OF_NORMS
        )

    fit(model, clean, texts, steps=STEPS, rate=RATE)
    fit(model, loss, texts, steps=2 * STEPS, rate=RATE)
    left, ratio = mass(model, texts), norm_ratio(model)
    facts = {"mass on label words": left, "norm ratio": ratio}
    return Made(functions_of(model), facts, left <= HIDES and ratio >= LEAKS)


def norm_ratio(model: Unbounded) -> float:
    """Mean norm of the vectors of label words, over that of the others."""
    tokens = torch.arange(UNK + 1, VOCABULARY)
    with torch.no_grad():
        norms = model.states(tokens).norm(dim=-1)
    label = is_label_word(tokens)
    return float(norms[label].mean() / norms[~label].mean())
