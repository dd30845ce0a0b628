"""Runs: the folder a model is trained into, and `load`, which brings one back."""

from regard.runs.fit import Fitted as Fitted
from regard.runs.fit import fit as fit
from regard.runs.load import load as load
from regard.runs.resolve import resolved as resolved
from regard.runs.settings import Settings as Settings
from regard.runs.translator import Translation as Translation
from regard.runs.translator import Translator as Translator
