"""Caption: a sentence about a picture, word by word.

    loss = −Σᵢ log p(yᵢ | y₁ … yᵢ₋₁, picture)

by teacher forcing over the words and the end, as in translation; hard attention is trained by the expected
loss over its draws (`regard.losses.expected_loss`). Pictures with captions come from a table (.tsv, .csv or
.jsonl with the columns image and caption; files relative to it), or are generated: shapes, named in order.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from torch import Tensor
from torch.nn import functional as F

from regard.core.errors import SettingsError
from regard.core.settings import SettingsGroup, setting
from regard.core.tokens import EOS, PAD
from regard.data.batches import Batch
from regard.data.corpora import CAPTIONED
from regard.data.corpora.scenes import Captioned
from regard.data.fields import Field, Row, token_field
from regard.data.images import LARGEST_SIDE, SMALLEST, ImageSize
from regard.data.splits import Part, stride
from regard.data.tables import Column
from regard.data.text import DataError
from regard.models.captioners import CAPTIONERS
from regard.models.captioners.show_attend_tell import Config
from regard.tasks.image import completed, corpus_size, sizes_of
from regard.tasks.picture_tables import PictureParts, described_size, measured, pictures_of_table, table_rows
from regard.tasks.region_baselines import BASELINE, Baseline
from regard.tasks.task import Located, Say, Task
from regard.tasks.text_data import located, make_tokenizer
from regard.tasks.translation import Decoding, target_in
from regard.training import Training

DATA = "Pictures and captions: .tsv, .csv or .jsonl with the columns image (a file) and caption."
COLUMNS = {
    "image": Column(("image", "file", "picture"), "--data", heads=True),
    "caption": Column(("caption",), "--data", heads=True),
}
EPOCHS, GENERATED = 40, 6  # how often pictures of files, and generated ones, are seen


@dataclass(frozen=True)
class CaptionData(SettingsGroup):
    """Where the pictures and captions come from."""

    group = "data"

    corpus: str | None = setting(
        None, "Generated pictures; scenes, unless --data is given.", option="--corpus"
    )
    pictures: int = setting(20_000, "Pictures of the generated set.", least=2)
    train: str | None = setting(None, DATA, option="--data", metavar="FILE")
    valid: str | None = setting(
        None, "Others to validate on; without them some are held out.", option="--valid", metavar="FILE"
    )
    size: int | None = setting(
        None, "Pictures are made so many pixels high and wide; at most 64 unless given.", option="--size",
        least=SMALLEST, below=LARGEST_SIDE + 1,
    )  # fmt: skip
    colour: bool | None = setting(None, "Whether pictures have colours; as they are, unless given.")
    tokens: Literal["bpe", "word", "character"] = setting("word", "How captions are cut into tokens.")
    vocabulary: int = setting(8000, "Different tokens.", least=1)
    longest: int = setting(60, "Tokens of a caption; longer ones are left out.", least=1)
    held_out: int = setting(500, "Captions to validate on, where no file is given.", least=1)
    fingerprint: str | None = setting(None, "Of the encoded examples: written by the run itself.")


@dataclass(frozen=True)
class CaptionTraining(Training):
    """Settings of the loop."""

    steps: int = setting(
        0, "Steps of training; 0: as suits the number and size of pictures.", option="--steps", least=0
    )
    tokens: int = setting(1024, "Words in a batch, padding included.", least=1)
    optimiser: Literal["adam", "adamw"] = "adamw"
    rate: float = 5e-3
    schedule: Literal["inverse_sqrt", "cosine", "plateau", "constant"] = "cosine"
    warmup: int = setting(0, "Steps from 0 to the highest rate; 0: a tenth of all.", least=0)
    decay: float = 0.01
    smoothing: float = 0.0
    validate: int = setting(0, "Steps between validations; 0: a twentieth of all.", least=0)
    save: int = setting(0, "Steps between checkpoints; 0: a twentieth of all.", least=0)
    average: int = 3


@dataclass(frozen=True)
class CaptionSettings:
    """All that is needed to repeat a run."""

    data: CaptionData = setting(factory=CaptionData)
    task: Literal["caption"] = "caption"
    seed: int = setting(
        1, "The same seed repeats the run, exactly with as many threads and processes.", option="--seed"
    )
    model: dict[str, Any] = setting(factory=dict, says="Its name, and the settings of its Config.")
    training: CaptionTraining = setting(factory=CaptionTraining)
    decoding: Decoding = setting(factory=lambda: Decoding(beam=3, alpha=0.6, scale=0.0, extra=60, most=60))


@dataclass(frozen=True)
class CaptionEvaluation:
    """What `regard evaluate` asks of a captioner."""

    data: str | None = setting(None, DATA, metavar="FILE")
    generated: int | None = setting(None, "Generated pictures to evaluate on instead, so many.")
    beam: int | None = setting(None, "Width of the beam; 1 is greedy.")


@dataclass(frozen=True)
class CaptionAudit:
    """What `regard audit` asks of a captioner."""

    data: str | None = setting(None, DATA, metavar="FILE")
    generated: int | None = setting(None, "Generated pictures to audit on instead, so many.")
    words: int = setting(300, "Words of captions to audit on, at most.", least=1)
    baseline: Baseline = setting("grey", BASELINE)
    seed: int = 0


class CaptionTask(Task):
    """From pictures with captions to a captioner."""

    name = "caption"
    says = "Train a captioner into DIR; `regard caption DIR image.png` then uses it."
    makes, examples, unit = "captioner", "captions", "tokens"
    Settings, Evaluation, Audit = CaptionSettings, CaptionEvaluation, CaptionAudit
    models, default_model = CAPTIONERS, "show_attend_tell"
    corpora = CAPTIONED
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

    def complete(self, settings: CaptionSettings) -> CaptionSettings:
        data, training = settings.data, settings.training
        if data.corpus is None and data.train is None:
            data = replace(data, corpus="scenes")
        if data.corpus is not None:
            if data.train is not None:
                raise SettingsError("data.corpus and data.train exclude each other; give one of them.")
            count, size, epochs = data.pictures, corpus_size(CAPTIONED, data.corpus, settings.seed), GENERATED
        elif training.steps and data.size is not None:
            return settings  # of a run that was begun: its files may be elsewhere by now
        else:
            assert data.train is not None
            count, size = described_size(data.train, COLUMNS, data.size)
            data = replace(
                data, size=size.height, colour=size.channels == 3 if data.colour is None else data.colour
            )
            epochs = EPOCHS
        batch = replace(training, tokens=max(1, training.tokens // 12))  # captions in it, or so
        found = replace(completed(batch, count, size, epochs), tokens=training.tokens)
        return replace(settings, data=data, training=found)

    def read(self, settings: CaptionSettings, part: Part) -> Iterator[Located]:
        """Pictures with captions."""
        data = settings.data
        if data.corpus is not None:
            made = CAPTIONED[data.corpus](settings.seed, part)
            most = data.pictures if part == "train" else min(data.held_out, max(data.pictures // 10, 2))
            return located(data.corpus, islice(made, most), "picture")
        assert data.train is not None and data.size is not None
        size = ImageSize(3 if data.colour else 1, data.size, data.size)
        if data.valid is not None:
            return captions_in(data.train if part == "train" else data.valid, size)
        step = stride(len(table_rows(data.train, COLUMNS)), data.held_out)
        return captions_in(data.train, size, lambda i: (i % step == 0) == (part == "valid"))

    def parts(self, settings: CaptionSettings, say: Say) -> PictureParts:
        """The size, mean and deviation of the pictures, and the tokenizer of their captions."""
        texts: list[str] = []

        def pictures() -> Iterator[Any]:
            for _, one in self.read(settings, "train"):
                texts.append(one.caption)
                yield one.pixels

        size, mean, deviation = measured(pictures())
        tokenizer = make_tokenizer(texts, settings.data, say)
        return PictureParts(size, mean, deviation, tokenizer)

    def load_parts(self, folder: Path) -> PictureParts:
        return PictureParts.load(folder)

    def fields(self, settings: CaptionSettings, parts: PictureParts) -> dict[str, Field]:
        """Bytes (c, h, w), and the tokens of the caption, which end with EOS."""
        return {"pixels": Field("|u1", parts.size.shape), "target": token_field(len(parts.tokenizer))}

    def encode(
        self, settings: CaptionSettings, parts: PictureParts, examples: Sequence[Captioned]
    ) -> list[Row | None]:
        found = parts.tokenizer.encode_many([one.caption for one in examples])
        return [
            {"pixels": one.pixels, "target": [*tokens, EOS]} if tokens else None
            for one, tokens in zip(examples, found, strict=True)
        ]

    def longest(self, settings: CaptionSettings) -> dict[str, int]:
        return {"target": settings.data.longest + 1}

    def sizes(self, settings: CaptionSettings, parts: PictureParts | None) -> dict[str, Any]:
        if parts is None:
            return sizes_of(ImageSize(3, 24, 24), 8, (0.5,) * 3, (0.5,) * 3)
        return sizes_of(parts.size, len(parts.tokenizer), parts.mean, parts.deviation)

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

    def system(
        self, model: Any, parts: PictureParts, settings: CaptionSettings, folder: Path | None = None
    ) -> Any:
        """A captioner."""
        from regard.tasks.captioner import Captioner

        return Captioner(model, parts, settings, folder)


def captions_in(
    file: str, size: ImageSize | None, chosen: Callable[[int], bool] = lambda _: True
) -> Iterator[Located]:
    """The pictures and captions of a table, and where they stand."""
    for where, pixels, entry in pictures_of_table(file, COLUMNS, size, chosen):
        if not str(entry["caption"]).strip():
            raise DataError(f"{where}: the caption is empty.")
        yield where, Captioned(pixels, str(entry["caption"]).strip())


CAPTION = CaptionTask()
