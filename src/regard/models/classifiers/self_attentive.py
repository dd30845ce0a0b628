"""Structured self-attention: several learned queries, and a penalty on similar weights.

    A = map(W₂ tanh(W₁Hᵀ))        M = AH        ŷ = W relu(V [M₁; …; M_r])        loss + λ ‖AAᵀ − I‖²_F

H are the hidden states of a BiLSTM; A is (r, n), one row per query. The penalty makes rows differ, and it
also makes every row sharp: diag(AAᵀ) are the Σⱼ aᵢⱼ², which are 1 only for a row with all its weight on one
word (1/n for a uniform one). (One lecture calls the diagonal 1 "obviously", and says that of two equal rows
the product is 1.)

With a second text, both are encoded by the same model, and compared row by row by a gated encoder:
Fᵢ = (Mᵢ U⁽ⁱ⁾) ⊙ (Mᵢ' U'⁽ⁱ⁾).

Lin et al. (2017), "A Structured Self-Attentive Sentence Embedding", arXiv:1703.03130, §2; the gated encoder:
§4.3 and appendix B.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention import Attention, resolve_score
from regard.masks import Lengths
from regard.models.classifiers.classifier_model import ClassifierModel, Common, WordVectors, initialize
from regard.models.entries import register_classifier
from regard.models.parts.bidirectional import BidirectionalRNN
from regard.models.parts.dropout_layer import Dropout
from regard.models.parts.named_components import make_map
from regard.recording import record


@dataclass(frozen=True)
class Config(Common):
    """Configuration of a self-attentive classifier."""

    score: str = "dot"  # of W₂ with tanh(W₁Hᵀ)
    width: int = 128  # of the hidden states; half in each direction
    compared: int = 64  # width of tanh(W₁Hᵀ)
    rows: int = 4  # queries
    inner: int = 128  # width of the hidden layer after M
    penalty: float = 1.0  # λ


@register_classifier(Config)
class SelfAttentive(ClassifierModel):
    """A BiLSTM, attention with several queries, and two layers."""

    def __init__(self, config: Config):
        super().__init__()
        if config.rows < 1:
            raise ValueError(f"rows must be at least 1; got {config.rows}.")
        if not config.penalty >= 0:
            raise ValueError(f"penalty must be at least 0; got {config.penalty}.")
        self.config, width, rows = config, config.width, config.rows
        self.words = WordVectors(config.vocabulary, config.embedding, config.dropout, config.word_dropout)
        self.encoder = BidirectionalRNN(config.embedding, width, 1, config.dropout, "lstm")
        self.W1 = nn.Linear(width, config.compared, bias=False)
        self.W2 = nn.Parameter(torch.empty(rows, config.compared))
        self.attention = Attention(
            resolve_score(config.score, config.compared, config.compared),
            make_map(config.map, learn_alpha=config.learn_alpha),
        )
        if config.pairs:
            self.U = nn.Parameter(torch.empty(2, rows, width, width))
        self.dropout = Dropout(config.dropout)
        self.inner, self.read = nn.Linear(rows * width, config.inner), nn.Linear(config.inner, config.classes)
        self.attention_paths = {"reader": ["attention"]}
        initialize(self)
        for matrix in self.U.flatten(0, 1) if config.pairs else ():
            nn.init.xavier_uniform_(matrix)

    def states(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """H (b, n, width)."""
        states: Tensor = self.encoder(embedded, lengths)
        return states

    def condition_on_second(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """The gated M of second texts, (b, rows, width)."""
        return self._gated(self._matrix(self.embed(tokens), lengths), 1)

    def from_embedded(self, embedded: Tensor, lengths: Tensor, condition: Tensor | None = None) -> Tensor:
        M = self._matrix(embedded, lengths)
        if condition is not None:
            M = self._gated(M, 0) * condition
        logits: Tensor = self.read(self.dropout(torch.relu(self.inner(self.dropout(M.flatten(-2))))))
        return logits

    def loss(self, wanted: Tensor, *texts: Tensor, smoothing: float = 0.0) -> Tensor:
        """The sum over texts of −log p of wanted (b,) and λ times the penalty of each text."""
        with record(self, self.attention_paths["reader"], grad=True) as seen:
            loss = super().loss(wanted, *texts, smoothing=smoothing)
        penalty: float = self.config.penalty
        if penalty:
            for text in seen["attention"]:
                loss = loss + penalty * redundancy(text.weights).sum()
        return loss

    def _matrix(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """M (b, rows, width)."""
        H = self.dropout(self.states(embedded, lengths))
        query = self.W2.expand(len(H), -1, -1).to(H.dtype)
        M: Tensor = self.attention(query, torch.tanh(self.W1(H)), H, mask=Lengths(lengths)).context
        return M

    def _gated(self, M: Tensor, side: int) -> Tensor:
        return torch.einsum("brd,rde->bre", M, self.U[side].to(M.dtype))


def redundancy(weights: Tensor) -> Tensor:
    """‖AAᵀ − I‖²_F of weights (..., r, n): (...)."""
    identity = torch.eye(weights.shape[-2], dtype=weights.dtype, device=weights.device)
    return (weights @ weights.mT - identity).square().sum((-2, -1))
