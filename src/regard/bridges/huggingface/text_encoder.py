"""An encoder of transformers without a head, as MiniLM: hidden states and attention; it says nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.bridges.huggingface.foreign_language_model import ForeignTask
from regard.bridges.huggingface.foreign_tokenizer import ForeignTokenizer
from regard.bridges.huggingface.model_attentions import head_count, is_causal
from regard.bridges.huggingface.model_facts import ForeignSettings, described, home
from regard.bridges.huggingface.reading_model import ReadingModel
from regard.core.errors import RunError
from regard.data.padding import padded
from regard.tasks.case import Case
from regard.tasks.system import Forward, System


class EncoderTask(ForeignTask):
    """Texts to vectors."""

    makes, Audit = "text encoder", None


@dataclass(frozen=True, eq=False)
class Embedding:
    """The mean hidden state of a text."""

    text: str
    said: str
    vector: Tensor = field(repr=False)  # (d,)
    tokens: list[int] = field(repr=False)
    log_prob: float | None = None
    probabilities: dict[str, float] = field(default_factory=dict)


class TextEncoder(System):
    """A model whose output is hidden states."""

    task = EncoderTask()
    role, picture, attentions = "reader", "words", ("answer", "text")
    model: ReadingModel
    parts: ForeignTokenizer
    unknown = None

    def __init__(self, theirs: Any, tokenizer: ForeignTokenizer, name: str, why: str = ""):
        """`why` says why its answers are no decisions, if it is not for want of a head."""
        model = ReadingModel(theirs, tokenizer.before, tokenizer.after, reads_last=is_causal(theirs))
        settings = ForeignSettings(described(theirs))
        super().__init__(model, tokenizer, settings, home(name))
        self.name, self.why = name, why

    @property
    def around(self) -> tuple[int, int]:
        return self.model.around

    @property
    def tokenizer(self) -> ForeignTokenizer:
        return self.parts

    @property
    def heads(self) -> int:
        return head_count(self.model.get_submodule(self.layers[-1]))

    @property
    def purpose(self) -> str:
        return f"Turns texts into vectors of {self.model.theirs.config.hidden_size} numbers."

    def asked_about(self, target: str, against: str | None) -> tuple[dict[str, Any], str | None]:
        if self.why:
            raise RunError(f"{self.why}: it cannot be explained or audited here.")
        raise RunError(f"a {self.task.makes} predicts nothing: {target!r} cannot be explained.")

    def case(self, items: Sequence[Any], **options: Any) -> Case:
        if self.why:
            raise RunError(f"{self.why}: it cannot be explained or audited here.")
        return super().case(items, **options)

    def audited(self, options: Any) -> tuple[Case, str]:
        said = f"{self.name} is a {self.task.makes}: it decides nothing that could be audited."
        raise RunError(f"{self.why}: it cannot be explained or audited here." if self.why else said)

    def answer(self, inputs: Sequence[str], **options: Any) -> list[Embedding]:
        """The mean of the hidden states of each text, special tokens included."""
        found = []
        for text, ids in zip(inputs, self.parts.encode_many(inputs), strict=True):
            with torch.no_grad():
                vector = self.forward([ids], [[]]).hidden[0].mean(0)
            found.append(Embedding(text, f"a vector of {len(vector)} numbers", vector, ids))
        return found

    def forward(self, inputs: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]) -> Forward:
        """Hidden states (b, n, d) of texts given as tokens, special ones included."""
        tokens, lengths = padded(inputs, self.device)
        given = self.model._inputs(self.model.embed(tokens), lengths)
        return Forward(self.model.theirs(**given).last_hidden_state, lambda states: states)

    def batch_weights(self, answers: Sequence[Embedding]) -> list[list[Tensor]]:
        """The weights of the first position over the tokens, (heads, 1, n)."""
        found = self.model.over_words(self.recorded(answers, self.layers))  # (b, heads, n)
        return [[found[i, :, None, : len(one.tokens)]] for i, one in enumerate(answers)]

    def self_weights(self, answer: Embedding) -> tuple[list[Tensor], int]:
        layers, ahead = super().self_weights(answer)
        n = ahead + len(answer.tokens)
        return [one[..., :n, :n] for one in layers], ahead
