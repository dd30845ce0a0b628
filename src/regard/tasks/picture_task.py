"""What tasks on pictures share: generated sets or files, those held out, and how long is trained."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from regard.core.settings import setting
from regard.data.images import ImageSize
from regard.data.splits import Part, stride
from regard.models.parts.convolutions import first_stride
from regard.tasks.task import Located, Task
from regard.tasks.text_data import located
from regard.training import CosineTraining

LARGE = 64  # pixels of a side: larger pictures are made smaller, unless a size is given
# What a default run looks at, in pictures of 14 × 14 cells after the first convolution: about a quarter of an
# hour of one core, and at least FEWEST steps.
SEEN, CELLS, FEWEST = 900_000, 14 * 14, 300
Files = tuple[str | None, ...]


@dataclass(frozen=True)
class PictureTraining(CosineTraining):
    """Settings of the loop; the defaults suit small pictures on a processor."""

    steps: int = setting(
        0, "Steps of training; 0: as suits the number and size of pictures.", option="--steps", least=0
    )
    warmup: int = setting(0, "Steps from 0 to the highest rate; 0: a tenth of all.", least=0)
    validate: int = setting(0, "Steps between validations; 0: a twentieth of all.", least=0)
    save: int = setting(0, "Steps between checkpoints; 0: a twentieth of all.", least=0)
    average: int = 3


class PictureTask(Task):
    """A task whose examples are pictures, each perhaps with a text."""

    corpus: str  # the generated set to learn from, where there are no files
    example: str  # what one is called: "picture", "question"
    epochs: int  # how often pictures of files are seen,
    generated_epochs: int  # and generated ones, which are easy
    per_example = 1  # how much of training.tokens an example takes, about

    # What differs between files

    def files(self, data: Any) -> tuple[Files, Files]:
        """The files to learn from, and others to validate on."""
        raise NotImplementedError

    def count(self, files: Files) -> int:
        """How many examples there are in files."""
        raise NotImplementedError

    def in_files(self, data: Any) -> tuple[int, ImageSize]:
        """How many examples there are to learn from, and the size that their pictures are read in."""
        raise NotImplementedError

    def from_files(
        self, files: Files, size: ImageSize, chosen: Callable[[int], bool], least: int
    ) -> Iterator[Located]:
        """The `chosen` examples of files, by number; of each class there must be `least`."""
        raise NotImplementedError

    def effort(self, settings: Any) -> float:
        """How long the model takes for a picture, by the time of others."""
        return 1.0

    # What does not

    def complete(self, settings: Any) -> Any:
        data, training = settings.data, settings.training
        if data.corpus is None and self.files(data)[0][0] is None:
            data = replace(data, corpus=self.corpus)
        if data.corpus is not None:
            made = next(iter(self.corpora[data.corpus](settings.seed, "train")))
            count, size, epochs = data.pictures, ImageSize(*made.pixels.shape), self.generated_epochs
        elif training.steps and data.size is not None:
            return settings  # of a run that was begun: its files may be elsewhere by now
        else:
            count, size = self.in_files(data)
            colour = size.channels == 3 if data.colour is None else data.colour
            data, epochs = replace(data, size=size.height, colour=colour), self.epochs
        training = completed(training, count, size, epochs, self.effort(settings), self.per_example)
        return replace(settings, data=data, training=training)

    def read(self, settings: Any, part: Part) -> Iterator[Located]:
        """Pictures, with labels or texts."""
        data = settings.data
        if data.corpus is not None:
            made = self.corpora[data.corpus](settings.seed, part)
            most = data.pictures if part == "train" else min(data.held_out, max(data.pictures // 10, 2))
            return located(data.corpus, islice(made, most), self.example)
        size = ImageSize(3 if data.colour else 1, data.size, data.size)
        train, valid = self.files(data)
        if valid[0] is not None:
            files, least = (train, 2) if part == "train" else (valid, 1)
            return self.from_files(files, size, lambda _: True, least)
        step = stride(self.count(train), data.held_out)
        return self.from_files(train, size, lambda i: (i % step == 0) == (part == "valid"), 2)


def completed(
    training: Any, count: int, size: ImageSize, epochs: int, effort: float = 1.0, per_example: int = 1
) -> Any:
    """Settings of training with the number of steps that suits so many pictures, and what follows from it."""
    if not training.steps:
        side = first_stride(size.height, size.width)
        cells = -(-size.height // side) * -(-size.width // side)
        looks = min(count * epochs, int(SEEN / effort * CELLS / max(cells, CELLS / 2)))
        batch = max(1, min(training.tokens // per_example, training.examples or training.tokens))
        training = replace(training, steps=max(FEWEST, looks // batch))
    part = max(1, training.steps // 20)
    return replace(
        training,
        warmup=training.warmup or max(1, training.steps // 10),
        validate=training.validate or part,
        save=training.save or part,
    )
