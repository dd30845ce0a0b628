"""How a planted model is given to the audit: as bare functions of texts, which are lists of tokens."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.data.padding import padded
from regard.models.classifiers import ClassifierModel
from regard.recording import record

Tokens = Sequence[Sequence[int]]
Answer = Callable[[Tensor], Tensor]  # weights (b, n) to logits (b, classes)


class Functions(NamedTuple):
    """What `Case.from_functions` takes."""

    predict: Callable[[Tokens], Tensor]
    attention: Callable[[Tokens], Tensor]
    intervene: Callable[[Tokens, Tensor], Tensor] | None


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
