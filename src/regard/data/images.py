"""Pictures: from files, from IDX files and from folders of classes, as bytes (channels, height, width).

A picture is read from a file or from a data URL. Its size is looked at before it is decoded; its rotation
(EXIF) is applied. What is no plain 8-bit picture is refused with a sentence: CMYK, 16 bit, several frames.

Labelled pictures come from two IDX files (MNIST's format), or from a folder with a folder for each class.
"""

import warnings
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.files import check_regular
from regard.data.idx import idx_shape, read_idx
from regard.data.text_lines import DataError

Pixels = NDArray[np.uint8]  # (channels, height, width), one channel or three
Box = tuple[int, int, int, int]  # top, left, bottom, right, in pixels; the last two are beyond the end

ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
MOST_PIXELS = 1 << 25  # of a picture: more are refused before they are decoded
MOST_BYTES = 1 << 26  # of its file
SMALLEST, LARGEST_SIDE = 4, 1024  # of pictures that a model reads
PLAIN = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "La", "RGBa")  # 8 bits per channel
URL = "data:image/"


@dataclass(frozen=True, eq=False)
class LabelledImage:
    """A picture and its label."""

    pixels: Pixels
    label: str
    box: Box | None = None  # where the thing is that the label names, if that is known


@dataclass(frozen=True)
class ImageSize:
    """What all pictures of a model have in common."""

    channels: int
    height: int
    width: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, height, width)."""
        return self.channels, self.height, self.width


def pillow() -> Any:
    """The package that decodes pictures; the error, if it is missing, says how to install it."""
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("pictures need pillow: pip install 'regard[images]'") from None
    return Image


def read_image(source: str | Path) -> Pixels:
    """The pixels (3, h, w), or (1, h, w) of a grey picture, in a file or a data URL; DataError if none."""
    if isinstance(source, str) and source.startswith(URL):
        head, comma, body = source.partition(",")
        if not comma or not head.endswith(";base64"):
            raise DataError("the picture is no data URL: data:image/png;base64,… is needed.")
        try:
            return decode(b64decode(body, validate=True))
        except NotBase64:
            raise DataError("the picture is no data URL: what follows the comma is not base64.") from None
    try:
        check_regular(source, MOST_BYTES)
        return decode(Path(source).read_bytes(), f"{source}: ")
    except FileNotFoundError:
        raise DataError(f"{source}: there is no such file.") from None
    except (OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise DataError(f"{source}: cannot be read ({why}).") from None


def decode(content: bytes, where: str = "") -> Pixels:
    """The pixels (c, h, w) of a picture in the bytes of a file; `where` is what messages begin with."""
    image = pillow()
    from PIL import ImageOps

    try:
        with warnings.catch_warnings(), image.open(BytesIO(content)) as found:
            warnings.simplefilter("error", image.DecompressionBombWarning)
            _check(found, where)
            turned = ImageOps.exif_transpose(found)
            return _plain(turned)
    except DataError:
        raise
    except (image.DecompressionBombError, image.DecompressionBombWarning):
        raise DataError(
            f"{where}the picture is too large; at most {MOST_PIXELS:,} pixels are read."
        ) from None
    except image.UnidentifiedImageError:
        raise DataError(
            f"{where}this is not a picture that can be read (PNG, JPEG, WebP, BMP, TIFF)."
        ) from None
    except (OSError, SyntaxError, ValueError, EOFError, IndexError, TypeError) as error:
        what = str(error).strip().splitlines()
        raise DataError(f"{where}the picture is truncated or damaged ({(what or ['?'])[0]}).") from None


def _check(found: Any, where: str) -> None:
    """DataError unless an opened picture, which is not decoded yet, can be read."""
    wide, high = found.size
    if wide * high > MOST_PIXELS:
        raise DataError(
            f"{where}the picture has {wide:,} × {high:,} pixels; at most {MOST_PIXELS:,} pixels are read."
        )
    if getattr(found, "n_frames", 1) > 1:
        raise DataError(f"{where}the picture has {found.n_frames} frames; one is needed.")
    if found.mode == "CMYK":
        raise DataError(f"{where}the picture is CMYK, for print; convert it to RGB.")
    deep = any(";16" in str(tile[3]) for tile in found.tile)  # of colours, which would be read as 8 bits
    if deep or found.mode.startswith(("I", "F")):
        raise DataError(f"{where}the picture has 16 bits or more per channel; convert it to 8.")
    if found.mode not in PLAIN:
        raise DataError(f"{where}the picture is {found.mode}; convert it to RGB.")


def _plain(found: Any) -> Pixels:
    """An opened picture as bytes; what is transparent is white."""
    grey = found.mode in ("1", "L", "LA", "La")
    if "A" in found.mode or "a" in found.mode or "transparency" in found.info:
        clear = found.convert("RGBA")
        white = pillow().new("RGBA", clear.size, (255, 255, 255, 255))
        found = pillow().alpha_composite(white, clear)
    pixels = np.asarray(found.convert("L" if grey else "RGB"))
    return pixels[None].copy() if grey else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def fit_image(pixels: Pixels, size: ImageSize) -> Pixels:
    """A picture (c, h, w) as one of this size: grey or in colour, stretched or shrunk."""
    if pixels.shape == size.shape:
        return pixels
    if pixels.shape[0] != size.channels:
        pixels = to_grey(pixels) if size.channels == 1 else np.repeat(pixels, 3, 0)
    if pixels.shape[1:] == (size.height, size.width):
        return pixels
    image = pillow()
    planes = [
        np.asarray(
            image.fromarray(plane).resize(
                (size.width, size.height), image.Resampling.BILINEAR, reducing_gap=3.0
            )
        )
        for plane in np.ascontiguousarray(pixels)
    ]
    return np.stack(planes)


def to_grey(pixels: Pixels) -> Pixels:
    """A picture (3, h, w) in shades of grey, (1, h, w): ITU-R BT.601's weights of red, green and blue."""
    grey = np.tensordot(np.array([0.299, 0.587, 0.114]), pixels.astype(np.float64), 1)
    return grey.round().astype(np.uint8)[None]


def in_colour(pixels: Pixels) -> Pixels:
    """A picture as (h, w, 3), as views draw it."""
    whole = np.repeat(pixels, 3, 0) if pixels.shape[0] == 1 else pixels
    return np.ascontiguousarray(whole.transpose(1, 2, 0))


# Labelled pictures


def labelled_images(
    images: str | Path,
    labels: str | Path | None,
    size: ImageSize | None = None,
    least: int = 2,
    chosen: Callable[[int], bool] = lambda _: True,
) -> Iterator[tuple[str, LabelledImage]]:
    """Labelled pictures and where they stand: of two IDX files, or of a folder of class folders.

    They come in this size; without it, as they are, and those of a folder as `folder_size` says. Of a folder,
    each class must have `least` pictures: 2 to train, 1 to evaluate. `chosen` says which are read, by number.
    """
    if Path(images).is_dir():
        if labels is not None:
            raise DataError(f"{images} is a folder, whose folders are the labels: --labels is not for it.")
        return _from_folder(Path(images), size or folder_size(images), least, chosen)
    if labels is None:
        raise DataError(f"{images} is a file of pictures: --labels, a file with their labels, is needed.")
    return _from_idx(images, labels, size, chosen)


def image_count(images: str | Path) -> int:
    """How many pictures there are, without reading them."""
    if Path(images).is_dir():
        return sum(map(len, class_folders(images).values()))
    return idx_shape(images)[0]


def image_size(images: str | Path) -> ImageSize:
    """The size that pictures are read in: of IDX files their own."""
    if Path(images).is_dir():
        return folder_size(images)
    shape = idx_shape(images)
    if len(shape) == 3:
        size = ImageSize(1, *shape[1:])
    elif len(shape) == 4 and shape[3] in (1, 3):
        size = ImageSize(shape[3], *shape[1:3])
    else:
        raise DataError(
            f"{images}: pictures must be (count, height, width), or (count, height, width, 3); got {shape}. "
            "Are --images and --labels the right way round?"
        )
    if not all(SMALLEST <= side <= LARGEST_SIDE for side in size.shape[1:]):
        raise DataError(
            f"{images}: pictures must be from {SMALLEST} to {LARGEST_SIDE} pixels high and wide; "
            f"got {size.height} × {size.width}."
        )
    if not shape[0]:
        raise DataError(f"{images}: there is no picture in it.")
    return size


def _from_idx(
    images: str | Path, labels: str | Path, wanted: ImageSize | None, chosen: Callable[[int], bool]
) -> Iterator[tuple[str, LabelledImage]]:
    image_size(images)  # or says what is wrong
    numbers = read_idx(labels)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise DataError(f"{labels}: labels must be whole numbers, one for each picture; got {numbers.shape}.")
    pixels = read_idx(images)
    if pixels.dtype != np.uint8:
        raise DataError(f"{images}: pictures must be bytes, from 0 to 255; got {pixels.dtype}.")
    if len(pixels) != len(numbers):
        raise DataError(
            f"{images} has {len(pixels):,} pictures and {labels} has {len(numbers):,} labels: "
            "they must be as many."
        )
    planes = pixels[:, None] if pixels.ndim == 3 else np.moveaxis(pixels, 3, 1)
    for i, (one, number) in enumerate(zip(planes, numbers.tolist(), strict=True)):
        if chosen(i):
            found = one if wanted is None else fit_image(one, wanted)
            yield f"{images}, picture {i + 1}", LabelledImage(found, str(number))


def class_folders(folder: str | Path, least: int = 2) -> dict[str, list[Path]]:
    """The pictures of each class, by the name of its folder; `least` are needed of each: 2 to train."""
    found: dict[str, list[Path]] = {}
    for place in sorted(Path(folder).iterdir()):
        if place.is_dir() and not place.name.startswith("."):
            files = [file for file in place.iterdir() if file.suffix.lower() in ENDINGS]
            found[place.name] = sorted(file for file in files if not file.name.startswith("."))
    if len(found) < least:
        raise DataError(
            f"{folder}: there must be at least {least} folders in it, one for each class; there is "
            f"{len(found) or 'none'}."
        )
    for name, files in found.items():
        if not files:
            raise DataError(f"{Path(folder) / name}: the folder of the class {name!r} has no picture.")
        if len(files) < least:
            raise DataError(
                f"{Path(folder) / name}: the class {name!r} has one picture; at least two are needed, "
                "to train and to validate on."
            )
    return found


def folder_size(folder: str | Path, most: int = 64) -> ImageSize:
    """The size that the pictures of a folder are read in: square, as the median of them, at most `most`."""
    sides, grey = [], True
    for files in class_folders(folder).values():
        for file in _spread(files, 10):
            pixels = read_image(file)
            sides.append(min(pixels.shape[1:]))
            grey = grey and pixels.shape[0] == 1
    side = int(min(most, max(8, np.median(sides))))
    return ImageSize(1 if grey else 3, side, side)


def _spread(files: Sequence[Path], count: int) -> Sequence[Path]:
    return files[:: max(1, len(files) // count)][:count]


def _from_folder(
    folder: Path, size: ImageSize, least: int, chosen: Callable[[int], bool]
) -> Iterator[tuple[str, LabelledImage]]:
    """Pictures class by class in turn, so that every part of them has all classes."""
    classes = class_folders(folder, least)
    places = [
        (k / len(files), label, file) for label, files in classes.items() for k, file in enumerate(files)
    ]
    for i, (_, label, file) in enumerate(sorted(places, key=lambda one: (one[0], one[1]))):
        if chosen(i):
            yield str(file), LabelledImage(fit_image(read_image(file), size), label)
