"""The words of a text by any explanation, under the same conditions as the answer that is explained."""

from torch import Tensor

from regard.data.segments import by_word
from regard.explanations import METHODS, explain
from regard.serve.asked import CannotAsk
from regard.serve.deadline import afford
from regard.serve.judged import Judged, erasing

FLOW = 1e-6  # seconds for a flow through one of n² edges of a layer, on a slow machine


def scored(judged: Judged, method: str) -> Tensor:
    """A score for each word that was read (n,), for the class that was said; pieces of a word add up.

    `CannotAsk` where the method has none to give.
    """
    run, question = judged.run, judged.question
    if method == "attention":
        return judged.over_words(None)
    if question.erased and (METHODS[method].needs == "outputs" or run.pairs):
        why = "a model of two texts shows" if run.pairs else f"{method}, which takes words away, leaves"
        raise CannotAsk(f"While a word is not looked at, {why} attention alone.")
    tokens, lengths, *second = judged.texts
    if method == "flow":
        _begin_flow(judged, tokens.shape[1])
    try:
        with erasing(run, question):
            scores = explain(
                run.system.model,
                tokens,
                lengths,
                method=method,
                **({"second": tuple(second)} if second else {}),
            )
    except ValueError as error:  # one word, and nothing is left without it
        raise CannotAsk(f"There is no score by {method}: {error}") from error
    if not bool(scores.isfinite().all()):
        raise CannotAsk(f"There is no score by {method}: it found no number.")
    return by_word(scores, question.pieces, [0])[0]


def _begin_flow(judged: Judged, n: int) -> None:
    """Flow is one piece of work that looks at no clock: it begins if it is likely to end in time."""
    run = judged.run
    rows = n if run.reader in run.layers else 1  # places at the top that flows begin at
    afford(FLOW * rows * n * n * (len(run.layers) + 1))
