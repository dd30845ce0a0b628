"""What every row map gets from its operator: derivatives, transforms, compilers, modes, threads, forks."""

import importlib
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.func import hessian, jacfwd, jacrev, vmap
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from regard.core.errors import ShapeError
from regard.kernels.common.operator import is_plain
from regard.kernels.row_maps.row_operator import row_operator
from regard.maps.entmax import entmax

MAPS = {n: getattr(importlib.import_module(f"regard.maps.{n}"), n) for n in ("sparsemax", "entmax15")}
each = pytest.mark.parametrize("map", MAPS.values(), ids=MAPS)


def scores(*shape):
    torch.manual_seed(0)
    return 2 * torch.randn(shape, dtype=torch.float64)


def with_autograd(map, x):
    """The Jacobian of a vector's map, row by row by ordinary backward."""
    x = x.clone().requires_grad_()
    p = map(x)
    return torch.stack([torch.autograd.grad(p[i], x, retain_graph=True)[0] for i in range(len(p))])


# Derivatives and transforms


@each
def test_derivatives_forward_backward_and_in_batches(map):
    x = scores(4, 7).requires_grad_()
    assert (map(x) == 0).any()
    assert gradcheck(map, x, check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True)
    assert gradgradcheck(map, x, check_batched_grad=True, check_fwd_over_rev=True)


@each
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_vmap_over_any_axis(map, axis):
    x = scores(3, 4, 5)
    rest = x.movedim(axis, 0)
    torch.testing.assert_close(vmap(map, in_dims=axis)(x), torch.stack([map(r) for r in rest]))


@each
def test_jacobians(map):
    x = scores(6, 7)
    expected = torch.stack([with_autograd(map, row) for row in x])
    torch.testing.assert_close(vmap(jacrev(map))(x), expected)
    torch.testing.assert_close(vmap(jacfwd(map))(x), expected)
    vectorized = torch.autograd.functional.jacobian(map, x[0], vectorize=True)
    torch.testing.assert_close(vectorized, expected[0])


@each
def test_second_derivatives_agree_in_every_mode(map):
    x = scores(7)

    def entry(i, h):  # ∂J/∂θᵢ by differences
        step = h * torch.eye(7, dtype=x.dtype)[i]
        return (with_autograd(map, x + step) - with_autograd(map, x - step)) / (2 * h)

    expected = torch.stack([entry(i, 1e-5) for i in range(7)], -1)
    for second in (jacrev(jacrev(map)), hessian(map), jacrev(jacfwd(map))):
        torch.testing.assert_close(second(x), expected, rtol=1e-6, atol=1e-8)


@each
def test_forward_mode_twice_is_refused(map):  # torch gives zeros
    with pytest.raises(NotImplementedError, match="jacfwd or jvp inside another"):
        jacfwd(jacfwd(map))(scores(7))


def test_forward_mode_twice_is_refused_with_a_setting_too():
    with pytest.raises(NotImplementedError, match="jacfwd or jvp inside another"):
        jacfwd(jacfwd(lambda x: entmax(x, 1.3)))(scores(7))


@each
def test_dual_numbers(map):
    x, direction = scores(3, 7), torch.randn(3, 7, dtype=torch.float64)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(map(forward_ad.make_dual(x, direction))).tangent
    expected = torch.stack([with_autograd(map, row) @ d for row, d in zip(x, direction, strict=True)])
    torch.testing.assert_close(tangent, expected)


# Compilers


@each
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_without_a_break(map, dynamic):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: map(3 * x), fullgraph=True, backend="aot_eager", dynamic=dynamic)
    x = scores(4, 7).requires_grad_()
    p, g = compiled(x), torch.randn(4, 7, dtype=x.dtype)
    torch.testing.assert_close(p, map(3 * x))
    torch.testing.assert_close(torch.autograd.grad(p, x, g), torch.autograd.grad(map(3 * x), x, g))
    torch.testing.assert_close(compiled(x.detach()), map(3 * x.detach()))
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), map(3 * x))


@each
def test_compiles_inside_vmap(map):
    torch._dynamo.reset()
    x = scores(4, 7)
    torch.testing.assert_close(torch.compile(vmap(map), fullgraph=True, backend="aot_eager")(x), map(x))


@each
def test_exports(map):
    class Module(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return map(x)

    exported = torch.export.export(Module(), (scores(4, 7),)).module()
    x = scores(4, 7).flip(-1)
    torch.testing.assert_close(exported(x), map(x))


def test_traces():
    traced = torch.jit.trace(MAPS["entmax15"], (scores(4, 7),))
    x = scores(4, 7).flip(-1)
    torch.testing.assert_close(traced(x), MAPS["entmax15"](x))


# Those who look on


@each
def test_fake_tensors(map):
    with FakeTensorMode():
        x = torch.empty(4, 5, requires_grad=True)
        p = map(x)
        (g,) = torch.autograd.grad(p.sum(), x)
    assert p.shape == g.shape == (4, 5)


@each
@pytest.mark.parametrize("grad", [False, True])
def test_modes_see_the_operator(map, grad):
    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    names: list[str] = []
    x = scores(4, 5).requires_grad_(grad)
    with Names():
        p = map(x)
    assert f"regard.{map.__name__}.default" in names
    torch.testing.assert_close(p, map(x))


def test_function_modes_see_the_operator():
    class Count(TorchFunctionMode):
        calls = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            Count.calls += "regard.sparsemax" in str(func)
            return func(*args, **(kwargs or {}))

    with Count():
        MAPS["sparsemax"](scores(4, 5))
    assert Count.calls == 1


def test_subclasses_stay_themselves():
    class Named(Tensor):
        pass

    x = scores(4, 5)
    p = MAPS["sparsemax"](x.as_subclass(Named))
    assert type(p) is Named
    torch.testing.assert_close(p.as_subclass(Tensor), MAPS["sparsemax"](x))


@each
def test_operations_are_counted(map):
    x = torch.randn(4, 5, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        map(x).sum().backward()
    assert counter.get_total_flops() >= x.numel()


def test_a_lazy_minus_sign_is_seen():
    x = torch.randn(3, 4, dtype=torch.complex64).conj().imag
    assert x.is_neg()
    assert not is_plain(x)
    torch.testing.assert_close(MAPS["sparsemax"](x), MAPS["sparsemax"](x.clone()))


@each
def test_inference_mode(map):
    x = scores(4, 5).requires_grad_()
    with torch.inference_mode():
        p = map(x)
        q = map(map(x))
    torch.testing.assert_close(p, map(x).detach())
    torch.testing.assert_close(q, map(map(x)).detach())


@each
def test_the_input_is_left_alone(map):
    x = scores(4, 5)
    before = x.clone()
    map(x)
    assert x.equal(before)
    y = x.clone().requires_grad_()
    g = torch.randn_like(y)
    kept = g.clone()
    map(y).backward(g)
    assert y.equal(before)
    assert g.equal(kept)


# Dtypes and errors


@each
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(map, dtype):
    x = torch.randn(3, 50).to(dtype).requires_grad_()
    wide = x.detach().float().requires_grad_()
    g = torch.randn(3, 50).to(dtype)
    p, q = map(x), map(wide)
    assert p.dtype == dtype
    assert p.equal(q.to(dtype))
    p.backward(g)
    q.backward(g.float())
    assert x.grad.equal(wide.grad.to(dtype))


@each
def test_a_number_is_not_a_row(map):
    with pytest.raises(ShapeError, match=r"scores must be \(\.\.\., n\); got \(\)"):
        map(torch.tensor(1.0))


@each
def test_integers_are_refused(map):
    with pytest.raises(TypeError, match="scores must be float16, .* got torch.int64"):
        map(torch.tensor([1, 2]))


# Settings: a softmax with a temperature, in NumPy


def _softmax(start, stop, x, out, heat, times):
    e = np.exp(x[start:stop] * times / heat)
    out[start:stop] = e / e.sum(-1, keepdims=True)


def _back(start, stop, p, g, out, heat, times):
    p, g = p[start:stop], g[start:stop]
    out[start:stop] = p * (g - (p * g).sum(-1, keepdims=True)) * times / heat


sys.modules["toy_kernels"] = toy = ModuleType("toy_kernels")
toy.forward, toy.backward = _softmax, _back
warm = row_operator(
    "toy_softmax",
    kernels="toy_kernels",
    product=lambda p, g, heat, times: p * (g - (p * g).sum(-1, keepdim=True)) * times / heat,
    reference=lambda x, heat, times: (x * times / heat).softmax(-1),
    heat=float,
    times=int,
)


def test_settings_reach_every_part():
    x = scores(3, 5).requires_grad_()

    def plain(x):
        return (x * 3 / 0.5).softmax(-1)

    torch.testing.assert_close(warm(x.detach(), 0.5, 3), plain(x.detach()))
    assert gradcheck(lambda x: warm(x, 0.5, 3), x, check_forward_ad=True)
    assert gradgradcheck(lambda x: warm(x, 0.5, 3), x)
    torch.testing.assert_close(vmap(lambda x: warm(x, 0.5, 3))(x), plain(x))
    torch.testing.assert_close(torch.ops.regard.toy_softmax(x.detach(), 0.5, 3), plain(x.detach()))
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: warm(x, 0.5, 3), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), plain(x))


# Threads and processes


@each
def test_one_thread_or_many(map):
    x = torch.randn(3000, 100)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = map(x)
        torch.set_num_threads(4)
        together = map(x)
    finally:
        torch.set_num_threads(threads)
    assert alone.equal(together)


@each
def test_eight_threads_at_once(map):
    inputs = [torch.randn(800, 200, requires_grad=True) for _ in range(16)]

    def work(x):
        p = map(x)
        return p.detach(), torch.autograd.grad(p.square().sum(), x)[0]

    expected = [work(x) for x in inputs]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(work, inputs))
    for a, b in zip(expected, got, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def run(script):
    """What a Python process of its own prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_forked_child_computes():
    said = run(
        """
        import os, torch
        from regard.maps.entmax15 import entmax15
        torch.set_num_threads(2)
        x = torch.randn(2000, 100)
        p = entmax15(x)  # makes the pool
        child = os.fork()
        if not child:  # NumPy compares: torch's own operations wait for threads that a child does not have
            os._exit(0 if (entmax15(x).numpy() == p.numpy()).all() else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert said == ["0"]


def test_numba_is_imported_with_the_first_kernel():
    said = run(
        """
        import sys, torch
        from regard.maps.sparsemax import sparsemax
        from regard.maps.entmax15 import entmax15
        print("numba" in sys.modules)
        sparsemax(torch.zeros(0))
        sparsemax(torch.zeros(2))
        print("numba" in sys.modules)
        """
    )
    assert said == ["False", "True"]


def test_works_where_nothing_can_be_cached():
    said = run(
        """
        import os
        os.environ["NUMBA_CACHE_DIR"] = os.devnull + "/cache"
        from numba.core import caching
        caching.CacheImpl._locator_classes = [caching.UserProvidedCacheLocator]
        import torch
        from regard.maps.sparsemax import sparsemax
        print(sparsemax(torch.tensor([9.0, 0.0])).tolist() == [1, 0])
        """
    )
    assert said == ["True"]
