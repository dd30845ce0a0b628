"""The promise of the certified backend, checked on given queries and keys: for tests and benchmarks."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from regard.backends.certified import form_of
from regard.backends.key_codes import KeyCodes
from regard.kernels.common.pool import load_kernels


class Checked(NamedTuple):
    """Sums over queries and keys."""

    refused: int  # queries that another backend would take: not finite, or too large
    low: int  # bounds below the score in float64
    lost: int  # keys with weight, in float64, that are not among the candidates
    pairs: int  # of a query and a key


def check_certified(
    query: Tensor, keys: Tensor, map: Callable[..., Tensor], hi: Sequence[int] | None = None, bits: int = 4
) -> Checked:
    """Check queries (m, d), scaled as they are to be, against keys (n, d); query i sees the first hi[i]."""
    form = form_of(map)
    if form is None or not isinstance(form.half, float):
        raise ValueError("the certified backend does not take this map.")
    if form.k and not form.half:
        form = form._replace(half=1.0)  # which keys have weight depends on k alone
    n = len(keys)
    held = keys.float().contiguous()[None]
    codes = KeyCodes(held, held, bits)
    codes.update(n)
    ends = np.full(len(query), n, np.int64) if hi is None else np.array(hi, np.int64)
    found = np.zeros(4, np.int64)
    load_kernels("regard.kernels.decoding.certified_check").check(
        query.float().contiguous().numpy(), codes.keys, codes.packed, bits, codes.scales, codes.errors,
        codes.norms, ends, form.half, form.k, found,
    )  # fmt: skip
    return Checked(*found.tolist())
