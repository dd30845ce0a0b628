"""regard: neural attention you can swap, train, see and question."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard import heads as heads
from regard import maps as maps
from regard import masks as masks
from regard import scores as scores
from regard.attention import Attended as Attended
from regard.attention import Attention as Attention
from regard.attention import attend as attend
from regard.core.place import Place as Place
from regard.heads import MultiHead as MultiHead
from regard.maps import MAPS as MAPS
from regard.recording import attentions as attentions
from regard.recording import intervene as intervene
from regard.recording import record as record
from regard.scores import SCORES as SCORES
from regard.swap import swap as swap

if TYPE_CHECKING:
    from regard import alignment as alignment
    from regard import analyses as analyses
    from regard import audits as audits
    from regard import continuous as continuous
    from regard import data as data
    from regard import decoding as decoding
    from regard import explanations as explanations
    from regard import inspection as inspection
    from regard import losses as losses
    from regard import memories as memories
    from regard import models as models
    from regard import positions as positions
    from regard import runs as runs
    from regard import structures as structures
    from regard import tasks as tasks
    from regard import testing as testing
    from regard import training as training
    from regard import views as views
    from regard.audits import audit as audit
    from regard.explanations import explain as explain
    from regard.runs import load as load

__version__ = "0.1.0"

PACKAGES = (  # imported when they are first asked for
    "alignment", "analyses", "audits", "continuous", "data", "decoding", "explanations", "inspection",
    "losses", "memories", "models", "positions", "runs", "structures", "tasks", "testing", "training",
    "views",
)  # fmt: skip
FUNCTIONS = {"audit": "regard.audits", "explain": "regard.explanations", "load": "regard.runs"}
__all__ = [
    "MAPS", "SCORES", "Attended", "Attention", "MultiHead", "Place", "attend", "attentions", "heads",
    "intervene", "maps", "masks", "record", "scores", "swap", *PACKAGES, *FUNCTIONS,
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """What brings in models, data or pictures, when it is first asked for."""
    if name in FUNCTIONS:
        return getattr(import_module(FUNCTIONS[name]), name)
    if name in PACKAGES:
        return import_module(f"regard.{name}")
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What is public."""
    return sorted([*__all__, "__version__"])
