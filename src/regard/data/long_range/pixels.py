"""Pixels: a picture as a sequence, pixel by pixel, of 16 shades of grey.

Generated pictures are of ten textured shapes. A file is one of Fashion-MNIST or MNIST: images in the format
IDX (train-images-idx3-ubyte.gz), with the labels beside it (train-labels-idx1-ubyte.gz). Pictures of 28 × 28
are averaged to 14 × 14: 196 tokens.

Tay et al. (2020), "Long Range Arena", arXiv:2011.04006, §2.2.4 (there CIFAR-10). Xiao, Rasul & Vollgraf
(2017), "Fashion-MNIST", arXiv:1708.07747.
"""

import gzip
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from regard.data.long_range.long_task import FIRST, LongExample, LongTask

SIDE, SHADES, CLASSES = 14, 16, 10


def as_tokens(picture: NDArray[np.float64]) -> list[int]:
    """A picture (side, side) of numbers from 0 to 1 as tokens, row by row."""
    shades = np.clip((picture * SHADES).astype(int), 0, SHADES - 1)
    tokens: list[int] = (shades.flatten() + FIRST).tolist()
    return tokens


def generate(random: Random) -> LongExample:
    """One of ten shapes, somewhere, of some size and shade, with noise."""
    label = random.randrange(CLASSES)
    shape, stripes = label % 5, label // 5
    y, x = np.mgrid[0:SIDE, 0:SIDE].astype(float)
    cy, cx = (random.uniform(5, SIDE - 6) for _ in range(2))
    r = random.uniform(3.0, 5.0)
    dy, dx = y - cy, x - cx
    inside = (
        dx**2 + dy**2 <= r**2,
        np.maximum(abs(dx), abs(dy)) <= r * 0.85,
        abs(dx) + abs(dy) <= r * 1.2,
        np.minimum(abs(dx), abs(dy)) <= 1.2,
        (dx**2 + dy**2 <= r**2) & (dx**2 + dy**2 >= (r * 0.55) ** 2),
    )[shape]
    if shape == 3:
        inside = inside & (np.maximum(abs(dx), abs(dy)) <= r)
    fill = ((y.astype(int) % 2) * 0.6 + 0.4) if stripes else np.ones_like(y)
    noise = np.random.default_rng(random.randrange(1 << 32)).normal(0, 0.08, y.shape)
    return LongExample(as_tokens(inside * fill * random.uniform(0.6, 1.0) + noise), label)


def read(file: Path) -> list[LongExample]:
    """The pictures of an IDX file, with the labels of the file beside it."""
    beside = file.with_name(file.name.replace("images", "labels").replace("idx3", "idx1"))
    if beside == file or not beside.is_file():
        raise ValueError(f"{file}: labels are wanted beside it, in {beside.name}.")
    images, labels = _idx(file, 3), _idx(beside, 1)
    if len(images) != len(labels):
        raise ValueError(f"{file}: there are {len(images)} pictures and {len(labels)} labels.")
    side = images.shape[1] // 2
    if side != SIDE or images.shape[2] != 2 * SIDE:
        raise ValueError(f"{file}: pictures must be 28 × 28; got {images.shape[1]} × {images.shape[2]}.")
    small = images.reshape(len(images), SIDE, 2, SIDE, 2).mean((2, 4), dtype=np.float32) / 256
    return [LongExample(as_tokens(one), int(label)) for one, label in zip(small, labels, strict=True)]


def _idx(file: Path, axes: int) -> NDArray[np.uint8]:
    data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    if len(data) < 4 + 4 * axes or data[:4] != bytes([0, 0, 8, axes]):
        raise ValueError(f"{file}: this is no IDX file of {axes} axes.")
    sizes = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(axes)]
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(sizes)


pixels = LongTask(
    "pixels",
    "What a picture shows, read pixel by pixel.",
    FIRST + SHADES,
    CLASSES,
    generate,
    read,
    chance=0.1,
)
