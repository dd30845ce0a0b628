"""Translation: a target sentence, token by token, given a source sentence.

    loss = −Σᵢ log p(yᵢ | y₁ … yᵢ₋₁, x)

by teacher forcing over the real tokens, EOS included. With label smoothing ε each target is (1 − ε) of itself
and ε of all tokens alike (Szegedy et al. 2016, arXiv:1512.00567, §7); validation is without it. Training
in both directions, and some structural biases, add to the loss (`structural_losses.py`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import concat_steps
from regard.core.errors import SettingsError
from regard.core.settings import SettingsGroup, file_setting, setting
from regard.core.tokens import BOS, EOS, PAD
from regard.data import CORPORA
from regard.data.batches import Batch
from regard.data.context_lines import LineTokenizer, last_lines, windows
from regard.data.copying import numbered, numbered_like
from regard.data.fields import Field, Row, token_field
from regard.data.splits import Part
from regard.data.text import pairs
from regard.data.tokenizer import Tokenizer
from regard.decoding import Limits
from regard.losses import trace
from regard.models import TRANSLATORS
from regard.models.both_directions import TwoWay, ahead_of
from regard.models.parts.biases import Biases
from regard.models.transformer import Config as TransformerConfig
from regard.recording import record
from regard.tasks.structural_losses import between_words, fertility
from regard.tasks.task import Located, Say, Task, TaskSettings
from regard.tasks.text_data import (
    SAMPLE,
    SOURCE,
    SOURCE_COLUMN,
    TARGET_COLUMN,
    PairEvaluation,
    PairFiles,
    TextData,
    examples,
    located,
    make_tokenizer,
)
from regard.training import Training

GENERATED = 20_000  # pairs of a generated corpus that a vocabulary is made from: all are alike


@dataclass(frozen=True)
class TranslationData(TextData):
    """Where the sentences come from, and how they are cut into tokens."""

    files = ("source", "target", "valid_source", "valid_target")

    pairs: int = setting(100_000, "Pairs of the generated corpus.", least=1)
    source: str | None = file_setting(SOURCE, "--source")
    target: str | None = file_setting("Their translations, line by line.", "--target")
    valid_source: str | None = file_setting(
        "Sentences to validate on; without them some are held out.", "--valid-source"
    )
    valid_target: str | None = file_setting("Their translations.", "--valid-target")
    source_column: str | None = setting(None, SOURCE_COLUMN, option="--source-column", metavar="NAME")
    target_column: str | None = setting(None, TARGET_COLUMN, option="--target-column", metavar="NAME")
    joint: bool = setting(True, "One vocabulary for both languages.")
    boundary: str = setting(
        "", "With --context: the line that stands between documents; an empty one always does."
    )


@dataclass(frozen=True)
class Decoding(SettingsGroup):
    """How translations are searched for."""

    group = "decoding"

    beam: int = setting(5, "Width of the beam; 1 is greedy.", least=1, below=1025)
    alpha: float = setting(1.0, "Length penalty.", least=0, below=100)
    coverage: float = setting(0.0, "Penalty for source tokens that got little weight.", least=0)
    scale: float = setting(
        1.5,
        "A target has at most scale · n + extra tokens, and at most `most`; n are the tokens that are read, "
        "with --context those of the sentences before, too.",
        least=0,
    )
    extra: int = setting(20, "See scale.", least=0)
    most: int = setting(1024, "See scale.", least=1, below=16_385)

    @property
    def limits(self) -> Limits:
        """How long a target may be."""
        return Limits(self.scale, self.extra, self.most)


@dataclass(frozen=True)
class TranslationSettings(TaskSettings):
    """All that is needed to repeat a run."""

    data: TranslationData
    task: Literal["translation"] = "translation"
    training: Training = setting(factory=Training)
    decoding: Decoding = setting(factory=Decoding)

    @property
    def copies(self) -> bool:
        """Whether the model copies words of the source."""
        return bool(self.model.get("copy", "no") != "no")

    @property
    def context(self) -> int:
        """How many sentences before are read with each."""
        return self.model.get("context") or 0

    def in_documents(self, found: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """Pairs of a file; with context, each source with those before it."""
        return windows(found, self.context, self.data.boundary) if self.context else found


@dataclass(frozen=True)
class PairColumns(PairFiles):
    """The same, with the columns of one file of pairs; as in training, unless they are given."""

    source_column: str | None = setting(None, SOURCE_COLUMN, metavar="NAME")
    target_column: str | None = setting(None, TARGET_COLUMN, metavar="NAME")

    def read(self, data: TranslationData) -> Iterator[tuple[str, str]]:
        """The pairs in the files."""
        assert self.source is not None
        names = [self.source_column, self.target_column]
        if self.target is None and names == [None, None]:
            names = [data.source_column, data.target_column]
        return pairs(self.source, self.target, *names)


@dataclass(frozen=True)
class TranslationEvaluation(PairColumns, PairEvaluation):
    """What `regard evaluate` asks of a translator."""

    beam: int | None = setting(None, "Width of the beam; 1 is greedy.")
    alpha: float | None = setting(None, "Length penalty.")


@dataclass(frozen=True)
class TranslationAudit(PairColumns):
    """What `regard audit` asks of a translator."""

    target: str | None = file_setting("Their translations; without them, the run's own.")
    seed: int = 0


@dataclass(frozen=True)
class Tokenizers:
    """Of source and target; the same one if they are joint."""

    source: Tokenizer
    target: Tokenizer

    def save(self, folder: Path) -> None:
        """Write tokenizer.json, or source.json and target.json."""
        if self.source is self.target:
            self.source.save(folder / "tokenizer.json")
        else:
            self.source.save(folder / "source.json")
            self.target.save(folder / "target.json")

    @classmethod
    def load(cls, folder: Path) -> "Tokenizers":
        """Those in a folder."""
        if (folder / "tokenizer.json").exists():
            both = Tokenizer.load(folder / "tokenizer.json")
            return cls(both, both)
        return cls(Tokenizer.load(folder / "source.json"), Tokenizer.load(folder / "target.json"))


class TranslationTask(Task):
    """From sentence pairs to a translator."""

    name = "translation"
    makes, examples, unit = "translator", "pairs", "tokens"
    Settings, Evaluation, Audit = TranslationSettings, TranslationEvaluation, TranslationAudit
    models, default_model = TRANSLATORS, "transformer"
    corpora, Parts = CORPORA, Tokenizers
    model_options: Mapping[str, str] = {
        **Task.model_options,
        "bias": "Structural bias: position, markov:K, fertility:K, global-fertility:γ, trace:γ; repeatable.",
        "copy": "Copy words of the source: by a gate or a sentinel.",
        "context": "Sentences before that are read with each; files are documents with empty lines between.",
    }
    command_examples = (
        "regard train translation --corpus phrases-de --steps 2000 --out runs/dates",
        "regard train translation --source train.en.gz --target train.de.gz --map entmax15 --out runs/en-de",
        "regard train translation --config en-de.toml --set training.rate=0.0005 --out runs/en-de --resume",
        "regard train translation --corpus phrases-fr --model luong --bias markov:2 --out runs/fr",
        "torchrun --nproc-per-node 2 -m regard train translation --config en-de.toml --out runs/en-de",
    )
    usage = (
        "regard translate DIR < in.txt > out.txt",
        "regard evaluate DIR --source test.src --target test.trg",
    )

    def read(self, settings: TranslationSettings, part: Part) -> Iterator[Located]:
        """Pairs (source, target)."""
        data = settings.data
        files = (data.source, data.target), (data.valid_source, data.valid_target)

        def read(source: str, target: str | None) -> Iterator[Located]:
            found = pairs(source, target, data.source_column, data.target_column)
            return located(source, settings.in_documents(found), "pair")

        found = examples(data, CORPORA, settings.seed, data.pairs, read, *files, part, "pair")
        if data.corpus is None:
            return found
        return ((where, (last_lines(pair[0], settings.context), pair[1])) for where, pair in found)

    def parts(self, settings: TranslationSettings, say: Say) -> Tokenizers:
        """Tokenizers made from the training pairs."""
        data = settings.data

        def made(*sides: int) -> Tokenizer:
            some = islice(self.read(settings, "train"), GENERATED if data.corpus else SAMPLE)
            return make_tokenizer((pair[side] for _, pair in some for side in sides), data, say)

        if data.joint:
            both = made(0, 1)
            return Tokenizers(both, both)
        return Tokenizers(made(0), made(1))

    def fields(self, settings: TranslationSettings, parts: Tokenizers) -> dict[str, Field]:
        """The tokens of both sentences; the target's end with EOS."""
        more = settings.data.longest if settings.copies else 0  # words with numbers beyond the vocabulary
        return {
            "source": token_field(len(parts.source) + more),
            "target": token_field(len(parts.target) + more),
        }

    def encode(
        self, settings: TranslationSettings, parts: Tokenizers, examples: Sequence[tuple[str, str]]
    ) -> list[Row | None]:
        sources, targets = [pair[0] for pair in examples], [pair[1] for pair in examples]
        if settings.copies:
            found = numbered(parts.source, sources)
            ours = [one.ids for one in found]
            theirs = numbered_like(parts.target, targets, [one.unknown for one in found])
        else:
            cut = LineTokenizer(parts.source, settings.context) if settings.context else parts.source
            ours, theirs = cut.encode_many(sources), parts.target.encode_many(targets)
        return [
            {"source": a, "target": [*b, EOS]} if a and b and one.strip() and two.strip() else None
            for one, two, a, b in zip(sources, targets, ours, theirs, strict=True)
        ]

    def longest(self, settings: TranslationSettings) -> dict[str, int]:
        longest, context = settings.data.longest, settings.context
        return {"source": longest + context * (longest + 1), "target": longest + 1}

    def scored(self, settings: TranslationSettings) -> int:
        return settings.data.held_out

    def sizes(self, settings: TranslationSettings, parts: Tokenizers | None) -> dict[str, Any]:
        sizes = (4, 4) if parts is None else (len(parts.source), len(parts.target))
        return dict(zip(("source_vocabulary", "target_vocabulary"), sizes, strict=True))

    def check(self, settings: TranslationSettings, model: nn.Module) -> None:
        if settings.copies and not settings.data.joint:
            raise SettingsError("model.copy needs one vocabulary for both sides: data.joint must be true.")
        config, needed = self.config_of(model), max(self.longest(settings).values())
        if (
            isinstance(config, TransformerConfig)
            and config.positions == "learned"
            and config.longest < needed
        ):
            of = f"of {settings.context + 1} sentences " if settings.context else ""
            raise SettingsError(
                f"model.longest must be at least {needed} {of}for data.longest={settings.data.longest}; "
                f"got {config.longest}."
            )

    def config_of(self, model: Any) -> Any:
        return ahead_of(model).config

    def build(self, settings: TranslationSettings, parts: Tokenizers | None) -> nn.Module:
        ahead: Any = super().build(settings, parts)
        together = Biases.of(settings.model.get("bias", ())).trace
        if together is None:
            model: nn.Module = ahead
            return model
        sizes = self.sizes(settings, parts)
        source, target = sizes.values()
        back: Any = self.make_model(settings, {"source_vocabulary": target, "target_vocabulary": source})
        return TwoWay(ahead, back, together)

    def loss(self, settings: TranslationSettings, model: Any, batch: Batch) -> tuple[Tensor, int]:
        """The sum of the smoothed losses of a batch, and the number of its target tokens."""
        smoothing = settings.training.smoothing
        if not isinstance(model, TwoWay):
            return _one_way(model, batch, smoothing)[:2]
        back = reversed_batch(batch)
        loss, tokens, ours = _one_way(model.ahead, batch, smoothing, recorded=True)
        their_loss, their_tokens, theirs = _one_way(model.back, back, smoothing, recorded=True)
        bonus = trace(between_words(ours, batch), between_words(theirs, back)).sum()
        return loss + their_loss - model.gamma * bonus, tokens + their_tokens

    def measure(self, model: Any, batch: Batch) -> tuple[dict[str, float], int]:
        """Loss, and how many tokens are the most likely one given those before."""
        model = ahead_of(model)
        hidden, wanted = real(model, batch)
        logits = model.logits(hidden)
        loss = F.cross_entropy(logits.float(), wanted, reduction="sum").item()
        return {"loss": loss, "accuracy": int((logits.argmax(-1) == wanted).sum())}, len(wanted)

    def system(
        self, model: Any, parts: Tokenizers, settings: TranslationSettings, folder: Path | None = None
    ) -> Any:
        """A translator; one trained in both directions has the other one as `reverse`."""
        from regard.tasks.translator import Translator

        if not isinstance(model, TwoWay):
            return Translator(model, parts, settings, folder)
        back = Translator(model.back, Tokenizers(parts.target, parts.source), settings)
        return Translator(model.ahead, parts, settings, folder, reverse=back)


def target_in(target: Tensor) -> Tensor:
    """What the decoder reads while it writes targets (b, m) that end with EOS: BOS, then all but the last."""
    read = F.pad(target, (1, -1), value=BOS)
    return read.masked_fill(read == EOS, PAD)


def reversed_batch(batch: Batch) -> Batch:
    """The same pairs from target to source."""
    source, target = batch["source"], batch["target"]
    words = target.masked_fill(target == EOS, PAD)[:, :-1]
    ended = F.pad(source, (0, 1), value=PAD)
    ended[torch.arange(len(source)), batch.lengths["source"]] = EOS
    lengths = {"source": batch.lengths["target"] - 1, "target": batch.lengths["source"] + 1}
    return replace(batch, fields={"source": words, "target": ended}, lengths=lengths)


def real(model: Any, batch: Batch) -> tuple[Any, Tensor]:
    """Hidden states (tokens, width) and targets (tokens,) of the positions that are not padding."""
    target = batch["target"]
    hidden = model(batch["source"], batch.lengths["source"], target_in(target))  # (b, m, width)
    there = target != PAD
    return hidden[there], target[there]


def _one_way(model: Any, batch: Batch, smoothing: float, recorded: bool = False) -> tuple[Tensor, int, Any]:
    """Loss, tokens, and the last source–target attention, if it is asked for or part of the loss."""
    if not recorded and model.expected is None:
        hidden, wanted = real(model, batch)
        return model.loss(hidden, wanted, smoothing), len(wanted), None
    path = model.attention_paths["cross"][-1]
    with record(model, path, grad=True) as calls:
        hidden, wanted = real(model, batch)
    seen = concat_steps(calls[path])
    loss = model.loss(hidden, wanted, smoothing) + fertility(model, seen, batch)
    return loss, len(wanted), seen


TRANSLATION = TranslationTask()
