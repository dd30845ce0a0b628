"""What explanations and audits ask of a model: a dataclass of functions, so that any model can be one.

    predictor(texts, rows)    probabilities (r, classes); rows (r,) say which of the texts each was made of
    attention(texts, rows)    weights (b, k, n), and a function from other weights (b, k, n) to probabilities
                              (b, classes), or None if weights cannot be changed

and what not every model has: gradients, hidden states, labels, gold highlights, a way to train another one.
`Case.from_functions` and `Case.from_model` make one, and `System.case` for every trained system.

Texts are sequences of tokens. k are queries or heads; what is shown to people is their mean, `shown`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from regard.core.shapes import are_probabilities
from regard.data.padding import batches_by_length
from regard.tasks.classification import ClassificationTraining
from regard.training import Training

if TYPE_CHECKING:
    from regard.alignment.links import Links
    from regard.models.classifiers import ClassifierModel
    from regard.models.subject import Subject

POSITIONS = 1 << 14  # tokens that are read at once, padding included
Texts = Sequence[Sequence[Any]]
WithWeights = Callable[[Tensor], Tensor]  # weights (b, k, n) to probabilities (b, classes)


class NotApplicable(Exception):
    """A test cannot be made here; the message says why, to be read after "because"."""


@dataclass(frozen=True, eq=False)
class Trainable:
    """Texts to learn from, and how the audited model was trained: for tests that train it again."""

    texts: Texts
    labels: Tensor  # (N,)
    classes: int
    model: "ClassifierModel | None" = None  # the audited one, if it is of this project
    training: Training = field(default_factory=ClassificationTraining)
    initialise: "Callable[[ClassifierModel], None] | None" = None  # a new model, as with vectors of words


class CaseBatch(NamedTuple):
    """Some of the texts of a case."""

    rows: Tensor  # (b,): which
    lengths: Tensor  # (b,)
    weights: Tensor  # (b, k, n), 0 at padding
    probabilities: Tensor  # (b, classes)
    with_weights: WithWeights | None

    @property
    def real(self) -> Tensor:
        """True for what is not padding: (b, n)."""
        return torch.arange(self.weights.shape[-1]) < self.lengths.unsqueeze(-1)

    @property
    def decision(self) -> Tensor:
        """The predicted class: (b,)."""
        return self.probabilities.argmax(-1)

    @property
    def shown(self) -> Tensor:
        """The weight of each token (b, n): the mean of the queries."""
        return self.weights.mean(-2)

    def intervene(self, weights: Tensor) -> Tensor:
        """Probabilities (b, classes) with these weights (b, k, n) in the place of the model's own."""
        if self.with_weights is None:
            raise NotApplicable("the weights cannot be changed from outside: no `intervene` was given")
        found = self.with_weights(weights)
        checked = checked_probabilities(found, len(self.rows))
        return found.double() if isinstance(found, Tensor) and found.requires_grad else checked


@dataclass(frozen=True, eq=False)
class Case:
    """A model with texts, to be explained or audited."""

    texts: Texts
    predictor: Callable[[Texts, Tensor], Tensor]  # unchecked; `predict` is checked
    attention: Callable[[Texts, Tensor], tuple[Tensor, WithWeights | None]]
    gradients: Callable[[Texts, Tensor], Tensor] | None = None  # (b, n), at least 0
    slopes: Callable[[Texts, Tensor], tuple[Tensor, Tensor]] | None = None  # vectors, gradients (b, n, d)
    states: Callable[[Texts, Tensor], tuple[Tensor, Tensor]] | None = None  # states and vectors, (b, n, d)
    subject: "Callable[[Texts, Tensor], Subject] | None" = None  # what explanations are computed of
    keys: Callable[[Texts, Tensor], dict[str, Tensor]] | None = (
        None  # by attention, how far weights (b,) follow keys
    )
    labels: Tensor | None = None  # (N,): the right classes
    highlights: Sequence[Sequence[bool]] | None = None  # for each text, which tokens people find decisive
    words: Sequence[Sequence[str]] | None = None  # the tokens of each text, as they are shown
    differentiable: bool = False  # whether probabilities are, in the weights
    train: Trainable | None = None
    classes: Sequence[str] | None = None  # their names
    size: int = 0  # parameters, without embeddings: of large models fewer texts are audited quickly
    preamble: str = ""  # a sentence that a report says first
    aligned: "tuple[Any, list[tuple[str, str]], Sequence[Links]] | None" = None  # system, pairs, gold links
    explained: Tensor | None = None  # (N,): the class that is explained; None: the predicted one
    inputs_of: Sequence[int] | None = None  # the input of each text, where an input has several decisions

    @classmethod
    def from_functions(
        cls,
        predict: Callable[[Any], Any],
        attention: Callable[[Any], Any],
        inputs: Texts,
        *,
        intervene: Callable[[Any, Tensor], Any] | None = None,
        **more: Any,
    ) -> "Case":
        """The case of any model, as functions of texts (`regard.tasks.black_box`)."""
        from regard.tasks.black_box import case_of_functions

        return case_of_functions(predict, attention, inputs, intervene, **more)

    @classmethod
    def from_model(
        cls,
        model: "ClassifierModel",
        texts: Sequence[Sequence[int]],
        seconds: Sequence[Sequence[int]] | None = None,
        **more: Any,
    ) -> "Case":
        """The case of a classifier model and texts given as tokens; `seconds` for a model for pairs."""
        from regard.tasks.classification_case import case_of_model

        return case_of_model(model, texts, seconds, **more)

    def __len__(self) -> int:
        return len(self.texts)

    def subset(self, rows: Tensor) -> "Case":
        """The case of some of the texts."""
        some = rows.tolist()

        def picked(given: Sequence[Any] | None) -> list[Any] | None:
            return None if given is None else [given[i] for i in some]

        def moved(function: Any) -> Any:
            return None if function is None else lambda texts, at: function(texts, rows[at])

        functions = ("predictor", "attention", "gradients", "slopes", "states", "subject", "keys")
        return replace(
            self,
            texts=[self.texts[i] for i in some],
            labels=None if self.labels is None else self.labels[rows],
            explained=None if self.explained is None else self.explained[rows],
            inputs_of=picked(self.inputs_of),
            highlights=picked(self.highlights),
            words=picked(self.words),
            **{name: moved(getattr(self, name)) for name in functions},
        )

    @property
    def states_and_vectors(self) -> Callable[[Texts, Tensor], tuple[Tensor, Tensor]]:
        """`states`, which tests of hidden states need."""
        if self.states is None:
            raise NotApplicable(
                "hidden states of all words are needed: none were given, or the model reads selected words"
            )
        return self.states

    @property
    def known_labels(self) -> Tensor:
        """The right classes (N,), which tests that count mistakes need."""
        if self.labels is None:
            raise NotApplicable("the right classes of the texts were not given")
        return self.labels

    @cached_property
    def lengths(self) -> Tensor:
        """Tokens of each text: (N,)."""
        return torch.tensor([len(text) for text in self.texts])

    def predict(self, texts: Texts, rows: Tensor) -> Tensor:
        """Probabilities (r, classes) of texts that were made of the texts `rows` (r,)."""
        found: Tensor | None = None
        for some in batches_by_length([len(text) for text in texts], POSITIONS):
            at = torch.tensor(some)
            part = checked_probabilities(self.predictor([texts[i] for i in some], rows[at]), len(some))
            found = torch.zeros(len(texts), part.shape[-1], dtype=torch.float64) if found is None else found
            found[at] = part
        if found is None:
            raise NotApplicable("there are no texts")
        return found

    @cached_property
    def probabilities(self) -> Tensor:
        """Of the texts as they are: (N, classes)."""
        return self.predict(self.texts, torch.arange(len(self)))

    @cached_property
    def decision(self) -> Tensor:
        """The predicted class of each text: (N,)."""
        return self.probabilities.argmax(-1)

    @cached_property
    def batches(self) -> list[CaseBatch]:
        """All texts, alike in length together."""
        found = []
        for some in batches_by_length(self.lengths.tolist(), POSITIONS):
            rows = torch.tensor(some)
            weights, with_weights = self.attention([self.texts[i] for i in some], rows)
            lengths = self.lengths[rows]
            weights = checked_weights(weights, lengths)
            found.append(CaseBatch(rows, lengths, weights, self.probabilities[rows], with_weights))
        return found

    def texts_of(self, batch: CaseBatch) -> Texts:
        """The texts of a batch."""
        return [self.texts[i] for i in batch.rows.tolist()]

    def each(self, measure: Callable[[CaseBatch], Tensor]) -> Tensor:
        """measure(batch), (b, …), of every text: (N, …), in the order of the texts."""
        parts = [(batch.rows, measure(batch).detach()) for batch in self.batches]
        rows = torch.cat([rows for rows, _ in parts])
        return torch.cat([part for _, part in parts])[rows.argsort()]

    def require_intervention(self) -> None:
        """Raise NotApplicable if weights cannot be changed."""
        if any(batch.with_weights is None for batch in self.batches):
            raise NotApplicable("the weights cannot be changed from outside: no `intervene` was given")

    def require_several_classes(self) -> None:
        """Raise NotApplicable if every text gets the same class."""
        if int(self.decision.unique().numel()) < 2:
            raise NotApplicable("every text gets the same class")

    def words_of(self, row: int) -> list[str]:
        """The tokens of a text as they are shown."""
        return list(self.words[row]) if self.words is not None else [str(token) for token in self.texts[row]]

    def class_name(self, number: int) -> str:
        """The name of a class."""
        return str(self.classes[number]) if self.classes is not None else f"class {number}"

    @cached_property
    def longer(self) -> Tensor:
        """Texts of at least two tokens, where something is left without one: (N',)."""
        rows = (self.lengths > 1).nonzero().squeeze(-1)
        if not len(rows):
            raise NotApplicable("no text has two tokens or more")
        return rows

    @cached_property
    def leave_one_out(self) -> list[Tensor]:
        """TVD between predictions with and without each token, (n,) for each text; empty for one token."""
        without, rows = [], []
        for i in self.longer.tolist():
            text = list(self.texts[i])
            without += [text[:t] + text[t + 1 :] for t in range(len(text))]
            rows += [i] * len(text)
        at = torch.tensor(rows)
        moved = 0.5 * (self.predict(without, at) - self.probabilities[at]).abs().sum(-1)
        sizes = torch.where(self.lengths > 1, self.lengths, 0)
        return list(moved.split(sizes.tolist()))

    @cached_property
    def gradient(self) -> list[Tensor]:
        """How steeply the class changes with each token, (n,) for each text."""
        gradients = self.gradients
        if gradients is None:
            raise NotApplicable("the model has no gradient that can be asked for")
        return self._split(lambda batch: gradients(self.texts_of(batch), batch.rows).double())

    @cached_property
    def shown(self) -> list[Tensor]:
        """The weight of each token, (n,) for each text; they sum to 1, unless all are 0."""
        return [row / row.sum().clamp(min=1e-300) for row in self._split(lambda batch: batch.shown)]

    def _split(self, measure: Callable[[CaseBatch], Tensor]) -> list[Tensor]:
        """measure(batch), (b, n), without padding: (n,) for each text."""
        found: dict[int, Tensor] = {}
        for batch in self.batches:
            for i, row, n in zip(batch.rows.tolist(), measure(batch), batch.lengths.tolist(), strict=True):
                found[i] = row[:n]
        return [found[i] for i in range(len(self))]


def pad_rows(rows: Sequence[Tensor], value: float = 0.0) -> Tensor:
    """Rows (n_i,) as one tensor (N, n)."""
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=value)


def checked_probabilities(given: Any, count: int) -> Tensor:
    """Probabilities (count, classes), detached and in double precision; NotApplicable if they are none."""
    try:
        found = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError):
        raise NotApplicable(f"predict returned {type(given).__name__}, not numbers") from None
    if found.dim() != 2 or len(found) != count or found.shape[-1] < 2:
        raise NotApplicable(
            f"predict must return probabilities ({count}, classes), two classes or more; "
            f"it returned {tuple(found.shape)}"
        )
    found = found.detach().double().cpu()
    if not bool(found.isfinite().all()):
        raise NotApplicable("predict returned NaN or infinity")
    if not are_probabilities(found):
        raise NotApplicable(
            "predict must return probabilities, and returned something else (logits?): "
            f"the first row sums to {float(found[0].sum()):.3g}"
        )
    return found


def checked_weights(weights: Tensor, lengths: Tensor) -> Tensor:
    """Weights (b, k, n) in double precision, 0 at padding; NotApplicable if they are none."""
    weights = weights.detach().double().cpu()
    if weights.dim() != 3 or len(weights) != len(lengths) or weights.shape[-1] < int(lengths.max()):
        raise NotApplicable(
            f"attention must have a weight for each token, ({len(lengths)}, {int(lengths.max())}); "
            f"it has {tuple(weights.shape)}"
        )
    weights = weights[..., : int(lengths.max())]
    real = (torch.arange(weights.shape[-1]) < lengths.unsqueeze(-1)).unsqueeze(-2)
    weights = torch.where(real, weights, 0)
    if not bool((weights.isfinite() & (weights >= 0)).all()):
        raise NotApplicable("attention has weights that are negative or not numbers")
    return weights
