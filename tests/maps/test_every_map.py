"""What must be true of every map, in the settings of `map_settings`. A new map is tested when it is entered.

First of rows and matrices alike, then of rows. `test_every_matrix_map` has what is true of matrices alone.
"""

import math
from functools import partial
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import grad, gradcheck, gradgradcheck
from torch.autograd.functional import jacobian
from torch.func import jacfwd, jacrev, vmap
from torch.utils.flop_counter import FlopCounterMode

import reference
import regard
from maps.map_settings import HARD, MATRICES, ROWS, N, drawn, score
from regard import MAPS
from regard.core.errors import DtypeError, ShapeError
from regard.masks import Causal, Lengths

ALL = [*ROWS, *MATRICES]
NAMES = list(dict.fromkeys(case.name for case in ROWS))
LAST = {case.name: case for case in ALL}  # contract/test_compiled has row maps in their default settings
every_row_map = pytest.mark.parametrize("name", NAMES)
every_row = pytest.mark.parametrize("case", ROWS, ids=str)
every_case = pytest.mark.parametrize("case", ALL, ids=str)
every_case_and_draw = pytest.mark.parametrize("case", [*ALL, *HARD], ids=str)
smooth_case = pytest.mark.parametrize("case", [case for case in ALL if case.facts.differentiable], ids=str)
every_dtype = pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str
)
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


@smooth_case
def test_first_and_second_gradients(case):
    """To scores and to settings that are tensors; with some keys hidden, or all, or a row and a column."""
    row = case.facts.acts_on == "row"
    x = normal(3, *(case.shape if row else (3, 3)), seed=2) * 1.5
    hidden = torch.zeros(x.shape, dtype=torch.bool)
    hidden[1, [1, 4] if row else 1] = hidden[2] = True
    if not row:
        hidden[1, :, 1] = hidden[0, 0, 2] = True

    def masked(x, *tensors):
        return case(x.masked_fill(hidden[-len(x) :], -INF), *tensors)

    for inputs in (case.inputs(x[1:]), case.inputs(x[:1])) if row else [case.inputs(x)]:
        function = masked if len(inputs[0]) > 1 else case
        assert gradcheck(function, inputs, check_forward_ad=True, check_batched_grad=case.name != "chain")
        assert gradgradcheck(function, inputs, check_fwd_over_rev=row)
    p = masked(*case.inputs(x))
    assert (p[hidden] == 0).all()


@smooth_case
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kernel_and_formula_have_the_same_gradients(case, dtype):
    """The second is by autograd, as it can be differentiated again. None reaches a key without weight."""
    for shape in [case.shape] if case.by_place or len(case.shape) == 2 else [(N,), (300,)]:
        x = normal(20, *shape, dtype=dtype)
        inputs = case.inputs(x.masked_fill(normal(20, *shape, seed=1) > 1, -INF) if len(shape) == 1 else x)
        p, g = case(*inputs), normal(20, *shape, seed=2, dtype=dtype)
        fast, slow = (grad(p, inputs, g, retain_graph=True, create_graph=create) for create in (False, True))
        torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-5 if shape == case.shape else 1e-4)
        assert (fast[0][inputs[0] == -INF] == 0).all()
        if case.facts.sparse and dtype == torch.float64 and len(shape) == 1:
            assert (fast[0][p == 0] == 0).all()
        if case.facts.simplex and "upper" not in case.settings and len(shape) == 1:  # π(θ + c1) = π(θ)
            torch.testing.assert_close(fast[0].sum(-1), torch.zeros(20, dtype=dtype), rtol=0, atol=1e-5)


@smooth_case
def test_a_gradient_that_comes_to_a_key_without_weight_is_not_looked_at(case):
    x = normal(3, *case.shape)
    x[0, 1] = x[1, 2:] = x[2] = -INF
    (x,) = case.inputs(x)[:1]
    p, g = case(x), normal(3, *case.shape, seed=1)
    for create_graph in (False, True):
        flawed = g.masked_fill(p.detach() == 0, NAN) if by_kernel(case) else g
        (gradient,) = grad(p, x, flawed, retain_graph=True, create_graph=create_graph)
        assert gradient.isfinite().all()
        assert (gradient[x == -INF] == 0).all()


def without_an_answer(case, dtype):
    """Scores as any, nothing but −inf, three with flaws, and a single key to look at; (6, *shape)."""
    scores = normal(6, *case.shape, dtype=dtype)
    flat = scores.flatten(1)
    flat[1] = -INF
    flat[2, 3], flat[2, 0] = NAN, -INF
    flat[3, 5] = INF
    flat[4], flat[4, 0] = -INF, NAN
    flat[5, 1:] = -INF
    return scores


@every_case_and_draw
@every_dtype
def test_nothing_and_flaws(case, dtype):
    scores = without_an_answer(case, dtype)
    p = case(scores)
    assert p.dtype == dtype
    assert (p[1] == 0).all()
    if case.name == "sigmoid":  # keys know nothing of each other
        assert p[2, 3].isnan() and p[3, 5] == 1 and p[4, 0].isnan()
    else:
        assert p[2:5][scores[2:5] != -INF].isnan().all()
    one = p[5].flatten()
    assert (one[1:] == 0).all() and one[0].isfinite()
    assert not case.facts.simplex or "upper" in str(case) or one[0] == 1
    if case.name != "hard":
        torch.testing.assert_close(p[0], case(scores[0]))


@smooth_case
@every_dtype
def test_gradients_of_nothing_and_of_flaws(case, dtype):
    """0 of nothing, NaN of what is flawed, and the others keep theirs."""
    (x,) = case.inputs(without_an_answer(case, dtype))[:1]
    p, g = case(x), normal(6, *case.shape, seed=1, dtype=dtype)
    (alone,) = case.inputs(x[0])[:1]
    want = grad(case(alone), alone, g[0])[0]
    for create_graph in (False, True):
        (gradient,) = grad(p, x, g, retain_graph=True, create_graph=create_graph)
        assert (gradient[1] == 0).all()
        assert gradient[[0, 5]].isfinite().all() and (gradient[5].flatten()[1:] == 0).all()
        if by_kernel(case) and not create_graph and case.settings.get("alpha") != INF:
            assert gradient[2:4].flatten(1).isnan().any(-1).all()
        torch.testing.assert_close(gradient[0], want, rtol=1e-3, atol=1e-5)


@every_case_and_draw
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_computed_wide(case, dtype):
    theta, case = (1.5 * normal(50, *case.shape)).to(dtype), case.rounded(dtype)
    p = case(theta)
    assert p.dtype == dtype
    kind = torch.float64 if case.name.startswith("bounded") else torch.float32
    assert torch.equal(p, case(theta.to(kind)).to(dtype))


@every_case_and_draw
def test_shapes(case):
    for batch in ((2, 3), (0,), (2, 0), ()):
        assert case(torch.randn(*batch, *case.shape)).shape == (*batch, *case.shape)
    if not case.by_place:
        for shape in ((0,), (2, 0), (0, 4)) if len(case.shape) == 1 else ((0, 0), (2, 0, 0)):
            assert case(torch.randn(shape)).shape == shape
        one = case(torch.randn(3, *[1] * len(case.shape)))
        assert not case.facts.simplex or "upper" in str(case) or (one == 1).all()
    scores = normal(*case.shape, 8).movedim(-1, 0)  # not contiguous
    before = scores.clone()
    torch.testing.assert_close(case(scores), case(scores.contiguous()))
    assert torch.equal(scores, before)
    if case.name != "hard":
        torch.testing.assert_close(case(scores[1]), case(scores)[1], rtol=0, atol=1e-14)


@smooth_case
def test_gradients_of_empty_and_strided_scores(case):
    empty = [(0, *case.shape), (2, 0, *case.shape)]
    if not case.by_place:
        empty += [(0,), (3, 0), (2, 0, 4)] if len(case.shape) == 1 else [(0, 0), (3, 0, 0)]
    for shape in empty:
        inputs = case.inputs(torch.zeros(shape))
        for create_graph in (False, True):
            found = grad(case(*inputs).sum(), inputs, create_graph=create_graph, materialize_grads=True)
            assert found[0].shape == shape
            assert all((g == 0).all() for g in found[1:])
    x, g = (normal(*case.shape, 5, seed=seed).movedim(-1, 0) for seed in (0, 1))
    x, y = (t.detach().requires_grad_() for t in (x, x.contiguous()))
    torch.testing.assert_close(grad(case(x), x, g), grad(case(y), y, g.contiguous()))


@every_case
def test_transforms(case):
    x = normal(4, *case.shape)
    x[1, 2] = x[2, 0] = x[3] = -INF
    torch.testing.assert_close(vmap(case)(x), case(x))
    torch.testing.assert_close(vmap(case, -1, -1)(x.movedim(0, -1)), case(x).movedim(0, -1))
    each = torch.stack([jacobian(case, one) for one in x])
    torch.testing.assert_close(vmap(jacrev(case))(x), each)
    torch.testing.assert_close(vmap(jacfwd(case))(x), each)
    if case.name != "chain":
        torch.testing.assert_close(jacobian(case, x[1], vectorize=True), each[1])
    assert case.facts.differentiable or (each == 0).all()
    if case.name not in (*LOOSE, "two_way_softmax", "sinkhorn"):
        square = each.flatten(1 + len(case.shape)).flatten(1, len(case.shape))
        torch.testing.assert_close(square, square.mT)  # a map is the gradient of its largest value
    tensors = tuple(case.tensors.values())
    for first, second in product(range(1 + len(tensors)), repeat=2):
        once = jacrev(case, argnums=first)
        backward = jacrev(once, argnums=second)(x[1], *tensors)
        torch.testing.assert_close(jacfwd(once, argnums=second)(x[1], *tensors), backward)


@pytest.mark.parametrize("case", LAST.values(), ids=str)
def test_compiles_into_one_graph(case):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, *t: case(x, *t), fullgraph=True, backend="aot_eager")
    x = normal(4, *case.shape)
    x[1], x[2, :2] = -INF, -INF
    inputs = case.inputs(x)
    got, want = compiled(*inputs), case(*inputs)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(*(grad(p, inputs, normal(4, *case.shape, seed=1)) for p in (got, want)))
    with torch.no_grad():
        torch.testing.assert_close(compiled(*inputs), want)


@smooth_case
def test_threads_do_not_matter(case):
    shape = (100, 300) if len(case.shape) == 1 and not case.by_place else (40, *case.shape)
    inputs = case.inputs(normal(*shape, dtype=torch.float32))
    answers = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        p = case(*inputs)
        answers.append((p, *grad(p, inputs, normal(*shape, seed=1, dtype=torch.float32))))
    assert torch.equal(answers[0][0], answers[1][0])
    for one, two in zip(*answers, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-5)
        assert torch.equal(one, two) or not by_kernel(case) or "temperature" in case.settings
    with torch.inference_mode():
        torch.testing.assert_close(case(inputs[0].detach()), answers[0][0])


@every_case_and_draw
def test_bad_scores_are_named(case):
    with pytest.raises(DtypeError, match=r"scores must be float.*; got torch.int64. Use scores.float\(\)"):
        case(torch.ones(case.shape, dtype=torch.int64))
    axes = r"\(..., n\).*; got \(\)" if len(case.shape) == 1 else r"\(..., m, n\).*; got \(2,\)"
    with pytest.raises(ShapeError, match=f"scores must be {axes}"):
        case(torch.ones((2,) * (len(case.shape) - 1)))
    with pytest.raises(TypeError, match="scores must be a tensor; got list"):
        case([1.0] * N)


# Of rows


@every_row_map
@given(data=st.data(), theta=thetas)
def test_agrees_with_its_definition(name, data, theta):
    settings = data.draw(drawn(name, len(theta)))
    want = getattr(reference, name)(theta, **settings)
    for dtype, digits in ((torch.float64, LOOSE.get(name, 1e-12)), (torch.float32, 1e-6)):
        given = {k: torch.tensor(s, dtype=dtype) if isinstance(s, list) else s for k, s in settings.items()}
        assert MAPS[name](torch.tensor(theta, dtype=dtype), **given).tolist() == pytest.approx(
            want, abs=digits
        )


@every_row_map
@given(theta=thetas, at=st.integers(0, 6))
def test_minus_infinity_is_never_looked_at(name, theta, at):
    at = min(at, len(theta))
    p = MAPS[name](torch.tensor([*theta[:at], -INF, *theta[at:]], dtype=torch.float64))
    assert p[at] == 0
    alone = MAPS[name](torch.tensor(theta, dtype=torch.float64))
    torch.testing.assert_close(torch.cat([p[:at], p[at + 1 :]]), alone)


@every_row_map
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


@pytest.mark.parametrize("case", [c for c in ROWS if c.facts.differentiable and not c.by_place], ids=str)
@pytest.mark.parametrize("n", [1, N, 70])
def test_padding_anywhere_changes_nothing(case, n):
    """In weights and gradients; the keys keep their order."""
    inputs, g = case.inputs(normal(8, n, seed=n)), normal(8, n, seed=n + 1)
    scores, *tensors = inputs
    at = normal(8, n + 7, seed=n + 2).argsort(-1)[:, :n].sort(-1).values
    wide = torch.full((8, n + 7), -INF, dtype=torch.float64).scatter(-1, at, scores)
    p = case(wide, *tensors)
    assert (p[wide == -INF] == 0).all()
    torch.testing.assert_close(p.gather(-1, at), case(scores), rtol=0, atol=1e-12)
    want = grad(case(*inputs), inputs, g)
    for create_graph in (False, True):
        got = grad(p.gather(-1, at), inputs, g, retain_graph=True, create_graph=create_graph)
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("name", sorted(BY_KERNEL | set(LOOSE)))
def test_forward_over_forward_is_refused(name):
    """Torch would answer with zeros where a derivative is by hand."""
    with pytest.raises(NotImplementedError, match=r"Use torch.func.hessian or jacfwd\(jacrev\(...\)\)"):
        jacfwd(jacfwd(lambda x: MAPS[name](x * x)))(normal(5))


@every_row
def test_scores_of_any_size(case):
    for huge in (1e4, 1e30, 1e38 if "temperature" in case.settings else 3e38):
        x = torch.tensor([0.0, huge, -huge, 1.0, 0.5, 0.0], requires_grad=True)
        p = case(x)
        assert p.isfinite().all()
        assert grad(p.square().sum(), x)[0].isfinite().all()
        if "upper" not in case.settings:
            assert p[1] == p.max() or "basis" in case.settings
            assert not case.facts.simplex or p.tolist() == pytest.approx([0, 1, 0, 0, 0, 0])


@every_row_map
def test_large_rows_sum_to_one_and_keep_order(name):
    entry = MAPS[name]
    theta = torch.randn(2, 70_000, generator=torch.Generator().manual_seed(0))
    p = entry(theta)
    assert p.isfinite().all()
    if entry.simplex:
        torch.testing.assert_close(p.double().sum(-1), torch.ones(2, dtype=torch.float64), rtol=0, atol=1e-5)


@pytest.mark.parametrize("case", [c for c in ROWS if c.name != "entmax" or not c.settings], ids=str)
def test_meta_tensors_have_shapes(case):
    x = torch.empty(4, N, device="meta", requires_grad=True)
    p = case(x)
    p.sum().backward()
    assert p.shape == x.grad.shape == (4, N) and p.device.type == x.grad.device.type == "meta"
    assert case.by_place or case(torch.empty(4, 0, device="meta")).shape == (4, 0)


@pytest.mark.parametrize("name", sorted(BY_KERNEL))
def test_flops_are_counted(name):
    with FlopCounterMode(display=False) as counter:
        MAPS[name](torch.randn(3, 5))
    assert counter.get_total_flops() > 0


@every_row
def test_inside_attention(case):
    """Weights are those of the keys that may be looked at alone; recorded, changed, and in heads."""
    q, k, v = normal(2, 3, 8), normal(2, N, 8, seed=1), normal(2, N, 4, seed=2)
    map = partial(MAPS[case.name].function, **case.at(q))
    attention = regard.Attention(map=map)
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
    heads = regard.MultiHead(8, heads=2, map=map).double()
    heads(q, k, mask=mask).context.square().sum().backward()
    assert all(w.grad.isfinite().all() for w in heads.parameters())
