"""What structural biases add to the loss of a batch, from where the model looked while it read the target.

Weights are those of the last source–target attention, heads averaged, between words: rows of padding and of
the target's end count for nothing.
"""

from typing import Any

from torch import Tensor

from regard.attention import Attended
from regard.core.tokens import EOS, PAD
from regard.data.batches import Batch
from regard.losses import global_fertility


def between_words(seen: Attended, batch: Batch) -> Tensor:
    """Weights (b, m, n) of real target words on source words."""
    weights = seen.weights
    weights = weights if weights.dim() == 3 else weights.mean(1)
    words = (batch["target"] != PAD) & (batch["target"] != EOS)
    rows: Tensor = (weights * words.unsqueeze(-1))[:, :-1]  # the last place is an end or padding
    return rows


def fertility(model: Any, seen: Attended, batch: Batch) -> Tensor | float:
    """The loss of global fertility, if the model has it."""
    if model.expected is None:
        return 0.0
    values = seen.values  # (b, n, d) or (b, heads, n, d)
    annotations = values if values.dim() == 3 else values.transpose(1, 2).flatten(-2)
    mean, variance = model.expected(annotations)
    there = (batch["source"] != PAD) & (batch["target"] != PAD).any(-1, keepdim=True)
    loss: Tensor = model.expected.gamma * global_fertility(between_words(seen, batch), mean, variance, there)
    return loss
