"""IDX files, the format of MNIST: a header with type and sizes, then the numbers; plain or gzip.

    0 0 TYPE RANK, then RANK sizes of four bytes, most significant first, then the values row by row

LeCun, Cortes & Burges, "The MNIST database of handwritten digits", 1998.
"""

import gzip
import math
import zlib
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from regard.core.files import check_regular
from regard.data.text_lines import DataError

TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
LARGEST = 1 << 32  # bytes of the values
MOST_AXES = 4


def idx_shape(path: str | Path) -> tuple[int, ...]:
    """The sizes of an IDX file, from its header alone."""
    return tuple(_read(Path(path), values=False).tolist())


def read_idx(path: str | Path) -> NDArray[Any]:
    """The numbers of an IDX file, in the shape that its header says."""
    return _read(Path(path), values=True)


def _read(path: Path, values: bool) -> NDArray[Any]:
    try:
        check_regular(path)
        with path.open("rb") as file:
            zipped = file.read(2) == b"\x1f\x8b"
        with cast(IO[bytes], gzip.open(path)) if zipped else path.open("rb") as file:
            shape, dtype = _header(path, file)
            if not values:
                return np.array(shape)
            size = math.prod(shape) * dtype.itemsize
            raw = file.read(size)
            if len(raw) < size:
                raise DataError(f"{path}: the file is truncated: it has {len(raw):,} of {size:,} bytes.")
            if file.read(1):
                raise DataError(f"{path}: the file has more than the {size:,} bytes that its header says.")
            return np.frombuffer(raw, dtype).reshape(shape)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DataError(f"{path}: the gzip file is truncated or damaged.") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None


def _header(path: Path, file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    head = file.read(4)
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in TYPES or not 1 <= head[3] <= MOST_AXES:
        raise DataError(f"{path}: not an IDX file (the format of MNIST), which begins with 0 0 TYPE RANK.")
    sizes = file.read(4 * head[3])
    if len(sizes) < 4 * head[3]:
        raise DataError(f"{path}: the file is truncated: its header is not whole.")
    shape, dtype = tuple(np.frombuffer(sizes, ">u4").tolist()), np.dtype(TYPES[head[2]])
    if math.prod(shape) * dtype.itemsize > LARGEST:
        raise DataError(f"{path}: its header says {shape}, more than {LARGEST:,} bytes.")
    return shape, dtype
