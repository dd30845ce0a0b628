"""A step by the short way is a step by the long one, and where it may not be taken it is not."""

import pytest
import torch
from torch.nn.modules.module import register_module_forward_hook

import regard
from regard.heads.cached_step import cached_step, takes_step
from regard.masks import Causal, Lengths
from regard.memories import KeyValue
from regard.models.language.gpt import GPT, Config
from regard.models.parts.residual import Residual
from regard.positions import ALiBi, Rotary
from regard.scores import ScaledDot


def filled(heads, x):
    """A cache that has read all of x (b, n, width)."""
    cache = KeyValue()
    with torch.no_grad():
        heads(x, mask=Causal(), cache=cache)
    return cache


@pytest.mark.parametrize("score", [ScaledDot, lambda: ScaledDot(0.3), lambda: Rotary(4)])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_equals_the_general_way(score, kind):
    torch.manual_seed(0)
    heads = regard.MultiHead(8, 2, score=score()).to(kind).eval()
    x = torch.randn(3, 9, 8, dtype=kind)
    with torch.no_grad():
        whole = heads(x, mask=Causal()).context
    cache = filled(heads, x[:, :4])
    before = cache.copy()
    for t in range(4, 9):
        with torch.no_grad():
            assert takes_step(heads, x[:, t : t + 1], Causal(), cache)
            found = cached_step(heads, x[:, t : t + 1], cache)
        torch.testing.assert_close(found, whole[:, t : t + 1], atol=1e-5, rtol=1e-5)
    assert len(cache) == 9 and len(before) == 4
    other = torch.randn(3, 1, 8, dtype=kind)  # the copy goes on in another way, and nothing is overwritten
    with torch.no_grad():
        cached_step(heads, other, before)
        again = heads(torch.cat([x[:, :4], other], 1), mask=Causal())
    torch.testing.assert_close(cache.values[:, :, :4], before.values[:, :, :4])
    torch.testing.assert_close(before.values[:, :, 4], again.values[:, :, 4], atol=1e-6, rtol=1e-5)


def test_is_not_taken_where_more_is_asked():
    x = torch.randn(1, 5, 8)

    def taken(heads, mask=None, grad=False, kind=None):
        cache = filled(heads, x[:, :4])
        with torch.set_grad_enabled(grad):
            return takes_step(heads, x[:, 4:].to(kind or torch.float32), mask or Causal(), cache)

    made = regard.MultiHead(8, 2).eval()
    assert taken(made)
    assert not taken(made, grad=True)
    assert not taken(made, mask=Causal() & Lengths(torch.tensor([5])))
    assert not taken(made, kind=torch.bfloat16)
    with torch.no_grad():
        assert not takes_step(made, x[:, 4:], Causal(), None)
        assert not takes_step(made, x[:, 4:], Causal(), KeyValue())  # the first position has no keys before
    with regard.record(made):
        assert not taken(made)
    with made.register_forward_hook(lambda *_: None):
        assert not taken(made)
    for other in (
        {"map": "entmax15"}, {"key_value_heads": 1}, {"sink": True}, {"score": ScaledDot() + ALiBi(2)},
    ):  # fmt: skip
        assert not taken(regard.MultiHead(8, 2, **other).eval())
    dropping = regard.MultiHead(8, 2, dropout=0.5)
    assert not taken(dropping.train())
    assert taken(dropping.eval())


def test_a_model_written_to_by_steps_is_recorded_and_hooked_as_ever():
    torch.manual_seed(0)
    model, tokens, heard = GPT(Config(11, 16, 32, 2, 2)).eval(), torch.randint(4, 11, (2, 6)), []
    with torch.inference_mode():
        whole = model(tokens)[0]
        state = model(tokens[:, :5])[1]
        quick = model(tokens[:, 5:], state)[0]
        with regard.record(model, "layers.*.attention") as seen:
            slow = model(tokens[:, 5:], state)[0]
        with model.layers[1].around[0].register_forward_hook(lambda *_: heard.append(1)):
            hooked = model(tokens[:, 5:], state)[0]
    assert len(seen["layers.0.attention"]) == 1 and heard == [1]
    for found in (quick, slow, hooked):
        torch.testing.assert_close(found, whole[:, 5:], atol=1e-5, rtol=1e-4)


class Thrice(Residual):
    """x + 3 f(LN(x))."""

    def forward(self, x, sublayer):
        return x + 3 * self.dropout(sublayer(self.norm(x)))


class Twice(torch.nn.Module):
    """In the place of dropout."""

    p = 0.0

    def forward(self, x):
        return 2 * x


def replaced(model):
    model.layers[0].around[0].dropout = Twice()


def derived(model):
    for layer in model.layers:
        layer.around[0].__class__ = Thrice


def patched(model):
    heads = model.layers[0].attention
    before = heads.forward
    heads.forward = lambda x, **more: before(-x, **more)


@pytest.mark.parametrize("change", [replaced, derived, patched])
def test_what_stands_in_the_place_of_a_part_is_called(change):
    torch.manual_seed(0)
    model, tokens = GPT(Config(11, 16, 32, 2, 2)).eval(), torch.randint(4, 11, (2, 6))
    change(model)
    with torch.inference_mode():
        found = model(tokens[:, 5:], model(tokens[:, :5])[1])[0]
        torch.testing.assert_close(found, model(tokens)[0][:, 5:], atol=1e-5, rtol=1e-4)


def test_dropout_that_is_left_on_is_done():
    model, tokens = GPT(Config(11, 16, 32, 2, 2, dropout=0.5)).eval(), torch.randint(4, 11, (2, 6))
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.train()
    with torch.inference_mode():
        state = model(tokens[:, :5])[1]
        one, other = (model.layers[0](torch.ones(2, 1, 16), Causal(), state[0].copy()) for _ in range(2))
    assert not torch.equal(one, other)


def test_hooks_on_dropout_and_on_all_modules_are_called():
    model, tokens, heard = GPT(Config(11, 16, 32, 2, 2)).eval(), torch.randint(4, 11, (2, 6)), []
    with torch.inference_mode():
        state = model(tokens[:, :5])[1]
        with model.layers[0].around[1].dropout.register_forward_hook(lambda *_: heard.append(1)):
            model(tokens[:, 5:], state)
        with register_module_forward_hook(lambda module, *_: heard.append(type(module))):
            model(tokens[:, 5:], state)
    assert heard[0] == 1 and heard.count(regard.MultiHead) == 2
