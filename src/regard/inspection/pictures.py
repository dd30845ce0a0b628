"""Views of an inspected answer: one picture for a file or notebook, and all of them as data for the page.

Weights between answer and text are drawn as the system says (`System.picture`). Where that is the words of
the text, other kinds show self-attention among these words.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from torch import Tensor

from regard import views
from regard.inspection import captions
from regard.inspection.control import LEFT_OUT, Value, controls, resolve_options
from regard.inspection.inspected import (
    ANSWER,
    TEXT,
    Inspected,
    InvalidRequest,
    OutOfRange,
    self_attention,
    showing,
    without_sink,
)
from regard.inspection.method_scores import ATTENTION, decision_scores
from regard.views.base_view import MatrixView, View
from regard.views.ellipses import Ellipse
from regard.views.shown_text import shown as clean

DRAWN: list[Callable[..., Any]] = [
    views.heat_map, views.lines, views.words, views.steps, views.heads, views.layers, views.image,
]  # fmt: skip
KINDS = {drawn.__name__: drawn for drawn in DRAWN}
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
    sink: bool = True,
    attention: str | None = None,
    links: Iterable[tuple[int, int]] = (),
) -> View:
    """A view of one of KINDS; layer and head from 0, without them the last layer and the mean of its heads.

    `attention` is one of `System.attentions`, as encoder, decoder or cross; default: from answer to text.

    `method`, of METHODS, colours words by its scores instead of by weights. With sink=False the weight on the
    first token, which decoders look at whatever it is, is left out, and the rest renormalised. `links`, pairs
    of a word of the text and a word of the answer, counted from 0, are outlined in a heat map.
    """
    system = inspected.system
    links = tuple(links)
    if not sink and not system.sinks:
        raise InvalidRequest(f"{inspected.name} is no decoder: there is no sink to leave out.")
    if attention is not None and attention not in system.attentions:
        known = ", ".join(system.attentions) or "one alone"
        raise InvalidRequest(f'no attention "{attention}" of {inspected.name}. Known: {known}.')
    inspected = showing(inspected, attention)
    inspected = inspected if sink else without_sink(inspected)
    among = attention in (*TEXT, ANSWER)  # words of one text
    kind = kind or ("heat_map" if among else system.picture)
    if links and (kind != "heat_map" or among or method is not None or system.picture == "words"):
        raise InvalidRequest("links are drawn in a heat map of the weights from answer to text.")
    if kind not in KINDS:
        raise InvalidRequest(f'no kind "{kind}". Known: {", ".join(KINDS)}.')
    chosen = layer is not None or head is not None
    if kind == "image" and system.picture != "image":
        raise InvalidRequest(f"kind image is for systems that look at pictures; {inspected.name} does not.")
    if kind in WHOLE and chosen:
        raise InvalidRequest(f"kind {kind} shows all layers: layer and head are for the others.")
    if inspected.answer is None:
        raise InvalidRequest(f"{inspected.name} attended to nothing: there are no words.")
    if method is not None:
        resolve_options(controls(system), {"method": method})
    if method not in (None, ATTENTION):
        if kind not in ("words", "image") or chosen:
            raise InvalidRequest("method colours the words: it goes with kind words, without layer and head.")
        return _scored(inspected, method)
    if not system.layers:
        raise InvalidRequest(f"{inspected.name} has no attention.")
    cross = among or kind == "words" or system.picture != "words"  # else self-attention is shown
    if kind == "steps" and not cross:
        others = ", ".join(one for one in KINDS if one != kind)
        raise InvalidRequest(
            f"kind steps is for answers of several words; of {inspected.name} there is {others}."
        )
    if cross and not inspected.weights:
        raise InvalidRequest(f"{inspected.name} answered nothing: there are no weights.")
    found, source = (inspected.weights, inspected.source) if cross else self_attention(inspected)
    weights: Any = found
    which = f"{len(found)} layers of {len(found[0])} heads"
    if kind not in WHOLE:
        layer, weights = _pick(found, layer, head)
        which = captions.position(layer, len(found), head, len(found[0]))
    if cross and not among:
        caption = captions.weights_caption(inspected, layer, head)
    else:
        caption = captions.self_attention_caption(inspected, which, of_answer=attention == ANSWER)
    caption += (not sink) * captions.NO_SINK
    rows, ahead = inspected.rows if cross else source, len(source) - len(inspected.source)
    said: dict[str, Any] = {"title": inspected.title, "caption": caption}
    if kind == "image" and layer is not None and (found_ellipses := _ellipses(inspected, [layer])):
        said |= {"ellipses": found_ellipses, "caption": caption + captions.DENSITY}
    if links:
        said["links"] = links
    view = _view(inspected, kind, weights, source, rows, **said)
    return replace(view, unknown=() if attention == ANSWER else _unknown(inspected, ahead))


def _view(
    inspected: Inspected, kind: str, weights: Any, source: list[str], rows: list[str], **said: Any
) -> MatrixView:
    """A view of one of KINDS; where pictures were looked at, over the picture."""
    if kind != "image":
        view: MatrixView = KINDS[kind](weights, source, rows, **said)
        return view
    system = inspected.system
    picture, seen = system.drawn_picture(inspected.answer), system.receptive
    return views.image(weights, picture, rows, grid=system.grid, receptive=seen, **said)


def _ellipses(inspected: Inspected, layers: list[int]) -> list[list[Ellipse]]:
    """Of each of these layers the density over the picture for each word, where there are any.

    Masking takes weights away after the density: it is not shown then.
    """
    found = [] if inspected.masked else inspected.system.densities(inspected.answer)
    word_of = inspected.system.answer_segments(inspected.answer).word_of if found else []
    firsts = [word_of.index(word) for word in range(len(inspected.rows))] if found else []
    return [[found[layer][row] for row in firsts] for layer in layers] if found else []


def _scored(inspected: Inspected, method: str) -> MatrixView:
    scores, caption = decision_scores(inspected, method), captions.scores_caption(inspected, method)
    if inspected.system.picture == "image":  # what speaks against the answer is left as it is
        shares = scores.clamp(min=0) / scores.abs().sum(-1, keepdim=True).clamp(min=1e-12)
        over = _view(inspected, "image", shares, [], inspected.rows, title=inspected.title)
        return replace(over, caption=caption, note=OTHERS)
    view = views.words(scores[0], inspected.source, [inspected.said], shares=True, title=inspected.title)
    return replace(view, caption=caption, note=OTHERS, unknown=_unknown(inspected))


def _unknown(inspected: Inspected, ahead: int = 0) -> tuple[int, ...]:
    """Columns of the words that the model does not know, so many positions standing before the words."""
    return tuple(ahead + inspected.columns.index(word) for word in inspected.unknown)


def _pick(layers: list[Tensor], layer: int | None, head: int | None) -> tuple[int, Tensor]:
    """The number of the layer, and its weights (m, n)."""
    for name, number, count in (("layer", layer, len(layers)), ("head", head, len(layers[0]))):
        if number is not None and not 0 <= number < count:
            raise OutOfRange(name, number, count)
    layer = len(layers) - 1 if layer is None else layer
    return layer, layers[layer].mean(0) if head is None else layers[layer][head]


def picture_data(inspected: Inspected, options: Mapping[str, Value]) -> tuple[dict[str, Any] | None, bool]:
    """What the browser draws for these options (of `controls`), and whether all layers and heads are in it.

    Each matrix in it has the options that it shows, and a caption. None where nothing was read or answered.
    """
    if not inspected.system.layers:
        raise InvalidRequest(f"{inspected.name} has no attention to draw.")
    if not inspected.weights:
        return None, True
    method = options.get("method", ATTENTION)
    if method != ATTENTION:
        data = _scored(inspected, str(method)).data()
        data["matrices"][0] |= {"options": dict(options), "caption": data["caption"]}
        return data, True
    left_out, name = options.get("sink") == LEFT_OUT, options.get("attention")
    inspected = showing(inspected, None if name is None else str(name))
    inspected = without_sink(inspected) if left_out else inspected
    layers, heads = len(inspected.weights), len(inspected.weights[0])
    every = list(product(range(layers), (None, *range(heads)) if heads > 1 else (None,)))
    complete = len(every) * len(inspected.source) * len(inspected.rows) <= CELLS
    if not complete:
        wanted = {"layer": layers - 1, "head": None, **options}
        layer = wanted["layer"] if layers > 1 else 0
        every = [one for one in every if one == (layer, wanted["head"])]
    if not every:
        raise InvalidRequest(f"this attention has {layers} layers of {heads} heads.")
    named = {_name(*one, layers, heads): inspected.matrix(*one) for one in every}
    kind = "heat_map" if name in (*TEXT, ANSWER) else inspected.system.picture
    ellipses = _ellipses(inspected, [layer for layer, _ in every]) if kind == "image" else []
    said = {"ellipses": ellipses} if ellipses else {}
    view = _view(inspected, kind, named, inspected.source, inspected.rows, **said)
    data = replace(view, unknown=() if name == ANSWER else _unknown(inspected)).data()
    for matrix, (layer, head) in zip(data["matrices"], every, strict=True):
        chosen = {"layer": options.get("layer", layer) if layers == 1 else layer, "head": head}
        shown = {name: chosen.get(name, value) for name, value in options.items()}
        matrix |= {
            **chosen,
            "options": shown,
            "caption": clean(
                _caption(inspected, name, layer, head)
                + left_out * captions.NO_SINK
                + bool(ellipses) * captions.DENSITY
            ),
        }
    return data, complete


def _caption(inspected: Inspected, name: Value, layer: int, head: int | None) -> str:
    if name not in (*TEXT, ANSWER):
        return captions.weights_caption(inspected, layer, head)
    which = captions.position(layer, len(inspected.weights), head, len(inspected.weights[0]))
    return captions.self_attention_caption(inspected, which, of_answer=name == ANSWER)


def _name(layer: int, head: int | None, layers: int, heads: int) -> str:
    """What a matrix is called among the others."""
    parts = [f"layer {layer + 1}"] if layers > 1 else []
    if heads > 1:
        parts.append("mean of heads" if head is None else f"head {head + 1}")
    return ", ".join(parts)
