"""A problem that is learned in a second: which of two halves of a vector is larger."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from regard.training import Team


class Parity:
    """Batches in an order known from the epoch; rank r of s takes rows r, r + s, … of each."""

    def __init__(self, spoiled: int = -1, count: int = 7, team: Team | None = None):
        self.spoiled, self.count, self.team = spoiled, count, team or Team()
        self.asked: list[tuple[int, int]] = []

    def batches(self, epoch, skip):
        for k in range(skip, self.count):
            self.asked.append((epoch, k))
            x, y = self.batch(epoch, k)
            mine = slice(self.team.rank, None, self.team.size)
            yield x[mine], y[mine]

    def batch(self, epoch, k):
        g = torch.Generator().manual_seed(1000 * epoch + k)
        x = torch.randn(16, 8, generator=g)
        y = (x[:, :4].sum(1) > x[:, 4:].sum(1)).long()
        if k == self.spoiled and epoch == 1:
            x[3, 2] = math.nan
        return x, y

    def loss(self, model, batch):
        x, y = batch
        return F.cross_entropy(model(x), y, reduction="sum"), len(x)

    def validate(self, model):
        x, y = self.batch(10_000, 0)
        return {
            "loss": F.cross_entropy(model(x), y).item(),
            "accuracy": (model(x).argmax(1) == y).float().mean().item(),
        }


class Killed(BaseException):
    pass


class Cut(Parity):
    """It ends after so many batches; 33 are in the middle of step 18."""

    def __init__(self, last: int = 33, **more):
        super().__init__(**more)
        self.done, self.last = 0, last

    def loss(self, model, batch):
        self.done += 1
        if self.done > self.last:
            raise Killed
        return super().loss(model, batch)


def model(dropout: float = 0.2) -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(8, 16), nn.Dropout(dropout), nn.ReLU(), nn.Linear(16, 2))
