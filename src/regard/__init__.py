"""regard: neural attention you can swap, train, see and question."""

from typing import TYPE_CHECKING, Any

from regard import continuous as continuous
from regard import heads as heads
from regard import losses as losses
from regard import maps as maps
from regard import masks as masks
from regard import memories as memories
from regard import positions as positions
from regard import scores as scores
from regard import structures as structures
from regard import testing as testing
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
    from regard import audits as audits
    from regard import explanations as explanations
    from regard import views as views
    from regard.alignment import load as load
    from regard.audits.audit import audit as audit

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`load` and what brings in models, data or pictures, when it is first asked for."""
    if name == "load":
        from regard.alignment import load

        return load
    if name == "audit":
        from regard.audits.audit import audit

        return audit
    if name in ("alignment", "audits", "explanations", "views"):
        from importlib import import_module

        return import_module(f"regard.{name}")
    raise AttributeError(f"module 'regard' has no attribute {name!r}")
