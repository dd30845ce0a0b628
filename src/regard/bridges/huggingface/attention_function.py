"""The attention function that transformers' models call: the three steps, with the map of each head.

    θ = s qKᵀ + b        p = map(θ / τ)        z = p V

s is the model's scaling, b its position bias, τ the temperature of each head (1 unless `swap` was told
otherwise); soft caps and sinks are the model's. An argument that is not known here and is not None raises:
nothing is dropped.
"""

from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Attended, run, zeroed
from regard.backends.call import Call
from regard.bridges.huggingface.head_scores import CappedDot, HeadDot
from regard.bridges.huggingface.head_settings import settings_of
from regard.bridges.huggingface.mask_function import as_known
from regard.core import recorders
from regard.core.errors import ShapeError
from regard.core.place import Place
from regard.core.recorders import change_for, show
from regard.masks import Causal, Mask
from regard.masks.mask import Given
from regard.positions import Bias
from regard.scores import Sum
from regard.scores.score import Score

# What models hand down to every attention and no attention function uses.
OF_NO_CONSEQUENCE = {
    "cache_position", "deterministic", "logits_to_keep", "num_items_in_batch", "output_hidden_states",
    "output_router_logits", "position_embeddings", "position_ids", "return_dict", "use_cache",
}  # fmt: skip

# The context (b, heads, m, d_v) that a module answers with, whatever it is asked: `replaying` needs it.
given_context: ContextVar[tuple[nn.Module, Tensor] | None] = ContextVar("given_context", default=None)


def attention_function(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    sliding_window: int | None = None,
    output_attentions: bool | None = None,
    **other: Any,
) -> tuple[Tensor, Tensor | None]:
    """Context (b, m, heads, d_v), and the weights (b, heads, m, n) if output_attentions is set.

    query is (b, heads, m, d), key and value (b, key-value heads, n, d); a mask is boolean or additive.
    """
    if (given := given_context.get()) is not None and given[0] is module:
        return given[1].transpose(1, 2).contiguous(), None
    _check(module, query, key, other)
    mask, bias = _mask(module, query, key, attention_mask, is_causal, sliding_window)
    if position_bias is not None:
        bias = position_bias if bias is None else bias + position_bias
    heads = Heads(module, query, key, value, mask, bias, scaling, softcap, s_aux, dropout)
    context, weights = heads.attend(bool(output_attentions))
    return context.transpose(1, 2).contiguous(), weights


class Heads:
    """One call. Heads that share keys are an axis of their own, along which the keys are not copied.

    What `record` and `intervene` see has one axis of heads, (b, heads, m, n): they copy.
    """

    def __init__(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Mask | None,
        bias: Tensor | None,
        scaling: float | None,
        cap: float | None,
        sink: Tensor | None,
        dropout: float,
    ):
        self.module, self.query, self.key, self.value, self.mask = module, query, key, value, mask
        self.bias, self.cap, self.sink, self.dropout = bias, cap, sink, dropout
        self.scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        self.heads, self.groups = query.shape[1], key.shape[1]
        self.settings = settings_of(module, self.heads)
        self.temperature = self.settings.temperature
        if self.temperature is not None and self.temperature.requires_grad and cap is None:
            by_head = self.temperature.view(-1, 1, 1)  # in the graph of the query, whatever the backend
            self.query = query / by_head.to(query)
            self.bias = None if bias is None else bias / by_head.to(bias)
            self.sink = None if sink is None else sink / self.temperature.to(sink)
            self.temperature = None

    def attend(self, look: bool) -> tuple[Tensor, Tensor | None]:
        """Context (b, heads, m, d_v); weights (b, heads, m, n) if somebody looks."""
        if self.heads == self.groups or change_for(self.module) is not None:
            seen = self._run(False, self.module)
            return seen.context, seen.weights if look else None
        found = self._run(True, None)
        context = found.context.flatten(1, 2)
        if not recorders.active and not look:
            return context, None
        kept = None if found._kept is None else found._kept.flatten(1, 2)
        q, k, v, mask, sees = self._cleaned(False)
        score, place = self._score(False, q)
        call = Call(
            q, k, v, score, self.settings.map, mask, sees, place, self.dropout, None, self._sink(False)
        )
        seen = Attended(context, call, kept)
        show(self.module, seen)
        return context, seen.weights if look else None

    def _run(self, grouped: bool, owner: nn.Module | None) -> Attended:
        q, k, v, mask, sees = self._cleaned(grouped)
        score, place = self._score(grouped, q)
        sink = self._sink(grouped)
        return run(q, k, v, score, self.settings.map, mask, sees, place, self.dropout, owner, None, sink)

    def _cleaned(self, grouped: bool) -> tuple[Tensor, Tensor, Tensor, Mask | None, Tensor | None]:
        """Query, keys, values, mask, and which queries may look at anything; what is hidden is 0."""
        query, key, value, mask = self.query, self.key, self.value, self.mask
        dtype = torch.promote_types(torch.promote_types(query.dtype, key.dtype), value.dtype)
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)  # under autocast they differ
        if grouped:
            query = query.unflatten(1, (self.groups, -1))
            key, value = key.unsqueeze(2), value.unsqueeze(2)
            mask = Given(mask.allowed.unsqueeze(2)) if isinstance(mask, Given) else mask
        elif self.heads != self.groups:
            key, value = (t.repeat_interleave(self.heads // self.groups, 1) for t in (key, value))
        if mask is None:
            return query, key, value, None, None
        m, n = query.shape[-2], key.shape[-2]
        mask.check(query.shape[:-2], m, n)
        seen, sees = mask.seen(m, n, query.dim() - 2, query.device)
        return zeroed(query, sees), zeroed(key, seen), zeroed(value, seen), mask, sees

    def _by_head(self, x: Tensor, grouped: bool, axes: int) -> Tensor:
        """What there is of each head, (heads,), for tensors with so many axes after those of the heads."""
        x = x.unflatten(0, (self.groups, -1)) if grouped else x
        return x.reshape(*x.shape, *[1] * axes)

    def _score(self, grouped: bool, query: Tensor) -> tuple[Score, Place | None]:
        given = self.temperature
        temperature = None if given is None else self._by_head(given.to(query.device), grouped, 2)
        if self.cap is not None:
            if self.bias is not None:
                raise NotImplementedError(f"{type(self.module).__name__}: a soft cap together with a bias.")
            return CappedDot(self.scale, self.cap, temperature), None
        score = HeadDot(self.scale if temperature is None else self.scale / temperature)
        if self.bias is None:
            return score, None
        bias = self.bias
        if grouped:
            bias = bias.unsqueeze(2) if bias.shape[1] == 1 else bias.unflatten(1, (self.groups, -1))
        bias = bias if temperature is None else bias / temperature.to(bias.dtype)
        i, j = (torch.arange(size, device=query.device) for size in (query.shape[-2], self.key.shape[-2]))
        return Sum(score, Bias(bias)), Place(i, j)

    def _sink(self, grouped: bool) -> Tensor | None:
        """The score of the sink of each head, (heads, 1)."""
        if self.sink is None:
            return None
        sink = self.sink.reshape(-1)
        given = self.temperature
        return self._by_head(sink if given is None else sink / given.to(sink), grouped, 1)


def _check(module: nn.Module, query: Tensor, key: Tensor, other: dict[str, Any]) -> None:
    name = type(module).__name__
    for what, given in other.items():
        if given is not None and what not in OF_NO_CONSEQUENCE:
            raise NotImplementedError(
                f"{name} gives its attention {what}=, which regard does not know: swapped, it would answer "
                "something else. Leave it out, or use the model as it was."
            )
    if query.dim() != 4 or key.dim() != 4 or query.shape[1] % key.shape[1]:
        shapes = f"{tuple(query.shape)} and {tuple(key.shape)}"
        raise ShapeError(f"{name}: query and key must be (b, heads, n, d), and heads divide; got {shapes}.")


def _mask(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    given: Tensor | None,
    is_causal: bool | None,
    window: int | None,
) -> tuple[Mask | None, Tensor | None]:
    """Who may look at what, and what is added to the scores."""
    m, n = query.shape[-2], key.shape[-2]
    name = type(module).__name__
    if given is None:
        causal = getattr(module, "is_causal", None) if is_causal is None else is_causal
        if causal is None and m > 1:  # transformers' functions differ in what this means
            raise ValueError(f"{name} came without a mask, and does not say whether it is causal.")
        causal = causal and m > 1
        if window is not None and window < n:
            raise ValueError(f"{name} has a window of {window} keys, {n} keys, and came without a mask.")
        if not causal:
            return None, None
        if m == n:
            return Causal(), None
        return Given(torch.ones(m, n, dtype=torch.bool, device=query.device).tril()[None, None]), None
    if given.dim() != 4:
        raise ShapeError(f"{name}: a mask must be (b, 1 or heads, m, n); got {tuple(given.shape)}.")
    if given.dtype == torch.bool:
        return as_known(given), None
    if not given.is_floating_point():
        raise TypeError(f"{name}: a mask must be boolean or additive; got {given.dtype}.")
    allowed = given > torch.finfo(given.dtype).min / 2  # −inf, and the lowest number, which stands for it
    added = torch.where(allowed, given, 0)
    return Given(allowed), added if torch.compiler.is_compiling() or bool((added != 0).any()) else None
