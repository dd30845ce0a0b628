"""What is audited: texts, what a model says of them, the weights it shows, and what it says with others.

A case is made of functions, so that any model can be one:

    predict(texts, rows)        probabilities (r, classes); rows (r,) say which of the texts each was made of
    look(texts, rows)           weights (b, k, n), and `again` or None: from other weights (b, k, n) to
                                probabilities (b, classes)

and of what not every model has: gradients, states, labels, gold highlights, a way to train another one.
`regard.audits.ours` makes a case of a model of this project, `regard.audits.outside` of bare functions.

Texts are sequences of tokens. k are queries or heads; what is shown to people is their mean, `shown`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.audits.finding import NotApplicable
from regard.runs.translator import batches_by_length

POSITIONS = 1 << 14  # tokens that are read at once, padding included
Texts = Sequence[Sequence[Any]]
Again = Callable[[Tensor], Tensor]  # weights (b, k, n) to probabilities (b, classes)


class Batch(NamedTuple):
    """Some of the texts of a case."""

    rows: Tensor  # (b,): which
    lengths: Tensor  # (b,)
    weights: Tensor  # (b, k, n), 0 at padding
    said: Tensor  # (b, classes)
    again: Again | None

    @property
    def there(self) -> Tensor:
        """True for what is not padding: (b, n)."""
        return torch.arange(self.weights.shape[-1]) < self.lengths.unsqueeze(-1)

    @property
    def decision(self) -> Tensor:
        """The class that is said: (b,)."""
        return self.said.argmax(-1)

    @property
    def shown(self) -> Tensor:
        """The weight of each word (b, n): the mean of the queries."""
        return self.weights.mean(-2)


@dataclass(frozen=True, eq=False)
class Case:
    """A model with texts, to be audited."""

    texts: Texts
    ask: Callable[[Texts, Tensor], Tensor]  # predict, unchecked
    look: Callable[[Texts, Tensor], tuple[Tensor, Again | None]]
    gradients: Callable[[Texts, Tensor], Tensor] | None = None  # (b, n), at least 0
    slopes: Callable[[Texts, Tensor], tuple[Tensor, Tensor]] | None = None  # vectors, gradients (b, n, d)
    states: Callable[[Texts, Tensor], tuple[Tensor, Tensor]] | None = None  # states and vectors, (b, n, d)
    labels: Tensor | None = None  # (N,): the right classes
    highlights: Sequence[Sequence[bool]] | None = None  # for each text, which words people find decisive
    words: Sequence[Sequence[str]] | None = None  # of each text, as they are shown
    differentiable: bool = False  # whether `again` is, in the weights
    train: Any = None  # for tests that train: `regard.audits.training`
    classes: Sequence[str] | None = None  # their names
    aligned: Any = None  # of a translator, (system, pairs, gold links)

    def __len__(self) -> int:
        return len(self.texts)

    def of(self, rows: Tensor) -> "Case":
        """The case of some of the texts."""
        some = rows.tolist()

        def pick(given: Sequence[Any] | None) -> list[Any] | None:
            return None if given is None else [given[i] for i in some]

        def moved(function: Any) -> Any:
            return None if function is None else lambda texts, at: function(texts, rows[at])

        return replace(
            self,
            texts=[self.texts[i] for i in some],
            ask=moved(self.ask),
            look=moved(self.look),
            gradients=moved(self.gradients),
            slopes=moved(self.slopes),
            states=moved(self.states),
            labels=None if self.labels is None else self.labels[rows],
            highlights=pick(self.highlights),
            words=pick(self.words),
        )

    @cached_property
    def lengths(self) -> Tensor:
        """Tokens of each text: (N,)."""
        return torch.tensor([len(text) for text in self.texts])

    def predict(self, texts: Texts, rows: Tensor) -> Tensor:
        """Probabilities (r, classes) of texts that were made of the texts `rows` (r,)."""
        found: Tensor | None = None
        for some in batches_by_length([len(text) for text in texts], POSITIONS):
            at = torch.tensor(some)
            said = checked(self.ask([texts[i] for i in some], rows[at]), len(some))
            found = torch.zeros(len(texts), said.shape[-1], dtype=torch.float64) if found is None else found
            found[at] = said
        if found is None:
            raise NotApplicable("there are no texts")
        return found

    @cached_property
    def said(self) -> Tensor:
        """Probabilities of the texts as they are: (N, classes)."""
        return self.predict(self.texts, torch.arange(len(self)))

    @cached_property
    def decision(self) -> Tensor:
        """The class that is said of each text: (N,)."""
        return self.said.argmax(-1)

    @cached_property
    def batches(self) -> list[Batch]:
        """All texts, alike in length together."""
        found = []
        for some in batches_by_length(self.lengths.tolist(), POSITIONS):
            rows = torch.tensor(some)
            weights, again = self.look([self.texts[i] for i in some], rows)
            found.append(
                Batch(
                    rows,
                    self.lengths[rows],
                    looked(weights, self.lengths[rows]),
                    self.said[rows],
                    _guarded(again, len(some)),
                )
            )
        return found

    def each(self, measure: Callable[[Batch], Tensor]) -> Tensor:
        """measure(batch), (b, …), of every text: (N, …), in the order of the texts."""
        parts = [(batch.rows, measure(batch).detach()) for batch in self.batches]
        rows = torch.cat([rows for rows, _ in parts])
        return torch.cat([part for _, part in parts])[rows.argsort()]

    def changeable(self) -> None:
        """Raise NotApplicable if weights cannot be changed."""
        if any(batch.again is None for batch in self.batches):
            raise NotApplicable("the weights cannot be changed from outside: no `intervene` was given")

    def several_classes(self) -> None:
        """Raise NotApplicable if every text gets the same class."""
        if int(self.decision.unique().numel()) < 2:
            raise NotApplicable("every text gets the same class")

    @cached_property
    def longer(self) -> Tensor:
        """Texts of at least two tokens, where something is left without one: (N',)."""
        rows = (self.lengths > 1).nonzero().squeeze(-1)
        if not len(rows):
            raise NotApplicable("no text has two tokens or more")
        return rows

    @cached_property
    def leave_one_out(self) -> list[Tensor]:
        """TVD between what is said with and without each token, (n,) for each text; empty for one token."""
        without, rows = [], []
        for i in self.longer.tolist():
            text = list(self.texts[i])
            without += [text[:t] + text[t + 1 :] for t in range(len(text))]
            rows += [i] * len(text)
        at = torch.tensor(rows)
        moved = 0.5 * (self.predict(without, at) - self.said[at]).abs().sum(-1)
        sizes = torch.where(self.lengths > 1, self.lengths, 0)
        return list(moved.split(sizes.tolist()))

    @cached_property
    def gradient(self) -> list[Tensor]:
        """How steeply the class changes with each token, (n,) for each text."""
        if self.gradients is None:
            raise NotApplicable("the model has no gradient that can be asked for")
        found: dict[int, Tensor] = {}
        for batch in self.batches:
            slopes = self.gradients([self.texts[i] for i in batch.rows.tolist()], batch.rows)
            for i, row, n in zip(batch.rows.tolist(), slopes, batch.lengths.tolist(), strict=True):
                found[i] = row[:n].double()
        return [found[i] for i in range(len(self))]

    @cached_property
    def shown(self) -> list[Tensor]:
        """The weight of each token, (n,) for each text; they sum to 1, unless all are 0."""
        found: dict[int, Tensor] = {}
        for batch in self.batches:
            for i, row, n in zip(batch.rows.tolist(), batch.shown, batch.lengths.tolist(), strict=True):
                found[i] = row[:n] / row[:n].sum().clamp(min=1e-300)
        return [found[i] for i in range(len(self))]


def padded(rows: Sequence[Tensor], value: float = 0.0) -> Tensor:
    """Rows (n_i,) as one tensor (N, n)."""
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=value)


def checked(given: Any, count: int) -> Tensor:
    """Probabilities (count, classes), or why they are none."""
    try:
        said = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError):
        raise NotApplicable(f"predict returned {type(given).__name__}, not numbers") from None
    if said.dim() != 2 or len(said) != count or said.shape[-1] < 2:
        raise NotApplicable(
            f"predict must return probabilities ({count}, classes), two classes or more; "
            f"it returned {tuple(said.shape)}"
        )
    said = said.detach().double().cpu()
    if not bool(said.isfinite().all()):
        raise NotApplicable("predict returned NaN or infinity")
    sums = said.sum(-1)
    if bool((said < 0).any()) or not torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
        raise NotApplicable(
            "predict must return probabilities, and returned something else (logits?): "
            f"the first row sums to {float(sums[0]):.3g}"
        )
    return said


def looked(weights: Tensor, lengths: Tensor) -> Tensor:
    """Weights (b, k, n) in double precision, 0 at padding, or why they are none."""
    weights = weights.detach().double().cpu()
    if weights.dim() != 3 or len(weights) != len(lengths) or weights.shape[-1] < int(lengths.max()):
        raise NotApplicable(
            f"attention must have a weight for each token, ({len(lengths)}, {int(lengths.max())}); "
            f"it has {tuple(weights.shape)}"
        )
    weights = weights[..., : int(lengths.max())]
    there = (torch.arange(weights.shape[-1]) < lengths.unsqueeze(-1)).unsqueeze(-2)
    weights = torch.where(there, weights, 0)
    if not bool((weights.isfinite() & (weights >= 0)).all()):
        raise NotApplicable("attention has weights that are negative or not numbers")
    return weights


def _guarded(again: Again | None, count: int) -> Again | None:
    if again is None:
        return None
    inner = again

    def asked(weights: Tensor) -> Tensor:
        said = inner(weights)
        if isinstance(said, Tensor) and said.requires_grad:
            checked(said, count)
            return said.double()
        return checked(said, count)

    return asked
