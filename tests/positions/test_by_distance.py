"""Terms by distance: the same written out and as fast backends take them, and against the formulas."""

import math

import pytest
import torch

import regard
from regard.core.errors import ShapeError
from regard.core.place import Place
from regard.positions import ALiBi, Bias, Distance, Relative, RelativeValues, T5Bias, TransformerXL
from regard.scores import Dot, ScaledDot, SoftCap, Temperature

H, D = 3, 4
TERMS = {
    "distance": lambda: Distance(2, heads=H),
    "distance for all heads": lambda: Distance(2),
    "relative": lambda: Relative(D, 2),
    "alibi": lambda: ALiBi(H),
    "alibi for all heads": lambda: ALiBi(1),
    "alibi in half of the heads": lambda: ALiBi(H, [0.0] * (H // 2) + [1.0] * (H - H // 2)),
    "t5": lambda: T5Bias(H, 8, 6),
    "t5 for all heads": lambda: T5Bias(1, 8, 6),
    "t5 decoder": lambda: T5Bias(H, 4, 6, bidirectional=False),
}
every_term = pytest.mark.parametrize("term", TERMS)


def made(term):
    torch.manual_seed(0)
    term = TERMS[term]().double()
    for p in term.parameters():
        torch.nn.init.normal_(p)
    return term


def inputs(m, n, seed=0):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(2, H, s, D, dtype=torch.float64, generator=g) for s in (m, n)]


def places(m, n):
    """With and without `shift`: the last m of n, two sequences, and one given position by position."""
    for shift in (n - m, 0):
        i, j = torch.arange(m) + shift, torch.arange(n)
        yield Place(i, j, shift=shift)
        yield Place(i, j)
    yield Place(torch.tensor([5, 1, 3])[:m].repeat(2)[:m], torch.arange(n).flip(0))
    yield Place((torch.arange(m) + torch.tensor([[0], [4]]))[:, None], torch.arange(n).expand(2, 1, n))


@every_term
@pytest.mark.parametrize(("m", "n"), [(3, 7), (6, 6), (5, 2)])
def test_fast_and_written_out_are_the_same(term, m, n):
    term, (q, k) = made(term), inputs(m, n)
    score = Dot() + term
    for place in places(m, n):
        found = score.products(q, k, place)
        if place.shift is None:
            assert found is None
            continue
        assert found.bias is None and found.distance.table.shape[-1] <= max(m + n, 13)
        want = score(q, k, Place(place.queries, place.keys))
        torch.testing.assert_close(found.written(), want)
        torch.testing.assert_close(found.rows(1, 3).written(), want[..., 1:3, :])
        torch.testing.assert_close(score(q, k, place), want)


@pytest.mark.parametrize("one", TERMS)
@pytest.mark.parametrize("other", TERMS)
def test_two_of_them_are_one_table(one, other):
    terms, (q, k) = (made(one), made(other)), inputs(3, 7)
    score = SoftCap(Temperature(Dot() + terms[0] + terms[1] + Bias(torch.randn(H, 3, 7).double()), 2.0), 3.0)
    place = Place.default(3, 7, q.device)
    torch.testing.assert_close(score.products(q, k, place).written(), score(q, k, place))


@every_term
def test_positions_given_one_by_one(term):
    term, (q, k) = made(term), inputs(3, 7)
    for place in places(3, 7):
        found = term(q, k, place).expand(2, H, 3, 7)
        i, j = place.queries.expand(2, 1, 3), place.keys.expand(2, 1, 7)
        for b, a, c in ((0, 0, 0), (1, 2, 5), (1, 1, 6)):
            apart = Place(i[b, 0, a : a + 1], j[b, 0, c : c + 1])
            alone = term(q[b, :, a : a + 1], k[b, :, c : c + 1], apart).expand(H, 1, 1)
            torch.testing.assert_close(found[b, :, a, c], alone[:, 0, 0])


def test_alibi_is_the_paper_s():
    assert ALiBi(8).slopes == [2.0**-h for h in range(1, 9)]
    assert ALiBi(12).slopes == [2.0**-h for h in range(1, 9)] + [2.0 ** (-h / 2) for h in (1, 3, 5, 7)]
    assert ALiBi(1).slopes == [2.0**-8]
    bias = ALiBi(2)(*inputs(4, 4), Place.default(4, 4, torch.device("cpu")))
    for h, i, j in ((0, 3, 0), (1, 3, 1), (0, 0, 2)):
        assert bias[h, i, j] == -(2.0 ** (-4 * (h + 1))) * abs(i - j)
    with pytest.raises(ValueError, match="heads must be at least 1"):
        ALiBi(0)
    with pytest.raises(ValueError, match="2 slopes"):
        ALiBi(2, [1.0])


def test_alibi_loses_nothing_far_away():
    q = torch.zeros(8, 2, 4)
    far = torch.zeros(8, 16_384, 4)
    theta = (Dot() + ALiBi(8)).products(q, far, Place.default(2, 16_384, q.device)).written()
    assert torch.equal(theta[0, 1], -0.5 * (16_383 - torch.arange(16_384.0)))


def test_t5_buckets_are_those_of_transformers():
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    apart = torch.arange(-400, 400)
    from regard.positions.t5_bias import bucket

    for both in (True, False):
        for buckets, longest in ((32, 128), (16, 50), (8, 20)):
            want = t5.T5Attention._relative_position_bucket(apart, both, buckets, longest)
            assert torch.equal(bucket(apart, buckets, longest, both), want)
            exact = buckets // (4 if both else 2)
            assert bucket(torch.tensor([1 - exact]), buckets, longest, both) == exact - 1
    with pytest.raises(ValueError, match="longest more than buckets / 4"):
        T5Bias(2, 32, 8)


@every_term
def test_gradients_of_both_orders(term):
    term, (q, k) = made(term), [x.requires_grad_() for x in inputs(2, 3)]
    score = ScaledDot() + term
    parameters = list(score.parameters())
    place = Place.default(2, 3, q.device)

    def theta(*_):
        return score.products(q, k, place).written()

    assert torch.autograd.gradcheck(theta, (q, k, *parameters))
    context = lambda *_: regard.attend(q[0], k[0], score=score).context  # noqa: E731
    assert torch.autograd.gradgradcheck(context, (q, k, *parameters))


def xl_by_definition(score, q, k, i, j):
    """Dai et al.'s θ of one query and one key, a head at a time."""
    d, width = score.d, score.encoding
    out = []
    for h in range(score.heads):
        omega = [10_000 ** (-2 * c / width) for c in range(width // 2)]
        r = [f((i - j) * w) for w in omega for f in (math.sin, math.cos)]
        r = torch.tensor(r, dtype=torch.float64)
        u, v, W = score.u[h], score.v[h], score.W[h]
        out.append(((q[h] + u) @ k[h] + (q[h] + v) @ (W @ r)) / d**0.5)
    return torch.stack(out)


@pytest.mark.parametrize("encoding", [None, 10])
def test_transformer_xl_is_one_dot_product(encoding):
    torch.manual_seed(0)
    score = TransformerXL(D, H, encoding=encoding).double()
    for p in score.parameters():
        torch.nn.init.normal_(p)
    q, k = inputs(3, 7)
    theta = score(q, k)  # the last three of seven positions: four are memory
    given = score(q, k, Place(torch.arange(4, 7) + 1000, torch.arange(7) + 1000))
    torch.testing.assert_close(given, theta)
    for b, i, j in ((0, 0, 0), (1, 2, 6), (0, 1, 6), (1, 0, 3)):
        want = xl_by_definition(score, q[b, :, i], k[b, :, j], 4 + i, j)
        torch.testing.assert_close(theta[b, :, i, j], want, rtol=0, atol=1e-12)
    assert score.products(q, k, Place.default(3, 7, q.device)).bare
    with pytest.raises(ValueError, match="encoding must be even"):
        TransformerXL(4, encoding=3)


@pytest.mark.parametrize("score", ["xl", "relative", "t5"])
def test_memory_by_concatenation_is_the_whole_sequence(score):
    torch.manual_seed(0)
    scores = {
        "xl": TransformerXL(4, 4),
        "relative": ScaledDot() + Relative(4, 3),
        "t5": Dot() + T5Bias(4, 8, 6),
    }
    heads = regard.MultiHead(16, 4, score=scores[score]).double()
    for p in heads.parameters():
        torch.nn.init.normal_(p, std=0.5)
    x, causal = torch.randn(2, 9, 16, dtype=torch.float64), regard.masks.Causal()
    whole, new = heads(x, mask=causal), heads(x[:, 6:], x, mask=causal)
    torch.testing.assert_close(new.context, whole.context[:, 6:])


@pytest.mark.parametrize("shared", [1, 2])
def test_relative_values_are_added_to_each_value(shared):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, s, D, dtype=torch.float64, requires_grad=True) for s in (3, 6, 6))
    term = RelativeValues(D, 2).double()
    k, v = k[:, : 4 // shared], v[:, : 4 // shared]
    seen = regard.attend(q, k, v, value_term=term, map="entmax15", groups=shared)
    want = seen.weights @ seen.values
    for i in range(3):
        for j in range(6):
            a = term.a[min(max(j - (3 + i), -2), 2) + 2]
            want[:, :, i] = want[:, :, i] + seen.weights[:, :, i, j, None] * a
    torch.testing.assert_close(seen.context, want)
    (found,) = torch.autograd.grad(seen.context.square().sum(), term.a)
    torch.testing.assert_close(found, torch.autograd.grad(want.square().sum(), term.a)[0])
    heads = regard.MultiHead(16, 4, key_value_heads=4 // shared, value_term=RelativeValues(4, 1))
    assert "value_term.a" in dict(heads.named_parameters())
    assert heads(torch.randn(1, 3, 16)).context.shape == (1, 3, 16)


@pytest.mark.parametrize("name", ["softmax", "entmax15"])
@pytest.mark.parametrize("shape", [(1, 8), (200, 8), (3, 4, 8), (1, 3, 1, 8)])
def test_heads_without_an_axis_are_refused_on_every_backend(name, shape):
    keys = torch.randn(*shape[:-2], 300, 8)
    for grad in (False, True):
        query = torch.randn(shape, requires_grad=grad)
        with torch.set_grad_enabled(grad), pytest.raises(ShapeError, match="ALiBi has 2 heads"):
            regard.attend(query, keys, score=ScaledDot() + ALiBi(2), map=name, mask=regard.masks.Causal())
