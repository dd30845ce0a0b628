"""Words: a text whose words stand out by their weight."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from torch import Tensor

from regard.views.base_view import paper
from regard.views.passage import TextView
from regard.views.shown_text import cropped
from regard.views.weight_matrices import Weights, facts, matrices_of, picked

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, kw_only=True)
class Words(TextView):
    """The source as text, once for each row of each matrix."""

    kind: ClassVar[str] = "words"

    def drawn(self) -> "Figure":
        paper(self.matrices, rows=40)
        many = len(self.matrices) > 1
        rows, headings = [], []
        for one in self.matrices:
            for word, row in zip(self.target, one.weights, strict=True):
                rows.append(row)
                said = [one.name if many else "", word if len(self.target) > 1 else ""]
                headings.append(cropped(", ".join(filter(None, said)), 22))
        return self.passages(np.stack(rows), headings)


def words(
    weights: Weights, source: Sequence[str] | None = None, target: Sequence[str] | None = None, *,
    layer: int | None = None, head: int | None = None, shares: bool = False,
    title: str = "", caption: str = "",
) -> Words:  # fmt: skip
    """Show weights (n,) or (m, n), or several, on the n source tokens themselves, written as a text.

    Colour and bar of a word follow from its weight and n alone (`ramps.place`); a weight of exactly 0 has
    neither. With m target tokens there is a text for each. shares=True is for scores of any size: each is
    coloured by its part of the sum of its row, signs aside.
    """
    if isinstance(weights, Tensor) and weights.dim() == 1:
        weights = weights.unsqueeze(0)
    return Words.of(
        picked(matrices_of(weights), layer, head),
        source,
        target,
        shares=shares,
        title=title,
        caption=caption
        or f"{facts(weights)}The darker a word and the longer its bar, the more weight; one of exactly 0 "
        "has neither.",
    )
