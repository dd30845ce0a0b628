"""A trained classifier: texts in, classes out, and the attention over their words."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.attention import Attended
from regard.core.counting import counted
from regard.core.errors import RunError
from regard.core.recorders import suspended
from regard.core.tokens import UNK
from regard.data.labelled import Labelled
from regard.data.marks import mark
from regard.data.padding import batches_by_length, padded
from regard.data.segments import SPACES
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
from regard.tasks.system import Forward, LabelAnswer, Scores, System, most_likely

if TYPE_CHECKING:
    from regard.tasks.case import Case

POSITIONS = 16_384  # tokens that are read at once, padding included
Text = str | tuple[str, str]  # a second text asks about the first


@dataclass(frozen=True, eq=False)
class Classification(LabelAnswer):
    """The class of one text, and on demand the attention over its words."""

    text: str
    second: str | None
    label: str  # the most likely
    probabilities: dict[str, float]  # of every label
    tokens: list[int] = field(repr=False)
    second_tokens: list[int] = field(repr=False)
    system: "Classifier" = field(repr=False)

    @property
    def words(self) -> list[str]:
        """The n tokens that the model read: for tokens that are words, the words of the text."""
        return self.system.token_words(self.text, self.tokens)

    @property
    def facts(self) -> dict[str, Any]:
        """What `regard classify --json` prints."""
        facts = {"label": self.label, "probabilities": self.probabilities, "words": self.words}
        return {**facts, "weights": self.weights.tolist()}

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
    def takes_second(self) -> bool:
        return self.parts.classes.pairs

    @property
    def purpose(self) -> str:
        listed = f": {', '.join(self.labels)}" if len(self.labels) <= 10 else ""
        pairs = "pairs of texts" if self.takes_second else "texts"
        return f"Sorts {pairs} into {len(self.labels)} classes{listed}."

    @property
    def examples(self) -> list[str]:
        return [one.text for one in self.held_out]

    @cached_property
    def _shape(self) -> tuple[int, int]:
        """How many queries or heads there are over the words, and how many keys before the first token."""
        with torch.no_grad(), record(self.model, self.layers) as seen:
            self.forward([[UNK]], [[UNK]])
        keys = seen[self.layers[0]][-1].over_tokens.shape[-1]
        return int(self.model.over_words(seen).shape[1]), keys - 1

    @property
    def heads(self) -> int:
        """Queries or heads over the words."""
        return self._shape[0]

    @property
    def around(self) -> tuple[int, int]:
        return self._shape[1], 0

    # Answers

    def classify(self, texts: Sequence[Text], *, batch: int | None = None) -> list[Classification]:
        """The class of each text, or of each (text, second text); at most `batch` are read at once."""
        if isinstance(texts, str):
            raise TypeError("classify takes a list of texts; got one string. Use classify([text]).")
        both, encoded, seconds = self.encoded(texts)
        found: dict[int, Classification] = {}
        for some in batches_by_length([len(tokens) for tokens in encoded], POSITIONS, batch):
            with torch.no_grad():
                logits = self.forward([encoded[i] for i in some], [seconds[i] for i in some]).logits()
            for i, answer in zip(some, most_likely(logits, self.labels), strict=True):
                found[i] = Classification(*both[i], *answer, encoded[i], seconds[i], self)
        return [found[i] for i in range(len(both))]

    def encoded(
        self, texts: Sequence[Text]
    ) -> tuple[list[tuple[str, str | None]], list[list[int]], list[list[int]]]:
        """Texts, each with its second text or None, the tokens of each, and those of the second texts."""
        both = [self._two(text, number) for number, text in enumerate(texts, 1)]
        first = self.tokenizer.encode_many([text for text, _ in both])
        return both, first, self.tokenizer.encode_many([second or "" for _, second in both])

    def token_words(self, text: str, tokens: Sequence[int]) -> list[str]:
        """The tokens of a text as they are shown: for tokens that are words, the words of the text."""
        found = self.segments(text)
        if self.tokenizer.kind == "word" and len(found.words) == len(tokens):
            return found.words
        return self.tokenizer.pieces(tokens)

    def answer(self, inputs: Sequence[Text], **options: Any) -> list[Classification]:
        return self.classify(inputs, **options)

    def forward(self, inputs: Sequence[Sequence[int]], answers: Sequence[Sequence[int]] = ()) -> Forward:
        """Logits (b, classes) of texts given as tokens; `answers` are the tokens of second texts, if any."""
        tokens, lengths = padded(inputs, self.device)
        check_texts(tokens, lengths)
        with suspended():  # what the second text asks is neither recorded nor changed
            second = padded(answers, self.device) if self.parts.classes.pairs else ()
            condition = self.model.condition(tokens, lengths, *second)
        logits = self.model.from_embedded(self.model.embed(tokens), lengths, condition)
        return Forward(logits, lambda logits: logits)

    def _two(self, text: Text, number: int) -> tuple[str, str | None]:
        one, second = (text, None) if isinstance(text, str) else text
        if self.parts.classes.pairs != (second is not None):
            wanted = "(text, second text)" if self.parts.classes.pairs else "one text"
            raise ValueError(f"text {number}: this classifier takes {wanted}; got {text!r}.")
        if not one.strip(SPACES) or (second is not None and not second.strip(SPACES)):
            raise ValueError(f"text {number} is empty: there is nothing to classify.")
        return one, second

    # Attention

    def tokens(self, answer: Classification) -> tuple[list[int], list[int]]:
        return answer.tokens, answer.second_tokens

    def batch_weights(self, answers: Sequence[Classification]) -> list[list[Tensor]]:
        """The weights over the tokens of each text, (k, 1, n): k queries or heads."""
        found = self.model.over_words(self.recorded(answers, self.layers))  # (b, k, n)
        return [[found[i, :, None, : len(one.tokens)]] for i, one in enumerate(answers)]

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
        found = class_quality([one.probabilities for one in answers], list(map(self.right, examples)))
        rows = (
            (label, f"{by['texts']:,}", *(f"{by[name]:.3f}" for name in ("precision", "recall", "f1")))
            for label, by in found.by_class.items()
        )
        return Scores(
            asdict(found),
            f"accuracy {found.accuracy:.4f}, macro F1 {found.macro_f1:.4f}, log loss {found.loss:.4f} "
            f"on {counted(found.texts, 'text')}",
            ("class", "texts", "precision", "recall", "F1"),
            tuple(rows),
        )

    def right(self, text: Labelled) -> str:
        """The name of the class of a labelled text."""
        return self.labels[self.parts.classes.number[text.label]]

    def renamed(self, names: str | None) -> "Classifier":
        """The same with other names of classes, given as "0=negative,1=positive"; None: itself."""
        if names is None:
            return self
        parts = replace(self.parts, classes=self.parts.classes.renamed(names))
        return Classifier(self.model, parts, self.settings, self.folder)

    def evaluate(
        self, options: ClassificationEvaluation, progress: Callable[[int, int], None] | None = None
    ) -> Scores:
        if options.data is None:
            raise RunError(
                f"{self.folder} holds a classifier: --data, labelled texts (.csv, .tsv or .jsonl), is needed."
            )
        system = self.renamed(options.label_names)
        texts = labelled_texts(options.data, system.parts.classes, options.named(self.settings.data))
        if options.words is None:
            return system.score([text for _, text in texts])
        marked = [text for _, text in mark(texts, options.words)]
        scores, words = system.score(marked), system.on_words(marked)
        return replace(scores, figures={**scores.figures, **words.figures}, notes=words.notes)

    def on_words(self, texts: Sequence[Labelled]) -> Scores:
        """The share of the attention on marked words, and the accuracy on the texts without these words."""
        shown = self.case(texts).shown
        weights, rest = [], []
        for text, row in zip(texts, shown, strict=True):
            cut = self.segments(text.text)
            gone = [k for k, marked in enumerate(text.overlaps(cut.spans, text.marked)) if marked]
            weights.append(row[cut.tokens_of(gone)].sum().item())
            rest.append(replace(text, text=cut.remaining(gone)[0]))
        there = [weight for text, weight in zip(texts, weights, strict=True) if text.marked]
        left = [text for text in rest if text.text.strip(SPACES)]
        figures = {
            "weight_on_words": sum(weights) / len(weights),
            "weight_on_words_where_present": sum(there) / len(there) if there else None,
            "texts_with_words": len(there),
            "accuracy_without_words": self.score(left).figures["accuracy"] if left else None,
            "texts_of_these_words_alone": len(rest) - len(left),
        }
        notes = [f"{len(there):,} of {len(texts):,} texts have one or more of the words given"]
        if there:
            notes.append(
                f"attention on them {figures['weight_on_words']:.4f}, in the texts that have them "
                f"{figures['weight_on_words_where_present']:.4f}"
            )
        if left:
            notes.append(
                f"accuracy without them {figures['accuracy_without_words']:.4f} "
                f"on {counted(len(left), 'text')}"
            )
        if len(left) < len(rest):
            notes.append(f"{len(rest) - len(left):,} texts have no other words and are left out of that")
        return Scores(figures, notes[0], notes=tuple(notes))

    def case(self, items: Sequence[Any], **options: Any) -> "Case":
        """Texts, pairs of texts, or labelled texts with or without highlights."""
        from regard.tasks.classification_case import case_of_texts

        return case_of_texts(self, items, **options)

    def audited(self, options: ClassificationAudit) -> "tuple[Case, str]":
        from regard.tasks.classification_case import audited_case

        return audited_case(self, options)
