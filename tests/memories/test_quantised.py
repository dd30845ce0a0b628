"""The cache with codes holds what a KeyValue holds, however it grew, and codes that belong to its keys."""

import pytest
import torch

import regard
from regard.backends.key_codes import has_byte_products
from regard.masks import Causal
from regard.memories import KeyValue, Quantised

pytestmark = pytest.mark.skipif(not has_byte_products(), reason="the machine has no AVX2")


def pair(n, b=2, kv=2, d=64):
    torch.manual_seed(n)
    return torch.randn(b, kv, n, d), torch.randn(b, kv, n, d)


def filled(k, v, steps, **settings):
    cache, at = Quantised(**{"long": 20, **settings}), 0
    for size in steps:
        held = cache.append(k[..., at : at + size, :], v[..., at : at + size, :])
        at += size
        assert held[0].shape[-2] == at
        assert cache.codes is None or len(cache) >= 20
    return cache


def belongs(cache, k, v):
    """Keys, values and codes are those of a new cache with k and v."""
    assert torch.equal(cache.keys, k) and torch.equal(cache.values, v)
    q = 2 * torch.randn(k.shape[0], k.shape[1], 1, k.shape[-1])
    new = Quantised(long=20)
    new.append(k, v)
    assert torch.equal(cache.attend(q), new.attend(q))


@pytest.mark.parametrize("steps", [[60], [1] * 60, [30, 30], [19, 1, 40], [7, 30, 1, 1, 21]])
@pytest.mark.parametrize("bits", [4, 7])
def test_growing_in_steps(steps, bits):
    k, v = pair(60)
    cache = filled(k, v, steps, bits=bits)
    whole = filled(k, v, [60], bits=bits)
    assert torch.equal(cache.keys, k) and torch.equal(cache.values, v)
    (codes, first, last), (other, _, _) = cache.codes, whole.codes
    assert (first, last) == (0, 60)
    size = 64 * codes.each  # eight blocks of 8 keys: the last is half full
    assert (codes.packed[:, :size][:, : 56 * codes.each] == other.packed[:, : 56 * codes.each]).all()
    assert (codes.scales[:, :60] == other.scales[:, :60]).all()
    assert (codes.errors[:, :60] == other.errors[:, :60]).all() and (codes.norms == other.norms).all()


def test_a_copy_goes_on_by_itself():
    k, v = pair(80)
    one = filled(k[..., :50, :], v[..., :50, :], [50])
    other, before = one.copy(), one.keys
    one.append(k[..., 50:51, :], v[..., 50:51, :])
    other.append(k[..., 60:63, :], v[..., 60:63, :])
    one.append(k[..., 51:52, :], v[..., 51:52, :])
    assert torch.equal(before, k[..., :50, :])
    belongs(one, k[..., :52, :], v[..., :52, :])
    places = [*range(50), 60, 61, 62]
    belongs(other, k[..., places, :], v[..., places, :])


def test_rows_are_chosen_and_the_cache_goes_on():
    k, v = pair(60, b=3)
    cache = filled(k[..., :50, :], v[..., :50, :], [50])
    index = torch.tensor([2, 0, 0, 1])
    cache.select(index)
    belongs(cache, k[index][..., :50, :], v[index][..., :50, :])
    cache.append(k[index][..., 50:, :], v[index][..., 50:, :])
    belongs(cache, k[index], v[index])


@pytest.mark.parametrize("gone", [0, 3, 8, 21, 40])
def test_forgetting(gone):
    k, v = pair(90)
    cache = filled(k[..., :70, :], v[..., :70, :], [70])
    held = cache.keys
    cache.forget(gone)
    assert len(cache) == 70 - gone
    belongs(cache, k[..., gone:70, :], v[..., gone:70, :])
    for j in range(70, 90):
        cache.append(k[..., j : j + 1, :], v[..., j : j + 1, :])
    belongs(cache, k[..., gone:, :], v[..., gone:, :])
    cache.forget(5)
    cache.append(*pair(60))  # moves
    assert torch.equal(cache.keys[..., : 85 - gone, :], k[..., gone + 5 :, :])
    assert torch.equal(held, k[..., :70, :])
    with pytest.raises(ValueError, match="count must be from 0"):
        cache.forget(1000)


def test_taking_back():
    k, v = pair(70)
    cache = filled(k[..., :60, :], v[..., :60, :], [60])
    guessed = cache.keys
    cache.crop(50)
    belongs(cache, k[..., :50, :], v[..., :50, :])
    cache.append(k[..., 60:61, :], v[..., 60:61, :])
    places = [*range(50), 60]
    belongs(cache, k[..., places, :], v[..., places, :])
    assert torch.equal(guessed, k[..., :60, :])
    cache.crop(3)
    assert cache.codes is None and cache.attend(torch.randn(2, 2, 1, 64)) is None


def test_it_is_a_key_value_cache_where_there_can_be_no_codes():
    for k, v in (pair(60, d=20), [t.double() for t in pair(60)], [t.half() for t in pair(60)]):
        cache = filled(k, v, [30, 30])
        assert cache.codes is None and torch.equal(cache.keys, k)
        cache.forget(7)
        assert torch.equal(cache.values, v[..., 7:, :])
    k, v = pair(60)
    cache = filled(k, v, [30])
    more = k[..., 30:, :].clone().requires_grad_()
    keys, _ = cache.append(more, v[..., 30:, :])
    assert keys.requires_grad and cache.codes is None
    keys.sum().backward()
    assert bool((more.grad == 1).all())
    cache = Quantised()
    with pytest.raises(RuntimeError, match="empty"):
        len(cache.keys)


def test_memory():
    k, v = pair(4096, b=1, kv=3)
    cache = filled(k, v, [4096])
    exact, codes = cache.nbytes
    assert codes <= 0.15 * exact and exact >= 4 * (k.numel() + v.numel())


@pytest.mark.parametrize("map", ["sparsemax", "entmax15", "softmax"])
@pytest.mark.parametrize("rotary", [False, True])
def test_steps_of_heads_equal_the_whole(map, rotary):
    torch.manual_seed(0)
    score = regard.positions.Rotary(32) if rotary else "scaled_dot"
    heads = regard.MultiHead(128, 4, key_value_heads=2, map=map, score=score).eval()
    x = 3 * torch.randn(2, 60, 128)
    with torch.no_grad():
        whole = heads(x, mask=Causal()).context
        cache = heads.new_cache()
        assert isinstance(cache, Quantised) == (map != "softmax")
        if isinstance(cache, Quantised):
            cache.long = 20
        parts = [
            heads(part, mask=Causal(), cache=cache).context for part in x.split([30, 1, 1, 2] + [1] * 26, 1)
        ]
        torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=0, atol=2e-5)
    stats = regard.decoding_stats(heads)
    assert (map == "softmax") == (not stats) and all(set(s.fallbacks) <= {"flat"} for s in stats.values())


def test_memory_of_a_source_has_codes_if_it_is_long():
    heads = regard.MultiHead(64, 2, map="entmax15").eval()
    x = torch.randn(2, 1200, 64)
    with torch.no_grad():
        cache = heads.project(x)
        assert cache.codes is not None and heads.project(x[:, :50]).codes is None
        query = 5 * torch.randn(2, 5, 64)  # five hypotheses
        found = heads(query, x, cache=cache).context
        torch.testing.assert_close(found, heads(query, x).context, rtol=0, atol=1e-5)
    assert isinstance(cache, KeyValue) and regard.decoding_stats(heads)[""].steps == 10
