"""Decoding: greedy search, beam search, sampling and rescoring."""

from regard.decoding.beam import beam as beam
from regard.decoding.beam import penalty as penalty
from regard.decoding.hypothesis import Decodable as Decodable
from regard.decoding.hypothesis import Hypothesis as Hypothesis
from regard.decoding.hypothesis import Limits as Limits
from regard.decoding.repetition import cut_loops as cut_loops
from regard.decoding.rescoring import rescore as rescore
from regard.decoding.sampling import greedy as greedy
from regard.decoding.sampling import sample as sample
