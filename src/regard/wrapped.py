"""attentive: modules that call `scaled_dot_product_attention`, known to `record`, `intervene` and `swap`.

    model = regard.attentive(model)        # regard.swap(model, map="entmax15") does so with another map

While the forward of such a module runs, a `TorchFunctionMode` of its own (thread-local, nothing global
changes) takes the calls of `torch.nn.functional.scaled_dot_product_attention` inside it. With softmax, and
nobody looking, there is no mode at all; with somebody looking, the context is still torch's own, to the bit.
Class, parameters, hooks and state dict stay as they are.

A module is found by its code: a method of its class names the function. One that calls it elsewhere, in a
helper, is named by its path. timm's `Attention` is found as well, and takes its fused form.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from fnmatch import fnmatchcase
from types import CodeType, FunctionType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode, _pop_mode, _push_mode

from regard.attention import attend, resolve_map, resolve_score
from regard.core import recorders
from regard.core.compiling import untraced
from regard.core.errors import UnknownNameError
from regard.core.recorders import Attentive, intervened, looked_at, show
from regard.masks import Causal, Mask, as_mask
from regard.positions import Bias
from regard.scores import ScaledDot, Sum

SDPA = F.scaled_dot_product_attention
NAME = "scaled_dot_product_attention"
OWN_MAP, OWN_SCORE = "attention_map", "attention_score"  # submodules, where map or score has parameters

Model = TypeVar("Model", bound=nn.Module)


def attentive(model: Model, *, paths: str | Sequence[str] = "*") -> Model:
    """Make modules that call `scaled_dot_product_attention` known to `record` and `intervene`, in place.

    No answer changes. A path without wildcards is taken at its word, whatever the module's code says.
    `regard.swap(model, map=None)` undoes it.
    """
    found = callers(model, paths)
    if not found:
        wanted = ", ".join(map(repr, [paths] if isinstance(paths, str) else paths))
        raise UnknownNameError(
            f"{type(model).__name__} has no module at {wanted} that calls {NAME}. If one calls it in a "
            "helper function, name it: paths=[...]; for nn.MultiheadAttention: "
            'regard.swap(model, map="softmax").'
        )
    for module in found.values():
        if not isinstance(vars(module).get("forward"), Wrapped):
            wrap(module, "softmax", "scaled_dot")
    return model


def callers(model: nn.Module, paths: str | Sequence[str] = "*") -> dict[str, nn.Module]:
    """The modules whose own code calls `scaled_dot_product_attention`, and those that are named, by path."""
    wanted = [paths] if isinstance(paths, str) else list(paths)
    known: dict[type, bool] = {}
    found = {}
    for path, module in model.named_modules():
        if isinstance(module, Attentive | nn.MultiheadAttention):
            continue
        kind = type(module)
        if kind not in known:
            known[kind] = _calls(kind)
        if path in wanted or (known[kind] and any(fnmatchcase(path, one) for one in wanted)):
            found[path] = module
    return found


def wrap(module: nn.Module, map: str | Callable[..., Tensor], score: str | Callable[..., Tensor]) -> None:
    """Give a module's calls of `scaled_dot_product_attention` this map and score."""
    parts = resolve_map(map), resolve_score(score)
    old = vars(module).get("forward")
    if isinstance(old, Wrapped):
        unwrap(module)
    fused = vars(module).get("fused_attn")
    for name, part in zip((OWN_MAP, OWN_SCORE), parts, strict=True):
        if isinstance(part, nn.Module) and next(part.parameters(), None) is not None:
            like = next(module.parameters(), None)
            own = deepcopy(part).train(module.training)
            module.add_module(name, own if like is None else own.to(like))
    wrapped = Wrapped(module, *parts, vars(module).get("forward"), fused)
    if fused is False:
        _set_fused(module, True)
    module.forward = wrapped


def _set_fused(module: Any, fused: bool) -> None:
    module.fused_attn = fused


def unwrap(module: nn.Module) -> None:
    """Give a module back its own attention."""
    wrapped = vars(module).get("forward")
    if not isinstance(wrapped, Wrapped):
        return
    del module.forward
    if wrapped.before is not None:
        module.forward = wrapped.before
    if wrapped.fused is False:
        _set_fused(module, False)
    for name in (OWN_MAP, OWN_SCORE):
        module._modules.pop(name, None)


class Wrapped:
    """The forward of a module whose calls of `scaled_dot_product_attention` are ours."""

    attends = True

    def __init__(
        self,
        module: nn.Module,
        map: Callable[..., Tensor],
        score: Callable[..., Tensor],
        before: Callable[..., Any] | None,  # a forward of the instance's own
        fused: bool | None,  # timm's switch, as it was
    ):
        self.module, self.before, self.fused = module, before, fused
        self._map, self._score = map, score
        self.taken = Taken(self)  # one for all calls: what was compiled knows it again
        self.as_torch = map is resolve_map("softmax") and type(score) is ScaledDot and score.scale is None

    @property
    def map(self) -> Callable[..., Tensor]:
        own: Any = self.module._modules.get(OWN_MAP)
        return self._map if own is None else own

    @property
    def score(self) -> Callable[..., Tensor]:
        own: Any = self.module._modules.get(OWN_SCORE)
        return self._score if own is None else own

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        if recorders.active:
            return self._watched(*inputs, **named)
        if self.as_torch:
            return self._forward(*inputs, **named)
        with self.taken:
            return self._forward(*inputs, **named)

    def _watched(self, *inputs: Any, **named: Any) -> Any:
        with self.taken:
            return self._forward(*inputs, **named)

    def _forward(self, *inputs: Any, **named: Any) -> Any:
        if self.before is not None:
            return self.before(*inputs, **named)
        return type(self.module).forward(self.module, *inputs, **named)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """What the module gets instead, with the arguments of `scaled_dot_product_attention`."""
        changed = intervened(self.module)
        context = None
        if self.as_torch and not changed:
            settings: Any = {"scale": scale, "enable_gqa": enable_gqa}
            context = SDPA(query, key, value, attn_mask, dropout_p, is_causal, **settings)
            if not looked_at(self.module):
                return context
        elif attn_mask is not None and is_causal:
            raise ValueError("attn_mask and is_causal exclude each other, as in torch; got both.")
        if scale is not None and not isinstance(self.score, ScaledDot):
            raise ValueError(
                f"scale={scale} is a factor of dot products, and the score here is "
                f"{type(self.score).__name__}: swap the map alone."
            )
        device = query.device.type
        if not query.is_meta and torch.is_autocast_enabled(device):  # as torch casts them
            query, key, value = (t.to(torch.get_autocast_dtype(device)) for t in (query, key, value))
        groups = query.shape[-3] // key.shape[-3] if enable_gqa else 1
        own = self.score if scale is None else resolve_score("scaled_dot", scale=scale)
        m, n = query.shape[-2], key.shape[-2]
        mask, terms = _meaning(attn_mask)
        if is_causal:  # torch counts from the start
            every = torch.ones(m, n, dtype=torch.bool, device=key.device)
            mask = Causal() if m == n else as_mask(every.tril())
        score = Sum(own, *terms) if terms else own
        settings = {"score": score, "map": self.map, "mask": mask, "groups": groups}
        if context is None:
            return attend(query, key, value, **settings, dropout=dropout_p, owner=self.module).context
        with saved_tensors_hooks(_same, _same):  # checkpointing counts what is saved, and does not look again
            seen = attend(query, key, value, **settings)
        show(self.module, replace(seen, context=context))
        return context


def _same(tensor: Tensor) -> Tensor:
    return tensor


untraced(Wrapped._watched, recorders.COMPILED)


class Taken(TorchFunctionMode):
    """While it lasts, calls of `scaled_dot_product_attention` in this thread are those of one module."""

    def __init__(self, wrapped: Wrapped):
        super().__init__()
        self.wrapped = wrapped

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is not SDPA:
            return function(*args, **(kwargs or {}))
        if torch.compiler.is_compiling():
            return self.wrapped.attend(*args, **(kwargs or {}))
        with _apart():
            return self.wrapped.attend(*args, **(kwargs or {}))


@contextmanager
def _apart() -> Iterator[None]:
    """Without the modes of modules around this one: what it computes is its own, on the fast backends."""
    modes = []
    while (count := torch._C._len_torch_function_stack()) and isinstance(
        torch._C._get_function_stack_at(count - 1), Taken
    ):
        modes.append(_pop_mode())
    try:
        yield
    finally:
        for mode in reversed(modes):
            _push_mode(mode)


def _meaning(given: Tensor | None) -> tuple[Mask | None, list[Bias]]:
    """What torch's mask says: who may look at what, and what is added to the scores; −inf means hidden."""
    if given is None:
        return None, []
    if not given.is_floating_point():
        return as_mask(given), []
    hidden = given == float("-inf")
    return as_mask(~hidden), [Bias(given.masked_fill(hidden, 0.0))]


def _calls(kind: type) -> bool:
    """Whether a method that a class or one of its bases defines names the function."""
    methods = (
        method
        for base in kind.__mro__
        if not base.__module__.startswith(("torch.", "regard.")) and base is not object
        for method in vars(base).values()
    )
    return any(_names(m.__code__, m.__globals__) for m in methods if isinstance(m, FunctionType))


def _names(code: CodeType, names: dict[str, Any]) -> bool:
    if NAME in code.co_names or any(names.get(name) is SDPA for name in code.co_names):
        return True
    return any(_names(inner, names) for inner in code.co_consts if isinstance(inner, CodeType))
