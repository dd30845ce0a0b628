"""generate of a swapped model with a certified cache writes what it writes with transformers' own."""

from copy import deepcopy

import pytest
import torch

import regard
from regard.backends.key_codes import has_byte_products

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.skipif(not has_byte_products(), reason="the machine has no AVX2")
WAYS = {"greedy": {}, "beams": {"num_beams": 3}, "several": {"num_return_sequences": 2, "num_beams": 2}}


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=97, hidden_size=192, intermediate_size=64, num_hidden_layers=2, num_attention_heads=6,
        num_key_value_heads=2, max_position_embeddings=2048,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


def written(model, cache, ids, **settings):
    regard.swap(model, "entmax15", temperature=0.1, cache=cache)
    return model.generate(ids, max_new_tokens=4, do_sample=False, pad_token_id=0, **settings)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_the_same_tokens(model, way, padded):
    ids = torch.randint(3, 97, (2, 1030), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, : 40 * padded] = 0
    with torch.inference_mode():
        expected = written(model, None, ids, attention_mask=mask, **WAYS[way])
        assert not regard.decoding_stats(model)
        found = written(model, "certified", ids, attention_mask=mask, **WAYS[way])
    stats = regard.decoding_stats(model, reset=True)
    assert torch.equal(found, expected)
    assert list(stats) == ["model.layers.0.self_attn", "model.layers.1.self_attn"]
    assert all(s.steps > 0 and set(s.fallbacks) <= {"flat"} for s in stats.values())


def test_a_copy_has_its_own_and_undoing_leaves_nothing(model):
    ids = torch.randint(3, 97, (1, 1030), generator=torch.Generator().manual_seed(1))
    regard.swap(model, "entmax15", temperature=0.1, cache="certified")
    copied = deepcopy(model)
    with torch.inference_mode():
        copied.generate(ids, max_new_tokens=3, do_sample=False, pad_token_id=0)
    assert regard.decoding_stats(copied) and not regard.decoding_stats(model)
    regard.swap(model, None)
    assert not [name for name in vars(model) if "prepare" in name]


def test_what_cannot_be_is_said(model):
    with pytest.raises(ValueError, match='cache must be "certified"'):
        regard.swap(model, "entmax15", cache="quick")
    with pytest.raises(TypeError, match="cache= is for models of transformers"):
        regard.swap(torch.nn.MultiheadAttention(8, 2), "entmax15", cache="certified")
