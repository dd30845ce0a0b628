"""Linear attention: softmax's exponential of a dot product replaced by a dot product of features.

    z_i = φ(q_i)ᵀ Σⱼ φ(kⱼ) vⱼᵀ / φ(q_i)ᵀ Σⱼ φ(kⱼ)        φ(x) = elu(x) + 1        n d²

Causal sums are over j ≤ i, by chunks; a step of decoding needs the two sums alone (`backends/features.py`).
Hidden keys are 0 *after* φ, since φ(0) = 1; a query that sees nothing has context 0. Masks of single pairs
cannot be honoured.

`Attended.weights` are φ(q)ᵀφ(k), normalised: (..., heads, m, n), computed when somebody looks. Scores are
their logarithms before that.

Katharopoulos, Vyas, Pappas & Fleuret (2020), "Transformers are RNNs", arXiv:2006.16236, §3.
"""

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional as F

from regard.mechanisms.mechanism import KernelCore, Mechanism, register
from regard.scores.kernel import Features, Kernel


class Elu(Kernel):
    """φ(x) = elu(x) + 1."""

    def features(self, query: Tensor, keys: Tensor) -> Features:
        return Features(F.elu(query) + 1, F.elu(keys) + 1)


class LinearCore(KernelCore):
    """Attention by elu features."""

    def wrapped(self, score: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return Elu(score)


@register(exact=False, across=True, score="dot")
class LinearAttention(Mechanism):
    """Multi-head attention by elu features."""

    core_kind = LinearCore
