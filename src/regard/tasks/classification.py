"""Classification: the class of a text, or of a text and a second one that asks about it.

    loss = −Σ log p(class | text)

plus what regularizers add. With label smoothing ε each class is (1 − ε) of itself and ε of all classes alike;
validation is without it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.core.errors import SettingsError
from regard.core.settings import SettingsGroup, fields_of, file_setting, setting
from regard.core.tokens import PAD, UNK
from regard.data import LABELLED
from regard.data.batches import Batch
from regard.data.fields import Field, Row, number_field, token_field
from regard.data.labelled import Classes, Labelled, Named, Spans, located_texts
from regard.data.marks import mark, marked_words
from regard.data.segments import segments
from regard.data.splits import Part
from regard.data.tokenizer import Tokenizer
from regard.data.vectors import vectors
from regard.models.classifiers import CLASSIFIERS, ClassifierModel
from regard.models.classifiers.classifier_model import Common
from regard.tasks.task import Located, Say, Task, TaskParts, TaskSettings
from regard.tasks.text_data import SAMPLE, TextData, examples, make_tokenizer
from regard.training import CosineTraining

ENDS = (".", "!", "?", "…", "。", "！", "？")  # how the last token of a sentence ends
TEXT = 'The column of the texts; "text" or "sentence" unless given. A number where there is no header.'
LABEL = 'The column of the labels; "label" unless given.'
SECOND = 'The column of second texts, for two texts at a time; "second" unless given.'
LABEL_NAMES = "What labels are called in answers and reports, as 0=negative,1=positive."


def forbidden_words(path: Path) -> tuple[str, ...] | dict[str, str]:
    """What --deceive stands for: the words in a file, or, if it has marks, the file."""
    return marked_words(path) or {"deceive_marks": str(path)}


def strength(option: str, says: str, default: float = 0.0) -> Any:
    """A setting: how much something counts in the loss."""
    return setting(default, says, option=option, metavar="λ", least=0, below=math.inf)


@dataclass(frozen=True)
class ClassificationData(TextData):
    """Where the texts come from, and how they are cut into tokens."""

    texts: int = setting(20_000, "Texts of the generated corpus.", least=1)
    train: str | None = file_setting(
        "Labelled texts: .csv or .tsv with columns text and label, .tsv without a header (text, tab, label), "
        "or .jsonl; .gz too.",
        "--data",
    )
    text: str | None = setting(None, TEXT, option="--text", metavar="NAME")
    label: str | None = setting(None, LABEL, option="--label", metavar="NAME")
    second: str | None = setting(None, SECOND, option="--second", metavar="NAME")
    label_names: str | None = setting(None, LABEL_NAMES, option="--label-names", metavar="LABEL=NAME,…")
    valid: str | None = file_setting("Others to validate on; without them some are held out.", "--valid")
    vectors: str | None = file_setting(
        "Pretrained vectors of words: word2vec's or GloVe's text format.", "--vectors"
    )
    tokens: Literal["bpe", "word", "lowercase", "character"] = setting("word", "How text is cut into tokens.")
    vocabulary: int = setting(20_000, "Different tokens.", least=1)
    longest: int = setting(512, "Tokens of a text; longer ones are left out of training.", least=1)

    @property
    def named(self) -> Named:
        """What the files call text, label and second text."""
        return Named(self.text, self.label, self.second)


@dataclass(frozen=True)
class ClassificationTraining(CosineTraining):
    """Settings of the loop; the defaults suit sentences and a small model."""

    steps: int = 2000
    tokens: int = 1024
    rate: float = 2e-3
    validate: int = 200
    save: int = 200
    patience: int = 3
    average: int = 3


@dataclass(frozen=True)
class Regularizers(SettingsGroup):
    """What is added to the loss, each by its strength; 0 is off (`models/classifiers/regularizers`)."""

    group = "regularizers"

    tie: float = strength("--tie", "Regularizer: hidden states stay near the vectors of their words.")
    mlm: float = strength("--mlm", "Regularizer: masked words are predicted from the hidden states.")
    diversity: float = strength("--diversity", "Regularizer: hidden states must not all point the same way.")
    deceive: tuple[str, ...] = setting(
        (),
        "Penalize attention on the words of FILE (one per line, or 0 and 1 for each word of each training "
        "text): trains a model whose attention deceives.",
        option="--deceive",
        metavar="FILE",
        read=forbidden_words,
    )
    deceive_marks: str | None = setting(None, "A file with 0 and 1 for each word of each training text.")
    deceive_weight: float = strength("--deceive-weight", "Strength of --deceive; 1 unless given.", 1.0)
    deceive_heads: Literal["mean", "max"] = setting(
        "mean",
        'With --deceive and transformer_encoder, read="first": mean of heads, or that which looks most.',
        option="--deceive-heads",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.deceive and self.deceive_marks:
            raise SettingsError("regularizers.deceive and regularizers.deceive_marks exclude each other.")
        if not (self.deceive or self.deceive_marks):
            for name, usual in (("deceive_weight", 1.0), ("deceive_heads", "mean")):
                if getattr(self, name) != usual:
                    raise SettingsError(
                        f"regularizers.{name} says how to deceive, and goes with --deceive: which words?"
                    )

    @property
    def strengths(self) -> dict[str, float]:
        """Those that are wanted, by name."""
        every = {"tie": self.tie, "mlm": self.mlm, "diversity": self.diversity}
        if self.deceive or self.deceive_marks:
            every["deceive" if self.deceive_heads == "mean" else "deceive_max"] = self.deceive_weight
        return {name: strength for name, strength in every.items() if strength}


@dataclass(frozen=True)
class ClassificationSettings(TaskSettings):
    data: ClassificationData
    task: Literal["classification"] = "classification"
    training: ClassificationTraining = setting(factory=ClassificationTraining)
    regularizers: Regularizers | None = None


@dataclass(frozen=True)
class LabelledFile:
    """Options of commands that read labelled texts: what is not given is as in training."""

    data: str | None = file_setting("Labelled texts: .csv, .tsv or .jsonl.")
    text: str | None = setting(None, TEXT, metavar="NAME")
    label: str | None = setting(None, LABEL, metavar="NAME")
    second: str | None = setting(None, SECOND, metavar="NAME")
    label_names: str | None = setting(None, LABEL_NAMES, metavar="LABEL=NAME,…")

    def named(self, data: ClassificationData) -> Named:
        """What the file calls text, label and second text; as in training, unless it is said here."""
        return Named(
            *(
                here or there
                for here, there in zip((self.text, self.label, self.second), data.named, strict=True)
            )
        )


@dataclass(frozen=True)
class ClassificationEvaluation(LabelledFile):
    """What `regard evaluate` asks of a classifier."""

    words: str | None = file_setting(
        "Words, one per line, or 0 and 1 for each word of each text: adds the attention on them, and the "
        "accuracy without them."
    )


@dataclass(frozen=True)
class ClassificationAudit(LabelledFile):
    """What `regard audit` asks of a classifier."""

    train: str | None = file_setting("Texts to train on, for tests that train again. Minutes.")


@dataclass(frozen=True)
class TextParts(TaskParts):
    """The tokenizer and the classes."""

    tokenizer: Tokenizer
    classes: Classes


class ClassificationTask(Task):
    """From labelled texts to a classifier."""

    name = "classification"
    makes, examples, unit = "classifier", "texts", "texts"
    Settings, Evaluation, Audit = ClassificationSettings, ClassificationEvaluation, ClassificationAudit
    models, default_model = CLASSIFIERS, "attentive_bilstm"
    corpora, Parts = LABELLED, TextParts
    model_options: Mapping[str, str] = {
        **Task.model_options,
        "orthogonal": "With attentive_bilstm: hidden states orthogonal to those before.",
    }
    command_examples = (
        "regard train classification --corpus sentiment --model attentive_mlp --out runs/toy",
        "regard train classification --data train.tsv.gz --valid dev.tsv --map entmax15 --out runs/sst",
        "regard train classification --config examples/sst2.toml --map entmax --learn-alpha --out runs/sst",
        "regard train classification --corpus sentiment --tie 1 --mlm 0.5 --out runs/tied",
    )
    usage = ("regard classify DIR < in.txt > out.txt", "regard evaluate DIR --data test.tsv")
    aliases: Mapping[str, str] = {"remedy": "regularizers"}

    def read(self, settings: ClassificationSettings, part: Part) -> Iterator[Located]:
        """Labelled texts."""
        data, wanted = settings.data, settings.regularizers
        marks = None if wanted is None else wanted.deceive_marks

        def read(file: str) -> Iterator[Located]:
            found = located_texts(file, data.named)
            return found if marks is None or file != data.train else mark(found, marks)

        files = (data.train,), (data.valid,)
        return examples(data, LABELLED, settings.seed, data.texts, read, *files, part, "text")

    def parts(self, settings: ClassificationSettings, say: Say) -> TextParts:
        """Tokenizer and classes, made from the training texts."""
        data = settings.data
        classes = Classes.of(text for _, text in self.read(settings, "train")).renamed(data.label_names)
        for where, text in self.read(settings, "valid"):
            classes.check(text, where)
        self.make_model(settings, _sizes(8, classes))  # some models take no second text
        some = islice(self.read(settings, "train"), SAMPLE)
        every = (one for _, text in some for one in (text.text, text.second))
        tokenizer = make_tokenizer((one for one in every if one is not None), data, say)
        if settings.regularizers is not None and (words := settings.regularizers.deceive):
            pieces = {piece.casefold() for piece in tokenizer.pieces(forbidden(words, tokenizer))}
            known = sum(word.casefold() in pieces for word in words)
            say(f"{known:,} of {len(words):,} forbidden words are in it")
        parts = TextParts(tokenizer, classes)
        if data.vectors is not None:
            tokens, _ = self._vectors(settings, parts)
            say(f"{data.vectors} has vectors of {len(tokens):,} of {len(tokenizer):,} tokens")
        return parts

    def fields(self, settings: ClassificationSettings, parts: TextParts) -> dict[str, Field]:
        """Tokens, label, and the tokens of the second text, if there is one."""
        size = len(parts.tokenizer)
        second = {"second": token_field(size)} if parts.classes.pairs else {}
        wanted = settings.regularizers
        marks = {"forbidden": Field("|u1")} if wanted is not None and wanted.deceive_marks else {}
        return {"tokens": token_field(size), **second, **marks, "label": number_field()}

    def encode(
        self, settings: ClassificationSettings, parts: TextParts, examples: Sequence[Labelled]
    ) -> list[Row | None]:
        encode, number = parts.tokenizer.encode_many, parts.classes.number
        for example in examples:
            parts.classes.check(example, f"the text {example.text[:40]!r}")
        columns: dict[str, Sequence[Any]] = {
            "tokens": encode([example.text for example in examples]),
            "label": [number[example.label] for example in examples],
        }
        if parts.classes.pairs:
            columns["second"] = encode([example.second or "" for example in examples])
        if "forbidden" in self.fields(settings, parts):
            columns["forbidden"] = [marked_tokens(parts.tokenizer, example) for example in examples]
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def longest(self, settings: ClassificationSettings) -> dict[str, int]:
        return {"tokens": settings.data.longest, "second": settings.data.longest}

    def sizes(self, settings: ClassificationSettings, parts: TextParts | None) -> dict[str, Any]:
        if parts is None:
            return _sizes(8, Classes(["a", "b"], False)) | {"ends": ()}
        return _sizes(len(parts.tokenizer), parts.classes) | {"ends": sentence_ends(parts.tokenizer)}

    def complete(self, settings: ClassificationSettings) -> ClassificationSettings:
        given = dict(settings.model)
        wanted = settings.regularizers
        if wanted is None or not wanted.strengths:
            return replace(settings, regularizers=None)
        if wanted.tie:
            known = fields_of(CLASSIFIERS[given["name"]].config)
            if "width" in known and "width" not in given:  # states as wide as the vectors of words
                given["width"] = given.get("embedding", Common.embedding)
        return replace(settings, model=given)

    def check(self, settings: ClassificationSettings, model: nn.Module) -> None:
        config: Any = model.config
        longest, wanted = settings.data.longest, settings.regularizers
        if (
            "positions" in fields_of(type(config))
            and config.positions == "learned"
            and config.longest <= longest
        ):
            raise SettingsError(
                f"model.longest must be more than data.longest={longest}; got {config.longest}."
            )
        if wanted is not None and wanted.deceive and settings.data.tokens != "word":
            raise SettingsError(
                'regularizers.deceive forbids words, so data.tokens must be "word"; '
                f"got {settings.data.tokens!r}."
            )

    def build(self, settings: ClassificationSettings, parts: TextParts | None) -> nn.Module:
        """The model with its regularizers and, where they are given, pretrained vectors."""
        model = super().build(settings, parts)
        assert isinstance(model, ClassifierModel)
        if settings.regularizers is not None:
            words = settings.regularizers.deceive
            if parts is None or not words:  # marks come with the batches; padding is never looked at
                tokens = [PAD] if {"deceive", "deceive_max"} & set(settings.regularizers.strengths) else []
            else:
                tokens = forbidden(words, parts.tokenizer)
            try:
                model.add_regularizers(settings.regularizers.strengths, tokens)
            except ValueError as error:
                raise SettingsError(f"regularizers: {error}") from None
        if parts is not None:
            self.put_vectors(settings, parts, model)
        return model

    def empty(self, settings: ClassificationSettings, parts: TextParts) -> nn.Module:
        """Without pretrained vectors: the weights that come have what became of them."""
        return self.build(replace(settings, data=replace(settings.data, vectors=None)), parts)

    def put_vectors(self, settings: ClassificationSettings, parts: TextParts, model: ClassifierModel) -> None:
        """Put pretrained vectors of words, where they are given, into a model."""
        if settings.data.vectors is not None:
            tokens, found = self._vectors(settings, parts)
            with torch.no_grad():
                model.words.E.weight[tokens] = found

    def _vectors(self, settings: ClassificationSettings, parts: TextParts) -> tuple[Any, Tensor]:
        """The tokens that the file of vectors has, and their vectors."""
        assert settings.data.vectors is not None
        width = int(settings.model.get("embedding", Common.embedding))
        return vectors(settings.data.vectors, parts.tokenizer, width)

    def loss(self, settings: ClassificationSettings, model: Any, batch: Batch) -> tuple[Tensor, int]:
        """The sum of the losses of a batch, and the number of its texts."""
        smoothing = settings.training.smoothing
        loss: Tensor = model.loss(batch["label"], *texts_of(batch), smoothing=smoothing, **marks_of(batch))
        return loss, len(batch)

    def measure(self, model: Any, batch: Batch) -> tuple[dict[str, float], int]:
        """Loss, and how many texts have the right class as the most likely."""
        texts, wanted = texts_of(batch), batch["label"]
        right = int((model(*texts).argmax(-1) == wanted).sum())
        loss = model.loss(wanted, *texts, **marks_of(batch)).item()
        return {"loss": loss, "accuracy": right}, len(batch)


def texts_of(batch: Batch) -> tuple[Tensor, ...]:
    """What a classifier is called with: tokens (b, n), lengths (b,), and those of the second texts."""
    sides = [name for name in ("tokens", "second") if name in batch.fields]
    return tuple(part for name in sides for part in (batch[name], batch.lengths[name]))


def marks_of(batch: Batch) -> dict[str, Tensor]:
    """The marked tokens (b, n) of a batch, if its texts have marks."""
    return {name: batch[name].bool() for name in ("forbidden",) if name in batch.fields}


def marked_tokens(tokenizer: Tokenizer, text: Labelled, chosen: Spans | None = None) -> list[bool]:
    """For each token whether the word it is a part of is marked, or among the `chosen`."""
    found = segments(tokenizer, text.text)
    marks = text.overlaps(found.spans, text.marked if chosen is None else chosen)
    return [marks[word] for word in found.word_of]


def labelled_texts(file: str, classes: Classes, named: Named) -> Iterator[Located]:
    """The labelled texts of a file and where they stand; their labels must be known."""
    return ((where, classes.check(text, where)) for where, text in located_texts(file, named))


def forbidden(words: Sequence[str], tokenizer: Tokenizer) -> list[int]:
    """The tokens of words that must get no attention, in upper and lower case; unknown words have none."""
    wanted, known = {word.casefold() for word in words}, range(UNK + 1, len(tokenizer))
    found = [i for i, piece in zip(known, tokenizer.pieces(known), strict=True) if piece.casefold() in wanted]
    if not found:
        raise SettingsError(
            f"regularizers.deceive: none of the {len(words)} words, as {words[0]!r}, is in the vocabulary."
        )
    return found


def sentence_ends(tokenizer: Tokenizer) -> list[int]:
    """The tokens that end a sentence."""
    known = range(UNK + 1, len(tokenizer))
    return [i for i, piece in zip(known, tokenizer.pieces(known), strict=True) if piece.endswith(ENDS)]


def _sizes(vocabulary: int, classes: Classes) -> dict[str, Any]:
    return {"vocabulary": vocabulary, "classes": len(classes.names), "pairs": classes.pairs}


CLASSIFICATION = ClassificationTask()
