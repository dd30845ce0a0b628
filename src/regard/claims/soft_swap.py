"""C38: with probability ½ a sampled glimpse gives way to its expectation: more runs get there.

A glyph in one of 16 cells of an image, shuffled pixels of glyphs in the others; one hard look, REINFORCE with
a baseline, 400 steps.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention
from regard.claims.claim import Figures, at_least, claim, must_fail
from regard.claims.quick import few, remembered, sized
from regard.losses import expected_loss
from regard.maps import Hard
from regard.maps.estimators import Reinforce

GLYPHS = [
    "11111 10001 10001 10001 11111",
    "00100 00100 11111 00100 00100",
    "10001 01010 00100 01010 10001",
    "11111 10000 11100 10000 10000",
    "00100 01010 10001 11111 10001",
]


@remembered
def glyphs_in_clutter(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Images (count, 32, 32) of 4 × 4 cells, a glyph in one and glyphs of shuffled pixels in the others."""
    g = torch.Generator().manual_seed(seed)
    ink = torch.tensor([[float(c) for c in glyph.replace(" ", "")] for glyph in GLYPHS])  # (5, 25)
    label, cell = torch.randint(5, (count,), generator=g), torch.randint(16, (count,), generator=g)
    shuffled = torch.rand(count, 16, 25, generator=g).argsort(-1)
    marks = ink[torch.randint(5, (count, 16), generator=g)].gather(-1, shuffled)
    marks[torch.arange(count), cell] = ink[label]
    cells = 0.2 * torch.randn(count * 16, 8, 8, generator=g)
    corner = torch.randint(2, (2, count * 16), generator=g)
    i = corner[0, :, None, None] + torch.arange(5)[:, None]
    j = corner[1, :, None, None] + torch.arange(5)
    cells[torch.arange(count * 16)[:, None, None], i, j] += marks.view(-1, 5, 5)
    return cells.view(count, 4, 4, 8, 8).transpose(2, 3).reshape(count, 32, 32), label


class Glimpse(nn.Module):
    """Looks at one of 16 patches and says which glyph is in the image."""

    def __init__(self, map: Hard, width: int = 32):
        super().__init__()
        self.see = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, width), nn.ReLU())
        self.query = nn.Parameter(torch.zeros(1, width))
        self.attention = Attention(map=map)
        self.read = nn.Linear(width, len(GLYPHS))

    def forward(self, image: Tensor) -> Tensor:
        """Logits (b, glyphs) of images (b, 32, 32)."""
        patches = image.view(-1, 4, 8, 4, 8).transpose(2, 3).reshape(-1, 16, 64)
        query = self.query.expand(len(image), 1, -1)
        logits: Tensor = self.read(self.attention(query, self.see(patches)).context.squeeze(1))
        return logits


def named(swap: float, seed: int) -> float:
    """The share of glyphs named after 400 steps of 64 images."""
    (images, labels), (others, wanted) = (
        glyphs_in_clutter(sized(count, 128), split) for count, split in ((20_000, 0), (1000, 1))
    )
    torch.manual_seed(seed)
    model = Glimpse(Hard(Reinforce(swap=swap)))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(few(400)):
        which = torch.randint(len(images), (64,))
        optimizer.zero_grad()
        expected_loss(F.cross_entropy(model(images[which]), labels[which], reduction="none")).backward()
        optimizer.step()
    with torch.no_grad():
        return float((model.eval()(others).argmax(-1) == wanted).float().mean())


@claim(
    "C38",
    group="Hard and structured attention",
    fixed="aa447e2",
    says="With the soft swap (p = ½) hard attention is more robust.",
    source="002:273",
    experiment="A glyph in one of 16 cells, one hard look, 400 steps with and without the swap: "
    "accuracy, and whether the run failed (below .6), ten seeds.",
    control="Runs without the swap fail in part.",
    conditions=[
        at_least(1e-9, "with the swap − without", rule="mean"),
        at_least(1e-9, "failed without − failed with the swap", rule="mean"),
        must_fail(at_least(0.1, "failed without", rule="mean")),
    ],
    seeds=tuple(range(20, 30)),
    minutes=0.4,
    remark="Later all runs get there with and without; that the variance falls is not confirmed here.",
)
def swapped(seed: int) -> Figures:
    """Accuracy with and without."""
    plain, swap = named(0.0, seed), named(0.5, seed)
    return {
        "without": plain,
        "with the swap": swap,
        "failed without": float(plain < 0.6),
        "failed with the swap": float(swap < 0.6),
    }
