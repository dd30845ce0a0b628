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


SUBMODULES = [
    "layers.0", "layers.0.attention", "layers.0.attention.W_q", "layers.0.attention.W_k",
    "layers.0.attention.W_v", "layers.0.attention.W_o", "layers.0.feed_forward", "layers.0.feed_forward.W1",
    "layers.0.feed_forward.W2", "layers.0.around.0", "layers.0.around.0.norm", "layers.0.around.0.dropout",
    "layers.0.around.1", "layers.0.around.1.norm", "layers.0.around.1.dropout", "norm",
]  # fmt: skip


@pytest.fixture
def written():
    """A model, tokens, its state after all but the last, and the hidden states of the whole text."""
    torch.manual_seed(0)
    model, tokens = GPT(Config(11, 16, 32, 2, 2, positions="none")).eval(), torch.randint(4, 11, (3, 6))
    with torch.no_grad():
        return model, tokens, model(tokens[:, :5])[1], model(tokens)[0]


@pytest.mark.parametrize("path", SUBMODULES)
def test_hooks_of_every_part_are_called(written, path):
    model, tokens, state, whole = written
    heard, part = [], model.get_submodule(path)
    with torch.no_grad():
        for register in (part.register_forward_hook, part.register_forward_pre_hook):
            with register(lambda *_: heard.append(1)):
                found = model(tokens[:, 5:], state)[0]
            torch.testing.assert_close(found, whole[:, 5:], atol=1e-5, rtol=1e-4)
    assert heard == [1, 1]


def test_what_hooks_return_counts(written):
    model, tokens, state, _ = written
    heads = model.layers[1].attention
    with torch.no_grad(), heads.W_v.register_forward_hook(lambda *hooked: 0 * hooked[-1]):
        without = model(tokens)[0]
        state = model(tokens[:, :5])[1]
        torch.testing.assert_close(model(tokens[:, 5:], state)[0], without[:, 5:], atol=1e-5, rtol=1e-4)


def test_every_module_is_heard_by_a_hook_of_all(written):
    model, tokens, state, _ = written
    heard = set()
    with torch.no_grad(), register_module_forward_hook(lambda module, *_: heard.add(module)):
        model(tokens[:, 5:], state)
    assert {model.get_submodule(path) for path in SUBMODULES} <= heard


def test_interventions_change_a_step_as_they_change_a_text(written):
    model, tokens, state, whole = written
    for on in ("weights", "query", "values"):
        with torch.no_grad(), regard.intervene(model, torch.zeros_like, "layers.0.*", on=on):
            changed = model(tokens)[0][:, 5:]
            state = model(tokens[:, :5])[1]
            found = model(tokens[:, 5:], state)[0]
        torch.testing.assert_close(found, changed, atol=1e-5, rtol=1e-4)
        assert not torch.allclose(found, whole[:, 5:], atol=1e-3)


def test_autocast_and_half_precision_take_the_general_way(written, monkeypatch):
    model, tokens, state, whole = written

    def refused(*_):
        raise AssertionError("the short way was taken")

    monkeypatch.setattr("regard.models.parts.self_attention_layer.layer_step", refused)
    with torch.no_grad():
        with pytest.raises(AssertionError):
            model(tokens[:, 5:], state)
        with torch.autocast("cpu", torch.bfloat16):
            state = model(tokens[:, :5])[1]
            torch.testing.assert_close(model(tokens[:, 5:], state)[0], whole[:, 5:], atol=0.1, rtol=0.1)
        for kind in (torch.bfloat16, torch.float16):
            model.to(kind)
            state = model(tokens[:, :5])[1]
            found = model(tokens[:, 5:], state)[0]
            assert found.dtype is kind
            torch.testing.assert_close(found.float(), whole[:, 5:], atol=0.1, rtol=0.1)


def test_in_training_dropout_drops():
    torch.manual_seed(0)
    model, tokens = GPT(Config(11, 16, 32, 2, 2, dropout=0.5)).train(), torch.randint(4, 11, (3, 6))
    with torch.no_grad():
        state = model(tokens[:, :5])[1]
        one, other = (model(tokens[:, 5:], state)[0] for _ in range(2))
    assert not torch.allclose(one, other)


def test_texts_of_different_lengths(written):
    model, tokens, _, whole = written
    lengths = torch.tensor([6, 4, 5])
    with torch.no_grad():
        embedded = model.embed(tokens)
        state = model.from_embedded(embedded[:, :3])[1]
        for t in range(3, 6):
            found, state = model.from_embedded(
                embedded[:, t : t + 1], state, lengths=lengths.clamp(max=t + 1)
            )
            inside = lengths > t
            torch.testing.assert_close(found[inside], whole[:, t : t + 1][inside], atol=1e-5, rtol=1e-4)


def test_beams_that_fork_a_cache(written):
    model, tokens, state, _ = written
    index, added = torch.tensor([2, 0, 0]), torch.randint(4, 11, (3, 2))
    with torch.no_grad():
        forks = tuple(cache.copy() for cache in state)
        for cache in forks:
            cache.select(index)
        read: object = forks
        for t in range(2):
            found, read = model(added[:, t : t + 1], read)
        first = model(tokens[:, 5:], state)[0]  # the cache that was forked goes on as if nothing were
        texts = torch.cat([tokens[index, :5], added], 1)
        torch.testing.assert_close(found, model(texts)[0][:, -1:], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(first, model(tokens)[0][:, -1:], atol=1e-5, rtol=1e-4)


def test_steps_are_compiled(written):
    model, tokens, state, whole = written
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad():
        found = compiled(tokens[:, 5:], state)[0]
    torch.testing.assert_close(found, whole[:, 5:], atol=1e-5, rtol=1e-4)
