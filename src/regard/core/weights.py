"""The weights of a module in a safetensors file: tensors alone, nothing that could be executed."""

import os
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.core.errors import WeightsError

RENAMED = {"remedies.": "regularizers."}  # prefixes of names in files of version 0.1, and what they are now


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name; one that goes by two names (tied weights) is there once."""
    named: dict[str, Tensor] = {}
    seen: set[tuple[int, torch.Size, tuple[int, ...]]] = set()
    for name, tensor in module.state_dict().items():
        if tensor.numel():
            same = (tensor.data_ptr(), tensor.shape, tensor.stride())
            if same in seen:
                continue
            seen.add(same)
        named[name] = tensor.detach().cpu().contiguous()
    return named


def save_tensors(tensors: dict[str, Tensor], path: str | Path) -> None:
    """Write tensors by name to a file."""
    save_file(tensors, str(path))  # by way of a temporary file, which nobody else may read
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(path, 0o666 & ~mask)


def load_tensors(path: str | Path) -> dict[str, Tensor]:
    """Read tensors by name from a file; names of older files as they are now."""
    try:
        return {_current(name): tensor for name, tensor in load_file(str(path)).items()}
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"{path} cannot be read as safetensors: {error}.") from None


def _current(name: str) -> str:
    for old, new in RENAMED.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def put_tensors(module: nn.Module, tensors: dict[str, Tensor], source: str | Path) -> None:
    """Put tensors into a module, in place; what is tied may be missing under its second name."""
    state = module.state_dict()
    places = {name: (t.data_ptr(), t.shape, t.stride()) for name, t in state.items()}
    given = {places[name] for name in tensors if name in places}
    missing = [name for name in state if name not in tensors and places[name] not in given]
    unknown = [name for name in tensors if name not in state]
    wrong = [n for n, t in tensors.items() if n in state and state[n].shape != t.shape]
    if missing or unknown or wrong:
        labels = {"missing": missing, "unknown": unknown, "of another shape": wrong}
        what = "; ".join(f"{label}: {', '.join(names[:3])}" for label, names in labels.items() if names)
        raise WeightsError(f"{source} holds the weights of another model ({what}).")
    with torch.no_grad():
        for name, tensor in tensors.items():
            state[name].copy_(tensor)
