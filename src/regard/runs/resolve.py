"""From settings to a model: what is wrong with them is said before any work is done."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from regard.core.errors import SettingsError
from regard.core.settings import from_dict, to_dict
from regard.data import Tokenizer
from regard.models import TRANSLATORS
from regard.models.parts.biases import Biases
from regard.models.two_way import TwoWay
from regard.runs.settings import Settings
from regard.runs.translator import Translator

SIZES = ("source_vocabulary", "target_vocabulary")


def resolved(values: dict[str, Any]) -> Settings:
    """Settings of nested mappings, the model's own ones checked and filled in."""
    settings = from_dict(Settings, values)
    given = dict(settings.model)
    entry = TRANSLATORS[given.pop("name", "transformer")]
    config = from_dict(entry.config, {**dict.fromkeys(SIZES, 4), **given}, "model.")
    with torch.device("meta"):
        _made(entry.kind, config)
    if copies(settings) and not settings.data.joint:
        raise SettingsError("model.copy needs one vocabulary for both sides: data.joint must be true.")
    kept = {name: value for name, value in to_dict(config).items() if name not in SIZES}
    return replace(settings, model={"name": entry.name, **kept})


def build(settings: Settings, source: int, target: int) -> nn.Module:
    """The model of the settings for vocabularies of these sizes, its first weights from the seed."""
    given = dict(settings.model)
    entry = TRANSLATORS[given.pop("name")]
    torch.manual_seed(settings.seed)
    ahead: Any = _made(entry.kind, from_dict(entry.config, _sized(given, source, target), "model."))
    together = Biases.of(given.get("bias", ())).trace
    if together is None:
        model: nn.Module = ahead
        return model
    back = _made(entry.kind, from_dict(entry.config, _sized(given, target, source), "model."))
    return TwoWay(ahead, back, together)


def system_of(model: nn.Module, source: Tokenizer, target: Tokenizer, settings: Settings) -> Translator:
    """A model with its tokenizers; one trained in both directions translates back too."""
    if not isinstance(model, TwoWay):
        return Translator(model, source, target, settings.decoding)
    back = Translator(model.back, target, source, settings.decoding)
    return Translator(model.ahead, source, target, settings.decoding, back)


def copies(settings: Settings) -> bool:
    """Whether the model copies words of the source."""
    return bool(settings.model.get("copy", "no") != "no")


def _sized(given: dict[str, Any], source: int, target: int) -> dict[str, Any]:
    return {**dict(zip(SIZES, (source, target), strict=True)), **given}


def _made(kind: Callable[[Any], Any], config: Any) -> Any:
    try:
        return kind(config)
    except ValueError as error:
        raise SettingsError(f"model: {error}") from None
