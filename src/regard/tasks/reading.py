"""Reading: where in a passage the answer to a question is.

    loss = −Σ log p(start) + log p(end), summed over all right answers inside the logarithm

Validation chooses the weights by 1 − F1 of the spans in tokens, since the likelihood worsens long before
answers do. Without a file to validate on, a tenth of the passages is held out, each with all of its
questions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.core.files import beside
from regard.core.settings import SettingsGroup, file_setting, setting
from regard.core.weights import load_tensors, save_tensors
from regard.data.batches import Batch
from regard.data.cooccurrence import cooccurrence_vectors
from regard.data.corpora import PASSAGES
from regard.data.encoded import Encoded
from regard.data.fields import Field, Row, token_field
from regard.data.questions import LeftOut, PassageQuestion, held_out_part, located_questions
from regard.data.splits import Part
from regard.data.text import DataError
from regard.data.tokenizer import Tokenizer
from regard.data.word_features import FEATURES
from regard.decoding.spans import Choose, best_spans
from regard.models.readers import READERS
from regard.models.readers.reader_model import ReadTexts, mark
from regard.tasks.passage_codec import PassageCodec
from regard.tasks.task import Located, Say, Task, TaskSettings
from regard.tasks.text_data import TextData, located, make_tokenizer
from regard.tasks.word_vectors import pretrained
from regard.training import CosineTraining
from regard.training.processes import Team
from regard.training.rank_batches import RankBatches

TOKENIZER, VECTORS = "tokenizer.json", "vectors.safetensors"
POOL = 256  # questions that batches are planned from
QUESTIONS = "Questions: SQuAD's .json, or cloze questions in .jsonl or CBT's .txt; .gz too."


@dataclass(frozen=True)
class ReadingData(TextData):
    """Where passages and questions come from, and how they are cut into tokens."""

    questions: int = setting(20_000, "Questions of the generated corpus.", least=1)
    train: str | None = file_setting(QUESTIONS, "--data")
    valid: str | None = file_setting(
        "Others to validate on; without them a tenth of the passages is held out.", "--valid"
    )
    vectors: str | None = file_setting(
        "Pretrained vectors of words, which stay as they are: hf:FOLDER of a Hugging Face encoder, or a file "
        "in word2vec's or GloVe's text format.",
        "--vectors",
    )
    tokens: Literal["bpe", "word", "lowercase", "character"] = setting(
        "lowercase", "How text is cut into tokens."
    )
    initial: Literal["counts", "random"] = setting(
        "counts", "First vectors of words: from which words stand near each other in training, or random."
    )
    vocabulary: int = setting(30_000, "Different tokens.", least=1)
    longest: int = setting(512, "Tokens of a text; examples with longer ones are left out.", least=1)


@dataclass(frozen=True)
class ReadingTraining(CosineTraining):
    """Settings of the loop; the defaults suit a few thousand questions."""

    steps: int = 5000
    tokens: int = 1536
    examples: int = 24
    rate: float = 2.5e-3
    beta2: float = 0.99
    clip: float = 5.0
    validate: int = 200
    save: int = 200
    average: int = 5


@dataclass(frozen=True)
class SpanChoice(SettingsGroup):
    """How the span to answer with is chosen."""

    group = "answers"

    longest: int = setting(60, "Tokens of an answer; cloze models answer with one.", least=1)
    choose: Choose = setting("f1", "f1: the span of the highest expected F1; likely: the most likely span.")


@dataclass(frozen=True)
class ReadingSettings(TaskSettings):
    data: ReadingData
    task: Literal["reading"] = "reading"
    training: ReadingTraining = setting(factory=ReadingTraining)
    answers: SpanChoice = setting(factory=SpanChoice)


@dataclass(frozen=True)
class ReadingEvaluation:
    """What `regard evaluate` asks of a reader."""

    data: str | None = file_setting(QUESTIONS)
    out: str | None = file_setting(
        "Where to write the answers: an object from the id of a question to its answer."
    )


@dataclass(frozen=True)
class ReadingAudit:
    """What `regard audit` asks of a reader."""

    data: str | None = file_setting(QUESTIONS)


@dataclass(frozen=True)
class ReadingAsking:
    """What `regard answer` asks of a reader."""

    passage: str | None = file_setting("A text file, the passage; - is standard input.")
    question: str | None = setting(None, "The question.", metavar="TEXT")


@dataclass(frozen=True)
class ReadingParts:
    """The tokenizer, and first vectors of its words, if they are made from counts."""

    tokenizer: Tokenizer
    vectors: Tensor | None = None  # (vocabulary, embedding)

    @property
    def codec(self) -> PassageCodec:
        """From texts to what a reader reads."""
        return PassageCodec(self.tokenizer)

    def save(self, folder: Path) -> None:
        """Write tokenizer.json and vectors.safetensors."""
        self.tokenizer.save(folder / TOKENIZER)
        if self.vectors is not None:
            with beside(folder / VECTORS) as draft:
                save_tensors({"vectors": self.vectors}, draft)

    @classmethod
    def load(cls, folder: Path) -> "ReadingParts":
        """Those in a folder."""
        there = (folder / VECTORS).exists()
        vectors = load_tensors(folder / VECTORS).get("vectors") if there else None
        return cls(Tokenizer.load(folder / TOKENIZER), vectors)


class ReadingTask(Task):
    """From questions about passages to a reader."""

    name = "reading"
    makes, examples, unit = "reader", "questions", "questions"
    Settings, Evaluation = ReadingSettings, ReadingEvaluation
    Audit, Asking = ReadingAudit, ReadingAsking
    models, default_model = READERS, "dynamic_coattention"
    corpora, Parts = PASSAGES, ReadingParts
    command_examples = (
        "regard train reading --data train.json --valid dev.json --out runs/reader",
        "regard train reading --data policies.json.gz --model one_way --out runs/one-way",
        "regard train reading --corpus spans --steps 600 --out runs/toy",
        "regard train reading --corpus cloze --model attention_over_attention --out runs/cloze",
    )
    usage = (
        "regard evaluate DIR --data test.json --json",
        'regard answer DIR --passage page.txt --question "Who wrote it?"',
    )

    def read(self, settings: ReadingSettings, part: Part) -> Iterator[Located]:
        """Questions with their passages and right answers."""
        data = settings.data
        if data.corpus is not None:
            made = PASSAGES[data.corpus](settings.seed, part)
            count = data.questions if part == "train" else data.held_out
            return located(data.corpus, islice(made, count), "question")
        assert data.train is not None
        if data.valid is not None:
            return located_questions(data.train if part == "train" else data.valid)
        every = located_questions(data.train)
        return (one for one in every if held_out_part(one[1].passage, part))

    def parts(self, settings: ReadingSettings, say: Say) -> ReadingParts:
        """The tokenizer, made from the training passages and questions."""
        data = settings.data
        if data.corpus is None:
            for file in (data.train, data.valid):
                if file is not None:
                    left_out = LeftOut()
                    for _ in located_questions(file, left_out):
                        pass
                    for sentence in left_out.sentences:
                        say(f"{file}: {sentence}")
            if data.valid is None and not all(
                any(True for _ in self.read(settings, part)) for part in ("train", "valid")
            ):
                raise DataError(
                    f"{data.train}: too few passages to hold some of them out. Give others as --valid."
                )
        passages, texts = set[str](), list[str]()
        for _, one in self.read(settings, "train"):
            if one.passage not in passages:
                passages.add(one.passage)
                texts.append(one.passage)
            texts.append(one.question)
        tokenizer = make_tokenizer(texts, data, say)
        if data.vectors is not None or data.initial == "random":
            return ReadingParts(tokenizer)
        width = int(settings.model["embedding"])
        vectors = cooccurrence_vectors(
            tokenizer.encode_many(list(dict.fromkeys(texts))), len(tokenizer), width
        )
        return ReadingParts(tokenizer, vectors)

    def fields(self, settings: ReadingSettings, parts: ReadingParts) -> dict[str, Field]:
        """The tokens of both texts, their features, and first and last token of each right answer."""
        tokens, features = token_field(len(parts.tokenizer)), Field("|u1", (None, len(FEATURES)))
        return {
            "passage": tokens,
            "question": tokens,
            "features": features,
            "question_features": features,
            "answers": Field("<u2", (None, 2)),
        }

    def encode(
        self, settings: ReadingSettings, parts: ReadingParts, examples: Sequence[PassageQuestion]
    ) -> list[Row | None]:
        codec = parts.codec
        encoded = codec.encode([(one.passage, one.question) for one in examples])
        rows: list[Row | None] = []
        for one, texts in zip(examples, encoded, strict=True):
            answers = sorted({at for span in one.spans if (at := texts.tokens_of(span)) is not None})
            rows.append({**texts.fields, "answers": answers} if answers else None)
        return rows

    def longest(self, settings: ReadingSettings) -> dict[str, int]:
        return {"passage": settings.data.longest, "question": settings.data.longest}

    def batches(self, settings: ReadingSettings, encoded: Encoded, team: Team) -> RankBatches:
        """Planned in small pools: the questions about a passage, alike in length, are not in one batch."""
        training = settings.training
        return RankBatches(encoded, training.tokens, settings.seed, team, training.examples, pool=POOL)

    def sizes(self, settings: ReadingSettings, parts: ReadingParts | None) -> dict[str, Any]:
        if parts is None:
            return {"vocabulary": 8, "features": len(FEATURES), "entities": ()}
        return {
            "vocabulary": len(parts.tokenizer),
            "features": len(FEATURES),
            "entities": tuple(parts.codec.entities),
        }

    def complete(self, settings: ReadingSettings) -> ReadingSettings:
        if settings.data.vectors is not None and "frozen" not in settings.model:
            return replace(settings, model={**settings.model, "frozen": True})
        return settings

    def check(self, settings: ReadingSettings, model: nn.Module) -> None:
        if settings.data.corpus is not None:
            PASSAGES[settings.data.corpus]  # raises if there is no such corpus

    def build(self, settings: ReadingSettings, parts: ReadingParts | None) -> nn.Module:
        model: Any = super().build(settings, parts)
        if parts is not None and settings.data.vectors is not None:
            pretrained(settings.data.vectors, parts.tokenizer, model.words)
        elif parts is not None and parts.vectors is not None and not model.words.weight.is_meta:
            model.words.weight.data.mul_(0.2).add_(0.4 * parts.vectors)
        built: nn.Module = model
        return built

    def empty(self, settings: ReadingSettings, parts: ReadingParts) -> nn.Module:
        """Without pretrained vectors: the weights that come have them."""
        return super().build(settings, parts)

    def loss(self, settings: ReadingSettings, model: Any, batch: Batch) -> tuple[Tensor, int]:
        """The sum of the losses of a batch, and the number of its questions."""
        loss: Tensor = model.loss(texts_of(batch), batch["answers"], batch.lengths["answers"])
        return loss, len(batch)

    def measure(self, model: Any, batch: Batch) -> tuple[dict[str, float], int]:
        """1 − F1 in tokens as the loss; negative log-likelihood; how many spans are right."""
        texts, answers, counts = texts_of(batch), batch["answers"], batch.lengths["answers"]
        last = model(texts)[-1]
        longest = model.longest_answer(SpanChoice().longest)
        chosen, _ = best_spans(last.start, last.end, longest, SpanChoice().choose, last.inside)
        f1, exact = overlap(chosen, answers, counts)
        right = [mark(answers[..., side], counts, texts.passage.shape[1]) for side in (0, 1)]
        surprise = sum(
            -scores.masked_fill(~marked, -torch.inf).logsumexp(-1).clamp(min=-100).sum().item()
            for scores, marked in zip(last[:2], right, strict=True)
        )
        return {
            "loss": len(batch) - f1.sum().item(),
            "nll": surprise,
            "exact": exact.sum().item(),
        }, len(batch)


def texts_of(batch: Batch) -> ReadTexts:
    """What a reader is called with."""
    lengths = batch.lengths
    return ReadTexts(
        batch["passage"],
        lengths["passage"],
        batch["question"],
        lengths["question"],
        batch["features"],
        batch["question_features"],
    )


def overlap(chosen: Tensor, answers: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """F1 in tokens (b,) of spans (b, 2) with the best of the answers (b, k, 2), and whether it is 1."""
    first, last = chosen[:, :1], chosen[:, 1:]
    real = torch.arange(answers.shape[1], device=answers.device) < counts.unsqueeze(-1)
    same = torch.minimum(last, answers[..., 1]) - torch.maximum(first, answers[..., 0]) + 1
    sizes = (last - first + 1) + (answers[..., 1] - answers[..., 0] + 1)
    f1 = torch.where(real, 2 * same.clamp(min=0) / sizes, 0).amax(-1)
    return f1, f1 == 1


READING = ReadingTask()
