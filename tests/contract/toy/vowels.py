"""A toy task, one file: count the vowels of a text, a regression on tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Any, Literal

import torch

from contract.toy.vowel_counter import VOWEL_COUNTERS
from regard.core.errors import RunError, SettingsError
from regard.core.settings import setting
from regard.data.corpora.corpus import Corpus
from regard.data.fields import number_field, token_field
from regard.data.padding import padded
from regard.data.text import lines
from regard.data.tokenizer import Tokenizer
from regard.tasks.system import Forward, Scores, System
from regard.tasks.task import Task, TaskSettings
from regard.training import Training


def count(text: str) -> int:
    return sum(character in "aeiou" for character in text)


def texts(seed: int, split):
    chance = Random(2 * seed + (split == "valid"))
    while True:
        yield "".join(chance.choice("aeioubcdfg ") for _ in range(chance.randint(2, 12))).strip() or "a"


@dataclass(frozen=True)
class VowelData:
    corpus: str = setting("letters", "A generated corpus.", option="--corpus")
    texts: int = 200
    held_out: int = 40
    longest: int = 64
    fingerprint: str | None = None


@dataclass(frozen=True)
class VowelSettings(TaskSettings):
    data: VowelData = setting(factory=VowelData)
    task: Literal["vowels"] = "vowels"
    training: Training = setting(
        factory=lambda: Training(steps=200, schedule="constant", warmup=10, rate=0.02)
    )


@dataclass(frozen=True)
class VowelEvaluation:
    data: str | None = setting(None, "Texts, one per line.", metavar="FILE")


@dataclass(frozen=True)
class Letters:
    tokenizer: Tokenizer

    def save(self, folder):
        self.tokenizer.save(folder / "tokenizer.json")


class VowelTask(Task):
    name, says = "vowels", "Train a vowel counter into DIR."
    makes, examples, unit = "vowel counter", "texts", "texts"
    Settings, Evaluation = VowelSettings, VowelEvaluation
    models, default_model = VOWEL_COUNTERS, "vowel_counter"
    corpora: Mapping[str, Any] = {"letters": Corpus("letters", "Random letters.", texts)}
    usage = ("regard evaluate DIR --data texts.txt",)

    def read(self, settings, part):
        data = settings.data
        if data.corpus not in self.corpora:
            raise SettingsError(f"no corpus {data.corpus!r}; known: letters.")
        size = data.texts if part == "train" else data.held_out
        stream = self.corpora[data.corpus](settings.seed, part)
        return ((f"text {i}", text) for i, text in enumerate(islice(stream, size), 1))

    def parts(self, settings, say):
        read = (text for _, text in self.read(settings, "train"))
        return Letters(Tokenizer.train(read, "character", size=15))

    def load_parts(self, folder):
        return Letters(Tokenizer.load(folder / "tokenizer.json"))

    def fields(self, settings, parts):
        return {"tokens": token_field(len(parts.tokenizer)), "vowels": number_field("<f4")}

    def encode(self, settings, parts, examples):
        found = parts.tokenizer.encode_many(examples)
        return [{"tokens": ids, "vowels": count(text)} for text, ids in zip(examples, found, strict=True)]

    def longest(self, settings):
        return {"tokens": settings.data.longest}

    def sizes(self, settings, parts):
        return {"vocabulary": 8 if parts is None else len(parts.tokenizer)}

    def loss(self, settings, model, batch):
        error = model(batch["tokens"], batch.lengths["tokens"]) - batch["vowels"]
        return error.square().sum(), len(batch)

    def measure(self, model, batch):
        error = model(batch["tokens"], batch.lengths["tokens"]) - batch["vowels"]
        return {"loss": error.square().sum().item(), "right": int((error.abs() < 0.5).sum())}, len(batch)

    def system(self, model, parts, settings, folder=None):
        return VowelSystem(model, parts, settings, folder)


VOWELS = VowelTask()


@dataclass(frozen=True, eq=False)
class Count:
    text: str
    vowels: float
    tokens: list[int]
    log_prob = None

    @property
    def said(self):
        return f"{self.vowels:.1f}"

    @property
    def probabilities(self):
        return {}


class VowelSystem(System):
    task, role, picture = VOWELS, "reader", "words"

    @property
    def tokenizer(self):
        return self.parts.tokenizer

    def answer(self, inputs, **options):
        encoded = self.tokenizer.encode_many(list(inputs))
        found = {}
        for i, ids in enumerate(encoded):
            with torch.no_grad():
                found[i] = self.forward([ids], []).logits().item() if ids else 0.0
        return [Count(text, found[i], encoded[i]) for i, text in enumerate(inputs)]

    def forward(self, inputs, answers=()):
        return Forward(self.model(*padded(inputs, self.device)), lambda hidden: hidden)

    def score(self, examples, **options):
        error = [abs(one.vowels - count(one.text)) for one in self.answer(examples)]
        mean = sum(error) / len(error)
        return Scores({"error": mean, "texts": len(error)}, f"mean error {mean:.3f} on {len(error):,} texts")

    def evaluate(self, options, progress=None):
        if options.data is None:
            raise RunError("--data, a file of texts, is needed.")
        return self.score(list(lines(options.data)))
