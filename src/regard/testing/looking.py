"""Does looking at an attention change anything?"""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from regard.recording import Record, attentions, record
from regard.testing.perturbing import apart, as_it_was, gradients, tensors


def check_looking_changes_nothing(
    model: nn.Module, *inputs: Any, paths: str | Sequence[str] = "*", seed: int = 0, **settings: Any
) -> None:
    """Require that model(*inputs, **settings) answers alike whether or not somebody looks at its attentions.

    Outputs, gradients and the random state must be equal bit for bit; scores and weights are looked at before
    backward.
    """

    def answers(look: str | Sequence[str] | None = None, grad: bool = False) -> list[tuple[str, Tensor]]:
        torch.manual_seed(seed)
        given = [x.detach().requires_grad_() if _is_float(x) else x for x in inputs]
        with nullcontext(Record()) if look is None else record(model, look, grad=grad) as seen:
            outputs = tensors(model(*given, **settings))
            for _, attended in seen.calls:
                attended.weights, attended.scores  # noqa: B018
        if look == paths and not seen.calls:
            raise AssertionError(f"no attention at {paths!r} was called, so there is nothing to look at.")
        found = [("output", x.detach()) for x in outputs] + [("random state", torch.get_rng_state())]
        for x in outputs:
            found += [("gradient", g) for g in gradients(x, torch.ones(()), seed).values()]
        return found

    with as_it_was(model):
        before = answers()
        if any(apart(x, y).any() for (_, x), (_, y) in zip(before, answers(), strict=True)):
            raise ValueError("the model answers differently each time, so nothing can be said about looking.")
        for look in (*attentions(model, paths).values(), paths):
            for grad in (False, True):
                for (what, x), (_, y) in zip(before, answers(look, grad), strict=True):
                    if apart(x, y).any():
                        raise AssertionError(f"the {what} changed when somebody looked at {look!r}.")


def _is_float(thing: Any) -> bool:
    return isinstance(thing, Tensor) and thing.is_floating_point()
