"""MultiHead and nn.MultiheadAttention with the same weights give the same outputs."""

import pytest
import torch
from torch import nn

from regard.heads import MultiHead
from regard.heads.convert import from_torch, to_torch
from regard.masks import Causal, from_hidden

KINDS = {
    "packed": {},
    "without bias": {"bias": False},
    "other key and value widths": {"kdim": 5, "vdim": 3},
    "other key width, without bias": {"kdim": 5, "bias": False},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def torchs(kind, dtype=torch.float64, **settings):
    torch.manual_seed(0)
    module = nn.MultiheadAttention(8, 2, batch_first=True, dtype=dtype, **KINDS[kind], **settings)
    for p in module.parameters():
        nn.init.normal_(p, std=0.5)  # biases too
    return module


def inputs(module, dtype=torch.float64):
    torch.manual_seed(1)
    widths = ((4, module.embed_dim), (6, module.kdim), (6, module.vdim))
    return [torch.randn(2, n, d, dtype=dtype) for n, d in widths]


@every_kind
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=str)
def test_the_outputs_and_weights_of_torch(kind, dtype, atol):
    module = torchs(kind, dtype)
    query, keys, values = inputs(module, dtype)
    expected, weights = module(query, keys, values, average_attn_weights=False)
    seen = from_torch(module)(query, keys, values)
    torch.testing.assert_close(seen.context, expected, atol=atol, rtol=0)
    torch.testing.assert_close(seen.weights, weights, atol=atol, rtol=0)


@every_kind
def test_there_and_back(kind):
    module = torchs(kind)
    again = to_torch(from_torch(module))
    assert again.batch_first
    assert again.state_dict().keys() == module.state_dict().keys()
    for name, value in module.state_dict().items():
        assert again.state_dict()[name].equal(value), name


@pytest.mark.parametrize("hidden", [torch.ones(4, 4).triu(1).bool(), torch.eye(4).roll(1, 0).bool()])
def test_self_attention_under_a_mask(hidden):
    module = torchs("packed")
    x = inputs(module)[0]
    expected, _ = module(x, x, x, attn_mask=hidden)
    torch.testing.assert_close(from_torch(module)(x, mask=from_hidden(hidden)).context, expected)


def test_a_causal_mask():
    module = torchs("packed")
    x = inputs(module)[0]
    expected, _ = module(x, x, x, attn_mask=torch.ones(4, 4).triu(1).bool())
    torch.testing.assert_close(from_torch(module)(x, mask=Causal()).context, expected)


def test_another_map_and_score_come_with_the_weights():
    module = torchs("packed", dropout=0.25).eval()
    heads = from_torch(module, map="sparsemax", score="dot")
    assert (heads.dropout, heads.training) == (0.25, False)
    x = inputs(module)[0]
    q, k, v = (
        (x @ W.T + b).reshape(2, 4, 2, 4).transpose(1, 2)
        for W, b in zip(module.in_proj_weight.chunk(3), module.in_proj_bias.chunk(3), strict=True)
    )
    import regard

    z = regard.maps.sparsemax(q @ k.mT) @ v
    torch.testing.assert_close(heads(x).context, module.out_proj(z.transpose(1, 2).flatten(2)))


def test_a_copy_of_the_weights_is_a_copy():
    module = torchs("packed")
    heads = from_torch(module)
    with torch.no_grad():
        heads.W_q.weight.zero_()
    assert module.in_proj_weight.abs().min() > 0


def test_shared_key_and_value_heads_are_written_out():
    heads = MultiHead(8, 4, key_value_heads=2).double()
    query, keys, _ = inputs(torchs("packed"))
    expected = heads(query, keys)
    output, weights = to_torch(heads)(query, keys, keys, average_attn_weights=False)
    torch.testing.assert_close(output, expected.context)
    torch.testing.assert_close(weights, expected.weights)


@pytest.mark.parametrize("option", ["add_bias_kv", "add_zero_attn"])
def test_what_multi_head_does_not_have_is_refused_by_name(option):
    with pytest.raises(ValueError, match=option):
        from_torch(nn.MultiheadAttention(8, 2, **{option: True}))


@pytest.mark.parametrize("other", [{"map": "sparsemax"}, {"score": "dot"}])
def test_what_torch_does_not_have_is_refused_by_name(other):
    with pytest.raises(
        ValueError, match=r"has only the softmax of a scaled dot product; got .*(sparsemax|Dot)"
    ):
        to_torch(MultiHead(8, 2, **other))


@pytest.mark.parametrize("settings", [dict(sink=0.0), dict(scale=0.1)], ids=str)
def test_torch_has_no_sink_and_no_scale(settings):
    with pytest.raises(ValueError, match=f"has no {next(iter(settings))}"):
        to_torch(MultiHead(8, 2, **settings))
