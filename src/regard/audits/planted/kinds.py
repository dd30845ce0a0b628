"""KINDS: the planted models by name, whether each is faithful by construction, and how one is trained.

A model that did not become what its kind is (it did not learn, or shows what it should hide) says nothing
about the audit: another is trained, from the next of TRIES seeds, and `tries` says how many it took.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from regard.audits.planted.attending import BATCH, RATE, STEPS, Attending, Wrapper
from regard.audits.planted.planted_texts import Texts, texts
from regard.core.registry import Table
from regard.tasks.case import Case, Trainable
from regard.tasks.classification import ClassificationTraining

TRIES = 6
LEARNED = 0.9  # accuracy

Make = Callable[[Texts], Attending]
Arrange = Callable[[Texts, int], Texts]  # with the seed, for what is drawn


@dataclass(frozen=True)
class Kind:
    """A kind of model, and whether it is faithful; None if that can only be measured."""

    faithful: bool | None
    make: Make
    arrange: Arrange | None = None  # its texts, of the usual ones


@dataclass(frozen=True, eq=False)
class Planted:
    """A model of a kind, with texts to audit it on."""

    kind: str
    seed: int
    faithful: bool | None
    model: Attending
    texts: Texts
    accuracy: float
    tries: int

    def case(self, *, trains: bool = False) -> Case:
        """What is audited: the functions, and nothing else of the model.

        For tests that train: the training texts too, and the model that predicts, where it is one of this
        project. It is trained again as usual (a deceptive model does not tell how it was trained);
        `trained_adversary` starts from its predictions and weights.
        """
        model, given = self.model, self.texts.test.tolist()
        intervene = model.intervene if model.intervenes else None
        more = {"labels": self.texts.test_labels, "train": self.trainable() if trains else None}
        return Case.from_functions(model.predict, model.attention, given, intervene=intervene, **more)

    def trainable(self) -> Trainable:
        """Texts to learn from, and about how the models of this project were trained on them (`fit`)."""
        tokens = BATCH * self.texts.tokens.shape[1]
        training = ClassificationTraining(
            steps=STEPS, rate=RATE, tokens=tokens, optimiser="adam", schedule="constant", warmup=0, decay=0.0
        )
        model = self.model.model if isinstance(self.model, Wrapper) else None
        return Trainable(self.texts.tokens.tolist(), self.texts.labels, 2, model, training)


KINDS: Table[Kind] = Table("kind of planted model", {})


def register(name: str, *, faithful: bool | None, arrange: Arrange | None = None) -> Callable[[Make], Make]:
    """Enter a function from texts to a model."""

    def enter(make: Make) -> Make:
        KINDS.enter(name, Kind(faithful, make, arrange))
        return make

    return enter


def plant(kind: str, seed: int) -> Planted:
    """A model of a kind, reproducible by its seed; the global random state is left as it was."""
    data, entry = texts(seed), KINDS[kind]
    data = data if entry.arrange is None else entry.arrange(data, seed)
    for attempt in range(TRIES):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1000 * seed + attempt)
            model = entry.make(data).eval().requires_grad_(False)
            predicted = model.predict(data.test.tolist()).argmax(-1)
        accuracy = float((predicted == data.test_labels).double().mean())
        if accuracy >= LEARNED and model.succeeded:
            return Planted(kind, seed, entry.faithful, model, data, accuracy, attempt + 1)
    raise RuntimeError(
        f"{kind}, seed {seed}: none of {TRIES} models became what it should; the last has accuracy "
        f"{accuracy:.2f} and {model.facts}."
    )
