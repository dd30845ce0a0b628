"""A corpus encoded once, on disk: what training reads, of any size, without reading it into memory.

The folder has one file for each field (`source.bin`, `label.bin`: the values of all examples, one after the
other), `offsets` (n + 1, ragged fields), where each example begins, and `about.json`. The files are
memory-mapped. The folder is written beside its place and renamed into it: whole or not there.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.files import beside, check_regular, read_json
from regard.data.fields import Field, Row
from regard.data.text import DataError

BLOCK = 4096  # examples that are in memory while encoding
FORMAT = 2


class OldFormatError(DataError):
    """An encoded corpus that an earlier version wrote."""


class Encoded:
    """Examples on disk: `encoded[i]` has the fields of example i by name."""

    def __init__(self, folder: Path, about: dict[str, Any]):
        self.folder = folder
        self.fingerprint = str(about["fingerprint"])  # sha256 of the content
        self.empty, self.too_long = int(about["empty"]), int(about["too_long"])  # examples left out, and why
        self.fields = {
            name: Field(one["dtype"], tuple(one["shape"])) for name, one in about["fields"].items()
        }
        self.ragged = tuple(name for name, field in self.fields.items() if field.ragged)
        self.count = int(about["count"])
        self.values: dict[str, NDArray[Any]] = {  # (positions, …), or (n, …) if the size is fixed
            name: np.memmap(folder / f"{name}.bin", field.dtype, "r").reshape(-1, *field.fixed)
            for name, field in self.fields.items()
        }
        self.offsets: NDArray[np.int64] = np.zeros((self.count + 1, 0), np.int64)
        if self.ragged:
            self.offsets = np.memmap(folder / "offsets", "<i8", "r").reshape(-1, len(self.ragged))
        rows = [len(self.offsets) - 1, *(len(v) for n, v in self.values.items() if n not in self.ragged)]
        if any(count != self.count for count in rows):
            raise ValueError(f"its files have {rows[0]:,} examples, not {self.count:,}")

    @classmethod
    def make(
        cls, rows: Iterable[Row | None], fields: Mapping[str, Field], folder: str | Path,
        longest: Mapping[str, int] | None = None, progress: Callable[[int], None] | None = None,
    ) -> "Encoded":  # fmt: skip
        """Write examples into a folder.

        A row that is None, or has a sequence of length 0, is left out and counted as empty; one with a
        sequence longer than `longest` has for its field, as too long. `progress` is called with the number of
        rows read so far. A folder that holds an encoded corpus is replaced.
        """
        folder = Path(folder)
        if folder.exists() and not _is_ours(folder):
            raise DataError(f"{folder}: there is something else already. Choose another folder.")
        with beside(folder) as draft:
            _write(draft, iter(rows), fields, longest or {}, progress)
        return cls.open(folder)

    @classmethod
    def open(cls, folder: str | Path) -> "Encoded":
        """Open a folder that `make` has written."""
        folder = Path(folder)
        try:
            about = read_json(folder / "about.json")
            if about.get("format") != FORMAT:
                raise OldFormatError(f"{folder}: encoded by another version of regard. Make it again.")
            if set(about["sizes"]) != set(_files({n: Field(**one) for n, one in about["fields"].items()})):
                raise ValueError("its files are not those of its fields")
            sizes = {name: check_regular(folder / name) for name in about["sizes"]}
            wrong = [name for name, size in about["sizes"].items() if sizes[name] != size]
            if wrong:
                raise ValueError(f"{wrong[0]} has {sizes[wrong[0]]:,} of {about['sizes'][wrong[0]]:,} bytes")
            return cls(folder, about)
        except OldFormatError:
            raise
        except FileNotFoundError:
            raise DataError(f"{folder}: there is no encoded corpus.") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{folder}: the encoded corpus is damaged ({error}). Make it again.") from None

    def check(self, fields: Mapping[str, Field]) -> "Encoded":
        """The corpus, if it has these fields and the content that was written; otherwise DataError."""
        found = hashlib.sha256()
        for name in _files(self.fields):
            with (self.folder / name).open("rb") as file:
                found.update(hashlib.file_digest(file, "sha256").digest())
        if list(self.fields.items()) != list(fields.items()) or found.hexdigest() != self.fingerprint:
            raise DataError(f"{self.folder}: the encoded corpus is damaged, and is made again.")
        return self

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> dict[str, NDArray[Any]]:
        if not -len(self) <= i < len(self):
            raise IndexError(f"the corpus has {len(self):,} examples; got index {i}.")
        i %= len(self)
        sequences = dict(zip(self.ragged, map(slice, self.offsets[i], self.offsets[i + 1]), strict=True))
        return {name: np.array(values[sequences.get(name, i)]) for name, values in self.values.items()}

    def __iter__(self) -> Iterator[dict[str, NDArray[Any]]]:
        return (self[i] for i in range(len(self)))

    @cached_property
    def lengths(self) -> NDArray[np.int32]:
        """The lengths of the sequences of each example: (n, ragged fields); 1 where there are none."""
        if not self.ragged:
            return np.ones((len(self), 1), np.int32)
        lengths = np.empty((len(self), len(self.ragged)), dtype=np.int32)
        return np.subtract(self.offsets[1:], self.offsets[:-1], out=lengths, casting="unsafe")

    def gather(self, name: str, indices: NDArray[np.int64], pad: int = 0) -> NDArray[Any]:
        """One field of some examples: (b, n, …), shorter ones padded, or (b, …) if its size is fixed."""
        field, values = self.fields[name], self.values[name]
        if not field.ragged:
            return np.asarray(values[indices])
        column = self.ragged.index(name)
        starts, lengths = self.offsets[indices, column], self.lengths[indices, column]
        real = np.arange(lengths.max()) < lengths[:, None]  # (b, n)
        dtype = np.int64 if values.dtype.kind in "iu" else values.dtype  # models index with whole numbers
        padded = np.full((*real.shape, *field.fixed), pad, dtype=dtype)
        padded[real] = values[(starts[:, None] + np.arange(real.shape[1]))[real]]
        return padded


def _write(
    folder: Path, rows: Iterator[Row | None], fields: Mapping[str, Field],
    longest: Mapping[str, int], progress: Callable[[int], None] | None,
) -> None:  # fmt: skip
    """Write the files of a corpus into a new folder."""
    for name, most in longest.items():
        if most < 1:
            raise ValueError(f"longest must be at least 1; got {most} for {name}.")
    folder.mkdir()
    ragged = [name for name, field in fields.items() if field.ragged]
    names = _files(fields)
    hashes = {name: hashlib.sha256() for name in names}
    counts = Counter(count=0, empty=0, too_long=0)
    with ExitStack() as stack:
        files = {name: stack.enter_context((folder / name).open("wb")) for name in names}

        def append(name: str, values: NDArray[Any]) -> None:
            raw = values.tobytes()
            hashes[name].update(raw)
            files[name].write(raw)

        end = np.zeros((1, len(ragged)), dtype="<i8")  # where the next example begins
        if ragged:
            append("offsets", end)
        while block := list(islice(rows, BLOCK)):
            kinds = [_kind(row, ragged, longest) for row in block]
            counts.update(kinds)
            kept = [
                row for row, kind in zip(block, kinds, strict=True) if row is not None and kind == "count"
            ]
            for name, field in fields.items() if kept else ():
                append(f"{name}.bin", np.concatenate([_flat(name, field, row[name]) for row in kept]))
            if ragged and kept:
                lengths = np.array([[len(row[name]) for name in ragged] for row in kept], dtype="<i8")
                append("offsets", end + lengths.cumsum(0))
                end = end + lengths.sum(0)
            if progress is not None:
                progress(sum(counts.values()))
        sizes = {name: file.tell() for name, file in files.items()}
    if not counts["count"]:
        allowed = ", ".join(f"{most} for {name}" for name, most in longest.items())
        long = (
            f"{counts['too_long']:,} are longer than allowed ({allowed})" if allowed else "none is too long"
        )
        raise DataError(f"no example is left to learn from: {counts['empty']:,} are empty, {long}.")
    about = {
        "format": FORMAT,
        "fields": {name: asdict(field) for name, field in fields.items()},
        "count": counts["count"],
        "fingerprint": hashlib.sha256(b"".join(each.digest() for each in hashes.values())).hexdigest(),
        "sizes": sizes,
        "empty": counts["empty"],
        "too_long": counts["too_long"],
    }
    (folder / "about.json").write_text(json.dumps(about, indent=1), encoding="utf-8")


def _files(fields: Mapping[str, Field]) -> list[str]:
    """The names of the files with values."""
    return [f"{name}.bin" for name in fields] + ["offsets"] * any(one.ragged for one in fields.values())


def _kind(row: Row | None, ragged: list[str], longest: Mapping[str, int]) -> str:
    """What a row counts as: "count" if it is kept, else why it is left out."""
    sizes = {} if row is None else {name: len(row[name]) for name in ragged}
    if row is None or 0 in sizes.values():
        return "empty"
    return "too_long" if any(size > longest.get(name, size) for name, size in sizes.items()) else "count"


def _flat(name: str, field: Field, value: Any) -> NDArray[Any]:
    """The values of one field of one example, in a row."""
    found = np.asarray(value, dtype=field.dtype)
    if found.shape[field.ragged :] != field.fixed:
        raise ValueError(f"{name} must be {field.shape}; got {found.shape}.")
    return found.ravel()


def _is_ours(folder: Path) -> bool:
    """A folder that holds nothing but an encoded corpus may be replaced."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else {"?"}
    return all(name in ("offsets", "about.json") or name.endswith((".bin", ".ids")) for name in names)
