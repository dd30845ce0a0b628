"""Image: the class of a picture.

    loss = −Σ log p(class | picture)

with label smoothing and pictures that are shifted and mirrored at random in training (`augmentation`);
validation is without either. Pictures come from two IDX files (MNIST's format), from a folder of class
folders, or are generated: a glyph in clutter.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.core.settings import SettingsGroup, file_setting, setting
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
from regard.data.text import DataError
from regard.models.images import IMAGE_MODELS
from regard.tasks.class_scores import class_measures
from regard.tasks.picture_parts import ImageParts, PictureParts, measured
from regard.tasks.picture_task import LARGE, Files, PictureTask, PictureTraining
from regard.tasks.region_baselines import BASELINE, Baseline
from regard.tasks.task import Located, Say, TaskData, TaskSettings

IMAGES_SAYS = "Pictures: an IDX file (MNIST's format, .gz too), or a folder with a folder for each class."
LABELS_SAYS = "Their labels: an IDX file; not for a folder."
LABEL_NAMES = "What labels are called in answers and reports, as 0=top,1=trousers."


@dataclass(frozen=True)
class ImageData(TaskData):
    """Where the pictures come from."""

    files = ("images", "labels", "valid_images", "valid_labels")

    pictures: int = setting(10_000, "Pictures of the generated set.", least=2)
    images: str | None = file_setting(IMAGES_SAYS, "--images")
    labels: str | None = file_setting(LABELS_SAYS, "--labels")
    valid_images: str | None = file_setting(
        "Others to validate on; without them some are held out.", "--valid-images"
    )
    valid_labels: str | None = file_setting("Their labels.", "--valid-labels")
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
class ImageTraining(PictureTraining):
    """Settings of the loop; the defaults suit small pictures on a processor."""

    tokens: int = setting(128, "Pictures in a batch.", least=1)
    rate: float = setting(0.0, "The highest learning rate; 0: as suits the model.", least=0)
    decay: float = 0.05
    smoothing: float = 0.1

    def __post_init__(self) -> None:
        SettingsGroup.__post_init__(self)  # a rate of 0 is one that is filled in


@dataclass(frozen=True)
class ImageSettings(TaskSettings):
    data: ImageData = setting(factory=ImageData)
    task: Literal["image"] = "image"
    training: ImageTraining = setting(factory=ImageTraining)
    augmentation: Augmentation = setting(factory=Augmentation)


@dataclass(frozen=True)
class ImageFiles:
    """Options of commands that read labelled pictures."""

    images: str | None = file_setting(IMAGES_SAYS)
    labels: str | None = file_setting(LABELS_SAYS)
    label_names: str | None = setting(None, LABEL_NAMES, metavar="LABEL=NAME,…")
    generated: int | None = setting(None, "Generated pictures instead of files, so many.")


@dataclass(frozen=True)
class ImageAudit(ImageFiles):
    """What `regard audit` asks of an image classifier."""

    pictures: int = setting(500, "Pictures to audit on, at most.")
    baseline: Baseline = setting("grey", BASELINE)


class ImageTask(PictureTask):
    """From labelled pictures to a classifier of pictures."""

    name = "image"
    makes, examples, unit = "classifier of pictures", "pictures", "pictures"
    Settings, Evaluation, Audit = ImageSettings, ImageFiles, ImageAudit
    models, default_model = IMAGE_MODELS, "image_attention"
    Parts, corpora = ImageParts, IMAGES
    corpus, example, epochs, generated_epochs = "glyphs", "picture", 60, 8
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
        if not settings.training.rate:
            rate = IMAGE_MODELS[str(settings.model["name"])].config.rate
            settings = replace(settings, training=replace(settings.training, rate=rate))
        found: ImageSettings = super().complete(settings)
        return found

    def effort(self, settings: ImageSettings) -> float:
        found: float = IMAGE_MODELS[str(settings.model["name"])].config.effort
        return found

    def files(self, data: ImageData) -> tuple[Files, Files]:
        return (data.images, data.labels), (data.valid_images, data.valid_labels)

    def count(self, files: Files) -> int:
        return image_count(str(files[0]))

    def in_files(self, data: ImageData) -> tuple[int, ImageSize]:
        """How many pictures there are and their size, from headers and names."""
        images = str(data.images)
        if Path(images).is_dir():
            class_folders(images)
            found = folder_size(images, data.size or LARGE)
            side = data.size or found.height
        else:
            found = image_size(images)
            side = data.size or min(max(found.height, found.width), LARGE)
        count = image_count(images)
        if count < 2:
            raise DataError(f"{images} has {count} picture; at least 2 are needed, one of them held out.")
        return count, ImageSize(found.channels, side, side)

    def from_files(
        self, files: Files, size: ImageSize, chosen: Callable[[int], bool], least: int
    ) -> Iterator[Located]:
        images, labels = files
        return labelled_images(str(images), labels, size, least, chosen)

    def parts(self, settings: ImageSettings, say: Say) -> ImageParts:
        """The size, mean and deviation of the training pictures, and the classes."""
        labels: Counter[str] = Counter()
        size, mean, deviation = measured(self.read(settings, "train"), lambda one: labels.update([one.label]))
        if len(labels) < 2:
            raise DataError(
                "the training pictures must have at least two different labels; "
                f"they are all {next(iter(labels))!r}."
            )
        classes = Classes(_ordered(labels), False).renamed(settings.data.label_names)
        for where, one in self.read(settings, "valid"):
            classes.check_label(one.label, where)
        say(
            f"{labels.total():,} pictures of {size.height} × {size.width} pixels "
            f"({'colour' if size.channels == 3 else 'grey'}), {len(labels)} classes"
        )
        return ImageParts(size, mean, deviation, classes)

    def fields(self, settings: ImageSettings, parts: ImageParts) -> dict[str, Field]:
        """Bytes (c, h, w) and the label."""
        return {"pixels": Field("|u1", parts.size.shape), "label": number_field()}

    def encode(
        self, settings: ImageSettings, parts: ImageParts, examples: Sequence[LabelledImage]
    ) -> list[Row | None]:
        for one in examples:
            parts.classes.check_label(one.label, "a picture")
        return [{"pixels": one.pixels, "label": parts.classes.number[one.label]} for one in examples]

    # The model

    def sizes(self, settings: ImageSettings, parts: ImageParts | None) -> dict[str, Any]:
        if parts is None:
            return PictureParts(ImageSize(1, 28, 28), (0.5,), (0.5,)).sizes(classes=2)
        return parts.sizes(len(parts.classes.names))

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
        return class_measures(model(batch["pixels"]).float(), batch["label"])


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


def _ordered(labels: Mapping[str, int]) -> list[str]:
    """Labels in order: by number, where all are numbers."""
    numbers = all(label.lstrip("-").isdecimal() for label in labels)
    return sorted(labels, key=int) if numbers else sorted(labels)


IMAGE = ImageTask()
