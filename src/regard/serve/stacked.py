"""What the words of a text look at among themselves: the layers of a classifier that has some."""

from torch import Tensor

from regard.data.segments import by_word
from regard.serve.asked import CannotAsk
from regard.serve.judged import Judged, answered

FIRST = "(first)"  # the place before the words that read="first" puts there


def stacked(judged: Judged) -> tuple[list[Tensor], list[str]]:
    """Weights (heads, n, n) between words, of each layer, and the n words."""
    run, question = judged.run, judged.question
    if not run.layers:
        raise CannotAsk(f"{run.name} has no layers of self-attention: it looks over the words once.")
    _, seen = answered(run, question, judged.texts, run.layers)
    found, pieces, words = [], question.pieces, judged.source
    ahead = seen[run.layers[0]][-1].weights.shape[-1] - len(pieces)
    if ahead:
        pieces, words = [0, *(word + 1 for word in pieces)], [FIRST, *words]
    for path in run.layers:
        found.append(by_word(seen[path][-1].weights[0], pieces, pieces))  # (heads, n, n)
    return found, words
