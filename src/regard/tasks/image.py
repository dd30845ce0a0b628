"""Image: the class of a picture.

    loss = −Σ log p(class | picture)

with label smoothing and pictures that are shifted and mirrored at random in training (`augmentation`);
validation is without either. Pictures come from two IDX files (MNIST's format), from a folder of class
folders, or are generated: a glyph in clutter.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.core.errors import SettingsError
from regard.core.files import read_json, write_text
from regard.core.settings import SettingsGroup, setting
from regard.data.batches import Batch
from regard.data.corpora import IMAGES
from regard.data.fields import Field, Row, number_field
from regard.data.images import (
    LARGEST_SIDE,
    SMALLEST,
    ImageSize,
    LabelledImage,
    class_folders,
    folder_size,
    image_count,
    image_size,
    labelled_images,
)
from regard.data.labelled import Classes
from regard.data.splits import Part, stride
from regard.data.text import DataError
from regard.models.images import IMAGE_MODELS
from regard.models.parts.convolutions import first_stride
from regard.tasks.region_baselines import BASELINE, Baseline
from regard.tasks.task import Located, Say, Task
from regard.tasks.text_data import located
from regard.training import Training

IMAGE_FILE, CLASSES = "images.json", "classes.json"
LARGE = 64  # pixels of a side: larger pictures are made smaller, unless a size is given
IMAGES_SAYS = "Pictures: an IDX file (MNIST's format, .gz too), or a folder with a folder for each class."
LABELS_SAYS = "Their labels: an IDX file; not for a folder."
LABEL_NAMES = "What labels are called in answers and reports, as 0=top,1=trousers."
# What a default run looks at, in pictures of 14 × 14 cells after the first convolution: about a quarter of an
# hour of one core. Small sets are seen EPOCHS times, generated ones, which are easy, GENERATED times.
SEEN, CELLS, EPOCHS, GENERATED, FEWEST = 900_000, 14 * 14, 60, 8, 300


@dataclass(frozen=True)
class ImageData(SettingsGroup):
    """Where the pictures come from."""

    group = "data"

    corpus: str | None = setting(
        None, "Generated pictures; glyphs, unless --images are given.", option="--corpus"
    )
    pictures: int = setting(10_000, "Pictures of the generated set.", least=2)
    images: str | None = setting(None, IMAGES_SAYS, option="--images", metavar="FILE")
    labels: str | None = setting(None, LABELS_SAYS, option="--labels", metavar="FILE")
    valid_images: str | None = setting(
        None,
        "Others to validate on; without them some are held out.",
        option="--valid-images",
        metavar="FILE",
    )
    valid_labels: str | None = setting(None, "Their labels.", option="--valid-labels", metavar="FILE")
    label_names: str | None = setting(None, LABEL_NAMES, option="--label-names", metavar="LABEL=NAME,…")
    size: int | None = setting(
        None,
        "Pictures are made so many pixels high and wide: as they are in IDX files, as the median of those in "
        "a folder, at most 64 unless it is given.",
        option="--size",
        least=SMALLEST,
        below=LARGEST_SIDE + 1,
    )
    colour: bool | None = setting(None, "Whether pictures have colours; as they are, unless given.")
    held_out: int = setting(
        2000, "Pictures to validate on, where no file is given (at most a tenth of all).", least=1
    )
    fingerprint: str | None = setting(None, "Of the encoded pictures: written by the run itself.")


@dataclass(frozen=True)
class Augmentation(SettingsGroup):
    """What is done to pictures in training, at random."""

    group = "augmentation"

    shift: int | None = setting(
        None,
        "Pixels that a picture is moved by, at most, each way; a fourteenth of it.",
        option="--shift",
        least=0,
    )
    flip: bool = setting(True, "Every second picture is mirrored, left and right.")


@dataclass(frozen=True)
class ImageTraining(Training):
    """Settings of the loop; the defaults suit small pictures on a processor."""

    steps: int = setting(
        0, "Steps of training; 0: as suits the number and size of pictures.", option="--steps", least=0
    )
    tokens: int = setting(128, "Pictures in a batch.", least=1)
    optimiser: Literal["adam", "adamw"] = "adamw"
    rate: float = setting(0.0, "The highest learning rate; 0: as suits the model.", least=0)
    schedule: Literal["inverse_sqrt", "cosine", "plateau", "constant"] = "cosine"
    warmup: int = setting(0, "Steps from 0 to the highest rate; 0: a tenth of all.", least=0)
    decay: float = 0.05
    smoothing: float = 0.1
    validate: int = setting(0, "Steps between validations; 0: a twentieth of all.", least=0)
    save: int = setting(0, "Steps between checkpoints; 0: a twentieth of all.", least=0)
    average: int = 3

    def __post_init__(self) -> None:
        SettingsGroup.__post_init__(self)  # a rate of 0 is one that is filled in


@dataclass(frozen=True)
class ImageSettings:
    """All that is needed to repeat a run."""

    data: ImageData = setting(factory=ImageData)
    task: Literal["image"] = "image"
    seed: int = setting(
        1, "The same seed repeats the run, exactly with as many threads and processes.", option="--seed"
    )
    model: dict[str, Any] = setting(factory=dict, says="Its name, and the settings of its Config.")
    training: ImageTraining = setting(factory=ImageTraining)
    augmentation: Augmentation = setting(factory=Augmentation)


@dataclass(frozen=True)
class ImageFiles:
    """Options of commands that read labelled pictures."""

    images: str | None = setting(None, IMAGES_SAYS, metavar="FILE")
    labels: str | None = setting(None, LABELS_SAYS, metavar="FILE")
    label_names: str | None = setting(None, LABEL_NAMES, metavar="LABEL=NAME,…")
    generated: int | None = setting(None, "Generated pictures instead of files, so many.")


@dataclass(frozen=True)
class ImageEvaluation(ImageFiles):
    """What `regard evaluate` asks of an image classifier."""


@dataclass(frozen=True)
class ImageAudit(ImageFiles):
    """What `regard audit` asks of an image classifier."""

    pictures: int = setting(500, "Pictures to audit on, at most.")
    baseline: Baseline = setting("grey", BASELINE)


@dataclass(frozen=True)
class ImageParts:
    """The size of the pictures, their mean and deviation (of each channel, from 0 to 1), and the classes."""

    size: ImageSize
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    classes: Classes

    def save(self, folder: Path) -> None:
        """Write images.json and classes.json."""
        facts = {**asdict(self.size), "mean": self.mean, "deviation": self.deviation}
        write_text(folder / IMAGE_FILE, json.dumps(facts, indent=1))
        self.classes.save(folder / CLASSES)

    @classmethod
    def load(cls, folder: Path) -> "ImageParts":
        """Those in a folder."""
        return cls(*read_size(folder / IMAGE_FILE), Classes.load(folder / CLASSES))


class ImageTask(Task):
    """From labelled pictures to a classifier of pictures."""

    name = "image"
    says = "Train a classifier of pictures into DIR; `regard classify DIR image.png` then uses it."
    makes, examples, unit = "classifier of pictures", "pictures", "pictures"
    Settings, Evaluation, Audit = ImageSettings, ImageEvaluation, ImageAudit
    models, default_model = IMAGE_MODELS, "image_attention"
    corpora = IMAGES
    command_examples = (
        "regard train image --out runs/glyphs",
        "regard train image --images train-images.idx.gz --labels train-labels.idx.gz --out runs/fashion",
        "regard train image --images photos/ --model vision_transformer --out runs/photos",
        "regard train image --images digits.idx --labels labels.idx --set augmentation.flip=false --out d",
    )
    usage = (
        "regard classify DIR image.png",
        "regard evaluate DIR --images test.idx.gz --labels labels.idx.gz",
    )

    # Data

    def complete(self, settings: ImageSettings) -> ImageSettings:
        data, config = settings.data, IMAGE_MODELS[str(settings.model["name"])].config
        if not settings.training.rate:
            settings = replace(settings, training=replace(settings.training, rate=config.rate))
        if data.corpus is None and data.images is None:
            data = replace(data, corpus="glyphs")
        if data.corpus is not None:
            if data.images is not None:
                raise SettingsError("data.corpus and data.images exclude each other; give one of them.")
            count, size = data.pictures, corpus_size(IMAGES, data.corpus, settings.seed)
        elif settings.training.steps and data.size is not None:
            return settings  # of a run that was begun: its files may be elsewhere by now
        else:
            count, size, data = found_in_files(data)
        epochs = EPOCHS if data.corpus is None else GENERATED
        return replace(
            settings, data=data, training=completed(settings.training, count, size, epochs, config.effort)
        )

    def read(self, settings: ImageSettings, part: Part) -> Iterator[Located]:
        """Labelled pictures."""
        data = settings.data
        if data.corpus is not None:
            made = IMAGES[data.corpus](settings.seed, part)
            most = data.pictures if part == "train" else min(data.held_out, max(data.pictures // 10, 2))
            return located(data.corpus, islice(made, most), "picture")
        assert data.images is not None
        assert data.size is not None
        size = ImageSize(3 if data.colour else 1, data.size, data.size)
        if data.valid_images is not None:
            files = (data.images, data.labels) if part == "train" else (data.valid_images, data.valid_labels)
            return labelled_images(*files, size, 2 if part == "train" else 1)
        step = stride(image_count(data.images), data.held_out)
        return labelled_images(
            data.images, data.labels, size, chosen=lambda i: (i % step == 0) == (part == "valid")
        )

    def parts(self, settings: ImageSettings, say: Say) -> ImageParts:
        """The size, mean and deviation of the training pictures, and the classes."""
        labels: dict[str, int] = {}
        size: ImageSize | None = None
        count, sums, squares = 0, np.zeros(3), np.zeros(3)
        for _, one in self.read(settings, "train"):
            labels[one.label] = labels.get(one.label, 0) + 1
            size = size or ImageSize(*one.pixels.shape)
            shades = one.pixels.reshape(size.channels, -1) / 255.0
            sums[: size.channels] += shades.mean(1)
            squares[: size.channels] += (shades**2).mean(1)
            count += 1
        if size is None or len(labels) < 2:
            found = f"they are all {next(iter(labels))!r}" if labels else "there is none"
            raise DataError(f"the training pictures must have at least two different labels; {found}.")
        classes = Classes(_ordered(labels), False).renamed(settings.data.label_names)
        for where, one in self.read(settings, "valid"):
            _check(classes, one, where)
        mean = sums[: size.channels] / count
        deviation = np.sqrt(np.maximum(squares[: size.channels] / count - mean**2, 1e-4))
        say(
            f"{count:,} pictures of {size.height} × {size.width} pixels "
            f"({'colour' if size.channels == 3 else 'grey'}), {len(labels)} classes"
        )
        return ImageParts(size, tuple(mean.tolist()), tuple(deviation.tolist()), classes)

    def load_parts(self, folder: Path) -> ImageParts:
        return ImageParts.load(folder)

    def fields(self, settings: ImageSettings, parts: ImageParts) -> dict[str, Field]:
        """Bytes (c, h, w) and the label."""
        return {"pixels": Field("|u1", parts.size.shape), "label": number_field()}

    def encode(
        self, settings: ImageSettings, parts: ImageParts, examples: Sequence[LabelledImage]
    ) -> list[Row | None]:
        for one in examples:
            _check(parts.classes, one, "a picture")
        return [{"pixels": one.pixels, "label": parts.classes.number[one.label]} for one in examples]

    # The model

    def sizes(self, settings: ImageSettings, parts: ImageParts | None) -> dict[str, Any]:
        if parts is None:
            return sizes_of(ImageSize(1, 28, 28), 2, (0.5,), (0.5,))
        return sizes_of(parts.size, len(parts.classes.names), parts.mean, parts.deviation)

    def loss(self, settings: ImageSettings, model: Any, batch: Batch) -> tuple[Tensor, int]:
        """The sum of the smoothed losses of a batch, its pictures shifted and mirrored."""
        pixels = augmented(batch["pixels"], settings.augmentation)
        smoothing = settings.training.smoothing
        loss = F.cross_entropy(
            model(pixels).float(), batch["label"], reduction="sum", label_smoothing=smoothing
        )
        return loss, len(batch)

    def measure(self, model: Any, batch: Batch) -> tuple[dict[str, float], int]:
        """Loss and accuracy."""
        logits = model(batch["pixels"]).float()
        loss = F.cross_entropy(logits, batch["label"], reduction="sum").item()
        return {"loss": loss, "accuracy": int((logits.argmax(-1) == batch["label"]).sum())}, len(batch)

    def system(
        self, model: Any, parts: ImageParts, settings: ImageSettings, folder: Path | None = None
    ) -> Any:
        """A classifier of pictures."""
        from regard.tasks.image_classifier import ImageClassifier

        return ImageClassifier(model, parts, settings, folder)


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


def completed(training: Any, count: int, size: ImageSize, epochs: int, effort: float = 1.0) -> Any:
    """Settings of training with the number of steps that suits so many pictures, and what follows from it."""
    if not training.steps:
        side = first_stride(size.height, size.width)
        cells = -(-size.height // side) * -(-size.width // side)
        looks = min(count * epochs, int(SEEN / effort * CELLS / max(cells, CELLS / 2)))
        training = replace(training, steps=max(FEWEST, looks // training.tokens))
    part = max(1, training.steps // 20)
    return replace(
        training,
        warmup=training.warmup or max(1, training.steps // 10),
        validate=training.validate or part,
        save=training.save or part,
    )


def sizes_of(
    size: ImageSize, classes: int, mean: Sequence[float], deviation: Sequence[float]
) -> dict[str, Any]:
    """The settings of a model that come from the pictures."""
    return {**asdict(size), "classes": classes, "mean": tuple(mean), "deviation": tuple(deviation)}


def corpus_size(corpora: Mapping[str, Any], corpus: str, seed: int) -> ImageSize:
    """The size of the pictures of a generated set."""
    return ImageSize(*next(iter(corpora[corpus](seed, "train"))).pixels.shape)


def found_in_files(data: Any) -> tuple[int, ImageSize, Any]:
    """How many pictures there are and their size, from headers and names; and settings with that size."""
    if Path(data.images).is_dir():
        class_folders(data.images)
        found = folder_size(data.images, data.size or LARGE)
        size = data.size or found.height
        colour = found.channels == 3 if data.colour is None else data.colour
        data = replace(data, size=size, colour=colour)
    else:
        found = image_size(data.images)
        square = min(max(found.height, found.width), LARGE)
        colour = found.channels == 3 if data.colour is None else data.colour
        data = replace(data, size=data.size or square, colour=colour)
    count = image_count(data.images)
    if count < 2:
        raise DataError(f"{data.images} has {count} picture; at least 2 are needed, one of them held out.")
    return count, ImageSize(3 if data.colour else 1, data.size, data.size), data


def augmented(pixels: Tensor, settings: Augmentation) -> Tensor:
    """Pictures (b, c, h, w), each moved by a few pixels and every second one mirrored; edges are repeated."""
    b, _, height, width = pixels.shape
    device = pixels.device
    most = settings.shift if settings.shift is not None else max(height, width) // 14
    down = torch.randint(-most, most + 1, (b, 1), device=device) if most else 0
    across = torch.randint(-most, most + 1, (b, 1), device=device) if most else 0
    rows = (torch.arange(height, device=device) + down).clamp(0, height - 1).expand(b, -1)  # (b, h)
    columns = (torch.arange(width, device=device) + across).clamp(0, width - 1).expand(b, -1)
    if settings.flip:
        turned = torch.rand(b, 1, device=device) < 0.5
        columns = torch.where(turned, width - 1 - columns, columns)
    flat = (rows.unsqueeze(-1) * width + columns.unsqueeze(-2)).view(b, 1, -1)  # (b, 1, h · w)
    moved = pixels.flatten(2).gather(-1, flat.expand(-1, pixels.shape[1], -1))
    return moved.view_as(pixels)


def _check(classes: Classes, one: LabelledImage, where: str) -> None:
    if one.label not in classes.number:
        known = ", ".join(classes.labels[:20]) + (" …" if len(classes.labels) > 20 else "")
        raise DataError(f"{where}: the label {one.label!r} is not among those trained on: {known}.")


def _ordered(labels: Mapping[str, int]) -> list[str]:
    """Labels in order: by number, where all are numbers."""
    numbers = all(label.lstrip("-").isdecimal() for label in labels)
    return sorted(labels, key=int) if numbers else sorted(labels)


IMAGE = ImageTask()
