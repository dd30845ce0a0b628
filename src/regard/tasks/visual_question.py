"""Visual question: the answer, one of a few, to a question about a picture.

    loss = −Σ log p(answer | picture, question)

Questions come from a table (.tsv, .csv or .jsonl with the columns image, question and answer; files relative
to it), or are generated: shapes, and what stands beside one of them. Answers are classes, those that occur.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from torch import Tensor
from torch.nn import functional as F

from regard.core.errors import SettingsError
from regard.core.settings import SettingsGroup, setting
from regard.data.batches import Batch
from regard.data.corpora import ASKED
from regard.data.corpora.scenes import Asked
from regard.data.fields import Field, Row, number_field, token_field
from regard.data.images import LARGEST_SIDE, SMALLEST, ImageSize
from regard.data.labelled import Classes
from regard.data.splits import Part, stride
from regard.data.tables import Column
from regard.data.text import DataError
from regard.data.tokenizer import Tokenizer
from regard.models.visual_questions import QUESTION_MODELS
from regard.tasks.caption import CaptionTraining
from regard.tasks.image import CLASSES, IMAGE_FILE, completed, corpus_size, read_size, sizes_of
from regard.tasks.picture_tables import (
    TOKENIZER,
    PictureParts,
    described_size,
    measured,
    pictures_of_table,
    table_rows,
)
from regard.tasks.region_baselines import BASELINE, Baseline
from regard.tasks.task import Located, Say, Task
from regard.tasks.text_data import located, make_tokenizer

DATA = "Questions: .tsv, .csv or .jsonl with the columns image (a file), question and answer."
COLUMNS = {
    "image": Column(("image", "file", "picture"), "--data", heads=True),
    "question": Column(("question",), "--data", heads=True),
    "answer": Column(("answer", "label"), "--data", heads=True),
}
EPOCHS, GENERATED = 40, 16  # how often pictures of files, and generated ones, are seen


@dataclass(frozen=True)
class QuestionData(SettingsGroup):
    """Where the pictures and questions come from."""

    group = "data"

    corpus: str | None = setting(
        None, "Generated pictures; scenes, unless --data is given.", option="--corpus"
    )
    pictures: int = setting(20_000, "Questions of the generated set, each with a picture.", least=2)
    train: str | None = setting(None, DATA, option="--data", metavar="FILE")
    valid: str | None = setting(
        None, "Others to validate on; without them some are held out.", option="--valid", metavar="FILE"
    )
    size: int | None = setting(
        None, "Pictures are made so many pixels high and wide; at most 64 unless given.", option="--size",
        least=SMALLEST, below=LARGEST_SIDE + 1,
    )  # fmt: skip
    colour: bool | None = setting(None, "Whether pictures have colours; as they are, unless given.")
    tokens: Literal["bpe", "word", "character"] = setting("word", "How questions are cut into tokens.")
    vocabulary: int = setting(8000, "Different tokens.", least=1)
    longest: int = setting(60, "Tokens of a question; longer ones are left out.", least=1)
    held_out: int = setting(500, "Questions to validate on, where no file is given.", least=1)
    fingerprint: str | None = setting(None, "Of the encoded examples: written by the run itself.")


@dataclass(frozen=True)
class QuestionTraining(CaptionTraining):
    """Settings of the loop."""

    tokens: int = setting(512, "Words of questions in a batch, padding included.", least=1)
    rate: float = 5e-3


@dataclass(frozen=True)
class QuestionSettings:
    """All that is needed to repeat a run."""

    data: QuestionData = setting(factory=QuestionData)
    task: Literal["visual_question"] = "visual_question"
    seed: int = setting(
        1, "The same seed repeats the run, exactly with as many threads and processes.", option="--seed"
    )
    model: dict[str, Any] = setting(factory=dict, says="Its name, and the settings of its Config.")
    training: QuestionTraining = setting(factory=QuestionTraining)


@dataclass(frozen=True)
class QuestionFiles:
    """What commands ask of a model of questions."""

    data: str | None = setting(None, DATA, metavar="FILE")
    generated: int | None = setting(None, "Generated questions instead, so many.")


@dataclass(frozen=True)
class QuestionEvaluation(QuestionFiles):
    """What `regard evaluate` asks."""


@dataclass(frozen=True)
class QuestionAudit(QuestionFiles):
    """What `regard audit` asks."""

    baseline: Baseline = setting("grey", BASELINE)


@dataclass(frozen=True)
class QuestionParts(PictureParts):
    """What is kept of the pictures, the tokenizer of the questions, and the answers."""

    classes: Classes

    def save(self, folder: Path) -> None:
        super().save(folder)
        self.classes.save(folder / CLASSES)

    @classmethod
    def load(cls, folder: Path) -> "QuestionParts":
        tokenizer, classes = Tokenizer.load(folder / TOKENIZER), Classes.load(folder / CLASSES)
        return cls(*read_size(folder / IMAGE_FILE), tokenizer, classes)


class VisualQuestionTask(Task):
    """From questions about pictures to a model that answers them."""

    name = "visual_question"
    says = "Train a model of questions about pictures into DIR: what is beside the red circle?"
    makes, examples, unit = "model of questions about pictures", "questions", "questions"
    Settings, Evaluation, Audit = QuestionSettings, QuestionEvaluation, QuestionAudit
    models, default_model = QUESTION_MODELS, "stacked_attention"
    corpora = ASKED
    model_options: Mapping[str, str] = {
        **Task.model_options,
        "attention": "discrete, or a density over the picture.",
    }
    command_examples = (
        "regard train visual_question --out runs/questions",
        "regard train visual_question --attention continuous_softmax --out runs/density",
        "regard train visual_question --data questions.tsv --size 48 --out runs/photos",
    )
    usage = (
        'regard classify DIR image.png --second "what shape is left of the red circle ?"',
        "regard evaluate DIR --data test.tsv",
    )

    def complete(self, settings: QuestionSettings) -> QuestionSettings:
        data, training = settings.data, settings.training
        if data.corpus is None and data.train is None:
            data = replace(data, corpus="scenes")
        if data.corpus is not None:
            if data.train is not None:
                raise SettingsError("data.corpus and data.train exclude each other; give one of them.")
            count, size, epochs = data.pictures, corpus_size(ASKED, data.corpus, settings.seed), GENERATED
        elif training.steps and data.size is not None:
            return settings  # of a run that was begun: its files may be elsewhere by now
        else:
            assert data.train is not None
            count, size = described_size(data.train, COLUMNS, data.size)
            colour = size.channels == 3 if data.colour is None else data.colour
            data, epochs = replace(data, size=size.height, colour=colour), EPOCHS
        batch = replace(training, tokens=max(1, training.tokens // 10))  # questions in it, or so
        found = replace(completed(batch, count, size, epochs), tokens=training.tokens)
        return replace(settings, data=data, training=found)

    def read(self, settings: QuestionSettings, part: Part) -> Iterator[Located]:
        """Questions with answers."""
        data = settings.data
        if data.corpus is not None:
            made = ASKED[data.corpus](settings.seed, part)
            most = data.pictures if part == "train" else min(data.held_out, max(data.pictures // 10, 2))
            return located(data.corpus, islice(made, most), "question")
        assert data.train is not None and data.size is not None
        size = ImageSize(3 if data.colour else 1, data.size, data.size)
        if data.valid is not None:
            return questions_in(data.train if part == "train" else data.valid, size)
        step = stride(len(table_rows(data.train, COLUMNS)), data.held_out)
        return questions_in(data.train, size, lambda i: (i % step == 0) == (part == "valid"))

    def parts(self, settings: QuestionSettings, say: Say) -> QuestionParts:
        """The size, mean and deviation of the pictures, the tokenizer of the questions, and the answers."""
        texts: list[str] = []
        answers: set[str] = set()

        def pictures() -> Iterator[Any]:
            for _, one in self.read(settings, "train"):
                texts.append(one.question)
                answers.add(one.label)
                yield one.pixels

        size, mean, deviation = measured(pictures())
        if len(answers) < 2:
            raise DataError(f"the questions must have at least two different answers; got {len(answers)}.")
        classes = Classes(sorted(answers), False)
        for where, one in self.read(settings, "valid"):
            check_answer(classes, one, where)
        tokenizer = make_tokenizer(texts, settings.data, say)
        return QuestionParts(size, mean, deviation, tokenizer, classes)

    def load_parts(self, folder: Path) -> QuestionParts:
        return QuestionParts.load(folder)

    def fields(self, settings: QuestionSettings, parts: QuestionParts) -> dict[str, Field]:
        """Bytes (c, h, w), the tokens of the question, and the number of the answer."""
        question = token_field(len(parts.tokenizer))
        return {"pixels": Field("|u1", parts.size.shape), "question": question, "label": number_field()}

    def encode(
        self, settings: QuestionSettings, parts: QuestionParts, examples: Sequence[Asked]
    ) -> list[Row | None]:
        for one in examples:
            check_answer(parts.classes, one, f"the question {one.question[:40]!r}")
        found = parts.tokenizer.encode_many([one.question for one in examples])
        return [
            {"pixels": one.pixels, "question": tokens, "label": parts.classes.number[one.label]}
            for one, tokens in zip(examples, found, strict=True)
        ]

    def longest(self, settings: QuestionSettings) -> dict[str, int]:
        return {"question": settings.data.longest}

    def sizes(self, settings: QuestionSettings, parts: QuestionParts | None) -> dict[str, Any]:
        if parts is None:
            return {**sizes_of(ImageSize(3, 24, 24), 2, (0.5,) * 3, (0.5,) * 3), "vocabulary": 8}
        found = sizes_of(parts.size, len(parts.classes.names), parts.mean, parts.deviation)
        return {**found, "vocabulary": len(parts.tokenizer)}

    def loss(self, settings: QuestionSettings, model: Any, batch: Batch) -> tuple[Tensor, int]:
        """The sum of the losses of a batch, and the number of its questions."""
        logits = model(batch["pixels"], batch["question"], batch.lengths["question"]).float()
        smoothing = settings.training.smoothing
        return F.cross_entropy(logits, batch["label"], reduction="sum", label_smoothing=smoothing), len(batch)

    def measure(self, model: Any, batch: Batch) -> tuple[dict[str, float], int]:
        """Loss and accuracy."""
        logits = model(batch["pixels"], batch["question"], batch.lengths["question"]).float()
        loss = F.cross_entropy(logits, batch["label"], reduction="sum").item()
        return {"loss": loss, "accuracy": int((logits.argmax(-1) == batch["label"]).sum())}, len(batch)

    def system(
        self, model: Any, parts: QuestionParts, settings: QuestionSettings, folder: Path | None = None
    ) -> Any:
        """A model that answers questions."""
        from regard.tasks.question_system import QuestionSystem

        return QuestionSystem(model, parts, settings, folder)


def questions_in(
    file: str, size: ImageSize | None, chosen: Callable[[int], bool] = lambda _: True
) -> Iterator[Located]:
    """The questions of a table, and where they stand."""
    for where, pixels, entry in pictures_of_table(file, COLUMNS, size, chosen):
        question, answer = (str(entry[name]).strip() for name in ("question", "answer"))
        if not question or not answer:
            raise DataError(f"{where}: the question or the answer is empty.")
        yield where, Asked(pixels, question, answer)


def check_answer(classes: Classes, one: Asked, where: str) -> None:
    """DataError if an answer is none of those trained on."""
    if one.label not in classes.number:
        raise DataError(f"{where}: the answer {one.label!r} is not among those trained on.")


VISUAL_QUESTION = VisualQuestionTask()
