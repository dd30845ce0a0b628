"""swap: another map, or another score, in every attention of a model you already have.

    regard.swap(model, map="entmax15")          regard.swap(model, map=None)  # its own again

Every `nn.MultiheadAttention`, and every module that calls `scaled_dot_product_attention` (`regard.wrapped`).

Each module stays where it is, with its parameters (optimizers stay valid), state dict and hooks, called as
before: masks keep torch's meaning (True = hidden; a float mask is added to the scores). With map="softmax"
outputs agree to rounding.

`nn.TransformerEncoder` and its layers have a shortcut for inference that never calls the module. It is closed
for what was swapped; padded positions of the output, where it put 0, hold what they hold in training.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from fnmatch import fnmatchcase
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import resolve_map, resolve_score, run, zeroed
from regard.core.bridges import Bridge, bridges
from regard.core.errors import ShapeError, UnknownNameError
from regard.core.place import Place
from regard.core.recorders import Attentive
from regard.core.shapes import check
from regard.heads.convert import projections
from regard.heads.multi_head import by_any_head
from regard.masks import Causal, Mask, as_mask, from_hidden
from regard.positions import Bias
from regard.scores import Sum
from regard.wrapped import callers, unwrap, wrap

Model = TypeVar("Model", bound=nn.Module)


def swap(
    model: Model,
    map: str | Callable[..., Tensor] | None = "entmax15",
    *,
    score: str | Callable[..., Tensor] = "scaled_dot",
    temperature: float | Sequence[float] | Tensor = 1.0,
    heads: Sequence[int] | None = None,
    paths: str | Sequence[str] = "*",
    cache: str | None = None,
) -> Model:
    """Give every attention whose path fits this map and score, in place; returns the model.

    These are `nn.MultiheadAttention` and modules whose code calls `scaled_dot_product_attention`; one that
    calls it in a helper function is named by its path. `regard.attentions(model)` lists them then. With
    map=None they become what they were. Attentions of libraries that there is a bridge to
    (`regard.core.bridges`: transformers) are swapped as well; there scores are divided by the temperature,
    one number or one for each head, before the map, and `heads` says which heads are meant. With
    cache="certified" their `generate` keeps codes of the keys, and steps with a sparse map read few keys.

    A map or score that is a module is copied for each attention; what it learns is new to an optimizer that
    already exists (`add_param_group`). Swap again to change the map again.
    """
    if cache not in (None, "certified"):
        raise ValueError(f'cache must be "certified" or None, for the cache of the library; got {cache!r}.')
    theirs = {bridge: bridge.attentions(model) for bridge in bridges()}
    bridged = {
        bridge: {path: module for path, module in found.items() if _fits(path, paths)}
        for bridge, found in theirs.items()
    }
    if map is None:
        for bridge, modules in bridged.items():
            if modules:
                bridge.undo(model, modules)
        return _undone(model, paths)
    # Inside a model of a bridged library all attentions are the bridge's, however they are called.
    called = {} if any(theirs.values()) else callers(model, paths)
    if not any(bridged.values()):
        _refuse_bridged(model, theirs, paths)
    found = _found(model, paths, needed=not any(bridged.values()) and not called)
    if cache is not None and not any(bridged.values()):
        raise TypeError("cache= is for models of transformers; caches of MultiHead choose by their map.")
    by_head = heads is not None or isinstance(temperature, Sequence | Tensor) or temperature != 1
    if by_head and (found or called):
        raise TypeError(
            "temperature= and heads= are for models of transformers; for others use "
            "score=regard.scores.Temperature(...)."
        )
    for bridge, modules in bridged.items():
        if modules:
            bridge.swap(model, modules, map, score, temperature, heads, cache)
    made = [(resolve_map(map), resolve_score(score, module.head_dim, module.head_dim)) for module in found]
    for caller in called.values():
        wrap(caller, map, score)
    for module, parts in zip(found, made, strict=True):
        for name, part in zip(("map", "score"), parts, strict=True):
            if isinstance(module, Swapped):
                delattr(module, name)  # a submodule can be replaced by a function only so
            setattr(module, name, _own(part, module))
        module.__class__ = Swapped
        module._qkv_same_embed_dim = False  # read by nn.TransformerEncoderLayer alone: no shortcut
    for encoder in model.modules():
        if isinstance(encoder, nn.TransformerEncoder) and not found.keys().isdisjoint(encoder.modules()):
            vars(encoder).setdefault("_used_nested_tensor", encoder.use_nested_tensor)
            encoder.use_nested_tensor = False  # the same for nn.TransformerEncoder
    return model


def _undone(model: Model, paths: str | Sequence[str]) -> Model:
    for path, module in model.named_modules():
        if not _fits(path, paths):
            continue
        unwrap(module)
        if isinstance(module, Swapped):
            for name in ("map", "score"):
                delattr(module, name)
            module._qkv_same_embed_dim = module.in_proj_weight is not None
            module.__class__ = nn.MultiheadAttention  # type: ignore[assignment]
    for encoder in model.modules():
        if not any(isinstance(part, Swapped) for part in encoder.modules()):
            used = vars(encoder).pop("_used_nested_tensor", None)
            if isinstance(encoder, nn.TransformerEncoder) and used is not None:
                encoder.use_nested_tensor = used
    return model


class Swapped(Attentive, nn.MultiheadAttention):
    """A `nn.MultiheadAttention` with a map and a score of its own; `swap` makes them."""

    map: Callable[..., Tensor]
    score: Callable[..., Tensor]

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """As torch's: the output, and weights (b, m, n), one per head (b, heads, m, n), or None.

        Two things are better defined: a query that may look at nothing has weights 0, not NaN, and the
        weights are those before dropout.
        """
        if is_causal and attn_mask is None:
            raise ValueError("is_causal is a hint that attn_mask is the causal mask: give attn_mask too.")
        batch_first = self.batch_first or query.dim() == 2
        query, key, value = (x if batch_first else x.transpose(0, 1) for x in (query, key, value))
        self._check(query, key, value)
        m, n = query.shape[-2], key.shape[-2]
        extra = (self.bias_k is not None) + self.add_zero_attn  # keys of its own, seen by every query
        mask: Mask | None = Causal()
        terms: list[Bias] = []
        sees = None
        if not is_causal or m != n or key_padding_mask is not None or need_weights or extra:
            masks = self._masks(query.shape[:-2], m, n, attn_mask, key_padding_mask)
            mask, terms = meaning([F.pad(given, (0, extra)) if extra else given for given in masks])
        if mask is not None:
            seen, sees = mask.seen(m, n + extra, query.dim() - 1, query.device)
            seen = None if seen is None else seen[..., :n]
            query, key, value = (
                zeroed(query, by_any_head(sees)),
                zeroed(key, by_any_head(seen)),
                zeroed(value, by_any_head(seen)),
            )
        q, k, v = self._projected(query, key, value)
        place = Place(torch.arange(m, device=q.device), torch.arange(n + extra, device=q.device))
        score = Sum(self.score, *terms) if terms else self.score
        dropout = self.dropout if self.training else 0.0
        attended = run(q, k, v, score, self.map, mask, sees, place, dropout, self, self._joined)
        output = attended.context if batch_first else attended.context.transpose(0, 1)
        if not need_weights:
            return output, None
        return output, attended.weights.mean(-3) if average_attn_weights else attended.weights

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        if query.is_nested or key.is_nested or value.is_nested:
            raise TypeError("a swapped attention takes no nested tensor; pad it and give key_padding_mask.")
        check("query", query, "... m embed_dim", embed_dim=self.embed_dim)
        check("key", key, "... n kdim", kdim=self.kdim)
        check("value", value, "... n vdim", n=key.shape[-2], vdim=self.vdim)
        if query.dim() > 3 or query.shape[:-2] != key.shape[:-2] or key.shape[:-2] != value.shape[:-2]:
            shapes = ", ".join(str(tuple(x.shape)) for x in (query, key, value))
            raise ShapeError(
                f"query, key, value must be (n, width), or (b, n, width) of one b; got {shapes}."
            )

    def _masks(
        self, batch: torch.Size, m: int, n: int, attn_mask: Tensor | None, key_padding_mask: Tensor | None
    ) -> list[Tensor]:
        """torch's masks as they are given, in shapes that broadcast to (..., heads, m, n)."""
        masks, heads = [], self.num_heads
        if attn_mask is not None:
            if attn_mask.dim() == 3:
                _check_mask("attn_mask", attn_mask, "(b·heads, m, n)", batch.numel() * heads, m, n)
                attn_mask = attn_mask.reshape(*batch, heads, m, n)
            else:
                _check_mask("attn_mask", attn_mask, "(m, n)", m, n)
            masks.append(attn_mask)
        if key_padding_mask is not None:
            _check_mask("key_padding_mask", key_padding_mask, "(b, n)" if batch else "(n)", *batch, n)
            masks.append(key_padding_mask[..., None, None, :])
        return masks

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """Query (..., heads, m, each), keys and values (..., heads, n + extra, each)."""
        parts = [F.linear(x, W, b) for x, W, b in zip((query, key, value), *projections(self), strict=True)]
        for i, own in ((1, self.bias_k), (2, self.bias_v)):
            rows = [parts[i]]
            if own is not None:
                rows.append(own.to(parts[i].dtype).view(1, -1).expand(*rows[0].shape[:-2], 1, -1))
            if self.add_zero_attn:
                rows.append(rows[0].new_zeros(*rows[0].shape[:-2], 1, self.embed_dim))
            parts[i] = torch.cat(rows, -2) if len(rows) > 1 else parts[i]
        split = (self.num_heads, self.head_dim)
        return [part.reshape(*part.shape[:-1], *split).transpose(-3, -2) for part in parts]

    def _joined(self, context: Tensor) -> Tensor:
        joined: Tensor = self.out_proj(context.transpose(-3, -2).flatten(-2))
        return joined

    def extra_repr(self) -> str:
        name = "" if isinstance(self.map, nn.Module) else f", map={getattr(self.map, '__name__', self.map)}"
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}{name}"


def meaning(masks: Sequence[Tensor]) -> tuple[Mask | None, list[Bias]]:
    """What torch's masks say together: who may look at what, and what is added to the scores.

    In a float mask −inf means hidden; the rest is a term, unless it is 0 throughout.
    """
    mask: Mask | None = None
    terms = []
    for given in masks:
        hidden = given
        if given.is_floating_point():
            hidden = given == float("-inf")
            added = given.masked_fill(hidden, 0.0)
            if given.requires_grad or torch.compiler.is_compiling() or bool((added != 0).any()):
                terms.append(Bias(added))
        allowed = as_mask(from_hidden(hidden))
        mask = allowed if mask is None else mask & allowed
    return mask, terms


def _fits(path: str, paths: str | Sequence[str]) -> bool:
    return any(fnmatchcase(path, one) for one in ([paths] if isinstance(paths, str) else paths))


def _refuse_bridged(
    model: nn.Module, theirs: dict[Bridge, dict[str, nn.Module]], paths: str | Sequence[str]
) -> None:
    """Raise if the model is of a library that there is a bridge to, and nothing in it fits."""
    known = [path for found in theirs.values() for path in found]
    if known and not any(isinstance(module, nn.MultiheadAttention) for module in model.modules()):
        raise UnknownNameError(f"no attention at {paths!r}. This model has them at: {', '.join(known)}.")
    for bridge in theirs:
        if not known and (why := bridge.refusal(model)):
            raise TypeError(why)


def _found(model: nn.Module, paths: str | Sequence[str], needed: bool) -> dict[nn.MultiheadAttention, str]:
    """The attentions to swap by their path; every refusal happens here."""
    every = {m: path for path, m in model.named_modules() if isinstance(m, nn.MultiheadAttention)}
    if not every and needed:
        raise ValueError(
            f"{type(model).__name__} has no nn.MultiheadAttention and no module that calls "
            "scaled_dot_product_attention: there is nothing to swap. One that calls it in a helper function "
            "is named by its path: paths=[...]."
        )
    found = {m: path for m, path in every.items() if _fits(path, paths)}
    if not found and needed:
        wanted = [paths] if isinstance(paths, str) else paths
        known, asked = (", ".join(map(repr, names)) for names in (every.values(), wanted))
        raise UnknownNameError(f"no nn.MultiheadAttention at {asked}. This model has them at: {known}.")
    for module, path in found.items():
        if type(module) not in (nn.MultiheadAttention, Swapped):
            raise TypeError(
                f"{path or 'the model'} is a {type(module).__name__}, more than a nn.MultiheadAttention, and "
                "would lose what it adds. Name the others with paths=; parametrize and shard after the swap."
            )
    return found


def _own(part: Callable[..., Tensor], module: nn.MultiheadAttention) -> Callable[..., Tensor]:
    """A function as it is; a module as a copy that lives where the attention does."""
    if not isinstance(part, nn.Module):
        return part
    return deepcopy(part).to(module.out_proj.weight).train(module.training)


def _check_mask(name: str, mask: Tensor, axes: str, *shape: int) -> None:
    if tuple(mask.shape) != shape:
        raise ShapeError(f"{name} must be {axes} = {shape}; got {tuple(mask.shape)}.")
