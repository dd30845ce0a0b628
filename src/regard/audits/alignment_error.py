"""Alignment error: do the weights of a translator link the words that people linked?

    value = AER of the links that `regard align` reads from the weights        yardstick = AER of the diagonal

It is plausibility, not faithfulness: it says whether the weights look right, not whether they were used.

Och & Ney (2003), "A Systematic Comparison of Various Statistical Alignment Models", Computational Linguistics
29(1), §6, for the error rate.
"""

from regard.alignment.links import Links
from regard.alignment.scorer import score
from regard.alignment.system import align
from regard.audits.case import Case
from regard.audits.finding import Finding, NotApplicable
from regard.audits.table import register


@register(None, better="lower")
def alignment_error(case: Case, *, seed: int = 0) -> Finding:
    """Compare the links of attention with gold ones."""
    if case.aligned is None:
        raise NotApplicable("there are no gold links between source and target")
    system, pairs, gold = case.aligned
    pairs = list(pairs[: len(gold)])
    found = align(system, pairs).links
    diagonal = [_diagonal(len(source.split()), len(target.split())) for source, target in pairs]
    each = [score([one], [links]).aer for one, links in zip(found, gold, strict=True)]
    return Finding(
        score(found, gold).aer,
        score(diagonal, gold).aer,
        None,
        len(gold),
        "alignment error rate of attention against gold links; yardstick: of the diagonal",
        details={"AER": each},
    )


def _diagonal(n: int, m: int) -> Links:
    return Links.of((min(n - 1, j * n // m), j) for j in range(m))
