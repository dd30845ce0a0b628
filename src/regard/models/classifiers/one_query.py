"""Classifiers with one query: states of the words, one look over them, and a linear layer.

    h = states(embed(x))        z = Attention(q, h)        ŷ = Wz + b

The query is learned, the same for all texts. With a second text it is that text's mean state, and what is
read is tanh(W₁z + W₂q): what was found, in the light of what was asked (Jain & Wallace 2019,
arXiv:1902.10186, §2, for question answering and inference; there the second text has an encoder of its own
and its last state is taken).

Such a model can be given remedies (`regard.models.classifiers.remedies`), which add to its loss.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention, resolve_score
from regard.masks import Lengths
from regard.models.classifiers.classifier import Classifier, Common, check_texts, cleaned
from regard.models.classifiers.remedies import REMEDIES, Read
from regard.models.classifiers.words import Words
from regard.models.parts.dropout import Dropout
from regard.models.parts.steps import make_map
from regard.recording import record


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
        self.remedies = nn.ModuleDict()  # by name; see `mend`
        self.strengths: dict[str, float] = {}  # λ of each

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

    def mend(self, strengths: Mapping[str, float], forbidden: Sequence[int] = ()) -> None:
        """Add remedies to the loss, each with its λ; `forbidden` are tokens, for "deceive"."""
        if self.looks != ["attention"] or type(self).loss is not OneQuery.loss:
            super().mend(strengths, forbidden)  # refuses
        tokens = torch.tensor(sorted(set(forbidden)), dtype=torch.long) if forbidden else None
        for name, strength in strengths.items():
            if not strength >= 0:  # also not NaN
                raise ValueError(f"{name} must be at least 0; got {strength}.")
            if strength:
                self.remedies[name] = REMEDIES[name](self, self.read.in_features, tokens)
                self.strengths[name] = strength

    def loss(self, wanted: Tensor, *texts: Tensor, smoothing: float = 0.0) -> Tensor:
        """The sum over texts of −log p of wanted (b,) and of what the remedies add."""
        if not self.remedies:
            return super().loss(wanted, *texts, smoothing=smoothing)
        tokens, lengths = texts[0], texts[1]
        check_texts(tokens, lengths)
        vectors, given = self.embed(tokens), self.given(*texts)
        states = self.states(vectors, lengths)
        with record(self, self.looks, grad=True) as seen:
            logits = self.from_states(states, lengths, given)
        loss = F.cross_entropy(logits.float(), wanted, reduction="sum", label_smoothing=smoothing)
        weights = self.over_words(seen).squeeze(-2).float()
        read = Read(tokens, lengths, vectors, states, weights, self)
        for name, remedy in self.remedies.items():
            loss = loss + self.strengths[name] * remedy(read).float().sum()
        return loss
