"""The weights of a module in a safetensors file: tensors alone, nothing that could be executed."""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from regard.core.errors import WeightsError
from regard.core.files import check_regular

Kind = tuple[tuple[int, ...], str]  # shape and type of a tensor, "F32" or "I64"
DIGEST = "sha256"  # the key of the digest in a file's metadata
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
    """Write tensors by name to a file, with their digest among its metadata."""
    try:
        save_file(tensors, str(path), {DIGEST: digest(tensors)})  # by way of a file that nobody else may read
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from None
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(path, 0o666 & ~mask)


def load_tensors(path: str | Path) -> dict[str, Tensor]:
    """Read tensors by name from a file; names of older files as they are now.

    WeightsError if they are not those that were written; older files have no digest.
    """
    with _opened(path) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, as it is no mapping
        known = (file.metadata() or {}).get(DIGEST)
    if known is not None and known != digest(tensors):
        raise WeightsError(f"{path} is damaged: its weights are not those that were written (SHA-256).")
    return {_current(name): tensor for name, tensor in tensors.items()}


def shapes_of(path: str | Path) -> dict[str, Kind]:
    """Shape and type of the tensors in a file by name, from its header alone."""
    with _opened(path) as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return {_current(name): (tuple(one.get_shape()), one.get_dtype()) for name, one in slices.items()}


def digest(tensors: dict[str, Tensor]) -> str:
    """SHA-256 of names, types, shapes and values, whatever their order."""
    found = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


@contextmanager
def _opened(path: str | Path) -> Iterator[Any]:
    try:
        check_regular(path)
        with safe_open(str(path), "pt") as file:
            yield file
    except (SafetensorError, OSError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise WeightsError(f"{path} cannot be read as safetensors: {why}.") from None


def _current(name: str) -> str:
    for old, new in RENAMED.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def check_shapes(
    module: nn.Module, found: Mapping[str, tuple[tuple[int, ...], str]], source: str | Path
) -> None:
    """WeightsError unless tensors of these shapes and types are those of a module, which may be on "meta".

    What is tied may be missing under its second name.
    """
    state = module.state_dict(keep_vars=True)
    given = {id(state[name]) for name in found if name in state}
    differ = [n for n, (shape, _) in found.items() if n in state and tuple(state[n].shape) != shape]
    kinds = [
        n for n, (_, kind) in found.items() if n in state and state[n].is_floating_point() != ("F" in kind)
    ]
    labels = {
        "missing": [name for name in state if name not in found and id(state[name]) not in given],
        "unknown": [name for name in found if name not in state],
        "of another shape": differ,
        "of another type": kinds,
    }
    if any(labels.values()):
        what = "; ".join(f"{label}: {', '.join(names[:3])}" for label, names in labels.items() if names)
        raise WeightsError(f"{source} holds the weights of another model ({what}).")


def put_tensors(module: nn.Module, tensors: dict[str, Tensor], source: str | Path) -> None:
    """Put tensors into a module, in place; what is tied may be missing under its second name."""
    kinds = {name: (tuple(t.shape), "F" if t.is_floating_point() else "I") for name, t in tensors.items()}
    check_shapes(module, kinds, source)
    state = module.state_dict()
    with torch.no_grad():
        for name, tensor in tensors.items():
            state[name].copy_(tensor)
