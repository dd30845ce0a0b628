"""Pictures from files: IDX, class folders, and what is refused in one sentence before any work."""

import gzip
import struct
from base64 import b64encode
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from regard.data import DataError
from regard.data.corpora.glyphs import GLYPHS, SIZE, glyphs
from regard.data.corpora.scenes import COLOURS, asked, captioned
from regard.data.idx import idx_shape, read_idx
from regard.data.images import (
    ImageSize,
    class_folders,
    decode,
    fit_image,
    folder_size,
    image_size,
    labelled_images,
    read_image,
    to_grey,
)

Image = pytest.importorskip("PIL.Image")


def idx(values: np.ndarray) -> bytes:
    return (
        bytes([0, 0, 8, values.ndim])
        + struct.pack(f">{values.ndim}I", *values.shape)
        + values.astype(np.uint8).tobytes()
    )


def png(pixels: np.ndarray, mode: str | None = None, kind: str = "PNG", **more) -> bytes:
    held = BytesIO()
    image = Image.fromarray(pixels) if mode is None else Image.fromarray(pixels).convert(mode)
    image.save(held, kind, **more)
    return held.getvalue()


PIXELS = np.random.default_rng(0).integers(0, 256, (5, 6, 4), dtype=np.uint8)
COLOUR = np.random.default_rng(1).integers(0, 256, (6, 4, 3), dtype=np.uint8)


@pytest.mark.parametrize("zipped", [False, True])
def test_idx_files_are_read_as_they_were_written(tmp_path, zipped):
    raw = idx(PIXELS)
    file = tmp_path / ("a.gz" if zipped else "a.idx")
    file.write_bytes(gzip.compress(raw) if zipped else raw)
    assert (read_idx(file) == PIXELS).all()
    assert idx_shape(file) == (5, 6, 4) and image_size(file) == ImageSize(1, 6, 4)


def test_labelled_idx_files_and_their_held_out_part(tmp_path):
    (tmp_path / "i").write_bytes(idx(PIXELS))
    (tmp_path / "l").write_bytes(idx(np.array([3, 1, 1, 0, 3])))
    found = [one for _, one in labelled_images(tmp_path / "i", tmp_path / "l")]
    assert [one.label for one in found] == ["3", "1", "1", "0", "3"]
    assert all((one.pixels == PIXELS[k][None]).all() for k, one in enumerate(found))
    some = labelled_images(tmp_path / "i", tmp_path / "l", chosen=lambda i: i == 2)
    assert [where for where, _ in some] == [f"{tmp_path / 'i'}, picture 3"]


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"hello", "not an IDX file"),
        (b"\0\0\x08\3\0", "header is not whole"),
        (idx(PIXELS)[:-1], "truncated"),
        (idx(PIXELS) + b"x", "more than"),
        (gzip.compress(idx(PIXELS))[:-9], "truncated or damaged"),
        (bytes([0, 0, 8, 3]) + struct.pack(">3I", 1 << 30, 1 << 20, 9), "more than"),
    ],
)
def test_a_damaged_idx_file_is_one_sentence(tmp_path, raw, says):
    (tmp_path / "bad").write_bytes(raw)
    with pytest.raises(DataError, match=says):
        read_idx(tmp_path / "bad")


def test_idx_files_that_do_not_fit_together(tmp_path):
    (tmp_path / "i").write_bytes(idx(PIXELS))
    (tmp_path / "l").write_bytes(idx(np.array([3, 1])))
    with pytest.raises(DataError, match="they must be as many"):
        list(labelled_images(tmp_path / "i", tmp_path / "l"))
    with pytest.raises(DataError, match="right way round"):
        list(labelled_images(tmp_path / "l", tmp_path / "i"))
    with pytest.raises(DataError, match="--labels"):
        list(labelled_images(tmp_path / "i", None))


def huge() -> bytes:
    """A PNG whose header says 20,000 × 20,000, and which holds nothing."""
    small = png(COLOUR)
    at = small.index(b"IHDR") + 4
    from zlib import crc32

    head = struct.pack(">II", 20_000, 20_000) + small[at + 8 : at + 13]
    return small[:at] + head + struct.pack(">I", crc32(b"IHDR" + head)) + small[at + 17 :]


def moving() -> bytes:
    held = BytesIO()
    frames = [Image.fromarray(np.full((4, 4), shade, np.uint8)) for shade in (0, 200)]
    frames[0].save(held, "GIF", save_all=True, append_images=frames[1:])
    return held.getvalue()


def deep() -> bytes:
    """A PNG of one pixel with 16 bits for each colour, which Pillow would read as 8."""
    from zlib import compress, crc32

    def part(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", crc32(kind + body))

    head = part(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 16, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + part(b"IDAT", compress(b"\0" + b"\1\2" * 3)) + part(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (png(COLOUR)[:-30], "truncated or damaged"),
        (huge(), "too large"),
        (png(COLOUR, "CMYK", "TIFF"), "CMYK"),
        (png(np.arange(24, dtype=np.uint16).reshape(6, 4)), "16 bits"),
        (deep(), "16 bits"),
        (moving(), "2 frames"),
        (b"this is a text\n", "not a picture"),
        (b"", "not a picture"),
    ],
)
def test_what_is_no_plain_picture_is_refused_in_one_sentence(tmp_path, content, says):
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(DataError, match=says) as error:
        read_image(tmp_path / "a.png")
    assert "\n" not in str(error.value) and str(tmp_path / "a.png") in str(error.value)
    with pytest.raises(DataError, match=says) as error:
        read_image("data:image/png;base64," + b64encode(content).decode())
    assert str(error.value).startswith(("the picture ", "this is not a picture")), "named once"


def test_a_file_that_is_not_there_or_a_folder(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_image(tmp_path / "a.png")
    with pytest.raises(DataError, match="cannot be read"):
        read_image(tmp_path)


def test_data_urls_hold_pictures_and_nothing_else():
    url = "data:image/png;base64," + b64encode(png(COLOUR)).decode()
    assert (read_image(url) == COLOUR.transpose(2, 0, 1)).all()
    for wrong in ("data:image/png;base64,%%%", "data:image/png,abc", "data:image/png;base64,aGVsbG8="):
        with pytest.raises(DataError):
            read_image(wrong)


def test_rotation_of_the_camera_and_transparency():
    exif = Image.Exif()
    exif[0x0112] = 6  # turn it by 90 degrees clockwise
    turned = decode(png(COLOUR, exif=exif), "a")
    assert (turned == np.rot90(COLOUR, -1).transpose(2, 0, 1)).all()
    clear = np.concatenate([COLOUR, np.zeros((6, 4, 1), np.uint8)], -1)
    assert (decode(png(clear), "a") == 255).all()


def test_a_picture_is_fitted_to_the_size_of_a_model():
    picture = COLOUR.transpose(2, 0, 1)
    assert fit_image(picture, ImageSize(3, 6, 4)) is picture
    assert fit_image(picture, ImageSize(1, 12, 8)).shape == (1, 12, 8)
    assert (fit_image(PIXELS[:1], ImageSize(3, 6, 4)) == PIXELS[0]).all()
    expected = (0.299 * COLOUR[..., 0] + 0.587 * COLOUR[..., 1] + 0.114 * COLOUR[..., 2]).round()
    assert (to_grey(picture)[0] == expected).all()


def write(folder: Path, classes: dict[str, int]) -> Path:
    for name, count in classes.items():
        (folder / name).mkdir(parents=True)
        for k in range(count):
            (folder / name / f"{k}.png").write_bytes(png(COLOUR))
    return folder


def test_a_folder_of_class_folders(tmp_path):
    folder = write(tmp_path, {"b": 3, "a": 2})
    (folder / "notes.txt").write_text("not a class")
    assert {name: len(files) for name, files in class_folders(folder).items()} == {"a": 2, "b": 3}
    assert folder_size(folder) == ImageSize(3, 8, 8)  # at least 8 pixels
    labels = [one.label for _, one in labelled_images(folder, None)]
    assert labels == ["a", "b", "b", "a", "b"]  # every part has all classes


@pytest.mark.parametrize(
    ("classes", "says"),
    [({"a": 2, "b": 0}, "no picture"), ({"a": 2, "b": 1}, "one picture"), ({"a": 2}, "at least 2 folders")],
)
def test_class_folders_that_cannot_be_learned_from(tmp_path, classes, says):
    with pytest.raises(DataError, match=says):
        list(labelled_images(write(tmp_path, classes), None))


def test_a_generated_glyph_stands_in_its_box():
    stream = glyphs(3, "train")
    for _ in range(20):
        one = next(stream)
        top, left, bottom, right = one.box
        assert one.pixels.shape == (1, 32, 32) and bottom - top == right - left == SIZE
        inside = one.pixels[0, top:bottom, left:right].astype(float)
        ink = GLYPHS[one.label]
        assert inside[ink].mean() > inside[~ink].mean() + 80


def test_generated_scenes_say_what_is_in_them():
    stream = captioned(0, "train")
    for _ in range(20):
        one = next(stream)
        words = one.caption.split()
        assert len(words) == len(one.boxes)
        for word, box in zip(words, one.boxes, strict=True):
            assert (box is None) == (
                word not in COLOURS and word not in ("circle", "square", "triangle", "cross")
            )
            if word in COLOURS and box is not None:
                top, left, bottom, right = box
                middle = one.pixels[:, (top + bottom) // 2, (left + right) // 2].astype(float)
                assert np.abs(middle - COLOURS[word]).max() < 60


def test_the_answer_of_a_generated_question_is_in_its_box():
    stream = asked(0, "valid")
    for _ in range(20):
        one = next(stream)
        top, left, bottom, right = one.box
        if one.label in COLOURS:
            middle = one.pixels[:, (top + bottom) // 2, (left + right) // 2].astype(float)
            assert np.abs(middle - COLOURS[one.label]).max() < 60
        assert one.question.startswith("what ")


def test_splits_differ_and_seeds_repeat():
    first, again, other = (
        next(glyphs(seed, split)) for seed, split in ((1, "train"), (1, "train"), (1, "test"))
    )
    assert (first.pixels == again.pixels).all()
    assert not (first.pixels == other.pixels).all()
