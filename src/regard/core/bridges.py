"""Bridges to models of other libraries: how `load` opens their folders, how `swap` changes their attentions.

A bridge enters itself when its file is imported. `load` and `swap` ask those that are here and import none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from regard.core.registry import Table


@dataclass(frozen=True)
class Bridge:
    """What is asked of a library's models."""

    opens: Callable[[Path], bool]  # whether a folder holds one of them
    load: Callable[[Path, str], Any]  # the system in such a folder, on a device
    attentions: Callable[[nn.Module], dict[str, nn.Module]]  # its attentions in a model, by path
    swap: Callable[[nn.Module, Any, Any], None]  # give one of these another map and score, in place


BRIDGES: Table[Bridge] = Table("bridge", {})
