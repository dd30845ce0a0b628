"""swap: another map, or another score, in every attention of a model you already have.

    regard.swap(model, map="entmax15")          regard.swap(model, map=None)  # its own again

Every `nn.MultiheadAttention`, and every module that calls `scaled_dot_product_attention` (`regard.wrapped`).

    regard.swap(model, mechanism="performer")   # another mechanism of `regard.MECHANISMS`

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
from regard.backends.call import Call
from regard.core.bridges import Bridge, bridges
from regard.core.errors import RefusedError, ShapeError, UnknownNameError
from regard.core.place import Place
from regard.core.recorders import Attentive
from regard.core.shapes import check
from regard.heads.convert import projections
from regard.heads.multi_head import by_any_head
from regard.masks import Causal, Mask, as_mask, from_hidden
from regard.mechanisms import Core, Heads, make_core
from regard.mechanisms.mechanism import parsed
from regard.positions import Bias
from regard.scores import Sum
from regard.wrapped import callers, unwrap, wrap

Model = TypeVar("Model", bound=nn.Module)


class _Default(str):
    """The map of `swap` where none is named; with a mechanism it is softmax."""


ENTMAX15 = _Default("entmax15")


def swap(
    model: Model,
    map: str | Callable[..., Tensor] | None = ENTMAX15,
    *,
    score: str | Callable[..., Tensor] = "scaled_dot",
    mechanism: str | None = None,
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

    A `mechanism` of `regard.MECHANISMS`, "performer" or "local:window=32", is for `nn.MultiheadAttention`
    alone; its map is softmax unless another is given.

    A map or score that is a module is copied for each attention; what it learns is new to an optimizer that
    already exists (`add_param_group`). Swap again to change the map again.
    """
    if cache not in (None, "certified"):
        raise ValueError(f'cache must be "certified" or None, for the cache of the library; got {cache!r}.')
    if mechanism is not None:
        return _with_mechanism(
            model, "softmax" if isinstance(map, _Default) else map, score, mechanism, paths
        )
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
        _give(module, *parts)
    _close_shortcuts(model, found)
    return model


def _give(
    module: nn.MultiheadAttention,
    map: Callable[..., Tensor],
    score: Callable[..., Tensor],
    mechanism: Core | None = None,
) -> None:
    """Let one attention have these."""
    for name, part in (("map", map), ("score", score), ("mechanism", mechanism)):
        if isinstance(module, Swapped):
            delattr(module, name)  # a submodule can be replaced by a function only so
        setattr(module, name, part if part is None else _own(part, module))
    module.__class__ = Swapped
    module._qkv_same_embed_dim = False  # read by nn.TransformerEncoderLayer alone: no shortcut


def _close_shortcuts(model: nn.Module, found: dict[nn.MultiheadAttention, str]) -> None:
    for encoder in model.modules():
        if isinstance(encoder, nn.TransformerEncoder) and not found.keys().isdisjoint(encoder.modules()):
            vars(encoder).setdefault("_used_nested_tensor", encoder.use_nested_tensor)
            encoder.use_nested_tensor = False  # the same for nn.TransformerEncoder


def _with_mechanism(
    model: Model,
    map: str | Callable[..., Tensor] | None,
    score: str | Callable[..., Tensor],
    mechanism: str,
    paths: str | Sequence[str],
) -> Model:
    """Give every `nn.MultiheadAttention` whose path fits this mechanism."""
    if map is None:
        raise ValueError("mechanism= needs a map: leave it out for softmax.")
    name, settings = parsed(mechanism)
    found = _found(model, paths, needed=True)
    for module, path in found.items():
        if module.bias_k is not None or module.add_zero_attn:
            raise ValueError(f"{name} has no keys of its own: {path} has add_bias_kv or add_zero_attn.")
        if (module.kdim, module.vdim) != (module.embed_dim, module.embed_dim):
            raise ValueError(f"{name} is for keys and values as wide as queries; those of {path} are not.")
    for module in found:
        given = None if score == "scaled_dot" else resolve_score(score, module.head_dim, module.head_dim)
        core, chosen, mapped = make_core(
            name, module.head_dim, module.num_heads, given, resolve_map(map), **settings
        )
        core.copy_projections(*projections(module))
        _give(module, mapped, chosen, core)
    _close_shortcuts(model, found)
    return model


def _undone(model: Model, paths: str | Sequence[str]) -> Model:
    for path, module in model.named_modules():
        if not _fits(path, paths):
            continue
        unwrap(module)
        if isinstance(module, Swapped):
            for name in ("map", "score", "mechanism"):
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
    mechanism: Core | None

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
        own = query is key and key is value
        batch_first = self.batch_first or query.dim() == 2
        query, key, value = (x if batch_first else x.transpose(0, 1) for x in (query, key, value))
        self._check(query, key, value)
        m, n = query.shape[-2], key.shape[-2]
        extra = (self.bias_k is not None) + self.add_zero_attn  # keys of its own, seen by every query
        mask: Mask | None = Causal()
        terms: list[Bias] = []
        sees = None
        if self.mechanism is not None:
            mask, terms = self._mask_of_mechanism(query, m, n, attn_mask, key_padding_mask, is_causal)
        elif not is_causal or m != n or key_padding_mask is not None or need_weights or extra:
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
        if self.mechanism is None:
            attended = run(q, k, v, score, self.map, mask, sees, place, dropout, self, self._joined)
        else:
            call = Call(q, k, v, score, self.map, mask, sees, place, dropout)
            attended = self.mechanism(Heads(call, self, self._joined, own, inputs=(query,)))
        output = attended.context if batch_first else attended.context.transpose(0, 1)
        if not need_weights:
            return output, None
        weights = attended.over_tokens
        return output, weights.mean(-3) if average_attn_weights else weights

    def _mask_of_mechanism(
        self, query: Tensor, m: int, n: int, attn_mask: Tensor | None, padding: Tensor | None, is_causal: bool
    ) -> tuple[Mask | None, list[Bias]]:
        """torch's masks; one that hides all later keys is said to be causal, which mechanisms ask for."""
        assert self.mechanism is not None
        if attn_mask is not None and m == n and attn_mask.shape == (m, n):
            later = torch.ones(m, n, dtype=torch.bool, device=attn_mask.device).triu(1)
            hidden = attn_mask == -torch.inf if attn_mask.is_floating_point() else attn_mask
            plain = not attn_mask.is_floating_point() or not bool(attn_mask[~hidden].any())
            is_causal = is_causal or (plain and torch.equal(hidden, later))
        given = None if is_causal and m == n else attn_mask
        mask, terms = meaning(self._masks(query.shape[:-2], m, n, given, padding))
        if terms:
            raise ValueError(f"{self.mechanism.name} takes no float mask that is added to scores.")
        if is_causal and m == n:
            mask = Causal() if mask is None else Causal() & mask
        return mask, terms

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
            raise RefusedError(why)


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
