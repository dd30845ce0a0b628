"""KINDS: the planted models by name, whether each is faithful by construction, and how one is trained.

A model that did not become what its kind is (it did not learn, or shows what it should hide) says nothing
about the audit: another is trained, from the next of TRIES seeds, and `tries` says how many it took.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from regard.audits.planted.attending import BATCH, RATE, STEPS, Functions
from regard.audits.planted.planted_texts import Texts, texts
from regard.core.registry import Table
from regard.models.classifiers import ClassifierModel
from regard.tasks.case import Case, Trainable
from regard.tasks.classification import ClassificationTraining

TRIES = 6
LEARNED = 0.9  # accuracy


@dataclass(frozen=True)
class Made:
    """A trained model."""

    functions: Functions
    facts: dict[str, float] = field(default_factory=dict)  # measured inside it
    succeeded: bool = True  # whether it is what its kind is, besides having learned
    model: ClassifierModel | None = None  # what predicts, if it is a classifier of this project


Make = Callable[[Texts], Made]


@dataclass(frozen=True)
class Kind:
    """A kind of model, and whether it is faithful; None if that can only be measured."""

    name: str
    faithful: bool | None
    says: str  # one sentence
    make: Make


@dataclass(frozen=True, eq=False)
class Planted:
    """A model of a kind, with texts to audit it on."""

    kind: str
    seed: int
    faithful: bool | None
    made: Made
    texts: Texts
    accuracy: float
    tries: int

    def case(self, *, trains: bool = False) -> Case:
        """What is audited: the functions, and nothing else of the model.

        For tests that train: the training texts too, and the model that predicts, where it is one of this
        project. It is trained again as usual (a deceptive model does not tell how it was trained);
        `trained_adversary` starts from its predictions and weights.
        """
        predict, attention, intervene = self.made.functions
        more = {"labels": self.texts.test_labels, "train": self.trainable() if trains else None}
        return Case.from_functions(predict, attention, self.texts.test.tolist(), intervene=intervene, **more)

    def trainable(self) -> Trainable:
        """Texts to learn from, and about how the models of this project were trained on them (`fit`)."""
        tokens = BATCH * self.texts.tokens.shape[1]
        training = ClassificationTraining(
            steps=STEPS, rate=RATE, tokens=tokens, optimiser="adam", schedule="constant", warmup=0, decay=0.0
        )
        return Trainable(self.texts.tokens.tolist(), self.texts.labels, 2, self.made.model, training)


KINDS: Table[Kind] = Table("kind of planted model", {})


def register(name: str, *, faithful: bool | None) -> Callable[[Make], Make]:
    """Enter a function from texts to a model; its docstring is what the kind says."""

    def enter(make: Make) -> Make:
        KINDS.enter(name, Kind(name, faithful, (make.__doc__ or "").strip().split("\n", 1)[0], make))
        return make

    return enter


def plant(kind: str, seed: int) -> Planted:
    """A model of a kind, reproducible by its seed; the global random state is left as it was."""
    data, entry = texts(seed), KINDS[kind]
    for attempt in range(TRIES):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1000 * seed + attempt)
            made = entry.make(data)
        predicted = made.functions.predict(data.test.tolist()).argmax(-1)
        accuracy = float((predicted == data.test_labels).double().mean())
        if accuracy >= LEARNED and made.succeeded:
            return Planted(kind, seed, entry.faithful, made, data, accuracy, attempt + 1)
    raise RuntimeError(
        f"{kind}, seed {seed}: none of {TRIES} models became what it should; the last has accuracy "
        f"{accuracy:.2f} and {made.facts}."
    )
