"""Translation: a target sentence, token by token, given a source sentence.

    loss = −Σᵢ log p(yᵢ | y₁ … yᵢ₋₁, x)

by teacher forcing over the real tokens, EOS included. With label smoothing ε each target is (1 − ε) of itself
and ε of all tokens alike (Szegedy et al. 2016, arXiv:1512.00567, §7); validation is without it. Training
in both directions, and some structural biases, add to the loss (`structure.py`).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import concat_steps
from regard.core.tokens import PAD
from regard.data.batches import Batch, Batches
from regard.losses import trace
from regard.models.two_way import TwoWay, ahead_of
from regard.recording import record
from regard.tasks.structure import between_words, fertility


class Translation:
    """Batches of pairs to learn from, and some to validate on."""

    def __init__(self, train: Batches, valid: Sequence[Batch], smoothing: float = 0.1, device: str = "cpu"):
        self.train, self.valid, self.smoothing, self.device = train, valid, smoothing, device

    def batches(self, epoch: int, skip: int) -> Iterator[Batch]:
        """The batches of an epoch from the one numbered `skip` on."""
        return self.train.epoch(epoch, skip)

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, int]:
        """The sum of the smoothed losses of a batch, and the number of its target tokens."""
        batch = batch.to(self.device)
        if not isinstance(model, TwoWay):
            return self._one_way(model, batch)[:2]
        back = batch.reversed()
        loss, tokens, ours = self._one_way(model.ahead, batch, looking=True)
        their_loss, their_tokens, theirs = self._one_way(model.back, back, looking=True)
        bonus = trace(between_words(ours, batch), between_words(theirs, back)).sum()
        return loss + their_loss - model.gamma * bonus, tokens + their_tokens

    def _one_way(self, model: Any, batch: Batch, looking: bool = False) -> tuple[Tensor, int, Any]:
        """Loss, tokens, and where the model looked, if that is asked for or part of the loss."""
        if not looking and getattr(model, "expected", None) is None:
            hidden, wanted = real(model, batch)
            return model.loss(hidden, wanted, self.smoothing), len(wanted), None
        with record(model, model.cross[-1], grad=True) as watched:
            hidden, wanted = real(model, batch)
        seen = concat_steps(watched[model.cross[-1]])
        loss = model.loss(hidden, wanted, self.smoothing) + fertility(model, seen, batch)
        return loss, len(wanted), seen

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Loss per token, and the share of tokens that are the likeliest one, given those before."""
        model, total, right, count = ahead_of(model), 0.0, 0, 0
        for batch in self.valid:
            logits, wanted = read_real(model, batch.to(self.device))
            total += F.cross_entropy(logits.float(), wanted, reduction="sum").item()
            right += int((logits.argmax(-1) == wanted).sum())
            count += len(wanted)
        return {"loss": total / count, "accuracy": right / count}


def real(model: nn.Module, batch: Batch) -> tuple[Any, Tensor]:
    """Hidden (tokens, width) and targets (tokens,) of the places that are not padding."""
    hidden = model(batch.source, batch.source_lengths, batch.target_in)  # (b, m, width)
    there = batch.target_out != PAD
    return hidden[there], batch.target_out[there]


def read_real(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """Logits (tokens, vocabulary) and targets (tokens,) of the places that are not padding."""
    hidden, wanted = real(model, batch)
    return model.read(hidden), wanted  # type: ignore[operator]
