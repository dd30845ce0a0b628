"""Rationalizers: a selector chooses words, and a predictor classifies the text from these alone.

    h = relu(conv(x))        θⱼ = score(h̄, hⱼ)        z = map(s (θ̂ + c)) ∈ [0, 1]ⁿ        ŷ = predictor(x ⊙ z)

    loss = −log p(y | x ⊙ z) + λ E[changes]/(target n)

The predictor gets zeros in place of words with zⱼ = 0, so its output for a given z does not depend on them,
to the last bit. Which words are selected still depends on all words. In eval mode there is no sampling, each
zⱼ is 0 or 1, and at least one word is selected.

The threshold c keeps the selected share of words, as in eval mode, at a target. It is not learned by
gradients: at every training step it moves down while too many words would be selected, and up while too few.
It starts where most words are selected, so that the predictor learns first. θ̂ are the scores of a text
standardized to mean 0 and deviation 1, so the loss decides which words are selected, and cannot raise all
scores; the scale s is learned. The share can differ between texts.

changes = Σⱼ |zⱼ − zⱼ₊₁|: λ favours contiguous words. Its expectation has a closed form, since the zⱼ of a
text are independent.

Subclasses differ in the map to z and in its gradient: `rationalizer_reinforce`,
`rationalizer_hardkuma`, `rationalizer_entmax`.

Lei, Barzilay & Jaakkola (2016), "Rationalizing Neural Predictions", arXiv:1606.04155. The expected −log p
bounds the negative log-likelihood from above; what one lecture marks as a lower bound is one with the other
sign.
Departs from the papers: c in place of a penalty on the number of words, fixed (Lei et al.) or by Lagrangian
relaxation (Bastings, Aziz & Titov 2019, arXiv:1905.08160); convolutions in place of recurrent layers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import resolve_score
from regard.core.errors import ShapeError
from regard.core.shapes import widened
from regard.losses import expected_loss
from regard.models.classifiers.classifier_model import Common, check_texts, initialize, real, zero_padding
from regard.models.classifiers.one_query import OneQuery

FIRST, STEP = 2.0, 0.01  # initial value of c, and its largest change per training step
NEAR = 0.25  # relative distance from the target rate at which c moves by STEP
LIKELY = 0.5  # words with a higher probability are selected in eval mode, and counted in training


@dataclass(frozen=True)
class RationalizerConfig(Common):
    """Configuration of a rationalizer; score is the selector's and the predictor's, map the predictor's."""

    width: int = 64  # of the hidden states of selector and predictor
    window: int = 3  # words that a hidden state depends on, an odd number
    target_rate: float = 0.1  # the share of words to select
    contiguity: float = 0.0  # λ

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window < 1 or self.window % 2 == 0:
            raise ValueError(f"window must be an odd number of words; got {self.window}.")
        if not 0 < self.target_rate <= 1:
            raise ValueError(f"target_rate must be more than 0 and at most 1; got {self.target_rate}.")
        if not 0 <= self.contiguity < float("inf"):
            raise ValueError(f"contiguity must be at least 0 and finite; got {self.contiguity}.")


class Selection(NamedTuple):
    """What a selector returns; all 0 at padding."""

    z: Tensor  # (b, n), the factor of each word
    mean: Tensor  # (b, n), E[z], differentiable
    chance: Tensor  # (b, n), P(zⱼ > 0)


class Rationalizer(OneQuery):
    """A subclass defines `draw`."""

    level: Tensor  # (), c

    def __init__(self, config: RationalizerConfig):
        if config.pairs:
            raise ValueError("a rationalizer takes one text: pairs must be false.")
        super().__init__(config, config.width)
        self.surroundings, self.encoder = (
            nn.Conv1d(config.embedding, config.width, config.window, padding=config.window // 2)
            for _ in range(2)
        )
        self.relevance = resolve_score(config.score, config.width, config.width)
        self.scale = nn.Parameter(torch.full((1,), 2.0))  # s
        self.register_buffer("level", torch.tensor(FIRST))
        initialize(self)

    def encode(self, x: Tensor, lengths: Tensor) -> Tensor:
        return torch.relu(self.encoder(x.mT)).mT

    def draw(self, theta: Tensor) -> Selection:
        """A selection for scores (b, n); those of padding are −inf."""
        raise NotImplementedError

    def selection(self, embedded: Tensor, lengths: Tensor) -> Selection:
        """The selection among embedded words (b, n, d): sampled in training, the mode in eval mode."""
        is_real = real(lengths, embedded.shape[1])
        h = torch.relu(self.surroundings(zero_padding(embedded, lengths).mT)).mT  # (b, n, width)
        mean = zero_padding(h, lengths).sum(-2, keepdim=True) / lengths.view(-1, 1, 1)
        theta = standardize(widened(self.relevance(mean.to(h.dtype), h).squeeze(-2)), is_real)  # (b, n)
        theta = self.scale * (theta + self.level)
        drawn = self.draw(theta.masked_fill(~is_real, -torch.inf))
        if self.training:
            return drawn
        best = drawn.chance.masked_fill(~is_real, -1).argmax(-1, keepdim=True)  # (b, 1)
        z = (drawn.chance > LIKELY).scatter(-1, best, True).to(theta.dtype)
        return Selection(z, z, z)

    def selected(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Which words the predictor gets: booleans (b, n)."""
        check_texts(tokens, lengths)
        return self.selection(self.embed(tokens), lengths).z > 0

    def prepared(self, *texts: Tensor) -> Callable[[], Tensor]:
        tokens, lengths = texts
        embedded = self.embed(tokens)
        states, kept = self._kept(embedded, lengths, self.selection(embedded, lengths).z)
        return lambda: self.from_kept(states, kept)

    def from_selected(self, embedded: Tensor, lengths: Tensor, z: Tensor) -> Tensor:
        """Logits (b, classes) of embedded words (b, n, d) with the selection z (b, n)."""
        if z.shape != embedded.shape[:2]:
            raise ShapeError(
                f"z must be {tuple(embedded.shape[:2])}, a number for each word; got {tuple(z.shape)}."
            )
        return self.from_kept(*self._kept(embedded, lengths, z))

    def _kept(self, embedded: Tensor, lengths: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """The predictor's hidden states (b, n, width), and the mask of selected words (b, n)."""
        kept = (z > 0) & real(lengths, embedded.shape[1])
        x = torch.where(kept.unsqueeze(-1), z.unsqueeze(-1).to(embedded.dtype) * embedded, 0)
        return self.encode(x, lengths), kept

    def from_kept(self, states: Tensor, kept: Tensor) -> Tensor:
        """Logits (b, classes) from the predictor's hidden states (b, n, width), attending to those `kept`."""
        states = self.dropout(states)
        query = self.query.expand(len(states), 1, -1)
        context = self.attention(query, states, mask=kept.unsqueeze(-2)).context.squeeze(-2)
        logits: Tensor = self.read(self.dropout(context))
        return logits

    def from_embedded(self, embedded: Tensor, lengths: Tensor, condition: Tensor | None = None) -> Tensor:
        return self.from_selected(embedded, lengths, self.selection(embedded, lengths).z)

    def loss(self, wanted: Tensor, *texts: Tensor, smoothing: float = 0.0) -> Tensor:  # type: ignore[override]
        """The sum over texts of −log p of wanted (b,) and the penalty; in eval mode + |rate/target − 1|."""
        tokens, lengths = texts
        check_texts(tokens, lengths)
        embedded = self.embed(tokens)
        z, mean, chance = self.selection(embedded, lengths)
        logits = self.from_selected(embedded, lengths, z).float()
        losses = F.cross_entropy(logits, wanted, reduction="none", label_smoothing=smoothing)
        target = self.config.target_rate * lengths.sum()  # words
        penalty = self.config.contiguity * expected_changes(mean, lengths).sum() / target
        excess = (chance > LIKELY).sum() / target - 1
        if self.training:
            self.level -= STEP * (excess / NEAR).clamp(-1, 1)
        else:
            penalty = penalty + excess.abs()
        loss: Tensor = (expected_loss(losses) + penalty) * len(wanted)
        return loss


def standardize(theta: Tensor, mask: Tensor) -> Tensor:
    """Scores (b, n) with mean 0 and deviation 1 over the positions of the mask (b, n); 0 elsewhere."""
    count = mask.sum(-1, keepdim=True)
    theta = torch.where(mask, theta, 0)
    theta = torch.where(mask, theta - theta.sum(-1, keepdim=True) / count, 0)
    return theta / (theta.square().sum(-1, keepdim=True) / count + 1e-6).sqrt()


def expected_changes(mean: Tensor, lengths: Tensor) -> Tensor:
    """E[Σⱼ |zⱼ − zⱼ₊₁|] of independent zⱼ ∈ {0, 1} with these means (b, n): (b,)."""
    left, right = mean[:, :-1], mean[:, 1:]
    differ = left * (1 - right) + (1 - left) * right  # (b, n − 1)
    return torch.where(real(lengths - 1, differ.shape[1]), differ, 0).sum(-1)
