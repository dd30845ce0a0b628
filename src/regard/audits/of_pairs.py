"""A case of a trained translator: each step of writing a target is an input of its own.

What is predicted is the next token, given the right ones before; what is looked at are the tokens of the
source, by all heads of all layers that look there. Weights are changed in all steps of a sentence at once; a
source's end, which some models look at too, keeps what it has. Steps that are audited are drawn at random.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.alignment.links import Links
from regard.attention import concat_steps
from regard.audits.case import Again, Case, Texts
from regard.core.attention_paths import attention_paths
from regard.core.errors import RunError
from regard.core.tokens import BOS, EOS, PAD
from regard.recording import intervene, record
from regard.runs.translator import Translator

STEPS = 300  # that are audited: each has a probability for every word of the vocabulary


def of_pairs(
    system: Translator,
    pairs: Sequence[tuple[str, str | None]],
    *,
    gold: Sequence[Links] | None = None,
    most: int = STEPS,
    seed: int = 0,
    **more: Any,
) -> Case:
    """The case of a translator and pairs (source, target); a target that is None is the translator's own."""
    if not attention_paths(system.model).get("cross"):
        raise RunError("this model has no attention to its source: there is nothing to audit.")
    pairs = _written(system, pairs)
    sources = system.source_tokenizer.encode_many([source for source, _ in pairs])
    written = system.target_tokenizer.encode_many([target for _, target in pairs])
    targets = [[*found, EOS] for found in written]
    steps = [(s, t) for s, source in enumerate(sources) if source for t in range(len(targets[s]))]
    if not steps:
        raise ValueError("an audit needs sentences; all are empty.")
    chosen = torch.randperm(len(steps), generator=torch.Generator().manual_seed(seed))[:most].sort().values
    steps = [steps[i] for i in chosen.tolist()]
    asked = Asked(system.model, targets, steps)
    return Case(
        [sources[s] for s, _ in steps],
        asked.ask,
        asked.look,
        labels=torch.tensor([targets[s][t] for s, t in steps]),
        words=[system.source_tokenizer.pieces(sources[s]) for s, _ in steps],
        classes=[*system.target_tokenizer.pieces(range(len(system.target_tokenizer)))],
        differentiable=True,
        aligned=None if gold is None else (system, pairs, gold),
        **more,
    )


class Asked:
    """The functions of the case."""

    def __init__(self, model: nn.Module, targets: Sequence[list[int]], steps: Sequence[tuple[int, int]]):
        self.model, self.targets, self.steps = model, targets, steps
        self.paths = attention_paths(model)["cross"]

    def ask(self, texts: Texts, rows: Tensor) -> Tensor:
        """Probabilities (r, vocabulary) of the next token."""
        batch = Together(self, texts, rows)
        with torch.no_grad():
            return batch.said()

    def look(self, texts: Texts, rows: Tensor) -> tuple[Tensor, Again]:
        """Weights (b, k, n) of all heads of all layers, and what is said with others."""
        batch = Together(self, texts, rows)
        with torch.no_grad(), record(self.model, self.paths) as seen:
            batch.said()
        own = {path: _with_heads(concat_steps(seen[path]).weights) for path in self.paths}  # (u, h, m, n')
        shown = torch.cat([one[batch.which, :, batch.at] for one in own.values()], -2)  # (b, k, n')

        def again(weights: Tensor) -> Tensor:
            return batch.said_with(own, weights)

        return shown[..., : int(batch.row_lengths.max())], again


class Together:
    """Steps whose sentences are written together: u sentences, each once, for b steps."""

    def __init__(self, asked: Asked, texts: Texts, rows: Tensor):
        self.asked = asked
        numbers: dict[tuple[tuple[int, ...], int], int] = {}
        which, at = [], []
        for text, row in zip(texts, rows.tolist(), strict=True):
            sentence, step = asked.steps[row]
            which.append(numbers.setdefault((tuple(text), sentence), len(numbers)))
            at.append(step)
        self.device = next(asked.model.parameters()).device
        self.which, self.at = torch.tensor(which), torch.tensor(at)
        self.row_lengths = torch.tensor([len(text) for text in texts])
        self.lengths = torch.tensor([len(text) for text, _ in numbers])
        self.source = _padded([list(text) for text, _ in numbers])
        self.written = _padded([[BOS, *asked.targets[sentence][:-1]] for _, sentence in numbers])

    def said(self) -> Tensor:
        """Probabilities (b, vocabulary)."""
        model: Any = self.asked.model
        hidden = model(*(part.to(self.device) for part in (self.source, self.lengths, self.written)))
        found: Tensor = model.logits(hidden[self.which, self.at]).double().softmax(-1)
        return found

    def said_with(self, own: dict[str, Tensor], weights: Tensor) -> Tensor:
        """The same if these steps look with weights (b, k, n), and all others as they do."""
        put, first = {}, 0
        for path, before in own.items():
            heads = before.shape[1]
            rows = before[self.which, :, self.at]  # (b, h, n')
            there = torch.arange(rows.shape[-1]) < self.row_lengths.view(-1, 1, 1)
            new = F.pad(weights[:, first : first + heads], (0, rows.shape[-1] - weights.shape[-1]))
            changed = torch.where(there, new.to(rows.dtype), rows)
            put[path] = before.transpose(1, 2).index_put((self.which, self.at), changed).transpose(1, 2)
            first += heads
        with _looking_with(self.asked.model, put):
            return self.said()


@contextmanager
def _looking_with(model: nn.Module, weights: dict[str, Tensor]) -> Iterator[None]:
    """Attentions with these weights (u, h, m, n), called once for all steps or once for each."""
    with ExitStack() as stack:
        for path, given in weights.items():
            stack.enter_context(intervene(model, _InTurn(given), path))
        yield


class _InTurn:
    """Gives the next rows of weights (u, h, m, n), as many as are asked for."""

    def __init__(self, weights: Tensor):
        self.weights, self.at = weights, 0

    def __call__(self, p: Tensor) -> Tensor:
        rows = self.weights[:, :, self.at : self.at + p.shape[-2]]
        self.at += p.shape[-2]
        return rows.reshape(p.shape).to(p.dtype)


def _written(system: Translator, pairs: Sequence[tuple[str, str | None]]) -> list[tuple[str, str]]:
    unwritten = [source for source, target in pairs if target is None]
    own = iter(system.translate(unwritten)) if unwritten else iter(())
    return [(source, next(own).text if target is None else target) for source, target in pairs]


def _padded(rows: Sequence[list[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


def _with_heads(weights: Tensor) -> Tensor:
    """(u, m, n) as (u, 1, m, n)."""
    return weights.unsqueeze(1) if weights.dim() == 3 else weights
