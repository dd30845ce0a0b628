"""Looking elsewhere: the loss of a model that must say what another says and look where it does not.

    TVD(ŷ_a, ŷ_b) − λ KL(α_a ‖ α_b)        a the adversary, b the model it imitates

Wiegreffe & Pinter (2019), "Attention is not not Explanation", arXiv:1908.04626, §4. (One lecture has
KL(α_b ‖ α_a), the other way round, and Σ|ŷ − ỹ|, which is twice the TVD.)
"""

import torch
from torch import Tensor

from regard.audits.measures import tvd
from regard.audits.ours import quiet
from regard.recording import record
from regard.models.classifiers import ClassifierModel as Model

FLOOR = 1e-6  # weights of the base below it count as this in KL, which is infinite at 0


def looking_elsewhere(model: Model, base: Model, tokens: Tensor, lengths: Tensor, strength: float) -> Tensor:
    """TVD(ŷ_a, ŷ_b) − λ KL(α_a ‖ α_b) of each text: (b,)."""
    with record(model, model.attention_paths["reader"], grad=True) as seen:
        said = model(tokens, lengths).softmax(-1)
    with quiet(base), torch.no_grad(), record(base, base.attention_paths["reader"]) as there:
        right = base(tokens, lengths).softmax(-1)
    far = kl(model.over_words(seen).mean(-2), base.over_words(there).mean(-2))
    return tvd(said, right) - strength * far


def kl(p: Tensor, q: Tensor) -> Tensor:
    """KL(p ‖ q) = Σ p log(p/q) of weights (b, n), q at least 10⁻⁶: (b,)."""
    safe = torch.where(p > 0, p, 1)  # 0 log 0 = 0
    return (torch.where(p > 0, p, 0) * (safe.log() - q.clamp(min=FLOOR).log())).sum(-1)
