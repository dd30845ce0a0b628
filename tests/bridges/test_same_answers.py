"""Softmax through us against the model's own attention, for every architecture and every way to call it."""

import pytest
import torch

import regard
from bridges.tiny_models import (
    CAUSAL,
    MODELS,
    MORE,
    STACKED,
    STACKS,
    TEXT,
    inputs,
    output,
    padded,
    tiny,
    tokens,
    transformers,
)

every = pytest.mark.parametrize("name", MODELS)
causal = pytest.mark.parametrize("name", CAUSAL)
NEAR = 1e-5


def ours(name, **changes):
    return regard.swap(tiny(name, **changes), map="softmax")


def apart(one, other, where=None):
    """The largest difference, of outputs above 1 relative to the largest."""
    moved = (one - other).abs() / other.abs().max().clamp(min=1)
    return float((moved if where is None else moved[where]).max())


@every
def test_one_pass(name):
    assert apart(output(ours(name), **inputs(name)), output(tiny(name), **inputs(name))) < NEAR


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ["bert", "modernbert", *CAUSAL, *MORE, *STACKED])
def test_padding(name, side):
    given, real = padded(name, side)
    where = real if name not in STACKED else None
    assert apart(output(ours(name), **given), output(tiny(name), **given), where) < NEAR
    unmasked = {key: value for key, value in given.items() if key != "attention_mask"}
    if name in ("bert", "modernbert", *STACKED) or side == "left":  # a mask that was lost would show
        assert apart(output(tiny(name), **given), output(tiny(name), **unmasked), where) > 100 * NEAR


def test_masks_that_a_model_adds_as_numbers():
    """DeepSeek-V4 joins masks to its own; the encoder of BigBird-Pegasus adds them and does not ask us."""
    config = transformers.DeepseekV4Config(
        **{**TEXT, "num_key_value_heads": 1, "head_dim": 8, "sliding_window": 4, "q_lora_rank": 8,
           "o_groups": 2, "o_lora_rank": 8, "index_n_heads": 2, "index_head_dim": 8, "index_topk": 2,
           "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8,
           "layer_types": ["compressed_sparse_attention", "sliding_attention"]},
    )  # fmt: skip
    given, real = padded("llama", "left")
    torch.manual_seed(0)
    model = transformers.DeepseekV4ForCausalLM(config).eval()
    before = output(model, **given)
    assert apart(output(regard.swap(model, "softmax"), **given), before, real) < NEAR
    config = transformers.BigBirdPegasusConfig(**STACKS, max_position_embeddings=128)
    model = transformers.BigBirdPegasusForConditionalGeneration(config).eval()
    given, _ = padded("marian", "right")
    before = output(model, **given)
    assert apart(output(regard.swap(model, "softmax"), **given), before) < NEAR
    assert torch.equal(output(regard.swap(model, map=None), **given), before)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_a_bias_of_ones_own_is_added_behind_the_soft_cap(temperature):
    mask = torch.randn(2, 1, 9, 9, generator=torch.Generator().manual_seed(5))
    given = {"input_ids": tokens(2, 9), "attention_mask": mask}
    model = regard.swap(tiny("gemma2"), "softmax", temperature=temperature)
    with regard.record(model, "model.layers.1.*") as seen:
        found = output(model, **given)
    if temperature == 1.0:
        assert apart(found, output(tiny("gemma2"), **given)) < NEAR
    (one,) = seen["model.layers.1.self_attn"]
    capped = 2 * torch.tanh(one.query @ one.keys.mT * 3**-0.5 / 2)
    wanted = ((capped + mask) / temperature).softmax(-1)
    torch.testing.assert_close(one.weights, wanted, atol=1e-5, rtol=1e-4)


@causal
def test_packed_rows(name):
    positions = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4]])
    given = {"input_ids": tokens(1, 9), "position_ids": positions, "use_cache": False}
    found = output(ours(name), **given)
    assert apart(found, output(tiny(name), **given)) < NEAR
    if name != "gpt_oss":  # whose own masks know nothing of packed rows
        alone = output(tiny(name), input_ids=given["input_ids"][:, 4:])
        assert apart(found[:, 4:], alone) < NEAR


@pytest.mark.parametrize("name", [*CAUSAL, *MORE])
@pytest.mark.parametrize("chunk", [1, 4])
def test_a_cache_filled_step_by_step(name, chunk):
    model, ids = ours(name), tokens(2, 9)
    whole, past, parts = output(tiny(name), input_ids=ids), None, []
    with torch.no_grad():
        for start in range(0, 9, chunk):
            found = model(input_ids=ids[:, start : start + chunk], past_key_values=past, use_cache=True)
            past, parts = found.past_key_values, [*parts, found.logits]
    assert apart(torch.cat(parts, 1), whole) < NEAR


GENERATING = {
    "greedy": {},
    "padded": {"padded": True},
    "static": {"cache_implementation": "static", "disable_compile": True, "padded": True},
    "beams": {"num_beams": 3, "padded": True},
    "sampled": {"do_sample": True, "top_k": 10},
    "no cache": {"use_cache": False},
}


EVERY_WAY = ("llama", "gemma3", "t5")
SOME = [(name, how) for name in (*CAUSAL, *STACKED) for how in GENERATING
        if name in EVERY_WAY or how in ("static", "beams")]  # fmt: skip


@pytest.mark.parametrize(("name", "how"), SOME)
def test_generate(name, how):
    options = dict(GENERATING[how])
    given, _ = padded(name, "left", 6)
    given.pop("position_ids", None)
    given.pop("decoder_input_ids", None)
    if not options.pop("padded", False):
        given = {"input_ids": tokens(2, 6), "attention_mask": torch.ones(2, 6, dtype=torch.long)}
    found = []
    for model in (tiny(name), ours(name)):
        torch.manual_seed(0)
        found.append(model.generate(**given, max_new_tokens=10, min_new_tokens=10, **options))
    assert torch.equal(*found)


def test_64_tokens():
    found = [
        model.generate(tokens(1, 5), max_new_tokens=64, min_new_tokens=64, do_sample=False)
        for model in (tiny("mistral"), ours("mistral"))
    ]
    assert torch.equal(*found)


def test_assisted_generation():
    options = {"max_new_tokens": 12, "min_new_tokens": 12, "do_sample": False}
    alone = tiny("llama").generate(tokens(1, 5), **options)
    assisted = ours("llama").generate(
        tokens(1, 5), assistant_model=ours("llama", num_hidden_layers=1), **options
    )
    assert torch.equal(alone, assisted)


def test_quantised_caches():
    pytest.importorskip("optimum.quanto", reason="quantised caches need optimum-quanto")
    options = {
        "max_new_tokens": 8,
        "min_new_tokens": 8,
        "do_sample": False,
        "cache_implementation": "quantized",
    }
    found = [model.generate(tokens(1, 5), **options) for model in (tiny("llama"), ours("llama"))]
    assert torch.equal(*found)


@pytest.mark.parametrize("additive", [False, True])
def test_a_mask_of_ones_own(additive):
    allowed = torch.rand(2, 1, 9, 9, generator=torch.Generator().manual_seed(4)) < 0.5
    allowed |= torch.eye(9, dtype=torch.bool)
    mask = torch.where(allowed, 0.0, torch.finfo(torch.float32).min) if additive else allowed
    given = {"input_ids": tokens(2, 9), "attention_mask": mask}
    assert apart(output(ours("llama"), **given), output(tiny("llama"), **given)) < NEAR
    if additive:
        given["attention_mask"] = mask + torch.rand(2, 1, 9, 9) * allowed
        assert apart(output(ours("llama"), **given), output(tiny("llama"), **given)) < NEAR


def test_gradients_with_and_without_checkpointing():
    found = []
    for model in (tiny("llama"), ours("llama"), ours("llama")):
        model.train()
        if len(found) == 2:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        model(input_ids=tokens(2, 9), labels=tokens(2, 9)).loss.backward()
        found.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    for one in found[1:]:
        torch.testing.assert_close(one, found[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["llama", "gemma2", "t5", "gpt_oss"])
def test_bfloat16(name):
    given = inputs(name)
    exact = output(tiny(name), **given)
    theirs, here = (apart(output(m.bfloat16(), **given).float(), exact) for m in (tiny(name), ours(name)))
    assert output(ours(name).bfloat16(), **given).dtype == torch.bfloat16
    assert here < 1.5 * theirs + 1e-2


def test_autocast():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        one, other = (output(m, **inputs("llama")).float() for m in (tiny("llama"), ours("llama")))
    assert apart(one, other) < 0.2


@pytest.mark.parametrize(
    "name", ["llama", *(pytest.param(n, marks=pytest.mark.slow) for n in ("bert", "t5"))]
)
def test_compiled(name):
    torch._dynamo.reset()
    model = ours(name)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    assert apart(output(compiled, **inputs(name)), output(tiny(name), **inputs(name))) < NEAR


def test_a_static_cache_that_is_longer_than_the_text():
    given = {"input_ids": tokens(1, 5), "attention_mask": torch.ones(1, 5, dtype=torch.long)}
    cache = transformers.StaticCache(config=tiny("llama").config, max_cache_len=32)
    with torch.no_grad():
        found = ours("llama")(**given, past_key_values=cache, use_cache=True).logits
    assert apart(found, output(tiny("llama"), **given)) < NEAR
