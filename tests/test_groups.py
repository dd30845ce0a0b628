"""Grouped queries: heads that share keys give what copies of the keys give, and copy nothing."""

from functools import partial

import pytest
import torch

import regard
from regard import MAPS
from regard.core.errors import ShapeError
from regard.core.place import Place
from regard.masks import Causal, Lengths
from regard.memories import Branches, KeyValue
from regard.positions import ALiBi, Bias, Distance, Order, Relative, Rotary, T5Bias, TransformerXL
from regard.scores import Additive, Cosine, ScaledDot, SoftCap, States, Temperature

B, H, KV, M, N, D = 2, 6, 2, 3, 5, 4


class PerHead(torch.nn.Module):
    """A score of somebody's own, which knows that there are heads."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.arange(1.0, H + 1).view(H, 1, 1).double())

    def forward(self, query, keys):
        assert query.shape[-3] == keys.shape[-3] == H
        return (query * self.w) @ keys.mT


SCORES = {
    "scaled dot": lambda: ScaledDot(),
    "given scale": lambda: ScaledDot(0.3),
    "cosine": lambda: Cosine(),
    "additive": lambda: Additive(D, D, terms=[Order()]),
    "rotary": lambda: Rotary(D),
    "xl": lambda: TransformerXL(D, H),
    "temperatures": lambda: Temperature(ScaledDot() + Relative(D, 2), [0.5, 1, 2, 3, 4, 5], learn=True),
    "terms": lambda: SoftCap(ScaledDot() + ALiBi(H) + T5Bias(H, 8, 6) + Distance(1, H), 2.0),
    "bias of heads": lambda: ScaledDot() + Bias(torch.randn(H, M, N), learn=True),
    "bias of sequences": lambda: ScaledDot() + Bias(torch.randn(B, 1, M, N)),
    "own term": lambda: ScaledDot() + (lambda q, k, place: torch.arange(H).view(H, 1, 1).to(q) / 3),
    "own": PerHead,
}
MASKS = {
    "nothing": lambda: None,
    "causal": Causal,
    "joined": lambda: Causal() & Lengths(torch.tensor([5, 3])),
    "lengths of heads": lambda: Lengths(torch.arange(B * H).reshape(B, H) % N),
    "of heads": lambda: torch.arange(H * M * N).reshape(1, H, M, N) % 5 > 1,
    "of sequences": lambda: torch.arange(B * N).reshape(B, 1, 1, N) % 4 > 0,
    "both": lambda: Causal() & (torch.arange(B * H * M * N).reshape(B, H, M, N) % 3 > 0),
}


def inputs(grad=False):
    g = torch.Generator().manual_seed(0)
    shapes = [(B, H, M, D), (B, KV, N, D), (B, KV, N, 2)]
    return [torch.randn(s, dtype=torch.float64, generator=g).requires_grad_(grad) for s in shapes]


def compare(score, map="softmax", mask=None, **settings):
    inside = inputs(grad=True)
    q, k, v = inside
    seen = regard.attend(q, k, v, score=score, map=map, mask=mask, groups=H // KV, **settings)
    many = [x.repeat_interleave(H // KV, 1) for x in (k, v)]
    want = regard.attend(q, *many, score=score, map=map, mask=mask, **settings)
    for name in ("context", "weights", "query"):
        torch.testing.assert_close(getattr(seen, name), getattr(want, name), msg=name)
    assert (seen.visible is None) == (want.visible is None)
    visible = torch.ones_like(want.weights, dtype=torch.bool) if mask is None else want.visible
    assert mask is None or torch.equal(seen.visible.expand_as(want.weights), visible.expand_as(want.weights))
    if not getattr(map, "states", None):  # a key may be 0 if no head sees it, so only for those that do
        visible = visible.expand_as(want.weights)
        torch.testing.assert_close(seen.scores[visible], want.scores[visible])
    if mask is None:
        torch.testing.assert_close(
            (seen.scores, seen.keys, seen.values), (want.scores, want.keys, want.values)
        )
    leaves = [
        *inside,
        *(p for part in (score, map) if isinstance(part, torch.nn.Module) for p in part.parameters()),
    ]
    grads = [
        torch.autograd.grad(one.context.square().sum(), leaves, allow_unused=True) for one in (seen, want)
    ]
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b)
    assert repr(seen) == repr(want) and repr(seen.mask) == repr(want.mask)
    return seen


def score_of(name):
    torch.manual_seed(1)
    score = SCORES[name]().double()
    for p in score.parameters():
        torch.nn.init.normal_(p)
    return score


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("score", SCORES)
def test_equals_copies_of_the_keys(score, mask):
    compare(score_of(score), mask=MASKS[mask]())


@pytest.mark.parametrize(
    "map",
    ["entmax15", "sparsemax", "sinkhorn", "sigmoid", regard.maps.Entmax(1.3, learn_alpha=True, heads=H)],
    ids=str,
)
def test_with_every_kind_of_map(map):
    compare(score_of("terms"), map=map.double() if isinstance(map, torch.nn.Module) else map)


def test_with_sinks_and_states():
    compare(ScaledDot(), sink=torch.linspace(-1, 1, H).double())
    chain = regard.maps.Chain(2).double()
    compare(States(ScaledDot(), Cosine()), map=chain)


def test_an_intervention_sees_heads():
    heads = regard.MultiHead(24, H, key_value_heads=KV)
    shapes = []

    def change(p):
        shapes.append(tuple(p.shape))
        return torch.cat([p[:, :1] * 0, p[:, 1:]], 1)

    with regard.intervene(heads, change):
        seen = heads(torch.randn(B, M, 24))
    assert shapes == [(B, H, M, M)]
    assert (seen.weights[:, 0] == 0).all() and (seen.weights[:, 1:] > 0).all()


@pytest.mark.parametrize("map", ["softmax", "entmax15"])
def test_no_key_is_copied(map):
    """The keys that a backend gets are the memory of those that were given."""
    q, k, v = inputs()
    seen = regard.attend(q, k, v, map=map, groups=H // KV)
    call = seen._call
    assert call.keys.data_ptr() == k.data_ptr() and call.keys.shape == (B, KV, 1, N, D)
    products = call.products()
    assert products.keys is call.keys and products.query.shape == (B, KV, H // KV, M, D)


@pytest.mark.parametrize("score", ["scaled dot", "rotary", "terms"])
@pytest.mark.parametrize(
    "map", ["softmax", "entmax15", regard.maps.Entmax(1.3, learn_alpha=True, heads=H)], ids=str
)
def test_steps_of_a_beam_and_of_a_cache_are_rows_of_the_whole(score, map):
    torch.manual_seed(0)
    heads = regard.MultiHead(H * D, H, key_value_heads=KV, score=SCORES[score](), map=map).double()
    x = torch.randn(2, 6, H * D, dtype=torch.float64)
    with torch.no_grad():
        whole = heads(x, mask=Causal())
        past, cache = Branches.start(2, x.device), KeyValue()
        for t in range(6):
            past = past.grown()
            with regard.record(heads) as seen:
                stepped = heads.step(x[:, t : t + 1], past, 0)
            torch.testing.assert_close(stepped, whole.context[:, t : t + 1])
            (one,) = seen[""]
            torch.testing.assert_close(one.weights, whole.weights[:, :, t : t + 1, : t + 1])
            torch.testing.assert_close(heads.step(x[:, t : t + 1], past, 0), stepped)
            cached = heads(x[:, t : t + 1], mask=Causal(), cache=cache)
            torch.testing.assert_close(cached.context, stepped)
            assert cache.keys.shape == (2, KV, t + 1, D)


def test_positions_of_each_sequence():
    place = Place(torch.tensor([[[3, 4, 5]], [[0, 1, 2]]]), torch.arange(N).expand(B, 1, N))
    seen = compare(score_of("temperatures"), place=place)
    assert torch.equal(seen.place.queries, place.queries)


def test_what_does_not_fit_is_named():
    q, k, v = inputs()
    with pytest.raises(ShapeError, match=r"must broadcast.* If heads share keys, write groups=3"):
        regard.attend(q, k, v)
    with pytest.raises(ShapeError, match=r"with groups=2 the query must be"):
        regard.attend(q, k, v, groups=2)


SAME = {
    "partial(entmax, alpha=1.5)": (partial(regard.maps.entmax, alpha=1.5), "entmax15"),
    "partial(entmax)": (partial(regard.maps.entmax), "entmax15"),
    "entmax": (regard.maps.entmax, "entmax15"),
    "Entmax(1.5)": (regard.maps.Entmax(1.5), "entmax15"),
    "Entmax(2.0)": (regard.maps.Entmax(2.0), "sparsemax"),
    "partial(entmax, alpha=1)": (partial(regard.maps.entmax, alpha=1), "softmax"),
    "partial(sparsemax)": (partial(regard.maps.sparsemax), "sparsemax"),
    "partial(softmax)": (partial(regard.maps.softmax), "softmax"),
    "partial(partial)": (partial(partial(regard.maps.entmax, alpha=3.0), alpha=2), "sparsemax"),
    "an entry": (MAPS["softmax"], "softmax"),
    "partial(softmax, temperature=0.7)": (partial(regard.maps.softmax, temperature=0.7), "softmax"),
}


@pytest.mark.parametrize("spelling", SAME)
def test_a_map_may_be_spelled_in_many_ways(spelling):
    map, name = SAME[spelling]
    q, k, v = inputs()
    seen = regard.attend(q, k[:, :1], v[:, :1], map=map, score=SoftCap(ScaledDot(), 3.0))
    call = seen._call.canonical()
    assert call.name == name
    torch.testing.assert_close(call.products().written(), call.scores(None))
    torch.testing.assert_close(seen.weights, map(seen.scores))
    torch.testing.assert_close(seen.context, seen.weights @ v[:, :1])


def test_other_settings_make_another_map():
    for map in (
        partial(regard.maps.entmax, alpha=1.3),
        partial(regard.maps.entmax, alpha=torch.tensor(1.5)),
        regard.maps.Entmax(learn_alpha=True),
        partial(regard.maps.softmax, temperature=torch.tensor(2.0)),
        partial(regard.maps.fusedmax, strength=0.2),
    ):
        q, k, v = inputs()
        assert regard.attend(q, k[:, :1], v[:, :1], map=map)._call.canonical().name == ""
