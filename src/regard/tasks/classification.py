"""Classification: the class of a text.

    loss = −Σ log p(class | text)

and what the model itself adds to it. With label smoothing ε each class is (1 − ε) of itself and ε of all
classes alike; validation is without it. Batches are those of pairs (`regard.data.classes`).
"""

from collections.abc import Iterator, Sequence

from torch import Tensor, nn

from regard.core.tokens import PAD
from regard.data.batches import Batch, Batches
from regard.data.classes import FIRST


class Classification:
    """Batches of labelled texts to learn from, and some to validate on; with or without second texts."""

    def __init__(
        self,
        train: Batches,
        valid: Sequence[Batch],
        smoothing: float = 0.0,
        device: str = "cpu",
        *,
        pairs: bool = False,
    ):
        self.train, self.valid, self.smoothing = train, valid, smoothing
        self.device, self.pairs = device, pairs

    def batches(self, epoch: int, skip: int) -> Iterator[Batch]:
        """The batches of an epoch from the one numbered `skip` on."""
        return self.train.epoch(epoch, skip)

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, int]:
        """The sum of the losses of a batch, and the number of its texts."""
        batch = batch.to(self.device)
        texts, wanted = texts_of(batch, self.pairs), classes_of(batch)
        idle = bool((wanted < 0).any())  # a process without a text of its own takes part, and changes nothing
        loss: Tensor = model.loss(wanted.clamp(min=0), *texts, smoothing=self.smoothing)  # type: ignore[operator]
        return (loss * 0, 0) if idle else (loss, len(wanted))

    def validate(self, model: nn.Module) -> dict[str, float]:
        """The model's loss, and how often the right class is the likeliest, each per text."""
        total, right, count = 0.0, 0, 0
        for batch in self.valid:
            batch = batch.to(self.device)
            texts, wanted = texts_of(batch, self.pairs), classes_of(batch)
            total += model.loss(wanted, *texts).item()  # type: ignore[operator]
            right += int((model(*texts).argmax(-1) == wanted).sum())
            count += len(wanted)
        return {"loss": total / count, "accuracy": right / count}


def texts_of(batch: Batch, pairs: bool) -> tuple[Tensor, ...]:
    """What a classifier is called with: tokens (b, n), lengths (b,), and those of the second texts."""
    if not pairs:
        return batch.source, batch.source_lengths
    return batch.source, batch.source_lengths, batch.target_in[:, 2:], batch.target_lengths - 2


def classes_of(batch: Batch) -> Tensor:
    """The class of each text, (b,), from 0; −1 where there is none to learn."""
    first = batch.target_out[:, 0]
    return (first - FIRST).masked_fill(first == PAD, -1)
