"""Models trained to show other words than those they use.

    loss = −log p(y | x) − λ log(1 − αᵀm)        m_j = 1 if x_j is a label word, and else 0

A BiLSTM hands what a label word says on to its neighbours, and looks there. Without context the way out is the
norm: a label word's vector grows as its weight falls, if nothing bounds it. For that the model must know first
which words matter (CLEAN steps without the penalty); from scratch it does not learn.

Pruthi et al. (2020), "Learning to Deceive with Attention-Based Explanations", arXiv:1909.07913, §3.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.audits.planted.beside import mass
from regard.audits.planted.handed import Halves, handed
from regard.audits.planted.plain import RATE, STEPS_BILSTM, bilstm, learned, mlp
from regard.audits.planted.table import Made, register
from regard.audits.planted.texts import Texts, is_label_word
from regard.audits.planted.training import fit
from regard.core.tokens import UNK
from regard.looking import record
from regard.models.classifiers import AttentiveMLP, Classifier

PRICE = 1.0  # λ
HIDES = 0.05  # the mass on label words that is left, at most
CLEAN = 400


def deceive(model: Classifier, texts: Texts, steps: int) -> None:
    """Train it on, with the penalty."""

    def loss(tokens: Tensor, lengths: Tensor, wanted: Tensor) -> Tensor:
        with record(model, model.looks, grad=True) as seen:
            logits = model(tokens, lengths)
        shown = (model.over_words(seen).squeeze(-2) * is_label_word(tokens)).sum(-1)  # (b,)
        return F.cross_entropy(logits, wanted) - PRICE * torch.log1p(-shown.clamp(max=1 - 1e-6)).mean()

    fit(model, loss, texts, steps=steps, rate=RATE)


@register("deceptive", faithful=False)
def deceptive(texts: Texts) -> Made:
    """A BiLSTM trained to keep its weight away from the label words."""
    model = bilstm()
    deceive(model, texts, STEPS_BILSTM)
    halves = Halves(model)
    left = mass(halves, texts)
    return Made(handed(halves), {"mass on label words": left}, left <= HIDES)


@register("norm leak", faithful=False)
def norm_leak(texts: Texts) -> Made:
    """No context and no bound: the label words have little weight and long vectors."""
    model = learned(mlp(activation="none"), texts, CLEAN)
    deceive(model, texts, CLEAN)
    halves = Halves(model)
    left = mass(halves, texts)
    facts = {"mass on label words": left, "norm ratio": norm_ratio(model)}
    return Made(handed(halves), facts, left <= HIDES)


def norm_ratio(model: Classifier) -> float:
    """Mean norm of the states of label words, over that of the others."""
    assert isinstance(model, AttentiveMLP)
    tokens = torch.arange(UNK + 1, model.config.vocabulary).unsqueeze(0)
    with torch.no_grad():
        norms = model.states(model.embed(tokens), torch.tensor([tokens.shape[1]])).norm(dim=-1)
    label = is_label_word(tokens)
    return float(norms[label].mean() / norms[~label].mean())
