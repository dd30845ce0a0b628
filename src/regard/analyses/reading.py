"""Activations of a trained encoder: the weights of its self-attentions and the hidden states of its layers.

For translators and classifiers whose `encoder` is a stack of layers with self-attention.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from regard.analyses.tokenized import TokenizedText
from regard.core.errors import RunError
from regard.core.tokens import PAD
from regard.data import Tokenizer
from regard.looking import record
from regard.runs.translator import batches_by_length

POSITIONS = 2048  # tokens of a batch, padding included


def tokenizer_of(system: Any) -> Tokenizer:
    """The tokenizer of the texts that a system reads."""
    found: Tokenizer = system.source_tokenizer if hasattr(system, "source_tokenizer") else system.tokenizer
    return found


def layers_of(model: nn.Module) -> list[str]:
    """The layers of a model's encoder by path, first layer first."""
    encoder = getattr(model, "encoder", None)
    if not isinstance(encoder, nn.ModuleList) or not all(hasattr(layer, "attention") for layer in encoder):
        raise RunError(
            f"{type(model).__name__} has no layers of self-attention. Heads and layers are those of a "
            "transformer, or of the classifier transformer_encoder."
        )
    return [f"encoder.{k}" for k in range(len(encoder))]


def weights_of(system: Any, texts: Sequence[TokenizedText]) -> Iterator[tuple[int, Tensor]]:
    """Index and weights (layers, heads, n, n) of each text, in any order; empty texts are skipped."""
    paths = [f"{path}.attention" for path in layers_of(system.model)]
    for some, rows, lengths in _batches(system, texts):
        with torch.no_grad(), record(system.model, paths) as seen:
            _read(system.model, rows, lengths)
            layers = torch.stack([seen[path][-1].weights for path in paths]).cpu()  # (layers, b, heads, n, n)
        for row, k in enumerate(some):
            n = len(texts[k].tokens)
            ahead = layers.shape[-1] - rows.shape[1]  # tokens that a classifier puts before the text
            yield k, layers[:, row, :, ahead : ahead + n, ahead : ahead + n]


def states_of(system: Any, texts: Sequence[TokenizedText]) -> Iterator[tuple[int, Tensor]]:
    """Index and hidden states (1 + layers, n, d) of each text, in any order; first the input of layer 1."""
    modules = [system.model.get_submodule(path) for path in layers_of(system.model)]
    for some, rows, lengths in _batches(system, texts):
        held: list[Tensor] = []
        hooks = _holding(modules, held)
        try:
            with torch.no_grad():
                _read(system.model, rows, lengths)
        finally:
            for hook in hooks:
                hook.remove()
        layers = torch.stack(held).cpu()  # (1 + layers, b, n, d)
        for row, k in enumerate(some):
            ahead = layers.shape[2] - rows.shape[1]
            yield k, layers[:, row, ahead : ahead + len(texts[k].tokens)]


def _holding(modules: list[nn.Module], held: list[Tensor]) -> list[RemovableHandle]:
    """Hooks that append to `held` the input of the first module and the output of every module."""

    def read(_: nn.Module, given: tuple[Tensor, ...]) -> None:
        held.append(given[0])

    def wrote(_: nn.Module, given: Any, made: Tensor) -> None:
        held.append(made)

    return [modules[0].register_forward_pre_hook(read), *(m.register_forward_hook(wrote) for m in modules)]


def _batches(system: Any, texts: Sequence[TokenizedText]) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    classes = getattr(system, "classes", None)
    if classes is not None and classes.pairs:
        raise RunError(
            "this classifier reads pairs of texts; its heads and layers cannot be analysed on single texts."
        )
    device = next(system.model.parameters()).device
    for some in batches_by_length([len(text.tokens) for text in texts], POSITIONS):
        lengths = torch.tensor([len(texts[k].tokens) for k in some])
        rows = torch.full((len(some), int(lengths.max())), PAD)
        for row, k in zip(rows, some, strict=True):
            row[: len(texts[k].tokens)] = torch.tensor(texts[k].tokens)
        yield some, rows.to(device), lengths.to(device)


def _read(model: Any, rows: Tensor, lengths: Tensor) -> None:
    if hasattr(model, "vocabulary"):  # a translator: what it would write does not matter
        model.encode(rows, lengths)
    else:
        model(rows, lengths)
