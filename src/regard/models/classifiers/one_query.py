"""Classifiers with one query: states of the words, one look over them, and a linear layer.

    h = states(embed(x))        z = Attention(q, h)        ŷ = Wz + b

The query is learned, the same for all texts. With a second text it is that text's mean state, and what is
read is tanh(W₁z + W₂q): what was found, in the light of what was asked (Jain & Wallace 2019,
arXiv:1902.10186, §2, for question answering and inference; there the second text has an encoder of its own
and its last state is taken).
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.attention import Attention, resolve_score
from regard.masks import Lengths
from regard.models.classifiers.classifier import Classifier, Common, check_texts, cleaned
from regard.models.classifiers.words import Words
from regard.models.parts.dropout import Dropout
from regard.models.parts.steps import make_map


class OneQuery(Classifier):
    """What is left to a model of this kind is `encode`, to states of this width."""

    def __init__(self, config: Common, width: int):
        super().__init__()
        self.config = config
        self.words = Words(config.vocabulary, config.embedding, config.dropout, config.word_dropout)
        if config.pairs:
            self.W1, self.W2 = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        else:
            self.query = nn.Parameter(torch.randn(1, width))
        self.attention = Attention(
            resolve_score(config.score, width, width), make_map(config.map, learn_alpha=config.learn_alpha)
        )
        self.dropout = Dropout(config.dropout)
        self.read = nn.Linear(width, config.classes)
        self.looks = ["attention"]

    def states(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """Embedded words (b, n, d) to what is looked at, (b, n, width)."""
        return self.encode(cleaned(embedded, lengths), lengths)

    def encode(self, x: Tensor, lengths: Tensor) -> Tensor:
        """The same, of words whose padding is 0."""
        raise NotImplementedError

    def given(
        self,
        tokens: Tensor,
        lengths: Tensor,
        second: Tensor | None = None,
        second_lengths: Tensor | None = None,
    ) -> Tensor | None:
        """What the second text asks, (b, width); None if there is none."""
        if not self.config.pairs:
            return super().given(tokens, lengths, second, second_lengths)
        if second is None or second_lengths is None:
            raise ValueError("this classifier was made for pairs of texts; only one came.")
        check_texts(second, second_lengths)
        states = self.states(self.embed(second), second_lengths)
        return cleaned(states, second_lengths).sum(-2) / second_lengths.unsqueeze(-1)

    def from_embedded(self, embedded: Tensor, lengths: Tensor, given: Tensor | None = None) -> Tensor:
        return self.from_states(self.states(embedded, lengths), lengths, given)

    def prepared(self, *texts: Tensor) -> Callable[[], Tensor]:
        embedded, lengths, given = self.embed(texts[0]), texts[1], self.given(*texts)
        states = self.states(embedded, lengths)
        return lambda: self.from_states(states, lengths, given)

    def from_states(self, states: Tensor, lengths: Tensor, given: Tensor | None = None) -> Tensor:
        """Logits (b, classes) of the states (b, n, width) of words."""
        states = self.dropout(states)
        query = self.query.expand(len(states), 1, -1) if given is None else given.unsqueeze(-2)
        z = self.attention(query, states, mask=Lengths(lengths)).context.squeeze(-2)  # (b, width)
        if given is not None:
            z = torch.tanh(self.W1(z) + self.W2(given))
        logits: Tensor = self.read(self.dropout(z))
        return logits
