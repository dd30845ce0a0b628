"""Planted models in two parts, how they are trained, and how they are given to the audit.

The audit gets bare functions of texts, which are lists of tokens. Models are classifiers of this project, or
toys: hidden states without context, and a score for each word of the vocabulary.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.audits.planted.planted_texts import VOCABULARY, Texts, is_label_word
from regard.data.padding import padded
from regard.models.classifiers import ClassifierModel
from regard.models.classifiers.classifier_model import real
from regard.recording import record

STEPS, RATE, BATCH = 150, 2e-2, 32  # of the models of this project; others have their own steps and rates
WIDTH = 32  # of toys

Tokens = Sequence[Sequence[int]]
Answer = Callable[[Tensor], Tensor]  # weights (b, n) to logits (b, classes)
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]  # tokens (b, n), lengths (b,), wanted (b,) to a number


class Attending(nn.Module):
    """A model in two parts: the weights that it shows, and the logits for any weights."""

    def weights(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Weights (b, n) of tokens (b, n)."""
        raise NotImplementedError

    def prepared(self, tokens: Tensor, lengths: Tensor) -> Answer:
        """From weights to logits, for these tokens."""
        raise NotImplementedError

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Logits (b, classes) of tokens (b, n)."""
        return self.prepared(tokens, lengths)(self.weights(tokens, lengths))

    def mass(self, texts: Texts) -> float:
        """Mean weight that is shown on the label words of a text."""
        with torch.no_grad():
            weights = self.weights(texts.test, lengths_of(texts.test))
        return float((weights * is_label_word(texts.test)).sum(-1).mean())


class Wrapper(Attending):
    """A classifier of this project with one query, in these two parts."""

    def __init__(self, model: ClassifierModel):
        super().__init__()
        self.model = model

    def weights(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        with record(self.model, self.model.attention_paths["reader"]) as seen:
            self.model(tokens, lengths)
        return self.model.over_words(seen).squeeze(-2)

    def prepared(self, tokens: Tensor, lengths: Tensor) -> Answer:
        answer = self.model.prepared(tokens, lengths)

        def with_weights(weights: Tensor) -> Tensor:
            with self.model.looking_with(weights.unsqueeze(-2)):
                return answer()

        return with_weights

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        logits: Tensor = self.model(tokens, lengths)
        return logits


class Toy(Attending):
    """ŷ = W Σ_j α_j h_j + b, without context."""

    def __init__(self, *, bounded: bool = True, scale: float = 0.1) -> None:
        super().__init__()
        self.states, self.scores, self.read = States(bounded), Scores(scale), nn.Linear(WIDTH, 2)

    def weights(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        return self.scores.weights(tokens, lengths)

    def prepared(self, tokens: Tensor, lengths: Tensor) -> Answer:
        states = self.states(tokens)
        return lambda weights: self.read(context(weights, states))


class States(nn.Module):
    """h_j = tanh(E[x_j]), or E[x_j] if it is not bounded: without context."""

    def __init__(self, bounded: bool = True) -> None:
        super().__init__()
        self.bounded = bounded
        self.E = nn.Embedding(VOCABULARY, WIDTH)
        nn.init.normal_(self.E.weight, std=0.1)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (b, n) to states (b, n, WIDTH)."""
        vectors: Tensor = self.E(tokens)
        return torch.tanh(vectors) if self.bounded else vectors


class Scores(nn.Module):
    """A score for each word, as a query and keys without context would give; `scale` is their deviation."""

    def __init__(self, scale: float = 0.1):
        super().__init__()
        self.theta = nn.Embedding(VOCABULARY, 1)
        nn.init.normal_(self.theta.weight, std=scale)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Tokens (b, n) to scores (b, n), −inf at padding."""
        theta: Tensor = self.theta(tokens).squeeze(-1)
        return theta.masked_fill(~real(lengths, tokens.shape[1]), -torch.inf)

    def weights(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Softmax of the scores: (b, n)."""
        found: Tensor = self(tokens, lengths).softmax(-1)
        return found


def context(weights: Tensor, states: Tensor) -> Tensor:
    """Σ_j w_j h_j of weights (b, n) and states (b, n, d): (b, d)."""
    return (weights.unsqueeze(-2) @ states).squeeze(-2)


def lengths_of(tokens: Tensor) -> Tensor:
    """The lengths (b,) of texts (b, n) that are equally long."""
    return torch.full((len(tokens),), tokens.shape[1])


def fit(
    model: nn.Module, texts: Texts, loss: Loss | None = None, *, steps: int = STEPS, rate: float = RATE
) -> None:
    """Minimise the loss, cross-entropy by default, of batches drawn at random; it ends in eval mode."""
    model.train()
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.Adam(learned, lr=rate)
    for _ in range(steps):
        some = torch.randint(len(texts.tokens), (BATCH,))
        tokens, wanted = texts.tokens[some], texts.labels[some]
        optimiser.zero_grad()
        lengths = lengths_of(tokens)
        found = (
            F.cross_entropy(model(tokens, lengths), wanted) if loss is None else loss(tokens, lengths, wanted)
        )
        found.backward()
        nn.utils.clip_grad_norm_(learned, 5.0)
        optimiser.step()
    model.eval()


class Functions(NamedTuple):
    """What `Case.from_functions` takes."""

    predict: Callable[[Tokens], Tensor]
    attention: Callable[[Tokens], Tensor]
    intervene: Callable[[Tokens, Tensor], Tensor] | None


def functions_of(model: Attending, shown: Attending | None = None) -> Functions:
    """The functions of a model; if `shown` is given, with the weights of that model as its attention."""
    model.eval().requires_grad_(False)
    last: list[tuple[Tokens, Answer]] = []  # the texts of the last call

    def predict(texts: Tokens) -> Tensor:
        with torch.no_grad():
            found: Tensor = model(*padded(texts)).double().softmax(-1)
            return found

    def attention(texts: Tokens) -> Tensor:
        with torch.no_grad():
            return (shown or model).weights(*padded(texts))

    def intervene(texts: Tokens, weights: Tensor) -> Tensor:
        if not last or last[0][0] != texts:
            last[:] = [(texts, model.prepared(*padded(texts)))]
        return last[0][1](weights.float()).double().softmax(-1)

    return Functions(predict, attention, intervene)
