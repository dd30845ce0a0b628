"""regard view of a classifier: the words of a text by weight or explanation, or its self-attention."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.serve import ClassifierRun, Judged

KINDS = ["words", "heat_map", "lines", "heads", "layers"]
WHOLE = ("heads", "layers")  # these show all layers at once


def classified(
    run: "ClassifierRun",
    text: str,
    second: str | None,
    method: str | None,
    kind: str,
    layer: int | None,
    head: int | None,
) -> tuple[str, Any]:
    """What the run says of a text, and the view of it; layer and head from 1."""
    from regard.serve import judge
    from regard.serve.asked import CannotAsk

    if kind not in KINDS:
        raise CannotAsk(f"--kind {kind} is for translators; {run.name} is a classifier: {', '.join(KINDS)}.")
    if kind == "words" and layer is not None:
        raise CannotAsk("--layer goes with --kind heat_map and lines: words are looked over once.")
    if method is not None and (kind != "words" or head is not None):
        raise CannotAsk("--method colours the words: it goes with --kind words, without --head.")
    judged = judge(run, text, second=second)
    if not judged.probabilities:
        raise CannotAsk(f"{run.name} looked at nothing: there are no words.")
    said = f"{judged.label}  {judged.probabilities[judged.label]:.3f}"
    if kind == "words":
        return said, _words(judged, method or "attention", head, said)
    return said, _layers(judged, kind, layer, head, said)


def _words(judged: "Judged", method: str, head: int | None, said: str) -> Any:
    from regard.serve import scored
    from regard.serve.caption import words_caption
    from regard.serve.verdict import note_of
    from regard.views import words

    at = _from_0("--head", head, judged.run.looks)
    scores = scored(judged, method) if at is None else judged.over_words(at)
    caption = words_caption(judged, method, at)
    view = words(scores, judged.source, [judged.label], title=said, caption=caption)
    return replace(view, note=note_of(method))


def _layers(judged: "Judged", kind: str, layer: int | None, head: int | None, said: str) -> Any:
    from regard import views
    from regard.serve.stacked import stacked

    run, (found, words) = judged.run, stacked(judged)
    weights: Any = found
    which = f"{len(found)} layers of {len(found[0])} heads"
    if kind not in WHOLE:
        number, at = _from_0("--layer", layer, len(found)), _from_0("--head", head, len(found[0]))
        number = len(found) - 1 if number is None else number
        weights = found[number].mean(0) if at is None else found[number][at]
        which = f"layer {number + 1} of {len(found)}, "
        which += f"mean of {len(found[0])} heads" if at is None else f"head {at + 1} of {len(found[0])}"
    caption = (
        f"What the words looked at among themselves before {run.name} said {judged.label}: {which}, map "
        f"{run.map}; from pieces to words."
    )
    return getattr(views, kind)(weights, words, words, title=said, caption=caption)


def _from_0(name: str, number: int | None, count: int) -> int | None:
    from regard.serve.asked import CannotAsk

    if number is not None and number > count:
        raise CannotAsk(f"{name} must be from 1 to {count}; got {number}.")
    return None if number is None else number - 1
