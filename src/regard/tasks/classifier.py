"""A trained classifier: texts in, classes out, and the attention over their words."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.attention import Attended
from regard.core.errors import RunError
from regard.core.recorders import suspended
from regard.core.tokens import UNK
from regard.data.labelled import Classes, Labelled
from regard.data.padding import batches_by_length, padded
from regard.data.segments import SPACES
from regard.data.tokenizer import Tokenizer
from regard.models.classifiers.classifier_model import check_texts
from regard.recording import Record, record
from regard.tasks.class_scores import class_quality
from regard.tasks.classification import (
    CLASSIFICATION,
    ClassificationAudit,
    ClassificationEvaluation,
    ClassificationSettings,
    TextParts,
    labelled_texts,
)
from regard.tasks.system import Forward, Scores, System

if TYPE_CHECKING:
    from regard.tasks.case import Case

POSITIONS = 16_384  # tokens that are read at once, padding included
Text = str | tuple[str, str]  # a second text asks about the first


@dataclass(frozen=True, eq=False)
class Classification:
    """The class of one text, and on demand the attention over its words."""

    text: str
    second: str | None
    label: str  # the most likely
    probabilities: dict[str, float]  # of every label
    tokens: list[int] = field(repr=False)
    second_tokens: list[int] = field(repr=False)
    system: "Classifier" = field(repr=False)

    @property
    def said(self) -> str:
        """The class."""
        return self.label

    @property
    def log_prob(self) -> float:
        """Of the class."""
        return torch.tensor(self.probabilities[self.label], dtype=torch.float64).log().item()

    @property
    def words(self) -> list[str]:
        """The n tokens that the model read: for tokens that are words, the words of the text."""
        found = self.system.segments(self.text)
        if self.system.tokenizer.kind == "word" and len(found.words) == len(self.tokens):
            return found.words
        return self.system.tokenizer.pieces(self.tokens)

    @cached_property
    def seen(self) -> Record:
        """What the attentions over the words did: `Attended` by path."""
        return self.system.recorded([self], self.system.layers)

    @property
    def attended(self) -> dict[str, Attended]:
        """The same, the last call of each path."""
        return {path: calls[-1] for path, calls in self.seen.items()}

    @cached_property
    def weights(self) -> Tensor:
        """The weight of each token, (k, n): k queries or heads."""
        found: Tensor = self.system.model.over_words(self.seen)[0]
        return found


class Classifier(System):
    """A model with its tokenizer and its classes."""

    task = CLASSIFICATION
    role, picture = "reader", "words"
    parts: TextParts
    settings: ClassificationSettings

    @property
    def tokenizer(self) -> Tokenizer:
        """What cuts texts."""
        return self.parts.tokenizer

    @property
    def classes(self) -> Classes:
        """The classes, and whether a second text comes with each."""
        return self.parts.classes

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the logits."""
        return self.classes.names

    @property
    def takes_second(self) -> bool:  # type: ignore[override]
        return self.classes.pairs

    @property
    def facts(self) -> list[str]:
        return [f"{len(self.labels)} classes"]

    @cached_property
    def example(self) -> str:
        if self.settings.data.corpus is None:
            return ""
        text: str = next(self.task.read(self.settings, "valid"))[1].text
        return text

    @cached_property
    def _shape(self) -> tuple[int, int]:
        """How many queries or heads there are over the words, and how many keys before the first token."""
        with torch.no_grad(), record(self.model, self.layers) as seen:
            self.forward([[UNK]], [[UNK]])
        keys = seen[self.layers[0]][-1].weights.shape[-1]
        return int(self.model.over_words(seen).shape[1]), keys - 1

    @property
    def heads(self) -> int:
        """Queries or heads over the words."""
        return self._shape[0]

    @property
    def ahead(self) -> int:  # type: ignore[override]
        return self._shape[1]

    # Answers

    def classify(self, texts: Sequence[Text]) -> list[Classification]:
        """The class of each text; of a model for pairs, of each (text, second text)."""
        if isinstance(texts, str):
            raise TypeError("classify takes a list of texts; got one string. Use classify([text]).")
        both = [self._two(text, number) for number, text in enumerate(texts, 1)]
        encoded = self.tokenizer.encode_many([text for text, _ in both])
        seconds = self.tokenizer.encode_many([second or "" for _, second in both])
        found: dict[int, Classification] = {}
        for some in batches_by_length([len(tokens) for tokens in encoded], POSITIONS):
            with torch.no_grad():
                logits = self.forward([encoded[i] for i in some], [seconds[i] for i in some]).logits()
            if not bool(logits.isfinite().all()):
                raise ValueError("the model's answer is not a number: its weights are damaged or diverged.")
            for i, row in zip(some, logits.double().softmax(-1).tolist(), strict=True):
                probabilities = dict(zip(self.labels, row, strict=True))
                label = max(probabilities, key=probabilities.__getitem__)
                found[i] = Classification(*both[i], label, probabilities, encoded[i], seconds[i], self)
        return [found[i] for i in range(len(both))]

    def answer(self, inputs: Sequence[Text], **options: Any) -> list[Classification]:
        return self.classify(inputs, **options)

    def forward(self, inputs: Sequence[Sequence[int]], answers: Sequence[Sequence[int]] = ()) -> Forward:
        """Logits (b, classes) of texts given as tokens; `answers` are the tokens of second texts, if any."""
        tokens, lengths = padded(inputs, self.device)
        check_texts(tokens, lengths)
        with suspended():  # what the second text asks is neither recorded nor changed
            second = padded(answers, self.device) if self.classes.pairs else ()
            condition = self.model.condition(tokens, lengths, *second)
        logits = self.model.from_embedded(self.model.embed(tokens), lengths, condition)
        return Forward(logits, lambda logits: logits)

    def _two(self, text: Text, number: int) -> tuple[str, str | None]:
        one, second = (text, None) if isinstance(text, str) else text
        if self.classes.pairs != (second is not None):
            wanted = "(text, second text)" if self.classes.pairs else "one text"
            raise ValueError(f"text {number}: this classifier takes {wanted}; got {text!r}.")
        if not one.strip(SPACES) or (second is not None and not second.strip(SPACES)):
            raise ValueError(f"text {number} is empty: there is nothing to classify.")
        return one, second

    # Attention

    def tokens(self, answer: Classification) -> tuple[list[int], list[int]]:
        return answer.tokens, answer.second_tokens

    def weights(self, answer: Classification) -> list[Tensor]:
        """The weights over the tokens, (k, 1, n): k queries or heads."""
        return [answer.weights.unsqueeze(-2)]

    @property
    def layer_names(self) -> list[str]:
        """One: the weights over the words, times those over sentences if there are any."""
        return [" × ".join(self.layers)]

    @property
    def masked_paths(self) -> list[str]:
        """The attention whose keys are the words."""
        return self.layers[:1]

    # Scores and audits

    def score(self, examples: Sequence[Labelled], **options: Any) -> Scores:
        """Accuracy, macro F1, log loss, and precision, recall and F1 of each class."""
        asked: list[Any] = [
            text.text if text.second is None else (text.text, text.second) for text in examples
        ]
        answers = self.classify(asked)
        found = class_quality([one.probabilities for one in answers], [text.label for text in examples])
        rows = (
            (label, f"{by['texts']:,}", *(f"{by[name]:.3f}" for name in ("precision", "recall", "f1")))
            for label, by in found.by_class.items()
        )
        return Scores(
            asdict(found),
            f"accuracy {found.accuracy:.4f}, macro F1 {found.macro_f1:.4f}, log loss {found.loss:.4f} "
            f"on {found.texts:,} texts",
            ("class", "texts", "precision", "recall", "F1"),
            tuple(rows),
        )

    def evaluate(
        self, options: ClassificationEvaluation, progress: Callable[[int, int], None] | None = None
    ) -> Scores:
        if options.data is None:
            raise RunError(
                f"{self.folder} holds a classifier: --data, a .tsv or .jsonl of labelled texts, is needed."
            )
        return self.score(labelled_texts(options.data, self.classes))

    def case(self, items: Sequence[Any], **options: Any) -> "Case":
        """Texts, pairs of texts, or labelled texts with or without highlights."""
        from regard.tasks.classification_case import case_of_texts

        return case_of_texts(self, items, **options)

    def audited(self, options: ClassificationAudit) -> "tuple[Case, str]":
        from regard.tasks.classification_case import audited_case

        return audited_case(self, options)
