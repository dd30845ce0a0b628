"""The case of a translator: each step of writing a target is an input of its own.

Predicted is the next token, given the reference tokens before it; attention is over the tokens of the source,
by all heads of all cross-attention layers. Weights are changed in all steps of a sentence at once; the weight
on a source's end, which some models have as a key, stays. The steps are drawn at random.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention import concat_steps
from regard.core.errors import RunError
from regard.core.tokens import EOS
from regard.recording import intervene, record
from regard.tasks.case import Case, Texts, WithWeights
from regard.tasks.translator import Translator

if TYPE_CHECKING:
    from regard.alignment.links import Links

STEPS = 300  # that are drawn: each has a probability for every token of the vocabulary
Item = str | tuple[str, str | None]


def case_of_pairs(
    system: Translator,
    items: Sequence[Item],
    *,
    gold: "Sequence[Links] | None" = None,
    most: int = STEPS,
    seed: int = 0,
    **more: Any,
) -> Case:
    """The case of a translator and pairs (source, target); without a target, with its own translation."""
    if not system.layers:
        raise RunError("this model has no attention to its source: there is nothing to audit.")
    pairs = _with_targets(system, items)
    sources = system.source_tokenizer.encode_many([source for source, _ in pairs])
    targets = system.target_tokenizer.encode_many([target for _, target in pairs])
    steps = [(s, t) for s, source in enumerate(sources) if source for t in range(len(targets[s]) + 1)]
    if not steps:
        raise ValueError("sentences are needed; all are empty.")
    drawn = torch.randperm(len(steps), generator=torch.Generator().manual_seed(seed))[:most].sort().values
    steps = [steps[i] for i in drawn.tolist()]

    def batch(texts: Texts, rows: Tensor) -> StepBatch:
        return StepBatch(system, texts, [steps[row] for row in rows.tolist()], targets)

    def predictor(texts: Texts, rows: Tensor) -> Tensor:
        with torch.no_grad():
            return batch(texts, rows).probabilities()

    def attention(texts: Texts, rows: Tensor) -> tuple[Tensor, WithWeights]:
        some = batch(texts, rows)
        own = some.weights()
        shown = torch.cat([some.rows_of(one) for one in own.values()], -2)  # (b, k, n')
        return shown, lambda weights: some.with_weights(own, weights)

    return Case(
        [sources[s] for s, _ in steps],
        predictor,
        attention,
        labels=torch.tensor([[*targets[s], EOS][t] for s, t in steps]),
        words=[system.source_tokenizer.pieces(sources[s]) for s, _ in steps],
        classes=[*system.target_tokenizer.pieces(range(len(system.target_tokenizer)))],
        differentiable=True,
        aligned=None if gold is None else (system, pairs, gold),
        **more,
    )


class StepBatch:
    """Steps whose sentences are decoded together: u sentences, each once, for b steps."""

    def __init__(
        self,
        system: Translator,
        texts: Texts,
        steps: Sequence[tuple[int, int]],
        targets: Sequence[list[int]],
    ):
        numbers: dict[tuple[tuple[int, ...], int], int] = {}
        which = [
            numbers.setdefault((tuple(text), sentence), len(numbers))
            for text, (sentence, _) in zip(texts, steps, strict=True)
        ]
        self.system = system
        self.which, self.at = torch.tensor(which), torch.tensor([step for _, step in steps])
        self.lengths = torch.tensor([len(text) for text in texts])
        self.sources = [list(text) for text, _ in numbers]
        self.targets = [targets[sentence] for _, sentence in numbers]

    def probabilities(self) -> Tensor:
        """Of the next token: (b, vocabulary)."""
        logits = self.system.forward(self.sources, self.targets).logits(self.which, self.at)
        return logits.double().softmax(-1)

    def weights(self) -> dict[str, Tensor]:
        """Weights (u, h, m, n') of each layer."""
        paths = self.system.layers
        with torch.no_grad(), record(self.system.model, paths) as seen:
            self.system.forward(self.sources, self.targets)
        found = {path: concat_steps(seen[path]).weights for path in paths}
        return {path: one.unsqueeze(1) if one.dim() == 3 else one for path, one in found.items()}

    def rows_of(self, weights: Tensor) -> Tensor:
        """The rows (b, h, n') of these steps."""
        return weights[self.which, :, self.at]

    def with_weights(self, own: dict[str, Tensor], weights: Tensor) -> Tensor:
        """Probabilities if these steps have weights (b, k, n), and all others their own."""
        first = 0
        with ExitStack() as stack:
            for path, before in own.items():
                rows, heads = self.rows_of(before), before.shape[1]
                real = torch.arange(rows.shape[-1]) < self.lengths.view(-1, 1, 1)
                new = F.pad(weights[:, first : first + heads], (0, rows.shape[-1] - weights.shape[-1]))
                changed = torch.where(real, new.to(rows.dtype), rows)
                every = before.transpose(1, 2).index_put((self.which, self.at), changed).transpose(1, 2)
                stack.enter_context(intervene(self.system.model, _NextRows(every), path))
                first += heads
            return self.probabilities()


class _NextRows:
    """Gives the next rows of weights (u, h, m, n): all at once, or as many as a step asks for."""

    def __init__(self, weights: Tensor):
        self.weights, self.at = weights, 0

    def __call__(self, p: Tensor) -> Tensor:
        rows = self.weights[:, :, self.at : self.at + p.shape[-2]]
        self.at += p.shape[-2]
        return rows.reshape(p.shape).to(p.dtype)


def _with_targets(system: Translator, items: Sequence[Item]) -> list[tuple[str, str]]:
    pairs = [(item, None) if isinstance(item, str) else item for item in items]
    unwritten = [source for source, target in pairs if target is None]
    own = iter(system.translate(unwritten)) if unwritten else iter(())
    return [(source, next(own).text if target is None else target) for source, target in pairs]
