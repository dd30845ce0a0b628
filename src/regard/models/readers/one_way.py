"""One-way attention: each word of the passage attends to the question, and not the other way round.

    C^D = A^D Q        U = BiLSTM([D; C^D])

The control of `dynamic_coattention`: the same encoder and decoder, without C^Q.
"""

from torch import Tensor

from regard.masks import Lengths
from regard.models.entries import register_reader
from regard.models.readers.dynamic_coattention import Config, DynamicCoattention


@register_reader(Config)
class OneWay(DynamicCoattention):
    """Words of the passage attend to the question; the decoder of dynamic_coattention."""

    def __init__(self, config: Config):
        super().__init__(config)
        del self.over_passage

    @property
    def fused(self) -> int:
        return 4 * self.config.width

    @property
    def paths(self) -> tuple[list[str], list[str]]:
        return [], ["over_question"]

    def coattend(self, D: Tensor, Q: Tensor, n: Tensor, m: Tensor) -> Tensor:
        context: Tensor = self.over_question(D, Q, mask=Lengths(m)).context
        return context
