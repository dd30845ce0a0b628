"""Control tasks: every word type gets a random label, which can only be memorised.

    control(word) ∼ the distribution of the real labels, once for each type
    selectivity = accuracy − accuracy on the control task

A probe that does as well on these as on the real labels has memorised words, and says nothing about the
states. Labels are drawn for types in order of occurrence, so that more sentences do not change those before.

Hewitt & Liang (2019), "Designing and Interpreting Probes with Control Tasks", arXiv:1909.03368, §2.
"""

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor


def control_task(words: Sequence[Hashable], labels: Tensor, seed: int = 0) -> Tensor:
    """Labels (N,) of a control task for words (N,): for each type a random one of the real labels."""
    if len(words) != len(labels) or not len(labels):
        raise ValueError(
            f"there must be a label for each word, and some; got {len(words)} and {len(labels)}."
        )
    chance = torch.Generator().manual_seed(seed)
    types = {word: number for number, word in enumerate(dict.fromkeys(words))}
    drawn = labels[torch.randint(len(labels), (len(types),), generator=chance)]
    return drawn[torch.tensor([types[word] for word in words])]
