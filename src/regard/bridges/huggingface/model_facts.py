"""What is said of a model of transformers: its kind, heads, maps; how much weight its first token takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.attention import name_of
from regard.bridges.huggingface.head_settings import settings_of
from regard.bridges.huggingface.model_attentions import attentions_of, head_count
from regard.core.errors import RunError
from regard.recording import record

TABLES = ("position_embeddings", "embed_positions", "wpe")  # what models call their vectors of positions


@dataclass(frozen=True)
class ForeignSettings:
    """Of the settings of a run, those that a model from elsewhere has."""

    model: dict[str, Any]


def home(name: str) -> Path:
    """Where reports about a model are kept: never in the folder of the model."""
    return Path("runs") / f"hf-{Path(name).name or 'model'}"


def described(theirs: nn.Module) -> dict[str, Any]:
    """Its class, heads, score and maps, as settings of our own models have them."""
    found = attentions_of(theirs)
    heads = [head_count(module) for module in found.values()]
    maps = dict.fromkeys(
        name_of(one)
        for module, count in zip(found.values(), heads, strict=True)
        for one in settings_of(module, count).maps
    )
    return {
        "name": type(theirs).__name__,
        "heads": heads[-1] if heads else 0,
        "score": "scaled_dot",
        "map": " and ".join(maps),
    }


def positions(theirs: nn.Module) -> int | None:
    """How many positions a model can read; None where positions are no table, as rotary ones."""
    found = []
    for path, module in theirs.named_modules():
        if path.rpartition(".")[2] in TABLES and isinstance(module, nn.Embedding):
            start = 0 if module.padding_idx is None else module.padding_idx + 1  # RoBERTa counts from there
            found.append(module.num_embeddings - start)
    said = getattr(theirs.config, "max_position_embeddings", None)
    return min([*found, *([said] if isinstance(said, int) else [])]) if found else None


def start_of(theirs: Any) -> int:
    """The token that the decoder of an encoder–decoder begins with, as `generate` finds it."""
    for config in (theirs.generation_config, theirs.config):
        for name in ("decoder_start_token_id", "bos_token_id"):
            if isinstance(found := getattr(config, name, None), int):
                return found
    raise RunError(f"{type(theirs).__name__} does not say which token its decoder begins with.")


def sink_share(model: nn.Module, paths: Sequence[str], run: Any) -> float:
    """The mean share of weight on the first key, over layers, heads and queries that see another key.

    `run` is called once, with `record` around it. Xiao et al. (2024), "Efficient Streaming Language Models
    with Attention Sinks", arXiv:2309.17453, §3.1.
    """
    with torch.no_grad(), record(model, paths) as seen:
        run()
    shares = []
    for path in paths:
        for one in seen[path]:
            weights = one.weights  # (b, heads, m, n)
            several = torch.ones(weights.shape, dtype=torch.bool, device=weights.device)
            if one.visible is not None:
                several = one.visible.expand(weights.shape)
            several = several.sum(-1) > 1
            shares.append(weights[..., 0][several].double().flatten())
    return float(torch.cat(shares).mean()) if shares else float("nan")
