"""What stands under a map: which attention it shows, and what was done to it."""

from collections.abc import Sequence

from regard.serve.looked import How
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


def change(run: Run, how: How, words: Sequence[str]) -> str:
    """What was done to the sentence."""
    if how == "as_it_is" or not words:
        return ""
    listed = ", ".join(f"“{word}”" for word in words)
    if how == "take_away":
        return f"{listed} left the sentence; {run.name} never read it."
    return (
        f"In {', '.join(run.cross)} the weight on {listed} is 0 and the rest is renormalised. Other states "
        "of the model may still carry it."
    )
