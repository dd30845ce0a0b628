"""The loss of an adversary: a model that must predict what another predicts, with different attention.

    TVD(ŷ_a, ŷ_b) − λ KL(α_a ‖ α_b)        a the adversary, b the model it imitates

Wiegreffe & Pinter (2019), "Attention is not not Explanation", arXiv:1908.04626, §4. (One lecture has
KL(α_b ‖ α_a), the other way round, and Σ|ŷ − ỹ|, which is twice the TVD.)
"""

import torch
from torch import Tensor

from regard.audits.measures import tvd
from regard.models.classifiers import ClassifierModel
from regard.models.subject import eval_mode
from regard.recording import record

FLOOR = 1e-6  # weights of the base below it count as this in KL, which is infinite at 0


def adversary_loss(
    model: ClassifierModel, base: ClassifierModel, tokens: Tensor, lengths: Tensor, strength: float
) -> Tensor:
    """TVD(ŷ_a, ŷ_b) − λ KL(α_a ‖ α_b) of each text: (b,)."""
    with record(model, model.attention_paths["reader"], grad=True) as own:
        predicted = model(tokens, lengths).softmax(-1)
    with eval_mode(base), torch.no_grad(), record(base, base.attention_paths["reader"]) as theirs:
        wanted = base(tokens, lengths).softmax(-1)
    distance = kl(model.over_words(own).mean(-2), base.over_words(theirs).mean(-2))
    return tvd(predicted, wanted) - strength * distance


def kl(p: Tensor, q: Tensor) -> Tensor:
    """KL(p ‖ q) = Σ p log(p/q) of weights (b, n), q at least 10⁻⁶: (b,)."""
    safe = torch.where(p > 0, p, 1)  # 0 log 0 = 0
    return (torch.where(p > 0, p, 0) * (safe.log() - q.clamp(min=FLOOR).log())).sum(-1)
