"""Views: tensors and plain results in, pictures out."""

from regard.views.bars import bars as bars
from regard.views.growth import growth as growth
from regard.views.heat_map import heat_map as heat_map
from regard.views.picture import save as save
