"""Runs: the folder that a model is trained into, and `load`, which brings one back."""

from regard.runs.fit import Fitted as Fitted
from regard.runs.fit import fit as fit
from regard.runs.folder import load as load
from regard.runs.folder import open_system as open_system
from regard.runs.folder import resolve as resolve
