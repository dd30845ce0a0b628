"""How good translations are: BLEU and chrF by sacrebleu, exact match, and BLEU by the length of the source.

Papineni et al. (2002), ACL (BLEU); Popović (2015), WMT (chrF); Post (2018), arXiv:1804.08771: sacrebleu, with
its default tokenisation, cased.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

EDGES = (10, 20, 30, 40, 60)  # words of the source up to which a group goes


@dataclass(frozen=True)
class Quality:
    """Scores of a set of translations."""

    bleu: float
    chrf: float
    exact_match: float
    by_length: dict[str, dict[str, float]]  # words of the source, for example "11-20": sentences, BLEU, exact
    sentences: int
    signature: str  # sacrebleu's, of BLEU


def quality(sources: Sequence[str], found: Sequence[str], wanted: Sequence[str]) -> Quality:
    """Score translations against one reference each."""
    if not len(sources) == len(found) == len(wanted):
        counts = f"{len(sources)}, {len(found)} and {len(wanted)}"
        raise ValueError(f"sources, translations and references must be equally many; got {counts}.")
    if not found:
        raise ValueError("there is nothing to score: no sentence was given.")
    bleu, chrf = _metrics()
    groups: dict[str, list[int]] = {}
    for i, source in enumerate(sources):
        groups.setdefault(_group(len(source.split())), []).append(i)
    by_length = {}
    for name in sorted(groups, key=lambda name: int(name.rstrip("+").split("-")[0])):
        ours, theirs = [found[i] for i in groups[name]], [wanted[i] for i in groups[name]]
        score = bleu.corpus_score(ours, [theirs]).score
        by_length[name] = {"sentences": len(ours), "bleu": score, "exact_match": exact(ours, theirs)}
    whole = bleu.corpus_score(found, [wanted])
    return Quality(
        bleu=whole.score,
        chrf=chrf.corpus_score(found, [wanted]).score,
        exact_match=exact(found, wanted),
        by_length=by_length,
        sentences=len(found),
        signature=str(bleu.get_signature()),
    )


def exact(found: Sequence[str], wanted: Sequence[str]) -> float:
    """The share of translations that are the reference, white space aside."""
    return sum(a.split() == b.split() for a, b in zip(found, wanted, strict=True)) / len(found)


def _group(words: int) -> str:
    low = 1
    for edge in EDGES:
        if words <= edge:
            return f"{low}-{edge}"
        low = edge + 1
    return f"{low}+"


def _metrics() -> tuple[Any, Any]:
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        raise ImportError("BLEU and chrF need sacrebleu: pip install 'regard[text]'") from None
    return BLEU(), CHRF()
