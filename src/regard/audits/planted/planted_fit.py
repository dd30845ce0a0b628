"""One small loop that trains every planted model."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.audits.planted.planted_texts import Texts

STEPS, RATE, BATCH = 150, 2e-2, 32  # of the models of this project; others have their own steps and rates

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]  # tokens (b, n), lengths (b,), wanted (b,) to a number


def fit(model: nn.Module, loss: Loss, texts: Texts, *, steps: int, rate: float, batch: int = BATCH) -> None:
    """Minimise the loss of batches drawn at random; the model ends in eval mode."""
    model.train()
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.Adam(learned, lr=rate)
    lengths = torch.full((batch,), texts.tokens.shape[1])
    for _ in range(steps):
        some = torch.randint(len(texts.tokens), (batch,))
        optimiser.zero_grad()
        loss(texts.tokens[some], lengths, texts.labels[some]).backward()
        nn.utils.clip_grad_norm_(learned, 5.0)
        optimiser.step()
    model.eval()
