"""The settings of a run that trains a classifier."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from regard.core.errors import SettingsError
from regard.training import Training


@dataclass(frozen=True)
class Data:
    """Where the texts come from, and how they are cut into tokens."""

    corpus: str | None = None  # one that is generated: a name from regard.data.LABELLED
    texts: int = 20_000  # of the generated corpus
    train: str | None = None  # a .tsv or .jsonl of labelled texts (.gz too)
    valid: str | None = None  # without it, some texts are held out
    held_out: int = 1000  # texts, where there is no file to validate on (at most a tenth of all)
    tokens: Literal["bpe", "word", "character"] = "word"
    vocabulary: int = 20_000
    longest: int = 512  # tokens; longer texts are left out of training
    vectors: str | None = None  # of words, to begin with: a file in word2vec's or GloVe's text format
    fingerprint: str | None = None  # of the encoded texts: written by the run itself

    def __post_init__(self) -> None:
        if self.corpus is None and self.train is None:
            raise SettingsError("data.train (a file), or data.corpus, must be given.")
        if self.corpus is not None and (self.train is not None or self.valid is not None):
            raise SettingsError("data.corpus and data.train exclude each other; give one of them.")
        for name in ("texts", "held_out", "vocabulary", "longest"):
            if getattr(self, name) < 1:
                raise SettingsError(f"data.{name} must be at least 1; got {getattr(self, name)}.")


@dataclass(frozen=True)
class ClassifierTraining(Training):
    """Settings of the loop; the defaults suit sentences and a small model."""

    steps: int = 2000
    tokens: int = 1024
    optimiser: Literal["adam", "adamw"] = "adamw"
    rate: float = 2e-3
    schedule: Literal["inverse_sqrt", "cosine", "plateau", "constant"] = "cosine"
    warmup: int = 100
    decay: float = 0.01
    smoothing: float = 0.0
    validate: int = 200
    save: int = 200
    patience: int = 3
    average: int = 3


@dataclass(frozen=True)
class Remedies:
    """Strengths of the terms added to the loss; 0 is off (`regard.models.classifiers.regularizers`)."""

    tie: float = 0.0  # states to their words' vectors
    mlm: float = 0.0  # masked words are guessed from the states
    diversity: float = 0.0  # states must not all point the same way
    deceive: tuple[str, ...] = ()  # words that the model must not be seen to look at
    deceive_weight: float = 1.0

    def __post_init__(self) -> None:
        for name in ("tie", "mlm", "diversity", "deceive_weight"):
            if not 0 <= getattr(self, name) < math.inf:
                raise SettingsError(f"remedy.{name} must be at least 0; got {getattr(self, name)}.")

    @property
    def strengths(self) -> dict[str, float]:
        """Those that are wanted, by name."""
        every = {"tie": self.tie, "mlm": self.mlm, "diversity": self.diversity}
        if self.deceive:
            every["deceive"] = self.deceive_weight
        return {name: strength for name, strength in every.items() if strength}


@dataclass(frozen=True)
class ClassifierSettings:
    """All that is needed to repeat a run."""

    data: Data
    task: Literal["classification"] = "classification"
    seed: int = 1
    model: dict[str, Any] = field(default_factory=lambda: {"name": "attentive_bilstm"})
    training: ClassifierTraining = field(default_factory=ClassifierTraining)
    remedy: Remedies | None = None
