"""The base class of sequence-to-sequence models: encode the source once, then decode token by token.

    memory = encode(source)        state = start(memory)        hidden, state = step(token, state, memory)

`forward` does all steps of a known target (teacher forcing) and agrees with `step` up to rounding. `logits`
is apart from both, so that a loss computes logits at real positions only, and a decoder at the last one only.
Models that copy return a `Pointing` in place of hidden states, and have tokens beyond the vocabulary.
Memory and state are never changed in place: a state can be stepped twice, with different tokens.
"""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.tokens import UNK
from regard.losses import linear_cross_entropy
from regard.models.parts.batch_rows import Rows as Rows
from regard.models.parts.batch_rows import by_hypothesis as by_hypothesis
from regard.models.parts.batch_rows import by_sentence as by_sentence
from regard.models.parts.biases import ExpectedFertility
from regard.models.parts.copy_mechanism import Copying, CopyState, Pointing

Hidden = Tensor | Pointing
M = TypeVar("M", bound=Rows)  # the encoded source
S = TypeVar("S", bound=Rows)  # the decoder state


@dataclass(frozen=True)
class TranslatorConfig:
    """What all translators are told: how many source and target tokens there are."""

    source_vocabulary: int
    target_vocabulary: int


class SequenceModel(nn.Module, Generic[M, S]):
    """A sequence-to-sequence model.

    `attention_paths` has its attentions by role, as module paths: "cross", "self", "decoder_self". A role
    that a model does not have is absent (`regard.core.recorders`).
    """

    config: Any
    attention_paths: dict[str, list[str]]
    copying: Copying | None
    expected: ExpectedFertility | None  # for the global-fertility loss

    def __init__(self) -> None:
        super().__init__()
        self.copying, self.expected, self.attention_paths = None, None, {}

    def encode(self, source: Tensor, lengths: Tensor) -> M:
        """Encode source (b, n); the first `lengths` (b,) tokens of each row are real, the rest is padding."""
        raise NotImplementedError

    def start(self, memory: M) -> S:
        """The decoder state before the first token, one row per row of the memory."""
        raise NotImplementedError

    def step(self, tokens: Tensor, state: S, memory: M) -> tuple[Hidden, S]:
        """Feed one token per row of the state (r,): hidden (r, width), and the next state.

        The memory has r rows, or b = r / k: then rows 0 … k − 1 of the state are hypotheses of its first
        sentence, the next k of its second, and so on; a beam need not repeat the memory. The m queries of
        the recorded source–target attentions are then the k hypotheses.
        """
        raise NotImplementedError

    def forward(self, source: Tensor, source_lengths: Tensor, target_in: Tensor) -> Hidden:
        """Hidden states (b, m, width) at every position of target_in (b, m), which begins with BOS."""
        raise NotImplementedError

    def vocabulary(self) -> tuple[Tensor, Tensor | None]:
        """The output layer: weight (target_vocabulary, width), and bias or None."""
        raise NotImplementedError

    def logits(self, hidden: Hidden) -> Tensor:
        """Logits (..., target_vocabulary) of hidden (..., width); with copying, log p of more tokens."""
        if isinstance(hidden, Pointing):
            return hidden.logits(F.linear(hidden.hidden, *self.vocabulary()))
        return F.linear(hidden, *self.vocabulary())

    def loss(self, hidden: Hidden, wanted: Tensor, smoothing: float = 0.0) -> Tensor:
        """The sum of −log p of the targets wanted (t,) at hidden (t, width), with label smoothing."""
        if isinstance(hidden, Pointing):
            return hidden.loss(F.linear(hidden.hidden, *self.vocabulary()), wanted, smoothing)
        return linear_cross_entropy(hidden, *self.vocabulary(), wanted, smoothing=smoothing)

    def clip_to_vocabulary(self, tokens: Tensor) -> Tensor:
        """Tokens with UNK in place of those beyond the vocabulary, which can only be copied."""
        if self.copying is None:
            return tokens
        return tokens.masked_fill(tokens >= self.config.target_vocabulary, UNK)

    def copy_state(self, annotations: Tensor, source: Tensor) -> CopyState:
        """What copying needs of the source (b, n) and its hidden states (b, n, d); () without copying."""
        return () if self.copying is None else self.copying.prepare(annotations, source)

    def pointing(self, hidden: Tensor, copy_state: CopyState, lengths: Tensor) -> Hidden:
        """Hidden (r, m, width); if the model copies, together with the probabilities of copying."""
        if self.copying is None:
            return hidden
        pointing: Pointing = self.copying(hidden, copy_state, lengths)
        return pointing

    def parameter_count(self) -> int:
        """The number of parameters; tied ones count once."""
        return sum(p.numel() for p in self.parameters())
