"""Copying: source tokens can be copied to the output, also those outside the vocabulary.

    p(y) = g · p_vocabulary(y) + (1 − g) Σⱼ [xⱼ = y] aⱼ

a are the weights of a separate attention to the source, the pointer; g is the probability of generating:

    gate       g = σ(wᵀh + b)                        h: the decoder's hidden state before the output layer
    sentinel   g = a₀, the weight of an additional learned key s; the other weights sum to 1 − g

Out-of-vocabulary words get token numbers beyond the vocabulary, one per word and sentence; they are embedded
as UNK. Label smoothing applies to p_vocabulary alone.

Gate: See, Liu & Manning (2017), "Get To The Point", arXiv:1704.04368. Sentinel: Merity et al. (2017),
"Pointer Sentinel Mixture Models", arXiv:1609.07843.
Departs from the papers: the pointer is not the attention that computes the context, and always softmax, since
a weight of 0 on the target word has no gradient; the gate's input is the hidden state before the output
layer, which is computed from state, input and context.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention
from regard.core.shapes import widened
from regard.core.tokens import UNK
from regard.masks import Lengths
from regard.models.parts.batch_rows import by_hypothesis, by_sentence
from regard.models.parts.named_components import PrecomputedAdditive, check_choice, precompute_keys

Copy = Literal["no", "gate", "sentinel"]
CopyState = tuple[Tensor, ...]  # the pointer's keys (b, n, d) and source tokens (b, n); () without copying


@dataclass(frozen=True, eq=False)
class Pointing:
    """Hidden states before the output layer, with their copy probabilities."""

    hidden: Tensor  # (..., width)
    log_generate: Tensor  # (...): log g
    copy: Tensor  # (..., n): (1 − g) a
    words: Tensor  # (..., n): source tokens

    def __getitem__(self, index: Any) -> "Pointing":
        return Pointing(self.hidden[index], self.log_generate[index], self.copy[index], self.words[index])

    def logits(self, logits: Tensor) -> Tensor:
        """log p (..., V + e) of all tokens, e of them out of vocabulary, from logits (..., V)."""
        extra = max(int(self.words.max()) + 1 - logits.shape[-1], 0) if self.words.numel() else 0
        p = widened(logits).softmax(-1) * self.log_generate.exp().unsqueeze(-1)
        return F.pad(p, (0, extra)).scatter_add(-1, self.words, self.copy.to(p.dtype)).log()

    def loss(self, logits: Tensor, wanted: Tensor, smoothing: float = 0.0) -> Tensor:
        """The sum of −log p of target tokens (t,), from logits (t, V) of the vocabulary."""
        log_v = widened(logits).log_softmax(-1)
        generated, copied = self._log_probs(log_v, wanted)
        loss = -torch.logaddexp(generated, copied).sum()
        return loss if not smoothing else (1 - smoothing) * loss - smoothing * log_v.mean(-1).sum()

    def copied(self, logits: Tensor, written: Tensor) -> Tensor:
        """The share (t,) of copying in the probability of the written tokens (t,)."""
        generated, copied = self._log_probs(widened(logits).log_softmax(-1), written)
        return (copied - torch.logaddexp(generated, copied)).exp()

    def _log_probs(self, log_v: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """log p of generating and of copying tokens y (t,), −inf where impossible."""
        known, same = y < log_v.shape[-1], self.words == y.unsqueeze(-1)
        in_vocabulary = log_v.gather(-1, torch.where(known, y, UNK).unsqueeze(-1)).squeeze(-1)
        generated = (self.log_generate + in_vocabulary).masked_fill(~known, -torch.inf)
        in_source, tiny = same.any(-1), torch.finfo(self.copy.dtype).tiny
        copied = torch.where(in_source, (self.copy * same).sum(-1).clamp(min=tiny), 1)
        return generated, copied.log().masked_fill(~in_source, -torch.inf)


class Copying(nn.Module):
    """The pointer attention and the probability of generating."""

    def __init__(self, kind: str, width: int, key_width: int):
        super().__init__()
        self.kind = check_choice("copy", kind, ("gate", "sentinel"))
        self.pointer = Attention(PrecomputedAdditive(width, key_width, width))
        if kind == "gate":
            self.gate = nn.Linear(width, 1)
        else:
            self.sentinel = nn.Parameter(torch.zeros(width))

    def prepare(self, annotations: Tensor, source: Tensor) -> CopyState:
        """The pointer's keys from hidden states (b, n, key_width) of source (b, n), and the source."""
        return precompute_keys(self.pointer.score, annotations), source

    def forward(self, hidden: Tensor, copy_state: CopyState, lengths: Tensor) -> Pointing:
        """Copy probabilities at hidden (r, m, width), of b sentences or of k hypotheses of each."""
        (keys, words), b = copy_state, len(lengths)
        if self.kind == "sentinel":
            keys = torch.cat([self.sentinel.to(keys.dtype).expand(b, 1, -1), keys], -2)
            lengths = lengths + 1
        query = by_sentence(hidden, b)
        seen = self.pointer(query, keys, keys[..., :1], mask=Lengths(lengths))
        a = widened(by_hypothesis(seen.weights, len(hidden)))  # (r, m, n)
        if self.kind == "sentinel":
            log_g, copy = a[..., 0].clamp(min=torch.finfo(a.dtype).tiny).log(), a[..., 1:]
        else:
            z = widened(self.gate(hidden))
            log_g, copy = F.logsigmoid(z).squeeze(-1), torch.sigmoid(-z) * a
        words = by_hypothesis(words, len(hidden)).unsqueeze(-2).expand(copy.shape)
        return Pointing(hidden, log_g, copy, words)


def make_copying(kind: str, width: int, key_width: int, source: int, target: int) -> Copying | None:
    """The copy mechanism for vocabularies of these sizes; None for kind "no"."""
    if check_choice("copy", kind, ("no", "gate", "sentinel")) == "no":
        return None
    if source != target:
        raise ValueError(
            f'copy="{kind}" needs one vocabulary for both sides (data.joint = true); '
            f"got {source} and {target} words."
        )
    return Copying(kind, width, key_width)
