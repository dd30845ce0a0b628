"""What cannot be explained is said in one line."""

import pytest
import torch
from torch import nn

from explanations.toys import Linear, classifier, random_weights, texts
from regard.explanations import METHODS, explain, flow, gradient, leave_one_out, rollout

TOKENS, LENGTHS = texts()


class Plain(nn.Module):
    def forward(self, tokens, lengths=None):
        return torch.ones(len(tokens), 2)


def says(what, model, *inputs, method="leave_one_out", error=ValueError, **options):
    with pytest.raises(error, match=what) as raised:
        explain(model, *inputs, method=method, **options)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("method", [m for m in METHODS if METHODS[m].needs in ("weights", "values")])
def test_a_model_without_attention(method):
    says("this model has none that regard can see. Give its weights", Plain(), TOKENS, method=method)
    says("a function shows none", lambda tokens: torch.ones(len(tokens), 2), TOKENS, method=method)


def test_held_attention_and_its_gradient_need_attention_too():
    says("hold_attention needs attention", Linear(), *texts(), method="gradient", hold_attention=True)
    says("attention_x_gradient needs attention", Linear(), *texts(), method="attention_x_gradient")
    for method in ("norms", "effective_attention"):
        says("needs a model: bare weights", random_weights(1, 1, 3, 3), method=method)


@pytest.mark.parametrize("method", METHODS)
def test_no_tokens(method):
    model = classifier("attentive_mlp")
    if method == "integrated_gradients":
        pytest.importorskip("captum")
    says("text 1 has 0", model, TOKENS, torch.tensor([6, 0, 2, 2]), method=method)
    says("text 0 has 0", model, TOKENS[:, :0], method=method)
    says("text 3 has 7", model, TOKENS, torch.tensor([6, 1, 2, 7]), method=method)


def test_one_token():
    model, one = classifier("attentive_mlp"), (TOKENS[:, :1], torch.ones(4, dtype=torch.long))
    says('text 0 has one token, and nothing is left without it: use by="zero" or a token', model, *one)
    assert explain(model, *one, method="leave_one_out", by="zero").shape == (4, 1)
    assert explain(model, *one, method="attention").tolist() == [[1.0]] * 4


def test_outputs_of_the_wrong_shape_or_kind():
    says(r"must return numbers \(b, classes\) with b=4; got \(4,\)", lambda t: torch.ones(4), TOKENS)
    says(r"got \(4, 6, 2\)", lambda t: torch.ones(4, 6, 2), TOKENS)
    says(r"got \(1, 2\)", lambda t: torch.ones(1, 2), TOKENS)
    says("torch.int64", lambda t: torch.ones(4, 2).long(), TOKENS)
    says("must return a tensor; got list", lambda t: [1.0], TOKENS, error=TypeError)

    class Output:
        logits = torch.ones(4, 2)

    says("got Output. Return its .logits.", lambda t: Output(), TOKENS, error=TypeError)


def test_nan_and_logits():
    def broken(tokens):
        return torch.where(tokens[:, :1] == TOKENS[2, 0], float("nan"), 1.0).expand(-1, 2)

    says(r"returned NaN or infinity for text \d", broken, TOKENS)

    def logits(tokens):
        return tokens.float()[:, :2] - 20

    says(r'measure="tvd" needs probabilities.*logits\?.*softmax', logits, TOKENS, measure="tvd")
    assert leave_one_out(logits, TOKENS).shape == (4, 6)  # as they are
    assert leave_one_out(lambda t: logits(t).softmax(-1), TOKENS, measure="tvd").min() >= 0


def test_more_tokens_than_the_model_can_take():
    learned = classifier("transformer_encoder", positions="learned", longest=4)
    says("there are learned positions for 4 places; got a sequence of 6", learned, TOKENS, LENGTHS)
    table = nn.Embedding(4, 2)
    short = lambda tokens: table(torch.arange(tokens.shape[1]).expand_as(tokens)).sum(1)  # noqa: E731
    says(r"the model failed on inputs \(4, 6\): index out of range.*so many", short, TOKENS)
    says("the model failed on inputs", classifier("attentive_mlp"), TOKENS + 100, LENGTHS)


def test_inputs_that_are_none():
    model = classifier("attentive_mlp")
    says("inputs must be a tensor of tokens or of vectors; got NoneType", model, error=TypeError)
    says(r"got \(6,\) of torch.int64. Use inputs.unsqueeze\(0\)", model, TOKENS[0])
    says(r"vectors \(b, n, d\); got \(4, 6\) of torch.float32", model, TOKENS.float())
    says(r"lengths must be a tensor \(b,\) with b=4; got \(3,\)", model, TOKENS, LENGTHS[:3])
    says("lengths must be a tensor.*got list", model, TOKENS, [6, 2, 4, 5])
    says("model must be a model or a function; got int", 3, TOKENS, method="gradient", error=TypeError)


def test_a_function_of_tokens_has_no_gradient():
    says("a function of tokens has none", lambda t: torch.ones(4, 2), TOKENS, method="gradient")
    says('by="zero"|a function of tokens', lambda t: torch.ones(4, 2), TOKENS, by="zero")
    vectors = torch.randn(4, 3, 2)
    says("has no gradient", lambda x: torch.ones(4, 2), vectors, method="gradient")
    assert not gradient(lambda x: torch.ones(4, 2) + 0 * x.sum(), vectors).any()


def test_options_out_of_range():
    model = classifier("attentive_mlp")
    says("target must be from 0 to 2.*got 3", model, TOKENS, LENGTHS, target=3)
    says(r"target must be a class or one for each text, \(b,\) with b=4", model, TOKENS, target=torch.ones(2))
    says('by must be "delete", "zero" or a token', model, TOKENS, by="drop")
    says("inputs are vectors", lambda x: x.sum(1), torch.ones(1, 2, 3), by=3)
    says('measure must be "fall" or "tvd"; got \'kl\'', model, TOKENS, measure="kl")
    weights = random_weights(2, 1, 4, 4)
    says("layer must be from 0 to 0; got 1", weights, method="attention", layer=1)
    for position in (4, -5):
        says(f"the shortest has 4 places; got {position}", weights, method="rollout", position=position)
    says("the shortest has 2 places; got 3", weights, None, torch.tensor([4, 2]), method="flow", position=3)


def test_weights_that_are_none():
    good = random_weights(2, 1, 4, 4)
    says("at least one layer; got none", [], method="rollout")
    says(
        r'layer 1 has no weights.*attn_implementation="eager"',
        [good, None],
        method="rollout",
        error=TypeError,
    )
    says(r"weights of layer 0 must be \(b, h, m, n\); got \(4, 4\)", [good[0, 0]], method="flow")
    says("weights of layer 0 must be at least 0 and finite. Are these scores?", [good - 1], method="flow")
    says("at least 0 and finite", [good * float("nan")], method="rollout")
    says("must be a tensor", [good.tolist()], method="rollout", error=TypeError)
    says("one has 4 positions of 2 texts, the next attends to 3 of 2", [good, random_weights(2, 1, 3, 3)],
         method="rollout")  # fmt: skip
    assert rollout([good, good]).shape == flow([good, good]).shape == (2, 4)


def test_without_captum_the_extra_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "captum.attr", None)
    says(
        r"pip install 'regard\[explain\]'",
        Linear(),
        *texts(),
        method="integrated_gradients",
        error=ImportError,
    )
