"""The compressive Transformer: what falls out of the memory is compressed and kept, not forgotten.

    keys of layer l = LN([compressed_l; memory_l; x_l])
    compressed_l ← [compressed_l; C(what memory_l forgot)],    C: c states to one, by convolution, mean or max

The compressor C learns from a loss of its own, that attention to the compressed states gives what attention
to the states themselves gave,

    L = Σ_l ‖ attend_l(x, old) − attend_l(x, C(old)) ‖²        gradients into C alone

and from nothing else: what is compressed serves later segments, into which no gradient goes.

Rae et al. (2020), "Compressive Transformers for Long-Range Sequence Modelling", arXiv:1911.05507, §3,
Algorithm 2. Departs from the paper: as `transformer_xl.py`; the loss is a mean over tokens and coordinates.
"""

from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import attend
from regard.heads import MultiHead
from regard.memories import remember
from regard.models.entries import register_language_model
from regard.models.language.transformer_xl import Config as MemoryConfig
from regard.models.language.transformer_xl import TransformerXL, attend_with_memory
from regard.models.parts.named_components import check_choice
from regard.models.parts.residual import Residual
from regard.models.parts.self_attention_layer import SelfAttentionLayer


@dataclass(frozen=True)
class Config(MemoryConfig):
    """Configuration of a compressive Transformer."""

    compressed: int = 128  # compressed states that each layer keeps
    rate: int = 4  # states that become one
    compression: Literal["convolution", "mean", "max"] = "convolution"
    reconstruction: float = 1.0  # how much the compressor's own loss counts


class Compressor(nn.Module):
    """Old states (b, f, width) to (b, f / rate, width)."""

    def __init__(self, width: int, rate: int, kind: str):
        super().__init__()
        self.rate, self.kind = rate, check_choice("compression", kind, ("convolution", "mean", "max"))
        if kind == "convolution":
            self.convolution = nn.Conv1d(width, width, rate, stride=rate)
            with torch.no_grad():  # at first the mean
                mean = torch.eye(width).unsqueeze(-1).expand(-1, -1, rate) / rate
                self.convolution.weight.copy_(mean + 0.01 * torch.randn_like(mean))
                assert self.convolution.bias is not None
                self.convolution.bias.zero_()

    def forward(self, old: Tensor) -> Tensor:
        if self.kind == "convolution":
            compressed: Tensor = self.convolution(old.mT).mT
            return compressed
        groups = old.unflatten(-2, (-1, self.rate))
        pooled: Tensor = groups.mean(-2) if self.kind == "mean" else groups.amax(-2)
        return pooled


@register_language_model(Config)
class Compressive(TransformerXL):
    """A Transformer-XL that compresses old memories."""

    def __init__(self, config: Config):
        super().__init__(config)
        if config.rate < 1 or config.memory < config.rate:
            raise ValueError(
                f"rate must be at least 1 and at most memory={config.memory}; got {config.rate}."
            )
        self.compressors = nn.ModuleList(
            Compressor(config.width, config.rate, config.compression) for _ in range(config.layers)
        )
        self._loss: Tensor | None = None

    def from_embedded(
        self, embedded: Tensor, state: dict[str, Tensor] | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        config, x, kept, small, losses = self.config, embedded, [], [], []
        for number, layer in enumerate(self.layers):
            memory, compressed = (
                (None, None) if state is None else (state["memory"][number], state["compressed"][number])
            )
            recent, old = remember(memory, x, config.memory, config.rate)
            new = self.compressors[number](old) if old.shape[-2] else old
            if old.shape[-2] and self.training:
                losses.append(self._difference(cast(SelfAttentionLayer, layer), x, old, new))
            before = [one for one in (compressed, memory) if one is not None]
            x = attend_with_memory(
                cast(SelfAttentionLayer, layer), x, torch.cat(before, -2) if before else None, lengths
            )
            kept.append(recent)
            small.append(remember(compressed, new, config.compressed)[0])
        self._loss = torch.stack(losses).mean() if losses else None
        return self.norm(x), {"memory": torch.stack(kept), "compressed": torch.stack(small)}

    def penalty(self) -> Tensor | None:
        return None if self._loss is None else self.config.reconstruction * self._loss

    def _difference(self, layer: SelfAttentionLayer, x: Tensor, old: Tensor, new: Tensor) -> Tensor:
        """How far attention to the new states is from that to the old ones: only the compressor learns."""
        heads, norm = cast(MultiHead, layer.attention), cast(Residual, layer.around[0]).norm
        W_q, W_k, W_v = (one.weight.detach() for one in (heads.W_q, heads.W_k, heads.W_v))
        scale, shift = norm.weight.detach(), norm.bias.detach()

        def normed(states: Tensor) -> Tensor:
            return F.layer_norm(states, norm.normalized_shape, scale, shift, norm.eps)

        def parted(states: Tensor) -> Tensor:
            each: Tensor = states.unflatten(-1, (heads.heads, -1))
            return each.transpose(-3, -2)

        query = parted(F.linear(normed(x.detach()), W_q))
        contexts = [
            attend(query, parted(F.linear(normed(one), W_k)), parted(F.linear(normed(one), W_v))).context
            for one in (old, new)
        ]
        return F.mse_loss(contexts[1], contexts[0].detach())
