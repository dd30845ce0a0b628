"""An encoder–decoder of transformers in two steps, at one token of what it writes.

Read as `ReadingModel` reads: the text is embedded, then read. What is predicted is the next token of the
decoder after those that it has written, one against all others; the "reader" is the last cross-attention, of
which the row of that step counts. `seconds` of a text are the tokens before it, and the token itself.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.bridges.huggingface.model_attentions import paths_by_role
from regard.bridges.huggingface.model_facts import start_of
from regard.bridges.huggingface.reading_model import ReadingModel, choice
from regard.models.classifiers.classifier_model import ClassifierModel


class WritingModel(ReadingModel):
    """A model that writes; `before` and `after` are the special tokens around the text that it reads."""

    def __init__(self, theirs: Any, before: Sequence[int], after: Sequence[int]):
        super().__init__(theirs, before, after, reads_last=True)
        self.causal = False  # the encoder, over which explanations are, sees all of the text
        roles = {role: [f"theirs.{path}" for path in paths] for role, paths in paths_by_role(theirs).items()}
        self.attention_paths = {"self": roles.get("self", []), "reader": roles["cross"][-1:]}

    def embed(self, tokens: Tensor) -> Tensor:
        found: Tensor = self.theirs.get_encoder().get_input_embeddings()(tokens)
        return found

    def from_embedded(self, embedded: Tensor, lengths: Tensor, condition: Tensor | None = None) -> Tensor:
        assert condition is not None
        start = torch.full_like(condition[:, :1], start_of(self.theirs))
        written = torch.cat([start, condition[:, 1:-1]], -1)
        given = self._inputs(embedded, lengths)
        logits = self.theirs(**given, decoder_input_ids=written, use_cache=False).logits[:, -1]
        return choice(logits, condition[:, -1:])

    def prepared(self, *texts: Tensor) -> Callable[[], Tensor]:
        return ClassifierModel.prepared(self, *texts)

    def row_of(self, weights: Tensor, total: Tensor) -> Tensor:
        return weights[..., -1, :]

    def put_row(self, p: Tensor, replaced: Tensor, total: Tensor) -> Tensor:
        return torch.cat([p[..., :-1, :], replaced[..., -1:, :]], -2)
