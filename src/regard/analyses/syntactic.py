"""Syntactic heads: a word attends to its head, or to one of its dependents, in one relation.

    score(r, up)   = share of the words with relation r whose highest weight is on their head
    score(r, down) = share of the words with a dependent of relation r whose highest weight is on such a one

Many relations hold mostly between neighbours, and any head that attends to these would score high. So the
baseline is the best score of one fixed neighbour, at most 5 away; a head has the role for r in a direction
if its score is 0.1 above that. Weights are those between words: `TokenizedText.by_word`.

Voita et al. (2019), arXiv:1905.09418, §5.2; after Raganato & Tiedemann (2018), "An Analysis of Encoder
Representations in Transformer-Based Machine Translation".
Departs from the paper: all relations that are frequent enough, without their subtypes; 0.1 is absolute.
"""

from collections import defaultdict

import torch
from torch import Tensor

from regard.analyses.role import REACH, RoleScores, checked, offsets
from regard.analyses.tokenized import TokenizedText

MORE = 0.1
ENOUGH = 50  # words of a relation, else it is left out
LEFT_OUT = ("root", "punct")


class Syntactic:
    """Counts highest weights along the arcs of trees, by relation and direction."""

    def __init__(self, enough: int = ENOUGH) -> None:
        if enough < 1:
            raise ValueError(f"enough must be at least 1; got {enough}.")
        self.enough = enough
        self.hits: dict[str, Tensor] = {}  # (layers, heads)
        self.counts: dict[str, int] = defaultdict(int)
        self.fixed: dict[str, Tensor] = defaultdict(lambda: torch.zeros(2 * REACH + 1))

    def see(self, weights: Tensor, text: TokenizedText) -> None:
        """Count one text, with weights (layers, heads, n, n)."""
        checked(weights, len(text.tokens))
        if text.sentence is None:
            raise ValueError("syntactic heads need trees: tokenize the sentences of a CoNLL-U file.")
        most = text.by_word(weights).argmax(-1)  # (layers, heads, w)
        here = torch.arange(most.shape[-1])
        for what, wanted in arcs(text).items():
            if what not in self.hits:
                self.hits[what] = torch.zeros(most.shape[:-1])
            self.hits[what] += wanted[here, most].sum(-1)
            self.counts[what] += int(wanted.any(-1).sum())
            self.fixed[what] += offsets(wanted)

    def found(self) -> list[RoleScores]:
        """Each relation in each direction, the most frequent first."""
        enough = [what for what, count in self.counts.items() if count >= self.enough]
        return [
            RoleScores(what, self.hits[what] / count, float(self.fixed[what].max()) / count, count)
            for what in sorted(enough, key=lambda what: (-self.counts[what], what))
            if (count := self.counts[what])
        ]

    def plays(self, finding: RoleScores) -> Tensor:
        """Which heads have the role: (layers, heads), bool."""
        return finding.scores >= finding.baseline + MORE


def arcs(text: TokenizedText) -> dict[str, Tensor]:
    """By relation and direction, which word (w, w) should attend to which."""
    tree = text.sentence
    assert tree is not None
    found: dict[str, Tensor] = {}
    for word, (head, relation) in enumerate(zip(tree.heads, tree.deprel, strict=True)):
        name = relation.split(":")[0]
        if head < 0 or name in LEFT_OUT:
            continue
        for what, (one, other) in {f"{name} ↑": (word, head), f"{name} ↓": (head, word)}.items():
            if what not in found:
                found[what] = torch.zeros(len(tree.heads), len(tree.heads), dtype=torch.bool)
            found[what][one, other] = True
    return found
