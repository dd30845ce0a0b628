"""A `gpt` laid out as GPT-2, with the weights of a model of Hugging Face: for comparisons of the two.

    x = √d E w + positions        logits = E h

Embeddings here are times √d, so those of GPT-2 come in divided by √d, and the last norm times √d makes up for
it in the output layer, which is tied. All else is the same: learned positions, biases, GELU, pre-norm.

Radford et al. (2019), "Language Models are Unsupervised Multitask Learners".
"""

from typing import Any, cast

import torch
from torch import Tensor

from regard.models.language.gpt import GPT, Config
from regard.models.parts.self_attention_layer import SelfAttentionLayer
from regard.positions import Learned


def like_gpt2(theirs: Any) -> GPT:
    """The same model as a GPT2LMHeadModel."""
    shape = theirs.config
    inner = shape.n_inner or 4 * shape.n_embd
    ours = GPT(
        Config(
            shape.vocab_size, shape.n_embd, inner, shape.n_head, shape.n_layer, dropout=0.0,
            positions="learned", longest=shape.n_positions, activation="gelu_tanh", bias=True,
        )
    ).eval()  # fmt: skip
    body, root = theirs.transformer, shape.n_embd**0.5
    with torch.no_grad():
        ours.words.E.weight.copy_(body.wte.weight / root)
        cast(Learned, ours.words.positions).table.copy_(body.wpe.weight)
        ours.norm.weight.copy_(body.ln_f.weight * root)
        ours.norm.bias.copy_(body.ln_f.bias * root)
        for one, other in zip(ours.layers, body.h, strict=True):
            _copy(cast(SelfAttentionLayer, one), other)
    return ours


def _copy(ours: Any, theirs: Any) -> None:
    """One layer; GPT-2 holds matrices the other way round, queries, keys and values in one."""
    heads = ours.attention
    matrices = theirs.attn.c_attn.weight.T.chunk(3)
    biases = theirs.attn.c_attn.bias.chunk(3)
    for layer, W, b in zip((heads.W_q, heads.W_k, heads.W_v), matrices, biases, strict=True):
        _set(layer, W, b)
    _set(heads.W_o, theirs.attn.c_proj.weight.T, theirs.attn.c_proj.bias)
    _set(ours.feed_forward.W1, theirs.mlp.c_fc.weight.T, theirs.mlp.c_fc.bias)
    _set(ours.feed_forward.W2, theirs.mlp.c_proj.weight.T, theirs.mlp.c_proj.bias)
    for around, norm in zip(ours.around, (theirs.ln_1, theirs.ln_2), strict=True):
        _set(around.norm, norm.weight, norm.bias)


def _set(layer: Any, weight: Tensor, bias: Tensor) -> None:
    layer.weight.copy_(weight)
    layer.bias.copy_(bias)


@torch.inference_mode()
def greedy_tokens(model: GPT, tokens: Tensor, steps: int) -> Tensor:
    """Tokens (b, n) and the `steps` most likely ones after them, from the cache: (b, n + steps)."""
    state, written, read = None, [tokens], tokens
    for _ in range(steps):
        hidden, state = model(read, state)
        read = model.logits(hidden[:, -1:]).argmax(-1)
        written.append(read)
    return torch.cat(written, 1)
