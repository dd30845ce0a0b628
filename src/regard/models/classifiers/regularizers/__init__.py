"""Regularizers: terms that a classifier adds to its loss, by name in REGULARIZERS."""

from regard.models.classifiers.regularizers.deceive import Deceive as Deceive
from regard.models.classifiers.regularizers.deceive_max import DeceiveMax as DeceiveMax
from regard.models.classifiers.regularizers.diversity import Diversity as Diversity
from regard.models.classifiers.regularizers.mlm import MaskedWords as MaskedWords
from regard.models.classifiers.regularizers.regularizer import REGULARIZERS as REGULARIZERS
from regard.models.classifiers.regularizers.regularizer import Regularizer as Regularizer
from regard.models.classifiers.regularizers.regularizer import RegularizerInput as RegularizerInput
from regard.models.classifiers.regularizers.tie import Tie as Tie
