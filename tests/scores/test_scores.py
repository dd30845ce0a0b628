"""Every score against its formula, one query and one key at a time."""

import math

import pytest
import torch
from torch import nn

import regard
from regard.core.errors import ShapeError
from regard.core.place import Place
from regard.positions import Bias, Distance, Order, Relative
from regard.scores import MLP, SCORES, Additive, Bilinear, Concat, Convolution, Cosine, Dot, ScaledDot

every_score = pytest.mark.parametrize("name", SCORES)
D = 6


def vec(layer, x):
    return layer.weight @ x + (0 if layer.bias is None else layer.bias)


def one_dot(s, q, K, j):
    return sum(a * b for a, b in zip(q, K[j], strict=True))


def one_scaled(s, q, K, j):
    return one_dot(s, q, K, j) / math.sqrt(len(q))


def one_cosine(s, q, K, j):
    return one_dot(s, q, K, j) / (q.norm() * K[j].norm()) / 0.1


def one_bilinear(s, q, K, j):
    return K[j] @ s.W.weight @ q


def one_additive(s, q, K, j):
    return s.v.weight[0] @ torch.tanh(s.W1.weight @ K[j] + s.W2.weight @ q)


def one_concat(s, q, K, j):
    return s.v.weight[0] @ torch.tanh(s.W.weight @ torch.cat([q, K[j]]))


def one_mlp(s, q, K, j):
    h = torch.tanh(vec(s.W1, K[j]) + s.W2.weight @ q)
    for layer in s.deeper:
        h = torch.tanh(vec(layer, h))
    return s.v.weight[0] @ h


def one_convolution(s, q, K, j):
    h = s.W2.weight @ q
    for o, W in enumerate(s.W):
        at = j + o - s.reach
        if 0 <= at < len(K):
            h = h + W.weight @ K[at]
    return s.v.weight[0] @ torch.tanh(h)


def one_intra_attention(s, q, K, j):
    x, last = q[: len(q) - s.last], q[len(q) - s.last :]
    return s.v.weight[0] @ torch.tanh(s.W_h.weight @ K[j] + s.W_x.weight @ x + s.W_last.weight @ last)


BY_HAND = {
    "dot": one_dot,
    "scaled_dot": one_scaled,
    "cosine": one_cosine,
    "bilinear": one_bilinear,
    "additive": one_additive,
    "concat": one_concat,
    "mlp": one_mlp,
    "convolution": one_convolution,
    "intra_attention": one_intra_attention,
}


@every_score
def test_agrees_with_its_formula(name):
    torch.manual_seed(0)
    entry = SCORES[name]
    d_k = 4 if entry.any_widths else D
    score = entry.make(D, d_k).double().requires_grad_(False)
    query, keys = torch.randn(2, 3, D).double(), torch.randn(2, 5, d_k).double()
    theta = score(query, keys)
    assert theta.shape == (2, 3, 5)
    for b in range(2):
        for i in range(3):
            for j in range(5):
                assert theta[b, i, j].item() == pytest.approx(
                    float(BY_HAND[name](score, query[b, i], keys[b], j)), abs=1e-12
                )


@every_score
def test_its_entry_says_neither_more_nor_less(name):
    entry = SCORES[name]
    score = entry.make(D, D)
    assert entry.learned == any(True for _ in score.parameters())
    assert entry.factored == hasattr(score, "factors")
    q, k = torch.randn(1, D), torch.randn(4, D)
    other = k.clone()
    other[1] += 1
    moved = (score(q, k) - score(q, other)).abs() > 1e-6
    assert entry.looks_around == bool(moved[0, [0, 2]].any())
    if entry.any_widths:
        assert entry.make(D, 3)(q, torch.randn(4, 3)).shape == (1, 4)
    else:
        with pytest.raises(ShapeError, match="use bilinear or additive"):
            score(q, torch.randn(4, 3))


@every_score
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32_and_returned_as_it_came(name, dtype):
    torch.manual_seed(0)
    score = SCORES[name].make(D, D)
    q, k = torch.randn(3, D).to(dtype), torch.randn(5, D).to(dtype)
    theta = score(q, k)
    assert theta.dtype == dtype
    torch.testing.assert_close(theta, score(q.float(), k.float()).to(dtype))
    half = SCORES[name].make(D, D)
    half.load_state_dict(score.state_dict())
    half.to(dtype)  # parameters too
    assert half(q, k).dtype == dtype


@every_score
def test_gradients_and_second_gradients(name):
    torch.manual_seed(0)
    score = SCORES[name].make(3, 3).double()
    q, k = torch.randn(2, 3).double().requires_grad_(), torch.randn(3, 3).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda q, k: score(q, k), (q, k))
    assert torch.autograd.gradgradcheck(lambda q, k: score(q, k), (q, k))


def test_cosine_of_nothing_is_zero_and_lengths_do_not_count():
    score = Cosine(0.5)
    q = torch.zeros(1, 3, requires_grad=True)
    k = torch.tensor([[1.0, 0, 0], [1e30, 0, 0], [1e-30, 0, 0], [0, 0, 0]], requires_grad=True)
    assert score(q, k).tolist() == [[0, 0, 0, 0]]
    (first,) = torch.autograd.grad(score(q, k).sum(), k, create_graph=True)
    (second,) = torch.autograd.grad(first.sum() + (first**2).sum(), k, allow_unused=True)
    assert first.isfinite().all()
    assert second is None or second.isfinite().all()
    along = score(torch.tensor([[2.0, 0, 0]]), k)
    torch.testing.assert_close(along, torch.tensor([[2.0, 2, 2, 0]]))  # 1 / temperature


def test_cosine_learns_its_temperature_when_told():
    score = Cosine(0.5, learn=True)
    score(torch.ones(1, 2), torch.ones(1, 2)).sum().backward()
    assert score.log_temperature.grad.item() == pytest.approx(-2.0)
    assert not list(Cosine(0.5).parameters())
    with pytest.raises(ValueError, match="positive"):
        Cosine(0.0)


def test_mlp_of_one_layer_without_bias_is_the_additive_score():
    mlp, additive = MLP(3, 4, [5]), Additive(3, 4, 5)
    nn.init.zeros_(mlp.W1.bias)
    for a, b in ((additive.W1, mlp.W1), (additive.W2, mlp.W2), (additive.v, mlp.v)):
        a.weight.data = b.weight.data
    q, k = torch.randn(2, 3), torch.randn(6, 4)
    torch.testing.assert_close(mlp(q, k), additive(q, k))
    assert MLP(3, 4, [5, 6, 7])(q, k).shape == (2, 6)
    assert not torch.equal(MLP(3, 4, [5], activation=torch.relu)(q, k), mlp(q, k))
    with pytest.raises(ValueError, match="at least one hidden layer"):
        MLP(3, 4, [])


def test_convolution_with_no_reach_is_additive_and_hidden_keys_do_not_leak_through_the_window():
    score = Convolution(3, 4, 5, reach=0)
    additive = Additive(3, 4, 5)
    additive.W1.weight.data, additive.W2.weight.data = score.W[0].weight.data, score.W2.weight.data
    additive.v.weight.data = score.v.weight.data
    q, k = torch.randn(2, 3), torch.randn(6, 4)
    torch.testing.assert_close(score(q, k), additive(q, k))
    wide = Convolution(3, 3, reach=2)
    x = torch.randn(1, 6, 3)
    changed = x.clone()
    changed[:, 4:] += 10
    seen = [regard.attend(y, y, score=wide, mask=regard.masks.Causal()).context for y in (x, changed)]
    torch.testing.assert_close(seen[0][:, :4], seen[1][:, :4], rtol=0, atol=0)
    with pytest.raises(ValueError, match="reach"):
        Convolution(3, 3, reach=-1)


@pytest.mark.parametrize(
    ("score", "q", "k", "says"),
    [
        (Dot(), (2, 4), (3, 8), "dot compares coordinates, so d_q must equal d_k; got d_q=4, d_k=8"),
        (ScaledDot(), (2, 4), (3, 8), "scaled_dot compares"),
        (Bilinear(4, 8), (2, 4), (2, 5, 6), r"keys must be \(..., n, d_k\) with d_k=8; got \(2, 5, 6\)"),
        (Additive(4, 8), (2, 3), (5, 8), r"query must be \(..., m, d_q\) with d_q=4; got \(2, 3\)"),
        (Concat(4, 8), (4,), (5, 8), r"query must be \(..., m, d_q\) with d_q=4; got \(4,\)"),
    ],
)
def test_wrong_widths_are_named(score, q, k, says):
    with pytest.raises(ShapeError, match=says):
        score(torch.randn(q), torch.randn(k))


def place(m, n, **kw):
    return Place(torch.arange(n - m, n), torch.arange(n), **kw)


def test_relative_term_is_shaws_formula():
    torch.manual_seed(0)
    term = Relative(4, reach=2)
    q, k = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    theta = (ScaledDot() + term)(q, k, place(3, 5))
    for i in range(3):
        for j in range(5):
            a = term.a[max(-2, min(2, j - (2 + i))) + 2]
            want = (q[:, i] * (k[:, j] + a)).sum(-1) / 2
            torch.testing.assert_close(theta[:, i, j], want)


def test_distance_term_has_one_number_per_head_and_distance():
    term = Distance(reach=1, heads=2)
    term.b.data = torch.tensor([[1.0, 2, 3], [4, 5, 6]])
    theta = term(torch.zeros(2, 3, 4), torch.zeros(2, 3, 4), place(3, 3))
    assert theta.tolist() == [[[2, 3, 3], [1, 2, 3], [1, 1, 2]], [[5, 6, 6], [4, 5, 6], [4, 4, 5]]]
    assert Distance(1)(torch.zeros(3, 4), torch.zeros(3, 4), place(3, 3)).shape == (3, 3)
    own = Place(torch.tensor([[[0]], [[1]]]), torch.arange(3))  # positions of their own: (b, 1, m)
    assert term(torch.zeros(2, 2, 1, 4), torch.zeros(2, 2, 3, 4), own)[:, 1, 0].tolist() == [
        [5, 6, 6],
        [4, 5, 6],
    ]


def test_order_term_stands_inside_the_tanh_or_outside():
    torch.manual_seed(0)
    order = Order()
    q, k = torch.randn(2, 2, 3), torch.randn(2, 4, 3)
    where = place(2, 4, lengths=torch.tensor([4, 2]))
    f = order.features(q, k, where)
    assert f.shape == (2, 2, 4, 3)
    assert f[1, 0, 3].tolist() == pytest.approx([math.log(3), math.log(4), math.log(3)])
    outside = (Dot() + order)(q, k, where)
    torch.testing.assert_close(outside, q @ k.mT + f @ order.w.weight[0])
    order = Order()
    inside = Additive(3, 3, 5, terms=[order])
    h = torch.tanh(inside.W2(q).unsqueeze(-2) + inside.W1(k).unsqueeze(-3) + f @ inside.inside.W[0].weight.T)
    torch.testing.assert_close(inside(q, k, where), h @ inside.v.weight[0])
    assert len(list(inside.parameters())) == 4  # W₁, W₂, v and that of the features: no vector of their own
    with pytest.raises(ValueError, match="already inside a score"):
        (Dot() + order)(q, k, where)
    assert MLP(3, 3, terms=[order])(q, k, where).shape == (2, 2, 4)
    with pytest.raises(TypeError, match="use score \\+ term"):
        Additive(3, 3, terms=[Relative(3, 2)])


def test_a_given_bias_is_added_and_can_be_learned():
    bias = torch.randn(3, 5)
    q, k = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    torch.testing.assert_close((Dot() + Bias(bias))(q, k, place(3, 5)), q @ k.mT + bias)
    assert len(list((Dot() + Bias(bias, learn=True)).parameters())) == 1
    assert not list((Dot() + Bias(bias)).parameters())


def test_terms_add_up_and_their_parameters_are_found():
    score = Dot() + Relative(4, 1) + Distance(1) + (lambda q, k, p: torch.ones(()))
    assert len(list(score.parameters())) == 2
    q = torch.randn(3, 4)
    assert score(q, q, place(3, 3)).shape == (3, 3)


def test_any_callable_is_a_score_and_must_keep_its_shape():
    q, k = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    seen = regard.attend(q, k, score=lambda q, k: -torch.cdist(q, k))
    torch.testing.assert_close(seen.weights, (-torch.cdist(q, k)).softmax(-1))
    with pytest.raises(ShapeError, match=r"score must return \(..., m, n\) with m=3, n=5"):
        regard.attend(q, k, score=lambda q, k: q)
