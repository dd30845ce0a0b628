"""Every mechanism: what it computes is what its definition says, with masks, gradients and no leak."""

from functools import partial

import pytest
import torch

import regard
from regard import MECHANISMS
from regard.masks import Blocks, Causal, Lengths, Window
from regard.testing import check_causal, check_padding

SMALL = {  # settings for about 30 tokens
    "full": {},
    "local": {"window": 3},
    "longformer": {"window": 4, "tokens": 2},
    "bigbird": {"block": 4, "random": 1},
    "strided": {"stride": 4},
    "fixed": {"stride": 4},
    "linformer": {"projected": 5, "longest": 40},
    "linear_attention": {},
    "performer": {"features": 16},
    "reformer": {"chunk": 4, "rounds": 3},
    "sinkhorn": {"block": 4},
    "synthesizer": {"longest": 64},
}
every = pytest.mark.parametrize("name", MECHANISMS)
N = 30
LENGTHS = torch.tensor([N, 17])


def made(name, width=8, heads=2, **settings):
    torch.manual_seed(1)
    return MECHANISMS[name].make(width, heads, **{**SMALL[name], **settings}).double()


def inputs(n=N, width=8):
    return torch.randn(2, n, width, dtype=torch.float64, generator=torch.Generator().manual_seed(n))


def masks_of(name):
    found = [None, Lengths(LENGTHS)]
    return found + ([Causal(), Causal() & Lengths(LENGTHS)] if MECHANISMS[name].causal else [])


def same(one, other, real=None, tolerance=1e-9):
    real = torch.ones(one.shape[:2], dtype=torch.bool) if real is None else real
    torch.testing.assert_close(one[real], other[real], rtol=0, atol=tolerance)


@every
def test_the_context_is_that_of_its_weights(name):
    module, x = made(name), inputs().requires_grad_()
    for mask in masks_of(name):
        seen = module(x, mask=mask)
        with regard.intervene(module, lambda p: p):  # by the plain three steps
            plain = module(x, mask=mask)
        real = None if mask is None or mask.lengths() is None else torch.arange(N) < LENGTHS[:, None]
        same(seen.context, plain.context, real)
        assert seen.weights.shape[:3] == (2, 2, N)
        assert seen.over_tokens.shape == (2, 2, N, N)
        if name == "sinkhorn":  # straight-through: the sorting learns, the weights do not say so
            continue
        over = [x, *module.parameters()]
        chosen = torch.randn(seen.context.shape, dtype=torch.float64)
        chosen = chosen if real is None else chosen * real.unsqueeze(-1)
        grads = [torch.autograd.grad(z.context, over, chosen, allow_unused=True) for z in (seen, plain)]
        for one, other in zip(*grads, strict=True):
            if one is not None and other is not None:
                torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


@every
def test_padding_and_the_future_do_not_leak(name):
    module, x = made(name), inputs()
    check_padding(lambda x, lengths: module(x, mask=Lengths(lengths)).context, x, LENGTHS)
    if MECHANISMS[name].causal:
        check_causal(lambda x: module(x, mask=Causal()).context, x)
    else:
        with pytest.raises(ValueError, match=name):
            module(x, mask=Causal())


@every
def test_masks_it_cannot_honour_are_refused_by_name(name):
    module, x = made(name), inputs()
    boolean = torch.rand(N, N) > 0.5
    for mask in (boolean, Window(2), Blocks(torch.eye(2, dtype=torch.bool), 16)):
        if MECHANISMS[name].masks == "any":
            visible = module(x, mask=mask).weights[
                ..., ~regard.masks.as_mask(mask).rows(0, N, N, N, 2, x.device)
            ]
            assert (visible == 0).all()
        else:
            with pytest.raises(ValueError, match=f"{name} cannot honour"):
                module(x, mask=mask)


@every
def test_widths_settings_and_maps_it_does_not_have_are_refused_by_name(name):
    with pytest.raises(ValueError, match=f"{name}: heads must divide"):
        MECHANISMS[name].make(9, 2)
    with pytest.raises(ValueError, match=f"{name} has no setting"):
        MECHANISMS[name].make(8, 2, wings=3)
    if MECHANISMS[name].maps:
        module = made(name, map="sparsemax")
        seen = module(inputs())
        assert (seen.weights == 0).any()
        with regard.intervene(module, lambda p: p):
            same(seen.context, module(inputs()).context)
    else:
        with pytest.raises(ValueError, match=f"{name} has no map but softmax"):
            made(name, map="sparsemax")


@every
def test_one_token_and_half_precision(name):
    module = made(name, **({"block": 1} if name == "bigbird" else {}))
    x = inputs(1)
    assert module(x).context.isfinite().all()
    half = MECHANISMS[name].make(8, 2, **SMALL[name]).bfloat16()
    found = half(inputs().bfloat16())
    assert found.context.dtype == torch.bfloat16
    assert found.context.isfinite().all()


@every
def test_a_sequence_with_nothing_to_see_has_context_0(name):
    module = made(name)
    mask = Lengths(torch.tensor([N, 0]))
    seen = module(inputs(), mask=mask)
    bias = module.W_o.bias
    torch.testing.assert_close(seen.context[1], bias.expand(N, -1))
    seen.context.sum().backward()
    assert all(p.grad.isfinite().all() for p in module.parameters() if p.grad is not None)


@pytest.mark.parametrize("name", [name for name, entry in MECHANISMS.items() if entry.causal])
def test_steps_of_a_cache_are_the_whole(name):
    module, x = made(name).eval(), inputs()
    if name == "reformer":
        module = made(name, buckets=4).eval()
    from regard.memories import KeyValue

    cache, again = KeyValue(), KeyValue()
    whole = module(x, mask=Causal(), cache=KeyValue()).context
    steps = [module(x[:, t : t + 1], mask=Causal(), cache=cache).context for t in range(N)]
    same(torch.cat(steps, 1), whole)
    with torch.no_grad():  # with the recurrent state, where there is one
        parts = [module(part, mask=Causal(), cache=again).context for part in x.split([11] + [1] * 19, 1)]
        same(torch.cat(parts, 1), whole)
        for index in (torch.tensor([1, 0]), torch.tensor([1, 1])):
            branch = again.copy()
            branch.select(index)
            seen = module(x[index, :1], mask=Causal(), cache=branch)
            other = module(torch.cat([x, x[:, :1]], 1)[index], mask=Causal(), cache=KeyValue())
            same(seen.context, other.context[:, -1:])
        if name in ("linear_attention", "performer"):
            assert branch.carried.read == N + 1
            looked = seen.weights @ seen.values
            same(module._joined(looked), seen.context)


LIMITS = {
    "local": {"window": N},
    "longformer": {"window": N, "tokens": 0},
    "bigbird": {"block": 4, "near": 8},
    "strided": {"stride": 1},
    "fixed": {"stride": N, "summary": 1},
    "sinkhorn": {"block": N},
}


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("map", ["softmax", "entmax15"])
def test_in_the_limit_it_is_full_attention(name, map):
    module, full = made(name, map=map, **LIMITS[name]), made("full", map=map)
    full.load_state_dict(module.state_dict(), strict=False)
    x = inputs().requires_grad_()
    real = torch.arange(N) < LENGTHS[:, None]
    heads = {"strided": slice(1, None), "fixed": slice(None, 1)}.get(name, slice(None))  # far, near
    seen, whole = module(x, mask=Lengths(LENGTHS)), full(x, mask=Lengths(LENGTHS))
    torch.testing.assert_close(seen.weights[:, heads], whole.weights[:, heads], rtol=0, atol=1e-5)
    if heads == slice(None):
        same(seen.context, whole.context, real, 1e-5)
        one, other = (torch.autograd.grad(z.context[real].square().sum(), x)[0] for z in (seen, whole))
        same(one, other, tolerance=1e-5)


def test_linformer_with_the_identity_is_full_attention():
    module, full = made("linformer", projected=N, longest=N), made("full")
    full.load_state_dict(module.state_dict(), strict=False)
    with torch.no_grad():
        for W in (module.core.E, module.core.F):
            W.copy_(torch.eye(N))
    x = inputs().requires_grad_()
    seen, whole = module(x), full(x)
    same(seen.context, whole.context, tolerance=1e-5)
    one, other = (torch.autograd.grad(z.context.square().sum(), x)[0] for z in (seen, whole))
    same(one, other, tolerance=1e-5)
    assert seen.columns == "projections"
    torch.testing.assert_close(seen.over_tokens, whole.weights)
    with pytest.raises(ValueError, match="linformer projects at most"):
        module(inputs(N + 1))


def test_reformer_with_one_bucket_is_full_attention_with_shared_unit_keys():
    module, x = made("reformer", buckets=1, rounds=2), inputs().requires_grad_()
    q = module._split(module.W_q(x), 2)
    theta = q @ torch.nn.functional.normalize(q, dim=-1).mT / 2
    theta = theta.masked_fill(torch.eye(N, dtype=torch.bool), -torch.inf)
    wanted = module._joined(theta.softmax(-1) @ module._split(module.W_v(x), 2))
    seen = module(x)
    same(seen.context, wanted, tolerance=1e-5)
    one, other = (torch.autograd.grad(z.square().sum(), x)[0] for z in (seen.context, wanted))
    same(one, other, tolerance=1e-5)
    alone = module(inputs(1))
    assert (alone.weights == 1).all()  # oneself, if nothing else


def test_performers_error_falls_as_the_root_of_the_features():
    torch.manual_seed(0)
    q, k, v = (torch.randn(64, 16, dtype=torch.float64) * s for s in (0.3, 0.3, 1.0))
    exact = regard.attend(q, k, v).context
    from regard.mechanisms.performer import PositiveFeatures, orthogonal_features
    from regard.scores import ScaledDot

    counts = [16, 64, 256, 1024]
    errors = []
    for count in counts:
        squared = []
        for seed in range(12):
            score = PositiveFeatures(ScaledDot(), orthogonal_features(count, 16, seed))
            squared.append((regard.attend(q, k, v, score=score).context - exact).square().mean())
        errors.append(torch.stack(squared).mean().sqrt())
    x, y = torch.tensor(counts).double().log(), torch.stack(errors).log()
    slope = ((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()
    assert abs(float(slope) + 0.5) <= 0.1


def test_random_features_change_on_request_alone():
    for name in ("performer", "reformer"):
        module, x = made(name), inputs()
        before = module(x).context
        module.eval()
        same(module(x).context, before)
        module.redraw(7)
        assert not torch.equal(module(x).context, before)


def test_weights_of_a_synthesizer_do_not_depend_on_keys():
    for kind in ("dense", "random", "factorised"):
        module, x = made("synthesizer", kind=kind), inputs()
        before = module(x).weights
        with regard.intervene(module, lambda k: k.flip(-2), on="keys"), regard.record(module) as seen:
            module(x)
        torch.testing.assert_close(next(iter(seen.values()))[-1].weights, before)


def test_too_few_tokens_and_other_sequences_are_refused_by_name():
    with pytest.raises(ValueError, match="bigbird attends by blocks of 4"):
        made("bigbird")(inputs(3))
    for name, entry in MECHANISMS.items():
        if not entry.across:
            with pytest.raises(ValueError, match=f"{name} is for self-attention"):
                made(name)(inputs(), inputs(7))
        else:
            assert made(name)(inputs(), inputs(7)).context.shape == (2, N, 8)


def test_a_score_that_is_no_dot_product_is_refused_by_name():
    with pytest.raises(ValueError, match="performer takes scores that are dot products"):
        made("performer", score="additive")


def test_chunks_kernel_recurrent_form_and_definition_agree():
    from regard.backends.features import step
    from regard.kernels.attention.linear_operator import by_chunks, causal
    from regard.scores.kernel import Features

    torch.manual_seed(0)
    n, f, d = 77, 5, 3
    fq, fk = (torch.rand(2, n, f, dtype=torch.float64).requires_grad_() for _ in range(2))
    v = torch.randn(2, n, d, dtype=torch.float64, requires_grad=True)
    for log in (None, torch.randn(2, n, dtype=torch.float64).mul(5).cummax(-1).values):
        pairs = fq @ fk.mT
        if log is not None:
            pairs = pairs * (log.unsqueeze(-2) - log.unsqueeze(-1)).clamp(max=0).exp()
        pairs = pairs.tril()
        wanted = pairs @ v / pairs.sum(-1, keepdim=True)
        chosen = torch.randn_like(wanted)
        grads = torch.autograd.grad(wanted, (fq, fk, v), chosen, retain_graph=True)
        for one in (causal, by_chunks):
            found = one(fq, fk, v, log)
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)
            for a, b in zip(torch.autograd.grad(found, (fq, fk, v), chosen), grads, strict=True):
                torch.testing.assert_close(a, b, rtol=0, atol=1e-5)
        state, steps = None, []
        for t in range(n):
            at = slice(t, t + 1)
            own = None if log is None else log[:, at]
            context, state = step(Features(fq[:, at], fk[:, at], None, own), v[:, at], state)
            steps.append(context)
        torch.testing.assert_close(torch.cat(steps, 1), wanted, rtol=0, atol=1e-5)
    small = [torch.rand(1, 6, 2, dtype=torch.float64).add(0.2).requires_grad_() for _ in range(3)]
    assert torch.autograd.gradgradcheck(lambda q, k, v: causal(q, k, v), small)


BY_STRIDE = pytest.mark.parametrize("name", ["strided", "fixed"])


@BY_STRIDE
def test_a_stride_of_its_own_depends_on_the_sequence_not_on_its_batch(name):
    module, x, lengths = made(name, stride=None), inputs(40), torch.tensor([40, 12])
    seen = module(x, mask=Lengths(lengths))
    alone = module(x[1:, :12])  # with a stride of 3, not 6
    torch.testing.assert_close(seen.context[1, :12], alone.context[0], rtol=0, atol=1e-9)
    torch.testing.assert_close(seen.weights[1, :, :12, :12], alone.weights[0], rtol=0, atol=1e-9)
    check_padding(lambda x, lengths: module(x, mask=Lengths(lengths)).context, x, lengths, more=30)
    empty = module(x, mask=Lengths(torch.tensor([0, 40]))).context
    torch.testing.assert_close(empty[0], module.W_o.bias.expand(40, -1))
    torch.testing.assert_close(empty[1], module(x[1:]).context[0], rtol=0, atol=1e-9)


@BY_STRIDE
def test_without_a_stride_steps_of_a_cache_are_what_is_trained(name):
    from regard.memories import KeyValue

    module, x, cache = made(name, stride=None).eval(), inputs(70), KeyValue()
    steps = [module(x[:, t : t + 1], mask=Causal(), cache=cache).context for t in range(70)]
    same(torch.cat(steps, 1), module(x, mask=Causal()).context)


@BY_STRIDE
def test_causal_and_compiled_without_a_break(name):
    module, x = made(name), inputs()
    compiled = torch.compile(lambda x: module(x, mask=Causal()).context, fullgraph=True, backend="aot_eager")
    same(compiled(x), module(x, mask=Causal()).context)


PARTED = pytest.mark.parametrize("name", [name for name, entry in MECHANISMS.items() if entry.parted])


@PARTED
@pytest.mark.parametrize("n", [30, 8])
def test_maps_with_a_parameter_for_each_head_and_maps_of_neighbours(name, n):
    """Rows are computed in parts: heads are then another axis, and keys in another order."""
    maps = [regard.maps.Entmax(learn_alpha=True, heads=2), regard.maps.scalable_entmax(2)]
    maps += [partial(regard.maps.entmax, alpha=torch.tensor([1.2, 1.9]).view(2, 1, 1))]
    for map in [*maps, "fusedmax", "chain"]:
        if name == "sinkhorn" and isinstance(map, str):
            with pytest.raises(ValueError, match="sinkhorn sorts the keys"):
                made(name, map=map)
            continue
        module, x = made(name, map=map), inputs(n)
        for p in module.map.parameters() if isinstance(module.map, torch.nn.Module) else ():
            torch.nn.init.uniform_(p)
        for mask in masks_of(name)[::2]:
            with regard.intervene(module, lambda p: p):
                plain = module(x, mask=mask)
            same(module(x, mask=mask).context, plain.context)


@PARTED
def test_maps_of_the_whole_matrix_are_refused_by_name(name):
    for map in ("sinkhorn", "sparsemap_matching", "two_way_softmax"):
        with pytest.raises(ValueError, match=f"{name} takes maps of a row alone"):
            made(name, map=map)


@pytest.mark.parametrize("name", ["performer", "linear_attention"])
def test_derivatives_of_one_causal_sequence(name):
    """One sequence is not contiguous where heads are split off: its graph must not be lost for that."""
    module = made(name, width=4)
    x = inputs(5, 4)[:1].requires_grad_()
    (grad,) = torch.autograd.grad(module(x, mask=Causal()).context.square().sum(), x)
    (again,) = torch.autograd.grad(module(x, mask=Causal()).context.square().sum(), x, create_graph=True)
    torch.testing.assert_close(again, grad)
    assert torch.autograd.gradgradcheck(lambda x: module(x, mask=Causal()).context, (x,))


def test_looking_after_features_were_drawn_again_is_an_error():
    module, x = made("performer"), inputs()
    seen = module(x)
    module.redraw(3)
    with pytest.raises(regard.core.errors.ChangedError, match="score's w"):
        seen.weights  # noqa: B018
