"""Probing the layers of a run: how short a code for what linguists say of each word its states allow.

Layer 0 is what the first layer reads: vectors of tokens and positions, the yardstick of all others. A word's
state is the mean of its tokens' states.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.analyses.codelength import Codelength, by_frequency, online
from regard.analyses.conllu import Sentence
from regard.analyses.control_tasks import control_task
from regard.analyses.reading import states_of
from regard.analyses.tokenized import tokenize
from regard.analyses.variational import variational
from regard.core.errors import UnknownNameError
from regard.data.text import DataError

TASKS = ("upos", "xpos", "deprel")
CODES: dict[str, Callable[..., Codelength]] = {"online": online, "variational": variational}
Listener = Callable[[int, float], None]  # is told the layer and how much of it is done


@dataclass(frozen=True, eq=False)
class Words:
    """The words of all sentences: states of every layer, labels, and the words themselves."""

    states: Tensor  # (1 + layers, N, d)
    labels: Tensor  # (N,)
    names: tuple[str, ...]  # of the labels
    words: list[str]

    @property
    def by_frequency(self) -> float:
        """The bits of the labels for somebody who has no states."""
        return by_frequency(self.labels, len(self.names))


@dataclass(frozen=True)
class Probed:
    """What one layer allows, for the labels and for those of a control task."""

    layer: int  # 0 is what the first one reads
    real: Codelength
    control: Codelength

    @property
    def selectivity(self) -> float:
        """How much more accurate the probe is on real labels than on control ones."""
        return self.real.accuracy - self.control.accuracy


def words_of(system: Any, sentences: Sequence[Sentence], task: str) -> Words:
    """The words of sentences, read by a run, and what the task says of each."""
    if task not in TASKS:
        raise UnknownNameError(f'no task "{task}". Known: {", ".join(TASKS)}.')
    texts = tokenize(system.tokenizer, sentences)
    by_number = {k: texts[k].mean(states) for k, states in states_of(system, texts)}
    read = sorted(by_number)
    labels = [label for k in read for label in getattr(sentences[k], task)]
    names = tuple(sorted(set(labels)))
    if "_" in names or len(names) < 2:
        raise DataError(f"{task} says nothing to learn: the labels are {', '.join(names[:5]) or 'none'}.")
    number = {name: k for k, name in enumerate(names)}
    return Words(
        torch.cat([by_number[k] for k in read], 1),
        torch.tensor([number[label] for label in labels]),
        names,
        [word for k in read for word in sentences[k].words],
    )


def probe(
    words: Words, *, code: str = "online", hidden: int = 128, seed: int = 0, listen: Listener | None = None
) -> Iterator[Probed]:
    """Each layer from 0 on, by one of CODES, for the labels and for a control task."""
    if code not in CODES:
        raise UnknownNameError(f'no code "{code}". Known: {", ".join(CODES)}.')
    control, classes = control_task(words.words, words.labels, seed), len(words.names)
    for layer, states in enumerate(words.states):
        found: list[Codelength] = []
        for half, labels in enumerate((words.labels, control)):

            def heard(share: float, half: int = half, layer: int = layer) -> None:
                if listen is not None:
                    listen(layer, (half + share) / 2)

            found.append(CODES[code](states, labels, classes, hidden=hidden, seed=seed, listen=heard))
        yield Probed(layer, *found)
