"""The settings of a run: what a configuration file may hold, and `--set` may change."""

from dataclasses import dataclass, field
from typing import Any, Literal

from regard.core.errors import SettingsError
from regard.decoding import Limits
from regard.training import Training


@dataclass(frozen=True)
class Data:
    """Where the sentences come from, and how they are cut into tokens."""

    corpus: str | None = None  # one that is generated: a name from regard.data.CORPORA
    pairs: int = 100_000  # of the generated corpus
    source: str | None = None  # files of sentences, plain or .gz; or one .tsv or .jsonl of pairs
    target: str | None = None
    valid_source: str | None = None  # without them, some pairs are held out
    valid_target: str | None = None
    held_out: int = 1000  # pairs, where there are no files to validate on (at most a tenth of all)
    tokens: Literal["bpe", "word", "character"] = "bpe"
    vocabulary: int = 8000
    joint: bool = True  # one vocabulary for both languages
    longest: int = 256  # tokens; longer pairs are left out
    fingerprint: str | None = None  # of the encoded pairs: written by the run itself

    def __post_init__(self) -> None:
        if self.corpus is None and self.source is None:
            raise SettingsError("data.source and data.target (files), or data.corpus, must be given.")
        if self.corpus is not None and self.source is not None:
            raise SettingsError("data.corpus and data.source exclude each other; give one of them.")
        for name in ("pairs", "held_out", "vocabulary", "longest"):
            if getattr(self, name) < 1:
                raise SettingsError(f"data.{name} must be at least 1; got {getattr(self, name)}.")


@dataclass(frozen=True)
class Decoding:
    """How sentences are written."""

    beam: int = 5  # 1 is greedy
    alpha: float = 1.0  # length penalty
    coverage: float = 0.0
    scale: float = 1.5  # a target is at most scale · n + extra tokens, and at most `most`
    extra: int = 20
    most: int = 1024

    def __post_init__(self) -> None:
        for name in ("beam", "most"):
            if getattr(self, name) < 1:
                raise SettingsError(f"decoding.{name} must be at least 1; got {getattr(self, name)}.")
        for name in ("alpha", "coverage", "scale", "extra"):
            if not getattr(self, name) >= 0:
                raise SettingsError(f"decoding.{name} must be at least 0; got {getattr(self, name)}.")

    @property
    def limits(self) -> Limits:
        """How long a target may be."""
        return Limits(self.scale, self.extra, self.most)


@dataclass(frozen=True)
class Settings:
    """All that is needed to repeat a run."""

    data: Data
    task: Literal["translation"] = "translation"
    seed: int = 1
    model: dict[str, Any] = field(default_factory=lambda: {"name": "transformer"})  # and what its Config has
    training: Training = field(default_factory=Training)
    decoding: Decoding = field(default_factory=Decoding)
