"""Hard attention in a captioner: how near each estimator comes to the exact gradient, and what it learns.

Pictures of three coloured cells in a row, captions that name the colours from left to right. The decoder
starts from the mean of the cells, which does not tell their order: every word needs a look at its own cell.
With three cells, and no step for the end, all 27 choices can be written out. For each estimator: the cosine
of one gradient (of the attention's parameters, 32 pictures) with the exact one and the variance of such
gradients by its square, both after 20 steps with the exact gradient; and the words and captions that are
right after 100 steps of training. Mean and standard deviation over seeds.

    python examples/caption_estimators.py [SEEDS]
"""

import sys
from statistics import mean, stdev

import torch
from torch import Tensor

from regard.decoding import greedy
from regard.decoding.hypothesis import Limits
from regard.models.captioners import CAPTIONERS
from regard.models.captioners.show_attend_tell import ESTIMATORS
from regard.tasks.translation import target_in

SIZE = {"channels": 3, "height": 4, "width": 12, "classes": 8, "widths": (8,), "blocks": (0,), "stride": 4}
COLOURS = torch.tensor([[180, 0, 0], [0, 180, 0], [0, 0, 180], [180, 180, 180]])
DRAWS, FIRST, STEPS, RATE = 20, 20, 100, 0.02


def pictures(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Pictures (b, 3, 4, 12) and captions (b, 3): 4 + the colour of each cell."""
    chance = torch.Generator().manual_seed(seed)
    colours = torch.randint(0, len(COLOURS), (count, 3), generator=chance)
    cells = COLOURS[colours].permute(0, 2, 1).unsqueeze(-2)  # (b, 3 channels, 1, 3 cells)
    pixels = cells.repeat_interleave(4, -1) + torch.randint(0, 70, (count, 3, 4, 12), generator=chance)
    return pixels.byte(), colours + 4


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


def train(model, seed: int, steps: int) -> None:
    """So many steps of Adam, 32 pictures each."""
    optimiser = torch.optim.Adam(model.parameters(), RATE)
    for step in range(steps):
        pixels, target = pictures(32, 1000 * seed + step)
        real = torch.ones_like(target, dtype=torch.bool)
        loss = model.caption_loss(pixels, target_in(target), target, real, 0.0) / 32
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def learned(estimator: str, seed: int) -> tuple[float, float]:
    """The share of words and of captions that are right after training."""
    model = captioner(estimator, seed)
    train(model, seed, STEPS)
    pixels, target = pictures(500, 999_999)
    found = greedy(model, pixels, torch.full((500,), 3), Limits(0, 6, 6))
    pairs = [(one[0].tokens[:3], wanted) for one, wanted in zip(found, target.tolist(), strict=True)]
    words = mean(
        mean(a == b for a, b in zip((*said, 0, 0, 0), wanted, strict=False)) for said, wanted in pairs
    )
    return words, mean(list(said) == wanted for said, wanted in pairs)


def compared(seed: int) -> dict[str, tuple[float, float]]:
    """By estimator: the mean cosine of one gradient with the exact one, and the variance by its square."""
    pixels, target = pictures(32, seed)
    start = captioner("exact", seed)
    train(start, seed, FIRST)
    exact, found = gradient(start, pixels, target), {}
    for estimator in ESTIMATORS:
        model = captioner(estimator, seed)
        model.load_state_dict(start.state_dict(), strict=False)  # a moving baseline is not in it
        drawn = torch.stack(
            [gradient(model, pixels, target) for _ in range(DRAWS if estimator != "exact" else 1)]
        )
        cosine = torch.nn.functional.cosine_similarity(drawn, exact[None], dim=-1).mean()
        variance = drawn.var(0, correction=0).sum() / exact.square().sum()
        found[estimator] = float(cosine), float(variance)
    return found


def said(values: list[float]) -> str:
    """Mean and standard deviation."""
    return f"{mean(values):.2f} ± {stdev(values) if len(values) > 1 else 0:.2f}"


if __name__ == "__main__":
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
    near = [compared(seed) for seed in seeds]
    print("| estimator | cosine to the exact gradient | variance by its square | words | captions |")
    print("|---|---|---|---|---|")
    for name in ESTIMATORS:
        right = [learned(name, seed) for seed in seeds]
        columns = [*zip(*(one[name] for one in near), strict=True), *zip(*right, strict=True)]
        print(f"| {name} | {' | '.join(said(list(one)) for one in columns)} |", flush=True)
