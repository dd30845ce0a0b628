"""A trained classifier: texts in, classes out, and where it looked."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from regard.attention import Attended
from regard.core.tokens import PAD
from regard.data import Tokenizer
from regard.data.classes import Classes
from regard.data.segments import segments
from regard.looking import Record, record
from regard.models.classifiers import Classifier as Model
from regard.runs.translator import batches_by_length

POSITIONS = 16_384  # tokens that are read at once, padding included
Text = str | tuple[str, str]  # a second text asks about the first


@dataclass(frozen=True, eq=False)
class Classification:
    """The class of one text, and on demand where the model looked."""

    text: str
    second: str | None
    label: str  # the likeliest
    probabilities: dict[str, float]  # of every label
    tokens: list[int] = field(repr=False)
    second_tokens: list[int] = field(repr=False)
    system: "Classifier" = field(repr=False)

    @property
    def words(self) -> list[str]:
        """The n tokens that the model read: for tokens that are words, the words of the text."""
        if self.system.tokenizer.kind == "word":
            return segments(self.system.tokenizer, self.text).words
        return self.system.tokenizer.pieces(self.tokens)

    @cached_property
    def seen(self) -> Record:
        """What the attentions over the words did: `Attended` by path."""
        with torch.no_grad(), record(self.system.model, self.system.model.looks) as seen:
            self.system.logits([self.tokens], [self.second_tokens])
        return seen

    @property
    def attended(self) -> dict[str, Attended]:
        """The same, the last call of each path."""
        return {path: calls[-1] for path, calls in self.seen.items()}

    @cached_property
    def weights(self) -> Tensor:
        """The weight of each word, (k, n): k queries or heads."""
        return self.system.model.over_words(self.seen)[0]


class Classifier:
    """A model with its tokenizer and its classes."""

    def __init__(self, model: Model, tokenizer: Tokenizer, classes: Classes):
        self.model = model.eval()
        self.tokenizer, self.classes = tokenizer, classes

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the logits."""
        return self.classes.names

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
                logits = self.logits([encoded[i] for i in some], [seconds[i] for i in some])
            if not bool(logits.isfinite().all()):
                raise ValueError("the model's answer is not a number: its weights are damaged or diverged.")
            for i, row in zip(some, logits.double().softmax(-1).tolist(), strict=True):
                probabilities = dict(zip(self.labels, row, strict=True))
                label = max(probabilities, key=probabilities.__getitem__)
                found[i] = Classification(*both[i], label, probabilities, encoded[i], seconds[i], self)
        return [found[i] for i in range(len(both))]

    def logits(self, texts: Sequence[list[int]], seconds: Sequence[list[int]] = ()) -> Tensor:
        """Logits (b, classes) of texts given as tokens."""
        given = self.padded(texts) + (self.padded(seconds) if self.classes.pairs else ())
        logits: Tensor = self.model(*given)
        return logits

    def padded(self, texts: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
        """Tokens (b, n) and lengths (b,), as the model takes them."""
        return together(texts, self.model)

    def _two(self, text: Text, number: int) -> tuple[str, str | None]:
        one, second = (text, None) if isinstance(text, str) else text
        if self.classes.pairs != (second is not None):
            wanted = "(text, second text)" if self.classes.pairs else "one text"
            raise ValueError(f"text {number}: this classifier takes {wanted}; got {text!r}.")
        if not one.strip() or (second is not None and not second.strip()):
            raise ValueError(f"text {number} is empty: there is nothing to classify.")
        return one, second


def together(texts: Sequence[Sequence[int]], model: Model) -> tuple[Tensor, Tensor]:
    """Texts given as tokens, as (b, n), and lengths (b,), where the model is."""
    device, lengths = next(model.parameters()).device, [len(text) for text in texts]
    n = max(lengths)
    rows = torch.tensor([[*text, *[PAD] * (n - len(text))] for text in texts], dtype=torch.long)
    return rows.to(device), torch.tensor(lengths, device=device)
