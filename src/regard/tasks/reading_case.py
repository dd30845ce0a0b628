"""The case of a reader: which of the spans that it found most likely it answers with.

Texts are passages as positions of their tokens, so that words can be taken out of them. The classes of a
passage are its ten most likely answers, in the order in which they stand; probabilities are those of these
spans among each other. A span that lost its first or last token has none. Attention is that of the words of
the question over the passage; the weights of sentinels, and those over the question, stay as they are.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.core.errors import RunError
from regard.data.questions import PassageQuestion, located_questions
from regard.decoding.spans import span_scores
from regard.models.readers.reader_model import SpanLogits
from regard.models.subject import eval_mode
from regard.recording import intervene, record
from regard.tasks.case import Case, Texts, WithWeights
from regard.tasks.passage_codec import EncodedTexts
from regard.tasks.reader import Reader
from regard.tasks.reading import ReadingAudit

CLASSES = 10
MOST = 200  # questions that are audited
LEAST = -60.0  # the log-probability of a span that is not there


def case_of_questions(
    system: Reader, items: Sequence[tuple[str, str] | PassageQuestion], **more: Any
) -> Case:
    """The case of a reader and questions about passages."""
    if isinstance(items, str) or not items:
        raise ValueError("questions are needed: a list of at least one (passage, question).")
    paths = system.attention_paths.get("passage", [])
    if not paths:
        name = system.settings.model["name"]
        raise RunError(f"the reader {name} has no attention over the passage that could be audited.")
    pairs = [(one.passage, one.question) if isinstance(one, PassageQuestion) else one for one in items]
    texts = [answer.texts for answer in system.answer(pairs)]
    spans = _candidates(system, texts)

    def batch(some: Texts, rows: Tensor) -> list[EncodedTexts]:
        return [_without(texts[row], kept) for row, kept in zip(rows.tolist(), some, strict=True)]

    def classes(last: SpanLogits, some: Texts, rows: Tensor) -> Tensor:
        """Probabilities (b, CLASSES) of the candidates."""
        scores = torch.full((len(rows), CLASSES), LEAST, dtype=torch.float64)
        for i, (row, kept) in enumerate(zip(rows.tolist(), some, strict=True)):
            place = {int(position): at for at, position in enumerate(kept)}
            found = [
                (k, place[first], place[final])
                for k, (first, final) in enumerate(spans[row])
                if first in place and final in place
            ]
            if found:
                k, first, final = torch.tensor(found).T
                here = (last.start[i, first] + last.end[i, final]).double().clamp(min=LEAST)
                scores = scores.index_put((torch.full_like(k, i), k), here)
        return scores.softmax(-1)

    def predictor(some: Texts, rows: Tensor) -> Tensor:
        with eval_mode(system.model), torch.no_grad():
            return classes(system.model(system.read_texts(batch(some, rows)))[-1], some, rows)

    def attention(some: Texts, rows: Tensor) -> tuple[Tensor, WithWeights]:
        given = batch(some, rows)
        read = system.read_texts(given)
        with eval_mode(system.model), torch.no_grad(), record(system.model, paths) as seen:
            system.model(read)
        own = seen[paths[0]][-1].weights  # (b, m, n), sentinels first
        ahead = system.ahead
        asked = torch.arange(own.shape[1]) < read.question_lengths.unsqueeze(-1) + ahead
        asked = asked & (torch.arange(own.shape[1]) >= ahead) if own.shape[1] > 1 else asked
        shown = torch.where(asked.unsqueeze(-1), own, 0)[:, ahead if own.shape[1] > 1 else 0 :, ahead:]

        def with_weights(weights: Tensor) -> Tensor:
            rows_ahead = own.shape[1] - weights.shape[1]
            new = F.pad(
                weights.to(own.dtype), (ahead, own.shape[2] - ahead - weights.shape[2], rows_ahead, 0)
            )
            real = torch.arange(own.shape[2]) < (read.lengths + ahead).view(-1, 1, 1)
            real = real & (torch.arange(own.shape[2]) >= ahead) & asked.unsqueeze(-1)
            changed = torch.where(real, new, own)
            with eval_mode(system.model), intervene(system.model, lambda _: changed, paths):
                return classes(system.model(read)[-1], some, rows)

        return shown, with_weights

    def gradients(some: Texts, rows: Tensor) -> Tensor:
        model, read = system.model, system.read_texts(batch(some, rows))
        with eval_mode(model), torch.enable_grad():
            x = model.embed(read.passage, read.features).detach().requires_grad_()
            question = model.embed(read.question, read.question_features)
            decided = classes(model.from_embedded(x, question, read)[-1], some, rows)
            (slope,) = torch.autograd.grad(decided.amax(-1).sum(), x)
        found: Tensor = (slope * x).sum(-1).abs().detach()
        return found

    labelled = [one for one in items if isinstance(one, PassageQuestion)]
    if len(labelled) == len(items):
        more.setdefault("highlights", [_marked(*both) for both in zip(labelled, texts, strict=True)])
    return Case(
        [list(range(len(one.tokens))) for one in texts],
        predictor,
        attention,
        gradients=gradients,
        words=[[one.passage[a:b] for a, b in one.spans] for one in texts],
        classes=[f"answer {k}" for k in range(1, CLASSES + 1)],
        differentiable=True,
        preamble="The classes are the ten most likely answers in a passage, as they stand in it.",
        **more,
    )


def audited_case(system: Reader, options: ReadingAudit) -> tuple[Case, str]:
    """The case of the questions in a file, and what it holds in one string."""
    if options.data is None:
        raise RunError(f"{system.folder} holds a reader: --data, questions to audit on, is needed.")
    longest = system.settings.data.longest
    questions = [
        question
        for _, question in located_questions(options.data)
        if len(system.segments(question.passage).tokens) <= longest
    ]
    if not questions:
        raise RunError(
            f"{options.data}: no passage has {longest} tokens or fewer: there is nothing to audit."
        )
    drawn = torch.randperm(len(questions), generator=torch.Generator().manual_seed(0))[:MOST].sort().values
    some = [questions[i] for i in drawn.tolist()]
    return case_of_questions(system, some), repr(some)


def _candidates(system: Reader, texts: Sequence[EncodedTexts]) -> list[list[tuple[int, int]]]:
    """First and last tokens of the most likely answers of each passage, in the order in which they stand."""
    found = []
    for one in texts:
        with eval_mode(system.model), torch.no_grad():
            last = system.model(system.read_texts([one]))[-1]
        scores = span_scores(last.start, last.end, system.longest_answer)[0]
        width = scores.shape[-1]
        best = scores.flatten().topk(min(CLASSES, scores.numel()))
        spans = [
            (i // width, i // width + i % width)
            for i, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)
            if value > -torch.inf
        ]
        found.append(sorted(spans))
    return found


def _without(texts: EncodedTexts, kept: Sequence[Any]) -> EncodedTexts:
    """The texts with these tokens of the passage alone (positions)."""
    positions = [int(position) for position in kept]
    return replace(
        texts,
        tokens=[texts.tokens[i] for i in positions],
        features=[texts.features[i] for i in positions],
        spans=[texts.spans[i] for i in positions],
    )


def _marked(question: PassageQuestion, texts: EncodedTexts) -> list[bool]:
    """Which tokens of the passage are part of a right answer: what people find decisive."""
    found = [False] * len(texts.tokens)
    for span in question.spans:
        bounds = texts.tokens_of(span)
        if bounds is not None:
            found[bounds[0] : bounds[1] + 1] = [True] * (bounds[1] - bounds[0] + 1)
    return found
