"""Copying: a word of the source is written as it stands, whether or not the vocabulary has it.

    p(y) = g · p_vocabulary(y) + (1 − g) Σⱼ [xⱼ = y] aⱼ

a are the weights of an attention of its own to the source, the pointer; g says how much is generated:

    gate       g = σ(wᵀh + b)                        h: the decoder's last vector
    sentinel   g = a₀, the weight of one more key s, learned; the others then have 1 − g already

Words that the vocabulary does not have get numbers after its last one, the same for the same word of a
sentence; wherever a vector is needed they are UNK. Smoothing smooths p_vocabulary alone.

Gate: See, Liu & Manning (2017), "Get To The Point", arXiv:1704.04368. Sentinel: Merity et al. (2017),
"Pointer Sentinel Mixture Models", arXiv:1609.07843.
Departs from the papers: the pointer is not the attention that makes the context, and always softmax, since a
weight of 0 on the word that is wanted teaches nothing; the gate reads the decoder's last vector, which has
state, input and context in it.
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
from regard.models.parts.named_components import AheadAdditive, check_choice, keys_of

Copy = Literal["no", "gate", "sentinel"]
CopyState = tuple[Tensor, ...]  # keys of the pointer (b, n, d) and the words there (b, n); () without copying


@dataclass(frozen=True, eq=False)
class Pointing:
    """The decoder's last vectors, with what each would copy."""

    hidden: Tensor  # (..., width)
    log_generate: Tensor  # (...): log g
    copy: Tensor  # (..., n): (1 − g) a
    words: Tensor  # (..., n): the numbers of the source words

    def __getitem__(self, index: Any) -> "Pointing":
        return Pointing(self.hidden[index], self.log_generate[index], self.copy[index], self.words[index])

    def logits(self, logits: Tensor) -> Tensor:
        """log p (..., V + e) of all words, e of them unknown ones, given logits (..., V) of those known."""
        extra = max(int(self.words.max()) + 1 - logits.shape[-1], 0) if self.words.numel() else 0
        made = widened(logits).softmax(-1) * self.log_generate.exp().unsqueeze(-1)
        return F.pad(made, (0, extra)).scatter_add(-1, self.words, self.copy.to(made.dtype)).log()

    def loss(self, logits: Tensor, wanted: Tensor, smoothing: float = 0.0) -> Tensor:
        """The sum of −log p of wanted words (t,), given logits (t, V) of those known."""
        log_v = widened(logits).log_softmax(-1)
        made, copied = self._two(log_v, wanted)
        loss = -torch.logaddexp(made, copied).sum()
        return loss if not smoothing else (1 - smoothing) * loss - smoothing * log_v.mean(-1).sum()

    def copied(self, logits: Tensor, written: Tensor) -> Tensor:
        """The share (t,) of the probability of written words (t,) that is copying's."""
        made, copied = self._two(widened(logits).log_softmax(-1), written)
        return (copied - torch.logaddexp(made, copied)).exp()

    def _two(self, log_v: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """log p of words y (t,) by the vocabulary and by copying, −inf where it cannot be."""
        known, there = y < log_v.shape[-1], self.words == y.unsqueeze(-1)
        in_vocabulary = log_v.gather(-1, torch.where(known, y, UNK).unsqueeze(-1)).squeeze(-1)
        made = (self.log_generate + in_vocabulary).masked_fill(~known, -torch.inf)
        some, least = there.any(-1), torch.finfo(self.copy.dtype).tiny
        share = torch.where(some, (self.copy * there).sum(-1).clamp(min=least), 1)
        return made, share.log().masked_fill(~some, -torch.inf)


class Copying(nn.Module):
    """The pointer, and how much is copied."""

    def __init__(self, kind: str, width: int, key_width: int):
        super().__init__()
        self.kind = check_choice("copy", kind, ("gate", "sentinel"))
        self.pointer = Attention(AheadAdditive(width, key_width, width))
        if kind == "gate":
            self.gate = nn.Linear(width, 1)
        else:
            self.sentinel = nn.Parameter(torch.zeros(width))

    def prepare(self, annotations: Tensor, source: Tensor) -> CopyState:
        """What is needed of annotations (b, n, key_width) of source words (b, n)."""
        return keys_of(self.pointer.score, annotations), source

    def forward(self, hidden: Tensor, copy_state: CopyState, lengths: Tensor) -> Pointing:
        """Hidden (r, m, width), of b sentences or of k hypotheses for each of them."""
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


def copying_of(kind: str, width: int, key_width: int, source: int, target: int) -> Copying | None:
    """The part that copies, if a model is to, between vocabularies of these sizes."""
    if check_choice("copy", kind, ("no", "gate", "sentinel")) == "no":
        return None
    if source != target:
        raise ValueError(
            f'copy="{kind}" needs one vocabulary for both sides (data.joint = true); '
            f"got {source} and {target} words."
        )
    return Copying(kind, width, key_width)
