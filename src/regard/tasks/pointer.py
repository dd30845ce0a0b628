"""A trained model that points: points in, positions of them out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import RunError, SettingsError
from regard.data.corpora.geometry import POINTED
from regard.data.padding import batches_by_length
from regard.data.points import PointSet, located_points, parsed, written
from regard.data.segments import Segments, Span, split_at_spaces
from regard.data.text import DataError
from regard.models.pointers.pointer_model import END
from regard.tasks.point_scores import point_scores
from regard.tasks.pointing import (
    POINTING,
    PointingAsking,
    PointingEvaluation,
    PointingParts,
    PointingSettings,
)
from regard.tasks.system import EXAMPLES, Forward, OneOfMany, Reply, Scores, System, check_finite

POSITIONS = 4096  # points that are read at once, padding included
Given = str | Sequence[Any]  # "0.1,0.7 0.3,0.2", or a list of points


@dataclass(frozen=True, eq=False)
class Pointed(OneOfMany):
    """The answer to one problem: positions of its points."""

    points: list[list[float]]
    positions: list[int]  # from 0
    log_prob: float | None

    tokens: list[list[float]] = field(repr=False)  # the points as the model reads them

    @property
    def said(self) -> str:
        """The positions, counted from 1, as people do."""
        return " ".join(str(i + 1) for i in self.positions)


class Pointer(System):
    """A model with what is known of its problems."""

    task = POINTING
    unknown, units = None, "points"
    parts: PointingParts
    settings: PointingSettings

    @property
    def heads(self) -> int:
        return 1

    @property
    def around(self) -> tuple[int, int]:
        """Before the first point stands the end, where the model points at it."""
        return int(hasattr(self.model, "pointer")), 0

    @property
    def kind(self) -> str | None:
        """The kind of its problems, if they are generated."""
        return self.settings.data.kind

    @property
    def facts(self) -> list[str]:
        return [self.kind] if self.kind else []

    @property
    def purpose(self) -> str:
        return f"Points at its input. {POINTED[self.kind].says}" if self.kind else "Points at its input."

    @cached_property
    def examples(self) -> list[str]:
        if self.kind is None:
            return []
        some = islice(self.task.read(self.settings, "valid"), EXAMPLES)
        return [written(one.points) for _, one in some]

    def segments(self, text: str, spans: Sequence[Span] | None = None) -> Segments:
        """The points of a line: each is a word and a token."""
        found = split_at_spaces(text) if spans is None else list(spans)
        order = list(range(len(found)))
        return Segments(text, order, found, [text[a:b] for a, b in found], found, order)

    # Answers

    def answer(self, inputs: Sequence[Given], **options: Any) -> list[Pointed]:
        """The positions for each problem: a list of points, or a line of them. No points: no positions."""
        problems = [self._points(one, number) for number, one in enumerate(inputs, 1)]
        found = {i: Pointed([], [], 0.0, []) for i, one in enumerate(problems) if not one}
        for some in batches_by_length([len(one) for one in problems], POSITIONS):
            scaled = [self.parts.scaled(problems[i]).tolist() for i in some]
            points, lengths = self._padded(scaled)
            said, log_probs = self.model.point(points, lengths)
            check_finite(log_probs)
            for i, read, row, value in zip(some, scaled, said.tolist(), log_probs.tolist(), strict=True):
                stop = row.index(END) if END in row else len(row)
                found[i] = Pointed(problems[i], [j - 1 for j in row[:stop]], min(value, 0.0), read)
        return [found[i] for i in range(len(problems))]

    def _points(self, given: Given, number: int) -> list[list[float]]:
        points = parsed(given) if isinstance(given, str) else [
            [float(x) for x in one] if isinstance(one, Sequence) else [float(one)] for one in given
        ]  # fmt: skip
        wrong = [one for one in points if len(one) != self.parts.coordinates]
        if wrong:
            raise DataError(
                f"input {number}: a point has {self.parts.coordinates} numbers here; got {wrong[0]}."
            )
        return points

    def _padded(self, rows: Sequence[Sequence[Sequence[float]]]) -> tuple[Tensor, Tensor]:
        lengths = torch.tensor([len(row) for row in rows])
        points = torch.zeros(len(rows), int(lengths.max()), self.parts.coordinates)
        for i, row in enumerate(rows):
            points[i, : len(row)] = torch.tensor(row)
        return points.to(self.device), lengths.to(self.device)

    def forward(self, inputs: Sequence[Any], answers: Sequence[Any]) -> Forward:
        """Log-probabilities (b, k, 1 + n) of problems as the model reads them and positions, 1 the first."""
        points, lengths = self._padded(inputs)
        k = max(len(answer) for answer in answers) + 1
        wanted = torch.tensor([[*answer, *[END] * (k - len(answer))] for answer in answers])
        scores = self.model(points, lengths, wanted.to(self.device))
        return Forward(scores, lambda scores: scores)

    def tokens(self, answer: Pointed) -> tuple[list[list[float]], list[int]]:
        return answer.tokens, [i + 1 for i in answer.positions]

    def answer_segments(self, answer: Pointed) -> Segments:
        """One word for each position."""
        text = answer.said
        spans = split_at_spaces(text)
        order = list(range(len(spans)))
        return Segments(text, order, spans, [text[a:b] for a, b in spans], spans, order)

    def batch_weights(self, answers: Sequence[Pointed]) -> list[list[Tensor]]:
        """The weights of each step over the points, (1, k, n); the weight of the end is not among them."""
        return [
            [layer[..., self.ahead : self.ahead + len(answer.points)] for layer in layers]
            for answer, layers in zip(answers, super().batch_weights(answers), strict=True)
        ]

    def reply(self, options: PointingAsking) -> Reply:
        """The positions of points."""
        if options.points is None:
            raise RunError(f"{self.folder} holds a pointer: --points is needed.")
        (found,) = self.answer([options.points])
        if not found.points:
            raise DataError("--points is empty.")
        facts = {"answer": found.positions, "log_prob": found.log_prob, "points": found.points}
        rows = tuple((str(i + 1), written([found.points[i]])) for i in found.positions)
        return Reply(found.said, facts, headings=("position", "point"), rows=rows)

    # Scores

    def score(self, examples: Sequence[PointSet], **options: Any) -> Scores:
        """The share of answers that are right as a whole, and what else its kind of problem has."""
        return self._scored(self.kind, examples)

    def _scored(
        self,
        kind: str | None,
        examples: Sequence[PointSet],
        progress: Callable[[int, int], None] | None = None,
    ) -> Scores:
        said = [one.positions for one in self.answer([one.points for one in examples])]
        figures: dict[str, Any] = point_scores(kind, examples, said)
        twice = sum(len(set(one)) < len(one) for one in said)
        listed = ", ".join(f"{name} {value:.4f}" for name, value in figures.items())
        figures |= {"problems": len(examples), "pointed_twice": twice}
        return Scores(figures, f"{listed} on {len(examples):,} problems")

    def evaluate(
        self, options: PointingEvaluation, progress: Callable[[int, int], None] | None = None
    ) -> Scores:
        if options.data is not None:
            kind = options.corpus or self.kind
            if kind is not None:
                POINTED[kind]
            return self._scored(kind, [one for _, one in located_points(options.data)])
        if options.length is None:
            raise RunError(
                f"{self.folder} holds a pointer: --data, a file of points and positions, or --length, the "
                "number of points of generated problems, is needed."
            )
        kind = options.corpus or self.kind
        if kind is None:
            raise RunError(f"{self.folder} learned from a file: --corpus names what to generate.")
        problem, length = POINTED[kind], options.length
        if not problem.least <= length <= problem.largest:
            raise SettingsError(
                f"--length must be from {problem.least} to {problem.largest:,} for {kind}; got {length}."
            )
        made = problem(options.seed, "test", length, length)
        return self._scored(kind, list(islice(made, options.problems)))
