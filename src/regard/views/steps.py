"""Steps: decoding word by word, and the weights of each step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from regard.views.base_view import paper
from regard.views.passage import TextView
from regard.views.shown_text import cropped
from regard.views.weight_matrices import Weights, calls_of, facts, matrices_of, picked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEFORE = 22  # characters of the words before that are shown


@dataclass(frozen=True, eq=False, kw_only=True)
class Steps(TextView):
    """The source as text, once for each step, with what has been written so far."""

    kind: ClassVar[str] = "steps"

    def drawn(self) -> "Figure":
        paper(self.matrices[:1], rows=40)
        if len(self.matrices) > 1:
            raise ValueError(
                f"steps on paper need one matrix; got {len(self.matrices)}. Pick with layer= and head=."
            )
        headings = [_said(self.target[: i + 1]) for i in range(len(self.target))]
        return self.passages(self.matrices[0].weights, headings)


def _said(words: Sequence[str]) -> str:
    """The last words, as many as there is room for."""
    said = cropped(words[-1], BEFORE)
    for word in reversed(words[:-1]):
        if len(word) + 1 + len(said) > BEFORE:
            return f"… {said}"
        said = f"{word} {said}"
    return said


def steps(
    weights: Weights, source: Sequence[str] | None = None, target: Sequence[str] | None = None, *,
    layer: int | None = None, head: int | None = None, title: str = "", caption: str = "",
) -> Steps:  # fmt: skip
    """Show decoding step by step: weights (m, n), a row per step, or a list of m steps (..., 1, n).

    Steps of a list may have fewer keys than the last: a decoder that looks at what it has said sees more
    and more. Where every step holds a list of layers, as Hugging Face's `generate` returns them, each layer's
    steps are joined.
    """
    known = facts(weights)
    if isinstance(weights, list | tuple) and weights:
        deep = isinstance(weights[0], list | tuple)
        weights = [calls_of(layer) for layer in zip(*weights, strict=True)] if deep else calls_of(weights)
    return Steps.of(
        picked(matrices_of(weights), layer, head),
        source,
        target,
        title=title,
        caption=caption
        or f"{known}One text per step: the last word on the left was written while looking at "
        "the words that have colour on the right.",
    )
