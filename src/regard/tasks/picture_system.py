"""What systems that look at pictures share: how a picture is read, its regions, and weight inside boxes.

A region is a cell of the grid that the model attends to; regions are to a picture what words are to a text.
A picture is given as a file, a data URL, or pixels. Behind "#without=3,4" stand numbers of regions that are
painted with the mean colour, behind "#blurred=3,4" of those that are blurred: what deleting words is to a
text.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from regard.attention import concat_steps
from regard.continuous import TruncatedParaboloid
from regard.core.errors import RunError
from regard.data.images import URL, Box, ImageSize, Pixels, fit_image, in_colour, read_image
from regard.data.segments import Segments
from regard.data.text import DataError
from regard.maps.continuous import Continuous
from regard.recording import Record, record
from regard.tasks.picture_tables import PictureTextFiles, PictureTextTask
from regard.tasks.region_baselines import Baseline, blurred, check_baseline
from regard.tasks.system import LabelAnswer, System, most_likely
from regard.tasks.task import Located
from regard.tasks.text_data import located
from regard.views.ellipses import Ellipse
from regard.views.png import data_url

WITHOUT, BLURRED = "#without=", "#blurred="
GONE = {"delete": WITHOUT, "blur": BLURRED}  # what stands behind the name of a picture
PICTURES = 256  # that are read at once


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture as a model reads it."""

    name: str  # of its file; "" of one that came otherwise
    pixels: Pixels  # (c, h, w)


@dataclass(frozen=True, eq=False)
class PictureClass(LabelAnswer):
    """One of a few answers that a system gives about a picture."""

    picture: str  # where it came from: a file, or nothing
    pixels: Pixels = field(repr=False)  # (c, h, w), as the model read it
    label: str  # the most likely
    probabilities: dict[str, float]  # of every label
    system: Any = field(repr=False)


class PictureSystem(System):
    """A trained model that looks at pictures."""

    picture = "image"
    units, whole = "regions", "picture"
    most_characters = 1 << 23  # of a data URL
    deletions = ("delete", "blur")
    unknown = None

    @property
    def size(self) -> ImageSize:
        """Of the pictures that it reads."""
        found: ImageSize = self.parts.size
        return found

    @property
    def facts(self) -> list[str]:
        return [*super().facts, f"{self.size.height} × {self.size.width} pixels"]

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the regions."""
        found: tuple[int, int] = self.model.grid
        return found

    @property
    def receptive(self) -> tuple[int, int, float] | None:
        """What a region has seen, where the cells are those of convolutions."""
        found: Any = getattr(self.model, "convolutions", None)
        return None if found is None else tuple(found.receptive)

    @property
    def regions(self) -> int:
        """How many there are."""
        return self.grid[0] * self.grid[1]

    @property
    def map_name(self) -> str:
        """The map, or the density that stands in its place."""
        kind = str(self.settings.model.get("attention", "discrete"))
        return super().map_name if kind == "discrete" else kind

    @property
    def pictures(self) -> list[Pixels]:
        """Those of a few examples that it was not trained on, where they are generated; else none."""
        return [one.pixels for one in self.held_out]

    @property
    def examples(self) -> list[str]:
        return [data_url(in_colour(pixels)) for pixels in self.pictures]

    @property
    def sample(self) -> Any:
        return np.zeros(self.size.shape, np.uint8)

    # Reading

    def read(self, given: Any) -> Picture:
        """A picture: a file or data URL, perhaps without some regions, or pixels (c, h, w) or (h, w[, 3])."""
        if isinstance(given, np.ndarray | Tensor):
            return Picture("", fit_image(_planes(given), self.size))
        if not isinstance(given, str) and not hasattr(given, "__fspath__"):
            raise DataError(f"a picture must be a file, a data URL, or pixels; got {type(given).__name__}.")
        way = "blur" if BLURRED in str(given) else "delete"
        text, _, numbers = str(given).partition(GONE[way])
        if not text.strip():
            raise DataError("there is no picture: a file, or a data URL, is needed.")
        pixels = fit_image(read_image(text), self.size)
        if numbers:
            if not re.fullmatch(r"\d{1,9}(,\d{1,9})*", numbers):
                raise DataError(
                    f"{GONE[way]} needs numbers of regions, as in {GONE[way]}3,4; got {numbers!r}."
                )
            gone = [int(number) for number in numbers.split(",")]
            pixels = self.painted(pixels, gone, "blur" if way == "blur" else "grey")
        return Picture("" if text.startswith("data:") else text, pixels)

    def check_received(self, text: str) -> None:
        if text.strip() and (not text.startswith(URL) or any(one in text for one in GONE.values())):
            raise DataError("a picture must come as a data URL: data:image/png;base64,…")

    def stacked(self, pictures: Sequence[Pixels]) -> Tensor:
        """Pictures as one tensor (b, c, h, w)."""
        return torch.from_numpy(np.stack(pictures)).to(self.device)

    def segments(self, text: str, spans: Any = None) -> Segments:
        """The regions of a picture, in the place of tokens and of words."""
        rows, columns = self.grid
        names = [f"row {i + 1}, column {j + 1}" for i in range(rows) for j in range(columns)]
        everywhere, nowhere = list(range(self.regions)), [(0, 0)] * self.regions
        return Segments(text, everywhere, nowhere, names, nowhere, everywhere)

    def without(
        self, whole: Segments, words: Collection[int], how: str = "delete"
    ) -> tuple[Segments, list[int]]:
        """All regions stay; these are painted with the mean colour, or blurred."""
        text = f"{whole.text}{GONE[how]}{','.join(map(str, sorted(words)))}"
        return self.segments(text), list(range(self.regions))

    # Regions

    @property
    def region_of(self) -> Tensor:
        """The number of the region of each pixel, (h, w)."""
        return region_numbers(self.grid, (self.size.height, self.size.width))

    def painted(self, pixels: Pixels, regions: Collection[int], baseline: Baseline = "grey") -> Pixels:
        """A picture with some regions in the mean colour of the training pictures, or blurred."""
        if not all(0 <= region < self.regions for region in regions):
            raise DataError(f"regions must be from 0 to {self.regions - 1}; got {max(regions)}.")
        ground = np.array([round(255 * shade) for shade in self.parts.mean], np.uint8)[:, None, None]
        if baseline == "blur":
            ground = blurred(torch.from_numpy(pixels).double()[None], self.grid)[0].round().byte().numpy()
        gone = np.isin(self.region_of.numpy(), list(regions))
        painted: Pixels = np.where(gone, ground, pixels)
        return painted

    def drawn_picture(self, answer: Any) -> Any:
        """The picture of an answer as (h, w, 3), for views."""
        return in_colour(answer.pixels)

    def drawn_input(self, given: Any) -> Any:
        """The picture of an input as (h, w, 3), alone or with a text."""
        return in_colour(self.read(given[0] if isinstance(given, tuple) else given).pixels)

    def densities(self, answer: Any) -> list[list[Ellipse]]:
        every = [getattr(self.model.get_submodule(path), "map", None) for path in self.layers]
        maps = [map for map in every if isinstance(map, Continuous)]
        if not maps or len(maps) < len(every):
            return []
        seen = self.recorded([answer], self.layers)
        found: list[Any] = [
            map.density(concat_steps(seen[path]).scores[0].double().cpu())  # of m rows
            for map, path in zip(maps, self.layers, strict=True)
        ]
        edge = [6**0.5 if isinstance(one, TruncatedParaboloid) else 2.0 for one in found]
        return [
            [Ellipse(*both, (1.0, far)) for both in zip(one.mean, one.covariance, strict=True)]
            for one, far in zip(found, edge, strict=True)
        ]

    def without_regions_as(self, baseline: str) -> dict[str, Any]:
        check_baseline(baseline)
        return {"baseline": baseline}

    def recorded_while(self, run: Callable[[], Any], paths: Sequence[str]) -> Record:
        """What attentions do while something is run."""
        with torch.no_grad(), record(self.model, paths) as seen:
            run()
        return seen

    def in_boxes(self, answers: Sequence[Any], boxes: Sequence[Box | None]) -> dict[str, float]:
        """The mean weight inside the boxes, and that by their share of the picture; {} if none is known."""
        known = [(one, box) for one, box in zip(answers, boxes, strict=True) if box is not None]
        if not known or not self.layers:
            return {}
        inside, area = [], []
        for start in range(0, len(known), PICTURES):
            some = known[start : start + PICTURES]
            for layers, (_, box) in zip(self.batch_weights([one for one, _ in some]), some, strict=True):
                share = self.share_in(box)
                weights = layers[-1].mean(0)[-1].double().cpu()  # (n,), of the last word
                inside.append(float((weights * share).sum() / weights.sum().clamp(min=1e-12)))
                area.append(float(self.areas[share > 0].sum()))
        return {
            "weight_in_box": sum(inside) / len(inside),
            "weight_by_area": sum(a / b for a, b in zip(inside, area, strict=True)) / len(inside),
        }

    @property
    def areas(self) -> Tensor:
        """The share of the picture that each region is, (n,)."""
        counts = self.region_of.flatten().bincount(minlength=self.regions).double()
        return counts / counts.sum()

    def share_in(self, box: Box) -> Tensor:
        """1 for regions that touch the box, 0 for others: (n,). A region is not cut in two."""
        top, left, bottom, right = box
        found = torch.zeros(self.regions, dtype=torch.float64)
        found[self.region_of[top:bottom, left:right].unique()] = 1
        return found

    def align(self, pairs: Sequence[tuple[str, str]], **options: Any) -> Any:
        raise RunError(f"a {self.task.makes} does not align words.")

    def generated(self, count: int) -> list[Any]:
        """So many new examples of the generated set that it learned from."""
        corpus = self.settings.data.corpus
        if corpus is None or count < 1:
            raise RunError("--generated N is for runs that learned from generated pictures, N at least 1.")
        return list(islice(self.task.corpora[corpus](self.settings.seed, "test"), count))

    def from_table(self, options: PictureTextFiles, needed: str) -> list[Located]:
        """Pictures with texts that options of a command name, and where they stand; or what is `needed`."""
        task = cast(PictureTextTask, self.task)
        if options.data is not None:
            return list(task.table(options.data, self.size))
        if options.generated is None:
            raise RunError(f"{self.folder} holds a {self.task.makes}: {needed}")
        return list(located("generated", self.generated(options.generated), task.example))


class PictureClassifier(PictureSystem):
    """One that gives a picture, perhaps with a question, one of a few labels."""

    role = "reader"

    def classify(self, inputs: Sequence[Any], *, batch: int | None = None) -> list[Any]:
        """The class of each picture, or the answer to each question."""
        raise NotImplementedError

    def answer(self, inputs: Sequence[Any], **options: Any) -> list[Any]:
        return self.classify(inputs, **options)

    def most_likely(
        self, count: int, batch: int | None, logits: Callable[[slice], Tensor]
    ) -> Iterator[tuple[str, dict[str, float]]]:
        """The label and all probabilities of so many inputs, from the logits of some of them at once."""
        size = batch or PICTURES
        for start in range(0, count, size):
            with torch.no_grad():
                yield from most_likely(logits(slice(start, start + size)), self.labels)


def region_numbers(grid: tuple[int, int], size: tuple[int, int]) -> Tensor:
    """The number of the region of each pixel, (h, w), for a grid of (rows, columns)."""
    (rows, columns), (height, width) = grid, size
    down = torch.arange(height) * rows // height
    across = torch.arange(width) * columns // width
    return down.unsqueeze(-1) * columns + across


def _planes(given: Any) -> Pixels:
    pixels = given.cpu().numpy() if isinstance(given, Tensor) else given
    if pixels.dtype != np.uint8:
        raise DataError(f"pixels must be bytes, from 0 to 255; got {pixels.dtype}.")
    if pixels.ndim == 2:
        return np.asarray(pixels[None])
    if pixels.ndim == 3 and pixels.shape[0] in (1, 3):
        return np.asarray(pixels)
    if pixels.ndim == 3 and pixels.shape[2] in (1, 3):
        return np.ascontiguousarray(pixels.transpose(2, 0, 1))
    raise DataError(f"pixels must be (h, w), (c, h, w) or (h, w, c) of 1 or 3 channels; got {pixels.shape}.")
