"""The sparse Transformer: some heads look nearby, others at a few far places: O(n√n) with a stride of √n.

    strided   near: the last l tokens                 far: tokens at distances l, 2l, 3l, …
    fixed     near: tokens of the own block of l      far: the last c tokens of every block before

A decoder with the mechanisms `strided` or `fixed` (`regard.mechanisms`), whose far keys are reordered or
gathered; `regard.record` shows weights over all tokens.

Child, Gray, Radford & Sutskever (2019), "Generating Long Sequences with Sparse Transformers",
arXiv:1904.10509, §4.2. Departs from the paper: the two patterns are heads of one layer (the paper's third
option, §4.3); a token sees itself in both patterns.
"""

from dataclasses import dataclass
from typing import Literal, cast

from torch import nn

from regard.mechanisms import MECHANISMS
from regard.models.entries import register_language_model
from regard.models.language.gpt import GPT
from regard.models.language.gpt import Config as GPTConfig
from regard.models.language.placing import placed_score
from regard.models.parts.named_components import check_choice, make_map
from regard.scores.score import Factored


@dataclass(frozen=True)
class Config(GPTConfig):
    """Configuration of a sparse Transformer."""

    pattern: Literal["strided", "fixed"] = "strided"
    stride: int = 16  # l, about the square root of the length
    summary: int = 2  # c: tokens at the end of each block that all later ones see, for "fixed"


@register_language_model(Config)
class SparseTransformer(GPT):
    """A decoder with near and far heads."""

    def heads(self, number: int) -> nn.Module:
        config = cast(Config, self.config)
        check_choice("pattern", config.pattern, ("strided", "fixed"))
        if config.heads < 2 or config.stride < 1 or not 1 <= config.summary <= config.stride:
            raise ValueError(
                "a sparse Transformer needs two heads or more and 1 ≤ summary ≤ stride; "
                f"got heads={config.heads}, summary={config.summary}, stride={config.stride}."
            )
        score = placed_score(config.score, config.width // config.heads, config.heads, config.positions)
        if not isinstance(score, Factored) or config.learn_alpha or config.scalable:
            raise ValueError(
                "a sparse Transformer reorders the factors of a dot product and has one map for all heads: "
                "use score scaled_dot, positions other than alibi, no learn_alpha and no scalable."
            )
        more = {"summary": config.summary} if config.pattern == "fixed" else {}
        attention = MECHANISMS[config.pattern].make(
            config.width,
            config.heads,
            score=score,
            map=make_map(config.map),
            bias=config.bias,
            stride=config.stride,
            **more,
        )
        nn.init.xavier_uniform_(attention.W_o.weight)
        return attention
