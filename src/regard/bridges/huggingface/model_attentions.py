"""The attentions of a model of transformers: the modules whose forward asks the AttentionInterface.

Roles as everywhere: "self" in an encoder, "decoder_self" in a decoder that also has cross-attention, "cross";
the self-attentions of a model that is a decoder alone are "self" too.
"""

import inspect
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

INTERFACE = "ALL_ATTENTION_FUNCTIONS"  # what every file of models calls it


def asks_interface(kind: Any) -> bool:
    """Whether the forward of a class of modules asks the AttentionInterface for its function."""
    forward: Any = inspect.unwrap(kind.forward)
    code = getattr(forward, "__code__", None)
    return code is not None and INTERFACE in code.co_names


def attentions_of(model: nn.Module) -> dict[str, nn.Module]:
    """The attentions in a model, by path; none if it holds no model of transformers."""
    if not any(isinstance(module, PreTrainedModel) for module in model.modules()):
        return {}
    return {path: module for path, module in model.named_modules() if asks_interface(type(module))}


def called_again(model: Any) -> str:
    """The path of an attention that one pass calls more than once (ALBERT's), or ""."""
    calls: list[str] = []
    found = attentions_of(model)
    hooks = [
        module.register_forward_pre_hook(lambda *_, path=path: calls.append(path))
        for path, module in found.items()
    ]
    try:
        with torch.no_grad():
            model(input_ids=torch.ones(1, 1, dtype=torch.long, device=model.device))
    finally:
        for hook in hooks:
            hook.remove()
    return next((path for path in found if calls.count(path) > 1), "")


def refusal(model: nn.Module) -> str:
    """Why a model of transformers cannot be swapped; "" if it is none."""
    found = [type(module).__name__ for module in model.modules() if isinstance(module, PreTrainedModel)]
    return refused(found[0]) if found else ""


def refused(name: str) -> str:
    """The sentence about a class of models whose attention cannot be reached."""
    return (
        f"{name} does not call its attention through transformers' AttentionInterface (remote code, or an "
        "older module): it cannot be swapped."
    )


def submodels(model: nn.Module) -> list[PreTrainedModel]:
    """The outermost models of transformers in a model."""
    if isinstance(model, PreTrainedModel):
        return [model]
    return [found for child in model.children() for found in submodels(child)]


def head_count(module: nn.Module) -> int:
    """The query heads of an attention."""
    for name in ("num_attention_heads", "num_heads", "n_heads", "num_key_value_heads"):
        if isinstance(count := getattr(module, name, None), int) and count > 0:
            groups = getattr(module, "num_key_value_groups", 1) if name == "num_key_value_heads" else 1
            return count * groups
    config: Any = getattr(module, "config", None)
    for name in ("num_attention_heads", "num_heads", "n_head", "encoder_attention_heads"):
        if isinstance(count := getattr(config, name, None), int) and count > 0:
            return count
    raise TypeError(f"{type(module).__name__} does not say how many heads it has.")


def is_cross(path: str) -> bool:
    """Whether the attention at a path looks from a decoder at an encoder."""
    parts = path.lower().replace("_", "").split(".")
    return any(part in ("encoderattn", "crossattention", "crossattn", "encdecattention") for part in parts)


def is_causal(model: nn.Module) -> bool:
    """Whether no position sees those after it: in the last of its attentions."""
    *_, last = attentions_of(model).values()
    return bool(getattr(last, "is_causal", False))


def paths_by_role(model: nn.Module) -> dict[str, list[str]]:
    """The paths of the attentions in a model, by role."""
    found: dict[str, list[str]] = {}
    every = list(attentions_of(model))
    decodes = any(is_cross(path) for path in every)
    for path in every:
        role = "cross" if is_cross(path) else "self"
        if role == "self" and decodes and "decoder" in path.split("."):
            role = "decoder_self"
        found.setdefault(role, []).append(path)
    return found


def output_of(model: nn.Module, path: str) -> nn.Module | None:
    """The layer that joins the heads of the attention at a path: its own, or BERT's output.dense."""
    module = model.get_submodule(path)
    for name in ("o_proj", "out_proj", "c_proj", "o", "wo", "dense"):
        if isinstance(found := getattr(module, name, None), nn.Module) and hasattr(found, "weight"):
            return found
    parent = model.get_submodule(path.rpartition(".")[0])
    beside = getattr(getattr(parent, "output", None), "dense", None)
    return beside if isinstance(beside, nn.Module) and path.endswith(".self") else None
