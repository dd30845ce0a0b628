"""Views of an inspected answer: one picture for a file or notebook, and all of them as data for the page.

Weights between answer and text are drawn as the system says (`System.picture`). Where that is the words of the
text, other kinds show self-attention among these words.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from regard import views
from regard.inspection.captions import (
    all_weights_caption,
    position,
    scores_caption,
    self_attention_caption,
    weights_caption,
)
from regard.inspection.controls import Value
from regard.inspection.inspected import Inspected, InvalidRequest, OutOfRange, self_attention
from regard.inspection.word_scores import ATTENTION, word_scores
from regard.views.base_view import MatrixView, View

KINDS = ("heat_map", "lines", "words", "steps", "heads", "layers")
WHOLE = ("heads", "layers")  # these show all layers at once
OTHERS = "A score is what one method finds in a model; others find other words."
CELLS = 1 << 17  # of all matrices in one answer; where there are more, only the one asked for is in it


def draw(
    inspected: Inspected,
    kind: str | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
    method: str | None = None,
) -> View:
    """A view of one of KINDS; layer and head from 0, without them the last layer and the mean of its heads.

    `method`, of METHODS, colours words by its scores instead of by weights.
    """
    system = inspected.system
    kind = kind or system.picture
    if kind not in KINDS:
        raise InvalidRequest(f'no kind "{kind}". Known: {", ".join(KINDS)}.')
    chosen = layer is not None or head is not None
    if kind in WHOLE and chosen:
        raise InvalidRequest(f"kind {kind} shows all layers: layer and head are for the others.")
    if inspected.answer is None:
        raise InvalidRequest(f"{inspected.name} attended to nothing: there are no words.")
    if method not in (None, ATTENTION):
        if kind != "words" or chosen:
            raise InvalidRequest("method colours the words: it goes with kind words, without layer and head.")
        return _scored(inspected, method)
    if not system.layers:
        raise InvalidRequest(f"{inspected.name} has no attention.")
    if kind == "words" or system.picture != "words":
        return _cross_view(inspected, kind, layer, head)
    if kind == "steps":
        others = ", ".join(one for one in KINDS if one != kind)
        raise InvalidRequest(f"kind steps is for answers of several words; of {inspected.name} there is {others}.")
    return _self_view(inspected, kind, layer, head)


def _cross_view(inspected: Inspected, kind: str, layer: int | None, head: int | None) -> View:
    weights: Any = inspected.weights
    caption = all_weights_caption(inspected)
    if not weights:
        raise InvalidRequest(f"{inspected.name} answered nothing: there are no weights.")
    if kind not in WHOLE:
        layer, weights = _pick(weights, layer, head)
        caption = weights_caption(inspected, layer, head)
    return _view(kind, weights, inspected.source, inspected.rows, inspected.title, caption)


def _self_view(inspected: Inspected, kind: str, layer: int | None, head: int | None) -> View:
    found, words = self_attention(inspected)
    weights: Any = found
    which = f"{len(found)} layers of {len(found[0])} heads"
    if kind not in WHOLE:
        layer, weights = _pick(found, layer, head)
        which = position(layer, len(found), head, len(found[0]))
    return _view(kind, weights, words, words, inspected.title, self_attention_caption(inspected, which))


def _scored(inspected: Inspected, method: str) -> MatrixView:
    scores, caption = word_scores(inspected, method), scores_caption(inspected, method)
    view = views.words(scores, inspected.source, [inspected.said], title=inspected.title, caption=caption)
    return replace(view, note=OTHERS)


def _pick(layers: list[Tensor], layer: int | None, head: int | None) -> tuple[int, Tensor]:
    """The number of the layer, and its weights (m, n)."""
    for name, number, count in (("layer", layer, len(layers)), ("head", head, len(layers[0]))):
        if number is not None and not 0 <= number < count:
            raise OutOfRange(name, number, count)
    layer = len(layers) - 1 if layer is None else layer
    return layer, layers[layer].mean(0) if head is None else layers[layer][head]


def _view(
    kind: str, weights: Any, source: list[str], target: list[str], title: str, caption: str
) -> MatrixView:
    view: MatrixView = getattr(views, kind)(weights, source, target, title=title, caption=caption)
    return view


def picture_data(inspected: Inspected, options: Mapping[str, Value]) -> tuple[dict[str, Any], bool]:
    """What the browser draws for these options (of `controls`), and whether all layers and heads are in it.

    Each matrix in it has the options that it shows, and a caption.
    """
    method = options.get("method", ATTENTION)
    if method != ATTENTION:
        data = _scored(inspected, str(method)).data()
        data["maps"][0] |= {"options": dict(options), "caption": data["caption"]}
        return data, True
    layers, heads = len(inspected.weights), len(inspected.weights[0])
    every = [(layer, head) for layer in range(layers) for head in (None, *range(heads if heads > 1 else 0))]
    complete = len(every) * len(inspected.source) * len(inspected.rows) <= CELLS
    if not complete:
        every = [(options.get("layer", layers - 1), options.get("head"))]
    return _every_view(inspected, every, options), complete
