"""A classifier's answer as plain types: what the page shows and the API gives."""

import math
from typing import Any

from regard.core.errors import UnknownNameError
from regard.explanations import METHODS
from regard.serve.answer import CELLS
from regard.serve.asked import CannotAsk
from regard.serve.caption import change, words_caption
from regard.serve.explaining import scored
from regard.serve.judged import Judged
from regard.views import words
from regard.views.shown_text import shown
from regard.views.base_view import NOTE

OTHERS = "A score says what one method finds in a model; others find other words."


def verdict(judged: Judged, method: str = "attention", head: int | None = None) -> dict[str, Any]:
    """Probabilities and words coloured by a method of METHODS; `head` is a query or head, of attention alone.

    Without a head it is their mean. Those of the others come along where there is room.
    """
    run, question = judged.run, judged.question
    _check(judged, method, head)
    every = [None, *range(run.looks)] if method == "attention" and run.looks > 1 else [None]
    whole = len(every) * len(judged.source) <= CELLS
    map, missing = None, ""
    if judged.probabilities:
        try:
            map = _drawn(judged, method, every if whole else [head])
        except CannotAsk as error:
            missing = str(error)
    return {
        "run": run.name,
        "how": judged.how,
        "words": [shown(word) for word in question.words],
        "gone": question.gone,
        "places": question.places,
        "answer": shown(judged.label),
        "answer_words": [shown(judged.label)] if judged.probabilities else [],
        "log_prob": math.log(judged.probabilities.get(judged.label, 1.0)),
        "probabilities": [
            {"label": shown(label), "probability": p} for label, p in judged.probabilities.items()
        ],
        "method": method,
        "change": shown(
            change(run.name, [run.reader], judged.how, [question.words[i] for i in question.gone])
        ),
        "map": map,
        "missing": shown(missing),
        "whole": whole,
    }


def _check(judged: Judged, method: str, head: int | None) -> None:
    run = judged.run
    try:
        METHODS[method]
    except UnknownNameError as error:
        raise CannotAsk(str(error)) from None
    if method not in run.methods:
        raise CannotAsk(f"{method} is not there: a package that it needs is not installed.")
    if head is not None and method != "attention":
        raise CannotAsk(f"head is for attention; {method} is of all of them.")
    if head is not None and not 0 <= head < run.looks:
        raise CannotAsk(f"head of {run.name} must be from 0 to {run.looks - 1}; got {head}.")


def _drawn(judged: Judged, method: str, which: list[int | None]) -> dict[str, Any]:
    """What the browser draws: the words by these looks, each with its own caption."""
    rows = [scored(judged, method) if look is None else judged.over_words(look) for look in which]
    named = {_name(look): row.unsqueeze(0) for look, row in zip(which, rows, strict=True)}
    data = words(named, judged.source, [judged.label]).data() | {"note": note_of(method)}
    for map, look in zip(data["maps"], which, strict=True):
        map |= {"head": look, "caption": shown(words_caption(judged, method, look))}
    return data


def note_of(method: str) -> str:
    """What else stands under the words: of weights what always does, of other scores what they are."""
    return NOTE if method == "attention" else OTHERS


def _name(look: int | None) -> str:
    return "" if look is None else f"look {look + 1}"
