"""The base class of language models: read a text, and after each token say what may come next.

    hidden, state = model(tokens, state)        p(next | tokens so far) = softmax(logits(hidden))

The state holds all that a model keeps of the tokens it has read: cached keys and values, a recurrent state, a
memory. It is None before the first token and is never changed in place, so that a text can be continued in
several ways. Reading a text at once, in parts, or token by token gives the same to rounding, unless a model's
memory forgets: its file says so.

In training a text comes in segments. A model with `carries` gets the state of the segment before, detached;
its state is a dictionary of tensors with the batch as their second axis. Others begin each segment anew.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from regard.core.errors import ShapeError
from regard.core.shapes import check_rate
from regard.kernels.decoding.few_rows import product
from regard.losses import linear_cross_entropy
from regard.models.parts.dropout_layer import Dropout

State = Any  # of a model with `carries`: dict[str, Tensor]


class LanguageModel(nn.Module):
    """A model of the next token.

    `attention_paths` has its attentions by role: "self" for those over the tokens so far.
    """

    config: Any
    attention_paths: dict[str, list[str]]
    carries: bool = False  # whether training hands the state of one segment to the next
    # Settings of training that are not given:
    suits: ClassVar[Mapping[str, Any]] = {"steps": 4500, "tokens": 1024, "segment": 128}
    causal: bool = True  # False: an encoder that sees both sides, and is trained on masked tokens

    def __init__(self) -> None:
        super().__init__()
        self.attention_paths = {}

    @property
    def longest(self) -> int | None:
        """Tokens that the model can have read at most; None if any number."""
        return None

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        """Tokens (b, n), the first of them at position `start`, to vectors (b, n, d)."""
        raise NotImplementedError

    def from_embedded(
        self, embedded: Tensor, state: State = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Vectors (b, n, d) to hidden states (b, n, width), and the state after them.

        With lengths (b,), what follows the first `lengths` vectors of a row is padding, not attended to.
        """
        raise NotImplementedError

    def forward(self, tokens: Tensor, state: State = None) -> tuple[Tensor, State]:
        """Hidden states (b, n, width) of tokens (b, n) that follow those of the state, and the new state."""
        check_tokens(tokens)
        return self.from_embedded(self.embed(tokens, self.read(state)), state)

    def vocabulary(self) -> tuple[Tensor, Tensor | None]:
        """The output layer: weight (vocabulary, width), and bias or None."""
        raise NotImplementedError

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits (..., vocabulary) of hidden states (..., width)."""
        return product(hidden, *self.vocabulary())

    def loss(self, hidden: Tensor, wanted: Tensor, smoothing: float = 0.0) -> Tensor:
        """The sum of −log p of the tokens wanted (t,) at hidden states (t, width)."""
        return linear_cross_entropy(hidden, *self.vocabulary(), wanted, smoothing=smoothing)

    def penalty(self) -> Tensor | None:
        """What the last call in training adds to the loss, for each token; None if nothing."""
        return None

    def figures(self) -> dict[str, float]:
        """Numbers about the model itself, for the log of its training: spans, α …"""
        return {}

    def read(self, state: State) -> int:
        """How many tokens a state has read, as far as the model counts them."""
        return 0

    def parameter_count(self) -> int:
        """The number of parameters; tied ones count once."""
        return sum(p.numel() for p in self.parameters())


class RecurrentModel(LanguageModel):
    """One whose embeddings E are as wide as its states, which go from segment to segment."""

    carries = True

    def __init__(self, config: Any):
        super().__init__()
        self.config = config
        check_rate("dropout", config.dropout)
        self.E = nn.Embedding(config.vocabulary, config.width)
        nn.init.normal_(self.E.weight, std=config.width**-0.5)
        self.dropout = Dropout(config.dropout)

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        embedded: Tensor = self.dropout(self.E(tokens) * self.config.width**0.5)
        return embedded


def check_tokens(tokens: Tensor) -> None:
    """Require tokens (b, n), n at least 1."""
    if tokens.dim() != 2 or not tokens.shape[1] or tokens.is_floating_point():
        raise ShapeError(f"a language model takes tokens (b, n), n at least 1; got {tuple(tokens.shape)}.")


def detached(state: State) -> State:
    """The state of a model with `carries`, cut off from the graph: no gradient goes into earlier segments."""
    return None if state is None else {name: tensor.detach() for name, tensor in state.items()}
