"""A language model of transformers, swapped to entmax15, writes on: certified steps against others.

It reads 2,048 tokens and writes 64, the most likely ones, three times: by its own softmax and SDPA; swapped,
by the backends that read all keys; swapped, with a certified cache. The last two must write the same. A
token's time is the median over those written after the first; its share of attention is the time inside of
the attention functions, caches not included.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from regard.bench.certified_step import FACTOR, Lost
from regard.bench.swapped_model import missing as missing
from regard.bench.timed_case import Claim, Measured, TimedCase
from regard.bench.timing import Effort
from regard.swap import swap

READ, WRITTEN = 2048, 64
WAYS = {
    "softmax": "its own softmax, SDPA",
    "exact": "entmax15, all keys read",
    "certified": "entmax15, certified",
}


@dataclass
class Clock:
    """`generate` tells it of every token; it has the seconds since the one before, and those of attention."""

    tokens: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    attention: list[float] = field(default_factory=list)
    inside: float = 0.0
    last: float = 0.0
    now: Callable[[], float] = perf_counter

    def put(self, value: Tensor) -> None:
        now = self.now()
        if value.numel() == 1:  # the prompt comes first
            self.tokens.append(int(value))
            self.seconds.append(now - self.last)
            self.attention.append(self.inside)
        self.inside, self.last = 0.0, self.now()

    def end(self) -> None:
        """Nothing is left to say."""

    @property
    def token(self) -> float:
        """Seconds of a token."""
        return median(self.seconds[1:])

    @property
    def share(self) -> float:
        """Of a token's seconds, those in attention."""
        return median(a / s for a, s in zip(self.attention[1:], self.seconds[1:], strict=True))


def write(
    model: Any, ids: Tensor, way: str, count: int = WRITTEN, now: Callable[[], float] = perf_counter
) -> Clock:
    """Let the model write `count` tokens after ids (n,)."""
    if way == "softmax":
        swap(model, None)
    else:
        swap(model, "entmax15", temperature=1 / FACTOR, cache="certified" if way == "certified" else None)
    name = "regard" if way != "softmax" else "sdpa"
    model.set_attn_implementation(name)
    clock = Clock(now=now)
    with _timed(name, clock), torch.inference_mode():
        model.generate(
            ids[None], attention_mask=torch.ones_like(ids[None]), max_new_tokens=count, min_new_tokens=count,
            do_sample=False, pad_token_id=0, streamer=clock,
        )  # fmt: skip
    swap(model, None)
    return clock


@contextmanager
def _timed(name: str, clock: Clock) -> Iterator[None]:
    """While it lasts, the clock has the seconds inside of an attention function of transformers."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as functions

    function: Callable[..., Any] = functions[name]

    def measured(*arguments: Any, **named: Any) -> Any:
        start = clock.now()
        found = function(*arguments, **named)
        clock.inside += clock.now() - start
        return found

    functions[name] = measured
    try:
        yield
    finally:
        functions[name] = function


def cases(path: Path, text: Path | None, read: int = READ, written: int = WRITTEN) -> list[TimedCase]:
    """Tokens that differ, a token's time, and attention's share of it."""
    if missing():
        return []

    @cache
    def opened() -> tuple[Any, Tensor]:
        from regard.bench.swapped_model import text_tokens
        from regard.bridges.huggingface.opening import load_parts

        model, tokenizer = load_parts(path)
        return model, text_tokens(model, tokenizer, text, read)[0]

    @cache
    def found(way: str, now: Callable[[], float]) -> Clock:
        return write(*opened(), way, written, now)

    def differ(effort: Effort) -> Measured:
        a, b = found("exact", effort.clock), found("certified", effort.clock)
        wrong = sum(x != y for x, y in zip(a.tokens, b.tokens, strict=True))
        return Lost(b.token, a.token, lost=wrong)

    def against(other: str, effort: Effort) -> Measured:
        return Measured(found("certified", effort.clock).token, found(other, effort.clock).token)

    def share(way: str, effort: Effort) -> Measured:
        one = found(way, effort.clock)
        return Measured(one.share * one.token, one.token)

    def case(
        what: str, other: str, run: Callable[[Effort], Measured], limit: float | None = None
    ) -> TimedCase:
        says = f"{path.name}, {written} tokens after {read:,}: {what}"
        return TimedCase("generation", Claim(says, other, limit), says, run, n=read)

    made = [case("tokens that differ, certified (a count)", WAYS["exact"], differ, 0.0)]
    for way in ("exact", "softmax"):
        made.append(case("time of a token, certified", WAYS[way], partial(against, way)))
    for way, says in WAYS.items():
        made.append(case(f"attention's share of a token, {says}", "the token", partial(share, way)))
    return made
