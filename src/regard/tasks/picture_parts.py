"""What tasks on pictures keep of them: their size, and mean and deviation of each channel."""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from regard.core.files import read_json, write_text
from regard.data.images import LARGEST_SIDE, ImageSize, Pixels
from regard.data.labelled import Classes
from regard.data.text import DataError
from regard.tasks.task import Located, TaskParts

IMAGE_FILE = "images.json"


@dataclass(frozen=True)
class PictureParts(TaskParts):
    """The size of the pictures, their mean and deviation (of each channel, from 0 to 1).

    What a subclass adds (a tokenizer, classes) saves itself in a file of its name.
    """

    size: ImageSize
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def save(self, folder: Path) -> None:
        """Write images.json, and a file for each further part."""
        facts = {**asdict(self.size), "mean": self.mean, "deviation": self.deviation}
        write_text(folder / IMAGE_FILE, json.dumps(facts, indent=1))
        super().save(folder)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Those in a folder."""
        return cls(*read_size(folder / IMAGE_FILE), **cls.loaded(folder))

    @classmethod
    def saved(cls) -> list[str]:
        """The names of what a subclass adds."""
        return super().saved()[len(fields(PictureParts)) :]

    def sizes(self, classes: int) -> dict[str, Any]:
        """The settings of a model that come from the pictures."""
        return {**asdict(self.size), "classes": classes, "mean": self.mean, "deviation": self.deviation}


@dataclass(frozen=True)
class ImageParts(PictureParts):
    """What is kept of the pictures, and the classes."""

    classes: Classes


def measured(
    examples: Iterable[Located], note: Callable[[Any], object]
) -> tuple[ImageSize, tuple[float, ...], tuple[float, ...]]:
    """The size of pictures, which must be alike, and mean and deviation of each channel, from 0 to 1.

    `note` is told of every example, since they are read but once.
    """
    size: ImageSize | None = None
    count, sums, squares = 0, np.zeros(3), np.zeros(3)
    for _, one in examples:
        note(one)
        pixels: Pixels = one.pixels
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


def read_size(path: Path) -> tuple[ImageSize, tuple[float, ...], tuple[float, ...]]:
    """The size, mean and deviation of pictures, from the file in which a run keeps them."""
    try:
        facts = read_json(path)
        size = ImageSize(*(int(facts[name]) for name in ("channels", "height", "width")))
        mean, deviation = (tuple(map(float, facts[name])) for name in ("mean", "deviation"))
        right = size.channels in (1, 3) and len(mean) == len(deviation) == size.channels
        if not right or not all(1 <= side <= LARGEST_SIDE for side in size.shape[1:]):
            raise ValueError
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DataError(f"{path}: not a file of sizes that regard has saved.") from None
    return size, mean, deviation
