"""Attention on the scores of a trained model: what a run attends with, on sentences of its validation set.

The queries, keys, values and masks of all its attentions are recorded, and each kind (the encoder's own, the
decoder's own, source–target) is done again: by the run's map, or 1.5-entmax if that is softmax, and by torch.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention import Attended, attend
from regard.bench.attention_speed import MODES, SDPA
from regard.bench.timed_case import Claim, Measured, TimedCase
from regard.bench.timing import Effort, medians
from regard.data import Batches, Encoded
from regard.masks import Causal
from regard.recording import record
from regard.runs.folder import CACHE, open_system

POSITIONS = 2048  # in the batch that is attended


def of_run(folder: Path) -> list[TimedCase]:
    """The cases of a run."""
    return list(_cases(folder))


def _cases(folder: Path) -> Iterator[TimedCase]:
    system = open_system(folder)
    valid = Encoded.open(folder / CACHE / "valid")
    batch = max(Batches(valid, POSITIONS).epoch(0), key=len)
    with torch.no_grad(), record(system.model) as seen:
        system.task.measure(system.model, batch)
    kinds: dict[str, list[Attended]] = {}
    for path, calls in seen.items():
        kinds.setdefault(".".join(part for part in path.split(".") if not part.isdigit()), []).extend(calls)
    name = str(system.settings.model.get("map", "softmax"))
    name = "entmax15" if name == "softmax" else name
    for kind, attended in kinds.items():
        n, rows = attended[0].keys.shape[-2], sum(one.query[..., 0].numel() for one in attended)
        for mode in MODES:
            claim = Claim(f"{kind} of a trained model, {name}, {mode}", SDPA)
            run = partial(_measure, attended, name, mode)
            yield TimedCase("run", claim, f"{kind}, {name}", run, mode, rows, n, "trained")


def _measure(attended: list[Attended], name: str, mode: str, effort: Effort) -> Measured:
    calls = [_Again(one, name) for one in attended]

    def all_of(go: str) -> None:
        for call in calls:
            query, keys, values = call.inputs
            MODES[mode](getattr(call, go), query, keys, values, call.gradient)

    seconds, other = medians([partial(all_of, "ours"), partial(all_of, "torchs")], effort)
    return Measured(seconds, other, support=sum(call.support() for call in calls) / len(calls))


class _Again:
    """One attention, to be done again."""

    def __init__(self, attended: Attended, name: str):
        self.score, self.map, self.mask = attended.score, name, attended.mask
        self.inputs = [t.clone().requires_grad_() for t in (attended.query, attended.keys, attended.values)]
        self.gradient = torch.randn(*attended.query.shape[:-1], attended.values.shape[-1])
        self.causal = isinstance(self.mask, Causal)
        self.visible = None if self.causal else attended.visible

    def ours(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return attend(query, keys, values, score=self.score, map=self.map, mask=self.mask).context

    def torchs(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, keys, values, self.visible, is_causal=self.causal)

    @torch.no_grad()
    def support(self) -> float:
        """The mean number of keys with a weight."""
        weights = attend(*self.inputs, score=self.score, map=self.map, mask=self.mask).weights
        return float((weights > 0).sum(-1).double().mean())
