"""Word alignment: links between the words of a sentence and of its translation."""

from regard.alignment.aligner import Aligner as Aligner
from regard.alignment.expectation import train as train
from regard.alignment.keeping import save as save
from regard.alignment.links import Links as Links
from regard.alignment.loading import load as load
from regard.alignment.scorer import Score as Score
from regard.alignment.scorer import score as score
from regard.alignment.system import Aligned as Aligned
from regard.alignment.system import align as align
