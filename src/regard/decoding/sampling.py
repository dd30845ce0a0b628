"""Greedy search and sampling, token by token.

Sampling can use a temperature, the k most probable tokens only (top-k), or the fewest tokens with total
probability at least p (top-p: Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration",
arXiv:1904.09751). `log_prob` is always that of the model itself, without these changes.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from regard.core.tokens import BOS, EOS, PAD
from regard.decoding.hypothesis import USUAL, Decodable, Hypothesis, Limits, deciding

FIRST = max(PAD, BOS) + 1  # the first token that may be generated: not PAD, not BOS
Choose = Callable[[Tensor], Tensor]  # logits (b, v) to tokens (b,)


def greedy(
    model: Decodable, source: Tensor, lengths: Tensor, limits: Limits = USUAL
) -> list[list[Hypothesis]]:
    """The most probable token at every step, for source (b, n) with lengths (b,): one hypothesis each."""
    return _written(model, source, lengths, limits, lambda logits: logits.argmax(-1))


def sample(
    model: Decodable, source: Tensor, lengths: Tensor, limits: Limits = USUAL, *,
    temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, generator: torch.Generator | None = None,
) -> list[list[Hypothesis]]:  # fmt: skip
    """A sampled token at every step, for source (b, n) with lengths (b,): one hypothesis each."""
    if not temperature > 0:
        raise ValueError(
            f"temperature must be more than 0; got {temperature}. For the most probable tokens use greedy."
        )
    if top_k < 0 or not 0 < top_p <= 1:
        raise ValueError(f"top_k must be at least 0 and top_p in (0, 1]; got {top_k} and {top_p}.")

    def choose(logits: Tensor) -> Tensor:
        p = torch.softmax(cut(logits.double() / temperature, top_k, top_p), -1)
        return torch.multinomial(p, 1, generator=generator).squeeze(-1)

    return _written(model, source, lengths, limits, choose)


def cut(logits: Tensor, top_k: int, top_p: float) -> Tensor:
    """Logits (..., v) with −inf for tokens that must not be sampled."""
    if top_k and top_k < logits.shape[-1]:
        least = logits.topk(top_k, -1).values[..., -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    if top_p < 1:
        ordered, order = logits.sort(-1, descending=True)
        before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)  # the total of all more probable ones
        logits = ordered.masked_fill(before >= top_p, -torch.inf).gather(-1, order.argsort(-1))
    return logits


def _written(
    model: Decodable, source: Tensor, lengths: Tensor, limits: Limits, choose: Choose
) -> list[list[Hypothesis]]:
    with deciding(model):
        memory = model.encode(source, lengths)
        state, limit = model.start(memory), limits.of(lengths)
        tokens = torch.full_like(lengths, BOS)
        total = torch.zeros(len(lengths), dtype=torch.float64, device=source.device)
        running = torch.ones_like(lengths, dtype=torch.bool)
        written: list[Tensor] = []
        while bool(running.any()):
            hidden, state = model.step(tokens, state, memory)
            logits = never_padding(model.logits(hidden))
            tokens = choose(logits)
            tokens = torch.where(limit == len(written) + 1, EOS, tokens)  # the last token must be EOS
            chosen = logits.gather(-1, tokens.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(-1)
            total += torch.where(running, chosen.double(), 0)
            tokens = torch.where(running, tokens, PAD)
            written.append(tokens)
            running &= tokens != EOS
        rows = torch.stack(written, 1).tolist() if written else [[] for _ in lengths]
    texts = [row[: row.index(EOS)] for row in rows]
    return [[Hypothesis(t, p, p)] for t, p in zip(texts, total.tolist(), strict=True)]


def never_padding(logits: Tensor) -> Tensor:
    """Logits (..., v) in at least float32, with −inf for PAD and BOS."""
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    return logits.index_fill(-1, torch.arange(FIRST, device=logits.device), -torch.inf)
