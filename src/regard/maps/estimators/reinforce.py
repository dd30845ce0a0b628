"""REINFORCE: keys that did better than usual become more likely.

    ∇E[r] = E[∇r + λᵣ (r − b) ∇log p(s) + λₑ ∇H(p)],      s ~ p = softmax(θ),   r = −loss

Unbiased for λᵣ = 1, λₑ = 0, of high variance. The baseline b is a moving average of the rewards,
b ← 0.9 b + 0.1 r̄, and what is subtracted is its value from before this batch: a b that knew of s would bias
the gradient. The first batch has nothing to compare with and uses b = 0; the average starts with its r̄.

λₑ keeps the weights from settling early. It adds a bias and leaves the variance at given θ as it is, since ∇H
is not random. With probability `swap`, for each example and call, the soft weights take the place of the
draw, and their own gradient that of the estimate.

Williams (1992); for attention Xu et al. (2015), "Show, Attend and Tell", arXiv:1502.03044, §4.1 (baseline,
entropy, swap = 0.5). One lecture's last formula leaves out −b, and has the entropy reduce the variance.
"""

from math import isfinite

import torch
from torch import Generator, Tensor

from regard.core.shapes import check_rate
from regard.maps.estimators.estimator import Estimator, Note, Vertices, by_example, draw, log_softmax
from regard.maps.softmax import softmax


class Reinforce(Estimator):
    """REINFORCE, λᵣ = weight, λₑ = entropy; `baseline` is how slowly b moves, None for no baseline.

    Its gradient comes through `regard.losses.expected_loss`. The average is saved with the model.
    """

    structured = False
    usage = "regard.losses.expected_loss(losses).backward()"
    average: Tensor  # (), b
    batches: Tensor  # (), how many it has seen

    def __init__(
        self, baseline: float | None = 0.9, *, weight: float = 1.0, entropy: float = 0.0, swap: float = 0.0
    ) -> None:
        super().__init__()
        for name, value in (("weight", weight), ("entropy", entropy)):
            if not (isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be at least 0 and finite; got {value}.")
        self.baseline = None if baseline is None else check_rate("baseline", baseline)
        self.weight, self.entropy, self.swap = weight, entropy, check_rate("swap", swap)
        if baseline is not None:
            self.register_buffer("average", torch.zeros(()))
            self.register_buffer("batches", torch.zeros((), dtype=torch.long))

    def draw(self, theta: Tensor, among: Vertices, generator: Generator | None) -> Tensor:
        """One key of each row of scores (b, ..., n): weights (b, ..., n)."""
        note = Note(self, None if self.baseline is None else self.average.clone())
        if not self.swap:
            return draw(theta, note, generator)
        examples = theta.shape[0] if theta.dim() > 1 else 1
        swapped = torch.rand(examples, device=theta.device, generator=generator) < self.swap
        note.counted = ~swapped
        swapped = swapped.view(-1, *(1,) * (theta.dim() - 1))
        return torch.where(swapped, softmax(theta), draw(theta, note, generator))

    def terms(self, theta: Tensor, keys: Tensor, note: Note) -> tuple[Tensor, Tensor]:
        """λᵣ log p of keys (b, ...) drawn with scores (b, ..., n), and λₑ H: (b,) each, or (1,)."""
        log_p = log_softmax(theta)
        of_draw = by_example(log_p.gather(-1, keys.unsqueeze(-1)).squeeze(-1))
        if note.counted is not None:
            of_draw = of_draw * note.counted
        if not self.entropy:
            return self.weight * of_draw, torch.zeros_like(of_draw)
        finite = torch.where(theta == -torch.inf, 0, log_p)
        return self.weight * of_draw, -self.entropy * by_example((log_p.exp() * finite).sum(-1))

    @torch.no_grad()
    def observe(self, reward: Tensor) -> None:
        """Move the average towards the mean reward () of a batch; one that is not finite is passed over."""
        if self.baseline is None:
            return
        moved = torch.where(
            self.batches == 0, reward, self.baseline * self.average + (1 - self.baseline) * reward
        )
        finite = reward.isfinite()
        self.average.copy_(torch.where(finite, moved, self.average))
        self.batches += finite

    def extra_repr(self) -> str:
        return f"baseline={self.baseline}, weight={self.weight}, entropy={self.entropy}, swap={self.swap}"
