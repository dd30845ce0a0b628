"""Rationalizers: one part selects words, the other names the class from these alone.

    h = relu(conv(x))        θⱼ = score(h̄, hⱼ)        z = map(s (θ̂ + c)) ∈ [0, 1]ⁿ        ŷ = predictor(x ⊙ z)

    loss = −log p(y | x ⊙ z) + λ E[changes]/(target n)

The predictor gets zeros in the place of a word with zⱼ = 0: whatever stood there, the answer given this z is
the same to the last bit. Which words are selected still depends on all of them. In eval mode nothing is
drawn, each zⱼ is 0 or 1, and at least one word is selected.

c holds the share of words that eval mode selects at a target. It is not learned: at every step of training
it moves down while more words would be selected than should be, and up while there are fewer. It begins
where most words pass, so that the predictor learns to read before words are taken from it. θ̂ are the scores
of a text with mean 0 and deviation 1, so that the loss decides which words pass c, and cannot raise all; s
is learned. Texts may differ in their shares.

changes = Σⱼ |zⱼ − zⱼ₊₁|: λ makes selected words stand together. Its mean is known in closed form, for the z
of a text are independent given the text.

The kinds differ in the map to z and in what its gradient is: `rationalizer_reinforce`,
`rationalizer_hardkuma`, `rationalizer_entmax`.

Lei, Barzilay & Jaakkola (2016), "Rationalizing Neural Predictions", arXiv:1606.04155. The expected −log p
bounds the negative log-likelihood from above; what one lecture marks as a lower bound is one with the other
sign.
Departs from the papers: c in the place of a price of words, fixed (Lei et al.) or by Lagrangian relaxation
(Bastings, Aziz & Titov 2019, arXiv:1905.08160); convolutions in the place of recurrent layers.
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
from regard.models.classifiers.classifier_model import Common, check_texts, cleaned, real
from regard.models.classifiers.one_query import OneQuery
from regard.models.classifiers.word_vectors import begin

FIRST, STEP = 2.0, 0.01  # where c begins, and how far it moves in a step, at most
NEAR = 0.25  # so far from the target, as a share of it, c moves as far as it may
LIKELY = 0.5  # a word with a chance above is selected in eval mode, and counted while training


@dataclass(frozen=True)
class Rationale(Common):
    """Sizes and parts of a rationalizer; the map is that of the predictor's look."""

    width: int = 64  # of the states of either part
    window: int = 3  # words that a state has read, odd: as many on each side
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
    """What a selector says of the words of some texts; all 0 for padding."""

    z: Tensor  # (b, n), what each word is multiplied with
    mean: Tensor  # (b, n), what z is to be expected, with a gradient
    chance: Tensor  # (b, n), P(zⱼ > 0)


class Rationalizer(OneQuery):
    """What is left to a kind is `draw`."""

    level: Tensor  # (), c

    def __init__(self, config: Rationale):
        if config.pairs:
            raise ValueError("a rationalizer reads one text: pairs must be false.")
        super().__init__(config, config.width)
        self.surroundings, self.encoder = (
            nn.Conv1d(config.embedding, config.width, config.window, padding=config.window // 2)
            for _ in range(2)
        )
        self.relevance = resolve_score(config.score, config.width, config.width)
        self.scale = nn.Parameter(torch.full((1,), 2.0))  # s
        self.register_buffer("level", torch.tensor(FIRST))
        begin(self)

    def encode(self, x: Tensor, lengths: Tensor) -> Tensor:
        return torch.relu(self.encoder(x.mT)).mT

    def draw(self, theta: Tensor) -> Selection:
        """A selection for scores (b, n); those of padding are −inf."""
        raise NotImplementedError

    def selection(self, embedded: Tensor, lengths: Tensor) -> Selection:
        """The selection among embedded words (b, n, d): drawn while training, the likeliest in eval mode."""
        there = real(lengths, embedded.shape[1])
        h = torch.relu(self.surroundings(cleaned(embedded, lengths).mT)).mT  # (b, n, width)
        middle = cleaned(h, lengths).sum(-2, keepdim=True) / lengths.view(-1, 1, 1)
        theta = standard(widened(self.relevance(middle.to(h.dtype), h).squeeze(-2)), there)  # (b, n)
        theta = self.scale * (theta + self.level)
        found = self.draw(theta.masked_fill(~there, -torch.inf))
        if self.training:
            return found
        best = found.chance.masked_fill(~there, -1).argmax(-1, keepdim=True)  # (b, 1)
        z = (found.chance > LIKELY).scatter(-1, best, True).to(theta.dtype)
        return Selection(z, z, z)

    def selected(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Which of the words (b, n) the predictor sees: True and False (b, n)."""
        check_texts(tokens, lengths)
        return self.selection(self.embed(tokens), lengths).z > 0

    def prepared(self, *texts: Tensor) -> Callable[[], Tensor]:
        tokens, lengths = texts
        embedded = self.embed(tokens)
        states, kept = self._kept(embedded, lengths, self.selection(embedded, lengths).z)
        return lambda: self.from_kept(states, kept)

    def from_selected(self, embedded: Tensor, lengths: Tensor, z: Tensor) -> Tensor:
        """Logits (b, classes) of embedded words (b, n, d) if the selection is z (b, n)."""
        if z.shape != embedded.shape[:2]:
            raise ShapeError(
                f"z must be {tuple(embedded.shape[:2])}, a number for each word; got {tuple(z.shape)}."
            )
        return self.from_kept(*self._kept(embedded, lengths, z))

    def _kept(self, embedded: Tensor, lengths: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """The predictor's states (b, n, width), and which words it may look at, (b, n)."""
        kept = (z > 0) & real(lengths, embedded.shape[1])
        x = torch.where(kept.unsqueeze(-1), z.unsqueeze(-1).to(embedded.dtype) * embedded, 0)
        return self.encode(x, lengths), kept

    def from_kept(self, states: Tensor, kept: Tensor) -> Tensor:
        """Logits (b, classes) of the predictor's states (b, n, width), looking at those `kept`."""
        states = self.dropout(states)
        query = self.query.expand(len(states), 1, -1)
        context = self.attention(query, states, mask=kept.unsqueeze(-2)).context.squeeze(-2)
        logits: Tensor = self.read(self.dropout(context))
        return logits

    def from_embedded(self, embedded: Tensor, lengths: Tensor, condition: Tensor | None = None) -> Tensor:
        return self.from_selected(embedded, lengths, self.selection(embedded, lengths).z)

    def loss(self, wanted: Tensor, *texts: Tensor, smoothing: float = 0.0) -> Tensor:
        """The sum over texts of −log p of wanted (b,) and the penalty; in eval mode |rate/target − 1| too."""
        tokens, lengths = texts
        check_texts(tokens, lengths)
        embedded = self.embed(tokens)
        z, mean, chance = self.selection(embedded, lengths)
        logits = self.from_selected(embedded, lengths, z).float()
        losses = F.cross_entropy(logits, wanted, reduction="none", label_smoothing=smoothing)
        target = self.config.target_rate * lengths.sum()  # words
        penalty = self.config.contiguity * changes(mean, lengths).sum() / target
        excess = (chance > LIKELY).sum() / target - 1
        if self.training:
            self.level -= STEP * (excess / NEAR).clamp(-1, 1)
        else:
            penalty = penalty + excess.abs()
        loss: Tensor = (expected_loss(losses) + penalty) * len(wanted)
        return loss


def standard(theta: Tensor, there: Tensor) -> Tensor:
    """Scores (b, n) less their mean, over their deviation: both of the words of a text that are `there`."""
    count = there.sum(-1, keepdim=True)
    theta = torch.where(there, theta, 0)
    theta = torch.where(there, theta - theta.sum(-1, keepdim=True) / count, 0)
    return theta / (theta.square().sum(-1, keepdim=True) / count + 1e-6).sqrt()


def changes(mean: Tensor, lengths: Tensor) -> Tensor:
    """E[Σⱼ |zⱼ − zⱼ₊₁|] of independent z that are 0 or 1, of these means (b, n): (b,)."""
    left, right = mean[:, :-1], mean[:, 1:]
    differ = left * (1 - right) + (1 - left) * right  # (b, n − 1)
    return torch.where(real(lengths - 1, differ.shape[1]), differ, 0).sum(-1)
