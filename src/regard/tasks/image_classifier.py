"""A trained classifier of pictures: pictures in, classes out, and the attention over their regions."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.core.errors import RunError
from regard.data.corpora import IMAGES
from regard.data.images import LabelledImage, Pixels, labelled_images
from regard.recording import Record, intervene
from regard.tasks.class_scores import class_quality
from regard.tasks.image import (
    IMAGE,
    ImageAudit,
    ImageFiles,
    ImageParts,
    ImageSettings,
    check_label,
)
from regard.tasks.picture_system import PICTURES, PictureClass, PictureSystem, generated_examples
from regard.tasks.system import EXAMPLES, Forward, Scores, check_finite, erase

if TYPE_CHECKING:
    from regard.tasks.case import Case


@dataclass(frozen=True, eq=False)
class ImageClass(PictureClass):
    """The class of one picture, and on demand the attention over its regions."""

    @property
    def tokens(self) -> list[int]:
        """The numbers of the regions."""
        return list(range(self.system.regions))

    @cached_property
    def weights(self) -> Tensor | None:
        """The weight of each region, (k, n): k queries or heads; None without attention."""
        return self.system.weights(self)[0][:, 0] if self.system.layers else None

    @property
    def facts(self) -> dict[str, Any]:
        """What `regard classify --json` prints."""
        weights = None if self.weights is None else self.weights.tolist()
        return {
            "picture": self.picture,
            "label": self.label,
            "probabilities": self.probabilities,
            "grid": list(self.system.grid),
            "weights": weights,
        }


class ImageClassifier(PictureSystem):
    """A model with the size of its pictures and its classes."""

    task, role = IMAGE, "reader"
    parts: ImageParts
    settings: ImageSettings

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the logits."""
        return self.parts.classes.names

    @property
    def facts(self) -> list[str]:
        return [f"{len(self.labels)} classes", f"{self.size.height} × {self.size.width} pixels"]

    @property
    def purpose(self) -> str:
        listed = f": {', '.join(self.labels)}" if len(self.labels) <= 10 else ""
        return f"Sorts pictures into {len(self.labels)} classes{listed}."

    @cached_property
    def pictures(self) -> list[Pixels]:
        if self.settings.data.corpus is None:
            return []
        return [one.pixels for _, one in islice(self.task.read(self.settings, "valid"), EXAMPLES)]

    @property
    def heads(self) -> int:
        if not self.layers:
            return 0
        return int(self.settings.model.get("heads", 1)) if self.ahead else 1

    @property
    def ahead(self) -> int:
        """Keys before the first region: the vector that a Vision Transformer puts there."""
        return int(getattr(self.model, "reads_first", False))

    # Answers

    def classify(self, inputs: Sequence[Any], *, batch: int | None = None) -> list[ImageClass]:
        """The class of each picture: a file, a data URL, or pixels."""
        read = [self.read(one) for one in inputs]
        found: list[ImageClass] = []
        for start in range(0, len(read), batch or PICTURES):
            some = read[start : start + (batch or PICTURES)]
            with torch.no_grad():
                logits = self.forward([one.pixels for one in some]).logits()
            check_finite(logits)
            for one, row in zip(some, logits.double().softmax(-1).tolist(), strict=True):
                probabilities = dict(zip(self.labels, row, strict=True))
                label = max(probabilities, key=probabilities.__getitem__)
                found.append(ImageClass(one.name, one.pixels, label, probabilities, self))
        return found

    def answer(self, inputs: Sequence[Any], **options: Any) -> list[ImageClass]:
        return self.classify(inputs, **options)

    def forward(self, inputs: Sequence[Any], answers: Sequence[Any] = ()) -> Forward:
        """Logits (b, classes) of pictures given as pixels (c, h, w)."""
        return Forward(self.model(self.stacked(inputs)), lambda logits: logits)

    # Attention

    def recorded(self, answers: Sequence[ImageClass], paths: Sequence[str]) -> Record:
        return self.recorded_while(lambda: self.forward([one.pixels for one in answers]), paths)

    def batch_weights(self, answers: Sequence[ImageClass]) -> list[list[Tensor]]:
        """The weights over the regions of each picture, (k, 1, n): k queries or heads."""
        if not self.layers:
            return [[] for _ in answers]
        found = self.model.over_cells(self.recorded(answers, self.layers))  # (b, k, n)
        return [[found[i].unsqueeze(-2)] for i in range(len(answers))]

    def masking(self, tokens: Sequence[int]) -> AbstractContextManager[None]:
        keys = [self.ahead + token for token in tokens]
        return intervene(self.model, lambda p: erase(p, keys) if keys else p, self.masked_paths)

    # Scores and audits

    def score(self, examples: Sequence[LabelledImage], **options: Any) -> Scores:
        """Accuracy, macro F1, log loss, and precision, recall and F1 of each class; and weight in boxes."""
        answers = self.classify([one.pixels for one in examples])
        right = [self.labels[self.parts.classes.number[one.label]] for one in examples]
        found = class_quality([one.probabilities for one in answers], right)
        figures = asdict(found)
        figures["pictures"] = figures.pop("texts")
        for by in figures["by_class"].values():
            by["pictures"] = by.pop("texts")
        rows = (
            (label, f"{by['pictures']:,}", *(f"{by[name]:.3f}" for name in ("precision", "recall", "f1")))
            for label, by in figures["by_class"].items()
        )
        boxes = self.in_boxes(answers, [one.box for one in examples])
        return Scores(
            {**figures, **boxes},
            f"accuracy {found.accuracy:.4f}, macro F1 {found.macro_f1:.4f}, log loss {found.loss:.4f} "
            f"on {len(examples):,} pictures",
            ("class", "pictures", "precision", "recall", "F1"),
            tuple(rows),
            tuple(f"{name.replace('_', ' ')} {value:.3f}" for name, value in boxes.items()),
        )

    def renamed(self, names: str | None) -> "ImageClassifier":
        """The same with other names of classes, given as "0=top,1=trousers"; None: itself."""
        if names is None:
            return self
        parts = replace(self.parts, classes=self.parts.classes.renamed(names))
        return ImageClassifier(self.model, parts, self.settings, self.folder)

    def labelled(self, options: ImageFiles, what: str) -> list[LabelledImage]:
        """The labelled pictures that options of a command name."""
        if options.images is None and options.generated is not None:
            return generated_examples(self, IMAGES, options.generated)
        if options.images is None:
            raise RunError(
                f"{self.folder} holds a {self.task.makes}: --images, pictures to {what} (an IDX file with "
                "--labels, or a folder of class folders), is needed; or --generated N, if it learned from "
                "generated pictures."
            )
        found = []
        for where, one in labelled_images(options.images, options.labels, self.size, least=1):
            check_label(self.parts.classes, one, where)
            found.append(one)
        return found

    def evaluate(self, options: ImageFiles, progress: Callable[[int, int], None] | None = None) -> Scores:
        system = self.renamed(options.label_names)
        return system.score(system.labelled(options, "evaluate on"))

    def case(self, items: Sequence[Any], **options: Any) -> "Case":
        """Pictures, or labelled pictures with or without boxes."""
        from regard.tasks.image_case import case_of_pictures

        return case_of_pictures(self, items, **options)

    def audited(self, options: ImageAudit) -> "tuple[Case, str]":
        pictures = self.renamed(options.label_names).labelled(options, "audit on")
        step = max(1, len(pictures) // max(1, options.pictures))
        some = pictures[::step][: options.pictures]
        what = repr([(one.label, one.pixels.tobytes()) for one in some])
        return self.case(some, baseline=options.baseline), f"{what}{options.baseline}"
