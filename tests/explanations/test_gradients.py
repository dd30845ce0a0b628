"""Gradients of what is explained: against differences, of a linear model, with attention held, integrated."""

import pytest
import torch

from explanations.toys import Linear, Look, classifier, log_odds, texts
from regard import intervene, record
from regard.explanations import (
    attention_x_gradient,
    completeness_error,
    gradient,
    gradient_x_input,
    integrated_gradients,
    leave_one_out,
)

every_size = pytest.mark.parametrize("classes", [1, 2])


def differences(f, x, h=1e-6):
    """∂f/∂x for f of x (n, d), by central differences."""
    slope = torch.zeros_like(x)
    for place in torch.cartesian_prod(*map(torch.arange, x.shape)):
        step = torch.zeros_like(x)
        step[tuple(place)] = h
        slope[tuple(place)] = (f(x + step) - f(x - step)) / (2 * h)
    return slope


def test_what_is_explained_is_the_log_odds():
    model, (tokens, lengths) = classifier("attentive_bilstm").eval(), texts()
    target = model(tokens, lengths).argmax(-1)
    found = gradient(model, tokens, lengths), gradient_x_input(model, tokens, lengths)
    for text, (row, n) in enumerate(zip(tokens, lengths, strict=True)):

        def value(x, n=n, text=text):
            return log_odds(model.from_embedded(x[None], n[None]), target[text : text + 1])[0]

        x = model.embed(row[:n]).detach()
        with torch.no_grad():
            slope = differences(value, x)
        torch.testing.assert_close(found[0][text, :n], slope.norm(dim=-1), rtol=1e-4, atol=1e-7)
        torch.testing.assert_close(found[1][text, :n], (slope * x).sum(-1), rtol=1e-4, atol=1e-7)


@every_size
def test_of_a_linear_model_all_agree_exactly(classes):
    model, (tokens, lengths) = Linear(classes), texts()
    by_gradient = gradient_x_input(model, tokens, lengths)
    for by in ("zero", "delete"):
        torch.testing.assert_close(
            leave_one_out(model, tokens, lengths, by=by), by_gradient, rtol=0, atol=1e-12
        )
    pytest.importorskip("captum")
    torch.testing.assert_close(
        integrated_gradients(model, tokens, lengths, steps=2), by_gradient, rtol=0, atol=1e-12
    )
    assert by_gradient.abs().sum() > 1  # not all 0


@pytest.mark.parametrize("kind", ["attentive_bilstm", "transformer_encoder", "hierarchical"])
@pytest.mark.parametrize("hold", [False, True])
def test_integrated_gradients_sum_to_the_difference(kind, hold):
    """Within 1 % at 50 steps."""
    pytest.importorskip("captum")
    model, (tokens, lengths) = classifier(kind).eval(), texts()
    target = torch.tensor([0, 1, 2, 1])
    scores = integrated_gradients(model, tokens, lengths, target=target, steps=50, hold_attention=hold)
    condition = model.condition(tokens, lengths)
    x = model.embed(tokens)
    ends = [log_odds(model.from_embedded(v, lengths, condition), target) for v in (x, torch.zeros_like(x))]
    difference = (ends[0] - ends[1]).detach()
    if hold:  # what changes through the weights is left out
        assert not torch.allclose(scores.sum(-1), difference, rtol=0.01)
    else:
        torch.testing.assert_close(scores.sum(-1), difference, rtol=0.01, atol=0)


def test_of_a_fixed_number_of_steps_one_knows_how_far_off_the_sums_are():
    """y = Σ x² has slope 2ax at ax: with one step, of the midpoint, exact; of Σ x⁴ 1/2 instead of 1."""
    pytest.importorskip("captum")
    x = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for power, error in ((2, 0.0), (4, 0.5)):

        def powers(x, power=power):
            return (x**power).sum((1, 2)).unsqueeze(-1)

        scores = integrated_gradients(powers, x, steps=1, doublings=0)
        torch.testing.assert_close(scores, (1 - error) * (x**power).sum(-1))
        found = completeness_error(powers, x, scores=scores)
        torch.testing.assert_close(found, torch.full((2,), error, dtype=torch.float64))
    doubled = integrated_gradients(powers, x, steps=1, doublings=1)
    assert bool((completeness_error(powers, x, scores=doubled) < 1e-9).all())


def test_completeness_is_of_the_class_and_the_baseline_that_are_given():
    pytest.importorskip("captum")
    model, (tokens, lengths) = classifier("attentive_mlp").eval(), texts()
    begin, target = model.embed(torch.tensor(1)).detach(), torch.tensor([0, 1, 2, 1])
    asked = {"target": target, "baseline": begin}
    scores = integrated_gradients(model, tokens, lengths, **asked, steps=100)
    assert bool((completeness_error(model, tokens, lengths, scores=scores, **asked) < 0.01).all())
    assert bool((completeness_error(model, tokens, lengths, scores=scores, target=target) > 0.01).any())
    assert bool((completeness_error(model, tokens, lengths, scores=2 * scores, **asked) > 0.9).all())


def test_from_another_baseline():
    pytest.importorskip("captum")
    model, (tokens, lengths) = Linear(), texts()
    baseline = model.embed(torch.tensor(1)).detach()
    scores = integrated_gradients(model, tokens, lengths, target=1, baseline=baseline, steps=2)
    W = (model.W.weight[1] - model.W.weight[0]).detach()
    expected = ((model.embed(tokens) - baseline) @ W).detach() * (torch.arange(6) < lengths.unsqueeze(-1))
    torch.testing.assert_close(scores, expected)
    with pytest.raises(ValueError, match=r"baseline must be \(d,\) with d=5; got \(4,\)"):
        integrated_gradients(model, tokens, lengths, baseline=torch.zeros(4))
    with pytest.raises(ValueError, match="steps must be at least 1; got 0"):
        integrated_gradients(model, tokens, lengths, steps=0)


def test_with_attention_held_a_look_is_linear():
    """y = Σⱼ αⱼ w·xⱼ + b with α fixed: the slope at xⱼ is αⱼw."""
    model, (tokens, lengths) = Look(), texts()
    with record(model) as seen:
        model(tokens, lengths)
    alpha = seen["attention"][0].weights[:, 0]
    w = (model.read.weight[1] - model.read.weight[0]).detach()
    held = dict(target=1, hold_attention=True)
    torch.testing.assert_close(gradient(model, tokens, lengths, **held), alpha * w.norm())
    expected = alpha * (model.embed(tokens).detach() @ w)
    torch.testing.assert_close(gradient_x_input(model, tokens, lengths, **held), expected)
    free = gradient_x_input(model, tokens, lengths, target=1)
    assert not torch.allclose(free, expected)


def test_attention_times_gradient_is_the_slope_along_the_weight():
    model, (tokens, lengths) = Look(), texts()
    with record(model) as seen:
        model(tokens, lengths)
    alpha, target = seen["attention"][0].weights[:, 0], torch.zeros(4, dtype=torch.long)

    def value(change):
        with intervene(model, lambda p: p + change.unsqueeze(1)), torch.no_grad():
            return log_odds(model(tokens, lengths), target)

    expected = torch.zeros_like(alpha)
    for j in range(6):
        step = torch.zeros_like(alpha)
        step[:, j] = 1e-6
        expected[:, j] = alpha[:, j] * (value(step) - value(-step)) / 2e-6
    found = attention_x_gradient(model, tokens, lengths, target=target)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-8)


def test_a_function_of_vectors_is_explained_as_it_is():
    """Outputs of a function are taken as they come: here squares, whose slope is known."""
    x = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def squares(x):
        return torch.stack([x.square().sum((1, 2)), -x.square().sum((1, 2))], -1)

    torch.testing.assert_close(gradient(squares, x), 2 * x.norm(dim=-1))
    torch.testing.assert_close(gradient_x_input(squares, x, target=1), -2 * x.square().sum(-1))
    torch.testing.assert_close(leave_one_out(squares, x, by="zero"), x.square().sum(-1))
    torch.testing.assert_close(leave_one_out(squares, x), x.square().sum(-1))
    pytest.importorskip("captum")
    torch.testing.assert_close(integrated_gradients(squares, x), x.square().sum(-1))


def test_a_class_can_be_asked_for_by_text():
    model, (tokens, lengths) = classifier("attentive_mlp"), texts()
    target = torch.tensor([0, 1, 2, 0])
    together = gradient_x_input(model, tokens, lengths, target=target)
    for text, one in enumerate(target.tolist()):
        torch.testing.assert_close(gradient_x_input(model, tokens, lengths, target=one)[text], together[text])
