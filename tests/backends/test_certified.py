"""The certified backend gives what the definition gives in float64, or leaves the call to others."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch

import regard
from regard.attention import run
from regard.backends import certified, key_codes
from regard.core.decoding_counts import Counts, known_counts
from regard.maps import Entmax, entmax, entmax15, sparsemax, top_k_softmax, top_k_sparsemax
from regard.masks import Causal, Lengths, Window
from regard.memories import Quantised
from regard.scores import ScaledDot

pytestmark = pytest.mark.skipif(not key_codes.has_byte_products(), reason="the machine has no AVX2")
SHORT = 40  # keys from which on these caches have codes
MAPS = {
    "sparsemax": sparsemax,
    "entmax15": entmax15,
    "entmax 1.3": partial(entmax, alpha=1.3),
    "entmax 1.8, a module": Entmax(1.8),
    "top-k softmax": top_k_softmax,
    "top-k sparsemax": partial(top_k_sparsemax, k=3),
    "top-k of many": partial(top_k_softmax, k=30),
}


class Owner(regard.Attentive):
    """An attention to count for."""


def attended(q, k, v, map, *, groups=1, mask=None, bits=4, sink=None, score=None):
    """(context by codes, the definition in float64, what was counted)."""
    cache, owner = Quantised(bits=bits, long=SHORT), Owner()
    with torch.no_grad():
        cache.append(k, v)
        mask = None if mask is None else regard.masks.as_mask(mask)
        found = run(
            q, cache.keys, cache.values, score or ScaledDot(), map, mask, None, None, 0.0, owner, sink=sink,
            groups=groups, codes=cache.codes,
        )  # fmt: skip
        wide = [t.double() for t in (q, k, v)]
        named = {"score": score} if score else {}
        whole = regard.attend(
            *wide, map=map, mask=mask, groups=groups, sink=None if sink is None else sink.double(), **named
        )
        return found.context, (whole.weights @ _each(wide[2], groups)).float(), known_counts(owner)


def _each(values, groups):
    return values.repeat_interleave(groups, -3) if groups > 1 else values


def close(a, b):
    torch.testing.assert_close(a, b, rtol=0, atol=1e-5 * max(float(b.abs().max()), 1e-3))


def drawn(heads, kv, n, d, m=1, b=1, scale=3.0, d_v=None):
    torch.manual_seed(n + d + m)
    return (
        scale * torch.randn(b, heads, m, d),
        torch.randn(b, kv, n, d),
        torch.randn(b, kv, n, d_v or d),
    )


@pytest.mark.parametrize("bits", [4, 7])
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("n", [40, 513])
def test_equals_the_definition(name, n, bits):
    q, k, v = drawn(6, 2, n, 64, m=2, b=2)
    found, expected, counts = attended(q, k, v, MAPS[name], groups=3, bits=bits)
    close(found, expected)
    assert not counts.fallbacks and counts.by_head()[:, 0].tolist() == [4] * 6


@pytest.mark.parametrize(("d", "d_v"), [(32, 32), (40, 64), (80, 80), (96, 128), (128, 128), (256, 256)])
@pytest.mark.parametrize(("heads", "kv"), [(1, 1), (5, 1), (4, 4), (8, 2)])
def test_any_width_and_any_group(d, d_v, heads, kv):
    q, k, v = drawn(heads, kv, 200, d, d_v=d_v)
    found, expected, counts = attended(q, k, v, entmax15, groups=heads // kv)
    close(found, expected)
    assert not counts.fallbacks


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_flat_and_peaked_scores(scale):
    q, k, v = drawn(2, 2, 300, 64, scale=scale)
    found, expected, counts = attended(q, k, v, entmax15)
    close(found, expected)
    assert counts.by_head()[:, 0].tolist() == [1, 1]


def test_each_head_with_its_own_alpha():
    map = Entmax(1.5, learn_alpha=True, heads=4)
    with torch.no_grad():
        map.a.copy_(torch.tensor([0.35, 0.5, 0.7, 0.95]).logit())
    q, k, v = drawn(4, 2, 300, 64, m=3, b=2)
    found, expected, counts = attended(q, k, v, map, groups=2)
    close(found, expected)
    assert not counts.fallbacks
    with torch.no_grad():
        map.a[0] = -3.0  # an α below 1.3: most keys have weight
    found, expected, counts = attended(q, k, v, map, groups=2)
    close(found, expected)
    assert counts.fallbacks == {"map": 1}


@pytest.mark.parametrize(
    "mask",
    [
        Lengths(torch.tensor([300, 77])),
        Lengths(torch.tensor([300, 3])),
        Lengths(torch.tensor([0, 1])),
        Causal(),
        Causal() & Window(50),
        Causal() & Lengths(torch.tensor([299, 298])),
    ],
    ids=repr,
)
def test_masks_that_are_intervals(mask):
    q, k, v = drawn(4, 2, 300, 64, m=4, b=2)
    found, expected, counts = attended(q, k, v, sparsemax, groups=2, mask=mask)
    close(found, expected)
    assert not counts.fallbacks


def test_another_mask_a_bias_and_many_queries_are_for_other_backends():
    q, k, v = drawn(4, 4, 300, 64)
    found, expected, counts = attended(q, k, v, entmax15, mask=torch.rand(1, 300) > 0.3)
    close(found, expected)
    assert counts.fallbacks == {"mask": 1}
    found, expected, counts = attended(q, k, v, entmax15, score=ScaledDot() + regard.positions.ALiBi(4))
    close(found, expected)
    assert counts.fallbacks == {"score": 1}
    q, k, v = drawn(4, 4, 300, 64, m=9)
    found, expected, counts = attended(q, k, v, entmax15)
    close(found, expected)
    assert not counts.fallbacks and not counts.tables


@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "top-k softmax", "top-k sparsemax"])
def test_sinks(name):
    q, k, v = drawn(4, 2, 200, 64)
    found, expected, counts = attended(
        q, k, v, MAPS[name], groups=2, sink=torch.tensor([-9.0, 0.0, 2.0, 9.0])
    )
    close(found, expected)
    assert not counts.fallbacks


@pytest.mark.parametrize("flaw", [float("nan"), float("inf"), float("-inf"), 1e30])
@pytest.mark.parametrize("where", ["query", "keys"])
def test_what_is_no_number_is_for_other_backends(flaw, where):
    q, k, v = drawn(2, 2, 200, 64)
    (q if where == "query" else k)[0, 1, 0, 5] = flaw
    cache, owner = Quantised(long=SHORT), Owner()
    with torch.no_grad():
        cache.append(k, v)
        arguments = ScaledDot(), entmax15, None, None, None, 0.0, owner
        found = run(q, cache.keys, cache.values, *arguments, codes=cache.codes).context
        expected = run(q, k, v, *arguments).context
    torch.testing.assert_close(found, expected, equal_nan=True)
    assert known_counts(owner).fallbacks == {"not finite": 1} or flaw == 1e30


def test_weights_that_are_not_sparse_are_left_to_a_scan_for_a_while():
    q, k, v = drawn(2, 2, 400, 64, scale=1e-3)
    cache, owner = Quantised(long=SHORT), Owner()
    with torch.no_grad():
        cache.append(k, v)
        for _ in range(certified.PAUSE + 2):
            found = run(
                q, cache.keys, cache.values, ScaledDot(), entmax15, None, None, None, 0.0, owner,
                codes=cache.codes,
            )  # fmt: skip
            close(found.context, regard.attend(q, k, v, map=entmax15).context)
    counts = known_counts(owner)
    assert counts.fallbacks == {"flat": certified.PAUSE} and counts.by_head()[:, 0].tolist() == [2, 2]


def test_without_avx2_there_are_no_codes(monkeypatch):
    monkeypatch.setattr(key_codes, "has_byte_products", lambda: False)
    q, k, v = drawn(2, 2, 200, 64)
    cache = Quantised(long=SHORT)
    cache.append(k, v)
    assert cache.codes is None and cache.attend(q) is None


@pytest.mark.parametrize("kv", [1, 3, 6])
def test_threads_give_the_same_bits_and_counts(monkeypatch, kv):
    """Several chunks of a scan, several rows of a group: whoever finishes them."""
    q, k, v = drawn(6, kv, 9000, 32)
    cache = Quantised(long=SHORT)
    cache.append(k, v)
    codes, n = cache.codes[0], k.shape[-2]
    alone, one = certified.attend_by_codes(codes, 0, n, q, 1.0, "entmax15", Counts()), Counts()
    certified.attend_by_codes(codes, 0, n, q, 1.0, "entmax15", one)
    monkeypatch.setattr(certified, "LEAST", 1)
    for threads in (2, 3, 4):
        torch.set_num_threads(threads)
        for _ in range(5):
            counts = Counts()
            found = certified.attend_by_codes(codes, 0, n, q, 1.0, "entmax15", counts)
            assert torch.equal(found, alone)
            assert (counts.by_head() == one.by_head()).all()


def test_many_callers_at_once(monkeypatch):
    q, k, v = drawn(4, 2, 5000, 32)
    cache = Quantised(long=SHORT)
    cache.append(k, v)
    alone = cache.attend(q)
    monkeypatch.setattr(certified, "LEAST", 1)

    def ask(_):
        torch.set_num_threads(2)
        return [torch.equal(cache.attend(q), alone) for _ in range(5)]

    with ThreadPoolExecutor(8) as pool:
        assert all(all(one) for one in pool.map(ask, range(8)))


def test_threads_refuse_what_is_no_number(monkeypatch):
    q, k, v = drawn(4, 2, 5000, 32)
    cache = Quantised(long=SHORT)
    cache.append(k, v)
    q[0, 3, 0, 0] = float("inf")
    monkeypatch.setattr(certified, "LEAST", 1)
    torch.set_num_threads(2)
    assert certified.attend_by_codes(cache.codes[0], 0, 5000, q, 1.0, "entmax15") is None


def test_looking_and_changing():
    heads = regard.MultiHead(128, 2, map="entmax15").eval()
    x = 4 * torch.randn(1, 60, 128)

    def step():
        cache = heads.new_cache()
        cache.long = SHORT
        heads(x[:, :-1], mask=Causal(), cache=cache)
        return heads(x[:, -1:], mask=Causal(), cache=cache)

    with torch.no_grad():
        alone = step().context
        with regard.record(heads) as seen:
            assert torch.equal(step().context, alone)
        weights = seen[""][-1].weights
        assert weights.shape == (1, 2, 1, 60)
        torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, 1))
        with regard.intervene(heads, lambda p: p):
            torch.testing.assert_close(step().context, alone)
        with regard.intervene(heads, lambda k: 0 * k, on="values"):
            assert not torch.equal(step().context, alone)
    stats = regard.decoding_stats(heads)[""]
    assert stats.steps == 2 and len(stats.heads) == 2 and 0 < stats.bytes_read < 1
    assert stats.heads[0].visible == 60 and 0 < stats.heads[0].support <= stats.heads[0].scored
    assert regard.decoding_stats(heads, reset=True) and not regard.decoding_stats(heads)
