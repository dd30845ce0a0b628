"""The log probability of given targets under a model."""

import torch
from torch import Tensor

from regard.core.tokens import BOS, EOS, PAD
from regard.decoding.hypothesis import Decodable, deciding
from regard.decoding.sampling import never_padding


def rescore(model: Decodable, source: Tensor, lengths: Tensor, targets: list[list[int]]) -> list[float]:
    """log p of each target, EOS included, given source (b, n) with lengths (b,), token by token."""
    longest = max(map(len, targets), default=0) + 1
    rows = [[*target, EOS] + [PAD] * (longest - len(target) - 1) for target in targets]
    wanted = torch.tensor(rows, device=source.device).view(len(targets), longest)
    with deciding(model):
        memory = model.encode(source, lengths)
        state, tokens = model.start(memory), torch.full_like(lengths, BOS)
        total = torch.zeros(len(targets), dtype=torch.float64, device=source.device)
        for i in range(longest):
            hidden, state = model.step(tokens, state, memory)
            log_p = never_padding(model.logits(hidden)).log_softmax(-1)
            tokens = wanted[:, i]
            total += torch.where(
                tokens == PAD, 0, log_p.gather(-1, tokens.unsqueeze(-1)).squeeze(-1).double()
            )
    return total.tolist()
