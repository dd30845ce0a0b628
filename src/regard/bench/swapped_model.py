"""A forward pass of a language model of transformers: attentions through us, and by its own SDPA, in turn.

softmax at 1,024 tokens, and entmax15 with scores times 0.35 at 4,096. The weights should be trained ones: how
sparse entmax15 is depends on them. Only the last position's logits are computed, which are alike for both.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.bench.timed_case import Claim, Measured, TimedCase
from regard.bench.timing import Effort, medians
from regard.swap import swap

TEMPERATURE = 1 / 0.35  # of entmax15: one number for all heads
CASES = (
    ("softmax", 1024, 1.0, 1.05),
    ("entmax15", 4096, TEMPERATURE, 0.9),
)  # map, tokens, temperature, limit
GROUPS = tuple(map for map, *_ in CASES)


def missing(groups: Sequence[str] = GROUPS) -> list[str]:
    """What is not installed, a line each."""
    return [] if find_spec("transformers") else ["transformers is not installed: pip install 'regard[hf]'"]


def cases(path: Path, text: Path | None, only: Sequence[str] | None = None) -> list[TimedCase]:
    """One for each map, or for these."""
    if missing():
        return []
    parts: list[Any] = []

    def opened(n: int) -> tuple[Any, Tensor]:
        from regard.bridges.huggingface.opening import load_parts

        if not parts:
            parts.extend(load_parts(path))
        model, tokenizer = parts
        return model, text_tokens(model, tokenizer, text, n)

    def timed(map: str, n: int, temperature: float, limit: float) -> TimedCase:
        says = f"forward of {path.name}, {map} through us"
        run = measured(lambda: opened(n), map, temperature)
        return TimedCase(map, Claim(says, "sdpa, softmax", limit), says, run, rows=n, n=n)

    return [timed(*one) for one in CASES if one[0] in (only or GROUPS)]


def text_tokens(model: Any, tokenizer: Any, text: Path | None, n: int) -> Tensor:
    """The first n tokens of a file, (1, n); random ones without a file."""
    if text is None:
        size = model.config.get_text_config().vocab_size
        return torch.randint(5, size, (1, n), generator=torch.Generator().manual_seed(0))
    from regard.bridges.huggingface.foreign_tokenizer import first_tokens

    ids = first_tokens(tokenizer, text, n)
    if len(ids) < n:
        raise ValueError(f"{text} has {len(ids):,} tokens; {n:,} are needed.")
    return ids[None]


def measured(opened: Callable[[], tuple[Any, Tensor]], map: str, temperature: float) -> Any:
    """What measures one case."""

    def run(effort: Effort) -> Measured:
        model, tokens = opened()
        swap(model, map, temperature=temperature)

        def forward(implementation: str) -> None:
            model.set_attn_implementation(implementation)
            with torch.no_grad():
                model(input_ids=tokens, use_cache=False, logits_to_keep=1)

        return Measured(*medians([lambda: forward("regard"), lambda: forward("sdpa")], effort))

    return run
