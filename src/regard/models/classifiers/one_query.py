"""The base class of classifiers with one query: hidden states, one attention over them, a linear layer.

    h = states(embed(x))        z = Attention(q, h)        ŷ = Wz + b

The query is learned, the same for all texts. With a second text, the query is that text's mean hidden state,
and the class is predicted from tanh(W₁z + W₂q) (Jain & Wallace 2019, arXiv:1902.10186, §2, for question
answering and inference; there the second text has a separate encoder, and the query is its last state).

Regularizers (`regard.models.classifiers.regularizers`) can be added to its loss.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention, resolve_score
from regard.masks import Lengths
from regard.models.classifiers.classifier_model import (
    ClassifierModel,
    Common,
    WordVectors,
    check_texts,
    zero_padding,
)
from regard.models.classifiers.regularizers import REGULARIZERS, RegularizerInput
from regard.models.parts.dropout_layer import Dropout
from regard.models.parts.named_components import make_map
from regard.recording import record


class OneQuery(ClassifierModel):
    """A subclass defines `encode`, which returns hidden states of this width."""

    def __init__(self, config: Common, width: int):
        super().__init__()
        self.config = config
        self.words = WordVectors(config.vocabulary, config.embedding, config.dropout, config.word_dropout)
        if config.pairs:
            self.W1, self.W2 = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        else:
            self.query = nn.Parameter(torch.randn(1, width))
        self.attention = Attention(
            resolve_score(config.score, width, width), make_map(config.map, learn_alpha=config.learn_alpha)
        )
        self.dropout = Dropout(config.dropout)
        self.read = nn.Linear(width, config.classes)
        self.attention_paths = {"reader": ["attention"]}
        self.regularizers = nn.ModuleDict()  # by name; see `add_regularizers`
        self.strengths: dict[str, float] = {}  # λ of each

    def states(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """Embedded words (b, n, d) to the hidden states that are attended to, (b, n, width)."""
        return self.encode(zero_padding(embedded, lengths), lengths)

    def encode(self, x: Tensor, lengths: Tensor) -> Tensor:
        """The same for embeddings x (b, n, d) whose padding is 0."""
        raise NotImplementedError

    def condition_on_second(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """The mean hidden state of second texts, (b, width)."""
        states = self.states(self.embed(tokens), lengths)
        return zero_padding(states, lengths).sum(-2) / lengths.unsqueeze(-1)

    def from_embedded(self, embedded: Tensor, lengths: Tensor, condition: Tensor | None = None) -> Tensor:
        return self.from_states(self.states(embedded, lengths), lengths, condition)

    def prepared(self, *texts: Tensor) -> Callable[[], Tensor]:
        embedded, lengths, condition = self.embed(texts[0]), texts[1], self.condition(*texts)
        states = self.states(embedded, lengths)
        return lambda: self.from_states(states, lengths, condition)

    def from_states(self, states: Tensor, lengths: Tensor, condition: Tensor | None = None) -> Tensor:
        """Logits (b, classes) of the hidden states (b, n, width) of words."""
        states = self.dropout(states)
        query = self.query.expand(len(states), 1, -1) if condition is None else condition.unsqueeze(-2)
        z = self.attention(query, states, mask=Lengths(lengths)).context.squeeze(-2)  # (b, width)
        if condition is not None:
            z = torch.tanh(self.W1(z) + self.W2(condition))
        logits: Tensor = self.read(self.dropout(z))
        return logits

    def add_regularizers(self, strengths: Mapping[str, float], forbidden: Sequence[int] = ()) -> None:
        """Add regularizers to the loss, each with its strength λ; `forbidden` are tokens, for "deceive"."""
        if type(self).loss is not OneQuery.loss:
            super().add_regularizers(strengths, forbidden)  # refuses
        tokens = torch.tensor(sorted(set(forbidden)), dtype=torch.long) if forbidden else None
        for name, strength in strengths.items():
            if not strength >= 0:  # also not NaN
                raise ValueError(f"{name} must be at least 0; got {strength}.")
            if strength:
                self.regularizers[name] = REGULARIZERS[name](self, self.read.in_features, tokens)
                self.strengths[name] = strength

    def with_states(
        self, vectors: Tensor, lengths: Tensor, condition: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Logits (b, classes), and the hidden states of words (b, n, width), of their vectors (b, n, d)."""
        states = self.states(vectors, lengths)
        return self.from_states(states, lengths, condition), states

    def loss(
        self, wanted: Tensor, *texts: Tensor, smoothing: float = 0.0, forbidden: Tensor | None = None
    ) -> Tensor:
        """The sum over texts of −log p of wanted (b,) and regularizers; `forbidden` (b, n): for "deceive"."""
        if not self.regularizers:
            return super().loss(wanted, *texts, smoothing=smoothing)
        tokens, lengths = texts[0], texts[1]
        check_texts(tokens, lengths)
        vectors, condition = self.embed(tokens), self.condition(*texts)
        with record(self, self.attention_paths["reader"], grad=True) as seen:
            logits, states = self.with_states(vectors, lengths, condition)
        loss = F.cross_entropy(logits.float(), wanted, reduction="sum", label_smoothing=smoothing)
        weights = self.over_words(seen).float()
        inputs = RegularizerInput(tokens, lengths, vectors, states, weights, self, forbidden)
        for name, regularizer in self.regularizers.items():
            loss = loss + self.strengths[name] * regularizer(inputs).float().sum()
        return loss
