"""Endless repetition: a target that repeats itself until the length limit ends it.

    in ein ein ein ein ein …  →  in ein

Such a target is cut after the first copy of what it repeats, and scored again. It is endless if the limit and
not the model ended it, and if its end is an n-gram at least 4 times in a row (at least 8 tokens) while
nothing in the source repeats as often: "ha ha ha ha ha" may be translated as it stands. Every other
hypothesis is left as it is, to the bit.
"""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from regard.decoding.beam import penalty
from regard.decoding.hypothesis import Decodable, Hypothesis, Limits
from regard.decoding.rescoring import rescore

TIMES, TOKENS = 4, 8  # the fewest copies in a row, and the fewest tokens in them


def cut_loops(
    model: Decodable, source: Tensor, lengths: Tensor, found: Sequence[Sequence[Hypothesis]],
    limits: Limits, alpha: float = 0.0,
) -> list[list[Hypothesis]]:  # fmt: skip
    """The hypotheses of each source (b, n) with lengths (b,), endless ones cut and scored; best first."""
    kept = [list(hypotheses) for hypotheses in found]
    for i, limit in enumerate(limits.of(lengths).tolist()):
        at_limit = [len(h.tokens) + 1 == limit for h in kept[i]]  # the limit counts EOS
        ends = [loop_end(h.tokens) if full else None for h, full in zip(kept[i], at_limit, strict=True)]
        if not any(ends) or repeats(source[i, : int(lengths[i])].tolist()):
            continue
        for j, end in enumerate(ends):
            if end:
                kept[i][j] = _cut(model, source[i : i + 1], lengths[i : i + 1], kept[i][j], end, alpha)
        kept[i].sort(key=lambda h: -h.score)
    return kept


def loop_end(tokens: Sequence[int]) -> int | None:
    """Where the first copy ends of the n-gram that the tokens end with again and again, or None."""
    for n in range(1, len(tokens) // TIMES + 1):
        start = len(tokens) - n
        while start > 0 and tokens[start - 1] == tokens[start - 1 + n]:
            start -= 1
        if len(tokens) - start >= max(TIMES * n, TOKENS):
            return start + n
    return None


def repeats(tokens: Sequence[int]) -> bool:
    """Whether an n-gram stands in them as often in a row as in a loop, at any place."""
    for n in range(1, len(tokens) // TIMES + 1):
        run = n  # tokens up to here of which each equals the one n before it
        for i in range(n, len(tokens)):
            run = run + 1 if tokens[i] == tokens[i - n] else n
            if run >= max(TIMES * n, TOKENS):
                return True
    return False


def _cut(
    model: Decodable, source: Tensor, lengths: Tensor, whole: Hypothesis, end: int, alpha: float
) -> Hypothesis:
    """A hypothesis cut at a place; what its score has beyond log p (coverage) stays."""
    tokens = whole.tokens[:end]
    (log_prob,) = rescore(model, source, lengths, [tokens])
    beyond = whole.score - whole.log_prob / penalty(len(whole.tokens) + 1, alpha)
    return replace(whole, tokens=tokens, log_prob=log_prob, score=log_prob / penalty(end + 1, alpha) + beyond)
