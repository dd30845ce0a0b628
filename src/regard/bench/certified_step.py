"""Certified decoding on the queries, keys and values of a real model: time, bytes, memory, nothing lost.

FILE is safetensors: layerL.keys and layerL.values (key/value heads, n, d), layerL.queries (heads, m, d) of
the tokens at `positions`, m of them. A query sees the keys up to its own position. More keys than the file
has are the same ones again, plus noise.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from regard.backends import step
from regard.backends.call import Call
from regard.backends.certified_promise import check_certified
from regard.backends.key_codes import has_byte_products
from regard.bench.timed_case import Claim, Measured, TimedCase
from regard.bench.timing import QUICK, Effort, medians
from regard.core.decoding_counts import COLUMNS, Counts
from regard.maps import entmax15
from regard.memories import Quantised
from regard.scores import ScaledDot

SIZES = (1024, 2048, 4096, 8192, 16384, 32768, 65536)
USUAL = 4096  # where memory and appending are measured
FOUR_LAYERS = 16384  # more keys: of two layers
AGAINST_SDPA = {4096: 0.28, 16384: 0.14}
AGAINST_SCAN = {4096: 0.75, 16384: 0.45, 65536: 0.45}
FACTOR = 0.35  # of the scores: about where a language model works with entmax15
NOISE = 0.1  # of the standard deviation, in keys that are there again
SOFTMAX = {1: "the fastest of three spellings of SDPA, softmax"}
SOFTMAX[2] = SOFTMAX[1].replace(", ", ", two threads, ")
SCAN = "our exact scan, entmax15"


@dataclass(frozen=True)
class Layer:
    """What one attention of the model has: keys and values (1, kv, n, d), queries (1, heads, m, d)."""

    keys: Tensor
    values: Tensor
    queries: Tensor
    positions: list[int]

    @property
    def scale(self) -> float:
        """Of the dot products."""
        return float(FACTOR * self.keys.shape[-1] ** -0.5)

    def of_length(self, n: int) -> "Layer":
        """With n keys."""
        noise = torch.Generator().manual_seed(n)
        held = []
        for x in (self.keys, self.values):
            every = x.repeat(1, 1, -(-n // x.shape[-2]), 1)[..., :n, :].contiguous()
            again = every[..., x.shape[-2] :, :]
            again += NOISE * x.std() * torch.randn(again.shape, generator=noise)
            held.append(every)
        return Layer(held[0], held[1], self.queries, self.positions)


@dataclass(frozen=True)
class Lost(Measured):
    """A count that must be 0."""

    lost: int = 0

    @property
    def ratio(self) -> float:
        return float(self.lost)


@cache
def layers(file: Path) -> tuple[Layer, ...]:
    """The layers in a file; ValueError with a sentence if it is not as it should be."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if file.is_dir():
        found = sorted(file.glob("*.safetensors"))
        if len(found) != 1:
            raise ValueError(f"{file} must hold one .safetensors file; it holds {len(found)}.")
        file = found[0]
    if not file.is_file():
        raise ValueError(f"there is no file {file}.")
    try:
        held = load_file(file)
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{file} is no safetensors file: {error}.") from None
    names = sorted({name.partition(".")[0] for name in held if name.endswith(".keys")}, key=_number)
    wanted = [f"{name}.{part}" for name in names for part in ("values", "queries")] + ["positions"]
    if missing := [name for name in wanted if name not in held]:
        raise ValueError(f"{file} lacks {', '.join(missing)}.")
    if not names:
        raise ValueError(f"{file} has no layerL.keys, layerL.values and layerL.queries.")
    positions = held["positions"].tolist()
    made = []
    for name in names:
        keys, values, queries = (held[f"{name}.{p}"].float() for p in ("keys", "values", "queries"))
        fits = keys.dim() == queries.dim() == 3 and keys.shape[:2] == values.shape[:2]
        if (
            not fits
            or queries.shape[-1] != keys.shape[-1]
            or queries.shape[0] % keys.shape[0]
            or queries.shape[1] != len(positions)
            or max(positions) >= keys.shape[1]
        ):
            raise ValueError(
                f"{file}: {name} must have keys and values (kv, n, d) and queries (heads, positions, d); got "
                f"{tuple(keys.shape)}, {tuple(values.shape)}, {tuple(queries.shape)}."
            )
        made.append(Layer(keys[None], values[None], queries[None], positions))
    return tuple(made)


def _number(name: str) -> tuple[int, str]:
    digits = "".join(c for c in name if c.isdigit())
    return (int(digits) if digits else -1, name)


def missing(*_: object) -> list[str]:
    """What the machine lacks, a line each."""
    return [] if has_byte_products() else ["no AVX2: every step is an exact scan, and nothing is certified"]


def cases(keys: Path, sizes: tuple[int, ...] = SIZES, threads: int = 2) -> Iterator[TimedCase]:
    """Time and bytes at several lengths, memory, appending, and whether anything is lost.

    The limits against SDPA are for two threads, one for each core.
    """
    found = layers(keys)
    heads = found[0].queries.shape[1]

    def case(
        what: str, against: str, limit: float | None, run: Callable[[Effort], Measured], n: int
    ) -> TimedCase:
        claim = Claim(f"{what}, n = {n:,}, scores × {FACTOR}", against, limit)
        return TimedCase("certified", claim, what, run, None, heads, n)

    for n in sizes:
        some = found if n <= FOUR_LAYERS else found[:2]
        sdpa_limits = AGAINST_SDPA if threads == 2 else {}
        for against, limits in ((SOFTMAX[threads], sdpa_limits), (SCAN, AGAINST_SCAN)):
            run = partial(_time, some, n, against == SCAN, threads)
            yield case("certified step, time", against, limits.get(n), run, n)
    for n in sizes:
        some = found if n <= FOUR_LAYERS else found[:2]
        for which, limit in (("mean", 0.13), ("worst", 0.17)):
            yield case(
                f"certified step, bytes read, {which} key/value head",
                "float32 keys and values",
                limit if n == 4096 else None,
                partial(_bytes, some, n, which == "worst"),
                n,
            )
    n = USUAL
    yield case(
        "certified cache, bytes of memory", "float32 keys and values", 1.15, partial(_memory, found, n), n
    )
    yield case(
        "certified cache, time of appending a token", "a certified step", 0.2, partial(_append, found, n), n
    )
    yield case(
        "certified step, keys with weight that were lost, all queries (a count; time of the check)",
        "the definition in float64",
        0.0,
        partial(_lost, found),
        n,
    )


FEWER = {"sizes": (4096, 16384)}


def _cache(layer: Layer) -> Quantised:
    made = Quantised()
    made.append(layer.keys, layer.values)
    return made


def _time(some: tuple[Layer, ...], n: int, scan: bool, threads: int, effort: Effort) -> Measured:
    """Mean over layers of the median time of a step, each layer by itself, the last query of the file."""
    before, ours, others = torch.get_num_threads(), 0.0, 0.0
    torch.set_num_threads(threads)
    try:
        with torch.inference_mode():
            for layer in (one.of_length(n) for one in some):
                query, held = layer.queries[..., -1:, :].contiguous(), _cache(layer)
                other = _scan(layer, query) if scan else _softmax(layer, query, effort)
                share = replace(effort, seconds=effort.seconds / len(some))
                pair = medians([lambda: held.attend(query, entmax15, scale=layer.scale), other], share)  # noqa: B023
                ours, others = ours + pair[0], others + pair[1]
    finally:
        torch.set_num_threads(before)
    return Measured(ours / len(some), others / len(some))


def _softmax(layer: Layer, query: Tensor, effort: Effort) -> Callable[[], Any]:
    """The fastest way to say the step in torch, with softmax."""
    keys, values, scale = layer.keys, layer.values, layer.scale
    kv, times = keys.shape[1], query.shape[1] // keys.shape[1]
    folded = query.view(1, kv, times, -1)
    spellings = [
        lambda: sdpa(query, keys, values, scale=scale, enable_gqa=times > 1),
        lambda: sdpa(folded, keys, values, scale=scale),
        lambda: sdpa(
            query, keys.repeat_interleave(times, 1), values.repeat_interleave(times, 1), scale=scale
        ),
    ]
    found = medians(spellings, replace(QUICK, clock=effort.clock))
    return spellings[found.index(min(found))]


def _scan(layer: Layer, query: Tensor) -> Callable[[], Any]:
    """The step backend: all keys are read, in float32."""
    kv, times = layer.keys.shape[1], query.shape[1] // layer.keys.shape[1]
    grouped = query.view(1, kv, times, 1, -1), layer.keys.unsqueeze(2), layer.values.unsqueeze(2)
    call = Call(*grouped, ScaledDot(layer.scale), entmax15, None, None)
    return lambda: step.step(call)


def _bytes(some: tuple[Layer, ...], n: int, worst: bool, effort: Effort) -> Measured:
    """Bytes of a step, of each head of keys; keys and values are counted once for all heads that share them.

    Queries of the last eighth of the file; in a cache of its length each sees keys up to its own position.
    """
    shares = []
    start = perf_counter()
    with torch.inference_mode():
        for layer in (one.of_length(n) for one in some):
            kv, held = layer.keys.shape[1], Quantised()
            for i in range(len(layer.positions) * 7 // 8, len(layer.positions)):
                least = min(n, layer.positions[i] + 1) if n <= 4096 else n
                if len(held) != least:
                    held = Quantised()
                    held.append(layer.keys[..., :least, :], layer.values[..., :least, :])
                counts = Counts()
                query = layer.queries[..., i : i + 1, :]
                held.attend(query, entmax15, scale=layer.scale, counts=counts)
                shares.append(_shares(counts, kv, least))
    found = torch.tensor(shares).view(len(some), -1, kv).mean(1)  # (layers, kv)
    share = float(found.max() if worst else found.mean())
    whole = n * (layer.keys.shape[-1] + layer.values.shape[-1]) * 4 / 2**20
    return Measured(perf_counter() - start, 1.0, mebibytes=share * whole, against_mebibytes=whole)


def _shares(counts: Counts, kv: int, n: int) -> list[float]:
    """Of the bytes of n float32 keys and values, what a step read, for each head of keys."""
    (table,), shape = counts.tables.values(), counts.shape
    keys, values = (table[:, COLUMNS.index(c)].reshape(kv, -1).sum(1) for c in ("keys", "values"))
    read = n * shape["bytes"] + keys * shape["row"] + values * shape["value"]
    return [float(x) for x in read / (n * (shape["row"] + shape["value"]))]


def _memory(some: tuple[Layer, ...], n: int, effort: Effort) -> Measured:
    held = _cache(some[0].of_length(n))
    assert held.codes is not None
    exact, codes = (x / 2**20 for x in held.nbytes)
    return Measured(0.0, 1.0, mebibytes=exact + codes, against_mebibytes=exact)


def _append(some: tuple[Layer, ...], n: int, effort: Effort) -> Measured:
    layer = some[0].of_length(n)
    query = layer.queries[..., -1:, :].contiguous()
    last = layer.keys[..., -1:, :].contiguous(), layer.values[..., -1:, :].contiguous()

    def append() -> None:
        growing.append(*last)
        if len(growing) > n + n // 4:  # new buffers; as every step does, ask for the codes of what is there
            growing.crop(n)
            growing.append(*last)
            assert growing.codes is not None

    with torch.inference_mode():
        held, growing = _cache(layer), _cache(layer)
        assert held.codes is not None and growing.codes is not None
        ours, against = medians([append, lambda: held.attend(query, entmax15, scale=layer.scale)], effort)
    return Measured(ours, against)


def _lost(some: tuple[Layer, ...], effort: Effort) -> Measured:
    """Every query of the file against the keys up to its position: how many keys with weight were lost."""
    start, lost = perf_counter(), 0
    for layer in some:
        queries, ends = layer.queries[0] * layer.scale, [p + 1 for p in layer.positions]
        for head, query in enumerate(queries):
            keys = layer.keys[0, head * layer.keys.shape[1] // len(queries)]
            found = check_certified(query, keys, entmax15, ends)
            lost += found.lost + found.low + found.refused
    return Lost(perf_counter() - start, 1.0, lost=lost)
