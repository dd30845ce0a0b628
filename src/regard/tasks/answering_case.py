"""The case of a question answerer: its tokens are the sentences of a story, its queries are the hops."""

from collections.abc import Sequence
from contextlib import ExitStack
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor

from regard.data.stories import StoryQuestion, answer_word
from regard.data.text import DataError
from regard.models.subject import eval_mode
from regard.recording import intervene, record
from regard.tasks.answerer import Answerer, story_tensors
from regard.tasks.answering import AnsweringFiles
from regard.tasks.case import Case, Texts, WithWeights


def case_of_stories(system: Answerer, items: Sequence[Any], **more: Any) -> Case:
    """The case of (story, question) pairs, or of `StoryQuestion`s, whose facts people find decisive."""
    if not items:
        raise ValueError("stories with questions are needed: a list of at least one.")
    pairs = [(one.story, one.question) if isinstance(one, StoryQuestion) else one for one in items]
    answers = system.answer(pairs)
    asked = [one.question_tokens for one in answers]
    known = [one for one in items if isinstance(one, StoryQuestion)]
    if len(known) == len(items):
        numbers = [system.parts.number.get(answer_word(one.answer), -1) for one in known]
        if min(numbers) < 0:
            one = known[numbers.index(-1)]
            raise DataError(f"the answer {one.answer!r} was never seen in training: {one.question!r}")
        more.setdefault("labels", torch.tensor(numbers))
        if all(one.facts for one in known):
            marks = [[i in one.facts for i in range(len(one.story))] for one in known]
            more.setdefault("highlights", marks)
    model, paths = system.model, system.layers

    def tensors(texts: Texts, rows: Tensor) -> tuple[Tensor, ...]:
        return story_tensors(texts, [asked[i] for i in rows.tolist()], system.device)

    def predictor(texts: Texts, rows: Tensor) -> Tensor:
        with eval_mode(model), torch.no_grad():
            found: Tensor = model(*tensors(texts, rows)).double().softmax(-1)
            return found

    def attention(texts: Texts, rows: Tensor) -> tuple[Tensor, WithWeights]:
        given, n = tensors(texts, rows), max(map(len, texts))
        with eval_mode(model), torch.no_grad(), record(model, paths) as seen:
            model(*given)
        own = torch.stack([seen[path][-1].weights[:, 0, :n] for path in paths], 1)  # (b, hops, n)

        def with_weights(weights: Tensor) -> Tensor:
            with eval_mode(model), ExitStack() as stack:
                for k, path in enumerate(paths):
                    stack.enter_context(intervene(model, _replacing(weights[:, k]), path))
                found: Tensor = model(*given).double().softmax(-1)
                return found

        return own, with_weights

    return Case(
        [one.tokens for one in answers],
        predictor,
        attention,
        words=[one.story for one in answers],
        classes=system.labels,
        differentiable=system.settings.model["name"] != "strong_memory_network",  # it chooses sentences
        **more,
    )


def _replacing(weights: Tensor) -> Any:
    """A change of weights (b, 1, n) into these (b, n); keys after the sentences keep theirs."""

    def change(own: Tensor) -> Tensor:
        given = weights.unsqueeze(1).to(own)
        return torch.cat([given, own[..., given.shape[-1] :]], -1)

    return change


def audited_stories(system: Answerer, options: AnsweringFiles) -> tuple[Case, str]:
    """The case of the questions of files, and their content in one string."""
    found = [one for one in system.read(options.data) if answer_word(one.answer) in system.parts.number]
    if not found:
        raise DataError("no question has an answer that was seen in training.")
    content = sha256("\n".join(f"{one.story} {one.question} {one.answer}" for one in found).encode())
    return case_of_stories(system, found), content.hexdigest()
