"""What must be true of every map that acts on the whole matrix. A new one is tested when it is entered."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import grad, gradcheck, gradgradcheck
from torch.func import hessian, jacfwd, jacrev, vmap

import reference
import regard
from maps.map_settings import MATRICES, Case, drawn
from regard import MAPS, Attention, MultiHead, attend
from regard.core.errors import DtypeError, ShapeError
from regard.maps import SparseMap
from regard.masks import Causal, Lengths
from regard.structures import Tree

NAMES = list(dict.fromkeys(case.name for case in MATRICES))
every_map = pytest.mark.parametrize("name", NAMES)
every_case = pytest.mark.parametrize("case", MATRICES, ids=str)
SIZE = 4
SQUARE = {"sparsemap_tree"}  # takes square matrices alone
WIDE = {"sparsemap_matching"}  # its definition is for no more queries than keys


def square(*batch, size=SIZE, scale=1.5, seed=0, dtype=torch.float64):
    """Square matrices, which every matrix map takes."""
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*batch, size, size, generator=g, dtype=torch.float64).mul(scale).to(dtype)


@st.composite
def matrices(draw, name):
    n = draw(st.integers(1, 4))
    m = n if name in SQUARE else draw(st.integers(1, n if name in WIDE else 5))
    some = st.floats(-5, 5, width=32)
    return draw(st.lists(st.lists(some, min_size=n, max_size=n), min_size=m, max_size=m))


@every_map
@given(data=st.data())
def test_agrees_with_its_definition(name, data):
    theta, settings = data.draw(matrices(name)), data.draw(drawn(name, None))
    want = torch.tensor(getattr(reference, name)(theta, **settings), dtype=torch.float64)
    found = MAPS[name](torch.tensor(theta, dtype=torch.float64), **settings)
    torch.testing.assert_close(found, want, rtol=0, atol=1e-12 if "softmax" in name else 1e-9)
    narrow = MAPS[name](torch.tensor(theta, dtype=torch.float32), **settings)
    torch.testing.assert_close(narrow.double(), want, rtol=0, atol=2e-6)


@every_map
def test_its_entry_says_neither_more_nor_less(name):
    """Each fact holds on every matrix if it is claimed, and fails on some if it is not."""
    entry = MAPS[name]
    theta = torch.cat([square(40, scale=s, seed=3) for s in (0.1, 1.0, 5.0)])
    p = entry(theta)
    tall = [] if name in SQUARE else [entry(torch.cat([theta, theta.roll(1, 0)], -2))]  # more rows than keys
    in_simplex = [((q >= 0).all() & ((q.sum(-1) - 1).abs() < 1e-9).all()).item() for q in (p, *tall)]
    assert entry.simplex == all(in_simplex), "simplex"
    assert entry.sparse == bool((p == 0).any()), "sparse"
    higher, heavier = (x.unsqueeze(-1) - x.unsqueeze(-2) for x in (theta, p))
    assert entry.ordered == bool((heavier[higher > 0] >= -1e-12).all()), "ordered"
    turned = torch.isclose(entry(theta.roll(1, -1)), p.roll(1, -1), atol=1e-9).all()
    assert entry.neighbours != bool(turned), "neighbours"
    x = theta.clone().requires_grad_()
    (grad,) = torch.autograd.grad(entry(x), x, square(120, seed=1))
    assert entry.differentiable == bool((grad != 0).any()), "differentiable"
    assert torch.equal(entry(theta), p), "stochastic"
    alone = entry(theta[:, :1]) if name not in SQUARE else None
    assert alone is None or not torch.allclose(alone, p[:, :1]), "acts_on"
    assert entry.says.endswith(".")


@every_case
def test_first_and_second_gradients(case):
    """To scores and to settings that are tensors; cells hidden, a row and a column, and everything."""
    x = square(4, size=3, seed=4)
    hidden = torch.zeros(4, 3, 3, dtype=torch.bool)
    hidden[1, 0, 2] = hidden[1, 2, 0] = True
    hidden[2, 1], hidden[2, :, 1] = True, True
    hidden[3] = True
    inputs = tuple(t.clone().requires_grad_() for t in (x, *case.tensors.values()))

    def masked(x, *tensors):
        return case(x.masked_fill(hidden, -math.inf), *tensors)

    assert gradcheck(masked, inputs, check_forward_ad=True)
    assert gradgradcheck(masked, inputs)
    (gradient,) = grad(masked(*inputs).square().sum(), inputs[0])
    assert (gradient[hidden] == 0).all()


@every_case
def test_padding_anywhere_changes_nothing(case):
    x, g = square(6, size=3, seed=2).requires_grad_(), square(6, size=3, seed=3)
    i = torch.tensor([0, 2, 5])  # in sparsemap_tree queries and keys are the same words
    padded = torch.full((6, 6, 6), -math.inf, dtype=torch.float64)
    padded[:, i[:, None], i] = x
    p = case(padded)
    torch.testing.assert_close(p[:, i[:, None], i], case(x), rtol=0, atol=1e-12)
    assert torch.equal(p != 0, (p != 0) & (padded > -math.inf))
    torch.testing.assert_close(*(grad(q, x, g)[0] for q in (p[:, i[:, None], i], case(x))))


@every_map
def test_hidden_cells_have_no_weight_and_no_gradient(name):
    x = square(5, seed=5).requires_grad_()
    hidden = torch.zeros(SIZE, SIZE, dtype=torch.bool)
    hidden[0, 2] = hidden[3, 1] = True
    p = MAPS[name](x.masked_fill(hidden, -math.inf))
    (grad,) = torch.autograd.grad(p, x, square(5, seed=6))
    assert (p[:, hidden] == 0).all()
    assert (grad[:, hidden] == 0).all()
    assert p.isfinite().all() and grad.isfinite().all()


@every_map
def test_a_matrix_of_nothing_has_weight_and_gradient_zero(name):
    x = torch.full((2, 3, 3), -math.inf, requires_grad=True)
    p = MAPS[name](x)
    assert (p == 0).all()
    p.sum().backward()
    assert (x.grad == 0).all()


@every_map
@pytest.mark.parametrize("flaw", [math.nan, math.inf])
def test_a_flaw_is_shown_in_the_whole_matrix_and_no_other(name, flaw):
    x = square(3, dtype=torch.float32)
    x[1, 2, 0] = flaw
    p = MAPS[name](x)
    assert p[1].isnan().all()
    assert p[[0, 2]].isfinite().all()


@every_case
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(case, dtype):
    theta, case = square(6, dtype=dtype), case.rounded(dtype)
    p = case(theta)
    assert p.dtype == dtype
    assert torch.equal(p, case(theta.float()).to(dtype))


@every_map
def test_shapes(name):
    assert MAPS[name](square(2, 3)).shape == (2, 3, SIZE, SIZE)
    assert MAPS[name](square(0)).shape == (0, SIZE, SIZE)
    assert MAPS[name](torch.randn(2, 0, 0)).shape == (2, 0, 0)
    assert MAPS[name](torch.randn(1, 1)).tolist() == [[1.0]]
    strided = square(6).permute(2, 1, 0)[..., :SIZE]  # not contiguous
    torch.testing.assert_close(MAPS[name](strided), MAPS[name](strided.contiguous()))


@every_map
def test_each_matrix_of_a_batch_is_mapped_by_itself(name):
    x, g = square(2, 3).requires_grad_(), square(2, 3, seed=1)
    p = MAPS[name](x)
    (grad,) = torch.autograd.grad(p, x, g)
    for a in range(2):
        for b in range(3):
            one = x[a, b].detach().requires_grad_()
            torch.testing.assert_close(MAPS[name](one), p[a, b])
            torch.testing.assert_close(torch.autograd.grad(MAPS[name](one), one, g[a, b])[0], grad[a, b])


@every_map
def test_does_not_change_its_scores(name):
    theta = square(4)
    before = theta.clone()
    MAPS[name](theta)
    assert torch.equal(theta, before)


@every_case
def test_transforms(case):
    x = square(3, size=3)
    want = torch.stack([torch.autograd.functional.jacobian(case, one) for one in x])
    torch.testing.assert_close(vmap(case)(x), case(x))
    torch.testing.assert_close(vmap(case, in_dims=1, out_dims=1)(x.transpose(0, 1)), case(x).transpose(0, 1))
    torch.testing.assert_close(vmap(jacrev(case))(x), want)
    torch.testing.assert_close(vmap(jacfwd(case))(x), want)
    torch.testing.assert_close(jacrev(case)(x), torch.autograd.functional.jacobian(case, x))
    torch.testing.assert_close(torch.autograd.functional.jacobian(case, x[0], vectorize=True), want[0])

    def squares(x):
        return case(x).square().sum()

    second = torch.autograd.functional.hessian(squares, x[0])
    torch.testing.assert_close(jacrev(jacrev(squares))(x[0]), second)
    torch.testing.assert_close(hessian(squares)(x[0]), second)
    torch.testing.assert_close(vmap(hessian(squares))(x)[0], second)


@every_case
def test_compiles_into_one_graph(case):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, *t: case(x, *t), fullgraph=True, backend="aot_eager")
    inputs = tuple(t.clone().requires_grad_() for t in (square(2, seed=2), *case.tensors.values()))
    got, want = compiled(*inputs), case(*inputs)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(*(grad(p.square().sum(), inputs) for p in (got, want)))
    with torch.no_grad():
        torch.testing.assert_close(compiled(*inputs), want)


@every_case
def test_threads_and_inference_mode_do_not_matter(case):
    theta = square(6, size=12, dtype=torch.float32)
    alone = case(theta)
    torch.set_num_threads(2)
    assert torch.equal(case(theta), alone)
    with torch.inference_mode():
        assert torch.equal(case(theta), alone)


@every_map
def test_bad_scores_are_named(name):
    with pytest.raises(DtypeError, match=r"scores must be float.*; got torch.int64. Use scores.float\(\)"):
        MAPS[name](torch.tensor([[1, 2], [3, 4]]))
    with pytest.raises(ShapeError, match=r"scores must be \(..., m, n\).*; got \(2,\)"):
        MAPS[name](torch.tensor([1.0, 2.0]))
    with pytest.raises(TypeError, match="scores must be a tensor; got list"):
        MAPS[name]([[1.0, 2.0]])


def inputs(grad=False, seed=0):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(2, SIZE, 3, generator=g, dtype=torch.float64).requires_grad_(grad) for _ in range(3)]


@every_map
def test_inside_attention(name):
    q, k, v = inputs(grad=True)
    seen = attend(q, k, v, map=name)
    torch.testing.assert_close(seen.weights, MAPS[name](seen.scores))
    torch.testing.assert_close(seen.context, seen.weights @ v)
    assert torch.autograd.gradcheck(lambda q, k, v: attend(q, k, v, map=name).context, (q, k, v))


@every_map
def test_refuses_a_causal_mask(name):
    q, k, v = inputs()
    with pytest.raises(ValueError, match="takes no Causal mask"):
        attend(q, k, v, map=name, mask=Causal() & Lengths(torch.tensor([4, 4])))


@every_map
def test_padding_of_both_sequences_changes_nothing(name):
    """Under a mask of real queries and real keys the rest can hold anything."""
    q, k, v = inputs()
    alone = attend(q[:1, :3], k[:1, :3], v[:1, :3], map=name)
    real = torch.tensor([True, True, True, False])
    mask = (real[:, None] & real)[None]
    for filling in (0.0, math.nan, math.inf):
        q2, k2, v2 = (t[:1].clone() for t in (q, k, v))
        for t in (q2, k2, v2):
            t[:, ~real] = filling
            t.requires_grad_()
        seen = attend(q2, k2, v2, map=name, mask=mask)
        torch.testing.assert_close(seen.context[:, :3], alone.context)
        assert (seen.context[:, 3] == 0).all()
        assert (seen.weights[:, 3] == 0).all() and (seen.weights[..., 3] == 0).all()
        for grad in torch.autograd.grad(seen.context.square().sum(), (q2, k2, v2)):
            assert grad.isfinite().all()
            assert (grad[:, ~real] == 0).all()


@every_map
def test_lengths_hide_the_padding_of_the_keys(name):
    q, k, v = inputs()
    k[1, 3] = v[1, 3] = math.nan
    k.requires_grad_()
    seen = attend(q, k, v, map=name, mask=Lengths(torch.tensor([4, 3])))
    torch.testing.assert_close(seen.context[0], attend(q[0], k[0], v[0], map=name).context)
    words = 3 if name in SQUARE else 4  # padding that nothing may look at is no word of a tree either
    alone = attend(q[1, :words], k[1, :3], v[1, :3], map=name)
    torch.testing.assert_close(seen.weights[1, :words, :3], alone.weights)
    torch.testing.assert_close(seen.context[1, :words], alone.context)
    assert (seen.weights[1, :, 3] == 0).all()
    (grad,) = torch.autograd.grad(seen.context.square().sum(), k)
    assert grad.isfinite().all() and (grad[1, 3] == 0).all()
    heads = MultiHead(8, 2, map=name)
    with regard.record(heads) as record:
        heads(torch.randn(2, SIZE, 8), mask=Lengths(torch.tensor([4, 3])))
    assert (record[""][0].weights[1, ..., 3] == 0).all()


@every_map
def test_heads_records_and_interventions(name):
    torch.manual_seed(0)
    x, real = torch.randn(2, SIZE, 8), torch.tensor([[True] * 4, [True] * 3 + [False]])
    mask = (real[:, :, None] & real[:, None])[:, None]  # (b, 1, m, n)
    heads = MultiHead(8, 2, map=name)
    with regard.record(heads) as record:
        context = heads(x, mask=mask).context
    (seen,) = record[""]
    torch.testing.assert_close(context, heads(x, mask=mask).context)
    filled = seen.scores.masked_fill(~mask, -math.inf)
    torch.testing.assert_close(seen.weights, MAPS[name](filled))
    with regard.intervene(heads, lambda p: p):
        torch.testing.assert_close(heads(x, mask=mask).context, context)
    attention = Attention(map=name)
    with regard.intervene(attention, torch.zeros_like):
        assert (attention(x, x, mask=mask[:, 0]).context == 0).all()
