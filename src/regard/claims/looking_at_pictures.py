"""C27, C94 and C96: gates that depend on the picture, a classifier that looks at the object, and captions."""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.claims.claim import Figures, at_least, claim
from regard.claims.quick import few, remembered, sized
from regard.claims.toy_pairs import train
from regard.data.corpora.glyphs import GLYPHS, SIZE, glyphs
from regard.data.corpora.scenes import captioned
from regard.data.images import LabelledImage
from regard.models.images import IMAGE_MODELS
from regard.recording import record
from regard.runs.folder import resolve
from regard.tasks import TASKS
from regard.tasks.picture_system import region_numbers

entry = partial(claim, fixed="8c9591d")
Labelled = tuple[Tensor, Tensor]  # pictures (b, c, h, w) and classes (b,)
SIDE, STEPS, BATCH = 32, 400, 64


def picture_loss(model: Any, batch: Labelled) -> Tensor:
    """Cross-entropy per picture."""
    return F.cross_entropy(model(batch[0]), batch[1])


def stacked(examples: list[LabelledImage], names: list[str]) -> Labelled:
    """Labelled pictures as tensors."""
    pixels = torch.from_numpy(np.stack([one.pixels for one in examples]))
    return pixels, torch.tensor([names.index(one.label) for one in examples])


def model_of(name: str, channels: int, classes: int, seed: int, **settings: Any) -> Any:
    """A model of pictures of 32 × 32, its first weights by the seed."""
    torch.manual_seed(seed)
    mean, deviation = (0.2,) * channels, (0.25,) * channels
    size = {"channels": channels, "height": SIDE, "width": SIDE, "mean": mean, "deviation": deviation}
    return IMAGE_MODELS[name].make(**size, classes=classes, **settings)


@torch.inference_mode()
def accuracy(model: Any, batch: Labelled) -> float:
    """The share of pictures whose class is the likeliest."""
    return float((model.eval()(batch[0]).argmax(-1) == batch[1]).float().mean())


# C27


def told_channel(seed: int, split: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Batches of pictures with a glyph in each of three channels; a bar at the left edge says which counts.

    The glyphs stand in the right half, farther from the bar than a cell of the network sees.
    """
    chance, names = np.random.default_rng([seed, split]), list(GLYPHS)[:4]
    while True:
        pixels = chance.normal(30, 15, (BATCH, 3, SIDE, SIDE))
        which, labels = chance.integers(3, size=BATCH), chance.integers(4, size=(BATCH, 3))
        for i in range(BATCH):
            for channel in range(3):
                top, left = chance.integers(SIDE - SIZE + 1), SIDE - SIZE - chance.integers(4)
                here = pixels[i, channel, top : top + SIZE, left : left + SIZE]
                here[GLYPHS[names[labels[i, channel]]]] = 230
            pixels[i, which[i], :, :4] = 230
        wanted = labels[np.arange(BATCH), which]
        yield (
            torch.from_numpy(pixels.clip(0, 255).astype(np.uint8)),
            torch.from_numpy(wanted),
            torch.from_numpy(which),
        )


@entry(
    "C27",
    group="Flavours of attention",
    says="Gates of an LSTM and squeeze-and-excitation are attention that depends on the input.",
    source="003:36-59",
    experiment="A glyph in each of three colour channels; a bar, too far away for a convolution to see both, "
    "says which of them is the class. Accuracy with gates by squeeze-and-excitation, and the "
    "largest correlation of a gate with the channel that counts, the mean of the three.",
    control="The same network with one learned gate per channel, the same for all pictures.",
    conditions=[
        at_least(0.03, "accuracy with gates − accuracy with constant gates"),
        at_least(0.5, "correlation of gate and channel"),
    ],
    minutes=2,
)
def gates(seed: int) -> Figures:
    """Accuracy with and without gates that see the picture, and what they follow."""
    found: Figures = {}
    test = list(islice(told_channel(seed, 1), few(16)))
    for name, kind in (("accuracy with gates", "input"), ("accuracy with constant gates", "constant")):
        model = model_of("squeeze_excitation", 3, 4, seed, widths=(24, 32), blocks=(1, 1), gates=kind)
        batches = ((x, y) for x, y, _ in told_channel(seed, 0))
        train(model, batches, 3 * STEPS, 5e-3, loss=picture_loss)
        found[name] = float(np.mean([accuracy(model, (x, y)) for x, y, _ in test]))
        if kind == "input":
            with torch.inference_mode():
                values = torch.cat([torch.cat(model.gates(x), -1) for x, _, _ in test])  # (N, gates)
            which = F.one_hot(torch.cat([one for _, _, one in test]), 3)
            both = np.corrcoef(torch.cat([values, which], -1).double().numpy().T)
            between = np.nan_to_num(np.abs(both[: values.shape[1], values.shape[1] :]))
            found["correlation of gate and channel"] = float(between.max(0).mean())
    return found


# C94


@entry(
    "C94",
    group="Applications",
    says="An image classifier looks at the object.",
    source="000:35-54",
    experiment="A glyph in clutter, 32 × 32: the weight of attention with one query on the cells that the "
    "glyph touches, by their share of the picture; and accuracy.",
    control="The same convolutions with the mean of all cells.",
    conditions=[
        at_least(3, "weight by area"),
        at_least(0, "accuracy with attention − accuracy with the mean"),
    ],
    minutes=1.5,
)
def object_looked_at(seed: int) -> Figures:
    """Accuracy of both, and where the weight is."""
    names, found = list(GLYPHS), dict[str, float]()

    def batches() -> Iterator[Labelled]:
        stream = glyphs(seed, "train")
        while True:
            yield stacked(list(islice(stream, BATCH)), names)

    held_out = list(islice(glyphs(seed, "test"), sized(1000)))
    test = stacked(held_out, names)
    for said, name in (("attention", "image_attention"), ("the mean", "average_pooling")):
        model = model_of(name, 1, len(names), seed, widths=(16, 32), blocks=(1, 0))
        train(model, batches(), STEPS, 5e-3, loss=picture_loss)
        found[f"accuracy with {said}"] = accuracy(model, test)
        if said == "attention":
            with torch.inference_mode(), record(model, "attention") as seen:
                model(test[0])
            weights = model.over_cells(seen)[:, 0].double()
            found["weight by area"] = by_area(weights, held_out, model.grid)
    return found


def by_area(weights: Tensor, pictures: list[LabelledImage], grid: tuple[int, int]) -> float:
    """The mean weight (b, n) on cells that a box touches, by their share of the picture."""
    numbers, ratios = region_numbers(grid, (SIDE, SIDE)), []
    for row, one in zip(weights, pictures, strict=True):
        assert one.box is not None
        top, left, bottom, right = one.box
        touched = numbers[top:bottom, left:right].unique()
        ratios.append(float(row[touched].sum()) * row.numel() / len(touched))
    return float(np.mean(ratios))


# C96


@remembered
def captioner(seed: int, **model: Any) -> Any:
    """A captioner trained on generated scenes as `regard train caption` does, in memory."""
    task = TASKS["caption"]
    settings = resolve(
        {"task": "caption", "seed": seed, "model": model, "data": {"pictures": sized(20_000, 40)}}
    )
    parts = task.parts(settings, lambda _: None)
    net = task.build(settings, parts)
    examples = [one for _, one in task.read(settings, "train")]
    rows: list[Any] = list(task.encode(settings, parts, examples))
    training, chance = settings.training, np.random.default_rng(seed)

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            for some in np.array_split(chance.permutation(len(rows)), max(1, len(rows) // 80)):
                target = [torch.tensor(rows[i]["target"]) for i in some]
                pixels = torch.from_numpy(np.stack([rows[i]["pixels"] for i in some]))
                yield pixels, torch.nn.utils.rnn.pad_sequence(target, batch_first=True)

    train(net, batches(), training.steps, training.rate, warmup=training.warmup, loss=caption_loss)
    return task.system(net, parts, settings)


def caption_loss(model: Any, batch: tuple[Tensor, Tensor]) -> Tensor:
    """The loss of a batch of captions, per caption."""
    from regard.core.tokens import PAD
    from regard.tasks.translation import target_in

    pixels, target = batch
    loss: Tensor = model.caption_loss(pixels, target_in(target), target, target != PAD, 0.0)
    return loss / len(pixels)


@entry(
    "C96",
    group="Applications",
    says="A caption looks at what it names.",
    source="002:215-251",
    experiment="Scenes of one to three shapes, named in order: exact sentences of soft attention and of hard "
    "attention (Gumbel-softmax), BLEU-4, and the weight of the words of a shape on the cells it touches.",
    control="Every word sees the mean of all cells: no attention.",
    conditions=[
        at_least(0.95, "exact, soft", "soft attention says what is there"),
        at_least(-0.03, "exact, hard − exact, soft", "hard attention, too"),
        at_least(0.6, "weight on the named shape", "a word looks at its shape"),
        at_least(5, "BLEU, soft − BLEU, no attention", "captions need it"),
    ],
    minutes=5.0,
    changed="After the runs its four conditions were named as parts of the sentence; thresholds are as they "
    "were.",
    remark="Without attention captions become almost as good: the mean of the cells tells which shapes there "
    "are, and where.",
)
def captions(seed: int) -> Figures:
    """Exact sentences of three captioners, and where the words of one look."""
    test = list(islice(captioned(seed, "test"), sized(500, 10)))
    kinds: dict[str, dict[str, Any]] = {
        "soft": {}, "hard": {"map": "hard", "estimator": "gumbel"}, "no attention": {"read": "mean"},
    }  # fmt: skip
    found: Figures = {}
    for name, settings in kinds.items():
        scores = captioner(seed, name="show_attend_tell", **settings).score(test)
        found |= {f"exact, {name}": scores["exact_match"], f"BLEU, {name}": scores["bleu"]}
        if name == "soft":
            found["weight on the named shape"] = scores["weight_on_named"]
    return found
