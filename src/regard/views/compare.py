"""Compare: two systems, or two maps, on the same input, and how they differ.

distance = ½ Σⱼ |pⱼ − qⱼ|      (total variation), averaged over rows: 0 the same, 1 nothing in common
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from regard.core.errors import ShapeError
from regard.views import matrix_figure
from regard.views.base_view import MatrixView, paper
from regard.views.shown_text import labels, shown
from regard.views.weight_matrices import Matrix, Weights, matrices_of, picked, same_size

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, kw_only=True)
class Compare(MatrixView):
    """Matrices in groups: first, second, and second − first where both have the same words."""

    kind: ClassVar[str] = "compare"
    names: tuple[str, str]
    group: int
    pairs: tuple[str, ...]  # what each group is of
    distance: tuple[float, ...] = ()  # of each group; none where the words differ

    def content(self) -> dict[str, Any]:
        more = {"names": list(self.names), "group": self.group, "pairs": list(self.pairs)}
        return {**super().content(), **more, **({"distance": list(self.distance)} if self.distance else {})}

    def drawn(self) -> "Figure":
        paper(self.matrices)
        across = self.group if len(self.source) <= 40 else 1
        down = len(self.matrices) // across
        longest = max((one.target or self.target for one in self.matrices), key=len)
        picture, panels = matrix_figure.grid(down, across, self.source, longest, each=self.group == 2)
        for k, (panel, one) in enumerate(zip(panels, self.matrices, strict=True)):
            target = one.target or self.target
            colours = matrix_figure.draw(panel, one, self.source, target, "even", self.most)
            if k % across and one.target is None:
                panel.set_yticks([])
        matrix_figure.bar(picture, colours)
        return picture


def compare(
    first: Weights,
    second: Weights,
    source: Sequence[str] | None = None,
    target: Sequence[str] | None = None,
    *,
    names: tuple[str, str] = ("first", "second"),
    second_target: Sequence[str] | None = None,
    layer: int | None = None,
    head: int | None = None,
    title: str = "",
    caption: str = "",
) -> Compare:
    """Show two sets of weights (m, n) of the same source side by side, and the second minus the first.

    Where the second system said something else, `second_target` has its words, and there is no difference.
    """
    ones, others = (picked(matrices_of(weights), layer, head) for weights in (first, second))
    if len(ones) != len(others):
        raise ShapeError(
            f"first and second must hold as many matrices; got {len(ones)} and {len(others)}. "
            "Pick with layer= and head=."
        )
    same = second_target is None
    m, n = same_size([*ones, *others] if same else ones)
    if not same and (wrong := same_size(others)[1]) != n:
        raise ShapeError(f"first and second must have one source; got {n} and {wrong} keys.")
    other = None if same else labels("second_target", second_target, len(others[0].weights))
    matrices: list[Matrix] = []
    for one, two in zip(ones, others, strict=True):
        matrices += [_named(one, names[0]), _named(two, names[1], other)]
        if same:
            matrices.append(
                Matrix(two.weights - one.weights, f"{names[1]} − {names[0]}", one.layer, one.head)
            )
    apart = [
        float(abs(p.weights - q.weights).sum(-1).mean()) / 2
        for p, q in zip(ones, others, strict=True)
        if same
    ]
    return Compare(
        source=labels("source", source, n),
        target=labels("target", target, m),
        matrices=tuple(matrices),
        names=(shown(names[0]), shown(names[1])),
        group=3 if same else 2,
        pairs=tuple(shown(one.name) for one in ones),
        distance=tuple(apart),
        title=title,
        caption=caption or _says(names, apart),
    )


def _named(one: Matrix, name: str, target: tuple[str, ...] | None = None) -> Matrix:
    return Matrix(one.weights, ", ".join(filter(None, (name, one.name))), one.layer, one.head, target)


def _says(names: tuple[str, str], apart: list[float]) -> str:
    if not apart:
        return "Source across; the two said different words, so there is no difference to draw."
    return (
        f"Source across, target down. They differ by {np.mean(apart):.2f} on average (½ Σ |p − q| of a row: "
        f"0 the same, 1 nothing in common); orange where {names[0]} looked more, blue where {names[1]} did."
    )
