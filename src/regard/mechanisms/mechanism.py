"""The base classes of mechanisms, and MECHANISMS: each by name, with what is true of it.

A mechanism is multi-head attention whose cost does not grow as n², or that is compared with such. It has two
parts: the projections of `MultiHead`, and a core that attends with the projected heads. `regard.swap` puts
the core alone into a `nn.MultiheadAttention`.

A core says what it computes as a `Call` (score, map and mask, of which `Attended` has weights when somebody
looks, and which interventions change), and computes the context of that call without m × n memory.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar

import torch
from torch import Tensor, nn

from regard.attended import Attended, versions_of
from regard.backends.call import Call
from regard.backends.dispatch import dispatch
from regard.backends.features import State, step
from regard.core.attention_inputs import exact
from regard.core.errors import SettingsError
from regard.core.names import name_of
from regard.core.place import Place
from regard.core.recorders import change_for, changed_inputs, show
from regard.core.registry import Table, first_line
from regard.core.shapes import widened
from regard.heads.multi_head import MultiHead
from regard.maps.resolve_map import resolve_map
from regard.maps.table import acts_on_matrix, each_row_alone, facts_of
from regard.masks import Causal, Mask
from regard.masks.key_masks import causal_and_keys
from regard.memories import Branches, KeyValue
from regard.scores import SCORES
from regard.scores.kernel import Kernel
from regard.scores.score import Factored

Masks = Literal["any", "keys"]
HONOURED = {
    "any": "any mask",
    "keys": "masks that hide keys from all queries alike (Lengths, a boolean (b, 1, 1, n))",
}


@dataclass(frozen=True)
class Entry:
    """The registry entry of a mechanism; `make(width, heads)` builds one."""

    name: str
    kind: "type[Mechanism]"
    says: str  # one sentence
    masks: Masks = "keys"  # which it takes, besides Causal
    exact: bool = True  # in a limit of its settings it is softmax attention, or any map's
    slope: float = 1.0  # of its FLOPs against n, in logarithms
    across: bool = False  # keys may be of another sequence than the queries
    maps: bool = False  # takes any row map, not softmax alone
    score: str = "scaled_dot"  # unless another is given
    sorts: bool = False  # its gradients are not those of its weights alone
    why_not_causal: str = ""  # why it takes no Causal mask, if it takes none

    @property
    def causal(self) -> bool:
        """Whether it takes a Causal mask."""
        return not self.why_not_causal

    @property
    def parted(self) -> bool:
        """Whether rows of weights are computed in parts, so that a map cannot see all of them at once."""
        return self.maps and self.masks == "keys" and not self.across

    @property
    def takes(self) -> str:
        """The masks it can honour, as messages say it."""
        return ("Causal, and " if self.causal and self.masks != "any" else "") + HONOURED[self.masks]

    @property
    def settings(self) -> dict[str, Any]:
        """Its own settings with their defaults."""
        given = inspect.signature(self.kind.core_kind.__init__).parameters.values()
        return {p.name: p.default for p in given if p.kind is p.KEYWORD_ONLY}

    def make(self, width: int, heads: int = 8, **settings: Any) -> "Mechanism":
        """The mechanism over inputs of this width."""
        return self.kind(width, heads, **settings)


MECHANISMS: Table[Entry] = Table("mechanism", {})
M = TypeVar("M", bound="type[Mechanism]")


def register(**facts: Any) -> Callable[[M], M]:
    """Enter a mechanism into MECHANISMS under the name of its file, with its facts."""

    def enter(kind: M) -> M:
        name = kind.__module__.rsplit(".", 1)[-1]
        MECHANISMS.enter(name, Entry(name, kind, first_line(kind), **facts))
        kind.name = kind.core_kind.name = name
        return kind

    return enter


@dataclass(frozen=True, eq=False)
class Heads:
    """Projected heads and how to attend with them."""

    call: Call  # query (..., heads, m, each), keys and values (..., heads, n, each); its mask is the caller's
    owner: nn.Module
    then: Callable[[Tensor], Tensor]  # joins the heads
    own: bool = True  # self-attention
    cache: KeyValue | None = None
    stepped: bool = False  # a step of beam search, whose keys are kept elsewhere
    inputs: tuple[Tensor, ...] = ()  # what was projected

    @property
    def cached(self) -> bool:
        """Whether n grows from call to call."""
        return self.cache is not None or self.stepped

    @property
    def whole(self) -> bool:
        """Whether every key has its query: no step of a cache."""
        return self.own and self.call.m == self.call.n


class Core(nn.Module):
    """A mechanism over heads of width `each`; subclasses define `definition` and `context`."""

    name: ClassVar[str] = ""

    def __init__(self, each: int, heads: int):
        super().__init__()
        self.each, self.heads = each, heads

    @property
    def facts(self) -> Entry:
        """What MECHANISMS says of it."""
        return MECHANISMS[self.name]

    def wrapped(self, score: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """The score it uses, where another is given."""
        return score

    def copy_projections(self, weights: tuple[Tensor, ...], biases: tuple[Tensor | None, ...]) -> None:
        """Take what it needs of the projections around it, W_q, W_k, W_v."""

    def definition(self, heads: Heads, causal: bool, shown: Tensor | None) -> Call:
        """What is computed, as a call whose plain steps give the same."""
        return heads.call

    def context(self, heads: Heads, call: Call, causal: bool, shown: Tensor | None) -> Tensor | None:
        """The context (..., heads, m, each) of the definition; None: by the backends of `attend`."""
        return None

    def forward(self, heads: Heads) -> Attended:
        """Attend; raises if the mask, the map or the sizes are not among those the mechanism can honour."""
        call = heads.call
        query, keys, values = changed_inputs(heads.owner, call.query, call.keys, call.values)
        call = replace(call, query=query, keys=keys, values=values, change=change_for(heads.owner))
        heads = replace(heads, call=call)
        causal, shown = self._check(heads)
        facts = self.facts
        with exact(query):
            call = self.definition(heads, causal, shown)
            parted = each_row_alone(call.map) or not facts.parted or facts.sorts
            context = self.context(heads, call, causal, shown) if call.change is None and parted else None
            kept = None
            if context is None:
                context, kept = dispatch(call.canonical())
        seen = self.attended(heads.then(context.to(query.dtype)), call, kept)
        show(heads.owner, seen)
        return seen

    def attended(self, context: Tensor, call: Call, kept: Tensor | None) -> Attended:
        """What is shown of it."""
        return Attended(context, call, kept, versions_of(call))

    def _check(self, heads: Heads) -> tuple[bool, Tensor | None]:
        """Whether the mask is causal, and the keys (..., 1, n) it shows to all."""
        call, facts = heads.call, self.facts
        if not heads.own and not facts.across:
            raise ValueError(
                f"{self.name} is for self-attention: its keys must be those of the queries. "
                "For attention to another sequence use full, linformer, linear_attention or performer."
            )
        causal = call.mask is not None and any(isinstance(part, Causal) for part in call.mask.parts())
        if causal and not facts.causal:
            raise ValueError(
                f"{self.name} takes no Causal mask: {facts.why_not_causal}. It takes {facts.takes}."
            )
        if facts.masks == "any":
            return causal, None
        found = causal_and_keys(call.mask, call.m, call.n, len(call.batch), call.query.device)
        if found is None:
            raise ValueError(
                f"{self.name} cannot honour {call.mask!r}, which hides other keys from each query. "
                f"It takes {facts.takes}."
            )
        if call.dropout and facts.masks == "keys" and not facts.maps:
            raise SettingsError(f"{self.name} has no single weights to drop: set its dropout to 0.")
        return found

    def factors(self, call: Call) -> tuple[Tensor, Tensor]:
        """Query and keys whose dot products are θ, positions included, in float32 or float64."""
        assert isinstance(call.score, Factored)
        return call.factors()


class KernelCore(Core):
    """Attention by features; where keys are cached and no gradient is asked for, a step needs two sums alone.

    The keys stay in the cache: weights are of these, when somebody looks.
    """

    def context(self, heads: Heads, call: Call, causal: bool, shown: Tensor | None) -> Tensor | None:
        cache, score = heads.cache, call.score
        if cache is None or not cache.grows or not causal or shown is not None or torch.is_grad_enabled():
            return None
        assert isinstance(score, Kernel)
        query, keys, values = (widened(t) for t in (call.query, call.keys, call.values))
        place = (call.where(),) if score.uses_place else ()
        if place and not place[0].encoded:
            return None
        state = cache.carried
        if call.m > 1 or not isinstance(state, State) or state.read != call.n - 1:
            cache.carried = State.of(score.of_call(query, keys, *place), values)
            return None
        last = tuple(replace(one, keys=one.keys[..., -1:]) for one in place)  # its keys know their positions
        found = score.of_call(query, keys[..., -1:, :], *last)
        context, cache.carried = step(found, values[..., -1:, :], state)
        return context


class Mechanism(MultiHead):
    """Multi-head attention around a core: called as `MultiHead` is.

    Settings of its own are those of its core; `regard.MECHANISMS[name].settings` lists them.
    """

    core_kind: ClassVar[type[Core]]
    name: ClassVar[str] = ""

    def __init__(
        self,
        width: int,
        heads: int = 8,
        *,
        score: str | Callable[..., Tensor] | None = None,
        map: str | Callable[..., Tensor] = "softmax",
        dropout: float = 0.0,
        bias: bool = True,
        **settings: Any,
    ):
        facts = MECHANISMS[self.name]
        for name in settings:
            if name not in facts.settings:
                known = ", ".join(facts.settings) or "none"
                raise ValueError(f'{self.name} has no setting "{name}". Its settings: {known}.')
        if heads < 1 or width % heads:
            raise ValueError(f"{self.name}: heads must divide the width; got width={width}, heads={heads}.")
        super().__init__(
            width, heads, score=facts.score if score is None else score, map=map, dropout=dropout, bias=bias
        )
        self.core = self.core_kind(width // heads, heads, **settings)
        check_parts(facts, self.score, self.map)
        self.score = self.core.wrapped(self.score)
        layers = (self.W_q, self.W_k, self.W_v)
        self.core.copy_projections(
            tuple(layer.weight for layer in layers), tuple(layer.bias for layer in layers)
        )

    def new_cache(self) -> KeyValue:
        """An empty cache: without codes, as which keys are read is for the mechanism to say."""
        return KeyValue()

    def _run(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, sees: Tensor | None, place: Place | None,
        cache: KeyValue | None, inputs: tuple[Tensor, ...],
    ) -> Attended:  # fmt: skip
        dropout = self.dropout if self.training else 0.0
        call = Call(q, k, v, self.score, self.map, mask, sees, place, dropout)
        heads = Heads(call, self, self._joined, len(inputs) == 1, cache, inputs=inputs)
        seen: Attended = self.core(heads)
        return seen

    def step(self, x: Tensor, past: Branches, layer: int) -> Tensor:
        """Self-attention of the next position of r hypotheses, x (r, 1, width): its context (r, 1, width)."""
        q = self._split(self.W_q(x), self.heads)  # (r, heads, 1, each)
        k, v = (W(x).view(len(x), self.heads, -1) for W in (self.W_k, self.W_v))
        place, t = None, len(past)
        turned = self._encoded(k.unsqueeze(-2), range(t - 1, t))
        if turned is not None:
            k, place = turned.squeeze(-2), Place.default(1, t, x.device, encoded=True)
        past.write(layer, k, v)
        keys, values = past.of(layer)
        dropout = self.dropout if self.training else 0.0
        call = Call(q, keys, values, self.score, self.map, Causal(), None, place, dropout)
        seen: Attended = self.core(Heads(call, self, self._joined, stepped=True, inputs=(x,)))
        return seen.context


def check_parts(facts: Entry, score: Callable[..., Tensor], map: Callable[..., Tensor]) -> None:
    """Raise if a mechanism cannot have this score or map."""
    name = name_of(map)
    if not facts.maps and map is not resolve_map("softmax"):
        can = ", ".join(name for name, entry in MECHANISMS.items() if entry.maps)
        raise ValueError(f"{facts.name} has no map but softmax; got map={name}. Any map: {can}.")
    found = facts_of(map)
    if facts.parted and acts_on_matrix(map):
        can = ", ".join(name for name, entry in MECHANISMS.items() if entry.maps and not entry.parted)
        raise ValueError(
            f"{facts.name} takes maps of a row alone; got map={name}, which acts on the whole matrix. Such "
            f"maps: {can}."
        )
    if facts.sorts and found is not None and (found.neighbours or found.stochastic):
        raise ValueError(
            f"{facts.name} sorts the keys, and takes no map that looks at neighbours or draws random "
            f"numbers; got map={name}. Others do, as local and bigbird."
        )
    if facts.masks == "keys" and not isinstance(score, Factored):
        raise ValueError(
            f"{facts.name} takes scores that are dot products (scaled_dot, dot, rotary positions); got "
            f"{type(score).__name__}. full and local take any score."
        )


def make_core(
    name: str, each: int, heads: int, score: Any, map: Any, **settings: Any
) -> tuple[Core, Any, Any]:
    """A core by name, with the score and the map it uses: for heads that are projected elsewhere."""
    facts = MECHANISMS[name]
    for setting in settings:
        if setting not in facts.settings:
            known = ", ".join(facts.settings) or "none"
            raise ValueError(f'{name} has no setting "{setting}". Its settings: {known}.')
    core = facts.kind.core_kind(each, heads, **settings)
    made = SCORES[facts.score].make(each, each) if score is None else score
    check_parts(facts, made, map)
    return core, core.wrapped(made), map


def parsed(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the settings in a text such as "bigbird" or "bigbird:block=16+near=2"."""
    name, _, rest = text.partition(":")
    facts = MECHANISMS[name]
    settings: dict[str, Any] = {}
    for part in filter(None, re.split("[,+]", rest)):
        key, found, value = part.partition("=")
        if not found or key not in facts.settings:
            known = ", ".join(f"{k}={v}" for k, v in facts.settings.items()) or "none"
            raise ValueError(f'{name} has no setting "{part}". Its settings: {known}.')
        default = facts.settings[key]
        try:
            settings[key] = value if isinstance(default, str) else int(value)
        except ValueError:
            raise ValueError(f"{name}: {key} must be a whole number; got {value!r}.") from None
    return name, settings


def make(text: str, width: int, heads: int, *, score: Any = None, **more: Any) -> Mechanism:
    """A mechanism by name, as settings have it: "performer", "local:window=32"."""
    name, settings = parsed(text)
    return MECHANISMS[name].make(width, heads, score=score, **more, **settings)


def at_least_one(name: str, **settings: int) -> None:
    """Require whole numbers of at least 1."""
    for key, value in settings.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name}: {key} must be a whole number, at least 1; got {value!r}.")


class Pattern(Mask):
    """A mask by positions: `sees(i, j)` says whether a query at i sees a key at j, for i (r, 1), j (c,)."""

    def sees(self, i: Tensor, j: Tensor, n: int) -> Tensor:
        """(r, c), or (heads, r, c)."""
        raise NotImplementedError

    def rows(self, start: int, stop: int, m: int, n: int, axes: int, device: torch.device) -> Tensor:
        return self.cells(start, stop, 0, n, m, n, axes, device)

    def cells(
        self, start: int, stop: int, first: int, last: int, m: int, n: int, axes: int, device: torch.device
    ) -> Tensor:
        i = torch.arange(n - m + start, n - m + stop, device=device).unsqueeze(-1)
        return self.sees(i, torch.arange(first, last, device=device), n)


def joined(pattern: Mask, mask: Mask | None) -> Mask:
    """Both masks."""
    return pattern if mask is None else pattern & mask
