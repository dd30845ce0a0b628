"""A corpus encoded once, on disk: what training reads, of any size, without reading it into memory.

The folder has one file for each field (`source.bin`, `label.bin`: the values of all examples, one after the
other), `offsets` (n + 1, ragged fields), where each example begins, and `about.json`. The files are
memory-mapped. The folder is written beside its place and renamed into it: whole or not there.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.files import beside
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
        self.values: dict[str, NDArray[Any]] = {
            name: np.memmap(folder / f"{name}.bin", field.dtype, "r") for name, field in self.fields.items()
        }
        columns = len(self.ragged)
        self.offsets: NDArray[np.int64] = (
            np.memmap(folder / "offsets", "<i8", "r").reshape(-1, columns)
            if columns
            else np.zeros((self.count + 1, 0), np.int64)
        )

    @classmethod
    def make(
        cls,
        rows: Iterable[Row | None],
        fields: Mapping[str, Field],
        folder: str | Path,
        longest: Mapping[str, int] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> "Encoded":
        """Write examples into a folder.

        A row that is None, or has a sequence of length 0, is left out and counted as empty; one with a
        sequence longer than `longest` has for its field, as too long. `progress` is called with the number of
        rows read so far. A folder that holds an encoded corpus is replaced.
        """
        folder = Path(folder)
        if folder.exists() and not _is_ours(folder):
            raise DataError(f"{folder}: there is something else already. Choose another folder.")
        try:
            with beside(folder) as draft, _Writer(draft, dict(fields), dict(longest or {})) as writer:
                for read, block in _blocks(rows):
                    writer.add(block)
                    if progress is not None:
                        progress(read)
                writer.finish()
        except OSError as error:
            if error.filename is not None or error.errno is None:
                raise
            raise OSError(error.errno, error.strerror, str(folder)) from None  # a full disk: say where
        return cls.open(folder)

    @classmethod
    def open(cls, folder: str | Path) -> "Encoded":
        """Open a folder that `make` has written."""
        folder = Path(folder)
        try:
            about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
            if about.get("format") != FORMAT:
                raise OldFormatError(f"{folder}: encoded by another version of regard. Make it again.")
            sizes = {name: (folder / name).stat().st_size for name in about["sizes"]}
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

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> dict[str, NDArray[Any]]:
        if not -len(self) <= i < len(self):
            raise IndexError(f"the corpus has {len(self):,} examples; got index {i}.")
        return {name: self._values(name, i % len(self)) for name in self.fields}

    def __iter__(self) -> Iterator[dict[str, NDArray[Any]]]:
        return (self[i] for i in range(len(self)))

    def _values(self, name: str, i: int) -> NDArray[Any]:
        field, values = self.fields[name], self.values[name]
        if field.ragged:
            column = self.ragged.index(name)
            start, stop = (int(self.offsets[k, column]) * field.width for k in (i, i + 1))
        else:
            start, stop = i * field.width, (i + 1) * field.width
        shape = [-1 if size is None else size for size in field.shape]
        return np.array(values[start:stop]).reshape(shape)

    @cached_property
    def lengths(self) -> NDArray[np.int32]:
        """The lengths of the sequences of each example: (n, ragged fields); 1 where there are none."""
        if not self.ragged:
            return np.ones((len(self), 1), np.int32)
        lengths = np.empty((len(self), len(self.ragged)), dtype=np.int32)
        return np.subtract(self.offsets[1:], self.offsets[:-1], out=lengths, casting="unsafe")

    @property
    def left_out(self) -> int:
        """How many examples were empty or too long."""
        return self.empty + self.too_long

    def gather(self, name: str, indices: NDArray[np.int64], pad: int = 0) -> NDArray[Any]:
        """One field of some examples: (b, n, …), shorter ones padded, or (b, …) if its size is fixed."""
        field, values = self.fields[name], self.values[name]
        rest = tuple(size for size in field.shape if size is not None)
        if not field.ragged:
            return np.asarray(values.reshape(-1, *rest)[indices])
        column = self.ragged.index(name)
        starts = np.asarray(self.offsets[indices, column])
        lengths = self.lengths[indices, column]
        real = np.arange(lengths.max()) < lengths[:, None]  # (b, n)
        padded = np.full((*real.shape, *rest), pad, dtype=_wide(field))
        padded[real] = values.reshape(-1, *rest)[(starts[:, None] + np.arange(real.shape[1]))[real]]
        return padded


class _Writer:
    """Appends examples to the files of a folder that is being made."""

    def __init__(self, folder: Path, fields: dict[str, Field], longest: dict[str, int]):
        for name, most in longest.items():
            if most < 1:
                raise ValueError(f"longest must be at least 1; got {most} for {name}.")
        folder.mkdir()
        self.folder, self.fields, self.longest = folder, fields, longest
        self.ragged = [name for name, field in fields.items() if field.ragged]
        names = [*(f"{name}.bin" for name in fields), *(["offsets"] if self.ragged else [])]
        self.files = {name: (folder / name).open("wb") for name in names}
        self.hashes = {name: hashlib.sha256() for name in names}
        self.end = np.zeros((1, len(self.ragged)), dtype="<i8")  # where the next example begins
        self.count = self.empty = self.too_long = 0
        if self.ragged:
            self._append("offsets", self.end)

    def __enter__(self) -> "_Writer":
        return self

    def __exit__(self, *error: object) -> None:
        for file in self.files.values():
            file.close()

    def add(self, rows: Sequence[Row | None]) -> None:
        """Append a block of examples."""
        kept, lengths = [], []
        for row in rows:
            sizes = None if row is None else [len(row[name]) for name in self.ragged]
            if row is None or sizes is None or 0 in sizes:
                self.empty += 1
            elif any(
                size > self.longest.get(name, size) for name, size in zip(self.ragged, sizes, strict=True)
            ):
                self.too_long += 1
            else:
                kept.append(row)
                lengths.append(sizes)
        if not kept:
            return
        self.count += len(kept)
        for name, field in self.fields.items():
            self._append(f"{name}.bin", np.concatenate([_flat(name, field, row[name]) for row in kept]))
        if self.ragged:
            ends = self.end + np.array(lengths, dtype="<i8").cumsum(0)
            self._append("offsets", ends)
            self.end = ends[-1:]

    def finish(self) -> None:
        """Write what there is to know about the files."""
        if not self.count:
            most = ", ".join(f"{self.longest[name]} for {name}" for name in self.longest)
            long = f"{self.too_long:,} are longer than allowed ({most})" if most else "none is too long"
            raise DataError(f"no example is left to learn from: {self.empty:,} are empty, {long}.")
        whole = hashlib.sha256(b"".join(each.digest() for each in self.hashes.values())).hexdigest()
        about = {
            "format": FORMAT,
            "fields": {name: asdict(field) for name, field in self.fields.items()},
            "count": self.count,
            "fingerprint": whole,
            "sizes": {name: file.tell() for name, file in self.files.items()},
            "empty": self.empty,
            "too_long": self.too_long,
        }
        for file in self.files.values():
            file.flush()
        (self.folder / "about.json").write_text(json.dumps(about, indent=1), encoding="utf-8")

    def _append(self, name: str, values: NDArray[Any]) -> None:
        raw = values.tobytes()
        self.hashes[name].update(raw)
        self.files[name].write(raw)


def _flat(name: str, field: Field, value: Any) -> NDArray[Any]:
    """The values of one field of one example, in a row."""
    found = np.asarray(value, dtype=field.dtype)
    same = found.shape[1:] == field.shape[1:] if field.ragged else found.shape == field.shape
    if not same:
        raise ValueError(f"{name} must be {field.shape}; got {found.shape}.")
    return found.ravel()


def _wide(field: Field) -> Any:
    """The type a sequence is read as: int64 for whole numbers, which models index with."""
    return np.int64 if np.dtype(field.dtype).kind in "iu" else np.dtype(field.dtype)


def _blocks(rows: Iterable[Row | None]) -> Iterator[tuple[int, list[Row | None]]]:
    """Blocks of rows, each with the number of rows read so far."""
    block: list[Row | None] = []
    read = 0
    for read, row in enumerate(rows, 1):
        block.append(row)
        if len(block) == BLOCK:
            yield read, block
            block = []
    if block:
        yield read, block


def _is_ours(folder: Path) -> bool:
    """A folder that holds nothing but an encoded corpus may be replaced."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else {"?"}
    return all(name in ("offsets", "about.json") or name.endswith((".bin", ".ids")) for name in names)
