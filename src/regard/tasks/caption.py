"""Caption: a sentence about a picture, word by word.

    loss = −Σᵢ log p(yᵢ | y₁ … yᵢ₋₁, picture)

by teacher forcing over the words and the end, as in translation; hard attention is trained by the expected
loss over its draws (`regard.losses.expected_loss`). Pictures with captions come from a table (.tsv, .csv or
.jsonl with the columns image and caption; files relative to it), or are generated: shapes, named in order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor
from torch.nn import functional as F

from regard.core.errors import SettingsError
from regard.core.settings import setting
from regard.core.tokens import EOS, PAD
from regard.data.batches import Batch
from regard.data.corpora import CAPTIONED
from regard.data.corpora.scenes import Captioned
from regard.data.fields import Field, Row, token_field
from regard.data.images import Pixels
from regard.data.text import DataError
from regard.models.captioners import CAPTIONERS
from regard.models.captioners.show_attend_tell import Config
from regard.tasks.picture_parts import measured
from regard.tasks.picture_tables import (
    ANY_PICTURES,
    PictureTextAudit,
    PictureTextFiles,
    PictureTextParts,
    PictureTextSettings,
    PictureTextTask,
    table_columns,
)
from regard.tasks.task import Say, Task
from regard.tasks.text_data import make_tokenizer
from regard.tasks.translation import Decoding, target_in


@dataclass(frozen=True)
class CaptionDecoding(Decoding):
    """How captions are searched for: pictures are all of one size, so the length does not depend on it."""

    beam: int = 3
    alpha: float = 0.6
    scale: float = 0.0
    extra: int = 60
    most: int = 60


@dataclass(frozen=True)
class CaptionSettings(PictureTextSettings):
    task: Literal["caption"] = "caption"
    decoding: CaptionDecoding = setting(factory=CaptionDecoding)


@dataclass(frozen=True)
class CaptionEvaluation(PictureTextFiles):
    """What `regard evaluate` asks of a captioner."""

    beam: int | None = setting(None, "Width of the beam; 1 is greedy.")


@dataclass(frozen=True)
class CaptionAudit(PictureTextAudit):
    """What `regard audit` asks of a captioner."""

    words: int = setting(300, "Words of captions to audit on, at most.", least=1)
    seed: int = 0


class CaptionTask(PictureTextTask):
    """From pictures with captions to a captioner."""

    name = "caption"
    makes, examples, unit = "captioner", "captions", "tokens"
    Settings, Evaluation, Audit = CaptionSettings, CaptionEvaluation, CaptionAudit
    models, default_model = CAPTIONERS, "show_attend_tell"
    corpora, columns = CAPTIONED, table_columns(caption=("caption",))
    example, generated_epochs, per_example = "picture", 6, 12
    model_options: Mapping[str, str] = {
        **Task.model_options,
        "map": "Any differentiable row map of `regard maps`; hard: one cell at a time, see --estimator.",
        "estimator": "With --map hard: how the choice of a cell is trained.",
    }
    command_examples = (
        "regard train caption --out runs/scenes",
        "regard train caption --map hard --estimator gumbel --out runs/hard",
        "regard train caption --data captions.tsv --size 48 --out runs/photos",
    )
    usage = ("regard caption DIR image.png", "regard evaluate DIR --data test.tsv")

    def row(self, where: str, pixels: Pixels, entry: dict[str, Any]) -> Captioned:
        caption = str(entry["caption"]).strip()
        if not caption:
            raise DataError(f"{where}: the caption is empty.")
        return Captioned(pixels, caption)

    def parts(self, settings: CaptionSettings, say: Say) -> PictureTextParts:
        """The size, mean and deviation of the pictures, and the tokenizer of their captions."""
        texts: list[str] = []
        measures = measured(self.read(settings, "train"), lambda one: texts.append(one.caption))
        return PictureTextParts(*measures, make_tokenizer(texts, settings.data, say))

    def fields(self, settings: CaptionSettings, parts: PictureTextParts) -> dict[str, Field]:
        """Bytes (c, h, w), and the tokens of the caption, which end with EOS."""
        return {"pixels": Field("|u1", parts.size.shape), "target": token_field(len(parts.tokenizer))}

    def encode(
        self, settings: CaptionSettings, parts: PictureTextParts, examples: Sequence[Captioned]
    ) -> list[Row | None]:
        found = parts.tokenizer.encode_many([one.caption for one in examples])
        return [
            {"pixels": one.pixels, "target": [*tokens, EOS]} if tokens else None
            for one, tokens in zip(examples, found, strict=True)
        ]

    def longest(self, settings: CaptionSettings) -> dict[str, int]:
        return {"target": settings.data.longest + 1}

    def sizes(self, settings: CaptionSettings, parts: PictureTextParts | None) -> dict[str, Any]:
        if parts is None:
            return ANY_PICTURES.sizes(classes=8)
        return parts.sizes(classes=len(parts.tokenizer))

    def check(self, settings: CaptionSettings, model: Any) -> None:
        config: Config = model.config
        if config.map == "hard" and config.penalty:
            raise SettingsError("model.penalty is for soft attention; with model.map=hard it must be 0.")

    def loss(self, settings: CaptionSettings, model: Any, batch: Batch) -> tuple[Tensor, int]:
        """The sum of the losses of a batch, and the number of its words."""
        target = batch["target"]
        real = target != PAD
        smoothing = settings.training.smoothing
        loss = model.caption_loss(batch["pixels"], target_in(target), target, real, smoothing)
        return loss, int(real.sum())

    def measure(self, model: Any, batch: Batch) -> tuple[dict[str, float], int]:
        """Loss, and how many words are the most likely one given those before."""
        target = batch["target"]
        there = target != PAD
        logits = model.logits(model(batch["pixels"], None, target_in(target))[there]).float()
        loss = F.cross_entropy(logits, target[there], reduction="sum").item()
        return {"loss": loss, "accuracy": int((logits.argmax(-1) == target[there]).sum())}, len(logits)


CAPTION = CaptionTask()
