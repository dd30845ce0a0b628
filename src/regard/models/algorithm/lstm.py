"""An LSTM, the control: all it remembers must fit into its state.

    h_t = LSTM(x_t, h_{t−1})        y_t = W h_t

Graves, Wayne & Danihelka (2014), arXiv:1410.5401, §4 (there: three layers of 256).
"""

from dataclasses import dataclass

from torch import Tensor, nn

from regard.models.algorithm.algorithm_model import AlgorithmModel, Common, Run
from regard.models.entries import register_algorithm_model


@dataclass(frozen=True)
class Config(Common):
    """Configuration of an LSTM."""

    width: int = 256
    layers: int = 3


@register_algorithm_model(Config)
class LSTM(AlgorithmModel):
    """An LSTM and a linear layer, without a memory beside its state."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.cell = nn.LSTM(config.inputs, config.width, config.layers, batch_first=True)
        self.out = nn.Linear(config.width, config.outputs)

    def run(self, inputs: Tensor) -> Run:
        return Run(self.out(self.cell(inputs)[0]))
