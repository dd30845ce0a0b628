"""Which span of a passage to answer with, from log-probabilities of where it starts and where it ends.

    likely    argmax over s ≤ e < s + longest of log p(start = s) + log p(end = e)
    f1        argmax over spans a of Σ_b p(b) F1(a, b),     p(s, e) ∝ p(start = s) p(end = e) of those spans

with F1(a, b) = 2 |a ∩ b| / (|a| + |b|) in tokens: the answer whose F1 is highest if one of the spans b, drawn
by its probability, is right (minimum Bayes risk). It differs from the most likely one where the model is
unsure. Candidates and spans b are the most likely `CANDIDATES`, all of them if there are no more. Where a
model also says with which probability pₜ each word is in the answer, a second estimate is added to this one:
2 Σ_{t ∈ a} pₜ / (|a| + Σₜ pₜ), the F1 of expected sizes.
"""

from typing import Literal

import torch
from torch import Tensor

CANDIDATES = 200
Choose = Literal["f1", "likely"]


def span_scores(start: Tensor, end: Tensor, longest: int) -> Tensor:
    """log p of the spans of 1, 2, … tokens from each start: (b, n, longest), of start and end (b, n) each."""
    width = min(longest, start.shape[-1])
    after = torch.nn.functional.pad(end, (0, width - 1), value=-torch.inf).unfold(
        -1, width, 1
    )  # (b, n, width)
    return start.unsqueeze(-1) + after


def best_spans(
    start: Tensor, end: Tensor, longest: int, choose: Choose = "likely", inside: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """First and last tokens (b, 2) of the chosen spans, and their log-probability (b,) among all spans.

    `inside` are the log-odds (b, n) of each word to be in the answer, where there are any.
    """
    scores = span_scores(start, end, longest)
    width = scores.shape[-1]
    flat = scores.flatten(1).double().log_softmax(-1)
    if choose == "likely":
        value, index = flat.max(-1)
        return _bounds(index, width), value
    value, index = flat.topk(min(CANDIDATES, flat.shape[-1]), -1)
    spans = _bounds(index, width)  # (b, k, 2)
    first, last = spans.unbind(-1)
    here, there = (first.unsqueeze(-1), last.unsqueeze(-1)), (first.unsqueeze(-2), last.unsqueeze(-2))
    overlap = (torch.minimum(here[1], there[1]) - torch.maximum(here[0], there[0]) + 1).clamp(min=0)
    sizes = last - first + 1
    f1 = 2 * overlap / (sizes.unsqueeze(-1) + sizes.unsqueeze(-2))  # (b, k, k)
    expected = (f1 * value.exp().unsqueeze(-2)).sum(-1)
    if inside is not None:
        p = torch.where(start == -torch.inf, 0, inside.double().sigmoid())
        before = torch.nn.functional.pad(p.cumsum(-1), (1, 0))
        within = before.gather(1, (last + 1).clamp(max=p.shape[-1])) - before.gather(1, first)
        estimate = 2 * within / (sizes + before[:, -1:])
        expected = (expected + estimate).masked_fill(value == -torch.inf, -torch.inf)
    best = expected.argmax(-1, keepdim=True)
    chosen = spans.gather(1, best.unsqueeze(-1).expand(-1, 1, 2)).squeeze(1)
    return chosen, value.gather(1, best).squeeze(1)


def _bounds(index: Tensor, width: int) -> Tensor:
    """First and last tokens of spans that are numbered start by start."""
    first = index // width
    return torch.stack((first, first + index % width), -1)
