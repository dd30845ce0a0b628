"""A bidirectional GRU encoder: each annotation summarizes the words before and after it.

    h_j = [→h_j; ←h_j]

Bahdanau, Cho & Bengio (2015), arXiv:1409.0473, §3.2.
"""

from torch import Tensor, nn
from torch.nn.utils.rnn import pad_packed_sequence

from regard.models.parts.dropout_layer import Dropout
from regard.models.parts.packing import pack


class Bidirectional(nn.Module):
    """Embeddings and a bidirectional GRU, `width` per direction."""

    def __init__(self, vocabulary: int, width: int, layers: int, dropout: float):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.dropout = Dropout(dropout)
        between = dropout if layers > 1 else 0.0
        self.gru = nn.GRU(width, width, layers, batch_first=True, bidirectional=True, dropout=between)

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Source (b, n) to annotations (b, n, 2 width) and final states [→h_n; ←h_1] (b, 2 width)."""
        annotations, last = self.gru(pack(self.dropout(self.embed(source)), source, lengths))
        annotations, _ = pad_packed_sequence(annotations, batch_first=True, total_length=source.shape[1])
        return annotations, last[-2:].transpose(0, 1).flatten(1)
