"""What a classifier is: words become vectors, and a few queries look over them before a class is named.

    logits = model(tokens, lengths) = model.from_embedded(model.embed(tokens), lengths, condition)

The two halves are apart so that gradients with respect to the words can be taken between them. `condition` is
what a model must know besides the words: None, or a tensor with a row for each text that
`model.condition(tokens, lengths)` makes: what a second text asks, or where sentences end.

`model.attention_paths["reader"]` has the paths of the attentions whose weights over the words are "the
attention" of the model, for `record` and `intervene`. `model.over_words(seen)` has these weights as
(b, k, n), whatever the model: k queries or heads, n words.
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
from regard.recording import intervene
from regard.models.classifiers.word_vectors import WordVectors

Seen = Mapping[str, "list[Attended]"]


@dataclass(frozen=True)
class Common:
    """What every classifier's configuration has."""

    vocabulary: int
    classes: int
    pairs: bool = False  # a second text comes with each: it asks, the first is looked at
    embedding: int = 100  # width of the words' vectors
    dropout: float = 0.3
    word_dropout: float = 0.1
    score: str = "additive"
    map: str = "softmax"
    learn_alpha: bool = False

    def __post_init__(self) -> None:
        if self.classes < 2:
            raise ValueError(f"a classifier needs at least 2 classes; got {self.classes}.")


class ClassifierModel(nn.Module):
    """A classifier of texts.

    `attention_paths` has its attentions by role, as module paths: "reader" and, in a Transformer, "self". A
    role that a model does not have is absent (`regard.core.attention_paths`).
    """

    config: Any
    attention_paths: dict[str, list[str]]
    words: WordVectors

    def embed(self, tokens: Tensor) -> Tensor:
        """Tokens (b, n) to the vectors of the words (b, n, d)."""
        embedded: Tensor = self.words(tokens)
        return embedded

    def condition(
        self,
        tokens: Tensor,
        lengths: Tensor,
        second: Tensor | None = None,
        second_lengths: Tensor | None = None,
    ) -> Tensor | None:
        """What else `from_embedded` must know of these texts: (b, ...), or None if nothing."""
        if second is not None:
            raise ValueError("this classifier was made for one text; a second came. Make it with pairs=True.")
        return None

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
        return self.from_embedded(
            self.embed(tokens), lengths, self.condition(tokens, lengths, second, second_lengths)
        )

    def loss(self, wanted: Tensor, *texts: Tensor, smoothing: float = 0.0) -> Tensor:
        """The sum of −log p of wanted (b,), with label smoothing, given what `forward` takes."""
        return F.cross_entropy(self(*texts).float(), wanted, reduction="sum", label_smoothing=smoothing)

    def over_words(self, seen: Seen) -> Tensor:
        """The weights over the words (b, k, n), of the last call recorded from the "reader" attentions."""
        return seen[self.attention_paths["reader"][-1]][-1].weights

    def looking_with(self, weights: Tensor, condition: Tensor | None = None) -> AbstractContextManager[None]:
        """For as long as the block lasts, the weights over the words are these, (b, k, n)."""
        return intervene(self, lambda p: weights.to(p.dtype), self.attention_paths["reader"][-1])

    def prepared(self, *texts: Tensor) -> Callable[[], Tensor]:
        """A function that returns the logits of these texts, and does again only what comes after `embed`.

        A model does less where it can: what does not depend on the weights over the words needs doing once.
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
            f"lengths must be from 1 to n={tokens.shape[1]}: a text without a word has no class; "
            f"got {lengths.min()} to {lengths.max()}."
        )


def real(lengths: Tensor, n: int) -> Tensor:
    """True for what is not padding: (b, n)."""
    return torch.arange(n, device=lengths.device) < lengths.unsqueeze(-1)


def cleaned(x: Tensor, lengths: Tensor) -> Tensor:
    """x (b, n, d) with 0 for padding, whatever is there."""
    return torch.where(real(lengths, x.shape[1]).unsqueeze(-1), x, 0)
