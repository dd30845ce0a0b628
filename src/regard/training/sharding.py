"""A model shared out among processes: each keeps a part of every tensor, with its gradient and its memory.

Attentions and feed-forward layers are whole only while they compute; what is left (embeddings, norms, and the
source–target attentions, whose keys are projected ahead) is whole for the length of a step. Checkpoints hold
whole tensors, so that any number of processes can go on from them.

FSDP2: `torch.distributed.fsdp.fully_shard`; Zhao et al. (2023), "PyTorch FSDP", arXiv:2304.11277.
"""

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.recorders import attention_paths
from regard.core.weights import put_tensors, tensors_of
from regard.training.processes import Team


def shard(model: nn.Module, team: Team) -> None:
    """Share a model out, in place; from here on its parameters are DTensors on the team's device."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    from regard.heads import MultiHead
    from regard.models.both_directions import TwoWay
    from regard.models.parts.feed_forward import FeedForward

    # a warning for those who would change an attention's output in place, which nobody does here
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
    mesh = init_device_mesh(torch.device(team.device).type, (team.size,))
    for called in (model.ahead, model.back) if isinstance(model, TwoWay) else (model,):
        # called by the encoder, for their keys, before their layer's turn
        early = attention_paths(called).get("cross", [])
        for path, module in called.named_modules():
            if isinstance(module, MultiHead | FeedForward) and path not in early:
                fully_shard(module, mesh=mesh)
        fully_shard(called, mesh=mesh)


def shared(tensor: Tensor) -> bool:
    """Whether this is a part of a tensor: a DTensor, without an import that takes seconds."""
    return hasattr(tensor, "full_tensor")


def whole(tensor: Any) -> Tensor:
    """A tensor with all its parts, on the CPU; all processes must ask for it."""
    full: Tensor = tensor.full_tensor() if shared(tensor) else tensor
    return full.detach().cpu().contiguous()


def parted(tensor: Tensor, like: Any) -> Tensor:
    """A whole tensor, or this process's part of it, if that is how the other one is."""
    if not shared(like) or tensor.shape != like.shape:
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Whole parameters and buffers by name, tied ones once; of a shared model, all processes must ask."""
    held = model.state_dict(keep_vars=True)
    if not any(map(shared, held.values())):
        return tensors_of(model)
    names = {id(tensor): name for name, tensor in reversed(held.items())}  # the first name of each
    return {name: whole(tensor) for name, tensor in held.items() if names[id(tensor)] == name}


def put_weights(model: nn.Module, tensors: dict[str, Tensor], source: str | Path) -> None:
    """Put whole tensors into a model, shared out or not."""
    held = model.state_dict()
    parts = {name: parted(tensor, held[name]) if name in held else tensor for name, tensor in tensors.items()}
    put_tensors(model, parts, source)
