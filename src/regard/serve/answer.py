"""A translator's answer as plain types: what the page shows and the API gives."""

from typing import Any

from regard.serve.asked import CannotAsk, How
from regard.serve.caption import caption, change
from regard.serve.looked import Looked
from regard.serve.run import Run
from regard.views import heat_map
from regard.views.shown_text import shown

CELLS = 1 << 17  # of all maps in one answer; where there are more, only the map asked for is in it


def answer(looked: Looked, how: How, layer: int | None = None, head: int | None = None) -> dict[str, Any]:
    """Answer and maps; without a layer (from 0) the last one is meant, without a head the mean of the heads.

    The other maps come along where there is room.
    """
    run = looked.run
    for name, chosen, count in (("layer", layer, len(run.cross)), ("head", head, run.heads)):
        if chosen is not None and not 0 <= chosen < count:
            raise CannotAsk(f"{name} of {run.name} must be from 0 to {count - 1}; got {chosen}.")
    every = [(at, which) for at in range(len(run.cross)) for which in (None, *range(run.heads))]
    if run.heads == 1:
        every = [(at, None) for at in range(len(run.cross))]
    chosen_one = (len(run.cross) - 1 if layer is None else layer, head if run.heads > 1 else None)
    whole = len(every) * len(looked.source) * len(looked.answer_words) <= CELLS
    return {
        "run": run.name,
        "how": how,
        "words": [shown(word) for word in looked.words],
        "gone": looked.gone,
        "places": looked.places,
        "answer": shown(looked.answer),
        "answer_words": [shown(word) for word in looked.answer_words],
        "log_prob": looked.log_prob,
        "change": shown(change(run.name, run.cross, how, [looked.words[i] for i in looked.gone])),
        "map": _drawn(looked, every if whole else [chosen_one]) if looked.weights else None,
        "whole": whole,
    }


def _drawn(looked: Looked, which: list[tuple[int, int | None]]) -> dict[str, Any]:
    """What the browser draws: these layers and heads, each with its own caption."""
    named = {name_of(looked.run, *one): looked.map_of(*one) for one in which}
    data = heat_map(named, looked.source, looked.answer_words).data()
    for map, (layer, head) in zip(data["maps"], which, strict=True):
        map |= {"layer": layer, "head": head, "caption": shown(caption(looked.run, layer, head))}
    return data


def name_of(run: Run, layer: int, head: int | None) -> str:
    """What a map is called."""
    mean = ", mean of heads" if run.heads > 1 else ""
    return f"layer {layer + 1}" + (mean if head is None else f", head {head + 1}")
