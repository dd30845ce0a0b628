"""Planted models: what the audit gets of them, and how they are trained.

A model has two parts, the weights that it shows and the logits for any weights. It is a classifier of this
project, or a toy: hidden states without context, and a score for each word of the vocabulary.
"""

from collections.abc import Callable, Sequence

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
    """A model in two parts; `predict`, `attention` and `intervene` are what `Case.from_functions` takes."""

    intervenes = True  # whether other weights can be put into it
    succeeded = True  # whether it is what its kind is, besides having learned

    def __init__(self) -> None:
        super().__init__()
        self.facts: dict[str, float] = {}  # measured inside it
        self.last: tuple[Tokens, Answer] | None = None  # the texts of the last intervention

    def weights(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Weights (b, n) of tokens (b, n)."""
        raise NotImplementedError

    def prepared(self, tokens: Tensor, lengths: Tensor) -> Answer:
        """From weights to logits, for these tokens."""
        raise NotImplementedError

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Logits (b, classes) of tokens (b, n)."""
        return self.prepared(tokens, lengths)(self.weights(tokens, lengths))

    @torch.no_grad()
    def predict(self, texts: Tokens) -> Tensor:
        """Probabilities (b, classes)."""
        found: Tensor = self(*padded(texts)).double().softmax(-1)
        return found

    @torch.no_grad()
    def attention(self, texts: Tokens) -> Tensor:
        """Weights (b, n)."""
        return self.weights(*padded(texts))

    def intervene(self, texts: Tokens, weights: Tensor) -> Tensor:
        """Probabilities (b, classes) with these weights (b, n)."""
        if self.last is None or self.last[0] != texts:
            self.last = texts, self.prepared(*padded(texts))
        return self.last[1](weights.float()).double().softmax(-1)

    def mass(self, texts: Texts) -> float:
        """Mean weight that is shown on the label words of a text."""
        with torch.no_grad():
            weights = self.weights(texts.test, lengths_of(texts.test))
        return float((weights * is_label_word(texts.test)).sum(-1).mean())


class Wrapper(Attending):
    """A classifier of this project with one query, in two parts; its own weights are shown, or another's."""

    def __init__(self, model: ClassifierModel, shown: ClassifierModel | None = None):
        super().__init__()
        self.model, self.shown = model, shown or model

    def weights(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        with record(self.shown, self.shown.attention_paths["reader"]) as seen:
            self.shown(tokens, lengths)
        return self.shown.over_words(seen).squeeze(-2)

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
    """ŷ = W Σ_j α_j h_j + b, h_j = tanh(E[x_j]), or E[x_j] if it is not bounded: without context.

    Words have scores, as a query and keys without context would give; `scale` is their initial deviation.
    """

    def __init__(self, *, bounded: bool = True, scale: float = 0.1) -> None:
        super().__init__()
        self.bounded, self.E, self.theta = bounded, of_words(WIDTH, 0.1), of_words(1, scale)
        self.read = nn.Linear(WIDTH, 2)

    def states(self, tokens: Tensor) -> Tensor:
        """Hidden states (b, n, WIDTH) of tokens (b, n)."""
        vectors: Tensor = self.E(tokens)
        return torch.tanh(vectors) if self.bounded else vectors

    def weights(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        return scores(self.theta, tokens, lengths).softmax(-1)

    def prepared(self, tokens: Tensor, lengths: Tensor) -> Answer:
        states = self.states(tokens)
        return lambda weights: self.read(context(weights, states))


def of_words(width: int, scale: float) -> nn.Embedding:
    """A vector for each word of the vocabulary, of this deviation."""
    vectors = nn.Embedding(VOCABULARY, width)
    nn.init.normal_(vectors.weight, std=scale)
    return vectors


def scores(theta: nn.Embedding, tokens: Tensor, lengths: Tensor) -> Tensor:
    """The scores (b, n) of tokens (b, n), −inf at padding."""
    found: Tensor = theta(tokens).squeeze(-1)
    return found.masked_fill(~real(lengths, tokens.shape[1]), -torch.inf)


def context(weights: Tensor, states: Tensor) -> Tensor:
    """Σ_j w_j h_j of weights (b, n) and states (b, n, d): (b, d)."""
    return (weights.unsqueeze(-2) @ states).squeeze(-2)


def lengths_of(tokens: Tensor) -> Tensor:
    """The lengths (b,) of texts (b, n) that are equally long."""
    return torch.full((len(tokens),), tokens.shape[1])


def fit(
    model: nn.Module, texts: Texts, loss: Loss | None = None, *, steps: int = STEPS, rate: float = RATE
) -> None:
    """Minimise a loss (cross-entropy, by default) of batches drawn at random; the model ends in eval mode."""
    loss = loss or (lambda tokens, lengths, wanted: F.cross_entropy(model(tokens, lengths), wanted))
    model.train()
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.Adam(learned, lr=rate)
    for _ in range(steps):
        some = torch.randint(len(texts.tokens), (BATCH,))
        tokens = texts.tokens[some]
        optimiser.zero_grad()
        loss(tokens, lengths_of(tokens), texts.labels[some]).backward()
        nn.utils.clip_grad_norm_(learned, 5.0)
        optimiser.step()
    model.eval()
