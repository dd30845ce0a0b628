"""A map by its name in MAPS, or as it is."""

from collections.abc import Callable

from torch import Tensor

from regard.core.names import refuse_class
from regard.maps.table import MAPS, Map


def resolve_map(map: str | Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A map by name or as it is."""
    if isinstance(map, str):
        return MAPS[map].function
    refuse_class("map", map)
    if not callable(map):
        raise TypeError(f"map must be a name from regard.MAPS or a callable; got {type(map).__name__}.")
    return map.function if isinstance(map, Map) else map
