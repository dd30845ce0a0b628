"""How a planted model is handed over: as bare functions of texts, which are lists of tokens."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.audits.case import padded
from regard.core.tokens import PAD
from regard.recording import record
from regard.models.classifiers import ClassifierModel

Tokens = Sequence[Sequence[int]]
Answer = Callable[[Tensor], Tensor]  # weights (b, n) to logits (b, classes)


class Functions(NamedTuple):
    """What `regard.audits.of_functions` takes."""

    predict: Callable[[Tokens], Tensor]
    attention: Callable[[Tokens], Tensor]
    intervene: Callable[[Tokens, Tensor], Tensor] | None


class Looking(nn.Module):
    """A model in two halves: what it shows, and what it answers if the weights are these."""

    def weights(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Weights (b, n) of tokens (b, n)."""
        raise NotImplementedError

    def prepared(self, tokens: Tensor, lengths: Tensor) -> Answer:
        """From weights to logits, for these tokens."""
        raise NotImplementedError

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Logits (b, classes) of tokens (b, n)."""
        return self.prepared(tokens, lengths)(self.weights(tokens, lengths))


class Halves(Looking):
    """A classifier of this project with one query, in two halves."""

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


def handed(model: Looking, shown: Looking | None = None) -> Functions:
    """The functions of a model; its weights, or those of another that are shown in their place."""
    model.eval().requires_grad_(False)
    last: list[tuple[Tokens, Answer]] = []  # the texts last asked about

    def predict(texts: Tokens) -> Tensor:
        with torch.no_grad():
            found: Tensor = model(*tensors(texts)).double().softmax(-1)
            return found

    def attention(texts: Tokens) -> Tensor:
        with torch.no_grad():
            return (shown or model).weights(*tensors(texts))

    def intervene(texts: Tokens, weights: Tensor) -> Tensor:
        if not last or last[0][0] != texts:
            last[:] = [(texts, model.prepared(*tensors(texts)))]
        return last[0][1](weights.float()).double().softmax(-1)

    return Functions(predict, attention, intervene)


def tensors(texts: Tokens) -> tuple[Tensor, Tensor]:
    """Tokens (b, n) and lengths (b,)."""
    return padded([torch.tensor(text) for text in texts], PAD), torch.tensor([len(text) for text in texts])
