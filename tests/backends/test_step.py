"""The step backend: a few queries, many keys, no gradient; it gives what the plain steps give."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import regard
from regard.backends import step
from regard.backends.plain import plain
from regard.kernels.common import pool
from regard.masks import Causal, Lengths, Mask, Window

SHAPES = {
    "grouped": ((2, 3, 2, 1, 16), (2, 3, 1, 130, 16)),
    "one head, width of no vector": ((1, 13), (333, 13)),
    "several queries, shared by all": ((2, 5, 3, 8), (1, 1, 200, 8)),
    "more queries than a pass takes": ((3, 4, 8, 32), (3, 1, 150, 32)),
    "several chunks of keys": ((2, 3, 1, 8), (2, 1, 2103, 8)),
    "many keys, grouped": ((1, 2, 3, 2, 8), (1, 2, 1, 2103, 8)),
}
MASKS = {"none": None, "causal": Causal(), "window": Causal() & Window(20)}
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
HALF = (torch.bfloat16, torch.float16)


def call(q, k, v, map, mask=None):
    with torch.no_grad():
        return regard.attend(q, k, v, map=map, mask=mask)._call


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("map", step.HALVES)
@pytest.mark.parametrize("scale", [0.1, 1, 8])
def test_equals_the_plain_steps(map, shapes, mask, dtype, scale):
    torch.manual_seed(0)
    q, k, v = (torch.randn(SHAPES[shapes][i], dtype=dtype) for i in (0, 1, 1))
    made = call(scale * q, k, v, map, MASKS[mask])
    assert step.takes(made)
    torch.testing.assert_close(step.step(made), plain(made)[0], rtol=0, atol=TOLERANCE[dtype] * max(1, scale))


@pytest.mark.parametrize("map", step.HALVES)
def test_threads_share_the_chunks_of_a_group(map, monkeypatch):
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 3, 1, 16), torch.randn(2, 1, 9000, 16), torch.randn(2, 1, 9000, 16)
    made = call(4 * q, k, v, map, Lengths(torch.tensor([[9000], [2501]])) & Window(7001))
    alone, before = step.step(made), torch.get_num_threads()
    monkeypatch.setattr(step, "LEAST", 1)
    try:
        torch.set_num_threads(2)
        for _ in range(20):
            torch.testing.assert_close(step.step(made), alone, rtol=0, atol=1e-6)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(alone, plain(made)[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("map", step.HALVES)
def test_python_threads_where_there_is_no_openmp(map, monkeypatch):
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 3, 1, 16), torch.randn(2, 1, 9000, 16), torch.randn(2, 1, 9000, 16)
    made, before = call(q, k, v, map), torch.get_num_threads()
    alone = step.step(made)
    monkeypatch.setattr(step, "LEAST", 1)
    monkeypatch.setattr(pool, "_openmp", lambda: None)
    try:
        torch.set_num_threads(2)
        torch.testing.assert_close(step.step(made), alone, rtol=0, atol=1e-6)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("map", step.HALVES)
def test_eight_threads_at_once(map):
    """Each has memory of its own to work in."""
    torch.manual_seed(0)
    made = [call(torch.randn(2, 1, 16), *torch.randn(2, 2, 1500 + i, 16), map) for i in range(8)]
    alone = [step.step(one) for one in made]
    with ThreadPoolExecutor(8) as threads:
        for found, wanted in zip(threads.map(step.step, made * 20), alone * 20, strict=True):
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("map", step.HALVES)
def test_rows_of_nothing_and_of_what_is_no_number(map):
    q, k, v = torch.ones(5, 1, 8), torch.randn(5, 140, 8), torch.randn(5, 140, 8)
    k[1, 7], k[2, 9, 0], k[3] = float("nan"), float("inf"), float("-inf")
    made = call(q, k, v, map, Lengths(torch.tensor([140, 140, 140, 140, 0])))
    torch.testing.assert_close(step.step(made), plain(made)[0], rtol=0, atol=1e-6, equal_nan=True)
    assert made.mask is not None and not step.step(made)[[3, 4]].any()


@pytest.mark.parametrize("map", step.HALVES)
def test_huge_scores_do_not_overflow(map):
    q, k, v = torch.full((1, 4), 1e15), torch.randn(150, 4), torch.randn(150, 4)
    made = call(q, k * 1e15, v, map)
    torch.testing.assert_close(step.step(made), plain(made)[0])


@pytest.mark.parametrize("map", step.HALVES)
def test_reads_a_cache_where_it_stands(map):
    """Keys as projections leave them, (b, n, heads, d) with axes swapped, and the front of a buffer."""
    torch.manual_seed(0)
    buffer = torch.randn(2, 400, 3, 16).transpose(1, 2)[:, :, :300]
    q = torch.randn(2, 3, 1, 16)
    made = call(q, buffer, buffer, map)
    assert made.keys.data_ptr() == buffer.data_ptr()
    torch.testing.assert_close(step.step(made), plain(made)[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("sink", [None, 0.5, torch.tensor([3.0, -100.0, 0.0, 1.0, 2.0, 9.0])])
@pytest.mark.parametrize("alibi", [False, True])
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("map", step.HALVES)
def test_a_sink_and_a_bias_by_distance(map, groups, alibi, sink):
    torch.manual_seed(0)
    q, k = torch.randn(2, 6, 2, 8), torch.randn(2, 6 // groups, 1500, 8)
    score = regard.scores.ScaledDot()
    score = score + regard.positions.ALiBi(6) if alibi else score
    with torch.no_grad():
        seen = regard.attend(q, k, score=score, map=map, sink=sink, groups=groups, mask=Causal())
    made = seen._call.canonical()
    found = step.step(made)
    torch.testing.assert_close(found, plain(made)[0], rtol=0, atol=1e-5)
    assert (made.products().distance is not None) == alibi


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("map", step.HALVES)
def test_half_precision_is_that_of_its_numbers_in_float64(map, shapes, mask, dtype):
    """Keys are widened as they are read: the context in float32 is that of the definition to rounding."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(SHAPES[shapes][i], dtype=torch.float64).to(dtype) for i in (0, 1, 1))
    made, exact = call(q, k, v, map, MASKS[mask]), call(q.double(), k.double(), v.double(), map, MASKS[mask])
    assert step.takes(made)
    found, wanted = step.step(made), plain(exact)[0]
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=1e-5)
    with torch.no_grad():
        seen = regard.attend(q, k, v, map=map, mask=MASKS[mask])
    assert torch.equal(seen.context, found.to(dtype))


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("map", step.HALVES)
def test_half_precision_with_all_numbers_there_are(map, dtype):
    """Denormal numbers, signed zeros and the largest: each is read as it is."""
    bits = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(dtype)
    bits = bits[bits.isfinite() & (bits.abs() <= 60000)].view(-1, 1)
    q = torch.tensor([[1.0]], dtype=dtype)
    made = call(q, bits * 1e-4, bits, map)
    exact = call(q.double(), made.keys.double(), bits.double(), map)
    torch.testing.assert_close(step.step(made).double(), plain(exact)[0], rtol=1e-5, atol=1e-3)


SCORES = {
    "dot": regard.scores.Dot(),
    "bilinear": regard.scores.Bilinear(8, 8),
    "alibi": regard.scores.ScaledDot() + regard.positions.ALiBi(6),
    "temperature": regard.scores.Temperature("scaled_dot", 0.7),
    "cosine": regard.scores.Cosine(),
    "rotary": regard.positions.Rotary(8),
}


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("score", SCORES)
def test_scores_of_half_precision(score, dtype):
    """Scores that leave the keys alone read them as they are; for others keys are made in float32."""
    torch.manual_seed(0)
    q, k = torch.randn(2, 6, 2, 8).to(dtype), torch.randn(2, 2, 300, 8).to(dtype)
    options = {"score": SCORES[score], "map": "entmax15", "groups": 3, "mask": Causal()}
    with torch.no_grad():
        seen = regard.attend(q, k, **options)
        wide = regard.attend(q.float(), k.float(), **options)
    assert (step.step(seen._call.canonical()) is None) == (score in ("cosine", "rotary"))
    torch.testing.assert_close(seen.context, wide.context.to(dtype), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(("d_q", "d_k"), [(4, 8), (8, 4), (1, 13)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_score_of_different_widths(d_q, d_k, dtype):
    """Bilinear makes queries as wide as the keys."""
    torch.manual_seed(0)
    score = regard.scores.Bilinear(d_q, d_k)
    q, k = torch.randn(2, 3, d_q).to(dtype), torch.randn(2, 300, d_k).to(dtype)
    with torch.no_grad():
        made = regard.attend(q, k, score=score)._call
        torch.testing.assert_close(step.step(made), plain(made)[0], rtol=0, atol=1e-5)


class Wide(regard.scores.ScaledDot):
    """A score of one's own that makes queries of another dtype."""

    def factors(self, query, keys):
        return query.double(), keys


class Beyond(Mask):
    """Rows that say more keys than there are."""

    def interval(self, m, n, axes, device):
        return torch.tensor([-5]), torch.tensor([n + 1000])


@pytest.mark.parametrize("map", step.HALVES)
def test_nothing_is_read_that_is_not_there(map):
    q, k = torch.randn(2, 1, 8), torch.randn(2, 1030, 8)
    torch.testing.assert_close(
        step.step(call(q, k, k, map, Beyond())), plain(call(q, k, k, map))[0], rtol=0, atol=1e-5
    )
    with pytest.raises(RuntimeError, match=r"dtype|Double"):
        regard.attend(q, k, score=Wide(), map=map)


@pytest.mark.parametrize("map", step.HALVES)
@pytest.mark.parametrize("batch", [(0,), (0, 3), (3, 0)])
def test_a_batch_of_nothing(map, batch):
    q, k = torch.randn(*batch, 1, 8), torch.randn(*batch, 200, 8)
    with torch.no_grad():
        assert regard.attend(q, k, map=map).context.shape == q.shape


def test_looking_and_dispatch():
    q, k = torch.randn(2, 1, 8), torch.randn(2, 200, 8)
    attention = regard.Attention(map="entmax15")
    with torch.no_grad():
        alone = attention(q, k).context
        with regard.record(attention) as seen:
            assert torch.equal(attention(q, k).context, alone)
    (call,) = seen[""]
    torch.testing.assert_close(call.weights @ k, alone)


def test_what_it_leaves_to_others():
    q, k, v = torch.randn(2, 1, 8), torch.randn(2, 200, 8), torch.randn(2, 200, 8)
    assert step.takes(call(q, k, v, "sparsemax"))
    assert not step.takes(call(q, k[:, :100], v[:, :100], "sparsemax"))  # few keys
    assert not step.takes(call(q.expand(2, 20, 8), k, v, "sparsemax"))  # many queries
    assert not step.takes(call(q, k, v, "fusedmax"))
    assert not step.takes(call(q, k.mT.contiguous().mT, v, "sparsemax"))
    assert not step.takes(call(q, k, v, "sparsemax", torch.rand(1, 200) > 0.5))
    q.requires_grad_()
    assert not step.takes(regard.attend(q, k, v, map="sparsemax")._call)
