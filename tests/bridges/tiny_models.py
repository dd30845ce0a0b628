"""Random-initialised models of transformers, width 16 and two layers, and inputs for them.

Weights are large enough that attention is far from uniform: a mask that is lost shows in the first digit.
"""

import pytest
import torch

transformers = pytest.importorskip("transformers", minversion="5", reason="the extra hf is not installed")

VOCABULARY, PAD = 40, 0
TEXT = {
    "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "vocab_size": VOCABULARY, "max_position_embeddings": 128, "pad_token_id": PAD, "bos_token_id": 1,
    "eos_token_id": 2, "initializer_range": 0.5,
}  # fmt: skip
GROUPED = {**TEXT, "num_key_value_heads": 2, "head_dim": 4}
STACKS = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "vocab_size": VOCABULARY,
    "pad_token_id": PAD, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1, "init_std": 0.5,
}  # fmt: skip
MODELS = {  # name: class of the model, class of its configuration, configuration
    "bert": ("BertModel", "BertConfig", TEXT),
    "gpt2": (
        "GPT2LMHeadModel", "GPT2Config",
        {"n_embd": 16, "n_layer": 2, "n_head": 4, "vocab_size": VOCABULARY, "n_positions": 128,
         "pad_token_id": PAD, "bos_token_id": 1, "eos_token_id": 2, "initializer_range": 0.5},
    ),
    "llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**GROUPED, "sliding_window": 4}),
    "gemma2": (
        "Gemma2ForCausalLM", "Gemma2Config",
        {**GROUPED, "sliding_window": 4, "attn_logit_softcapping": 2.0, "query_pre_attn_scalar": 3},
    ),
    "gemma3": (
        "Gemma3ForCausalLM", "Gemma3TextConfig",
        {**GROUPED, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "gpt_oss": (
        "GptOssForCausalLM", "GptOssConfig",
        {**GROUPED, "sliding_window": 4, "num_local_experts": 2, "num_experts_per_tok": 1},
    ),
    "modernbert": (  # windows to both sides
        "ModernBertModel", "ModernBertConfig",
        {**TEXT, "cls_token_id": 1, "sep_token_id": 2, "local_attention": 4},
    ),
    "deepseek": (  # values narrower than keys
        "DeepseekV3ForCausalLM", "DeepseekV3Config",
        {**TEXT, "num_key_value_heads": 4, "head_dim": 4, "q_lora_rank": 8, "kv_lora_rank": 8,
         "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 6, "n_routed_experts": 4, "n_group": 2,
         "num_experts_per_tok": 2, "topk_group": 1, "moe_intermediate_size": 8, "first_k_dense_replace": 1},
    ),
    "gemma3n": (  # layers that share the keys of others
        "Gemma3nForCausalLM", "Gemma3nTextConfig",
        {**GROUPED, "sliding_window": 4, "num_hidden_layers": 4, "intermediate_size": [32] * 4,
         "num_kv_shared_layers": 2, "layer_types": ["sliding_attention", "full_attention"] * 2,
         "vocab_size_per_layer_input": VOCABULARY, "hidden_size_per_layer_input": 4, "laurel_rank": 4,
         "activation_sparsity_pattern": [0.0] * 4, "altup_num_inputs": 2},
    ),
    "llama4": (  # windows that do not overlap
        "Llama4ForCausalLM", "Llama4TextConfig",
        {**GROUPED, "attention_chunk_size": 4, "num_local_experts": 2, "intermediate_size_mlp": 32,
         "num_experts_per_tok": 1},
    ),
    "marian": ("MarianMTModel", "MarianConfig", {**STACKS, "max_position_embeddings": 128}),
    "t5": (
        "T5ForConditionalGeneration", "T5Config",
        {"d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 2, "num_heads": 4, "vocab_size": VOCABULARY,
         "pad_token_id": PAD, "eos_token_id": 2, "decoder_start_token_id": 0, "initializer_factor": 2.0},
    ),
    "vit": (
        "ViTModel", "ViTConfig",
        {**{k: TEXT[k] for k in ("hidden_size", "intermediate_size", "num_hidden_layers",
                                 "num_attention_heads", "initializer_range")},
         "image_size": 8, "patch_size": 4, "num_channels": 1},
    ),
    "whisper": (
        "WhisperForConditionalGeneration", "WhisperConfig",
        {**STACKS, "num_mel_bins": 8, "max_source_positions": 8, "max_target_positions": 128,
         "suppress_tokens": None, "begin_suppress_tokens": None},
    ),
}  # fmt: skip
MORE = ("deepseek", "gemma3n", "llama4")  # decoders, too
CAUSAL = ("gpt2", "llama", "mistral", "gemma2", "gemma3", "gpt_oss")
STACKED = ("marian", "t5")


def tiny(name, **changes):
    """A model by its name in MODELS, in eval mode, always with the same weights."""
    kind, config, given = MODELS[name]
    torch.manual_seed(0)
    model = getattr(transformers, kind)(getattr(transformers, config)(**{**given, **changes})).eval()
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            if path.endswith("sinks"):
                parameter.normal_()
    return model


def tokens(*shape, seed=1):
    """Tokens that are no padding and end nothing."""
    return torch.randint(3, VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def inputs(name, n=9):
    """Inputs of one pass, nothing padded."""
    generator = torch.Generator().manual_seed(2)
    if name == "vit":
        return {"pixel_values": torch.randn(2, 1, 8, 8, generator=generator)}
    if name == "whisper":
        return {
            "input_features": torch.randn(2, 8, 16, generator=generator),
            "decoder_input_ids": tokens(2, n, seed=3),
        }
    if name in STACKED:
        return {"input_ids": tokens(2, n), "decoder_input_ids": tokens(2, n - 2, seed=3)}
    return {"input_ids": tokens(2, n)}


def padded(name, side, n=9, pads=(0, 3)):
    """The same with padding on one side, and which positions of the output are real."""
    given = inputs(name, n)
    real = torch.ones(2, n, dtype=torch.bool)
    for row, count in enumerate(pads):
        if count:
            real[row, slice(0, count) if side == "left" else slice(n - count, n)] = False
    given["input_ids"] = torch.where(real, given["input_ids"], PAD)
    given["attention_mask"] = real.long()
    if name not in STACKED and "bert" not in name:
        given["position_ids"] = (real.long().cumsum(-1) - 1).clamp(min=0)
    return given, real


def output(model, **given):
    """What a model computes: logits, or hidden states."""
    with torch.no_grad():
        found = model(**given)
    return found.logits if "logits" in found else found.last_hidden_state
