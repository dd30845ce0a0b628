"""Probing the layers of a run: the codelength of linguistic labels of words, given the hidden states.

Layer 0 is the input of the first layer, embeddings of tokens and positions: the baseline of all others. The
state of a word is the mean over its tokens.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.analyses.codelength import Codelength, by_frequency, online
from regard.analyses.conllu import Sentence
from regard.analyses.control_tasks import control_task
from regard.analyses.read_weights import states_of
from regard.analyses.tokenized import tokenize
from regard.analyses.variational import variational
from regard.core.errors import UnknownNameError
from regard.data.text import DataError

TASKS = ("upos", "xpos", "deprel")
CODES: dict[str, Callable[..., Codelength]] = {"online": online, "variational": variational}
Listener = Callable[[int, float], None]  # called with the layer and the share of it that is done


@dataclass(frozen=True, eq=False)
class ProbingData:
    """The words of all sentences: hidden states of every layer, labels, and the words themselves."""

    states: Tensor  # (1 + layers, N, d)
    labels: Tensor  # (N,)
    names: tuple[str, ...]  # of the labels
    words: list[str]

    @property
    def by_frequency(self) -> float:
        """The bits of the labels without the states."""
        return by_frequency(self.labels, len(self.names))


@dataclass(frozen=True)
class Probed:
    """The codelengths of one layer, for the labels and for those of a control task."""

    layer: int  # 0 is the input of the first
    real: Codelength
    control: Codelength

    @property
    def selectivity(self) -> float:
        """Accuracy on the labels minus accuracy on the control task."""
        return self.real.accuracy - self.control.accuracy


def probing_data(system: Any, sentences: Sequence[Sentence], task: str) -> ProbingData:
    """Hidden states of a run for the words of sentences, and the label of each word."""
    if task not in TASKS:
        raise UnknownNameError(f'no task "{task}". Known: {", ".join(TASKS)}.')
    texts = tokenize(system.tokenizer, sentences)
    by_number = {k: texts[k].mean(states) for k, states in states_of(system, texts)}
    read = sorted(by_number)
    labels = [label for k in read for label in getattr(sentences[k], task)]
    names = tuple(sorted(set(labels)))
    if "_" in names or len(names) < 2:
        raise DataError(f"{task} has nothing to learn: the labels are {', '.join(names[:5]) or 'none'}.")
    number = {name: k for k, name in enumerate(names)}
    return ProbingData(
        torch.cat([by_number[k] for k in read], 1),
        torch.tensor([number[label] for label in labels]),
        names,
        [word for k in read for word in sentences[k].words],
    )


def probe(
    words: ProbingData,
    *,
    code: str = "online",
    hidden: int = 128,
    seed: int = 0,
    listen: Listener | None = None,
) -> Iterator[Probed]:
    """Probe each layer from 0 on, by one of CODES, for the labels and for a control task."""
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
