"""What stands in the place of a region that is deleted from a picture.

    grey    the mean colour of the training pictures, which is 0 once they are normalised
    blur    the same picture, blurred: a Gaussian whose deviation is the side of a region, and at least an
            eighth of the picture

Grey has edges and a colour that the region may never have had; blur has neither, and leaves a trace of what
was there. Fong & Vedaldi (2017), "Interpretable Explanations of Black Boxes by Meaningful Perturbation",
arXiv:1704.03296, §4.1, use both.
"""

from typing import Literal, get_args

import torch
from torch import Tensor

Baseline = Literal["grey", "blur"]
BASELINE = "What stands in the place of a deleted region: grey, or the picture blurred (blur)."
BASELINES: tuple[str, ...] = get_args(Baseline)


def check_baseline(name: str) -> None:
    """ValueError unless it is one of BASELINES."""
    if name not in BASELINES:
        raise ValueError(f'no baseline "{name}". Known: {", ".join(BASELINES)}.')


def baseline_pictures(name: str, images: Tensor, grid: tuple[int, int]) -> Tensor:
    """Normalised pictures (b, c, h, w) as they are without any of their regions."""
    check_baseline(name)
    return torch.zeros_like(images) if name == "grey" else blurred(images, grid)


def blurred(images: Tensor, grid: tuple[int, int]) -> Tensor:
    """Pictures (b, c, h, w) blurred; beyond an edge there is nothing, and the rest has all the weight."""
    sides = [(images.shape[-2], grid[0]), (images.shape[-1], grid[1])]
    deviation = max(max(side / cells, side / 8) for side, cells in sides)
    down, across = (_shares(side, deviation).to(images) for side, _ in sides)
    found: Tensor = down @ images @ across.T
    return found


def _shares(side: int, deviation: float) -> Tensor:
    """(side, side): what each pixel of a line takes from every other; rows sum to 1."""
    at = torch.arange(side, dtype=torch.float64)
    found = (-0.5 * ((at - at.unsqueeze(-1)) / deviation) ** 2).exp()
    return found / found.sum(-1, keepdim=True)
