"""Tables of pictures with texts, and what tasks keep of them: size, mean and deviation, and a tokenizer."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from regard.core.files import write_text
from regard.data.images import ImageSize, Pixels, fit_image, read_image
from regard.data.tables import Columns, table
from regard.data.text import DataError
from regard.data.tokenizer import Tokenizer
from regard.tasks.image import IMAGE_FILE, read_size

TOKENIZER = "tokenizer.json"


@dataclass(frozen=True)
class PictureParts:
    """The size of the pictures, their mean and deviation of each channel, and the tokenizer of the texts."""

    size: ImageSize
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    tokenizer: Tokenizer

    def save(self, folder: Path) -> None:
        """Write images.json and tokenizer.json."""
        facts = {**asdict(self.size), "mean": self.mean, "deviation": self.deviation}
        write_text(folder / IMAGE_FILE, json.dumps(facts, indent=1))
        self.tokenizer.save(folder / TOKENIZER)

    @classmethod
    def load(cls, folder: Path) -> "PictureParts":
        """Those in a folder."""
        return cls(*read_size(folder / IMAGE_FILE), Tokenizer.load(folder / TOKENIZER))


def measured(pictures: Iterable[Pixels]) -> tuple[ImageSize, tuple[float, ...], tuple[float, ...]]:
    """The size of pictures, which must be alike, and mean and deviation of each channel, from 0 to 1."""
    size: ImageSize | None = None
    count, sums, squares = 0, np.zeros(3), np.zeros(3)
    for pixels in pictures:
        size = size or ImageSize(*pixels.shape)
        shades = pixels.reshape(size.channels, -1) / 255.0
        sums[: size.channels] += shades.mean(1)
        squares[: size.channels] += (shades**2).mean(1)
        count += 1
    if size is None:
        raise DataError("there is no picture to train on.")
    mean = sums[: size.channels] / count
    deviation = np.sqrt(np.maximum(squares[: size.channels] / count - mean**2, 1e-4))
    return size, tuple(mean.tolist()), tuple(deviation.tolist())


def table_rows(file: str, columns: Columns) -> list[tuple[str, dict[str, Any]]]:
    """The rows of a table and where they stand; DataError if there is none."""
    rows = list(table(file, columns))
    if not rows:
        raise DataError(f"{file}: there is no picture in it.")
    return rows


def pictures_of_table(
    file: str, columns: Columns, size: ImageSize | None, chosen: Callable[[int], bool] = lambda _: True
) -> Iterator[tuple[str, Pixels, dict[str, Any]]]:
    """Where each row of a table stands, its picture in this size, and the rest of the row."""
    for i, (where, entry) in enumerate(table_rows(file, columns)):
        if chosen(i):
            pixels = _picture(str(Path(file).parent / str(entry["image"])))
            yield where, pixels if size is None else fit_image(pixels, size), entry


def described_size(file: str, columns: Columns, side: int | None, most: int = 64) -> tuple[int, ImageSize]:
    """How many pictures a table has, and the size that they are read in."""
    rows = table_rows(file, columns)
    sides, grey = [], True
    for _, entry in rows[:: max(1, len(rows) // 50)]:
        pixels = _picture(str(Path(file).parent / str(entry["image"])))
        sides.append(min(pixels.shape[1:]))
        grey = grey and pixels.shape[0] == 1
    if len(rows) < 2:
        raise DataError(f"{file} has {len(rows)} picture; at least 2 are needed, one of them held out.")
    side = side or int(min(most, max(8, np.median(sides))))
    return len(rows), ImageSize(1 if grey else 3, side, side)


@lru_cache(64)  # several rows may be about one picture
def _picture(file: str) -> Pixels:
    return read_image(file)
