"""A language model as a classifier of texts: the class of a text is the token after it.

    logits(text) = logits of the model at the last token of the text        one class for each token, or
                 = log p(one | text), log p(other | text)                    of two given continuations

so that all that explains and audits classifiers does so for language models. "The attention" is that of the
last token in the last layer, over all tokens so far.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import SimpleNamespace

import torch
from torch import Tensor

from regard.models.classifiers.classifier_model import ClassifierModel, Recorded
from regard.models.language.language_model import LanguageModel
from regard.recording import intervene


class NextToken(ClassifierModel):
    """What a language model says after texts; with `choices`, which of these continuations it prefers."""

    reads_last = True  # explanations are of the last position

    def __init__(self, model: LanguageModel, choices: Sequence[Sequence[int]] | None = None):
        super().__init__()
        self.model, self.choices, self.config = model, choices, SimpleNamespace(pairs=False)
        paths = [f"model.{path}" for path in model.attention_paths.get("self", [])]
        self.attention_paths = {"self": paths, "reader": paths[-1:]}

    def embed(self, tokens: Tensor) -> Tensor:
        return self.model.embed(tokens)

    def condition_on_text(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """The lengths, which say where the last token is."""
        return lengths

    def from_embedded(self, embedded: Tensor, lengths: Tensor, condition: Tensor | None = None) -> Tensor:
        if self.choices is not None:
            return torch.stack([self._continued(embedded, lengths, choice) for choice in self.choices], -1)
        hidden, _ = self.model.from_embedded(embedded, lengths=lengths)
        return self.model.logits(hidden[torch.arange(len(hidden), device=hidden.device), lengths - 1])

    def _continued(self, embedded: Tensor, lengths: Tensor, choice: Sequence[int]) -> Tensor:
        """log p of a continuation of each text: (b,); texts of one length are read together."""
        wanted, found = (
            torch.tensor([list(choice)], device=embedded.device),
            embedded.new_zeros(len(embedded)),
        )
        for length in sorted(set(lengths.tolist())):
            rows = (lengths == length).nonzero().squeeze(-1)
            more = self.model.embed(wanted[:, :-1], length) if len(choice) > 1 else embedded[:1, :0]
            read = torch.cat([embedded[rows, :length], more.expand(len(rows), -1, -1)], 1)
            hidden, _ = self.model.from_embedded(read, lengths=torch.full_like(rows, read.shape[1]))
            log_p = self.model.logits(hidden[:, length - 1 :]).log_softmax(-1)
            chosen = log_p.gather(-1, wanted.expand(len(rows), -1).unsqueeze(-1)).squeeze(-1)
            found = found.index_put((rows,), chosen.sum(-1))
        return found

    def over_words(self, seen: Recorded) -> Tensor:
        last = seen[self.attention_paths["reader"][-1]][-1]
        lengths = None if last.mask is None else last.mask.lengths()
        weights = (
            last.over_tokens if last.over_tokens.dim() == 4 else last.over_tokens.unsqueeze(1)
        )  # (b, h, n, n)
        if lengths is None:
            lengths = torch.full((len(weights),), weights.shape[-2], device=weights.device)
        return weights[torch.arange(len(weights), device=weights.device), :, lengths.flatten() - 1]

    def looking_with(self, weights: Tensor, condition: Tensor | None = None) -> AbstractContextManager[None]:
        assert condition is not None
        rows = torch.arange(len(weights), device=condition.device)

        def change(p: Tensor) -> Tensor:  # of the last token alone; those before it attend as they do
            given = weights.to(p.dtype).to(p.device)
            changed = p.clone()
            if p.dim() == 4:
                changed[rows, :, condition - 1] = given
            else:
                changed[rows, condition - 1] = given.squeeze(1)
            return changed

        return intervene(self, change, self.attention_paths["reader"])
