"""The sparse Transformer: some heads look nearby, others at a few far places: O(n√n) with a stride of √n.

    strided   near: the last l tokens                 far: tokens at distances l, 2l, 3l, …
    fixed     near: tokens of the own block of l      far: the last c tokens of every block before

Masks alone would save little, since with a stride of √n hardly any tile of 64 × 64 keys is empty. Far strided
keys are therefore reordered by their residue modulo l, after which they are blocks of their own; far fixed
keys are gathered. Both give what the masks give, and `regard.record` shows it as weights over all tokens.

Child, Gray, Radford & Sutskever (2019), "Generating Long Sequences with Sparse Transformers",
arXiv:1904.10509, §4.2. Departs from the paper: the two patterns are heads of one layer (the paper's third
option, §4.3); a token sees itself in both patterns.
"""

from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attended, attend
from regard.backends.call import Call
from regard.core.place import Place
from regard.core.recorders import change_for, show
from regard.heads import MultiHead
from regard.masks import Causal, Mask, as_mask
from regard.memories import KeyValue
from regard.models.entries import register_language_model
from regard.models.language.gpt import GPT
from regard.models.language.gpt import Config as GPTConfig
from regard.models.language.placing import placed_score
from regard.models.parts.named_components import check_choice, make_map
from regard.scores.score import Factored

SHORT = 2  # up to so many strides there is nothing to save


@dataclass(frozen=True)
class Config(GPTConfig):
    """Configuration of a sparse Transformer."""

    pattern: Literal["strided", "fixed"] = "strided"
    stride: int = 16  # l, about the square root of the length
    summary: int = 2  # c: tokens at the end of each block that all later ones see, for "fixed"


class SparseHeads(MultiHead):
    """Multi-head attention whose first half of heads is near and whose second half is far."""

    def __init__(self, width: int, heads: int, *, pattern: str, stride: int, summary: int, **other: Any):
        super().__init__(width, heads, **other)
        check_choice("pattern", pattern, ("strided", "fixed"))
        if heads < 2 or stride < 1 or not 1 <= summary <= stride:
            raise ValueError(
                "a sparse Transformer needs two heads or more and 1 ≤ summary ≤ stride; "
                f"got heads={heads}, summary={summary}, stride={stride}."
            )
        self.pattern, self.stride, self.summary = pattern, stride, summary

    def allowed(self, m: int, n: int, device: torch.device) -> Tensor:
        """Which of n keys the last m of n positions see, (1, heads, m, n)."""
        stride = self.stride
        i, j = torch.arange(n - m, n, device=device).unsqueeze(-1), torch.arange(n, device=device)
        if self.pattern == "strided":
            near, far = i - j < stride, (i - j) % stride == 0
        else:
            near = i // stride == j // stride
            far = ((j % stride >= stride - self.summary) & (j // stride < i // stride)) | (i == j)
        past, half = j <= i, self.heads // 2
        return torch.stack([near & past] * half + [far & past] * (self.heads - half)).unsqueeze(0)

    def forward(
        self, query: Tensor, *rest: Any, mask: Any = None, cache: KeyValue | None = None, **more: Any
    ) -> Attended:
        """Self-attention of query (b, m, width) under the pattern; `mask` may hide padding."""
        held = 0 if cache is None else len(cache)
        m, n = query.shape[-2], held + query.shape[-2]
        extra = None if mask is None else as_mask(mask).lengths()
        if held or m <= SHORT * self.stride or extra is not None or change_for(self) is not None:
            own = as_mask(self.allowed(m, n, query.device)) & (Causal() if mask is None else mask)
            return super().forward(query, mask=own, cache=cache)
        q = self._split(self.W_q(query), self.heads)
        k, v = self._projected(query, query, cache, None)
        place = Place.default(m, m, query.device, encoded=cache is not None and cache.encoded)
        a, b = self._factors(q, k, place)  # θ = a bᵀ, positions included
        half = self.heads // 2
        near, far = (slice(None, half), slice(half, None))
        parts = [
            (self._near if some is near else self._far)(a[:, some], b[:, some], v[:, some])
            for some in (near, far)
        ]
        joined = self._joined(torch.cat(parts, 1))
        whole = Call(q, k, v, self.score, self.map, as_mask(self.allowed(m, m, query.device)), None, place)
        seen = Attended(joined, whole)
        show(self, seen)
        return seen

    def _factors(self, q: Tensor, k: Tensor, place: Place) -> tuple[Tensor, Tensor]:
        assert isinstance(self.score, Factored)
        return self.score.factors(q, k, *((place,) if self.score.uses_place else ()))

    def _attend(self, a: Tensor, b: Tensor, v: Tensor, mask: Mask | Tensor) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        return attend(a, b, v, score="dot", map=self.map, mask=mask, dropout=dropout).context

    def _near(self, a: Tensor, b: Tensor, v: Tensor) -> Tensor:
        """Blocks of l queries; strided ones see their own block and the one before it."""
        stride, n = self.stride, a.shape[-2]
        a, b, v = (_padded(x, stride).unflatten(-2, (-1, stride)) for x in (a, b, v))  # (b, h, blocks, l, d)
        if self.pattern == "fixed":
            return self._attend(a, b, v, Causal()).flatten(-3, -2)[..., :n, :]
        before = [F.pad(x, (0, 0, 0, 0, 1, 0))[..., :-1, :, :] for x in (b, v)]
        b, v = (torch.cat([old, x], -2) for old, x in zip(before, (b, v), strict=True))  # (…, 2l, d)
        i, j = (
            torch.arange(stride, device=a.device).unsqueeze(-1),
            torch.arange(-stride, stride, device=a.device),
        )
        seen = ((j <= i) & (i - j < stride)).expand(a.shape[-3], stride, 2 * stride).clone()
        seen[0, :, :stride] = False  # before the first block there is nothing
        return self._attend(a, b, v, seen).flatten(-3, -2)[..., :n, :]

    def _far(self, a: Tensor, b: Tensor, v: Tensor) -> Tensor:
        stride, c, n = self.stride, self.summary, a.shape[-2]
        if self.pattern == "strided":  # positions of one residue modulo l are a sequence of their own
            parts = (_padded(x, stride).unflatten(-2, (-1, stride)).transpose(-3, -2) for x in (a, b, v))
            found = self._attend(*parts, Causal())  # type: ignore[call-arg]
            return found.transpose(-3, -2).flatten(-3, -2)[..., :n, :]
        blocks = -(-n // stride)
        at = (
            torch.arange(blocks, device=a.device).unsqueeze(-1) * stride
            + torch.arange(stride - c, stride, device=a.device)
        ).flatten()
        at = at[at < n]
        i = torch.arange(n, device=a.device).unsqueeze(-1)
        seen = at // stride < i // stride  # (n, summaries)
        own = (a * b).sum(-1, keepdim=True)  # the score of the token itself
        theta = torch.cat([(a @ b[..., at, :].mT).masked_fill(~seen, -torch.inf), own], -1)
        p = self.map(theta)
        return p[..., :-1] @ v[..., at, :] + p[..., -1:] * v


def _padded(x: Tensor, stride: int) -> Tensor:
    """x (..., n, d) with zeros behind it, so that the stride divides its length."""
    return F.pad(x, (0, 0, 0, -x.shape[-2] % stride))


@register_language_model(Config)
class SparseTransformer(GPT):
    """A decoder with near and far heads."""

    def heads(self, number: int) -> nn.Module:
        config = cast(Config, self.config)
        attention = SparseHeads(
            config.width,
            config.heads,
            score=placed_score(config.score, config.width // config.heads, config.heads, config.positions),
            map=make_map(config.map, learn_alpha=config.learn_alpha, heads=config.heads),
            bias=config.bias,
            pattern=config.pattern,
            stride=config.stride,
            summary=config.summary,
        )
        if not isinstance(attention.score, Factored) or config.learn_alpha or config.scalable:
            raise ValueError(
                "a sparse Transformer reorders the factors of a dot product and has one map for all heads: "
                "use score scaled_dot, positions other than alibi, no learn_alpha and no scalable."
            )
        nn.init.xavier_uniform_(attention.W_o.weight)
        return attention
