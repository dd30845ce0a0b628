"""The answer with other weights in the last attention, without computing again what comes before it.

Of a model that reads at one position, only that position of the last layer changes with the weights of the
last attention there. So the model is called with that position alone: the layers before the last pass on
what they are given, the last one gets what it read there, and its attention answers with p V, V as it was.
The first such answer is compared with that of a whole pass: where they differ (a model whose layers pass on
more than hidden states), the layers before are called, too; where that does not help, whole passes are made.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.bridges.huggingface.attention_function import given_context
from regard.core.recorders import Change, change_for, suspended
from regard.recording import record

if TYPE_CHECKING:
    from regard.bridges.huggingface.reading_model import ReadingModel

NEAR = 1e-4  # of the largest logit, or of 1


class Replay:
    """A function of nothing that returns the logits of some texts, under whatever intervention is active."""

    def __init__(self, model: "ReadingModel", embedded: Tensor, lengths: Tensor, condition: Tensor | None):
        self.model, self.embedded, self.lengths, self.condition = model, embedded, lengths, condition
        (self.path,) = model.attention_paths["reader"]
        self.reader = model.get_submodule(self.path)
        parts = self.path.split(".")
        number = next((i for i, part in enumerate(parts) if part.isdigit()), len(parts) - 2)
        self.layer = model.get_submodule(".".join(parts[: number + 1]))
        among = model.get_submodule(".".join(parts[:number]))
        self.earlier = list(among)[: int(parts[number])] if isinstance(among, nn.ModuleList) else []
        self.row = model.row(lengths + sum(model.around))
        self.kept: tuple[Tensor, Tensor, Tensor] | None = None  # what the layer read; weights there; values
        self.short = True  # whether the position alone gives the same answer

    def __call__(self) -> Tensor:
        change = change_for(self.reader)
        if change is None or not self.short:
            return self._whole()
        if self.kept is None:
            with suspended(), torch.no_grad():
                self._keep()
        return self._at_position(change) if self.short else self._whole()

    def _whole(self) -> Tensor:
        return self.model.from_embedded(self.embedded, self.lengths, self.condition)

    def _keep(self) -> None:
        """A whole pass, of which is kept what the last layer needs; and whether that is enough."""
        held: list[Tensor] = []

        def hold(_: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
            held.append(inputs[0] if inputs else named["hidden_states"])

        hook = self.layer.register_forward_pre_hook(hold, with_kwargs=True)
        try:
            with record(self.model, self.path) as seen:
                whole = self._whole()
        finally:
            hook.remove()
        at = torch.arange(len(self.row), device=self.row.device)
        one = seen[self.path][-1]
        weights = one.weights[at, :, self.row].unsqueeze(-2)  # (b, heads, 1, n)
        self.kept = held[-1][at, self.row].unsqueeze(1), weights, one.values
        near = NEAR * max(1.0, float(whole.abs().max()))
        for earlier in (self.earlier, []) if self.earlier else ([],):
            self.earlier = earlier
            try:
                found = self._at_position(lambda weights: weights)
                self.short = float((found - whole).abs().max()) <= near
            except (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError):
                self.short = False
            if self.short:
                return

    def _at_position(self, change: Change) -> Tensor:
        assert self.kept is not None
        state, weights, values = self.kept
        context = change(weights).to(values.dtype) @ values  # (b, heads, 1, d)

        def put(
            _: Any, inputs: tuple[Any, ...], named: dict[str, Any]
        ) -> tuple[tuple[Any, ...], dict[str, Any]]:
            if inputs:
                return (state, *inputs[1:]), named
            return inputs, {**named, "hidden_states": state}

        hook = self.layer.register_forward_pre_hook(put, with_kwargs=True)
        token = given_context.set((self.reader, context))
        try:
            with suspended(), passing_on(self.earlier):
                first = torch.zeros_like(self.row)
                alone = {
                    "inputs_embeds": self.embedded[:, :1],
                    "attention_mask": torch.ones_like(first)[:, None],
                }
                return self.model.read(alone, first, self.condition)
        finally:
            given_context.reset(token)
            hook.remove()


@contextmanager
def passing_on(layers: list[nn.Module]) -> Iterator[None]:
    """A block in which these layers return the hidden states that they are given."""

    def forward(*inputs: Any, **named: Any) -> Any:
        return inputs[0] if inputs else named["hidden_states"]

    before = [vars(layer).get("forward") for layer in layers]
    for layer in layers:
        vars(layer)["forward"] = forward
    try:
        yield
    finally:
        for layer, own in zip(layers, before, strict=True):
            vars(layer).pop("forward")
            if own is not None:
                vars(layer)["forward"] = own


def replayed(model: "ReadingModel", *texts: Tensor) -> Callable[[], Tensor]:
    """`ClassifierModel.prepared` of a model of transformers."""
    with torch.no_grad():
        embedded, condition = model.embed(texts[0]), model.condition(*texts)
    return Replay(model, embedded, texts[1], condition)
