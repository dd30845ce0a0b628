"""Translation: a target sentence, token by token, given a source sentence.

    loss = −Σᵢ log p(yᵢ | y₁ … yᵢ₋₁, x)

by teacher forcing over the real tokens, EOS included. With label smoothing ε each target is (1 − ε) of itself
and ε of all tokens alike (Szegedy et al. 2016, arXiv:1512.00567, §7); validation is without it.
"""

from collections.abc import Iterator, Sequence

from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.tokens import PAD
from regard.data.batches import Batch, Batches


class Translation:
    """Batches of pairs to learn from, and some to validate on."""

    def __init__(self, train: Batches, valid: Sequence[Batch], smoothing: float = 0.1, device: str = "cpu"):
        self.train, self.valid, self.smoothing, self.device = train, valid, smoothing, device

    def batches(self, epoch: int, skip: int) -> Iterator[Batch]:
        """The batches of an epoch from the one numbered `skip` on."""
        return self.train.epoch(epoch, skip)

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, int]:
        """The sum of the smoothed losses of a batch, and the number of its target tokens."""
        hidden, wanted = real(model, batch.to(self.device))
        return model.loss(hidden, wanted, self.smoothing), len(wanted)  # type: ignore[operator]

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Loss per token, and the share of tokens that are the likeliest one, given those before."""
        total, right, count = 0.0, 0, 0
        for batch in self.valid:
            logits, wanted = read_real(model, batch.to(self.device))
            total += F.cross_entropy(logits.float(), wanted, reduction="sum").item()
            right += int((logits.argmax(-1) == wanted).sum())
            count += len(wanted)
        return {"loss": total / count, "accuracy": right / count}


def real(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """Hidden (tokens, width) and targets (tokens,) of the places that are not padding."""
    hidden = model(batch.source, batch.source_lengths, batch.target_in)  # (b, m, width)
    there = batch.target_out != PAD
    return hidden[there], batch.target_out[there]


def read_real(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """Logits (tokens, vocabulary) and targets (tokens,) of the places that are not padding."""
    hidden, wanted = real(model, batch)
    return model.read(hidden), wanted  # type: ignore[operator]
