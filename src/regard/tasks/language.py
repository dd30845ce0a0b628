"""Language: what comes next in a text.

    loss = −Σ_t log p(w_t | w_1 … w_{t−1})

A text is one long sequence of tokens, on disk and memory-mapped, read in rows that go on from batch to batch
(`data/streams.py`). With the objective "masked", some tokens are hidden and predicted from both sides instead
(`models/language/bert.py`). Without a file to validate on, stretches from all over the text are held out: its
end alone may be another chapter, of which the model would then know nothing.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, Literal

from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.errors import SettingsError, UnknownNameError
from regard.core.settings import file_setting, setting
from regard.data.batches import Batch
from regard.data.corpora import RUNNING
from regard.data.encoded import Encoded
from regard.data.fields import Field, Row, token_field
from regard.data.running_text import blocks, count_characters
from regard.data.splits import Part
from regard.data.text import DataError
from regard.data.text_codec import TextCodec
from regard.data.tokenizer import Tokenizer
from regard.models.language import LANGUAGE_MODELS
from regard.models.language.language_model import detached
from regard.tasks.language_defaults import filled
from regard.tasks.task import Located, Say, Task, TaskData, TaskParts, TaskSettings
from regard.tasks.text_data import make_tokenizer
from regard.training import CosineTraining
from regard.training.processes import Team
from regard.training.rank_streams import RankStreams, StreamBatch

SAMPLE = 1 << 16  # blocks a vocabulary is made from
WHOLE = 1 << 18  # characters that are scored as one text after training
HELD_OUT = 50_000  # characters of a text of a user's that are held out at most, unless told otherwise
STRETCHES, SHORTEST = 10, 1000  # stretches that are held out at most, and their characters at least
VOCABULARY = {"bpe": 8000, "word": 50_000, "character": 50_000}
SCORED = 4  # such texts at most
VALIDATED = 16  # batches that a validation in training reads at most


@dataclass(frozen=True)
class LanguageData(TaskData):
    """Where the text comes from, and how it is cut into tokens."""

    sentences: int = setting(20_000, "Sentences of the generated text.", least=1)
    train: str | None = file_setting("A text (.gz too), of any size.", "--data")
    valid: str | None = file_setting("Another to validate on; without it some is held out.", "--valid")
    held_out: float = setting(
        0.0,
        "The share to validate on, stretches from all over the text, where no file is given; 0 = a tenth, "
        f"but at most {HELD_OUT:,} characters.",
        least=0,
        below=1,
    )
    tokens: Literal["character", "bpe", "word"] = setting(
        "character", "How text is cut into tokens: character, bpe or word.", option="--tokens"
    )
    vocabulary: int = setting(
        0, "Different tokens at most; 0 = 8,000 subwords, or 50,000 words or characters.", least=0
    )
    seen: int = setting(2, "How often a word must be seen to be a token, with tokens word.", least=1)


@dataclass(frozen=True)
class LanguageTraining(CosineTraining):
    """Settings of the loop; what suits the model and the text is in `language_defaults.py`."""

    steps: int = setting(
        4500, "Steps of training; unless given, as suits the model and the text.", option="--steps", least=1
    )
    tokens: int = setting(1024, "Tokens in a batch.", least=1)
    segment: int = setting(
        0, "Tokens of a row of a batch, which are read at once; 0 = as suits the model.", least=0
    )
    rate: float = 2.5e-3
    warmup: int = 200
    decay: float = 0.1

    @property
    def rows(self) -> int:
        """Rows of a batch."""
        return self.tokens // self.segment

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.examples:
            raise SettingsError(
                "training.examples counts examples, and a text has none: its batches have "
                "training.tokens / training.segment rows."
            )
        if self.tokens < self.segment:
            raise SettingsError(
                f"training.tokens must be at least training.segment={self.segment}; got {self.tokens}."
            )


@dataclass(frozen=True)
class LanguageSettings(TaskSettings):
    data: LanguageData = setting(factory=LanguageData)
    task: Literal["language"] = "language"
    objective: Literal["next", "masked"] = setting(
        "next", "next: predict the next token; masked: predict hidden ones (bert).", option="--objective"
    )
    training: LanguageTraining = setting(factory=LanguageTraining)


@dataclass(frozen=True)
class LanguageEvaluation:
    """What `regard evaluate` asks of a language model."""

    data: str | None = file_setting("A text (.gz too), of any size.")
    context: int | None = setting(None, "Tokens that are read at once; as in training unless given.")


@dataclass(frozen=True)
class LanguageAudit:
    """What `regard audit` asks of a language model."""

    data: str | None = file_setting("Texts, one per line: what is audited is the token after each.")


@dataclass(frozen=True)
class LanguageParts(TaskParts):
    """The tokenizer."""

    tokenizer: Tokenizer

    @cached_property
    def codec(self) -> TextCodec:
        """The same for running text."""
        return TextCodec(self.tokenizer)


class LanguageTask(Task):
    """From a text to a model of it."""

    name = "language"
    makes, examples, unit = "language model", "blocks of text", "tokens"
    Settings, Evaluation, Audit = LanguageSettings, LanguageEvaluation, LanguageAudit
    models, default_model = LANGUAGE_MODELS, "gpt"
    corpora, Parts = RUNNING, LanguageParts
    command_examples = (
        "regard train language --out runs/toy",
        "regard train language --data text.txt --model gpt --out runs/text",
        "regard train language --data text.txt.gz --tokens word --model recurrent --out runs/words",
        "regard train language --data text.txt --model gpt --map entmax15 --out runs/sparse",
    )
    usage = (
        'regard generate DIR --prompt "the "',
        "regard evaluate DIR --data other.txt",
    )

    def read(self, settings: LanguageSettings, part: Part) -> Iterator[Located]:
        """The text in blocks; that to validate on in a few large ones, which are scored as they are."""
        data, size = settings.data, WHOLE if part == "valid" else 0
        if data.train is None:
            made = self._corpus(data)(settings.seed, part)
            count = (
                data.sentences if part == "train" else max(1, round(data.sentences * (data.held_out or 0.1)))
            )
            texts = islice(made, count)
            return _located(data.corpus or "grammar", _grouped(texts, size) if size else texts)
        size = size or min(4096, WHOLE)
        if data.valid is not None:
            file = data.train if part == "train" else data.valid
            return _located(file, blocks(file, size))
        characters = count_characters(data.train)
        share = data.held_out or min(0.1, HELD_OUT / max(characters, 1))
        train, valid = _stretches(characters, max(1, round(characters * share)))
        if not train:
            raise DataError(f"{data.train} has {characters} characters: too few to hold some of them out.")
        if part == "train":
            return _located(data.train, blocks(data.train, size, *train))
        return _located(data.train, _grouped(blocks(data.train, size, *valid), size))

    def _corpus(self, data: LanguageData) -> Any:
        try:
            return RUNNING[data.corpus or "grammar"]
        except UnknownNameError as error:
            raise SettingsError(str(error)) from None

    def parts(self, settings: LanguageSettings, say: Say) -> LanguageParts:
        """The tokenizer, made from the text to train on."""
        data, texts = settings.data, (text for _, text in islice(self.read(settings, "train"), SAMPLE))
        if data.tokens == "word":
            counted = Counter(word for text in texts for word in text.split())
            kept = sum(count >= data.seen for count in counted.values())
            data = replace(data, vocabulary=min(data.vocabulary, max(kept, 1) + 4))
            texts = (text for _, text in islice(self.read(settings, "train"), SAMPLE))
        tokenizer = make_tokenizer(texts, data, say)
        return LanguageParts(tokenizer)

    def fields(self, settings: LanguageSettings, parts: LanguageParts) -> dict[str, Field]:
        return {"tokens": token_field(len(parts.tokenizer))}

    def encode(
        self, settings: LanguageSettings, parts: LanguageParts, examples: Sequence[str]
    ) -> list[Row | None]:
        return [{"tokens": ids} if ids else None for ids in parts.codec.encode_many(examples)]

    def scored(self, settings: LanguageSettings) -> int:
        return SCORED

    def check_encoded(self, settings: LanguageSettings, encoded: Encoded, part: Part) -> None:
        """The text to train on must be longer than a segment, that to validate on must have two tokens."""
        found, segment = len(encoded.values["tokens"]), settings.training.segment
        name = "train on" if part == "train" else "validate on"
        least = segment + 1 if part == "train" else 2
        if found < least:
            raise SettingsError(
                f"the text to {name} has {found:,} tokens, and at least {least:,} are needed: a segment and "
                f"the token after it. Give more text, or a shorter training.segment (now {segment})."
            )

    def batches(self, settings: LanguageSettings, encoded: Encoded, team: Team) -> RankStreams:
        training, found = settings.training, len(encoded.values["tokens"])
        rows = min(
            training.rows, max(1, (found - 1) // max(training.segment, 2))
        )  # a short text fills fewer rows
        rows = max(rows // team.size, 1) * team.size
        shuffled = not LANGUAGE_MODELS[settings.model["name"]].kind.carries
        return RankStreams(encoded, rows, training.segment, settings.seed, team, shuffled=shuffled)

    def validation(self, settings: LanguageSettings, encoded: Encoded) -> Iterator[Batch]:
        training, found = settings.training, len(encoded.values["tokens"])
        rows = max(1, min(training.rows, (found - 1) // max(training.segment, 2)))
        segment = min(training.segment, found - 1)
        most = rows * segment * VALIDATED + 1
        return RankStreams(encoded, rows, segment, most=most).epoch(0)

    # The model

    def sizes(self, settings: LanguageSettings, parts: LanguageParts | None) -> dict[str, Any]:
        return {"vocabulary": 8 if parts is None else len(parts.tokenizer)}

    def filled(self, values: dict[str, Any]) -> dict[str, Any]:
        """As for every task; the model for masked tokens is bert, and training also suits the text."""
        model = values.get("model", {})
        if values.get("objective") == "masked" and isinstance(model, Mapping) and "name" not in model:
            values = {**values, "model": {"name": "bert", **model}}
        return filled(super().filled(values), values.get("training") or {}, self.default_model)

    def complete(self, settings: LanguageSettings) -> LanguageSettings:
        kind = LANGUAGE_MODELS[settings.model["name"]].kind
        if not kind.causal:
            settings = replace(settings, objective="masked")
        if not (data := settings.data).vocabulary:
            settings = replace(settings, data=replace(data, vocabulary=VOCABULARY[data.tokens]))
        if settings.training.segment:
            return settings
        segment = min(kind.suits["segment"], settings.training.tokens)
        return replace(settings, training=replace(settings.training, segment=segment))

    def check(self, settings: LanguageSettings, model: nn.Module) -> None:
        name = settings.model["name"]
        if settings.objective == "masked" and LANGUAGE_MODELS[name].kind.causal:
            raise SettingsError(
                f'objective "masked" is for a model that sees both sides, as bert; {name} sees one.'
            )
        longest = getattr(model, "longest", None)
        if longest is not None and longest < settings.training.segment:
            raise SettingsError(
                f"model.longest must be at least training.segment={settings.training.segment}; got {longest}."
            )

    # Training

    def loss(self, settings: LanguageSettings, model: Any, batch: Any) -> tuple[Tensor, int]:
        """The sum of −log p of the tokens of a batch, and how many they are."""
        hidden, wanted = predicted(model, batch)
        loss = model.loss(hidden, wanted, settings.training.smoothing)
        penalty = model.penalty()
        return loss if penalty is None else loss + penalty * len(wanted), len(wanted)

    def measure(self, model: Any, batch: Any) -> tuple[dict[str, float], int]:
        """Loss, and how many tokens are the most likely one."""
        hidden, wanted = predicted(model, batch)
        logits = model.logits(hidden).float()
        loss = F.cross_entropy(logits, wanted, reduction="sum").item()
        right, count = int((logits.argmax(-1) == wanted).sum()), len(wanted)
        own = {name: value * count for name, value in model.figures().items()}  # figures are per token
        return {"loss": loss, "accuracy": right, **own}, count


def predicted(model: Any, batch: StreamBatch) -> tuple[Tensor, Tensor]:
    """Hidden states (t, width) and the tokens (t,) to predict from them; the state is kept for later."""
    tokens = batch["tokens"]
    if not model.causal:
        seed = None if model.training else int(batch.indices[0])
        hidden, wanted = model.masked(tokens[:, :-1], seed)
        return hidden, wanted
    hidden, state = model(tokens[:, :-1], batch.state if model.carries else None)
    if model.carries:
        batch.carrier.state = detached(state)
    return hidden.flatten(0, 1), tokens[:, 1:].flatten()


def _located(where: str, texts: Iterator[str]) -> Iterator[Located]:
    return ((f"{where}, block {number}", text) for number, text in enumerate(texts, 1))


def _stretches(characters: int, held_out: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Stretches of a text to train on and to validate on; the latter, ends of its parts, have so many."""
    count = max(1, min(STRETCHES, held_out // SHORTEST))
    ends = [characters * i // count for i in range(1, count + 1)]
    each = held_out // count
    train = [(start, end - each) for start, end in zip([0, *ends], ends, strict=False) if start < end - each]
    return train, [(max(end - each, 0), end) for end in ends]


def _grouped(texts: Iterator[str], size: int) -> Iterator[str]:
    """Texts joined to larger ones of about this size."""
    held, length = [], 0
    for text in texts:
        held.append(text)
        length += len(text)
        if length >= size:
            yield "".join(held)
            held, length = [], 0
    if held:
        yield "".join(held)


LANGUAGE = LanguageTask()
