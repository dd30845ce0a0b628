"""From settings to a classifier: what is wrong with them is said before any work is done."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from regard.core.errors import SettingsError
from regard.core.settings import fields_of, from_dict, to_dict
from regard.core.tokens import UNK
from regard.data import Tokenizer
from regard.data.classes import Classes
from regard.data.vectors import vectors
from regard.models.classifiers import CLASSIFIERS, ClassifierModel
from regard.models.classifiers.classifier_model import Common
from regard.runs.classifier_settings import ClassifierSettings, Remedies

FOUND = ("vocabulary", "classes", "pairs", "ends")  # in the data, not set by anyone
ENDS = (".", "!", "?", "…", "。", "！", "？")  # how the last token of a sentence ends


def resolved_classifier(values: dict[str, Any]) -> ClassifierSettings:
    """Settings of nested mappings, the model's own ones checked and filled in."""
    settings = from_dict(ClassifierSettings, values)
    given = {"name": "attentive_bilstm", **settings.model}
    if said := [name for name in FOUND if name in given]:
        raise SettingsError(f"model.{said[0]} comes from the data and cannot be set.")
    if settings.remedy is not None:
        settings = replace(settings, remedy=_wanted(settings))
        if settings.remedy is not None and settings.remedy.tie:
            sizes = fields_of(CLASSIFIERS[given["name"]].config)
            if "width" in sizes and "width" not in given:  # states as wide as the words' vectors
                given["width"] = given.get("embedding", Common.embedding)
    with torch.device("meta"):
        model = build(replace(settings, model=given), 8, Classes(["a", "b"], False))
    config, longest = model.config, settings.data.longest
    if getattr(config, "positions", None) == "learned" and config.longest <= longest:
        raise SettingsError(f"model.longest must be more than data.longest={longest}; got {config.longest}.")
    kept = {name: value for name, value in to_dict(config).items() if name not in FOUND}
    return replace(settings, model={"name": given["name"], **kept})


def build(
    settings: ClassifierSettings, vocabulary: int, classes: Classes, tokenizer: Tokenizer | None = None
) -> ClassifierModel:
    """The model of the settings for these classes, its first weights from the seed."""
    given = dict(settings.model)
    entry = CLASSIFIERS[given.pop("name")]
    sizes: dict[str, Any] = {
        "vocabulary": vocabulary,
        "classes": len(classes.names),
        "pairs": classes.pairs,
    }
    if tokenizer is not None and "ends" in fields_of(entry.config):
        sizes["ends"] = ends(tokenizer)
    torch.manual_seed(settings.seed)
    try:
        model = entry.kind(from_dict(entry.config, {**sizes, **given}, "model."))
    except ValueError as error:
        raise SettingsError(f"model: {error}".replace("model: model.", "model.")) from None
    if settings.remedy is not None:
        words = settings.remedy.deceive
        tokens = [UNK] if tokenizer is None and words else forbidden(words, tokenizer)
        try:
            model.add_regularizers(settings.remedy.strengths, tokens)
        except ValueError as error:
            raise SettingsError(f"remedy: {error}") from None
    return model


def _wanted(settings: ClassifierSettings) -> Remedies | None:
    """The remedies of the settings; None if every one is 0."""
    remedy = settings.remedy
    if remedy is None or not remedy.strengths:
        return None
    if remedy.deceive and settings.data.tokens != "word":
        raise SettingsError(
            f'remedy.deceive forbids words, so data.tokens must be "word"; got {settings.data.tokens!r}.'
        )
    return remedy


def forbidden(words: Sequence[str], tokenizer: Tokenizer | None) -> list[int]:
    """The tokens of words that must not be looked at; of unknown ones there is none."""
    if not words or tokenizer is None:
        return []
    found = [ids[0] for ids in tokenizer.encode_many(list(words)) if len(ids) == 1 and ids[0] != UNK]
    if not found:
        raise SettingsError(
            f"remedy.deceive: none of the {len(words)} words, as {words[0]!r}, is in the vocabulary."
        )
    return found


def ends(tokenizer: Tokenizer) -> list[int]:
    """The tokens that end a sentence."""
    known = range(UNK + 1, len(tokenizer))
    return [i for i, piece in zip(known, tokenizer.pieces(known), strict=True) if piece.endswith(ENDS)]


def begin_with_vectors(
    model: ClassifierModel, path: str, tokenizer: Tokenizer, say: Callable[[str], None] = lambda _: None
) -> None:
    """Put the vectors of a file in the place of those the words of a model began with."""
    weight = model.words.E.weight
    tokens, found = vectors(path, tokenizer, weight.shape[1])
    with torch.no_grad():
        weight[tokens] = found
    say(f"{path} has vectors of {len(tokens):,} of {len(tokenizer):,} tokens")
