"""A trained classifier of pictures: pictures in, classes out, and the attention over their regions."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from torch import Tensor

from regard.core.counting import counted
from regard.core.errors import RunError
from regard.data.images import LabelledImage, labelled_images
from regard.recording import Record, intervene
from regard.tasks.class_scores import class_quality
from regard.tasks.image import IMAGE, ImageAudit, ImageFiles, ImageSettings
from regard.tasks.picture_parts import ImageParts
from regard.tasks.picture_system import PictureClass, PictureClassifier
from regard.tasks.system import Forward, Scores, erase

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


class ImageClassifier(PictureClassifier):
    """A model with the size of its pictures and its classes."""

    task = IMAGE
    parts: ImageParts
    settings: ImageSettings

    @property
    def purpose(self) -> str:
        listed = f": {', '.join(self.labels)}" if len(self.labels) <= 10 else ""
        return f"Sorts pictures into {len(self.labels)} classes{listed}."

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
        found = self.most_likely(
            len(read), batch, lambda some: self.forward([one.pixels for one in read[some]]).logits()
        )
        return [
            ImageClass(one.name, one.pixels, *answer, self) for one, answer in zip(read, found, strict=True)
        ]

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
            f"on {counted(len(examples), 'picture')}",
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

    def examples_of(self, options: ImageFiles, what: str) -> list[LabelledImage]:
        """The labelled pictures that options of a command name."""
        if options.images is None and options.generated is not None:
            return self.generated(options.generated)
        if options.images is None:
            raise RunError(
                f"{self.folder} holds a {self.task.makes}: --images, pictures to {what} (an IDX file with "
                "--labels, or a folder of class folders), is needed; or --generated N, if it learned from "
                "generated pictures."
            )
        found = []
        for where, one in labelled_images(options.images, options.labels, self.size, least=1):
            self.parts.classes.check_label(one.label, where)
            found.append(one)
        return found

    def evaluate(self, options: ImageFiles, progress: Callable[[int, int], None] | None = None) -> Scores:
        system = self.renamed(options.label_names)
        return system.score(system.examples_of(options, "evaluate on"))

    def case(self, items: Sequence[Any], **options: Any) -> "Case":
        """Pictures, or labelled pictures with or without boxes."""
        from regard.tasks.image_case import case_of_pictures

        return case_of_pictures(self, items, **options)

    def audited(self, options: ImageAudit) -> "tuple[Case, str]":
        pictures = self.renamed(options.label_names).examples_of(options, "audit on")
        step = max(1, len(pictures) // max(1, options.pictures))
        some = pictures[::step][: options.pictures]
        what = repr([(one.label, one.pixels.tobytes()) for one in some])
        return self.case(some, baseline=options.baseline), f"{what}{options.baseline}"
