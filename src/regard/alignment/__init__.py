"""Word alignment: algorithms that link the words of a sentence and of its translation."""

from regard.alignment.aligner import Aligner as Aligner
from regard.alignment.aligner import AlignerSettings as AlignerSettings
from regard.alignment.error_rate import AlignmentScore as AlignmentScore
from regard.alignment.error_rate import score as score
from regard.alignment.expectation import train as train
from regard.alignment.links import Links as Links
from regard.alignment.match_score import Match as Match
from regard.alignment.match_score import match_score as match_score
