"""What goes wrong silently when an attention function is put into transformers, each tried."""

import sys

import pytest
import torch
from torch import nn
from transformers.masking_utils import AttentionMaskInterface, causal_mask_function

import regard
from bridges.tiny_models import inputs, output, padded, tiny, tokens, transformers
from regard.core.bridges import BRIDGES

BRIDGE = pytest.importorskip("regard.bridges.huggingface")
from regard.bridges.huggingface.attention_function import attention_function  # noqa: E402
from regard.bridges.huggingface.mask_function import mask_function  # noqa: E402


def test_a_name_in_one_registry_alone_loses_the_mask():
    given, real = padded("bert", "right")
    model = regard.swap(tiny("bert"), "softmax")
    before = output(model, **given)
    removed = AttentionMaskInterface._global_mapping.pop("regard")
    try:
        assert float((output(model, **given) - before)[real].abs().max()) > 1e-2
    finally:
        AttentionMaskInterface.register("regard", removed)
    assert removed is mask_function


@pytest.mark.parametrize("flag", ["allow_is_causal_skip", "allow_is_bidirectional_skip"])
def test_the_mask_is_never_left_out(flag):
    sizes = {"batch_size": 2, "q_length": 3, "kv_length": 3, "mask_function": causal_mask_function}
    mask = mask_function(**sizes, **{flag: True})
    assert mask.shape == (2, 1, 3, 3) and torch.equal(mask[0, 0], torch.ones(3, 3).tril().bool())


def test_what_a_mask_is_known_to_be_is_what_it_says():
    """The attribute that stands for a tensor never says anything else than the tensor."""
    from regard.bridges.huggingface.mask_function import as_known

    rng = torch.Generator().manual_seed(0)
    for _ in range(200):
        q, extra, offset = (int(torch.randint(a, b, (), generator=rng)) for a, b in ((1, 5), (0, 4), (0, 4)))
        padding = None
        if torch.rand((), generator=rng) < 0.7:
            padding = torch.rand(1, q + extra, generator=rng) < 0.8
        mask = mask_function(
            batch_size=1, q_length=q, kv_length=q + extra, q_offset=offset, kv_offset=0,
            mask_function=causal_mask_function, attention_mask=padding,
        )  # fmt: skip
        known = as_known(mask)
        said = torch.ones_like(mask) if known is None else known.rows(0, q, q, q + extra, 2, mask.device)
        assert torch.equal(said.expand(mask.shape), mask)


def test_a_changed_mask_is_read_again():
    from regard.bridges.huggingface.mask_function import as_known

    mask = mask_function(batch_size=1, q_length=3, kv_length=3, mask_function=causal_mask_function)
    changed = mask & torch.tensor([True, False, True])
    assert torch.equal(as_known(changed).allowed, changed)


class Plain(nn.Module):
    is_causal = False


def call(**more):
    q, k = torch.randn(2, 4, 3, 8), torch.randn(2, 2, 5, 8)
    return attention_function(Plain(), q, k, k, **{"attention_mask": None, **more})


def test_the_context_is_as_models_want_it():
    context, weights = call()
    assert context.shape == (2, 3, 4, 8) and context.is_contiguous() and weights is None
    assert call(output_attentions=True)[1].shape == (2, 4, 3, 5)


def test_nothing_is_dropped():
    call(cache_position=torch.arange(3), position_ids=None, anything=None)
    with pytest.raises(NotImplementedError, match="Plain gives its attention cu_seq_lens_q="):
        call(cu_seq_lens_q=torch.tensor([0, 3]))
    with pytest.raises(ValueError, match="a mask must be"):
        call(attention_mask=torch.ones(2, 5, dtype=torch.bool))
    with pytest.raises(TypeError, match="boolean or additive; got torch.int64"):
        call(attention_mask=torch.ones(2, 1, 3, 5, dtype=torch.long))
    with pytest.raises(ValueError, match="window of 2 keys"):
        call(sliding_window=2)
    q = torch.randn(1, 2, 3, 4)
    with pytest.raises(ValueError, match="does not say whether it is causal"):
        attention_function(nn.Module(), q, q, q, None)
    assert attention_function(nn.Module(), q[:, :, :1], q, q, None)[0].shape == (1, 1, 2, 4)


def test_models_that_do_not_ask_the_interface_are_refused_by_name():
    config = transformers.GPTJConfig(n_embd=16, n_layer=1, n_head=2, vocab_size=10, rotary_dim=4)
    model = transformers.GPTJModel(config)
    with pytest.raises(TypeError, match="GPTJModel does not call its attention through"):
        regard.swap(model, "softmax")
    both = nn.ModuleList([tiny("bert"), model])
    with pytest.raises(TypeError, match="GPTJModel does not"):
        regard.swap(both, "softmax")


def test_parts_with_configurations_of_their_own_are_reached():
    encoder, decoder = tiny("bert"), tiny("gpt2", add_cross_attention=True)
    model = transformers.EncoderDecoderModel(encoder=encoder, decoder=decoder).eval()
    given = {**padded("bert", "right")[0], "decoder_input_ids": tokens(2, 6, seed=3)}
    before = output(model, **given)
    regard.swap(model, "softmax")
    assert {m.config._attn_implementation for m in regard.attentions(model)} == {"regard"}
    assert float((output(model, **given) - before).abs().max() / before.abs().max()) < 1e-5
    assert len(regard.attentions(model, "decoder.*")) == 4 and len(regard.attentions(model, "encoder.*")) == 2


def test_what_has_no_meaning_is_refused():
    with pytest.raises(TypeError, match="score of a model"):
        regard.swap(tiny("llama"), "softmax", score="dot")
    with pytest.raises(KeyError, match="This model has them at: model.layers.0.self_attn"):
        regard.swap(tiny("llama"), "softmax", paths="nowhere")
    with pytest.raises(ValueError, match="temperature must be above 0"):
        regard.swap(tiny("llama"), "softmax", temperature=0.0)
    with pytest.raises(ValueError, match="heads must be from 0 to 3"):
        regard.swap(tiny("llama"), "softmax", heads=[4])
    with pytest.raises(TypeError, match="for models of transformers"):
        regard.swap(nn.MultiheadAttention(8, 2), "softmax", temperature=2.0)
    with pytest.raises(KeyError, match="swap"), regard.record(tiny("llama")):
        pass


def test_without_transformers_one_line_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "regard.bridges.huggingface")
    monkeypatch.delitem(BRIDGES.entries, "hf")
    with pytest.raises(ImportError, match=r"pip install 'regard\[hf\]'"):
        regard.load("hf:anything")


def test_a_soft_cap_with_padding_hides_the_padding():
    given, real = padded("gemma2", "left")
    model = regard.swap(tiny("gemma2"), "entmax15")
    other = {**given, "input_ids": torch.where(real, given["input_ids"], 7)}
    assert torch.equal(output(model, **given)[real], output(model, **other)[real])


@pytest.mark.parametrize("name", ["bert", "llama", "t5", "gpt_oss"])
def test_no_map_sees_padding_or_the_future(name):
    model = regard.swap(tiny(name), "sparsemax")
    if name in ("bert", "t5"):
        given, real = padded(name, "right")
        other = {**given, "input_ids": torch.where(real, given["input_ids"], 7)}
        where = real if name == "bert" else ...
        assert torch.equal(output(model, **given)[where], output(model, **other)[where])
        return
    ids = inputs(name)["input_ids"]
    changed = torch.cat([ids[:, :5], tokens(2, 4, seed=9)], 1)
    torch.testing.assert_close(output(model, input_ids=ids)[:, :5], output(model, input_ids=changed)[:, :5])
