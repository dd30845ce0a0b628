"""What a sequence-to-sequence model is: it reads a source once, then writes a target token by token.

    memory = encode(source)        state = start(memory)        hidden, state = step(token, state, memory)

`forward` does all steps of a known target (teacher forcing) and agrees with `step` to rounding. `read` turns
hidden vectors into logits, so that a loss reads the real positions alone and a decoder the last one alone.
Neither memory nor state is ever changed: a state can be stepped twice, with different tokens.
"""

from dataclasses import dataclass, fields, replace
from typing import Any, Generic, Self, TypeVar

from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.errors import ShapeError
from regard.losses import linear_cross_entropy
from regard.memories import KeyValue


@dataclass(frozen=True, eq=False)
class Rows:
    """Tensors with one row per sentence or hypothesis, which a beam repeats and reorders together."""

    def select(self, index: Tensor) -> Self:
        """These rows (b',) of all of them, in this order."""
        return replace(self, **{f.name: _picked(getattr(self, f.name), index) for f in fields(self)})


def _picked(thing: Any, index: Tensor) -> Any:
    if isinstance(thing, Tensor):
        return thing.index_select(0, index)
    if isinstance(thing, KeyValue):
        thing = thing.copy()
        thing.select(index)
        return thing
    return tuple(_picked(part, index) for part in thing) if isinstance(thing, tuple) else thing


M = TypeVar("M", bound=Rows)  # what decoding needs of the source
S = TypeVar("S", bound=Rows)  # what a step needs of the steps before


class Model(nn.Module, Generic[M, S]):
    """A sequence-to-sequence model; `cross` names its source–target attentions by path, last layer last."""

    config: Any
    cross: list[str]

    def encode(self, source: Tensor, lengths: Tensor) -> M:
        """Read source (b, n), of which the first `lengths` (b,) tokens of each row are real."""
        raise NotImplementedError

    def start(self, memory: M) -> S:
        """The state before the first token, one row per row of the memory."""
        raise NotImplementedError

    def step(self, tokens: Tensor, state: S, memory: M) -> tuple[Tensor, S]:
        """Take in one token per row of the state (r,): hidden (r, width), and the state after it.

        The memory has as many rows, or b = r / k of them: then rows 0 … k − 1 of the state are hypotheses of
        its first sentence, the next k of its second; a beam need not repeat the memory. What is recorded of
        the source–target attentions then has the k hypotheses as its m queries.
        """
        raise NotImplementedError

    def forward(self, source: Tensor, source_lengths: Tensor, target_in: Tensor) -> Tensor:
        """Hidden (b, m, width) at every position of target_in (b, m), which begins with BOS."""
        raise NotImplementedError

    def vocabulary(self) -> tuple[Tensor, Tensor | None]:
        """The last layer: weight (target_vocabulary, width) and, where there is one, bias."""
        raise NotImplementedError

    def read(self, hidden: Tensor) -> Tensor:
        """Logits (..., target_vocabulary) of hidden (..., width)."""
        return F.linear(hidden, *self.vocabulary())

    def loss(self, hidden: Tensor, wanted: Tensor, smoothing: float = 0.0) -> Tensor:
        """The sum of −log p of wanted (t,) at hidden (t, width), with label smoothing."""
        return linear_cross_entropy(hidden, *self.vocabulary(), wanted, smoothing=smoothing)

    def parameter_count(self) -> int:
        """The number of parameters; shared ones count once."""
        return sum(p.numel() for p in self.parameters())


def check_source(source: Tensor, lengths: Tensor) -> None:
    """Require tokens (b, n) and lengths (b,)."""
    if source.dim() != 2 or lengths.shape != source.shape[:1]:
        raise ShapeError(
            "source must be tokens (b, n) and its lengths (b,); "
            f"got {tuple(source.shape)} and {tuple(lengths.shape)}."
        )


def by_sentence(x: Tensor, sentences: int) -> Tensor:
    """Hypotheses (b·k, m, d) side by side with their sentence: (b, k·m, d)."""
    if sentences == 0 or len(x) % sentences:
        raise ShapeError(
            f"there must be as many hypotheses for each of the {sentences} sentences of the memory; "
            f"got {len(x)} in all."
        )
    return x if len(x) == sentences else x.reshape(sentences, -1, x.shape[-1])


def by_hypothesis(x: Tensor, rows: int) -> Tensor:
    """The way back: (b, k·m, d) to (b·k, m, d); x (b, d), one for each sentence, to (b·k, d)."""
    if len(x) == rows:
        return x
    if x.dim() == 2:
        return x.repeat_interleave(rows // max(len(x), 1), 0)
    return x.reshape(rows, -1, x.shape[-1])
