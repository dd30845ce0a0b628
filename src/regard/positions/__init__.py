"""Terms: what is added to a score because of where query and key stand."""

from regard.positions.bias import Bias as Bias
from regard.positions.distance import Distance as Distance
from regard.positions.order import Order as Order
from regard.positions.relative import Relative as Relative
