"""A trained model of questions: a picture and a question in, an answer out, and where each look went."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from torch import Tensor

from regard.core.counting import counted
from regard.data.corpora.scenes import Asked
from regard.data.padding import padded
from regard.recording import Record
from regard.tasks.class_scores import class_quality
from regard.tasks.picture_system import PictureClass, PictureClassifier
from regard.tasks.picture_tables import PictureTextAudit, PictureTextFiles
from regard.tasks.system import Forward, Scores
from regard.tasks.visual_question import (
    VISUAL_QUESTION,
    VisualQuestionParts,
    VisualQuestionSettings,
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


class VisualQuestionSystem(PictureClassifier):
    """A model with the size of its pictures, the tokenizer of questions, and the answers."""

    task, kinds, takes_second, heads = VISUAL_QUESTION, "answers", True, 1
    second_name = "Question"
    parts: VisualQuestionParts
    settings: VisualQuestionSettings

    @property
    def purpose(self) -> str:
        return "Answers questions about pictures."

    @property
    def second_examples(self) -> list[str]:
        return [one.question for one in self.held_out]

    @property
    def sample(self) -> Any:
        return super().sample, "?"

    # Answers

    def classify(self, inputs: Sequence[Any], *, batch: int | None = None) -> list[PictureAnswer]:
        """The answer to each (picture, question)."""
        read, questions = [], []
        for number, one in enumerate(inputs, 1):
            if not isinstance(one, tuple) or len(one) != 2 or not str(one[1]).strip():
                raise ValueError(f"input {number}: a picture and a question are needed.")
            read.append(self.read(one[0]))
            questions.append(str(one[1]))
        tokens = self.tokenizer.encode_many(questions)
        if empty := [question for question, some in zip(questions, tokens, strict=True) if not some]:
            raise ValueError(f"the question {empty[0]!r} has no word.")
        found = self.most_likely(
            len(read), batch,
            lambda some: self.forward([one.pixels for one in read[some]], tokens[some]).logits(),
        )  # fmt: skip
        return [
            PictureAnswer(one.name, one.pixels, *answer, self, question, ids)
            for one, answer, question, ids in zip(read, found, questions, tokens, strict=True)
        ]

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
            f"accuracy {found.accuracy:.4f}, log loss {found.loss:.4f} on "
            f"{counted(len(examples), 'question')}{said}",
        )

    def examples_of(self, options: PictureTextFiles, what: str) -> list[Asked]:
        """The questions that options of a command name."""
        found = self.from_table(
            options,
            f"--data, questions to {what} (a table), is needed; or --generated N, for new ones of the set "
            "that it learned from.",
        )
        if options.data is not None:
            for where, one in found:
                check_answer(self.parts.classes, one, where)
        return [one for _, one in found]

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

    def audited(self, options: PictureTextAudit) -> "tuple[Case, str]":
        some = self.examples_of(options, "audit on")
        what = repr([(one.question, one.label, one.pixels.tobytes()) for one in some])
        return self.case(some, baseline=options.baseline), f"{what}{options.baseline}"
