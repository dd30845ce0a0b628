"""The case of a language model: the token after each text, or which of two continuations follows it."""

from collections.abc import Sequence
from random import Random
from typing import Any

import torch

from regard.core.errors import RunError
from regard.models.language.next_token import NextToken
from regard.tasks.case import Case
from regard.tasks.classification_case import case_of_model
from regard.tasks.language_system import LanguageSystem


def case_of_texts(system: LanguageSystem, items: Sequence[Any], **more: Any) -> Case:
    """The next token of each text; items (text, one, other) ask which of two continuations it prefers.

    The two continuations must be the same for all texts: they are the classes.
    """
    if isinstance(items, str) or not items:
        raise ValueError("texts are needed: a list of at least one.")
    check_attention(system)
    pairs = [item for item in items if not isinstance(item, str)]
    if pairs and (len(pairs) < len(items) or len({tuple(item[1:]) for item in pairs}) > 1):
        raise ValueError("all items must be texts, or all (text, one, other) with the same one and other.")
    texts = [item if isinstance(item, str) else item[0] for item in items]
    for text in texts:
        system.check_known(text)
    encoded = system.parts.codec.encode_many(texts)
    if not all(encoded):
        raise ValueError("a text must have at least one token: what comes after nothing cannot be explained.")
    choices, names = None, _names(system)
    if pairs:
        choices, names = [system.parts.codec.encode(choice) for choice in pairs[0][1:]], list(pairs[0][1:])
        if len(choices) != 2 or not all(choices):
            raise ValueError("two continuations of at least one token are needed: (text, one, other).")
    words = [system.tokenizer.pieces(ids) for ids in encoded]
    return case_of_model(NextToken(system.model, choices), encoded, words=words, classes=names, **more)


def audited_case(system: LanguageSystem, texts: Sequence[str], seed: int = 0) -> Case:
    """Texts cut at a place drawn at random, in their second half; the token there is the right class."""
    check_attention(system)
    chance, cut, labels = Random(seed), [], []
    for text in texts:
        ids = system.parts.codec.encode(text)
        if len(ids) > 2:
            at = max(2, len(ids) // 2 + int(chance.random() * (len(ids) - len(ids) // 2)))
            cut.append(ids[:at])
            labels.append(ids[at] if at < len(ids) else ids[-1])
            cut[-1] = cut[-1] if at < len(ids) else ids[:-1]
    if not cut:
        raise RunError("no text has three tokens or more: there is nothing to audit.")
    return case_of_model(
        NextToken(system.model),
        cut,
        words=[system.tokenizer.pieces(ids) for ids in cut],
        classes=_names(system),
        labels=torch.tensor(labels),
    )


def check_attention(system: LanguageSystem) -> None:
    """Raise RunError if the model has no attention over the tokens before, or predicts no next token."""
    name = system.settings.model["name"]
    if not system.model.causal:
        raise RunError(
            f"a language model of hidden tokens ({name}) has no next token to be explained or audited."
        )
    if not system.layers:
        raise RunError(f"the language model {name} has no attention that could be explained or audited.")


def _names(system: LanguageSystem) -> list[str]:
    """A name for each token, all different."""
    pieces, seen = system.tokenizer.pieces(range(len(system.parts.codec))), set[str]()
    names = []
    for token, piece in enumerate(pieces):
        names.append(piece if piece not in seen else f"{piece} ({token})")
        seen.add(piece)
    return names
