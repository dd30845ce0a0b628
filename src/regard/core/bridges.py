"""Bridges to models of other libraries: how `load` opens their files, how `swap` changes their attentions.

A bridge enters itself when its package is imported. `bridges()` imports those to libraries that are imported
already, `bridge_named("hf")` the one that a path names: hf:PATH.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import nn

from regard.core.registry import Table

WHERE = {"hf": ("transformers", "regard.bridges.huggingface")}  # prefix of paths: library, package


@dataclass(frozen=True)
class Bridge:
    """What is asked of a library's models."""

    opens: Callable[[Path], bool]  # whether a folder holds one of them
    load: Callable[[Path, str], Any]  # the system in such a folder, on a device
    attentions: Callable[[nn.Module], dict[str, nn.Module]]  # its attentions in a model, by path
    swap: Callable[..., None]  # swap(model, those of these attentions, map, score, temperature, heads, cache)
    undo: Callable[..., None]  # undo(model, those of these attentions): as they were
    system: Callable[[Any, Any], Any] | None = None  # of a model and its tokenizer, as `load` would make it
    # Why there is nothing to swap in a model of this library; "" of any other model.
    refusal: Callable[[nn.Module], str] = lambda model: ""


BRIDGES: Table[Bridge] = Table("bridge", {})


def bridges() -> list[Bridge]:
    """The bridges to libraries that are imported."""
    for prefix, (library, _) in WHERE.items():
        if library in sys.modules:
            bridge_named(prefix)
    return list(BRIDGES.values())


def bridge_named(prefix: str) -> Bridge:
    """The bridge that paths with this prefix are for."""
    if prefix not in BRIDGES:
        import_module(WHERE[prefix][1])
    return BRIDGES[prefix]


def bridged_system(model: nn.Module, tokenizer: Any) -> Any:
    """A model of another library with its tokenizer as a system; TypeError if there is no bridge to it."""
    for bridge in bridges():
        if bridge.system is not None and bridge.attentions(model):
            return bridge.system(model, tokenizer)
    raise TypeError(f"{type(model).__name__} with a tokenizer: there is no bridge to such models.")


def prefix_of(path: Path | str) -> str:
    """The prefix of a path that names a bridge, "hf" of hf:PATH; else ""."""
    prefix, colon, rest = str(path).partition(":")
    return prefix if colon and rest and prefix in WHERE else ""
