"""What every model of the task `answering` is: a story and a question in, the logits of answers out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Common:
    """Configuration that all have."""

    vocabulary: int
    answers: tuple[int, ...]  # the words that are answers, in the order of the logits
    memory: int  # sentences of a story at most
    width: int = 50  # of the vectors of sentences
    hops: int = 3  # times that the story is looked at
    map: str = "softmax"
    noise: float = 0.1  # of places that are left free between sentences in training, at most


class AnswerModel(nn.Module):
    """A model that looks at the sentences of a story, one hop after the other."""

    config: Any
    suits: ClassVar[Mapping[str, Any]] = {}  # settings of training that suit it, unless others are given

    def forward(
        self, story: Tensor, question: Tensor, lengths: Tensor, facts: Tensor | None = None
    ) -> Tensor:
        """Logits (b, answers) of stories (b, n, w) of so many sentences (b,) and questions (b, q).

        `facts` (b, f) are the supporting sentences, −1 where there are no more: given in training to models
        that learn from them.
        """
        raise NotImplementedError

    def loss(self, batch: Any) -> Tensor:
        """The sum of the losses of a batch."""
        logits = self(batch["story"], batch["question"], batch.lengths["story"])
        return F.cross_entropy(logits, batch["answer"], reduction="sum")

    @property
    def attention_paths(self) -> dict[str, list[str]]:
        """Its hops over the story."""
        return {"reader": [f"hops.{k}" for k in range(self.config.hops)]}


def ages(lengths: Tensor, n: int, noise: float = 0.0) -> Tensor:
    """How old the sentences of stories of so many (b,) are, (b, n): 0 is the last one.

    With noise, up to noise · length places among them, rounded up, are left free at random, so that ages are
    larger: a model that only ever saw the ages of its training stories would know too few of them.
    """
    place = torch.arange(n, device=lengths.device)
    age = (lengths.unsqueeze(-1) - 1 - place).clamp(min=0)
    if noise:
        free = (torch.rand(len(lengths), device=lengths.device) * ((lengths * noise).ceil() + 1)).long()
        total = n + int(free.max())
        chance = torch.rand(len(lengths), total, device=lengths.device)
        places = torch.arange(total, device=lengths.device)
        chance = chance.masked_fill(places >= (lengths + free).unsqueeze(-1), 2.0)
        taken = chance.argsort(-1)[:, :n]  # the first `length` of them are places that are taken
        taken = taken.masked_fill(place >= lengths.unsqueeze(-1), total).sort(-1).values
        age = taken.gather(-1, age)
    return age


def recent(age: Tensor, lengths: Tensor, most: int) -> Tensor:
    """Which sentences may be looked at, (b, 1, n): those of the story that are younger than `most`."""
    inside = torch.arange(age.shape[-1], device=age.device) < lengths.unsqueeze(-1)
    return (inside & (age < most)).unsqueeze(1)
