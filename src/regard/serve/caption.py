"""What stands under a map: which attention it shows, and what was done to it."""

from collections.abc import Sequence

from regard.explanations import METHODS
from regard.serve.asked import How
from regard.serve.classifier_run import ClassifierRun
from regard.serve.judged import Judged
from regard.serve.run import Run


def caption(run: Run, layer: int, head: int | None) -> str:
    """Which attention of a run a map shows; layer and head from 0, without a head their mean."""
    which = f"layer {layer + 1} of {len(run.cross)}"
    if run.heads > 1:
        which += f", mean of {run.heads} heads" if head is None else f", head {head + 1} of {run.heads}"
    return (
        f"Where {run.name} looked in the source for each word it wrote: {which} ({run.cross[layer]}), "
        f"score {run.score}, map {run.map}. Weights on the pieces of a source word are added up, those of "
        "the pieces of a written word averaged; a weight of exactly 0 is not drawn."
    )


def words_caption(judged: Judged, method: str, look: int | None) -> str:
    """What the colours of the words of a text are; `look` is a query or head from 0, None their mean."""
    run, said = judged.run, f"{judged.label} ({judged.probabilities[judged.label]:.3f})"
    if method == "attention":
        which = ", then ".join(run.system.model.attention_paths["reader"])
        if run.looks > 1:
            which += f", mean of {run.looks} looks" if look is None else f", look {look + 1} of {run.looks}"
        of = " A word's weight is that in its sentence times that of the sentence." if _in_two(run) else ""
        return (
            f"Where {run.name} looked before it said {said}: {which}, score {run.score}, map {run.map}. "
            f"Weights on the pieces of a word are added up; a weight of exactly 0 is not drawn.{of}"
        )
    signs = " A score below 0, orange, speaks against it." if METHODS[method].signed else ""
    what = {
        "weights": "made of the weights of all layers",
        "values": "made of the weights and of what they are on",
        "gradients": "by how the answer would change with the words",
        "outputs": "by what the answer is without each word",
    }[METHODS[method].needs]
    return f"What {method} says of the words, after {run.name} said {said}: {what}.{signs}"


def _in_two(run: ClassifierRun) -> bool:
    """Whether it looks over the words of each sentence, then over sentences."""
    return len(run.system.model.attention_paths["reader"]) > 1


def change(name: str, paths: Sequence[str], how: How, words: Sequence[str]) -> str:
    """What was done to the text, in the attentions of these paths if it was not looked at."""
    if how == "as_it_is" or not words:
        return ""
    listed = ", ".join(f"“{word}”" for word in words)
    if how == "take_away":
        return f"{listed} left the sentence; {name} never read it."
    return (
        f"In {', '.join(paths)} the weight on {listed} is 0 and the rest is renormalised. Other states "
        "of the model may still carry it."
    )
