"""The certified backend: a cached step of a sparse map that reads codes of all keys, and few of the keys.

An upper bound of every score comes from 4-bit or 7-bit codes. A key whose bound is below a lower bound of the
map's threshold has weight 0 and is never read. So the context is that of all keys, and reads a tenth of
them; docs/certified_decoding.md has the proof. Sparsemax, entmax with 1.3 ≤ α ≤ 2 (learned α too) and the
top-k maps of dot products, one query or a few, without gradient. Everything else is left to other backends.
"""

import ctypes
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.backends.call import Call
from regard.backends.key_codes import BLOCK, KeyCodes
from regard.backends.workspace import workspace
from regard.core.decoding_counts import Counts
from regard.kernels.common.operator import is_plain
from regard.kernels.common.pool import call_in_threads, load_kernels
from regard.kernels.decoding.certified_arguments import Arguments
from regard.maps.entmax import Entmax, entmax
from regard.maps.entmax15 import entmax15
from regard.maps.sparsemax import sparsemax
from regard.maps.table import MAPS
from regard.maps.top_k import top_k_softmax, top_k_sparsemax

LONG = 1024  # keys, below which a scan of the keys themselves is as fast
FEW = 8  # queries
MOST = 32  # of k: so many keys are scored before any threshold is known
SMALLEST = 1.3  # α, below which too many keys have weight
LEAST = 30_000  # pairs of query and key per thread: with fewer a second one gains nothing
FLAT = 0.2  # of the scores: if more must be computed, a scan of the keys is faster
PAUSE = 15  # steps, until codes are tried again
WHERE = "regard.kernels.decoding.certified_kernel"
DEFAULT_K = 8


class Form(NamedTuple):
    """A map as the kernel takes it."""

    half: float | Tensor  # α − 1 of entmax, a number or one for each head; 0 for softmax
    k: int = 0  # of the k highest scores; 0: of all


_ENTMAX15 = Form(0.5)


def form_of(map: Callable[..., Tensor]) -> Form | None:
    """The form of a map; None if it is not one of those that this backend takes."""
    if map is entmax15:
        return _ENTMAX15
    settings: dict[str, Any] = {}
    inner: Any = map
    while isinstance(inner, partial):
        if inner.args:
            return None
        inner, settings = inner.func, {**inner.keywords, **settings}
    map = inner
    if map in (top_k_softmax, top_k_sparsemax):
        k = settings.pop("k", DEFAULT_K)
        found = Form(0.0 if map is top_k_softmax else 1.0, k)
        return found if not settings and isinstance(k, int) and 0 < k <= MOST else None
    alpha: Any = None
    if isinstance(map, Entmax):
        alpha = map.alpha
    elif map is entmax:
        alpha = settings.pop("alpha", 1.5)
    elif map is entmax15 or map is sparsemax:  # the first inside a partial
        alpha = 1.5 if map is entmax15 else 2.0
    if settings or alpha is None:
        return None
    if isinstance(alpha, Tensor):
        alpha = alpha.detach()
        if not isinstance(map, Entmax) or not bool(((alpha >= SMALLEST) & (alpha <= 2)).all()):
            return None
        return Form(alpha.double() - 1 if len(alpha) > 1 else float(alpha) - 1)
    return Form(float(alpha) - 1) if SMALLEST <= alpha <= 2 else None


def certified(call: Call) -> Tensor | None:
    """Context (..., m, d_v) of a call whose keys have codes; None, which is counted, where others must."""
    assert call.codes is not None
    counts = call.counts
    form = form_of(call.map)
    why = _refused(call, form)
    if not why:
        assert form is not None
        context = _step(call, form, counts)
        if isinstance(context, Tensor):
            return context
        why = context
    if counts is not None and why != "short":
        counts.fallbacks[why] += 1
    return None


def _refused(call: Call, form: Form | None) -> str:
    """Why a call is for another backend, in a word; "" if it is not."""
    if call.m > FEW:
        return "short"  # a prompt, which has its own backends
    if form is None or call.value_term is not None:
        return "map"
    if call.dropout or call.tracked:
        return "gradient"
    if not is_plain(call.query) or call.query.dtype != torch.float32:
        return "precision"
    return ""


def _step(call: Call, form: Form, counts: Counts | None) -> Tensor | str:
    """The context, or why there is none."""
    assert call.codes is not None
    codes, first, last = call.codes
    found = call.products()
    if found is None or not found.bare or found.keys is not call.keys:
        return "score"
    m, groups = call.m, len(codes.keys)
    batch = call.batch
    query = found.query
    if query.shape[:-2] != batch:
        query = query.expand(*batch, *query.shape[-2:])
    rows = batch.numel() * m
    if groups == 0 or rows % groups or last - first != call.n:
        return "shape"
    if codes.pause > 0:
        codes.pause -= 1
        return "flat"
    lo, hi = _filled(rows, first), _filled(rows, last)
    if call.mask is not None:
        ends = call.mask.interval(call.m, call.n, len(batch), query.device) or _runs(call)
        if ends is None:
            return "mask"
        lo, hi = (_kept(end.expand(*batch, m).reshape(-1).numpy().astype(np.int64) + first) for end in ends)
    sink = None
    if call.sink is not None:
        sink = _kept(call.sink.detach().float().expand(*batch, m).reshape(-1).numpy().astype(np.float64))
        if not np.isfinite(sink.array).all():
            return "sink"
    heads = call.heads if call.groups > 1 else (batch[-1] if len(batch) > 1 else 1)
    pairs = rows * call.n if call.mask is None else int((hi.array - lo.array).sum())
    context = run_codes(codes, query.contiguous(), 1.0, m, heads, form, lo, hi, last, pairs, sink, counts)
    return "not finite" if context is None else context.view(*batch, m, -1)


def _runs(call: Call) -> tuple[Tensor, Tensor] | None:
    """The ends of intervals of keys that a boolean mask is made of, as padding is; None if it is not."""
    visible = call.visible(0, call.m)
    assert visible is not None
    count = visible.sum(-1)
    lo, hi = visible.int().argmax(-1), call.n - visible.flip(-1).int().argmax(-1)
    hi = torch.where(count > 0, hi, lo)
    return (lo, hi) if torch.equal(hi - lo, count) else None


class Kept(NamedTuple):
    """An array that many steps share, and where it is: to ask for its address takes as long as to make it."""

    array: NDArray[Any]
    address: int


@lru_cache(256, typed=True)  # 0 is not 0.0 here
def _filled(rows: int, number: float) -> Kept:
    """The same number for each row: an end of the interval it sees, if that is an integer."""
    array = np.full(rows, number, np.int64 if isinstance(number, int) else np.float64)
    return Kept(array, array.ctypes.data)


def _kept(array: NDArray[Any]) -> Kept:
    return Kept(array, array.ctypes.data)


def run_codes(
    codes: KeyCodes, query: Tensor, scale: float, m: int, heads: int, form: Form, lo: Kept, hi: Kept,
    last: int, pairs: int, sink: Kept | None, counts: Counts | None,
) -> Tensor | None:  # fmt: skip
    """Context (rows, d_v) of query (…, d) times scale, which sees so many pairs; None if a number is huge.

    No row sees the key `last`, or any behind it.
    """
    half, held = form.half, list[Any]()
    groups, capacity, d = codes.keys.shape
    rows = query.numel() // d
    if type(half) is float:  # isinstance of a tensor takes longer than all of this
        halves = _filled(rows, half)
    else:
        each = torch.as_tensor(half).view(1, -1, 1).expand(rows // heads // m, heads, m)
        halves = _kept(each.reshape(-1).numpy())
    table = 0
    if counts is not None:
        table = counts.table(rows // heads // m, heads, m).ctypes.data
        if not counts.shape:
            counts.shape.update(codes.sizes(rows // groups // m))
    kernels = load_kernels(WHERE)
    sinks = _filled(rows, -np.inf) if sink is None else sink
    context = torch.empty((rows, codes.values.shape[-1]), dtype=torch.float32)
    wide = -(-last // BLOCK) * BLOCK + kernels.ROOM
    chunks = -(-(last + BLOCK) // kernels.CHUNK)
    size = 4 * rows * (wide + d + 1)
    work = workspace(size + (2 * groups * wide if table else 0), held)
    counters = (ctypes.c_int64 * (kernels.OF_GROUPS + 2 * groups))()
    width = max(min(torch.get_num_threads(), pairs // LEAST, groups * chunks), 1)
    struct = Arguments(
        0, query.data_ptr(), *codes.addresses, context.data_ptr(), lo.address, hi.address, sinks.address,
        halves.address, table, work, work + 4 * rows * wide, work + 4 * rows * (wide + d), work + size,
        ctypes.addressof(counters), rows, groups, capacity, codes.scales.shape[1], d, context.shape[1],
        codes.bits, codes.each, form.k, last, wide, chunks, 1 if width > 1 else 0, scale,
    )  # fmt: skip
    call_in_threads(kernels.compiled_certified(), ctypes.addressof(struct), width)
    if counters[kernels.SCORES] > FLAT * pairs:
        codes.pause = PAUSE
    return None if counters[kernels.REFUSED] else context


def attend_by_codes(
    codes: KeyCodes,
    first: int,
    last: int,
    query: Tensor,
    scale: float,
    map: Any,
    counts: Counts | None = None,
) -> Tensor | None:
    """Context (..., m, d_v) of query (..., m, d) times scale, with all keys visible; None as above."""
    form = form_of(MAPS[map].function if isinstance(map, str) else map)
    if form is None or query.dtype != torch.float32:
        return None
    shape = query.shape
    rows, m, heads = query.numel() // shape[-1], shape[-2], shape[-3]
    if rows % max(len(codes.keys), 1):
        return None
    pairs = rows * (last - first)
    lo, hi = _filled(rows, first), _filled(rows, last)
    found = run_codes(codes, query.contiguous(), scale, m, heads, form, lo, hi, last, pairs, None, counts)
    return None if found is None else found.view(*shape[:-1], -1)
