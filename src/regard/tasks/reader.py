"""A trained reader: a passage and a question in, the span that answers it out."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.core.counting import counted
from regard.core.errors import RunError
from regard.core.files import write_text
from regard.data.byte_level import Span
from regard.data.padding import batches_by_length, padded
from regard.data.questions import LeftOut, PassageQuestion, located_questions
from regard.data.segments import SPACES, Segments
from regard.data.text import DataError
from regard.data.text_lines import whole_text
from regard.decoding.spans import best_spans
from regard.models.readers.reader_model import ReadTexts
from regard.recording import intervene
from regard.tasks.passage_codec import EncodedTexts
from regard.tasks.reading import (
    READING,
    ReadingAsking,
    ReadingAudit,
    ReadingEvaluation,
    ReadingParts,
    ReadingSettings,
)
from regard.tasks.squad_scores import exact_match, f1
from regard.tasks.system import Forward, OneOfMany, Reply, Scores, System, check_finite, erase

if TYPE_CHECKING:
    from regard.tasks.case import Case

POSITIONS = 16_384  # tokens that are read at once, padding included


@dataclass(frozen=True, eq=False)
class ReadAnswer(OneOfMany):
    """The answer to one question: a span of the passage."""

    passage: str
    question: str
    said: str
    span: Span  # its characters in the passage
    log_prob: float | None  # among all spans that may be answers
    tokens: tuple[int, int]  # first and last
    texts: EncodedTexts = field(repr=False)


class Reader(System):
    """A model with its tokenizer."""

    task = READING
    rows, second_name = "question", "Question"
    takes_second = True  # a passage and a question
    parts: ReadingParts
    settings: ReadingSettings

    @property
    def around(self) -> tuple[int, int]:
        """Before the first word of the passage stands the sentinel, if the model has one."""
        return int(hasattr(self.model, "passage_sentinel")), 0

    @property
    def heads(self) -> int:
        return 1

    @property
    def layers(self) -> list[str]:
        """The attentions over the passage, then those over the question."""
        roles = self.attention_paths
        return [*roles.get("passage", []), *roles.get("question", [])]

    @property
    def layer_names(self) -> list[str]:
        roles = self.attention_paths
        names = {
            "passage": "from the question to the passage",
            "question": "from the passage to the question",
        }
        return [f"{path}, {names[role]}" for role, paths in roles.items() for path in paths]

    @property
    def purpose(self) -> str:
        return "Answers questions about a passage with a span of it."

    @property
    def examples(self) -> list[str]:
        return [one.passage for one in self.held_out]

    @property
    def second_examples(self) -> list[str]:
        return [one.question for one in self.held_out]

    # Answers

    def answer(self, inputs: Sequence[tuple[str, str]], **options: Any) -> list[ReadAnswer]:
        """The answers to (passage, question) pairs."""
        for number, one in enumerate(inputs, 1):
            if isinstance(one, str) or len(one) != 2:
                raise ValueError(f"input {number}: a reader takes (passage, question); got {one!r:.60}.")
            for what, text in zip(("passage", "question"), one, strict=True):
                if not text.strip(SPACES):
                    raise ValueError(f"input {number}: the {what} is empty.")
        encoded = self.parts.codec.encode([(one, other) for one, other in inputs])
        found: dict[int, ReadAnswer] = {}
        most = max(POSITIONS, self.settings.data.longest)
        for number, texts in enumerate(encoded, 1):
            for what, count in (("passage", len(texts.tokens)), ("question", len(texts.question_tokens))):
                if count > most:
                    raise ValueError(
                        f"input {number}: the {what} has {count:,} tokens; at most {most:,} are read."
                    )
        choice = self.settings.answers
        lengths = [max(len(one.tokens), len(one.question_tokens)) for one in encoded]
        for some in batches_by_length(lengths, POSITIONS):
            with torch.no_grad():
                last = self.model(self.read_texts([encoded[i] for i in some]))[-1]
            check_finite(torch.where(last.start == -torch.inf, 0, last.start))
            spans, log_probs = best_spans(
                last.start, last.end, self.longest_answer, choice.choose, last.inside
            )
            for i, (first, final), value in zip(some, spans.tolist(), log_probs.tolist(), strict=True):
                texts = encoded[i]
                start, stop = texts.characters(first, final)
                found[i] = ReadAnswer(
                    texts.passage, texts.question, texts.passage[start:stop], (start, stop),
                    min(value, 0.0), (first, final), texts,
                )  # fmt: skip
        return [found[i] for i in range(len(encoded))]

    @property
    def longest_answer(self) -> int:
        """Tokens of an answer at most."""
        longest: int = self.model.longest_answer(self.settings.answers.longest)
        return longest

    def read_texts(self, encoded: Sequence[EncodedTexts]) -> ReadTexts:
        """What the model reads of them, padded."""
        passage, lengths = padded([one.tokens for one in encoded], self.device)
        question, question_lengths = padded([one.question_tokens for one in encoded], self.device)
        return ReadTexts(
            passage, lengths, question, question_lengths,
            _features([one.features for one in encoded], passage),
            _features([one.question_features for one in encoded], question),
        )  # fmt: skip

    def forward(self, inputs: Sequence[EncodedTexts], answers: Sequence[Any] = ()) -> Forward:
        """Log-probabilities (b, 2, n) of start and end, of encoded texts."""
        last = self.model(self.read_texts(inputs))[-1]
        return Forward(torch.stack((last.start, last.end), 1), lambda scores: scores)

    def tokens(self, answer: ReadAnswer) -> tuple[EncodedTexts, list[int]]:
        return answer.texts, []

    def answer_segments(self, answer: ReadAnswer) -> Segments:
        """The question: its words are the rows of the weights."""
        return self.segments(answer.question)

    def batch_weights(self, answers: Sequence[ReadAnswer]) -> list[list[Tensor]]:
        """Between the words of the question (rows) and of the passage, (1, m, n), in both directions."""
        seen = self.recorded(answers, self.layers)
        over_question = self.attention_paths.get("question", [])
        found: list[list[Tensor]] = []
        for i, answer in enumerate(answers):
            m, n = len(answer.texts.question_tokens), len(answer.texts.tokens)
            layers = []
            for path in self.layers:
                weights = seen[path][-1].weights[i]
                weights = weights.T if path in over_question else weights
                if weights.shape[0] < m:  # the question as one query
                    weights = weights.expand(m, -1)
                    layers.append(weights[None, :, self.ahead : self.ahead + n])
                else:
                    layers.append(weights[None, self.ahead : self.ahead + m, self.ahead : self.ahead + n])
            found.append(layers)
        return found

    @property
    def masked_paths(self) -> list[str]:
        return self.layers

    def masking(self, tokens: Sequence[int]) -> AbstractContextManager[None]:
        """A block in which these tokens of the passage get no weight, and themselves look at nothing."""
        if not tokens:
            return nullcontext()
        keys, roles = [self.ahead + token for token in tokens], self.attention_paths

        def silent(weights: Tensor) -> Tensor:
            gone = torch.zeros(weights.shape[-2], 1, dtype=torch.bool, device=weights.device)
            gone[keys] = True
            return torch.where(gone, 0, weights)

        @contextmanager
        def block() -> Iterator[None]:
            with ExitStack() as both:
                if passage := roles.get("passage", []):
                    both.enter_context(intervene(self.model, lambda weights: erase(weights, keys), passage))
                if question := roles.get("question", []):
                    both.enter_context(intervene(self.model, silent, question))
                yield

        return block()

    def reply(self, options: ReadingAsking) -> Reply:
        """The answer to a question about a passage in a file."""
        if options.passage is None or options.question is None:
            raise RunError(
                f"{self.folder} holds a reader: --passage, a text file, and --question are needed."
            )
        passage = whole_text(options.passage, "a passage")
        if not passage.strip(SPACES):
            raise DataError(f"{options.passage}: the passage is empty.")
        if not options.question.strip(SPACES):
            raise DataError("--question is empty.")
        (found,) = self.answer([(passage, options.question)])
        facts = {
            "answer": found.said,
            "start": found.span[0],
            "end": found.span[1],
            "log_prob": found.log_prob,
            "question": found.question,
        }
        return Reply(found.said, facts, passage, (found.span,))

    # Scores and audits

    def score(self, examples: Sequence[PassageQuestion], **options: Any) -> Scores:
        """Exact match and F1 of the answers, per cent, as SQuAD's script has them."""
        return self._scored(examples, self.answer([(one.passage, one.question) for one in examples]))

    def _scored(self, examples: Sequence[PassageQuestion], answers: Sequence[ReadAnswer]) -> Scores:
        both = [(one.said, example.answers) for one, example in zip(answers, examples, strict=True)]
        count = max(len(both), 1)
        exact = 100 * sum(exact_match(*pair) for pair in both) / count
        mean = 100 * sum(f1(*pair) for pair in both) / count
        figures = {"f1": mean, "exact_match": exact, "questions": len(both)}
        return Scores(figures, f"F1 {mean:.2f}, exact match {exact:.2f} on {counted(len(both), 'question')}")

    def evaluate(
        self, options: ReadingEvaluation, progress: Callable[[int, int], None] | None = None
    ) -> Scores:
        if options.data is None:
            raise RunError(f"{self.folder} holds a reader: --data, questions in SQuAD's JSON, is needed.")
        left_out = LeftOut()
        examples = [question for _, question in located_questions(options.data, left_out)]
        answers = self.answer([(one.passage, one.question) for one in examples])
        scores = self._scored(examples, answers)
        if options.out is not None:
            keys = [one.key or str(i) for i, one in enumerate(examples)]
            said = dict(zip(keys, (one.said for one in answers), strict=True))
            write_text(options.out, json.dumps(said, ensure_ascii=False, indent=1))
        figures = {**scores.figures, "left_out": dict(left_out.counts)}
        return Scores(figures, scores.line, notes=tuple(left_out.sentences))

    def case(self, items: Sequence[Any], **options: Any) -> "Case":
        """(passage, question) pairs or questions with their answers."""
        from regard.tasks.reading_case import case_of_questions

        return case_of_questions(self, items, **options)

    def audited(self, options: ReadingAudit) -> "tuple[Case, str]":
        from regard.tasks.reading_case import audited_case

        return audited_case(self, options)


def _features(rows: Sequence[Sequence[Sequence[int]]], tokens: Tensor) -> Tensor:
    """Features (b, n, k) of rows of different lengths, 0 at padding."""
    width = len(rows[0][0])
    found = torch.zeros(*tokens.shape, width, dtype=torch.long)
    for i, row in enumerate(rows):
        found[i, : len(row)] = torch.tensor(row)
    return found.to(tokens.device)
