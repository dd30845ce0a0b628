"""What must be true of every row map, in the settings of `map_settings`. A new map is tested when entered."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import grad, gradcheck, gradgradcheck
from torch.func import jacfwd, jacrev, vmap
from torch.utils.flop_counter import FlopCounterMode

import reference
import regard
from maps.map_settings import HARD, ROWS, N, drawn, score
from regard import MAPS
from regard.core.errors import DtypeError, ShapeError
from regard.maps import facts_of
from regard.masks import Causal, Lengths

NAMES = list(dict.fromkeys(case.name for case in ROWS))
SMOOTH = [case for case in ROWS if MAPS[case.name].differentiable]
FIRST_AND_LAST = [[case for case in ROWS if case.name == name][at] for name in NAMES for at in (0, -1)]
every_map = pytest.mark.parametrize("name", NAMES)
every_case = pytest.mark.parametrize("case", ROWS, ids=str)
every_case_and_draw = pytest.mark.parametrize("case", [*ROWS, *HARD], ids=str)
smooth_case = pytest.mark.parametrize("case", SMOOTH, ids=str)
thetas = st.lists(score, min_size=1, max_size=6)
INF, NAN = math.inf, math.nan
BY_KERNEL = {"sparsemax", "entmax15", "entmax", "fusedmax", "chain", "sparsemap_budget", "sparsemap_chain"}
LOOSE = {"continuous_softmax": 1e-9, "continuous_sparsemax": 1e-9}  # their definition is by quadrature


def by_kernel(case):
    return case.name in BY_KERNEL and case.settings.get("alpha") != 1.0


def many(n=12, rows=400, dtype=torch.float64):
    """Rows of scores flat, normal and peaked, some with ties."""
    g = torch.Generator().manual_seed(0)
    theta = torch.randn(rows, n, generator=g, dtype=dtype) * torch.logspace(-1, 1, rows, dtype=dtype)[:, None]
    theta[::5] = theta[::5].round()
    return theta


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@every_map
@given(data=st.data(), theta=thetas)
def test_agrees_with_its_definition(name, data, theta):
    settings = data.draw(drawn(name, len(theta)))
    want = getattr(reference, name)(theta, **settings)
    for dtype, digits in ((torch.float64, LOOSE.get(name, 1e-12)), (torch.float32, 1e-6)):
        given = {k: torch.tensor(s, dtype=dtype) if isinstance(s, list) else s for k, s in settings.items()}
        assert MAPS[name](torch.tensor(theta, dtype=dtype), **given).tolist() == pytest.approx(want, abs=digits)


@every_map
@given(theta=thetas, at=st.integers(0, 6))
def test_minus_infinity_is_never_looked_at(name, theta, at):
    at = min(at, len(theta))
    p = MAPS[name](torch.tensor([*theta[:at], -INF, *theta[at:]], dtype=torch.float64))
    assert p[at] == 0
    alone = MAPS[name](torch.tensor(theta, dtype=torch.float64))
    torch.testing.assert_close(torch.cat([p[:at], p[at + 1 :]]), alone)


@every_map
def test_its_entry_says_neither_more_nor_less(name):
    """Each fact holds on every row if it is claimed, and fails on some row if it is not."""
    entry, theta = MAPS[name], many()
    p = entry(theta)
    in_simplex = ((p >= 0) & ((p.sum(-1, keepdim=True) - 1).abs() < 1e-9)).all(-1)
    assert entry.simplex == bool(in_simplex.all()), "simplex"
    assert entry.sparse == bool((p == 0).any()), "sparse"
    higher, heavier = (x.unsqueeze(-1) - x.unsqueeze(-2) for x in (theta, p))  # (rows, n, n)
    assert entry.ordered == bool((heavier[higher > 0] >= -1e-12).all()), "ordered"
    turned = theta.roll(1, -1)
    pairs = theta.unsqueeze(-1) == theta.unsqueeze(-2)
    untied = pairs.sum((-1, -2)) == theta.shape[-1]  # ties go to the first
    alike = torch.isclose(entry(turned), p.roll(1, -1), atol=1e-9)[untied].all()
    assert entry.neighbours != bool(alike), "neighbours"
    x = theta.clone().requires_grad_()
    (gradient,) = grad(entry(x), x, normal(*p.shape, seed=1))
    assert entry.differentiable == bool((gradient != 0).any()), "differentiable"
    assert torch.equal(entry(theta), p), "stochastic"
    assert entry.says.endswith(".")


@smooth_case
def test_first_and_second_gradients(case):
    """To scores and to settings that are tensors; some keys hidden, in one row all of them."""
    x = (normal(4, N, seed=2) * 1.5).requires_grad_()
    hidden = torch.rand(4, N, generator=torch.Generator().manual_seed(2)) < 0.3
    hidden[0], hidden[3] = False, True
    inputs = (x, *(t.clone().requires_grad_() for t in case.tensors.values()))

    def masked(x, *tensors):
        return case(x.masked_fill(hidden, -INF), *tensors)

    assert gradcheck(masked, inputs, check_forward_ad=True, check_batched_grad=case.name != "chain")
    assert gradgradcheck(masked, inputs, check_fwd_over_rev=True)


@smooth_case
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kernel_and_formula_have_the_same_gradients(case, dtype):
    """The second is by autograd, as it can be differentiated again. None reaches a key without weight."""
    for n in (N,) if case.by_place else (N, 300):
        x = normal(20, n, seed=n, dtype=dtype).masked_fill(normal(20, n, seed=1) > 1, -INF).requires_grad_()
        inputs = (x, *(t.to(dtype, copy=True).requires_grad_() for t in case.tensors.values()))
        p = case(*inputs)
        g = normal(20, n, seed=2, dtype=dtype)
        by_kernel, by_formula = (grad(p, inputs, g, retain_graph=True, create_graph=c) for c in (False, True))
        torch.testing.assert_close(by_kernel, by_formula, rtol=1e-4, atol=1e-4 if n > N else 1e-5)
        assert (by_kernel[0][x == -INF] == 0).all()
        if MAPS[case.name].sparse and dtype == torch.float64:
            assert (by_kernel[0][p == 0] == 0).all()


@smooth_case
def test_a_gradient_that_comes_to_a_hidden_key_is_not_looked_at(case):
    x = normal(3, N)
    x[0, 1] = x[1, 2:] = x[2] = -INF
    g = normal(3, N, seed=1)
    x.requires_grad_()
    for create_graph in (False, True):
        flawed = g.masked_fill(x == -INF, NAN) if by_kernel(case) else g
        (gradient,) = grad(case(x), x, flawed, create_graph=create_graph)
        assert gradient.isfinite().all()
        assert (gradient[x == -INF] == 0).all()


@pytest.mark.parametrize("case", [case for case in SMOOTH if not case.by_place], ids=str)
@pytest.mark.parametrize("n", [1, N, 70])
def test_padding_anywhere_changes_nothing(case, n):
    """In weights and gradients; the keys keep their order."""
    scores, g = normal(8, n, seed=n).requires_grad_(), normal(8, n, seed=n + 1)
    at = normal(8, n + 7, seed=n + 2).argsort(-1)[:, :n].sort(-1).values
    wide = torch.full((8, n + 7), -INF, dtype=torch.float64).scatter(-1, at, scores)
    p = case(wide)
    assert (p[wide == -INF] == 0).all()
    torch.testing.assert_close(p.gather(-1, at), case(scores), rtol=0, atol=1e-12)
    (want,) = grad(case(scores), scores, g)
    for create_graph in (False, True):
        (got,) = grad(p.gather(-1, at), scores, g, retain_graph=True, create_graph=create_graph)
        torch.testing.assert_close(got, want)


def rows_without_an_answer(dtype):
    """A row as any, one of nothing, three flawed, one with a single key."""
    scores = normal(6, N, dtype=dtype)
    scores[1] = -INF
    scores[2, 3], scores[2, 0] = NAN, -INF
    scores[3, 5] = INF
    scores[4], scores[4, 3] = -INF, NAN
    scores[5, 1:] = -INF
    return scores


@every_case_and_draw
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_rows_without_an_answer(case, dtype):
    scores = rows_without_an_answer(dtype)
    p = case(scores)
    assert p.dtype == dtype
    assert (p[1] == 0).all()
    if case.name == "sigmoid":  # keys know nothing of each other
        assert p[[2, 4], 3].isnan().all() and p[3, 5] == 1
    else:
        assert p[2:5][scores[2:5] > -INF].isnan().all() and p[2:5].isnan().any(-1).all()
        assert p[2, 3].isnan() and p[3].isnan().all() and p[4, 3].isnan()
    assert (p[5, 1:] == 0).all() and p[5, 0].isfinite()
    assert not MAPS[case.name].simplex or "upper" in str(case) or p[5, 0] == 1
    if case.name != "hard":
        torch.testing.assert_close(p[0], case(scores[0]))


@every_case
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_gradients_of_rows_without_an_answer(case, dtype):
    """0 of a row of nothing, NaN of a flawed one, and the others keep theirs."""
    x = rows_without_an_answer(dtype).requires_grad_()
    g = normal(6, N, seed=1, dtype=dtype)
    p = case(x)
    alone = x.detach()[0].requires_grad_()
    for create_graph in (False, True):
        (gradient,) = grad(p, x, g, retain_graph=True, create_graph=create_graph)
        assert (gradient[1] == 0).all()
        assert gradient[[0, 5]].isfinite().all() and (gradient[5, 1:] == 0).all()
        torch.testing.assert_close(gradient[0], grad(case(alone), alone, g[0])[0], rtol=1e-3, atol=1e-5)


@every_case_and_draw
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_computed_wide(case, dtype):
    theta = many(N, rows=50, dtype=torch.float32).to(dtype)
    p, case = case.rounded(dtype)(theta), case.rounded(dtype)
    assert p.dtype == dtype
    kind = torch.float64 if case.name.startswith("bounded") else torch.float32
    assert torch.equal(p, case(theta.to(kind)).to(dtype))


@every_case_and_draw
def test_shapes(case):
    for shape in ((2, 3, N), (0, N), (2, 0, N), (N,)):
        assert case(torch.randn(shape)).shape == shape
    for shape in () if case.by_place else ((0,), (2, 0), (0, 4)):
        assert case(torch.randn(shape)).shape == shape
    if not case.by_place:
        one = case(torch.randn(3, 1))
        assert not MAPS[case.name].simplex or "upper" in str(case) or (one == 1).all()
    strided = many(N, rows=8).T.contiguous().T
    assert torch.equal(case(strided), case(strided.contiguous()))
    scores = normal(2, 3, 4, N)
    if case.name != "hard":
        torch.testing.assert_close(case(scores[1, 2, 3]), case(scores)[1, 2, 3], rtol=0, atol=1e-14)


@smooth_case
def test_nothing_gives_nothing_and_strides_do_not_matter_to_gradients(case):
    for shape in ((0, N), (2, 0, N), *(() if case.by_place else ((0,), (3, 0), (2, 0, 4)))):
        inputs = torch.zeros(shape, requires_grad=True), *(t.float() for t in case.tensors.values())
        for tensor in inputs:
            tensor.requires_grad_()
        for create_graph in (False, True):
            found = grad(case(*inputs).sum(), inputs, create_graph=create_graph)
            assert found[0].shape == shape
            assert all((g == 0).all() for g in found[1:])
    x = normal(N, 5).T.requires_grad_()
    y = x.detach().contiguous().requires_grad_()
    g = normal(N, 5, seed=1).T
    torch.testing.assert_close(grad(case(x), x, g), grad(case(y), y, g.contiguous()))


@every_case
def test_does_not_change_its_scores(case):
    theta = many(N, rows=20)
    before = theta.clone()
    case(theta)
    assert torch.equal(theta, before)


@every_case
def test_transforms(case):
    x = normal(4, N)
    x[1, 2] = x[2, 0] = x[3] = -INF
    torch.testing.assert_close(vmap(case)(x), case(x))
    torch.testing.assert_close(vmap(case, in_dims=1, out_dims=1)(x.T), case(x).T)
    rows = torch.stack([torch.autograd.functional.jacobian(case, row) for row in x])
    torch.testing.assert_close(vmap(jacrev(case))(x), rows)
    torch.testing.assert_close(vmap(jacfwd(case))(x), rows)
    if case.name != "chain":
        torch.testing.assert_close(torch.autograd.functional.jacobian(case, x[1], vectorize=True), rows[1])
    assert MAPS[case.name].differentiable or (rows == 0).all()
    tensors = tuple(case.tensors.values())
    for at in range(1 + len(tensors)):
        backward = jacrev(jacrev(case, argnums=at), argnums=0)(x[1], *tensors)
        torch.testing.assert_close(jacfwd(jacrev(case, argnums=at), argnums=0)(x[1], *tensors), backward)


@every_map
def test_forward_over_forward_is_right_or_refused(name):
    """Torch would answer with zeros where a derivative is by hand."""
    theta = normal(5, seed=3)

    def of_squares(x):
        return MAPS[name](x * x)

    try:
        found = jacfwd(jacfwd(of_squares))(theta)
    except NotImplementedError as error:
        assert "Use torch.func.hessian or jacfwd(jacrev(...))" in str(error)
    else:
        torch.testing.assert_close(found, jacfwd(jacrev(of_squares))(theta))


@pytest.mark.parametrize("case", dict.fromkeys(map(str, FIRST_AND_LAST)))
def test_compiles_into_one_graph(case):
    (case,) = {str(one): one for one in FIRST_AND_LAST if str(one) == case}.values()
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, *t: case(x, *t), fullgraph=True, backend="aot_eager")
    x = normal(4, N)
    x[1], x[2, :2] = -INF, -INF
    inputs = x, *case.tensors.values()
    torch.testing.assert_close(compiled(*inputs), case(*inputs))
    inputs = tuple(t.clone().requires_grad_() for t in inputs)
    got, want = (function(*inputs) for function in (compiled, case))
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(*(grad(p, inputs, normal(4, N, seed=1)) for p in (got, want)))


@every_case_and_draw
def test_bad_scores_are_named(case):
    with pytest.raises(DtypeError, match=r"scores must be float.*; got torch.int64. Use scores.float\(\)"):
        case(torch.arange(N))
    with pytest.raises(ShapeError, match=r"scores must be \(..., n\).*; got \(\)"):
        case(torch.tensor(1.0))
    with pytest.raises(TypeError, match="scores must be a tensor; got list"):
        case([1.0] * N)


@every_case
def test_scores_of_any_size(case):
    for huge in (1e4, 1e30, 1e38 if "temperature" in case.settings else 3e38):
        x = torch.tensor([0.0, huge, -huge, 1.0, 0.5, 0.0], requires_grad=True)
        p = case(x)
        assert p.isfinite().all()
        assert grad(p.square().sum(), x)[0].isfinite().all()
        if MAPS[case.name].simplex and "upper" not in case.settings:
            assert p.tolist() == pytest.approx([0, 1, 0, 0, 0, 0]) or case.name == "fusedmax"
            assert p.sum().item() == pytest.approx(1)


@every_map
def test_large_rows_sum_to_one_and_keep_order(name):
    entry = MAPS[name]
    theta = torch.randn(2, 70_000, generator=torch.Generator().manual_seed(0))
    p = entry(theta)
    assert p.isfinite().all()
    if entry.simplex:
        torch.testing.assert_close(p.double().sum(-1), torch.ones(2, dtype=torch.float64), rtol=0, atol=1e-5)


@smooth_case
def test_threads_do_not_matter(case):
    x = normal(400, N if case.by_place else 300, dtype=torch.float32).requires_grad_()
    inputs = (x, *(t.float().requires_grad_() for t in case.tensors.values()))
    answers = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        p = case(*inputs)
        answers.append((p, *grad(p, inputs, normal(*x.shape, seed=1, dtype=torch.float32))))
    assert torch.equal(answers[0][0], answers[1][0])
    for one, two in zip(*answers, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-5)
        assert torch.equal(one, two) or not by_kernel(case) or "temperature" in case.settings


@every_case
def test_meta_tensors_have_shapes(case):
    if case.name == "entmax" and case.settings.get("alpha", 1.0) != 1.0:
        pytest.skip("the values of alpha are looked at")
    x = torch.empty(4, N, device="meta", requires_grad=True)
    p = case(x)
    p.sum().backward()
    assert p.shape == x.grad.shape == (4, N) and p.device.type == x.grad.device.type == "meta"


@pytest.mark.parametrize("name", sorted(BY_KERNEL))
def test_flops_are_counted(name):
    with FlopCounterMode(display=False) as counter:
        MAPS[name](torch.randn(3, 5))
    assert counter.get_total_flops() > 0


@every_case
def test_inside_attention(case):
    """Weights are those of the keys that may be looked at alone; recorded, changed, and in heads."""
    q, k, v = normal(2, 3, 8), normal(2, N, 8, seed=1), normal(2, N, 4, seed=2)
    attention = regard.Attention(map=case)
    mask = Causal() & Lengths(torch.tensor([N, 4]))
    with regard.record(attention, "*") as seen:
        context = attention(q, k, v, mask=mask).context
    ((one,),) = seen.values()
    torch.testing.assert_close(one.weights @ v, context)
    for b, i in ((0, 0), (0, 2), (1, 0), (1, 2)):
        length = min(N - 2 + i, (N, 4)[b])
        assert (one.weights[b, i, length:] == 0).all()
        if not case.by_place:
            torch.testing.assert_close(one.weights[b, i, :length], case(one.scores[b, i, :length]))
    with regard.intervene(attention, torch.zeros_like):
        assert (attention(q, k, v).context == 0).all()
    if not case.settings:
        torch.testing.assert_close(regard.attend(q, k, v, map=case.name, mask=mask).context, context)
        assert facts_of(MAPS[case.name].function) is MAPS[case.name]
