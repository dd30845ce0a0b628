"""Continuous attention: densities over the line or the plane, and values that are functions of position."""

from regard.continuous.basis import Basis as Basis
from regard.continuous.continuous_weights import Density as Density
from regard.continuous.continuous_weights import continuous_weights as continuous_weights
from regard.continuous.gaussian import Gaussian as Gaussian
from regard.continuous.gaussian import Gaussian2D as Gaussian2D
from regard.continuous.parabola import TruncatedParabola as TruncatedParabola
from regard.continuous.parabola import TruncatedParaboloid as TruncatedParaboloid
