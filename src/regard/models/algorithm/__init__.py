"""Models that learn an algorithm from examples. ALGORITHM_MODELS has them by name."""

from regard.models.algorithm.algorithm_model import AlgorithmModel as AlgorithmModel
from regard.models.algorithm.lstm import LSTM as LSTM
from regard.models.algorithm.turing_machine import TuringMachine as TuringMachine
from regard.models.entries import ALGORITHM_MODELS as ALGORITHM_MODELS
