"""A corpus encoded once, on disk: what training reads, of any size, without reading it into memory.

The folder holds the ids of all sources and of all targets, one after the other (`source.ids`,
`target.ids`), where each begins (`offsets`, (n + 1, 2)), and `about.json`. The files are mapped into
memory, so that only what is looked at is read. It is written beside its place and renamed into it: whole or
not there.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.files import beside
from regard.data.copying import numbered, numbered_like
from regard.data.text import DataError
from regard.data.tokenizer import Tokenizer

SIDES = ("source.ids", "target.ids")
FILES = (*SIDES, "offsets", "about.json")
BLOCK = 4096  # pairs that are in memory while encoding


class Encoded:
    """Pairs of ids on disk: `encoded[i]` is (source ids, target ids), without BOS and EOS."""

    def __init__(self, folder: Path, about: dict[str, Any]):
        self.folder = folder
        self.fingerprint = str(about["fingerprint"])  # sha256 of the content
        self.empty, self.too_long = int(about["empty"]), int(about["too_long"])  # pairs left out, and why
        self.offsets: NDArray[np.int64] = np.memmap(folder / "offsets", "<i8", "r").reshape(-1, 2)
        self.source, self.target = (
            np.memmap(folder / name, kind, "r") for name, kind in zip(SIDES, about["dtypes"], strict=True)
        )

    @classmethod
    def make(
        cls,
        pairs: Iterable[tuple[str, str] | tuple[str, str, Any]],
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        folder: str | Path,
        longest: int = 256,
        progress: Callable[[int], None] | None = None,
        copying: bool = False,
    ) -> "Encoded":
        """Encode pairs of text (and whatever follows the two texts, which is ignored) into a folder.

        Pairs with an empty side or a side of more than `longest` ids are left out and counted. `progress` is
        called with the number of pairs read so far. With `copying`, unknown words are numbered. A folder that
        holds an encoded corpus is replaced.
        """
        folder, read = Path(folder), 0
        if folder.exists() and not _is_ours(folder):
            raise DataError(f"{folder}: there is something else already. Choose another folder.")
        tokenizers = (source_tokenizer, target_tokenizer)
        try:
            with beside(folder) as draft, _Writer(draft, tokenizers, longest, copying) as writer:
                for block in _blocks(pairs):
                    writer.add(block)
                    read += len(block)
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
            sizes = {name: (folder / name).stat().st_size for name in about["sizes"]}
            wrong = [name for name, size in about["sizes"].items() if sizes[name] != size]
            if wrong:
                raise ValueError(f"{wrong[0]} has {sizes[wrong[0]]:,} of {about['sizes'][wrong[0]]:,} bytes")
            return cls(folder, about)
        except FileNotFoundError:
            raise DataError(f"{folder}: there is no encoded corpus.") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{folder}: the encoded corpus is damaged ({error}). Make it again.") from None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if not -len(self) <= i < len(self):
            raise IndexError(f"the corpus has {len(self):,} pairs; got index {i}.")
        (a, b), (c, d) = self.offsets[i % len(self)], self.offsets[i % len(self) + 1]
        return self.source[a:c].astype(np.int64), self.target[b:d].astype(np.int64)

    def __iter__(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        return (self[i] for i in range(len(self)))

    @cached_property
    def lengths(self) -> NDArray[np.int32]:
        """The numbers of ids of sources and targets: (n, 2)."""
        lengths = np.empty((len(self), 2), dtype=np.int32)
        return np.subtract(self.offsets[1:], self.offsets[:-1], out=lengths, casting="unsafe")

    @property
    def left_out(self) -> int:
        """How many pairs had an empty side or one that was too long."""
        return self.empty + self.too_long


class _Writer:
    """Appends pairs to the files of a folder that is being made."""

    def __init__(self, folder: Path, tokenizers: tuple[Tokenizer, Tokenizer], longest: int, copying: bool):
        if longest < 1:
            raise ValueError(f"longest must be at least 1; got {longest}.")
        folder.mkdir()
        self.folder, self.tokenizers, self.longest, self.copying = folder, tokenizers, longest, copying
        more = longest if copying else 0  # words with numbers beyond the vocabulary
        self.dtypes = ["<u2" if len(tokenizer) + more <= 2**16 else "<u4" for tokenizer in tokenizers]
        self.names = FILES[:3]
        self.files = [(folder / name).open("wb") for name in self.names]
        self.hashes = [hashlib.sha256() for _ in self.names]
        self.end = np.zeros((1, 2), dtype="<i8")  # where the next pair begins
        self.empty = self.too_long = 0
        self._append(2, self.end)

    def __enter__(self) -> "_Writer":
        return self

    def __exit__(self, *error: object) -> None:
        for file in self.files:
            file.close()

    def add(self, block: list[tuple[str, str]]) -> None:
        """Encode and append a block of pairs."""
        texts = list(zip(*block, strict=True))  # sources, targets
        ids = self._ids(*texts)
        lengths = np.array([[len(a), len(b)] for a, b in zip(*ids, strict=True)], dtype=np.int64)
        empty = np.array([not (a.strip() and b.strip()) for a, b in block]) | (lengths == 0).any(1)
        long = (lengths > self.longest).any(1)
        self.empty += int(empty.sum())
        self.too_long += int((long & ~empty).sum())
        kept = np.flatnonzero(~(empty | long))
        for side in (0, 1):
            flat = [i for k in kept for i in ids[side][k]]
            self._append(side, np.array(flat, dtype=self.dtypes[side]))
        ends = self.end + lengths[kept].cumsum(0)
        self._append(2, ends.astype("<i8"))
        self.end = ends[-1:] if len(ends) else self.end

    def _ids(self, sources: Sequence[str], targets: Sequence[str]) -> list[list[list[int]]]:
        ours, theirs = self.tokenizers
        if not self.copying:
            return [ours.encode_many(sources), theirs.encode_many(targets)]
        found = numbered(ours, sources)
        return [[one.ids for one in found], numbered_like(theirs, targets, [one.unknown for one in found])]

    def finish(self) -> None:
        """Write what there is to know about the files."""
        if not self.end.any():
            long = f"{self.too_long:,} more than longest={self.longest} tokens"
            raise DataError(f"no pair is left to learn from: {self.empty:,} have an empty side, {long}.")
        whole = hashlib.sha256(b"".join(each.digest() for each in self.hashes)).hexdigest()
        sizes = {name: file.tell() for name, file in zip(self.names, self.files, strict=True)}
        about = dict(
            fingerprint=whole, dtypes=self.dtypes, sizes=sizes, empty=self.empty, too_long=self.too_long
        )
        for file in self.files:
            file.flush()
        (self.folder / "about.json").write_text(json.dumps(about, indent=1), encoding="utf-8")

    def _append(self, place: int, values: NDArray[Any]) -> None:
        raw = values.tobytes()
        self.hashes[place].update(raw)
        self.files[place].write(raw)


def _blocks(pairs: Iterable[tuple[str, str] | tuple[str, str, Any]]) -> Iterator[list[tuple[str, str]]]:
    stream = iter(pairs)
    while block := [(pair[0], pair[1]) for pair in islice(stream, BLOCK)]:
        yield block


def _is_ours(folder: Path) -> bool:
    """A folder that holds nothing but what is written here may be replaced."""
    return folder.is_dir() and {path.name for path in folder.iterdir()} <= set(FILES)
