"""Positions: terms added to a score (bias, distance, order, relative …), encodings added to inputs."""

from regard.positions.bias import Bias as Bias
from regard.positions.distance import Distance as Distance
from regard.positions.features import Features as Features
from regard.positions.fertility import Fertility as Fertility
from regard.positions.learned import Learned as Learned
from regard.positions.markov import Markov as Markov
from regard.positions.order import Order as Order
from regard.positions.relative import Relative as Relative
from regard.positions.sinusoidal import Sinusoidal as Sinusoidal
from regard.positions.sinusoidal import sinusoid as sinusoid
