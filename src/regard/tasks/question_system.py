"""A trained model of questions: a picture and a question in, an answer out, and where each look went."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.core.errors import RunError
from regard.data.corpora import ASKED
from regard.data.corpora.scenes import Asked
from regard.data.images import Pixels
from regard.data.padding import padded
from regard.recording import Record
from regard.tasks.class_scores import class_quality
from regard.tasks.picture_system import PICTURES, PictureClass, PictureSystem, generated_examples
from regard.tasks.picture_tables import PictureTextFiles
from regard.tasks.system import EXAMPLES, Forward, Scores, check_finite
from regard.tasks.visual_question import (
    VISUAL_QUESTION,
    QuestionAudit,
    QuestionParts,
    QuestionSettings,
    check_answer,
)

if TYPE_CHECKING:
    from regard.tasks.case import Case


@dataclass(frozen=True, eq=False)
class PictureAnswer(PictureClass):
    """The answer to one question, and on demand where the model looked."""

    question: str
    question_tokens: list[int] = field(repr=False)

    @cached_property
    def weights(self) -> list[Tensor]:
        """The weight of each region, (n,), in each look."""
        return [layer[0, 0] for layer in self.system.weights(self)]

    @property
    def facts(self) -> dict[str, Any]:
        """What `regard classify --json` prints."""
        return {
            "picture": self.picture,
            "question": self.question,
            "label": self.label,
            "probabilities": self.probabilities,
            "grid": list(self.system.grid),
            "weights": [one.tolist() for one in self.weights],
            "densities": self.system.ellipses(self),
        }


class QuestionSystem(PictureSystem):
    """A model with the size of its pictures, the tokenizer of questions, and the answers."""

    task, role = VISUAL_QUESTION, "reader"
    parts: QuestionParts
    settings: QuestionSettings

    @property
    def tokenizer(self) -> Any:
        """What cuts questions."""
        return self.parts.tokenizer

    @property
    def labels(self) -> tuple[str, ...]:
        """The answers, in the order of the logits."""
        return self.parts.classes.names

    @property
    def takes_second(self) -> bool:
        return True

    @property
    def heads(self) -> int:
        return 1

    @property
    def facts(self) -> list[str]:
        return [f"{len(self.labels)} answers", f"{self.size.height} × {self.size.width} pixels"]

    @property
    def purpose(self) -> str:
        return "Answers questions about pictures."

    @cached_property
    def asked(self) -> list[Asked]:
        """A few questions that it was not trained on, where they are generated; else none."""
        if self.settings.data.corpus is None:
            return []
        return [one for _, one in islice(self.task.read(self.settings, "valid"), EXAMPLES)]

    @property
    def pictures(self) -> list[Pixels]:
        return [one.pixels for one in self.asked]

    @property
    def sample(self) -> Any:
        return super().sample, "?"

    # Answers

    def classify(self, inputs: Sequence[Any], *, batch: int | None = None) -> list[PictureAnswer]:
        """The answer to each (picture, question)."""
        read, questions, found = [], [], []
        for number, one in enumerate(inputs, 1):
            if not isinstance(one, tuple) or len(one) != 2 or not str(one[1]).strip():
                raise ValueError(f"input {number}: a picture and a question are needed.")
            read.append(self.read(one[0]))
            questions.append(str(one[1]))
        tokens = self.tokenizer.encode_many(questions)
        if empty := [question for question, some in zip(questions, tokens, strict=True) if not some]:
            raise ValueError(f"the question {empty[0]!r} has no word.")
        for start in range(0, len(read), batch or PICTURES):
            some = range(start, min(start + (batch or PICTURES), len(read)))
            with torch.no_grad():
                logits = self.forward([read[i].pixels for i in some], [tokens[i] for i in some]).logits()
            check_finite(logits)
            for i, row in zip(some, logits.double().softmax(-1).tolist(), strict=True):
                probabilities = dict(zip(self.labels, row, strict=True))
                label = max(probabilities, key=probabilities.__getitem__)
                one = read[i]
                found.append(
                    PictureAnswer(one.name, one.pixels, label, probabilities, self, questions[i], tokens[i])
                )
        return found

    def answer(self, inputs: Sequence[Any], **options: Any) -> list[PictureAnswer]:
        return self.classify(inputs, **options)

    def forward(self, inputs: Sequence[Any], answers: Sequence[Sequence[int]]) -> Forward:
        """Logits (b, classes) of pictures (c, h, w) and questions given as tokens."""
        logits = self.model(self.stacked(inputs), *padded(answers, self.device))
        return Forward(logits, lambda logits: logits)

    # Attention

    def recorded(self, answers: Sequence[PictureAnswer], paths: Sequence[str]) -> Record:
        given = [one.pixels for one in answers], [one.question_tokens for one in answers]
        return self.recorded_while(lambda: self.forward(*given), paths)

    def batch_weights(self, answers: Sequence[PictureAnswer]) -> list[list[Tensor]]:
        """The weights over the regions in each look, (1, 1, n); what densities have below 0 counts as 0."""
        seen = self.recorded(answers, self.layers)
        layers = [seen[path][-1].weights.clamp(min=0) for path in self.layers]  # (b, 1, n) each
        return [[layer[i : i + 1] for layer in layers] for i in range(len(answers))]

    def ellipses(self, answer: PictureAnswer) -> list[dict[str, Any]]:
        """Mean and covariance (row, column, from 0 to 1) of the density of each look, if there is one."""
        found = self.model.densities(self.recorded([answer], self.layers))
        return [{"mean": one.mean[0].tolist(), "covariance": one.covariance[0].tolist()} for one in found]

    # Scores and audits

    def score(self, examples: Sequence[Asked], **options: Any) -> Scores:
        """Accuracy, log loss, and the weight of the last look in the box of what the answer is about."""
        answers = self.classify([(one.pixels, one.question) for one in examples])
        found = class_quality([one.probabilities for one in answers], [one.label for one in examples])
        figures: dict[str, Any] = asdict(found)
        figures["questions"] = figures.pop("texts")
        del figures["by_class"]
        boxes = self.in_boxes(answers, [one.box for one in examples])
        said = "".join(f"; {name.replace('_', ' ')} {value:.3f}" for name, value in boxes.items())
        return Scores(
            {**figures, **boxes},
            f"accuracy {found.accuracy:.4f}, log loss {found.loss:.4f} on {len(examples):,} questions{said}",
        )

    def examples_of(self, options: PictureTextFiles, what: str) -> list[Asked]:
        """The questions that options of a command name."""
        if options.data is None and options.generated is None:
            raise RunError(
                f"{self.folder} holds a {self.task.makes}: --data, questions to {what} (a table), is needed; "
                "or --generated N, for new ones of the set that it learned from."
            )
        if options.data is not None:
            found = []
            for where, one in self.task.table(options.data, self.size):
                check_answer(self.parts.classes, one, where)
                found.append(one)
            return found
        assert options.generated is not None
        return generated_examples(self, ASKED, options.generated)

    def evaluate(
        self, options: PictureTextFiles, progress: Callable[[int, int], None] | None = None
    ) -> Scores:
        return self.score(self.examples_of(options, "evaluate on"))

    def case(self, items: Sequence[Any], **options: Any) -> "Case":
        """Questions (picture, question), or those with answers and boxes; the regions are explained."""
        from regard.tasks.image_case import case_of_pictures

        both = [(one.pixels, one.question) if isinstance(one, Asked) else one for one in items]
        tokens = self.tokenizer.encode_many([question for _, question in both])
        if not all(tokens):
            raise ValueError("every question needs a word.")
        given = list(items) if all(isinstance(one, Asked) for one in items) else [one for one, _ in both]
        return case_of_pictures(self, given, padded(tokens, self.device), **options)

    def audited(self, options: QuestionAudit) -> "tuple[Case, str]":
        some = self.examples_of(options, "audit on")
        what = repr([(one.question, one.label, one.pixels.tobytes()) for one in some])
        return self.case(some, baseline=options.baseline), f"{what}{options.baseline}"
