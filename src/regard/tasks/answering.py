"""Answering: questions on stories, of which each has one answer among those seen in training.

    loss = −Σ log p(answer | story, question)

Files are bAbI's or .jsonl (`data/stories.py`); several are trained on together. Every tenth story of each
file is held out to validate on, unless there are files for that.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from regard.core.errors import RunError, SettingsError, UnknownNameError
from regard.core.files import read_json, write_text
from regard.core.settings import file_setting, setting
from regard.core.tokens import PAD
from regard.data.batches import Batch
from regard.data.corpora import STORIES
from regard.data.encoded import Encoded
from regard.data.fields import Field, Row, number_field, token_field
from regard.data.splits import Part
from regard.data.stories import StoryQuestion, answer_word, questions, story_files, words
from regard.data.text import DataError
from regard.data.text_lines import LONGEST
from regard.data.tokenizer import Tokenizer
from regard.models.answering import ANSWER_MODELS
from regard.tasks.class_scores import class_measures
from regard.tasks.task import Located, Say, Task, TaskData, TaskSettings
from regard.training import ALONE, CosineTraining
from regard.training.processes import Team
from regard.training.rank_batches import ShuffledBatches

TOKENIZER, ANSWERS = "tokenizer.json", "answers.json"
FACTS = 4  # supporting sentences of a question that are kept
SHARE = 10  # one of so many stories is held out
FORMAT = 2  # of runs: in those of 1 the vectors of sentences were half as long
FILES = "bAbI's files as they are, or .jsonl; .gz too. Repeatable; also a folder or a pattern with *."


@dataclass(frozen=True)
class AnsweringData(TaskData):
    """Where the stories come from."""

    questions: int = setting(10_000, "Questions on generated stories.", least=1)
    held_out: int = setting(1000, "Questions on generated stories to validate on.", least=1)
    train: tuple[str, ...] = setting((), FILES, option="--data", metavar="FILES")
    valid: tuple[str, ...] = setting(
        (), "Others to validate on; without them a tenth is held out.", option="--valid", metavar="FILES"
    )
    memory: int = setting(50, "Sentences of a story that are read at most: the last ones.", least=1)


@dataclass(frozen=True)
class AnsweringTraining(CosineTraining):
    """Settings of the loop; the defaults suit bAbI's tasks with 1,000 questions each, together."""

    steps: int = setting(
        12_000, "Steps of training; unless given, as suits the model.", option="--steps", least=1
    )
    tokens: int = setting(1 << 20, "Sentences of all stories of a batch, padding included.", least=1)
    examples: int = setting(64, "Questions in a batch.", least=1)
    optimiser: Literal["adam", "adamw", "muon", "sgd"] = "adam"
    rate: float = 5e-3
    decay: float = 0.0
    clip: float = 40.0
    linear_start: float = setting(
        0.33,
        "The share of steps, from the first on, in which memory_network attends without softmax.",
        option="--linear-start",
        least=0,
        below=1,
    )


@dataclass(frozen=True)
class AnsweringSettings(TaskSettings):
    data: AnsweringData = setting(factory=AnsweringData)
    task: Literal["answering"] = "answering"
    training: AnsweringTraining = setting(factory=AnsweringTraining)


@dataclass(frozen=True)
class AnsweringFiles:
    """What `regard evaluate` and `regard audit` ask of a system that answers questions."""

    data: tuple[str, ...] = setting((), FILES, metavar="FILES")


@dataclass(frozen=True)
class AnsweringAsking:
    """What `regard answer` asks of it."""

    story: str | None = file_setting(
        "The story: sentences, or the numbered lines of bAbI; - is standard input."
    )
    question: str | None = setting(None, "The question.", metavar="TEXT")


@dataclass(frozen=True)
class StoryParts:
    """The words, the answers, and how many words the longest sentence has."""

    tokenizer: Tokenizer
    answers: tuple[str, ...] = field(repr=False)  # as they are said
    longest: int

    def save(self, folder: Path) -> None:
        """Write tokenizer.json and answers.json."""
        self.tokenizer.save(folder / TOKENIZER)
        facts = {"answers": self.answers, "longest": self.longest, "format": FORMAT}
        write_text(folder / ANSWERS, json.dumps(facts, ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path) -> "StoryParts":
        """Those in a folder."""
        try:
            facts = read_json(folder / ANSWERS)
            version, answers, longest = facts.get("format"), tuple(facts["answers"]), int(facts["longest"])
            distinct = {answer_word(one) for one in answers}
            if not 0 < len(distinct) == len(answers) or not 1 <= longest < LONGEST:
                raise ValueError
        except (OSError, ValueError, TypeError, LookupError, AttributeError, OverflowError):
            raise DataError(f"{folder / ANSWERS}: not what a run of answering has written.") from None
        if version != FORMAT:
            raise RunError(
                f"{folder} was trained by an earlier version of regard, whose networks read sentences "
                "otherwise: train it again (its config.toml can be given as --config)."
            )
        return cls(Tokenizer.load(folder / TOKENIZER), answers, longest)

    @cached_property
    def number(self) -> dict[str, int]:
        """The number of each answer, as one word."""
        return {answer_word(answer): i for i, answer in enumerate(self.answers)}

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The words of sentences."""
        return self.tokenizer.encode_many([" ".join(words(text)) for text in texts])

    @property
    def ids(self) -> tuple[int, ...]:
        """The word of each answer."""
        return tuple(ids[0] for ids in self.tokenizer.encode_many(list(self.number)))


class AnsweringTask(Task):
    """From questions on stories to a network that answers them."""

    name = "answering"
    makes, examples, unit = "question answerer", "questions", "questions"
    Settings, Evaluation, Audit = AnsweringSettings, AnsweringFiles, AnsweringFiles
    Asking = AnsweringAsking
    models, default_model = ANSWER_MODELS, "memory_network"
    corpora, Parts = STORIES, StoryParts
    model_options: Mapping[str, str] = {
        "hops": "How often the story is looked at; 3 unless given.",
        "map": "Any differentiable row map of `regard maps`.",
    }
    command_examples = (
        "regard train answering --out runs/toy",
        "regard train answering --data babi/en --out runs/babi",
        "regard train answering --data qa1_train.txt --data qa2_train.txt --hops 2 --out runs/two",
        "regard train answering --data babi/en --model strong_memory_network --out runs/strong",
    )
    usage = (
        'regard answer DIR --story story.txt --question "Where is Mary?"',
        "regard evaluate DIR --data qa1_test.txt",
    )

    def read(self, settings: AnsweringSettings, part: Part) -> Iterator[Located]:
        """Questions, with where they stand."""
        data = settings.data
        if not data.train:
            corpus = data.corpus or "stories"
            try:
                made = STORIES[corpus](settings.seed, part)
            except UnknownNameError as error:
                raise SettingsError(str(error)) from None
            count = data.questions if part == "train" else data.held_out
            yield from ((f"{corpus}, question {i}", one) for i, one in enumerate(islice(made, count), 1))
            return
        if data.valid:
            for file in story_files(data.train if part == "train" else data.valid, part):
                yield from questions(file)
            return
        for file in story_files(data.train, "train"):
            found = list(questions(file))
            stories = found[-1][1].number + 1
            if stories < 2:
                raise DataError(
                    f"{file} has one story; two are needed, one of them held out. Or give --valid."
                )
            share = min(SHARE, stories)
            for where, one in found:
                if (one.number % share == share - 1) == (part == "valid"):
                    yield where, one

    def parts(self, settings: AnsweringSettings, say: Say) -> StoryParts:
        """Words and answers of the questions to train on; those to validate on must have no other answers."""
        answers: dict[str, str] = {}
        texts: dict[str, None] = {}
        longest = 1
        for _, one in self.read(settings, "train"):
            answers.setdefault(answer_word(one.answer), one.answer)
            texts.update(dict.fromkeys((*one.story, one.question)))
        held = [one for _, one in self.read(settings, "valid")]
        every = [*texts, *(text for one in held for text in (*one.story, one.question))]
        longest = max(map(len, map(words, every)))
        named = tuple(answers[word] for word in sorted(answers))
        if len(named) < 2:
            raise DataError(f"all questions have one answer, {named[0]!r}: there is nothing to learn.")
        lines = [" ".join(words(text)) for text in texts]
        size = len({word for line in lines for word in line.split()} | set(answers)) + 4
        tokenizer = Tokenizer.train([*lines, *sorted(answers)], "word", size)
        say(f"{len(tokenizer) - 4:,} words, {len(named):,} answers")
        unknown = sum(answer_word(one.answer) not in answers for one in held)
        if unknown:
            say(f"{unknown:,} validation questions have answers never seen in training, and are left out")
        return StoryParts(tokenizer, named, longest)

    def fields(self, settings: AnsweringSettings, parts: StoryParts) -> dict[str, Field]:
        """Sentences, question, answer, and which sentences support it, −1 where there are no more."""
        token = token_field(len(parts.tokenizer))
        return {
            "story": Field(token.dtype, (None, parts.longest)),
            "question": token,
            "answer": number_field(),
            "facts": Field("<i8", (FACTS,)),
        }

    def encode(
        self, settings: AnsweringSettings, parts: StoryParts, examples: Sequence[StoryQuestion]
    ) -> list[Row | None]:
        most = settings.data.memory
        asked = parts.tokens([one.question for one in examples])
        known = dict[str, list[int]]()
        rows: list[Row | None] = []
        for one, question in zip(examples, asked, strict=True):
            number = parts.number.get(answer_word(one.answer))
            new = [sentence for sentence in one.story if sentence not in known]
            known.update(zip(new, parts.tokens(new), strict=True))
            first = max(len(one.story) - most, 0)
            facts = [fact - first for fact in one.facts if fact >= first][:FACTS]
            story = [(known[s] + [PAD] * parts.longest)[: parts.longest] for s in one.story[first:]]
            rows.append(
                None
                if number is None
                else {
                    "story": story,
                    "question": question,
                    "answer": number,
                    "facts": facts + [-1] * (FACTS - len(facts)),
                }
            )
        return rows

    def check_encoded(self, settings: AnsweringSettings, encoded: Encoded, part: Part) -> None:
        """Any question fits into a batch."""

    def batches(self, settings: AnsweringSettings, encoded: Encoded, team: Team) -> ShuffledBatches:
        """Questions of all files mixed: batches by length would be of one task each."""
        return ShuffledBatches(encoded, settings.training.examples, settings.seed, team)

    def sizes(self, settings: AnsweringSettings, parts: StoryParts | None) -> dict[str, Any]:
        ages = settings.data.memory + -(-settings.data.memory // 10)  # noise makes sentences seem older
        if parts is None:
            return {"vocabulary": 8, "answers": (4, 5), "memory": ages}
        return {"vocabulary": len(parts.tokenizer), "answers": parts.ids, "memory": ages}

    def complete(self, settings: AnsweringSettings) -> AnsweringSettings:
        model, training = dict(settings.model), settings.training
        if model["name"] == "memory_network" and "linear_start" not in model:
            model["linear_start"] = float(round(training.linear_start * training.steps))
        return replace(settings, model=model)

    def loss(self, settings: AnsweringSettings, model: Any, batch: Batch) -> tuple[Tensor, int]:
        """The sum of the losses of a batch, and how many questions it has."""
        return model.loss(batch), len(batch)

    def measure(self, model: Any, batch: Batch) -> tuple[dict[str, float], int]:
        """Loss, and how many answers are right."""
        logits = model(batch["story"], batch["question"], batch.lengths["story"])
        return class_measures(logits, batch["answer"])

    def validation(self, settings: AnsweringSettings, encoded: Encoded) -> Iterator[Batch]:
        return ShuffledBatches(encoded, 512, 0, ALONE).epoch(0)


ANSWERING = AnsweringTask()
