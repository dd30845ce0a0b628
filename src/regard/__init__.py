"""regard: neural attention you can swap, train, see and question."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard import alignment as alignment
    from regard import analyses as analyses
    from regard import audits as audits
    from regard import continuous as continuous
    from regard import data as data
    from regard import decoding as decoding
    from regard import explanations as explanations
    from regard import heads as heads
    from regard import inspection as inspection
    from regard import losses as losses
    from regard import maps as maps
    from regard import masks as masks
    from regard import mechanisms as mechanisms
    from regard import memories as memories
    from regard import models as models
    from regard import positions as positions
    from regard import runs as runs
    from regard import scores as scores
    from regard import structures as structures
    from regard import tasks as tasks
    from regard import testing as testing
    from regard import training as training
    from regard import views as views
    from regard.attention import Attended as Attended
    from regard.attention import Attention as Attention
    from regard.attention import attend as attend
    from regard.audits import audit as audit
    from regard.core.place import Place as Place
    from regard.core.recorders import Attentive as Attentive
    from regard.explanations import explain as explain
    from regard.heads import MultiHead as MultiHead
    from regard.maps import MAPS as MAPS
    from regard.mechanisms import MECHANISMS as MECHANISMS
    from regard.memories import decoding_stats as decoding_stats
    from regard.recording import attentions as attentions
    from regard.recording import intervene as intervene
    from regard.recording import record as record
    from regard.runs import load as load
    from regard.scores import SCORES as SCORES
    from regard.swap import swap as swap
    from regard.wrapped import attentive as attentive

__version__ = "0.1.0"

# Imported when they are first asked for: the command must start without torch.
PACKAGES = (
    "alignment", "analyses", "audits", "continuous", "data", "decoding", "explanations", "heads",
    "inspection", "losses", "maps", "masks", "mechanisms", "memories", "models", "positions", "runs",
    "scores", "structures", "tasks", "testing", "training", "views",
)  # fmt: skip
NAMES = {
    "MAPS": "maps", "MECHANISMS": "mechanisms", "SCORES": "scores",
    "Attended": "attention", "Attention": "attention",
    "Attentive": "core.recorders", "MultiHead": "heads", "Place": "core.place", "attend": "attention",
    "attentions": "recording", "audit": "audits", "explain": "explanations", "intervene": "recording",
    "attentive": "wrapped", "decoding_stats": "memories", "load": "runs", "record": "recording",
    "swap": "swap",
}  # fmt: skip
__all__ = [*PACKAGES, *NAMES]


class Package(ModuleType):
    """This package. `swap` is a function in a file of that name: `regard.swap` stays the function."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value.swap if name == "swap" and isinstance(value, ModuleType) else value)


sys.modules[__name__].__class__ = Package


def __getattr__(name: str) -> Any:
    """What is public, when it is first asked for."""
    if name in PACKAGES:
        return import_module(f"regard.{name}")
    if name not in NAMES:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    globals()[name] = getattr(import_module(f"regard.{NAMES[name]}"), name)
    return globals()[name]


def __dir__() -> list[str]:
    """What is public."""
    return sorted([*__all__, "__version__"])
