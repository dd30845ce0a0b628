"""Alignment error: do the weights of a translator link the words that people linked?

    value = AER of the links that `regard align` reads from the weights        baseline = AER of the diagonal

It is plausibility, not faithfulness: it says whether the weights look right, not whether they were used.

Och & Ney (2003), "A Systematic Comparison of Various Statistical Alignment Models", Computational Linguistics
29(1), §6, for the error rate.
"""

from regard.audits.register import Finding, register
from regard.tasks.case import Case


@register(None, better="lower", needs="aligned")
def alignment_error(case: Case, *, seed: int = 0) -> Finding:
    """Compare the links of attention with gold ones."""
    assert case.aligned is not None
    from regard.alignment.error_rate import score
    from regard.alignment.links import Links

    system, pairs, gold = case.aligned
    pairs = pairs[: len(gold)]
    sizes = [(len(source.split()), len(target.split())) for source, target in pairs]
    found = system.align(pairs).links
    diagonal = [Links.of((min(n - 1, j * n // m), j) for j in range(m)) for n, m in sizes]
    each = [score([one], [links]).aer for one, links in zip(found, gold, strict=True)]
    return Finding(
        score(found, gold).aer,
        score(diagonal, gold).aer,
        None,
        len(gold),
        "alignment error rate of attention against gold links; baseline: of the diagonal",
        details={"AER": each},
    )
