"""What a trained system does while it reads: the weights of its self-attentions, the states of its layers.

For systems with self-attention over their input: the role "self" of `attention_paths`.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from regard.analyses.tokenized import TokenizedText
from regard.core.errors import RunError
from regard.data.padding import batches_by_length
from regard.recording import record
from regard.tasks.system import System

POSITIONS = 2048  # tokens that are read at once, padding included


def self_attentions(system: System) -> list[str]:
    """The paths of the self-attentions of a system, first layer first."""
    paths = system.attention_paths.get("self", [])
    if not paths:
        raise RunError(
            f"{type(system.model).__name__} has no layers of self-attention. Heads and layers are those of a "
            "transformer, or of the classifier transformer_encoder."
        )
    return paths


def weights_of(system: System, texts: Sequence[TokenizedText]) -> Iterator[tuple[int, Tensor]]:
    """Number and weights (layers, heads, n, n) of each text, in some order; empty ones are left out."""
    paths = self_attentions(system)
    for some in _batches(system, texts):
        with torch.no_grad(), record(system.model, paths) as seen:
            _read(system, texts, some)
            layers = torch.stack(
                [seen[path][-1].over_tokens for path in paths]
            ).cpu()  # (layers, b, heads, n, n)
        extra = layers.shape[-1] - max(len(texts[k].tokens) for k in some)
        ahead = extra - system.behind  # what stands before the words
        for row, k in enumerate(some):
            n = len(texts[k].tokens)
            yield k, layers[:, row, :, ahead : ahead + n, ahead : ahead + n]


def states_of(system: System, texts: Sequence[TokenizedText]) -> Iterator[tuple[int, Tensor]]:
    """Number and states (1 + layers, n, d) of each text, in some order; first what layer 1 reads."""
    layer_paths = [_layer_of(path) for path in self_attentions(system)]
    modules = [system.model.get_submodule(path) for path in layer_paths]
    for some in _batches(system, texts):
        held: list[Tensor] = []
        hooks = _holding(modules, held)
        try:
            with torch.no_grad():
                _read(system, texts, some)
        finally:
            for hook in hooks:
                hook.remove()
        layers = torch.stack(held).cpu()  # (1 + layers, b, n, d)
        ahead = layers.shape[2] - max(len(texts[k].tokens) for k in some) - system.behind
        for row, k in enumerate(some):
            yield k, layers[:, row, ahead : ahead + len(texts[k].tokens)]


def _layer_of(path: str) -> str:
    """The path of the layer that an attention is in: up to its number."""
    parts = path.split(".")
    number = next((i for i, part in enumerate(parts) if part.isdigit()), len(parts) - 2)
    return ".".join(parts[: number + 1])


def _holding(modules: list[nn.Module], held: list[Tensor]) -> list[RemovableHandle]:
    """Hooks that put into `held` what the first of some modules reads, and what each of them writes."""

    def read(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        held.append(inputs[0])

    def wrote(_: nn.Module, inputs: object, output: Tensor | tuple[Tensor, ...]) -> None:
        held.append(output[0] if isinstance(output, tuple) else output)

    return [modules[0].register_forward_pre_hook(read), *(m.register_forward_hook(wrote) for m in modules)]


def _batches(system: System, texts: Sequence[TokenizedText]) -> Iterator[list[int]]:
    """Numbers of texts that are read together."""
    if system.takes_second:
        raise RunError("this system reads pairs of texts; its heads and layers cannot be told from one text.")
    return batches_by_length([len(text.tokens) for text in texts], POSITIONS)


def _read(system: System, texts: Sequence[TokenizedText], some: list[int]) -> None:
    """Have a system read texts; what it would answer does not matter."""
    system.forward([texts[k].tokens for k in some], [[] for _ in some])
