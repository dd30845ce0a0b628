"""Language models: a step of training against a plain torch loop, writing against Hugging Face's `generate`,
reading with a memory against sliding a window, and a sparse map against softmax.

    training   `gpt` and a GPT written with torch alone, of the same sizes: forward, backward, clip, AdamW
    map        `gpt --map entmax15` against softmax, forward + backward, at the first weights
    memory     Transformer-XL: segments with a memory, against a window that moves on by one token
    writing    greedy, from caches, the same weights as GPT-2; the tokens must be the same
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.bench.gpt2_layout import greedy_tokens, like_gpt2
from regard.bench.timed_case import Claim, Measured, TimedCase
from regard.bench.timing import Effort, medians
from regard.models.language.gpt import GPT
from regard.models.language.gpt import Config as GPTConfig
from regard.models.language.transformer_xl import Config as XLConfig
from regard.models.language.transformer_xl import TransformerXL

GROUPS = ("training", "map", "memory", "writing")
VOCABULARY, ROWS, SEGMENT = 69, 16, 128
LONG = 2048
WRITTEN = 256
WRITINGS = ((4, 1, 16), (4, 1, 128), (4, 8, 16), (6, 1, 16), (12, 1, 16))  # layers, texts, tokens of a prompt
WIDTHS = {4: (256, 4, 1000), 6: (384, 6, 1000), 12: (768, 12, 50257)}  # width, heads, words; GPT-2's smallest


def missing(groups: Sequence[str] = GROUPS) -> list[str]:
    """What is not installed, a line each."""
    wanted = "writing" in groups and not find_spec("transformers")
    return ["transformers is not installed: pip install 'regard[hf]'"] if wanted else []


def cases(only: Sequence[str] | None = None) -> list[TimedCase]:
    """The cases of these groups, or all."""
    groups = only or GROUPS
    return [case for case in _every() if case.group in groups and (case.group != "writing" or not missing())]


def _every() -> Iterator[TimedCase]:
    step = "a training step of gpt"
    yield TimedCase(
        "training", Claim(step, "a plain torch loop with SDPA", 1.0), step, _training, n=SEGMENT, rows=ROWS
    )
    sparse = "gpt with entmax15"
    yield TimedCase(
        "map", Claim(sparse, "gpt with softmax", 1.0), sparse, _map, "forward + backward", n=LONG, rows=1
    )
    memory = "Transformer-XL, a token of a text"
    yield TimedCase(
        "memory", Claim(memory, "a window that slides by one", 0.1), memory, _memory, n=SEGMENT, rows=1
    )
    claim = Claim(f"gpt as GPT-2 writes {WRITTEN} tokens", "transformers' generate, same tokens", 0.6)
    for layers, rows, prompt in WRITINGS:
        texts = "a text" if rows == 1 else f"{rows} texts"
        what = f"{layers} layers × {WIDTHS[layers][0]}, {WRITTEN} tokens after {prompt}, {texts}"
        measured = partial(_writing, layers=layers, rows=rows, prompt=prompt)
        yield TimedCase("writing", claim, f"gpt as GPT-2, {what}", measured, rows=rows)


class Plain(nn.Module):
    """A GPT with torch alone: fused queries, keys and values, rotary positions, squared ReLU, pre-norm."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.heads, width, inner = config.heads, config.width, config.inner
        self.embed = nn.Embedding(config.vocabulary, width)
        nn.init.normal_(self.embed.weight, std=width**-0.5)
        self.layers = nn.ModuleList(
            nn.ModuleList(
                [
                    nn.LayerNorm(width),
                    nn.Linear(width, 3 * width, bias=False),
                    nn.Linear(width, width, bias=False),
                    nn.LayerNorm(width),
                    nn.Linear(width, inner),
                    nn.Linear(inner, width),
                ]
            )
            for _ in range(config.layers)
        )
        self.norm, self.rate = nn.LayerNorm(width), config.dropout
        each = width // config.heads
        angles = torch.arange(SEGMENT).unsqueeze(-1) * 10_000.0 ** (-torch.arange(0, each, 2) / each)
        self.cos, self.sin = angles.cos(), angles.sin()

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (b, n, vocabulary)."""
        x = F.dropout(self.embed(tokens) * self.embed.weight.shape[1] ** 0.5, self.rate)
        for layer in self.layers:
            first, project, out, second, up, down = cast(nn.ModuleList, layer)
            q, k, v = project(first(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            z = F.scaled_dot_product_attention(self._turned(q), self._turned(k), v, is_causal=True)
            x = x + F.dropout(out(z.transpose(1, 2).flatten(-2)), self.rate)
            x = x + F.dropout(down(F.relu(up(second(x))).square()), self.rate)
        return F.linear(self.norm(x), self.embed.weight)

    def _turned(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        return torch.cat([a * self.cos - b * self.sin, b * self.cos + a * self.sin], -1)


def _training(effort: Effort) -> Measured:
    config, tokens = GPTConfig(VOCABULARY), torch.randint(4, VOCABULARY, (ROWS, SEGMENT + 1))
    ours, theirs = GPT(config).train(), Plain(config).train()

    def loss_of_ours() -> Tensor:
        hidden, _ = ours(tokens[:, :-1])
        return ours.loss(hidden.flatten(0, 1), tokens[:, 1:].flatten()) / tokens[:, 1:].numel()

    def loss_of_theirs() -> Tensor:
        return F.cross_entropy(theirs(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    return Measured(*medians([_stepping(ours, loss_of_ours), _stepping(theirs, loss_of_theirs)], effort))


def _stepping(model: nn.Module, loss: Callable[[], Tensor]) -> Callable[[], None]:
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        loss().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()

    return step


def _map(effort: Effort) -> Measured:
    tokens = torch.randint(4, VOCABULARY, (1, LONG))
    models = [GPT(GPTConfig(VOCABULARY, map=name)).train() for name in ("entmax15", "softmax")]

    def both_ways(model: GPT) -> None:
        model.zero_grad(set_to_none=True)
        model(tokens)[0].square().mean().backward()

    return Measured(*medians([partial(both_ways, model) for model in models], effort))


@torch.no_grad()
def _memory(effort: Effort) -> Measured:
    model = TransformerXL(XLConfig(VOCABULARY, memory=SEGMENT)).eval()
    tokens = torch.randint(4, VOCABULARY, (1, 3 * SEGMENT))

    def segments() -> None:
        state: Any = None
        for part in tokens.split(SEGMENT, 1):
            _, state = model(part, state)

    def sliding() -> None:  # a sixteenth of the text, each token from a window as long as segment and memory
        for at in range(0, 3 * SEGMENT // 16):
            model(tokens[:, at : at + 2 * SEGMENT])

    ours, theirs = medians([segments, sliding], effort)
    return Measured(ours / math.prod(tokens.shape), theirs / (3 * SEGMENT // 16))


@torch.no_grad()
def _writing(effort: Effort, layers: int, rows: int, prompt: int) -> Measured:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    width, heads, words = WIDTHS[layers]
    sizes = {"n_embd": width, "n_layer": layers, "n_head": heads, "vocab_size": words, "n_positions": 512}
    theirs = GPT2LMHeadModel(GPT2Config(**sizes, eos_token_id=None, bos_token_id=None)).eval()
    for p in theirs.parameters():
        nn.init.normal_(p, std=0.1)  # far from its small first values
    ours, tokens = like_gpt2(theirs), torch.randint(words, (rows, prompt))
    one = partial(greedy_tokens, ours, tokens, WRITTEN)
    other = partial(
        theirs.generate,
        tokens,
        max_new_tokens=WRITTEN,
        min_new_tokens=WRITTEN,
        do_sample=False,
        pad_token_id=0,
    )
    if not torch.equal(one(), other()):
        raise RuntimeError("the two write different tokens: there is nothing to compare.")
    return Measured(*medians([one, other], effort if layers < 12 else replace(effort, least=2)))
