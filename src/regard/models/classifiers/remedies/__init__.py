"""Remedies: what a classifier can add to its loss for weights that say more, or less. REMEDIES has them."""

from regard.models.classifiers.remedies.deceive import Deceive as Deceive
from regard.models.classifiers.remedies.diversity import Diversity as Diversity
from regard.models.classifiers.remedies.mlm import MaskedWords as MaskedWords
from regard.models.classifiers.remedies.table import REMEDIES as REMEDIES
from regard.models.classifiers.remedies.table import Read as Read
from regard.models.classifiers.remedies.table import Remedy as Remedy
from regard.models.classifiers.remedies.tie import Tie as Tie
