"""Views: tensors and plain results in, pictures out.

Each returns a `View`: one description that becomes a file (PNG, SVG, PDF), a page (HTML) or a cell of a
notebook.
"""

from regard.views.bars import bars as bars
from regard.views.base_view import View as View
from regard.views.compare import compare as compare
from regard.views.growth import growth as growth
from regard.views.head_grid import heads as heads
from regard.views.heat_map import heat_map as heat_map
from regard.views.image_weights import image as image
from regard.views.layers import layers as layers
from regard.views.lines import lines as lines
from regard.views.picture import save as save
from regard.views.steps import steps as steps
from regard.views.words import words as words
