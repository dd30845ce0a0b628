"""Recording never changes the answer; interventions do, and only where they are meant to."""

import gc
import threading
import weakref
from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import CheckpointError, checkpoint

import regard
from regard.core.errors import ChangedError, ShapeError, UnknownNameError
from regard.masks import Causal


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleList([regard.MultiHead(8, 2, map="sparsemax", dropout=0.1) for _ in range(2)])
        self.cross = regard.Attention(regard.scores.Additive(8, 8), "softmax")

    def forward(self, x):
        for layer in self.encoder:
            x = x + layer(x, mask=Causal()).context
        return self.cross(x[:, -1:], x).context


def model_and_input():
    torch.manual_seed(0)
    return Tiny().eval(), torch.randn(2, 5, 8, requires_grad=True)


def test_a_module_in_the_place_of_a_path_is_refused():
    model, x = Tiny(), torch.randn(1, 3, 8)
    for paths in (model.cross, [model.cross]):
        with (
            pytest.raises(TypeError, match="are named by module path, as 'encoder.*'; got Attention"),
            regard.record(model, paths),
        ):
            pass
    with regard.record(model.cross) as alone, regard.record(model, {"cross"}) as named:
        model(x)
    assert [len(one) for seen in (alone, named) for one in seen.values()] == [1, 1]


def test_recording_changes_no_bit_of_answer_or_gradient():
    model, x = model_and_input()
    plain = model(x)
    (g,) = torch.autograd.grad(plain.sum(), x)
    with regard.record(model) as seen:
        looked = model(x)
        assert all(a.weights.isfinite().all() for _, a in seen.calls)
    (h,) = torch.autograd.grad(looked.sum(), x)
    assert torch.equal(plain, looked)
    assert torch.equal(g, h)


def test_attentions_are_named_by_path_with_wildcards():
    model, x = model_and_input()
    with regard.record(model, "encoder.*") as seen:
        model(x)
        model(x)
    assert list(seen) == ["encoder.0", "encoder.1"]
    assert [len(calls) for calls in seen.values()] == [2, 2]
    assert [path for path, _ in seen.calls] == ["encoder.0", "encoder.1"] * 2
    assert seen["encoder.1"][0].weights.shape == (2, 2, 5, 5)
    with regard.record(model, ["cross", "encoder.0"]) as some:
        model(x)
    assert set(some) == {"cross", "encoder.0"}
    with (
        pytest.raises(UnknownNameError, match="'encoder.0', 'encoder.1', 'cross'"),
        regard.record(model, "decoder.*"),
    ):
        pass
    with regard.record(model.cross) as alone:
        model(x)
    assert len(alone[""]) == 1


def test_what_is_recorded_is_detached_unless_asked():
    model, x = model_and_input()
    with regard.record(model, "cross") as seen:
        model(x)
    assert not seen["cross"][0].context.requires_grad
    assert not seen["cross"][0].weights.requires_grad
    with regard.record(model, "cross", grad=True) as seen:
        model(x)
    (g,) = torch.autograd.grad(seen["cross"][0].weights[..., 0].sum(), x)
    assert g.abs().sum() > 0


def test_weights_are_those_that_made_the_context():
    model, x = model_and_input()
    with regard.record(model, "cross") as seen:
        answer = model(x)
    one = seen["cross"][0]
    torch.testing.assert_close(one.weights @ one.values, answer)


def test_an_intervention_replaces_the_weights_and_is_what_is_seen():
    model, x = model_and_input()
    with (
        regard.intervene(model.cross, lambda p: torch.full_like(p, 1 / p.shape[-1])),
        regard.record(model, "cross") as seen,
    ):
        answer = model(x)
    one = seen["cross"][0]
    assert (one.weights == 0.2).all()
    torch.testing.assert_close(answer, one.values.mean(1, keepdim=True))
    assert not torch.allclose(answer, model(x))


def test_the_identity_intervention_equals_the_fast_backend_to_rounding():
    model, x = model_and_input()
    with regard.intervene(model, lambda p: p):
        torch.testing.assert_close(model(x), model(x))
        answer = model(x)
    torch.testing.assert_close(answer, model(x))


def test_interventions_nest_outermost_first():
    model, x = model_and_input()
    with (
        regard.intervene(model, lambda p: p * 2, "cross"),
        regard.intervene(model, lambda p: p + 1, "cross"),
        regard.record(model, "cross") as seen,
    ):
        model(x)
    with regard.record(model, "cross") as before:
        model(x)
    torch.testing.assert_close(seen["cross"][0].weights, before["cross"][0].weights * 2 + 1)


def test_an_intervention_must_keep_the_shape():
    model, x = model_and_input()
    with (
        regard.intervene(model, lambda p: p[..., :1], "cross"),
        pytest.raises(ShapeError, match=r"\(2, 1, 5\)"),
    ):
        model(x)


def test_threads_do_not_see_each_other():
    model, x = model_and_input()
    want, answers = model(x), []

    def work():
        answers.append(model(x))

    with regard.record(model) as seen, regard.intervene(model, torch.zeros_like):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert torch.equal(answers[0], want)
    assert not seen.calls


def test_an_error_inside_leaves_nothing_behind():
    model, x = model_and_input()
    want = model(x)
    with pytest.raises(RuntimeError, match="stop"), regard.intervene(model, torch.zeros_like):
        raise RuntimeError("stop")
    assert torch.equal(model(x), want)


def test_looking_after_a_change_in_place_is_an_error_that_says_so():
    k = torch.randn(2, 4, 8)
    seen = regard.attend(torch.randn(2, 3, 8), k)
    k.add_(1)
    with pytest.raises(ChangedError, match="keys changed in place"):
        _ = seen.weights
    score = regard.scores.Bilinear(8, 8)
    seen = regard.Attention(score)(torch.randn(2, 3, 8), k)
    with torch.no_grad():
        score.W.weight.mul_(2)
    with pytest.raises(ChangedError, match=r"score's W.weight"):
        _ = seen.scores
    mask = torch.ones(3, 4, dtype=torch.bool)
    seen = regard.attend(torch.randn(2, 3, 8), k, mask=mask)
    mask[0, 0] = False
    with pytest.raises(ChangedError, match="mask"):
        _ = seen.weights
    looked = regard.attend(torch.randn(2, 3, 8), k)
    kept = looked.weights
    k.add_(1)
    assert looked.weights is kept  # what was seen stays seen


def test_weights_are_differentiable_and_before_dropout():
    torch.manual_seed(0)
    q, k = torch.randn(1, 3, 8, requires_grad=True), torch.randn(1, 4, 8)
    seen = regard.attend(q, k, dropout=0.5)
    torch.testing.assert_close(seen.weights.sum(-1), torch.ones(1, 3))
    (g,) = torch.autograd.grad(seen.weights[..., 0].sum(), q)
    assert g.abs().sum() > 0


def test_compiled_models_are_recorded_and_changed_too():
    torch._dynamo.reset()
    model, x = model_and_input()
    compiled = torch.compile(model, backend="aot_eager")
    want = compiled(x)
    with regard.record(model, "cross") as seen, regard.intervene(model, torch.zeros_like, "cross"):
        assert (compiled(x) == 0).all()
    assert (seen["cross"][0].weights == 0).all()
    assert torch.equal(compiled(x), want)


def sigmoid_and_input():
    """A map whose attention is plain with and without an intervention: it saves as many tensors."""
    torch.manual_seed(0)
    return regard.MultiHead(8, 2, map="sigmoid"), torch.randn(2, 5, 8, requires_grad=True)


@pytest.mark.parametrize(
    "change", [lambda p: p * 2, lambda p: torch.full_like(p, 0.2)], ids=["scaled", "given"]
)
@pytest.mark.parametrize("outside", ["forward", "backward", "neither"])
def test_a_checkpoint_runs_again_under_the_same_intervention_or_raises(change, outside):
    heads, x = sigmoid_and_input()

    def context():
        return checkpoint(lambda z: heads(z).context, x, use_reentrant=False)

    with regard.intervene(heads, change):
        (want,) = torch.autograd.grad(heads(x).context.square().sum(), x)
        answer = context()
        if outside == "neither":
            assert torch.equal(torch.autograd.grad(answer.square().sum(), x)[0], want)
            return
    if outside == "backward":
        with pytest.raises(CheckpointError):
            answer.square().sum().backward()
    else:
        answer = context()
        with regard.intervene(heads, change), pytest.raises(CheckpointError):
            answer.square().sum().backward()


def test_a_reentrant_checkpoint_under_an_intervention_is_refused():
    heads, x = sigmoid_and_input()
    with regard.intervene(heads, lambda p: p * 2):
        with pytest.raises(RuntimeError, match="use_reentrant=False"):
            checkpoint(lambda z: heads(z).context, x, use_reentrant=True)
        with torch.no_grad():
            heads(x)


def test_a_detached_attended_keeps_no_graph_and_can_be_copied():
    x = torch.randn(2, 3, 8, requires_grad=True)
    y = x * 2
    bias = regard.positions.Bias(y[..., :3] * 1)
    place = regard.Place(torch.arange(3), torch.arange(3), previous=y.sum(-1, keepdim=True).mT * 1)
    graph = weakref.ref(y)
    seen = regard.attend(y, y, score=regard.scores.ScaledDot() + bias, place=place).detach()
    del y, bias, place
    gc.collect()
    assert graph() is None
    copied = deepcopy(seen)
    torch.testing.assert_close(copied.weights, seen.weights)
    assert not copied.weights.requires_grad
    other = deepcopy(seen)
    other.query.add_(1)
    assert deepcopy(copied).weights.shape == (2, 3, 3)
    for one in (other, deepcopy(other)):
        one._known.clear()
        with pytest.raises(ChangedError, match="query changed in place"):
            one.weights  # noqa: B018


def test_looking_at_what_was_detached_notices_changes_of_the_original():
    k = torch.randn(2, 4, 8, requires_grad=True) * 1
    seen = regard.attend(torch.randn(2, 3, 8), k).detach()
    with torch.no_grad():
        k.add_(1)
    with pytest.raises(ChangedError, match="keys changed in place"):
        seen.weights  # noqa: B018


class Own(regard.Attentive):
    def forward(self, x):
        return regard.attend(x, x, owner=self).context


def test_a_module_of_ones_own():
    model, x = nn.Sequential(nn.Linear(8, 8), Own()), torch.randn(2, 3, 8)
    with regard.record(model) as seen, regard.intervene(model, torch.zeros_like):
        assert (model(x) == 0).all()
    assert list(seen) == ["1"] and seen["1"][0].weights.shape == (2, 3, 3)

    class Unknown(nn.Module):
        forward = Own.forward

    with pytest.raises(TypeError, match=r"class Unknown\(regard.Attentive\)"):
        Unknown()(x)


def test_a_model_without_attentions_is_told_what_to_do():
    with (
        pytest.raises(UnknownNameError, match=r'regard.swap\(model, map="softmax"\)'),
        regard.record(nn.TransformerEncoderLayer(8, 2)),
    ):
        pass
