"""Alignment error rate, precision and recall against gold links, sure S and possible P ⊇ S.

    precision = |A ∩ P| / |A|      recall = |A ∩ S| / |S|      AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

over all links of all sentences. 0 is perfect. Where all gold links are sure, AER is 1 − F₁.

Och & Ney (2003), "A Systematic Comparison of Various Statistical Alignment Models", Computational
Linguistics 29(1).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.alignment.links import Links


@dataclass(frozen=True)
class AlignmentScore:
    """How near links are to gold ones."""

    aer: float
    precision: float
    recall: float
    links: int  # found
    sentences: int


def score(found: Sequence[Links], gold: Sequence[Links], *, aligned_words: bool = False) -> AlignmentScore:
    """Score links; with `aligned_words`, those of words that gold leaves unaligned do not count."""
    if len(found) != len(gold):
        raise ValueError(f"found and gold must be as many; got {len(found)} and {len(gold)}.")
    count = sure = in_sure = in_possible = 0
    for one, other in zip(found, gold, strict=True):
        links = one.sure
        if aligned_words:
            ours, theirs = {i for i, _ in other.possible}, {j for _, j in other.possible}
            links = frozenset((i, j) for i, j in links if i in ours and j in theirs)
        count, sure = count + len(links), sure + len(other.sure)
        in_sure += len(links & other.sure)
        in_possible += len(links & other.possible)
    return AlignmentScore(
        aer=1 - (in_sure + in_possible) / (count + sure) if count + sure else 0.0,
        precision=in_possible / count if count else 1.0,
        recall=in_sure / sure if sure else 1.0,
        links=count,
        sentences=len(gold),
    )
