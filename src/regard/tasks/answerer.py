"""A trained question answerer: a story and a question in, an answer out, and the sentences it looked at."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.core.errors import RunError
from regard.core.tokens import PAD, UNK
from regard.data.padding import batches_by_length, padded
from regard.data.segments import Segments, Span
from regard.data.stories import StoryQuestion, questions, sentence_spans, sentences, story_files, words
from regard.data.text import DataError
from regard.data.text_lines import whole_text
from regard.tasks.answer_scores import answer_scores
from regard.tasks.answering import (
    ANSWERING,
    AnsweringAsking,
    AnsweringFiles,
    AnsweringSettings,
    StoryParts,
)
from regard.tasks.system import Forward, Reply, Scores, System, most_likely

if TYPE_CHECKING:
    from regard.tasks.case import Case

POSITIONS = 8192  # sentences that are read at once, padding included
MOST = 1 << 20  # words of a story, each sentence padded to the longest
Story = str | Sequence[str]  # a text, or its sentences


@dataclass(frozen=True, eq=False)
class StoryAnswer:
    """The answer to one question, and the sentences it was asked about."""

    story: list[str]
    question: str
    said: str
    probabilities: dict[str, float] = field(repr=False)  # of every answer
    tokens: list[list[int]] = field(repr=False)  # the words of each sentence
    question_tokens: list[int] = field(repr=False)

    @property
    def log_prob(self) -> float:
        """Of the answer."""
        return torch.tensor(self.probabilities[self.said], dtype=torch.float64).log().item()


class Answerer(System):
    """A model with its words and answers."""

    task = ANSWERING
    role, picture, takes_second = "reader", "words", True
    kinds, units, unknown, second_name = "answers", "sentences", None, "Question"
    parts: StoryParts
    settings: AnsweringSettings

    @property
    def labels(self) -> tuple[str, ...]:
        """The answers, in the order of the logits."""
        return self.parts.answers

    @property
    def facts(self) -> list[str]:
        return [*super().facts, f"{len(self.layers)} hops"]

    @property
    def purpose(self) -> str:
        return f"Answers questions on stories with one of {len(self.labels)} answers."

    @property
    def examples(self) -> list[str]:
        return ["\n".join(one.story) for one in self.held_out]

    @property
    def second_examples(self) -> list[str]:
        return [one.question for one in self.held_out]

    # Answers

    def answer(self, inputs: Sequence[tuple[Story, str]], **options: Any) -> list[StoryAnswer]:
        """The answer to each (story, question); a story is a text or a list of sentences."""
        stories = [sentences(story) if isinstance(story, str) else list(story) for story, _ in inputs]
        asked = [question for _, question in inputs]
        for number, (story, question) in enumerate(zip(stories, asked, strict=True), 1):
            if not any(map(words, story)):
                raise ValueError(f"story {number} is empty: there is nothing to read.")
            if not words(question):
                raise ValueError(f"question {number} is empty: there is nothing to answer.")
        known = list(dict.fromkeys(sentence for story in stories for sentence in story))
        tokens = dict(zip(known, self.parts.tokens(known), strict=True))
        given = [[tokens[sentence] for sentence in story] for story in stories]
        for number, read in enumerate(given, 1):
            longest = max(map(len, read))
            if len(read) * longest > MOST:
                raise ValueError(
                    f"story {number} is too long: {len(read):,} sentences, the longest of {longest:,} "
                    f"words; sentences times words may be at most {MOST:,}."
                )
        of_questions = self.parts.tokens(asked)
        found: dict[int, StoryAnswer] = {}
        for some in batches_by_length([len(story) for story in given], POSITIONS):
            with torch.no_grad():
                logits = self.forward([given[i] for i in some], [of_questions[i] for i in some]).logits()
            for i, answer in zip(some, most_likely(logits, self.labels), strict=True):
                found[i] = StoryAnswer(stories[i], asked[i], *answer, given[i], of_questions[i])
        return [found[i] for i in range(len(inputs))]

    def forward(self, inputs: Sequence[Sequence[Sequence[int]]], answers: Sequence[Sequence[int]]) -> Forward:
        """Logits (b, answers) of stories, sentences of words; `answers` are the words of the questions."""
        logits = self.model(*story_tensors(inputs, answers, self.device))
        return Forward(logits, lambda logits: logits)

    def tokens(self, answer: StoryAnswer) -> tuple[list[list[int]], list[int]]:
        return answer.tokens, answer.question_tokens

    def segments(self, text: str, spans: Sequence[Span] | None = None) -> Segments:
        """The sentences of a story; each is a token and a word."""
        spans = sentence_spans(text) if spans is None else list(spans)
        numbers = list(range(len(spans)))
        return Segments(text, numbers, spans, [text[a:b] for a, b in spans], spans, numbers)

    def input(self, text: str, second: str | None = None) -> Any:
        return [text[a:b] for a, b in sentence_spans(text)], second or ""

    @property
    def heads(self) -> int:
        return 1

    # Commands

    def reply(self, options: AnsweringAsking) -> Reply:
        if options.story is None or options.question is None:
            raise RunError(f"{self.folder} holds a question answerer: --story and --question are needed.")
        story = sentences(whole_text(options.story, "a story"))
        if not story:
            raise DataError(f"{options.story}: the story has no sentences.")
        (found,) = self.answer([(story, options.question)])
        weights = [layer[0, 0].tolist() for layer in self.weights(found)]
        unknown = [word for word in words(options.question) if UNK in self.parts.tokens([word])[0]]
        notes = [f"probability {found.probabilities[found.said]:.3f}"]
        if unknown:
            few = ", ".join(word[:40] for word in unknown[:20])
            notes.append(f"words of the question never seen in training: {few}")
        rows = ((sentence, *(f"{hop[i]:.2f}" for hop in weights)) for i, sentence in enumerate(found.story))
        return Reply(
            found.said,
            {
                "answer": found.said,
                "probability": found.probabilities[found.said],
                "question": found.question,
                "story": found.story,
                "weights": weights,
            },
            headings=("sentence", *(f"hop {k + 1}" for k in range(len(weights)))),
            rows=tuple(rows),
            notes=tuple(notes),
        )

    def score(self, examples: Sequence[StoryQuestion], **options: Any) -> Scores:
        """Accuracy on each task, and whether the hops look at the sentences that support the answers."""
        return answer_scores(self, examples)

    def evaluate(self, options: AnsweringFiles, progress: Callable[[int, int], None] | None = None) -> Scores:
        return self.score(self.read(options.data))

    def read(self, data: Sequence[str]) -> list[StoryQuestion]:
        """The questions of files; of a folder those to test on."""
        if not data:
            raise RunError(f"{self.folder} holds a question answerer: --data, files with stories, is needed.")
        return [question for file in story_files(data) for _, question in questions(file)]

    def case(self, items: Sequence[Any], **options: Any) -> "Case":
        """(Story, question) pairs, or `StoryQuestion`s, with answers and supporting sentences."""
        from regard.tasks.answering_case import case_of_stories

        return case_of_stories(self, items, **options)

    def audited(self, options: AnsweringFiles) -> "tuple[Case, str]":
        from regard.tasks.answering_case import audited_stories

        return audited_stories(self, options)

    def hop_weights(self, answers: Sequence[StoryAnswer]) -> Tensor:
        """The weights of every hop over the sentences of stories, (b, hops, n), 0 at padding."""
        seen = self.recorded(answers, self.layers)
        n = max(len(one.tokens) for one in answers)
        return torch.stack([seen[path][-1].weights[:, 0, :n] for path in self.layers], 1)


def story_tensors(
    stories: Sequence[Sequence[Sequence[int]]], asked: Sequence[Sequence[int]], device: str | torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Stories (b, n, w), questions (b, q) and how many sentences there are (b,), padded."""
    n = max(len(story) for story in stories)
    w = max((len(sentence) for story in stories for sentence in story), default=1) or 1
    rows = [
        [[*sentence, *[PAD] * (w - len(sentence))] for sentence in story] + [[PAD] * w] * (n - len(story))
        for story in stories
    ]
    lengths = torch.tensor([len(story) for story in stories], device=device)
    return torch.tensor(rows, device=device), padded(asked, device)[0], lengths
