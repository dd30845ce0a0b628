"""Putting our attention into models of transformers, by their own two registries, under one name."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from regard.attention import resolve_map
from regard.bridges.huggingface.attention_function import attention_function
from regard.bridges.huggingface.certified_cache import set_cache
from regard.bridges.huggingface.head_settings import CHILD, change_settings
from regard.bridges.huggingface.mask_function import additive_mask_function, mask_function
from regard.bridges.huggingface.model_attentions import (
    attentions_of,
    head_count,
    output_of,
    refused,
    submodels,
)
from regard.core.errors import RefusedError
from regard.core.recorders import ATTENDS, OUTPUT

# In both registries: with a name in the first alone, models get no mask and see the future.
NAME, ADDITIVE = "regard", "regard_additive"  # the second for models without a form for sdpa

BEFORE = "_before_regard"  # the name that a model had in its configuration

for _name, _masks in ((NAME, mask_function), (ADDITIVE, additive_mask_function)):
    AttentionInterface.register(_name, attention_function)
    AttentionMaskInterface.register(_name, _masks)


def swap_attentions(
    model: nn.Module,
    found: dict[str, nn.Module],
    map: str | Callable[..., Tensor],
    score: Any,
    temperature: float | Sequence[float] | Tensor = 1.0,
    heads: Sequence[int] | None = None,
    cache: str | None = None,
) -> None:
    """Give some attentions of a model this map and temperature; the others are a softmax through us."""
    if score != "scaled_dot":
        raise TypeError("the score of a model of transformers is its own: score= has no meaning here.")
    function = resolve_map(map)
    every = attentions_of(model)
    _check_interface(model)
    for module in found.values():
        change_settings(module, head_count(module), function, temperature, heads)
    for part in submodels(model):  # one for each configuration: masks are made by that of the model
        name = implementation_of(part)
        if part.config._attn_implementation != name:
            vars(part)[BEFORE] = part.config._attn_implementation
        part.set_attn_implementation(name)
        for module in attentions_of(part).values():  # its configuration may be another: some copy
            _set_implementation(module, name)
    for path, module in every.items():
        vars(module)[ATTENDS] = True
        if (output := output_of(model, path)) is not None:
            vars(module)[OUTPUT] = output
    set_cache(model, cache)


def implementation_of(model: Any) -> str:
    """The name of our attention and masks in a model of transformers."""
    parts = [part for part in model.modules() if isinstance(part, PreTrainedModel)]
    return NAME if all(getattr(part, "_supports_sdpa", False) for part in parts) else ADDITIVE


def _set_implementation(module: Any, name: str) -> None:
    module.config._attn_implementation_internal = name


def restore_attentions(model: nn.Module, found: dict[str, nn.Module]) -> None:
    """Take maps and temperatures from some attentions; if none has any left, the model gets its own back."""
    for module in found.values():
        module._modules.pop(CHILD, None)
    every = attentions_of(model)
    if any(CHILD in module._modules for module in every.values()):
        return
    set_cache(model, None)
    for part in submodels(model):
        if before := vars(part).pop(BEFORE, None):
            part.set_attn_implementation(before)
            for module in every.values():
                _set_implementation(module, before)
    for module in every.values():
        for mark in (ATTENDS, OUTPUT):
            vars(module).pop(mark, None)


def _check_interface(model: nn.Module) -> None:
    """Raise if any part of the model has attentions that do not ask the interface."""
    for module in model.modules():
        if isinstance(module, PreTrainedModel) and not module._can_set_attn_implementation():
            raise RefusedError(refused(type(module).__name__))
