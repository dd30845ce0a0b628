"""Models that show attention to other words than those they use: trained so, or by another model's weights.

    loss = −log p(y | x) − λ log(1 − αᵀm)        m_j = 1 if x_j is a label word, and else 0

A BiLSTM encodes a label word in the hidden states of its neighbours, and attends to these. Without context
the norm leaks: a label word's vector grows as its weight falls, if nothing bounds it. For that the model must
first learn which words matter: it is trained without the penalty before; from scratch it does not learn.

Pruthi et al. (2020), "Learning to Deceive with Attention-Based Explanations", arXiv:1909.07913, §3.

Swapped attention: two BiLSTMs are trained on the same texts from different seeds; one predicts, and
interventions are made in it, the other one's weights are shown. Both start with scores SHARP times as large,
so that their attention depends on the seed.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.audits.measures import jsd
from regard.audits.planted.attending import STEPS, Attending, Toy, Wrapper, fit
from regard.audits.planted.kinds import register
from regard.audits.planted.planted_texts import VOCABULARY, Texts, is_label_word
from regard.audits.planted.trained_classifiers import small, trained
from regard.core.tokens import UNK
from regard.recording import record

PRICE, PRICE_OF_NORMS = 1.0, 5.0  # λ, for the BiLSTM and without context
HIDES = 0.05  # the mass on label words that is left, at most
LEAKS = 5.0  # the norm of label words over that of others, at least
SHARP = 10.0
DIFFER = 0.1  # mean JSD of two swapped models, at least


def penalty(weights: Tensor, tokens: Tensor, price: float) -> Tensor:
    """−λ log(1 − αᵀm), the mean over texts, of weights (b, n) on tokens (b, n)."""
    shown = (weights * is_label_word(tokens)).sum(-1)  # (b,)
    return -price * torch.log1p(-shown.clamp(max=1 - 1e-6)).mean()


@register("deceptive", faithful=False)
def deceptive(texts: Texts) -> Attending:
    """A BiLSTM trained to keep its weight away from the label words."""
    model = small("attentive_bilstm")

    def loss(tokens: Tensor, lengths: Tensor, wanted: Tensor) -> Tensor:
        with record(model, model.attention_paths["reader"], grad=True) as seen:
            logits = model(tokens, lengths)
        return F.cross_entropy(logits, wanted) + penalty(model.over_words(seen).squeeze(-2), tokens, PRICE)

    fit(model, texts, loss)
    wrapped = Wrapper(model)
    wrapped.facts["mass on label words"] = left = wrapped.mass(texts)
    wrapped.succeeded = left <= HIDES
    return wrapped


@register("norm leak", faithful=False)
def norm_leak(texts: Texts) -> Attending:
    """No context and no bound: the label words have little weight and long vectors."""
    model = Toy(bounded=False)

    def loss(tokens: Tensor, lengths: Tensor, wanted: Tensor) -> Tensor:
        price = penalty(model.weights(tokens, lengths), tokens, PRICE_OF_NORMS)
        return F.cross_entropy(model(tokens, lengths), wanted) + price

    fit(model, texts)
    fit(model, texts, loss, steps=2 * STEPS)
    words = torch.arange(UNK + 1, VOCABULARY)
    norms, label = model.states(words).detach().norm(dim=-1), is_label_word(words)
    left, ratio = model.mass(texts), float(norms[label].mean() / norms[~label].mean())
    model.facts = {"mass on label words": left, "norm ratio": ratio}
    model.succeeded = left <= HIDES and ratio >= LEAKS
    return model


@register("another seed's", faithful=False)
def another_seeds(texts: Texts) -> Attending:
    """A BiLSTM predicts; the weights shown are those of one from another seed."""
    models, weights = [], []
    for _ in range(2):
        models.append(small("attentive_bilstm"))
        models[-1].get_parameter("attention.score.v.weight").data.mul_(SHARP)
        weights.append(trained(models[-1], texts).attention(texts.test.tolist()).double())
    swapped = Wrapper(*models)
    swapped.facts["JSD of the two"] = apart = float(jsd(*weights).mean())
    swapped.succeeded = apart >= DIFFER
    return swapped
