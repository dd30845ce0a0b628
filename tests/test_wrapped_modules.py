"""Modules that call scaled_dot_product_attention themselves: looked at, changed and swapped, by contract."""

import gc
import io
import threading
import weakref
from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import CheckpointError, checkpoint

import regard
from regard.core.errors import ShapeError, UnknownNameError
from regard.core.recorders import Attentive


class Plain(nn.Module):
    """Self-attention as people write it; settings are those of SDPA."""

    def __init__(self, width=8, heads=2, **settings):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.settings = heads, settings

    def forward(self, x):
        q, k, v = (t.view(*x.shape[:2], self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.out(self.look(q, k, v).transpose(1, 2).flatten(2))

    def look(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, **self.settings)


class Direct(Plain):
    def look(self, q, k, v):
        return scaled_dot_product_attention(q, k, v)


def helper(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


class Hidden(nn.Linear):
    def forward(self, x):
        return super().forward(helper(x, x, x))


class TimmLike(nn.Module):
    """As timm's Attention: fused through SDPA, or the three steps by hand."""

    def __init__(self, dim=8, num_heads=2, attn_drop=0.0):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, dim // num_heads
        self.scale, self.fused_attn = self.head_dim**-0.5, True
        self.qkv, self.proj = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)
        self.q_norm, self.k_norm = nn.LayerNorm(self.head_dim), nn.Identity()
        self.attn_drop = nn.Dropout(attn_drop)

    def forward(self, x, attn_mask=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        q, k = self.q_norm(q), self.k_norm(k)
        if self.fused_attn:
            rate = self.attn_drop.p if self.training else 0.0
            x = F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, dropout_p=rate)
        else:
            scores = q * self.scale @ k.transpose(-2, -1)
            scores = scores if attn_mask is None else scores + attn_mask
            x = self.attn_drop(scores.softmax(dim=-1)) @ v
        return self.proj(x.transpose(1, 2).flatten(2))


class Net(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers or [Plain(), Direct()])

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


def net_and_input(*layers):
    torch.manual_seed(0)
    return Net(*layers).eval(), torch.randn(2, 5, 8, requires_grad=True)


def test_they_are_found_and_keep_class_parameters_and_answer_to_the_bit():
    net, x = net_and_input()
    before, state, answer = list(net.parameters()), list(net.state_dict()), net(x)
    (gradient,) = torch.autograd.grad(answer.sum(), x)
    assert regard.attentive(net) is net
    assert list(regard.attentions(net).values()) == ["layers.0", "layers.1"]
    assert [type(layer) for layer in net.layers] == [Plain, Direct] and list(net.state_dict()) == state
    assert all(a is b for a, b in zip(before, net.parameters(), strict=True))
    assert torch.equal(net(x), answer)
    with regard.record(net) as seen:
        looked = net(x)
    assert torch.equal(looked, answer)
    assert torch.equal(torch.autograd.grad(looked.sum(), x)[0], gradient)
    for _, one in seen.calls:
        assert one.weights.shape == (2, 2, 5, 5)
        torch.testing.assert_close(one.weights @ one.values, one.context)
    assert torch._C._len_torch_function_stack() == 0


ADDED = torch.randn(5, 5)
ADDED[0, 1] = float("-inf")
SETTINGS = {
    "nothing": {},
    "causal": {"is_causal": True},
    "boolean": {"attn_mask": torch.rand(2, 1, 5, 5) > 0.3},
    "added": {"attn_mask": ADDED},
    "scaled": {"scale": 0.7},
}


@pytest.mark.parametrize("settings", SETTINGS)
def test_every_argument_of_sdpa_means_what_it_means(settings):
    net, x = net_and_input(Plain(**SETTINGS[settings]))
    answer = net(x)
    regard.attentive(net)
    with regard.record(net) as seen:
        net(x)
    one = seen["layers.0"][0]
    torch.testing.assert_close(one.weights @ one.values, one.context)
    with regard.intervene(net, lambda p: p):  # ours, not torch's
        torch.testing.assert_close(net(x), answer, rtol=0, atol=1e-6)
    regard.swap(net, map=lambda scores: scores.softmax(-1))
    torch.testing.assert_close(net(x), answer, rtol=0, atol=1e-6)
    regard.swap(net, map="sparsemax")
    with regard.record(net) as seen:
        net(x)
    (sparse,) = seen["layers.0"]
    wanted = regard.maps.sparsemax(one.scores.masked_fill(one.weights == 0, float("-inf")))
    torch.testing.assert_close(sparse.weights, wanted, rtol=0, atol=1e-6)
    torch.testing.assert_close(sparse.context, wanted @ one.values, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("m", "n", "settings"),
    [(3, 5, {"is_causal": True}), (5, 3, {"is_causal": True}), (4, 4, {"enable_gqa": True})],
)
def test_causal_counts_from_the_start_and_groups_share(m, n, settings):
    class Cross(nn.Module):
        def forward(self, q, k):
            return F.scaled_dot_product_attention(q, k, k, **settings)

    q, k = torch.randn(1, 4, m, 8), torch.randn(1, 2 if "enable_gqa" in settings else 4, n, 8)
    cross = regard.attentive(Cross())
    answer = cross(q, k)
    with regard.record(cross) as seen, regard.intervene(cross, lambda p: p):
        torch.testing.assert_close(cross(q, k), answer, rtol=0, atol=1e-6)
    assert seen[""][0].weights.shape == (1, 4, m, n)


def test_dropout_falls_on_the_weights():
    class Dropping(nn.Module):
        def forward(self, x):
            return F.scaled_dot_product_attention(x, x, torch.eye(6), dropout_p=0.5)

    x = torch.randn(4, 6, 3)
    model = regard.swap(Dropping(), map="sparsemax")
    with regard.record(model) as seen:
        spent = model(x)
    kept = seen[""][0].weights
    assert ((spent == 0) | torch.isclose(spent, 2 * kept)).all() and (spent != kept).any()


@pytest.mark.parametrize("fused", [True, False])
def test_timms_attention_fused_or_not(fused):
    net, x = net_and_input(TimmLike(), TimmLike())
    for layer in net.layers:
        layer.fused_attn = fused
    answer = net(x)
    regard.swap(net, map="softmax")
    torch.testing.assert_close(net(x), answer, rtol=0, atol=1e-6)
    with regard.record(net, "layers.1") as seen, regard.intervene(net, torch.zeros_like, "layers.1"):
        net(x)
    assert not seen["layers.1"][0].weights.any()
    regard.swap(net, map="entmax15")
    with regard.record(net) as seen:
        assert not torch.allclose(net(x), answer)
    assert (seen["layers.0"][0].weights == 0).any()
    regard.swap(net, map=None)
    assert [layer.fused_attn for layer in net.layers] == [fused] * 2
    assert torch.equal(net(x), answer) and all("forward" not in vars(layer) for layer in net.layers)


def test_what_calls_it_in_a_helper_is_named_by_its_path():
    net, x = net_and_input(Hidden(8, 8), nn.Linear(8, 8))
    with pytest.raises(UnknownNameError, match="helper function"):
        regard.attentive(net)
    regard.attentive(net, paths="layers.0")
    with regard.record(net) as seen:
        net(x)
    assert [path for path, _ in seen.calls] == ["layers.0"]
    with pytest.raises(ValueError, match="nothing to swap"):
        regard.swap(nn.Linear(8, 8))


def test_one_inside_another_is_counted_once_and_threads_do_not_see_each_other():
    class Outer(Plain):
        def __init__(self):
            super().__init__()
            self.inner = Direct()

        def forward(self, x):
            return super().forward(self.inner(x))

    net, x = net_and_input(Outer())
    regard.swap(net, map="entmax15")
    others = []
    with regard.record(net) as seen:
        thread = threading.Thread(target=lambda: others.append(net(x)))
        thread.start()
        thread.join()
        answer = net(x)
    assert [path for path, _ in seen.calls] == ["layers.0.inner", "layers.0"]
    torch.testing.assert_close(others[0], answer)  # another thread may have another number of threads


def test_an_error_inside_leaves_nothing_behind():
    net, x = net_and_input()
    regard.swap(net, map="entmax15")
    with pytest.raises(RuntimeError):
        net(x[..., :7])
    with pytest.raises(ValueError, match="exclude each other"):
        regard.swap(Plain(is_causal=True, attn_mask=torch.ones(5, 5) > 0))(x)
    assert torch._C._len_torch_function_stack() == 0


def test_copies_are_independent_and_can_be_saved():
    net, x = net_and_input()
    regard.swap(net, map="sparsemax")
    copied = deepcopy(net)
    regard.swap(net, map=None)
    with regard.record(copied) as seen:
        answer = copied(x)
    assert len(seen.calls) == 2 and not torch.allclose(answer, net(x))
    saved = io.BytesIO()
    torch.save(copied.state_dict(), saved)
    net.load_state_dict(torch.load(io.BytesIO(saved.getvalue())))


def test_a_map_that_learns_is_copied_and_trains():
    net, x = net_and_input()
    regard.swap(net, map=regard.maps.Entmax(learn_alpha=True, heads=2))
    own = [layer.attention_map for layer in net.layers]
    assert own[0] is not own[1]
    net(x).sum().backward()
    assert all(p.grad is not None for p in own[0].parameters())
    regard.swap(net, map=None)
    assert not any("attention_map" in name for name in net.state_dict())


def test_checkpointing_records_once_and_keeps_interventions_or_raises():
    net, x = net_and_input(Plain(attn_mask=torch.ones(5, 5).tril() > 0), Direct())
    regard.attentive(net)
    with regard.record(net) as seen:
        checkpoint(net, x, use_reentrant=False).sum().backward()
    assert len(seen.calls) == 2
    wanted = torch.autograd.grad(net(x).sum(), x)[0]
    torch.testing.assert_close(x.grad, wanted)
    for on in ("weights", "values"):
        with regard.intervene(net, lambda t: 0.5 * t, on=on):
            answer = checkpoint(net, x, use_reentrant=False).sum()
        with pytest.raises(CheckpointError):
            answer.backward()


def test_nothing_is_kept_alive():
    net, x = net_and_input()
    regard.attentive(net)
    with regard.record(net):
        net(x)
    gone = weakref.ref(net.layers[0])
    del net
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("map", ["softmax", "entmax15"])
def test_compiled_and_under_autocast(map):
    net, x = net_and_input()
    own = net(x)
    regard.swap(net, map=map)
    answer = net(x)
    if map != "softmax":  # which compiles as it did
        compiled = torch.compile(net, backend="eager", fullgraph=True)
        torch.testing.assert_close(compiled(x), answer, rtol=0, atol=1e-6)
        with regard.record(net) as seen:
            torch.testing.assert_close(torch.compile(net, backend="eager")(x), answer, rtol=0, atol=1e-6)
        assert len(seen.calls) == 2
    with torch.autocast("cpu", torch.bfloat16):
        assert net.layers[0](x).dtype == torch.bfloat16
        torch.testing.assert_close(net(x), answer, rtol=0, atol=0.1)
    regard.swap(net, map=None)
    assert torch.equal(net(x), own)


# interventions on one head, or on query, keys, values: any attention


class Own(Attentive):
    def forward(self, x):
        return regard.attend(x, x, owner=self).context


def models():
    torch.manual_seed(0)
    mha = nn.MultiheadAttention(8, 2, batch_first=True)
    return {
        "wrapped": (regard.attentive(Plain()), lambda model, x: model(x)),
        "multi head": (regard.MultiHead(8, 2), lambda model, x: model(x).context),
        "swapped": (regard.swap(mha, map="softmax"), lambda model, x: model(x, x, x)[0]),
    }


@pytest.mark.parametrize("name", ["wrapped", "multi head", "swapped"])
def test_one_head_alone_is_changed(name):
    model, call = models()[name]
    x = torch.randn(3, 5, 8)
    with regard.record(model) as before:
        call(model, x)
    with regard.record(model) as after, regard.intervene(model, torch.zeros_like, heads=[1]):
        call(model, x)
    (old,), (new,) = before[""], after[""]
    torch.testing.assert_close(new.weights[:, 0], old.weights[:, 0])
    assert not new.weights[:, 1].any()
    with (
        pytest.raises(ShapeError, match="below the number of heads"),
        regard.intervene(model, lambda p: p, heads=[2]),
    ):
        call(model, x)


@pytest.mark.parametrize("name", ["wrapped", "multi head", "swapped"])
@pytest.mark.parametrize("on", ["query", "keys", "values"])
@pytest.mark.parametrize("heads", [None, [1]])
def test_query_keys_and_values_are_changed(name, on, heads):
    model, call = models()[name]
    x = torch.randn(3, 5, 8)
    with regard.record(model) as before:
        call(model, x)
    with regard.record(model) as after, regard.intervene(model, lambda t: -2 * t, on=on, heads=heads):
        changed = call(model, x)
    (old,), (new,) = before[""], after[""]
    for part in ("query", "keys", "values"):
        factor = torch.ones(2, 1, 1)
        factor[heads or [0, 1]] = -2 if part == on else 1
        torch.testing.assert_close(getattr(new, part), factor * getattr(old, part))
    torch.testing.assert_close(new.weights, (new.query @ new.keys.mT / 2).softmax(-1))
    with regard.intervene(model, lambda t: -2 * t, on=on, heads=heads):
        assert torch.equal(call(model, x), changed)


def test_a_module_that_calls_attend_and_what_is_refused():
    own, x = Own(), torch.randn(2, 5, 8)
    with regard.intervene(own, torch.zeros_like, on="query"):
        torch.testing.assert_close(own(x), x.mean(-2, keepdim=True).expand_as(x))
    with (
        pytest.raises(ShapeError, match="keys of shape"),
        regard.intervene(own, lambda t: t[..., :1], on="keys"),
    ):
        own(x)
    with pytest.raises(ValueError, match="on must be"), regard.intervene(own, lambda t: t, on="scores"):
        pass
    with pytest.raises(ValueError, match="counted from 0"), regard.intervene(own, lambda t: t, heads=[0, 0]):
        pass


def test_undone_a_transformer_is_what_it_was():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, batch_first=True)
    encoder, x = nn.TransformerEncoder(layer, 2).eval(), torch.randn(2, 5, 8)
    answer, used = encoder(x), encoder.use_nested_tensor
    regard.swap(encoder, map="sparsemax")
    assert not torch.allclose(encoder(x), answer)
    assert regard.swap(encoder, map=None) is encoder
    assert torch.equal(encoder(x), answer) and encoder.use_nested_tensor == used
    assert type(encoder.layers[0].self_attn) is nn.MultiheadAttention
