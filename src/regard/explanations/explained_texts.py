"""Texts explained with a trained system: a score for each word."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.core.bridges import bridged_system
from regard.core.errors import RunError, ShapeError
from regard.data.padding import batches_by_length
from regard.data.segments import by_word
from regard.explanations.methods import METHODS, explain
from regard.tasks.system import System
from regard.views.base_view import MatrixView
from regard.views.image_weights import image as image_view
from regard.views.words import words as words_view

TARGETED = ("gradients", "outputs")  # what methods need that explain one class
POSITIONS = 4096  # tokens that are explained at once, padding included
STRETCH = 1.25  # the longest of them to the shortest: each is read many times, and padding with it


@dataclass(frozen=True)
class Explanation:
    """The scores that a method gives the words of one text."""

    text: str
    method: str
    label: str  # the predicted class; of a caption, one of its words
    probability: float  # of it
    words: list[str]
    scores: list[float]  # one for each word


def explain_texts(
    system: System,
    texts: Sequence[str | tuple[str, str]],
    *,
    method: str = "attention",
    label: str | None = None,
    asked: Mapping[str, Any] | None = None,
    **options: Any,
) -> list[Explanation]:
    """Explain the predicted class of each text, or the class `label`; scores of a word's tokens add up.

    With a system that takes pairs, a text is (text, second text), and the first is explained. `asked` are
    options of `system.case`, as the token that a language model is asked about: {"target": " are"}. Where
    an input has several decisions, as a picture has one for each word of its caption, each is explained.
    """
    if not texts:
        return []
    case = system.case(texts, **(asked or {}))
    if case.subject is None or case.classes is None:
        raise RunError(
            f"a {system.task.makes} does not predict one class for a text, which is what is explained. "
            "See its attention with regard view, or audit it."
        )
    names = list(case.classes)
    if label is not None and label not in names:
        raise ValueError(f"no label {label!r}. Known: {', '.join(names)}.")
    if label is not None and METHODS[method].needs in TARGETED:
        options["target"] = names.index(label)
    found: dict[int, Explanation] = {}
    for some in batches_by_length(case.lengths.tolist(), POSITIONS, stretch=STRETCH):
        what = case.subject([case.texts[i] for i in some], torch.tensor(some))
        if label is None and case.explained is not None and METHODS[method].needs in TARGETED:
            options["target"] = case.explained[some].to(what.inputs.device)
        scores = explain(what.model, what.inputs, what.lengths, method=method, second=what.second, **options)
        given = [texts[i if case.inputs_of is None else case.inputs_of[i]] for i in some]
        firsts = [text if isinstance(text, str) else text[0] for text in given]
        words = [system.segments(text) for text in firsts]
        for i, one, row in zip(some, words, to_words(scores, [one.word_of for one in words]), strict=True):
            predicted = int((case.decision if case.explained is None else case.explained)[i])
            probability = float(case.probabilities[i, predicted])
            found[i] = Explanation(
                one.text, method, names[predicted], probability, one.words, row.double().tolist()
            )
    return [found[i] for i in range(len(case))]


def explain_with_tokenizer(
    model: Any,
    tokenizer: Any,
    text: str,
    *,
    method: str = "attention",
    target: str | None = None,
    against: str | None = None,
    **options: Any,
) -> Explanation:
    """Explain what a model of another library says to a text: the class `target`, or the token `target`."""
    system = bridged_system(model, tokenizer)
    label, asked = None, {}
    if target is not None:
        asked, label = system.asked_about(target, against)
    elif against is not None:
        raise ValueError("against= is what target= is compared with: give target= too.")
    return explain_texts(system, [text], method=method, label=label, asked=asked, **options)[0]


def to_words(scores: Tensor, words: Sequence[Sequence[int]]) -> list[Tensor]:
    """Scores of tokens (b, n) to scores of words, a tensor for each text, given the word of each token.

    `regard.data.segments` has these, as `word_of`; tokens beyond the given ones (padding) are left out.
    """
    if scores.dim() != 2 or len(words) != len(scores) or any(len(of) > scores.shape[-1] for of in words):
        raise ShapeError(
            f"words must be {len(scores)} lists of at most {scores.shape[-1]} numbers, as scores are "
            f"{tuple(scores.shape)}; got {len(words)} of {[len(of) for of in words]}."
        )
    return [by_word(row[None, : len(of)], of, [0])[0] for row, of in zip(scores, words, strict=True)]


def explanations_view(
    found: Sequence[Explanation], label: str | None = None, system: System | None = None, given: Any = None
) -> MatrixView:
    """A text once for each method, words coloured by their scores; `label` is the class that was asked for.

    Of a system that looks at pictures, the picture `given` once for each method, without scores below 0.

    Scores of different methods are not on one scale: each is shown as its share of the scores of its method.
    """
    scores = torch.tensor([one.scores for one in found], dtype=torch.float64)
    scores = scores / scores.abs().sum(-1, keepdim=True).clamp(min=1e-300)
    first, asked = found[0], "" if label is None else f", explained: {label}"
    title = f"predicted: {first.label} (probability {first.probability:.3f}){asked}"
    several = len({one.method for one in found}) < len(found)
    if several:  # words of a caption
        title = " ".join(
            f"{one.label} ({one.probability:.3f})" for one in found if one.method == first.method
        )
    caption = "Scores as shares of the sum of their row, signs aside; below 0, orange, is evidence against."
    names = [f"{one.label}, {one.method}" if several else one.method for one in found]
    if system is not None and system.picture == "image":
        over = system.drawn_input(given)
        caption = "Scores above 0, as shares of all."
        shares, seen = scores.clamp(min=0), system.receptive
        return image_view(shares, over, names, grid=system.grid, receptive=seen, title=title, caption=caption)
    return words_view(scores, first.words, names, shares=True, title=title, caption=caption)
