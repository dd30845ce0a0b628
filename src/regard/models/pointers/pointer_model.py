"""What models that point share: points in, a sequence of positions and its end out.

The input is n points (b, n, coordinates). An answer is a sequence of positions, 1 for the first point, and 0,
the end. `Rules` say what may be pointed at: with `once` no point a second time, with `every` no end before
all points have had their turn; none begins with the end. What may not be has probability 0, in training and
in answers.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.errors import ShapeError

END = 0  # the position that ends a sequence; points are 1 to n


@dataclass(frozen=True)
class PointerConfig:
    """What the configurations of models that point share."""

    coordinates: int = 2  # numbers of a point
    once: bool = True  # no point is pointed at twice
    every: bool = False  # all points are, before the end


class PointerModel(nn.Module):
    """The base class; a subclass defines `encode`, `begin`, `log_probs` and `step`."""

    attention_paths: dict[str, list[str]]
    config: PointerConfig

    def encode(self, points: Tensor, lengths: Tensor) -> Any:
        """What is made of points (b, n, coordinates) once."""
        raise NotImplementedError

    def log_probs(self, encoded: Any, lengths: Tensor, said: Tensor, allowed: Tensor) -> Tensor:
        """Log-probabilities (b, k, 1 + n) of what comes after each of `said` (b, k), whose first is −1.

        `allowed` (b, k, 1 + n) is True where the rules permit.
        """
        raise NotImplementedError

    def step(
        self, encoded: Any, lengths: Tensor, said: Tensor, state: Any, allowed: Tensor
    ) -> tuple[Tensor, Any]:
        """One step of the same, (b, 1 + n), after `said` (b,) in a state (None first); and the next state."""
        raise NotImplementedError

    def limit(self, n: int) -> int:
        """Steps after which a sequence over n points is cut off."""
        return n + 1 if self.config.once else 6 * n + 1

    def forward(self, points: Tensor, lengths: Tensor, answers: Tensor | None = None) -> Any:
        """Teacher-forced log-probabilities (b, k, 1 + n) of answers (b, k), padded with END.

        Without answers, those of the model: what `point` gives.
        """
        if answers is None:
            return self.point(points, lengths)
        check_points(points, lengths, self.config.coordinates)
        before = torch.cat((torch.full_like(answers[:, :1], -1), answers[:, :-1]), 1)
        allowed = self.rules(before, points.shape[1], lengths)
        return self.log_probs(self.encode(points, lengths), lengths, before, allowed)

    def loss(self, points: Tensor, lengths: Tensor, answers: Tensor, counts: Tensor) -> Tensor:
        """The sum of −log p of answers (b, k), `counts` (b,) positions of each, and of their ends."""
        answers = torch.nn.functional.pad(answers, (0, 1))
        scores = self(points, lengths, answers).gather(-1, answers.unsqueeze(-1)).squeeze(-1)
        real = torch.arange(answers.shape[1], device=answers.device) <= counts.unsqueeze(-1)
        return -torch.where(real, scores, 0).clamp(min=-1e4).sum()

    def rules(self, before: Tensor, n: int, lengths: Tensor) -> Tensor:
        """What may come after each of `before` (b, k), whose first is −1: (b, k, 1 + n)."""
        at = torch.arange(1, n + 1, device=before.device)
        seen = (before.unsqueeze(-1) == at).cumsum(1) > 0  # (b, k, n)
        return self.permitted(seen, lengths, before < 0)

    def permitted(self, seen: Tensor, lengths: Tensor, first: Tensor) -> Tensor:
        """What may come next (b, k, 1 + n), where these points (b, k, n) were pointed at already.

        `first` (b, k) is True where nothing was said yet: an answer has at least one position.
        """
        real = torch.arange(seen.shape[-1], device=seen.device) < lengths.view(-1, 1, 1)
        left = real & ~seen
        allowed = left if self.config.once else real.expand_as(seen)
        end = ~first.unsqueeze(-1)
        if self.config.every:
            end = end & ~left.any(-1, keepdim=True)
        return torch.cat((end | ~allowed.any(-1, keepdim=True), allowed), -1)

    @torch.no_grad()
    def point(self, points: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The most likely positions, one by one: (b, k), END after the last; and the log p (b,) of all."""
        check_points(points, lengths, self.config.coordinates)
        encoded, b, n = self.encode(points, lengths), len(points), points.shape[1]
        said = torch.full((b, 1), -1, device=points.device)
        total, state = points.new_zeros(b, dtype=torch.float64), None
        going = torch.ones(b, dtype=torch.bool, device=points.device)
        seen = torch.zeros(b, 1 + n, dtype=torch.bool, device=points.device)
        for _ in range(self.limit(n)):
            allowed = self.permitted(seen[:, None, 1:], lengths, said[:, -1:] < 0).squeeze(1)
            scores, state = self.step(encoded, lengths, said[:, -1], state, allowed)
            best, new = scores.double().max(-1)
            new = torch.where(going, new, END)
            total = total + torch.where(going, best, 0)
            seen = seen.scatter(1, new.unsqueeze(-1), True)
            said = torch.cat((said, new.unsqueeze(-1)), 1)
            going = going & (new != END)
            if not bool(going.any()):
                break
        return said[:, 1:], total


def check_points(points: Tensor, lengths: Tensor, coordinates: int) -> None:
    """Require points (b, n, coordinates) and lengths (b,)."""
    if points.dim() != 3 or points.shape[-1] != coordinates or lengths.shape != points.shape[:1]:
        raise ShapeError(
            f"points must be (b, n, {coordinates}) and their lengths (b,); "
            f"got {tuple(points.shape)} and {tuple(lengths.shape)}."
        )


def taken_points(encoded: Tensor, said: Tensor, start: Tensor) -> Tensor:
    """Vectors (b, k, d) of the positions said (b, k) among encoded (b, 1 + n, d); −1 is `start` (d,)."""
    at = said.clamp(min=0).unsqueeze(-1).expand(*said.shape, encoded.shape[-1])
    return torch.where((said < 0).unsqueeze(-1), start, encoded.gather(1, at))
