"""A model of transformers in the two steps that explanations and audits need: embed tokens, then read them.

    logits = model.from_embedded(model.embed(tokens), lengths, condition)

Tokens are those of the text; the special ones around it ([CLS], [SEP], <s>) are put there by `from_embedded`.
The "reader" is the last self-attention, of which one row counts: that of the first position in an encoder
([CLS]), that of the last one in a decoder, where the next token is predicted.

Of a classifier the logits are those of its classes; of an encoder they are the hidden state there. Of a
language model they are two: of one token against another, or against all others (`seconds`: one or two tokens
for each text).
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from regard.bridges.huggingface.model_attentions import attentions_of, is_cross
from regard.bridges.huggingface.replaying import NEAR, replayed
from regard.models.classifiers.classifier_model import ClassifierModel, Recorded
from regard.recording import intervene

ROWS = 4096  # of the table of embeddings at once


class ReadingModel(ClassifierModel):
    """A classifier or language model of transformers; `before` and `after` are the special tokens.

    What is predicted is read at the last position (`reads_last`, decoders) or at the first.
    """

    before: Tensor
    after: Tensor

    def __init__(self, theirs: Any, before: Sequence[int], after: Sequence[int], reads_last: bool):
        super().__init__()
        self.theirs = theirs
        self.around = (len(before), len(after))  # positions before and after the tokens
        self.reads_last = self.causal = reads_last
        self.register_buffer("before", torch.tensor(before, dtype=torch.long), persistent=False)
        self.register_buffer("after", torch.tensor(after, dtype=torch.long), persistent=False)
        layers = [f"theirs.{path}" for path in attentions_of(theirs) if not is_cross(path)]
        self.attention_paths = {"self": layers, "reader": layers[-1:]}

    def embed(self, tokens: Tensor) -> Tensor:
        """Tokens (b, n) to the vectors of the model's embedding layer (b, n, d)."""
        found: Tensor = self.theirs.get_input_embeddings()(tokens)
        return found

    def path_start(self, vectors: Tensor) -> Tensor:
        """Where integrated gradients begin, for vectors (b, n, d): 0, in a decoder its mean vector.

        The first token of a decoder holds most of the weight (its sink) and keeps its vector, unless a
        special token stands before it.
        """
        begins = torch.zeros_like(vectors)
        if not self.causal:
            return begins
        every = torch.arange(self.theirs.get_input_embeddings().num_embeddings, device=vectors.device)
        begins += sum(self.embed(some).sum(0) for some in every.split(ROWS)) / len(every)
        if not self.around[0]:
            begins[:, 0] = vectors[:, 0]
        return begins

    def condition(self, tokens: Tensor, lengths: Tensor, *second: Tensor) -> Tensor | None:
        """Lengths, and the tokens that are compared: (b, 1), (b, 2) or (b, 3)."""
        return torch.cat([lengths.unsqueeze(-1), *second[:1]], -1)

    def from_embedded(self, embedded: Tensor, lengths: Tensor, condition: Tensor | None = None) -> Tensor:
        """Logits (b, classes) of embedded tokens (b, n, d)."""
        return self.read(self._inputs(embedded, lengths), lengths + sum(self.around) - 1, condition)

    def read(self, given: dict[str, Tensor], last: Tensor, condition: Tensor | None) -> Tensor:
        """Logits (b, classes) of what transformers calls inputs, `last` (b,) the last position of each."""
        rows = torch.arange(len(last), device=last.device)
        if condition is not None and condition.shape[-1] > 1:
            return choice(self._next(given, last)[rows], condition[:, 1:])
        if self.reads_last and isinstance(head := getattr(self.theirs, "score", None), nn.Linear):
            states: Tensor = self.theirs.base_model(**given)[0]  # transformers takes the last of padded rows
            logits: Tensor = head(states[rows, last])
            return logits
        output = self.theirs(**given)
        found: Tensor = output.logits if "logits" in output else output[0][rows, self.row(last + 1)]
        return found

    def row(self, total: Tensor) -> Tensor:
        """The position that is read (b,), of texts of so many positions."""
        return total - 1 if self.reads_last else torch.zeros_like(total)

    def reads_elsewhere(self) -> bool:
        """Whether its answer changes without the other rows of the last attention, as that of a mean does."""
        tokens = (
            torch.arange(5, 8, device=self.before.device)[None]
            % self.theirs.get_input_embeddings().num_embeddings
        )
        lengths = torch.full((1,), tokens.shape[1], device=tokens.device)
        total = lengths + sum(self.around)

        def alone(p: Tensor) -> Tensor:
            return self.put_row(torch.zeros_like(p), p, total)

        with torch.no_grad():
            own = self(tokens, lengths)
            with intervene(self, alone, self.attention_paths["reader"]):
                changed = self(tokens, lengths)
        return bool((own - changed).abs().max() > NEAR * own.abs().max().clamp(min=1))

    def prepared(self, *texts: Tensor) -> Callable[[], Tensor]:
        return replayed(self, *texts)

    def states(self, embedded: Tensor, lengths: Tensor, *condition: Tensor) -> Tensor:
        """The last hidden states of the tokens (b, n, width)."""
        first, n = self.around[0], embedded.shape[1]
        found: Tensor = self.theirs.base_model(**self._inputs(embedded, lengths))[0]
        return found[:, first : first + n]

    def over_words(self, seen: Recorded) -> Tensor:
        one = seen[self.attention_paths["reader"][-1]][-1]
        weights = one.weights  # (b, heads, m, keys)
        total = torch.full((len(weights),), weights.shape[-1], device=weights.device)
        if one.visible is not None:
            total = one.visible.expand(weights.shape)[:, 0].any(-2).sum(-1)
        first, n = self.around[0], weights.shape[-1] - sum(self.around)
        real = torch.arange(n, device=weights.device) < (total - sum(self.around)).unsqueeze(-1)
        return torch.where(real.unsqueeze(1), self.row_of(weights, total)[..., first : first + n], 0)

    def row_of(self, weights: Tensor, total: Tensor) -> Tensor:
        """The row (b, heads, keys) that counts of weights (b, heads, m, keys) over `total` (b,) positions."""
        return weights[torch.arange(len(weights), device=weights.device), :, self.row(total)]

    def looking_with(self, weights: Tensor, condition: Tensor | None = None) -> AbstractContextManager[None]:
        assert condition is not None
        lengths, first = condition[:, 0], self.around[0]

        def change(p: Tensor) -> Tensor:  # the weights on special tokens are kept
            n = min(weights.shape[-1], p.shape[-1] - first)
            key = torch.arange(p.shape[-1], device=p.device)
            real = (key >= first) & (key < (first + lengths).unsqueeze(-1))  # (b, keys)
            new = nn.functional.pad(weights[..., :n], (first, p.shape[-1] - first - n)).to(p)
            replaced = torch.where(real[:, None, None], new.unsqueeze(-2), p)
            return self.put_row(p, replaced, lengths + sum(self.around))

        return intervene(self, change, self.attention_paths["reader"])

    def put_row(self, p: Tensor, replaced: Tensor, total: Tensor) -> Tensor:
        """Weights p (b, heads, m, keys) with the row that counts from `replaced`, of the same shape."""
        if p.shape[-2] == 1:  # that row alone, as `replaying` asks
            return replaced
        rows = torch.arange(p.shape[-2], device=p.device) == self.row(total).unsqueeze(-1)  # (b, m)
        return torch.where(rows[:, None, :, None], replaced, p)

    def _inputs(self, embedded: Tensor, lengths: Tensor) -> dict[str, Tensor]:
        """Vectors with those of the special tokens around them, padded after the end, and their mask."""
        b, n, _ = embedded.shape
        first, last = self.around
        special = self.embed(torch.cat([self.before, self.after])).to(embedded.dtype)
        known = torch.cat([special.expand(b, -1, -1), embedded, torch.zeros_like(embedded[:, :1])], 1)
        at = torch.arange(first + n + last, device=embedded.device).expand(b, -1)
        stop = first + lengths.unsqueeze(-1)
        index = torch.where(at < stop, at + last, first + at - stop)  # tokens; then the special ones after
        index = torch.where(at < first, at, index)
        real = at < stop + last
        index = torch.where(real, index, known.shape[1] - 1)
        vectors = known.gather(1, index.unsqueeze(-1).expand(-1, -1, embedded.shape[-1]))
        return {"inputs_embeds": vectors, "attention_mask": real.long()}

    def _next(self, given: dict[str, Tensor], last: Tensor) -> Tensor:
        """Logits of the next token (b, vocabulary), at the last position of each text."""
        head = self.theirs.get_output_embeddings()
        rows = torch.arange(len(last), device=last.device)

        def at_last(_: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:  # (b, n, d) to (b, 1, d)
            if not inputs or inputs[0].dim() != 3 or inputs[0].shape[:2] != given["attention_mask"].shape:
                return None
            return (inputs[0][rows, last].unsqueeze(1), *inputs[1:])

        hook = head.register_forward_pre_hook(at_last)
        try:
            found: Tensor = self.theirs(**given, use_cache=False).logits
        finally:
            hook.remove()
        return found[:, 0] if found.shape[1] == 1 else found[rows, last]


def choice(logits: Tensor, tokens: Tensor) -> Tensor:
    """Logits (b, 2) of one token against another, or against all others, from those of the vocabulary."""
    chosen = logits.gather(-1, tokens)
    if tokens.shape[-1] == 2:
        return chosen
    others = logits.scatter(-1, tokens, float("-inf")).logsumexp(-1, keepdim=True)
    return torch.cat([chosen, others], -1)
