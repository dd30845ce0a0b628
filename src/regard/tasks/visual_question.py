"""Visual question: the answer, one of a few, to a question about a picture.

    loss = −Σ log p(answer | picture, question)

Questions come from a table (.tsv, .csv or .jsonl with the columns image, question and answer; files relative
to it), or are generated: shapes, and what stands beside one of them. Answers are classes, those that occur.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor
from torch.nn import functional as F

from regard.core.settings import setting
from regard.data.batches import POOL, Batch
from regard.data.corpora import ASKED
from regard.data.corpora.scenes import Asked
from regard.data.encoded import Encoded
from regard.data.fields import Field, Row, number_field, token_field
from regard.data.images import Pixels
from regard.data.labelled import Classes
from regard.data.text import DataError
from regard.models.visual_questions import VISUAL_QUESTION_MODELS
from regard.tasks.class_scores import class_measures
from regard.tasks.picture_parts import measured
from regard.tasks.picture_tables import (
    ANY_PICTURES,
    PictureTextData,
    PictureTextParts,
    PictureTextSettings,
    PictureTextTask,
    PictureTextTraining,
    table_columns,
)
from regard.tasks.task import Say, Task
from regard.tasks.text_data import make_tokenizer
from regard.training.processes import Team
from regard.training.rank_batches import RankBatches


@dataclass(frozen=True)
class VisualQuestionData(PictureTextData):
    """Where the pictures and questions come from."""

    pictures: int = setting(40_000, "Pictures of the generated set, each with a question.", least=2)


@dataclass(frozen=True)
class VisualQuestionTraining(PictureTextTraining):
    """Settings of the loop."""

    tokens: int = setting(4096, "Words of questions in a batch at most, padding included.", least=1)
    examples: int = setting(64, "Questions in a batch at most; 0 = any.", least=0)
    optimiser: Literal["adam", "adamw", "muon", "sgd"] = "muon"
    rate: float = 3e-3


@dataclass(frozen=True)
class VisualQuestionSettings(PictureTextSettings):
    data: VisualQuestionData = setting(factory=VisualQuestionData)
    task: Literal["visual_question"] = "visual_question"
    training: VisualQuestionTraining = setting(factory=VisualQuestionTraining)


@dataclass(frozen=True)
class VisualQuestionParts(PictureTextParts):
    """What is kept of the pictures, the tokenizer of the questions, and the answers."""

    classes: Classes


class VisualQuestionTask(PictureTextTask):
    """From questions about pictures to a model that answers them."""

    name = "visual_question"
    makes, examples, unit = "model of questions about pictures", "questions", "questions"
    Settings, Parts = VisualQuestionSettings, VisualQuestionParts
    models, default_model = VISUAL_QUESTION_MODELS, "stacked_attention"
    corpora, columns = ASKED, table_columns(question=("question",), answer=("answer", "label"))
    example, generated_epochs, per_example = "question", 12, 10
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

    def row(self, where: str, pixels: Pixels, entry: dict[str, Any]) -> Asked:
        question, answer = (str(entry[name]).strip() for name in ("question", "answer"))
        if not question or not answer:
            raise DataError(f"{where}: the question or the answer is empty.")
        return Asked(pixels, question, answer)

    def parts(self, settings: VisualQuestionSettings, say: Say) -> VisualQuestionParts:
        """The size, mean and deviation of the pictures, the tokenizer of the questions, and the answers."""
        said: list[tuple[str, str]] = []
        measures = measured(self.read(settings, "train"), lambda one: said.append((one.question, one.label)))
        texts, answers = [text for text, _ in said], {answer for _, answer in said}
        if len(answers) < 2:
            raise DataError(f"the questions must have at least two different answers; got {len(answers)}.")
        classes = Classes(sorted(answers), False)
        for where, one in self.read(settings, "valid"):
            check_answer(classes, one, where)
        return VisualQuestionParts(*measures, make_tokenizer(texts, settings.data, say), classes)

    def fields(self, settings: VisualQuestionSettings, parts: VisualQuestionParts) -> dict[str, Field]:
        """Bytes (c, h, w), the tokens of the question, and the number of the answer."""
        question = token_field(len(parts.tokenizer))
        return {"pixels": Field("|u1", parts.size.shape), "question": question, "label": number_field()}

    def encode(
        self, settings: VisualQuestionSettings, parts: VisualQuestionParts, examples: Sequence[Asked]
    ) -> list[Row | None]:
        for one in examples:
            check_answer(parts.classes, one, f"the question {one.question[:40]!r}")
        found = parts.tokenizer.encode_many([one.question for one in examples])
        return [
            {"pixels": one.pixels, "question": tokens, "label": parts.classes.number[one.label]}
            for one, tokens in zip(examples, found, strict=True)
        ]

    def batches(self, settings: VisualQuestionSettings, encoded: Encoded, team: Team) -> Any:
        """Drawn at random: questions of one length are of one kind, and a step shall learn of all kinds."""
        training = settings.training
        pool = training.examples or POOL
        return RankBatches(encoded, training.tokens, settings.seed, team, training.examples, pool=pool)

    def longest(self, settings: VisualQuestionSettings) -> dict[str, int]:
        return {"question": settings.data.longest}

    def sizes(self, settings: VisualQuestionSettings, parts: VisualQuestionParts | None) -> dict[str, Any]:
        if parts is None:
            return {**ANY_PICTURES.sizes(classes=2), "vocabulary": 8}
        return {**parts.sizes(len(parts.classes.names)), "vocabulary": len(parts.tokenizer)}

    def loss(self, settings: VisualQuestionSettings, model: Any, batch: Batch) -> tuple[Tensor, int]:
        """The sum of the losses of a batch, and the number of its questions."""
        logits = model(batch["pixels"], batch["question"], batch.lengths["question"]).float()
        smoothing = settings.training.smoothing
        return F.cross_entropy(logits, batch["label"], reduction="sum", label_smoothing=smoothing), len(batch)

    def measure(self, model: Any, batch: Batch) -> tuple[dict[str, float], int]:
        """Loss and accuracy."""
        logits = model(batch["pixels"], batch["question"], batch.lengths["question"]).float()
        return class_measures(logits, batch["label"])


def check_answer(classes: Classes, one: Asked, where: str) -> None:
    """DataError if an answer is none of those trained on."""
    if one.label not in classes.number:
        raise DataError(f"{where}: the answer {one.label!r} is not among those trained on.")


VISUAL_QUESTION = VisualQuestionTask()
