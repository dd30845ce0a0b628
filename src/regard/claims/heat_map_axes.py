"""C4: the lectures' heat map: the source across and the target down, 0 black and 1 white, rows sum to 1."""

import torch

from regard.attention import attend
from regard.claims.claim import Figures, at_most, between, claim, must_fail
from regard.views import heat_map

SOURCE, TARGET = ["the", "black", "cat", "sat"], ["le", "chat", "noir"]
P = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 0.25, 0.75, 0.0], [0.0, 1.0, 0.0, 0.0]])


@claim(
    "C4",
    group="Alignment",
    fixed="e011479",
    says="The heat map has the source across and the target down, 0 black and 1 white.",
    source="000:152-157",
    experiment="What `heat_map` sends to a page: rows of targets, columns of sources, the scale from "
    "0 to 1, sums of rows. The colour of every pixel is checked by tests/views/test_claim_c4.py.",
    control="The scale of other ramps ends at the largest weight.",
    conditions=[
        *between(3, 3, "rows"),
        *between(4, 4, "columns"),
        at_most(1e-4, "weights off by"),
        *between(1, 1, "white is"),
        at_most(1e-4, "sums of rows off 1 by"),
        must_fail(at_most(0.5, "largest colour of another ramp")),
    ],
    exact=True,
)
def axes(seed: int) -> Figures:
    """Sizes, weights and scale."""
    shown = torch.tensor(heat_map(P, SOURCE, TARGET, ramp="black_to_white").data()["matrices"][0]["weights"])
    torch.manual_seed(seed)
    seen = attend(torch.randn(3, 8), torch.randn(4, 8))
    rows = torch.tensor(
        heat_map(seen, SOURCE, TARGET, ramp="black_to_white").data()["matrices"][0]["weights"]
    )
    return {
        "rows": float(shown.shape[0]),
        "columns": float(shown.shape[1]),
        "weights off by": float((shown - P).abs().max()),
        "white is": float(heat_map(P / 2, ramp="black_to_white").most),
        "largest colour of another ramp": float(heat_map(P / 2).most),
        "sums of rows off 1 by": float((rows.sum(-1) - 1).abs().max()),
    }
