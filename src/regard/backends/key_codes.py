"""Codes of the keys of a cache: what the certified backend reads instead of the keys.

They stand beside the buffers of a cache and grow with them; `memories/quantised.py` keeps both.
"""

import ctypes

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.kernels.common.operator import is_plain
from regard.kernels.common.pool import load_kernels
from regard.kernels.decoding.append_arguments import Appended

BITS = (4, 7)
BLOCK = 8  # keys whose codes lie together
TILE = 32  # dimensions; other widths are filled up
WIDTHS = range(32, 257, 8)


def can_encode(keys: Tensor, values: Tensor) -> bool:
    """Whether the kernels take these (..., n, d): float32, widths 32 to 256, on a CPU with AVX2."""
    return (
        keys.dtype == values.dtype == torch.float32
        and keys.dim() > 2
        and keys.shape[-1] in WIDTHS
        and values.shape[-1] % BLOCK == 0
        and is_plain(keys, values)
        and has_byte_products()
    )


def has_byte_products() -> bool:
    """Whether the machine has the instruction that the scan is made of."""
    found: bool = load_kernels("regard.kernels.decoding.byte_vectors").has_byte_products()
    return found


class KeyCodes:
    """Codes of keys (..., capacity, d), whose buffers must be contiguous and are filled from the front."""

    def __init__(self, keys: Tensor, values: Tensor, bits: int = 4):
        if bits not in BITS:
            raise ValueError(f"bits must be 4 or 7; got {bits}.")
        self.bits = bits
        capacity, d = keys.shape[-2:]
        # later writes are no in-place changes of these
        self.shown = tuple(t if t.is_inference() else t.data for t in (keys, values))
        self.one = tuple(torch.Size((*t.shape[:-2], 1, t.shape[-1])) for t in (keys, values))  # a token's
        self.keys = keys.numpy().reshape(-1, capacity, d)
        self.values = values.numpy().reshape(-1, capacity, values.shape[-1])
        groups, room = len(self.keys), -(-capacity // BLOCK) * BLOCK
        wide = -(-d // TILE) * TILE
        self.each = wide // 2 if bits == 4 else wide  # bytes of a key
        self.packed = np.zeros((groups, room * self.each), np.uint8)
        self.scales = np.zeros((groups, room), np.float32)
        self.errors = np.zeros((groups, room), np.float32)
        self.norms = np.zeros((groups, 2))  # the largest ‖k̂‖ and ‖k‖
        arrays = self.keys, self.values, self.packed, self.scales, self.errors, self.norms
        self.addresses = tuple(array.ctypes.data for array in arrays)
        self.told: Appended | None = None  # for tokens that come one by one
        self.capacity, self.address = capacity, 0
        self.coded = 0  # positions that have codes
        self.pause = 0  # steps for which a scan of the keys is faster, as weights are not sparse enough

    def update(self, n: int) -> None:
        """Make the codes of the keys that have none, up to position n."""
        if self.coded < n:
            encode = load_kernels("regard.kernels.decoding.key_codes_kernel").encode
            encode(self.keys, self.coded, n, self.bits, self.packed, self.scales, self.errors, self.norms)
            self.coded = n

    def append(self, keys: Tensor, values: Tensor, at: int) -> bool:
        """Write one more token at position `at` of the buffers, with its codes; False where it is not that.

        Most of the time goes into what surrounds the kernel: it is given addresses.
        """
        if (
            keys.shape != self.one[0]
            or values.shape != self.one[1]
            or not self.coded == at < self.capacity
            or keys.dtype is not torch.float32
            or values.dtype is not torch.float32
            or (torch.is_grad_enabled() and (keys.requires_grad or values.requires_grad))
            or not is_plain(keys, values)
        ):
            return False
        if not (keys.is_contiguous() and values.is_contiguous()):
            keys, values = keys.contiguous(), values.contiguous()
        told = self.told
        if told is None:
            told = self.told = self._told()
        told.new_keys, told.new_values, told.at = keys.data_ptr(), values.data_ptr(), at
        load_kernels("regard.kernels.decoding.key_codes_kernel").compiled_append()(self.address)
        self.coded = at + 1
        return True

    def _told(self) -> Appended:
        """What the kernel must know of the buffers."""
        groups, capacity, d = self.keys.shape
        told = Appended(
            0, 0, 0, 0, *self.addresses, groups, capacity, self.scales.shape[1], d, self.values.shape[-1],
            self.bits, self.each,
        )  # fmt: skip
        self.address = ctypes.addressof(told)
        return told

    def copy_from(self, other: "KeyCodes", first: int, n: int, rows: NDArray[np.int64] | None = None) -> None:
        """Take over codes of positions first to n, first a multiple of 8; rows: which groups, all if None."""
        n = min(n, other.coded)
        if n <= first:
            return
        blocks = -(-(n - first) // BLOCK) * BLOCK
        pick = slice(None) if rows is None else rows
        self.packed[:, : blocks * self.each] = other.packed[
            pick, first * self.each : (first + blocks) * self.each
        ]
        self.scales[:, :blocks] = other.scales[pick, first : first + blocks]
        self.errors[:, :blocks] = other.errors[pick, first : first + blocks]
        self.norms[:] = other.norms[pick]
        self.coded = n - first

    def sizes(self, group: int) -> dict[str, int]:
        """Heads that share keys, and the bytes of a key as codes, as itself, and of a value."""
        row, value = 4 * self.keys.shape[-1], 4 * self.values.shape[-1]
        return {"group": group, "bytes": self.each + 8, "row": row, "value": value}

    @property
    def nbytes(self) -> int:
        """Bytes of all codes, scales and norms."""
        return self.packed.nbytes + self.scales.nbytes + self.errors.nbytes + self.norms.nbytes
