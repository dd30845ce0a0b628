"""Words: a text whose words stand out by their weight."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from torch import Tensor

from regard.views.base_view import MatrixView, paper
from regard.views.passage import passages
from regard.views.shown_text import cropped
from regard.views.weight_matrices import Weights, facts, matrices_of, picked

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, kw_only=True)
class Words(MatrixView):
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
        return passages(self.source, np.stack(rows), headings, self.most)


def words(
    weights: Weights, source: Sequence[str] | None = None, target: Sequence[str] | None = None, *,
    layer: int | None = None, head: int | None = None, title: str = "", caption: str = "",
) -> Words:  # fmt: skip
    """Show weights (n,) or (m, n), or several, on the n source tokens themselves, written as a text.

    The bar below a word is as long as its weight; a weight of exactly 0 has neither colour nor bar. With m
    target tokens there is a text for each.
    """
    if isinstance(weights, Tensor) and weights.dim() == 1:
        weights = weights.unsqueeze(0)
    return Words.of(
        picked(matrices_of(weights), layer, head),
        source,
        target,
        title=title,
        caption=caption
        or f"{facts(weights)}The darker a word and the longer its bar, the more weight; one of exactly 0 "
        "has neither.",
    )
