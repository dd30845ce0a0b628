"""Estimators: how a gradient gets past a hard choice, one per file."""

from regard.maps.estimators.estimator import Estimator as Estimator
from regard.maps.estimators.exact import Exact as Exact
from regard.maps.estimators.gumbel import GumbelSoftmax as GumbelSoftmax
from regard.maps.estimators.perturbed import PerturbAndMap as PerturbAndMap
from regard.maps.estimators.reinforce import Reinforce as Reinforce
from regard.maps.estimators.spigot import Spigot as Spigot
from regard.maps.estimators.straight_through import StraightThrough as StraightThrough
