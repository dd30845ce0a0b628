"""The linear backend: softmax attention whose score is a `Kernel`, without anything of size m × n.

    zᵢ = φ(qᵢ)ᵀ S / φ(qᵢ)ᵀ t,      S = Σⱼ φ(kⱼ) vⱼᵀ,   t = Σⱼ φ(kⱼ)        causal: over j ≤ i, by chunks

Hidden keys get features 0 after φ (φ(0) is not 0). A query that sees nothing has context 0. Masks other than
Causal and those of keys alone are left to other backends.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.backends.call import Call
from regard.core.shapes import widened
from regard.kernels.attention.linear_operator import causal
from regard.masks.key_masks import causal_and_keys
from regard.scores.kernel import Features, Kernel

LOWEST = -1e30  # the logarithm of a running maximum before the first key


def features(call: Call) -> Tensor | None:
    """Context (..., m, d_v); None if this is no softmax of a kernel score, or its mask is another."""
    if not isinstance(call.score, Kernel) or call.name != "softmax" or call.factor != 1:
        return None
    if call.sink is not None or call.dropout or call.groups > 1 or not call.m or not call.n:
        return None
    parts = causal_and_keys(call.mask, call.m, call.n, len(call.batch), call.query.device)
    if parts is None:
        return None
    is_causal, shown = parts
    place = (call.where(),) if call.score.uses_place else ()
    found = call.score.of_call(widened(call.query), widened(call.keys), *place)
    if shown is not None:
        shown = shown.squeeze(-2)  # (..., n)
        while shown.dim() > found.keys.dim() - 1:
            shown = shown.squeeze(0)
        found = found._replace(keys=torch.where(shown.unsqueeze(-1), found.keys, 0))
    values = widened(call.values)
    if is_causal and call.m > 1:
        return _causal(found, values, shown)
    return _whole(found, values, shown)


def _whole(found: Features, values: Tensor, shown: Tensor | None) -> Tensor:
    query, keys = found.query, found.keys
    if found.keys_log is not None:
        log = found.keys_log if shown is None else found.keys_log.masked_fill(~shown, LOWEST)
        keys = keys * (log - log.amax(-1, keepdim=True)).exp().unsqueeze(-1)
    weight = query @ keys.sum(-2).unsqueeze(-1)  # (..., m, 1)
    return (query @ (keys.mT @ values)) / torch.where(weight == 0, 1, weight)


def _causal(found: Features, values: Tensor, shown: Tensor | None) -> Tensor:
    """By a running maximum: a key to come changes no number of an earlier query."""
    query, keys, log = found.query, found.keys, None
    m, n = query.shape[-2], keys.shape[-2]
    if found.keys_log is not None:
        own = found.keys_log if shown is None else found.keys_log.masked_fill(~shown, LOWEST)
        log = own.detach().cummax(-1).values
        keys = keys * (own - log).exp().unsqueeze(-1)
    if m < n:
        query = F.pad(query, (0, 0, n - m, 0))
    context = causal(query[..., max(m - n, 0) :, :], keys, values, log)
    if m > n:  # the first queries come before the first key
        return F.pad(context, (0, 0, m - n, 0))
    return context[..., n - m :, :]


@dataclass(frozen=True, eq=False)
class State:
    """All that a step of linear attention needs of the keys before it, whatever their number."""

    sums: Tensor  # (..., f, d): Σ φ(k) vᵀ exp(−log)
    total: Tensor  # (..., f)
    log: Tensor  # (...)
    read: int = 1  # how many keys

    def select(self, index: Tensor) -> "State":
        """These rows of the first axis."""
        return State(self.sums[index], self.total[index], self.log[index], self.read)

    @staticmethod
    def of(found: Features, values: Tensor) -> "State":
        """The state after all of these keys."""
        keys, log = found.keys, found.keys.new_zeros(found.keys.shape[:-2])
        if found.keys_log is not None:
            log = found.keys_log.amax(-1)
            keys = keys * (found.keys_log - log.unsqueeze(-1)).exp().unsqueeze(-1)
        return State(keys.mT @ values, keys.sum(-2), log, keys.shape[-2])


def step(found: Features, values: Tensor, state: State | None) -> tuple[Tensor, State]:
    """The recurrent form: context (..., 1, d) of the next query, its key among those it sees, and the state.

    Features of one query and one key, values (..., 1, d).
    """
    keys = found.keys.squeeze(-2)  # (..., f)
    log = keys.new_full(keys.shape[:-1], 0.0) if found.keys_log is None else found.keys_log.squeeze(-1)
    if state is None:
        state = State(keys.new_zeros(*keys.shape, values.shape[-1]), torch.zeros_like(keys), log, 0)
    top = torch.maximum(state.log, log)
    kept, new = (state.log - top).exp().unsqueeze(-1), keys * (log - top).exp().unsqueeze(-1)
    total = state.total * kept + new
    sums = state.sums * kept.unsqueeze(-1) + new.unsqueeze(-1) * values
    state = State(sums, total, top, state.read + 1)
    weight = found.query @ total.unsqueeze(-1)  # (..., 1, 1)
    return (found.query @ sums) / torch.where(weight == 0, 1, weight), state
