"""The base class of text classifiers: embed the words, attend to them with a few queries, predict a class.

    logits = model(tokens, lengths) = model.from_embedded(model.embed(tokens), lengths, condition)

The two halves are separate so that gradients with respect to the embeddings can be taken. `condition` is what
a model needs besides the embeddings: None, or a tensor with a row per text, as `model.condition(tokens,
lengths)` returns it: what a second text asks, or where sentences end.

`model.attention_paths["reader"]` has the paths of the attentions whose weights over the words are "the
attention" of the model, for `record` and `intervene`. `model.over_words(seen)` has these weights as
(b, k, n), whatever the model: k queries or heads, n words.

In training, a word is replaced by UNK with probability `word_dropout`, so that the UNK vector is learned and
the model does not rely on single words (Iyyer et al. 2015, "Deep Unordered Composition Rivals Syntactic
Methods for Text Classification", §3.1, there with the word left out).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attended
from regard.core.errors import ShapeError
from regard.core.shapes import check_rate
from regard.core.tokens import PAD, UNK
from regard.models.parts.dropout_layer import Dropout
from regard.models.parts.initialization import glorot
from regard.recording import intervene

Recorded = Mapping[str, "list[Attended]"]


@dataclass(frozen=True)
class Common:
    """The configuration that all classifiers share."""

    vocabulary: int
    classes: int
    pairs: bool = False  # with a second text, which is the query; attention is over the first
    embedding: int = 100  # width of the word vectors
    dropout: float = 0.3
    word_dropout: float = 0.1
    score: str = "additive"
    map: str = "softmax"
    learn_alpha: bool = False

    def __post_init__(self) -> None:
        if self.classes < 2:
            raise ValueError(f"a classifier needs at least 2 classes; got {self.classes}.")


class WordVectors(nn.Module):
    """Embeddings E (vocabulary, width) with dropout."""

    def __init__(self, vocabulary: int, width: int, dropout: float, word_dropout: float):
        super().__init__()
        self.E = nn.Embedding(vocabulary, width)
        self.dropout = Dropout(check_rate("dropout", dropout))
        self.word_dropout = check_rate("word_dropout", word_dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (b, n) to (b, n, width)."""
        if self.training and self.word_dropout:
            dropped = torch.rand(tokens.shape, device=tokens.device) < self.word_dropout
            tokens = tokens.masked_fill(dropped & (tokens != PAD), UNK)
        vectors: Tensor = self.dropout(self.E(tokens))
        return vectors


def initialize(model: nn.Module) -> None:
    """Initialize with `glorot`, word vectors small, since those of rare words hardly move in training."""
    glorot(model)
    for module in model.modules():
        if isinstance(module, WordVectors):
            nn.init.normal_(module.E.weight, std=0.1)


class ClassifierModel(nn.Module):
    """A classifier of texts.

    `attention_paths` has its attentions by role, as module paths: "reader" and, in a Transformer, "self". A
    role that a model does not have is absent (`regard.core.recorders`).
    """

    config: Any
    attention_paths: dict[str, list[str]]
    words: WordVectors

    def embed(self, tokens: Tensor) -> Tensor:
        """Tokens (b, n) to word vectors (b, n, d)."""
        embedded: Tensor = self.words(tokens)
        return embedded

    def condition(self, tokens: Tensor, lengths: Tensor, *second: Tensor) -> Tensor | None:
        """What `from_embedded` needs besides the embeddings: (b, ...), or None.

        `second` are tokens (b, n') and lengths (b,) of the second texts, for a classifier of pairs.
        """
        if not self.config.pairs:
            if second:
                raise ValueError("this classifier takes one text; got two. Make it with pairs=True.")
            return self.condition_on_text(tokens, lengths)
        if len(second) != 2:
            raise ValueError("this classifier takes pairs of texts; got one text.")
        check_texts(*second)
        return self.condition_on_second(*second)

    def condition_on_text(self, tokens: Tensor, lengths: Tensor) -> Tensor | None:
        """The condition of single texts (b, n): None unless a model overrides it."""
        return None

    def condition_on_second(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """The condition made from second texts (b, n'), for classifiers of pairs."""
        raise NotImplementedError

    def from_embedded(self, embedded: Tensor, lengths: Tensor, condition: Tensor | None = None) -> Tensor:
        """Logits (b, classes) of embedded words (b, n, d), the first `lengths` (b,) of each row real."""
        raise NotImplementedError

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor,
        second: Tensor | None = None,
        second_lengths: Tensor | None = None,
    ) -> Tensor:
        """Logits (b, classes) of tokens (b, n), the first `lengths` (b,) of each row real."""
        check_texts(tokens, lengths)
        more = [x for x in (second, second_lengths) if x is not None]
        return self.from_embedded(self.embed(tokens), lengths, self.condition(tokens, lengths, *more))

    def loss(self, wanted: Tensor, *texts: Tensor, smoothing: float = 0.0) -> Tensor:
        """The sum of −log p of the classes wanted (b,), with label smoothing; `texts` as for `forward`."""
        return F.cross_entropy(self(*texts).float(), wanted, reduction="sum", label_smoothing=smoothing)

    def over_words(self, seen: Recorded) -> Tensor:
        """The weights over the words (b, k, n), of the last call recorded from the "reader" attentions."""
        return seen[self.attention_paths["reader"][-1]][-1].over_tokens

    def looking_with(self, weights: Tensor, condition: Tensor | None = None) -> AbstractContextManager[None]:
        """A context in which the weights over the words are these, (b, k, n)."""
        return intervene(self, lambda p: weights.to(p.dtype), self.attention_paths["reader"][-1])

    def prepared(self, *texts: Tensor) -> Callable[[], Tensor]:
        """A function that returns the logits of these texts, with what precedes the weights computed once.

        Here that is `embed`; models override this where more can be reused.
        """
        embedded, lengths, condition = self.embed(texts[0]), texts[1], self.condition(*texts)
        return lambda: self.from_embedded(embedded, lengths, condition)

    def add_regularizers(self, strengths: Mapping[str, float], forbidden: Sequence[int] = ()) -> None:
        """Add regularizers to the loss, by name and strength; not every model can take them."""
        if any(strengths.values()):
            raise ValueError(
                f"{type(self).__name__} takes no regularizer ({', '.join(strengths)}): they are for models "
                "with one query over the words (attentive_bilstm, attentive_mlp, attentive_cnn …)."
            )

    def parameter_count(self) -> int:
        """The number of parameters."""
        return sum(p.numel() for p in self.parameters())


def check_texts(tokens: Tensor, lengths: Tensor) -> None:
    """Require tokens (b, n) and lengths (b,) from 1 to n."""
    if tokens.dim() != 2 or lengths.shape != tokens.shape[:1]:
        raise ShapeError(
            "a classifier takes tokens (b, n) and lengths (b,); "
            f"got {tuple(tokens.shape)} and {tuple(lengths.shape)}."
        )
    if not bool(((lengths > 0) & (lengths <= tokens.shape[1])).all()):
        raise ShapeError(
            f"lengths must be from 1 to n={tokens.shape[1]}: a text needs at least one word; "
            f"got {lengths.min()} to {lengths.max()}."
        )


def real(lengths: Tensor, n: int) -> Tensor:
    """The mask of real (not padded) positions: (b, n)."""
    return torch.arange(n, device=lengths.device) < lengths.unsqueeze(-1)


def zero_padding(x: Tensor, lengths: Tensor) -> Tensor:
    """x (b, n, d) with padding set to 0."""
    return torch.where(real(lengths, x.shape[1]).unsqueeze(-1), x, 0)
