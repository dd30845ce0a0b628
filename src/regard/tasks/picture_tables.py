"""Tables of pictures with texts, and what tasks that learn from them share."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regard.core.settings import file_setting, setting
from regard.data.images import LARGEST_SIDE, SMALLEST, ImageSize, Pixels, fit_image, read_image
from regard.data.tables import Column, Columns, table
from regard.data.text import DataError
from regard.data.tokenizer import Tokenizer
from regard.tasks.picture_parts import PictureParts
from regard.tasks.picture_task import LARGE, Files, PictureTask, PictureTraining
from regard.tasks.region_baselines import BASELINE, Baseline
from regard.tasks.task import Located, TaskData, TaskSettings

TABLE = "Pictures with texts, .tsv, .csv or .jsonl: columns image (a file), caption or question, answer."
# Of pictures that are not there yet, for models on the meta device.
ANY_PICTURES = PictureParts(ImageSize(3, 24, 24), (0.5,) * 3, (0.5,) * 3)


def table_columns(**names: tuple[str, ...]) -> Columns:
    """Columns of a table of pictures, each by the names that it may have: image, and these."""
    every = {"image": ("image", "file", "picture"), **names}
    return {name: Column(some, "--data", heads=True) for name, some in every.items()}


@dataclass(frozen=True)
class PictureTextData(TaskData):
    """Where the pictures and texts come from."""

    pictures: int = setting(20_000, "Pictures of the generated set, each with a text.", least=2)
    train: str | None = file_setting(TABLE, "--data")
    valid: str | None = file_setting("Others to validate on; without them some are held out.", "--valid")
    size: int | None = setting(
        None, "Pictures are made so many pixels high and wide; at most 64 unless given.", option="--size",
        least=SMALLEST, below=LARGEST_SIDE + 1,
    )  # fmt: skip
    colour: bool | None = setting(None, "Whether pictures have colours; as they are, unless given.")
    tokens: Literal["bpe", "word", "character"] = setting("word", "How texts are cut into tokens.")
    vocabulary: int = setting(8000, "Different tokens.", least=1)
    longest: int = setting(60, "Tokens of a text; longer ones are left out.", least=1)
    held_out: int = setting(500, "Texts to validate on, where no file is given.", least=1)


@dataclass(frozen=True)
class PictureTextFiles:
    """Options of commands that read pictures with texts."""

    data: str | None = file_setting(
        "A table of pictures and texts, .tsv, .csv or .jsonl, with columns as in training."
    )
    generated: int | None = setting(None, "Generated ones instead, so many.")


@dataclass(frozen=True)
class PictureTextAudit(PictureTextFiles):
    """What `regard audit` asks."""

    baseline: Baseline = setting("grey", BASELINE)


@dataclass(frozen=True)
class PictureTextTraining(PictureTraining):
    """Settings of the loop."""

    tokens: int = setting(1024, "Words in a batch, padding included.", least=1)
    rate: float = 5e-3


@dataclass(frozen=True)
class PictureTextSettings(TaskSettings):
    """All that is needed to repeat a run."""

    data: PictureTextData = setting(factory=PictureTextData)
    training: PictureTextTraining = setting(factory=PictureTextTraining)


@dataclass(frozen=True)
class PictureTextParts(PictureParts):
    """What is kept of the pictures, and the tokenizer of the texts."""

    tokenizer: Tokenizer


class PictureTextTask(PictureTask):
    """A task whose examples are pictures with texts, from a table."""

    Evaluation, Audit = PictureTextFiles, PictureTextAudit
    Parts: type[PictureTextParts] = PictureTextParts
    corpus, epochs = "scenes", 40
    columns: Columns

    def row(self, where: str, pixels: Pixels, entry: dict[str, Any]) -> Any:
        """The example in a row of a table."""
        raise NotImplementedError

    def table(
        self, file: str, size: ImageSize | None, chosen: Callable[[int], bool] = lambda _: True
    ) -> Iterator[Located]:
        """The examples in a table, and where they stand."""
        for where, pixels, entry in pictures_of_table(file, self.columns, size, chosen):
            yield where, self.row(where, pixels, entry)

    def files(self, data: PictureTextData) -> tuple[Files, Files]:
        return (data.train,), (data.valid,)

    def count(self, files: Files) -> int:
        return len(table_rows(str(files[0]), self.columns))

    def in_files(self, data: PictureTextData) -> tuple[int, ImageSize]:
        return described_size(str(data.train), self.columns, data.size)

    def from_files(
        self, files: Files, size: ImageSize, chosen: Callable[[int], bool], least: int
    ) -> Iterator[Located]:
        return self.table(str(files[0]), size, chosen)


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


def described_size(file: str, columns: Columns, side: int | None, most: int = LARGE) -> tuple[int, ImageSize]:
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
