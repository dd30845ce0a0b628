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

from regard.attention import Attended, by_any_of_group, run, zeroed
from regard.bridges.huggingface.certified_cache import codes_of
from regard.bridges.huggingface.head_scores import HeadDot, OverTemperature
from regard.bridges.huggingface.head_settings import settings_of
from regard.bridges.huggingface.mask_function import as_known, is_known
from regard.core.errors import ShapeError
from regard.masks import Causal, Mask
from regard.masks.mask import Given
from regard.positions import Bias
from regard.scores import SoftCap, Sum
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
    compiling = torch.compiler.is_compiling()
    if not compiling and (given := given_context.get()) is not None and given[0] is module:
        return given[1].transpose(1, 2).contiguous(), None
    _check(module, query, key, other)
    mask, bias = _mask(module, query, key, attention_mask, is_causal, sliding_window)
    if position_bias is not None:
        if softcap is not None:
            raise NotImplementedError(f"{type(module).__name__}: a soft cap together with a position bias.")
        bias = position_bias if bias is None else bias + position_bias
    seen = _attended(module, query, key, value, mask, bias, scaling, softcap, s_aux, dropout)
    return seen.context.transpose(1, 2).contiguous(), seen.weights if output_attentions else None


def _attended(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Mask | None, bias: Tensor | None,
    scaling: float | None, cap: float | None, sink: Tensor | None, dropout: float,
) -> Attended:  # fmt: skip
    """One call: context (b, heads, m, d_v), weights (b, heads, m, n) on demand; no shared key is copied."""
    dtype = torch.promote_types(torch.promote_types(query.dtype, key.dtype), value.dtype)
    query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)  # under autocast they differ
    heads, shared, sees, codes = query.shape[1], key.shape[1], None, codes_of(key)
    settings = settings_of(module, heads)
    scale: float | Tensor = query.shape[-1] ** -0.5 if scaling is None else scaling
    given = settings.temperature
    if given is not None:
        given = given.to(query.device)
        sink = None if sink is None else sink.reshape(-1) / given.to(sink)
        if cap is None and given.requires_grad:  # in the graph of the query, whatever the backend
            query = query / given.view(-1, 1, 1).to(query)
        elif cap is None:
            scale = scale / given.view(-1, 1, 1)
        bias = None if bias is None else bias / given.view(-1, 1, 1).to(bias)
    score: Score = HeadDot(scale)
    if cap is not None:
        score = SoftCap(score, cap)
        score = score if given is None else OverTemperature(score, given.view(-1, 1, 1))
    if bias is not None:  # of a mask: behind the soft cap
        score = Sum(score, Bias(bias))
    if mask is not None:
        m, n = query.shape[-2], key.shape[-2]
        mask.check(query.shape[:-2], m, n)
        seen, sees = mask.seen(m, n, 2, query.device)
        query, seen = zeroed(query, sees), by_any_of_group(seen, heads // shared)
        key, value = zeroed(key, seen), zeroed(value, seen)
    return run(
        query, key, value, score, settings.map, mask, sees, None, dropout, module,
        sink=None if sink is None else sink.reshape(-1), groups=heads // shared, codes=codes,
    )  # fmt: skip


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
    if given.dtype == torch.bool or is_known(given):
        return as_known(given), None
    if not given.is_floating_point():
        raise TypeError(f"{name}: a mask must be boolean or additive; got {given.dtype}.")
    allowed = given > torch.finfo(given.dtype).min / 2  # −inf, and the lowest number, which stands for it
    added = torch.where(allowed, given, 0)
    return Given(allowed), added if torch.compiler.is_compiling() or bool((added != 0).any()) else None
