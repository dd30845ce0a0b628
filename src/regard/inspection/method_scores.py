"""Scores of the words of a text by any explanation, of the answer under the same conditions."""

from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from regard.data.segments import by_word
from regard.explanations import METHODS, explain
from regard.explanations.explained_texts import TARGETED
from regard.inspection.inspected import Inspected, InvalidRequest
from regard.tasks.system import System

ATTENTION = "attention"  # the method whose scores are the weights themselves


def methods(system: System) -> list[str]:
    """The methods of METHODS that can explain its answers, attention first; empty if none can."""
    try:
        case = system.case([system.sample])
    except ValueError:
        return []
    if case.subject is None:
        return []
    there = [name for name in METHODS if name != "integrated_gradients" or find_spec("captum")]
    return sorted(there, key=lambda name: name != ATTENTION)


def word_scores(inspected: Inspected, method: str) -> Tensor:
    """A score for each word that was read (n,), for an answer that is one decision; subwords add up.

    InvalidRequest if the method has none to give.
    """
    return decision_scores(inspected, method)[0]


def decision_scores(inspected: Inspected, method: str) -> Tensor:
    """Scores (m, n) of the words that were read, for each word of an answer of m; m = 1 for a class."""
    system, read = inspected.system, inspected.read
    if inspected.masked and (METHODS[method].needs == "outputs" or system.takes_second):
        why = "a model of two texts" if system.takes_second else f"{method}, which deletes words,"
        raise InvalidRequest(f"While a word is masked, {why} has no scores: use attention.")
    try:
        with system.masking(inspected.masked):
            case = system.case([system.input(read.text, inspected.second)])
            if case.subject is None:
                raise ValueError("its answers cannot be explained.")
            asked = case.subject(case.texts, torch.arange(len(case)))
            more: dict[str, Any] = {} if asked.second is None else {"second": asked.second}
            if case.explained is not None and METHODS[method].needs in TARGETED:
                more["target"] = case.explained.to(asked.inputs.device)
            scores = explain(asked.model, asked.inputs, asked.lengths, method=method, **more)  # (m, n)
    except ValueError as error:  # one word, and nothing is left without it
        raise InvalidRequest(f"There is no score by {method}: {error}") from error
    if not bool(scores.isfinite().all()):
        raise InvalidRequest(f"There is no score by {method}: it is not a number.")
    rows = [0] if case.inputs_of is None else system.answer_segments(inspected.answer).word_of
    return by_word(scores, read.word_of, rows)
