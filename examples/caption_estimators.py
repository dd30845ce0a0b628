"""Hard attention in a captioner: how near each estimator comes to the exact gradient, and what it learns.

Pictures of 8 × 8 pixels with one bright quarter, captions of two words, its row and its column; a grid of
2 × 2 cells, so that all choices can be written out. For each estimator: the cosine of one gradient (of the
attention's parameters, 32 pictures) with the exact one, the variance of such gradients by the square of the
exact one, and the share of exact captions after 150 steps of training (50 with the exact gradient); mean and
standard deviation over seeds.

    python examples/caption_estimators.py [SEEDS]
"""

import sys
from statistics import mean, stdev

import torch
from torch import Tensor

from regard.core.tokens import EOS
from regard.decoding import greedy
from regard.decoding.hypothesis import Limits
from regard.models.captioners import CAPTIONERS
from regard.models.captioners.show_attend_tell import ESTIMATORS
from regard.tasks.translation import target_in

SIZE = {"channels": 1, "height": 8, "width": 8, "classes": 9, "widths": (8,), "blocks": (0,), "stride": 4}
DRAWS, STEPS, RATE = 30, 150, 0.02


def pictures(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Pictures (b, 1, 8, 8) and captions (b, 3): 4 + row, 6 + column, EOS."""
    chance = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 60, (count, 1, 8, 8), generator=chance)
    place = torch.randint(0, 2, (count, 2), generator=chance)
    for i, (row, column) in enumerate(place.tolist()):
        pixels[i, 0, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] += 150
    captions = torch.cat([place + torch.tensor([4, 6]), torch.full((count, 1), EOS)], 1)
    return pixels.byte(), captions


def captioner(estimator: str, seed: int):
    """A captioner with hard attention, its first weights by the seed."""
    torch.manual_seed(seed)
    made = {"embedding": 12, "state": 16, "map": "hard", "estimator": estimator}
    return CAPTIONERS["show_attend_tell"].make(**SIZE, **made).train()


def gradient(model, pixels: Tensor, target: Tensor) -> Tensor:
    """The gradient of the loss by the parameters of the attention, in a row."""
    parameters = list(model.attention.score.parameters())
    for layer in model.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.eval()
    real = torch.ones_like(target, dtype=torch.bool)
    loss = model.caption_loss(pixels, target_in(target), target, real, 0.0)
    return torch.cat([one.flatten() for one in torch.autograd.grad(loss, parameters)])


def learned(estimator: str, seed: int) -> float:
    """The share of exact captions after training."""
    model = captioner(estimator, seed)
    optimiser = torch.optim.Adam(model.parameters(), RATE)
    for step in range(STEPS if estimator != "exact" else STEPS // 3):
        pixels, target = pictures(32, 1000 * seed + step)
        real = torch.ones_like(target, dtype=torch.bool)
        loss = model.caption_loss(pixels, target_in(target), target, real, 0.0) / 32
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    pixels, target = pictures(200, 999_999)
    found = greedy(model, pixels, torch.full((200,), 4), Limits(0, 4, 4))
    return mean(one[0].tokens == wanted[:2] for one, wanted in zip(found, target.tolist(), strict=True))


def compared(estimator: str, seed: int) -> tuple[float, float]:
    """The mean cosine of single gradients with the exact one, and their variance by its square."""
    pixels, target = pictures(32, seed)
    target = torch.stack([target[:, 0], target[:, 2]], 1)  # one word: what is exact stays small
    exact = gradient(captioner("exact", seed), pixels, target)
    model = captioner(estimator, seed)
    drawn = torch.stack([gradient(model, pixels, target) for _ in range(DRAWS)])
    cosine = torch.nn.functional.cosine_similarity(drawn, exact[None], dim=-1).mean()
    variance = drawn.var(0).sum() / exact.square().sum()
    return float(cosine), float(variance)


if __name__ == "__main__":
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
    print("| estimator | cosine to the exact gradient | variance by its square | exact captions |")
    print("|---|---|---|---|")
    for name in ESTIMATORS:
        near = [compared(name, seed) for seed in seeds]
        right = [learned(name, seed) for seed in seeds]
        cells = [[one[0] for one in near], [one[1] for one in near], right]
        said = [f"{mean(c):.2f} ± {stdev(c) if len(c) > 1 else 0:.2f}" for c in cells]
        print(f"| {name} | {' | '.join(said)} |", flush=True)
