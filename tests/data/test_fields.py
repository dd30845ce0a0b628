"""Named fields of any type and shape, on disk as they were given."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.rows import old_corpus
from regard.data import DataError, Encoded, Field
from regard.data.encoded import OldFormatError
from regard.data.fields import number_field, token_field

DTYPES = ["|u1", "<u2", "<u4", "<i8", "<f4", "<f8", "|b1", "<f2"]
SHAPES = [(None,), (), (1, 2, 3), (None, 4), (5,)]
EVERY = {
    "tokens": token_field(300),
    "label": number_field(),
    "share": number_field("<f4"),
    "image": Field("|u1", (1, 2, 2)),
    "boxes": Field("<f4", (None, 4)),
}


def row(n=3, many=2, **others):
    """An example with all kinds of fields."""
    return {
        "tokens": list(range(n)),
        "label": 2,
        "share": 0.5,
        "image": np.arange(4, dtype="u1").reshape(1, 2, 2),
        "boxes": np.arange(many * 4, dtype="f4").reshape(many, 4),
        **others,
    }


def test_a_field_knows_whether_its_length_differs_and_its_other_sizes():
    assert [Field("<f4", shape).ragged for shape in SHAPES] == [True, False, False, True, False]
    assert [Field("<f4", shape).fixed for shape in SHAPES] == [(), (), (1, 2, 3), (4,), (5,)]
    assert (token_field(2**16).dtype, token_field(2**16 + 1).dtype) == ("<u2", "<u4")
    assert token_field(9).shape == (None,) and number_field() == Field("<i8", ())
    with pytest.raises(
        ValueError, match=r"only the first axis of a field can differ in length; got \(2, None\)"
    ):
        Field("<f4", (2, None))
    with pytest.raises(TypeError):
        Field("no type")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_type_and_shape_comes_back(tmp_path, dtype, shape):
    chance = np.random.default_rng(1)
    sizes = [[n if size is None else size for size in shape] for n in (3, 1, 5)]
    values = [chance.integers(0, 2 if dtype == "|b1" else 200, size).astype(dtype) for size in sizes]
    encoded = Encoded.make([{"it": value} for value in values], {"it": Field(dtype, shape)}, tmp_path / "it")
    assert len(encoded) == 3 and encoded.fields == {"it": Field(dtype, shape)}
    for found, value in zip(encoded, values, strict=True):
        assert found["it"].dtype == np.dtype(dtype) and found["it"].shape == value.shape
        assert (found["it"] == value).all()
    assert encoded.lengths.tolist() == ([[3], [1], [5]] if encoded.ragged else [[1], [1], [1]])
    assert isinstance(encoded.values["it"], np.memmap)  # of any size, without reading it into memory
    files = sorted(os.listdir(tmp_path / "it"))
    assert files == ["about.json", "it.bin", *(["offsets"] if encoded.ragged else [])]


def test_all_kinds_of_fields_together(tmp_path):
    rows = [row(3, 2), row(1, 7, label=-1), row(2, 1, share=0.25)]
    made = Encoded.make(iter(rows), EVERY, tmp_path / "corpus")
    again = Encoded.open(tmp_path / "corpus")
    assert again.ragged == ("tokens", "boxes")
    assert again.lengths.tolist() == [[3, 2], [1, 7], [2, 1]]
    assert again.fingerprint == made.fingerprint
    for found, wanted in zip(again, rows, strict=True):
        for name in EVERY:
            assert (found[name] == np.asarray(wanted[name])).all(), name
    padded = again.gather("boxes", np.array([2, 0]), pad=9)
    assert padded.shape == (2, 2, 4) and (padded[0, 1] == 9).all() and (padded[1] == rows[0]["boxes"]).all()
    assert again.gather("tokens", np.array([1, 0])).tolist() == [[0, 0, 0], [0, 1, 2]]
    assert again.gather("share", np.array([2, 2, 0])).tolist() == [0.25, 0.25, 0.5]
    assert again.gather("image", np.array([1])).shape == (1, 1, 2, 2)


def test_the_fingerprint_is_of_every_field(tmp_path):
    changes = [
        {},
        {"label": 3},
        {"share": 0.75},
        {"image": np.zeros((1, 2, 2), "u1")},
        {"tokens": [0, 1, 3]},
        {"boxes": np.ones((2, 4), "f4")},
    ]
    found = [
        Encoded.make([row(), row(**change)], EVERY, tmp_path / str(k)).fingerprint
        for k, change in enumerate(changes)
    ]
    assert len(set(found)) == len(changes)
    assert found[0] == Encoded.make([row(), row()], EVERY, tmp_path / "again").fingerprint
    apart = [{"tokens": [1, 2]}, {"tokens": [3]}], [{"tokens": [1]}, {"tokens": [2, 3]}]  # the same values
    one, other = (
        Encoded.make(rows, {"tokens": token_field(9)}, tmp_path / "t").fingerprint for rows in apart
    )
    assert one != other


@settings(max_examples=30)
@given(st.lists(st.sampled_from(["good", "none", "empty", "no boxes", "long", "many boxes"]), max_size=12))
def test_empty_and_too_long_examples_are_counted(tmp_path_factory, kinds):
    rows = {
        "good": row(4, 3),
        "none": None,
        "empty": row(0),
        "no boxes": row(9, 0),
        "long": row(5),
        "many boxes": row(4, 4),
    }
    folder = tmp_path_factory.mktemp("counted") / "corpus"
    longest = {"tokens": 4, "boxes": 3}
    empty = sum(kind in ("none", "empty", "no boxes") for kind in kinds)
    long = sum(kind in ("long", "many boxes") for kind in kinds)
    if "good" not in kinds:
        said = f"{empty} are empty, {long} are longer than allowed \\(4 for tokens, 3 for boxes\\)"
        with pytest.raises(DataError, match=said):
            Encoded.make([rows[kind] for kind in kinds], EVERY, folder, longest)
        assert not folder.exists()
        return
    encoded = Encoded.make([rows[kind] for kind in kinds], EVERY, folder, longest)
    assert (len(encoded), encoded.empty, encoded.too_long) == (kinds.count("good"), empty, long)
    assert encoded.empty + encoded.too_long == empty + long and len(Encoded.open(folder)) == len(encoded)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("image", np.zeros((2, 2, 1), "u1"), r"image must be \(1, 2, 2\); got \(2, 2, 1\)"),
        ("image", np.zeros(4, "u1"), r"image must be \(1, 2, 2\); got \(4,\)"),
        ("label", [1], r"label must be \(\); got \(1,\)"),
        ("boxes", np.zeros((4, 3), "f4"), r"boxes must be \(None, 4\); got \(4, 3\)"),
        ("tokens", np.zeros((2, 2)), r"tokens must be \(None,\); got \(2, 2\)"),
    ],
)
def test_a_value_of_another_shape_is_refused(tmp_path, field, value, said):
    with pytest.raises(ValueError, match=said):
        Encoded.make([row(), row(**{field: value})], EVERY, tmp_path / "corpus")
    assert os.listdir(tmp_path) == []


def test_sizes_that_cancel_out_are_noticed(tmp_path):
    rows = [{"pair": [1, 2, 3]}, {"pair": [1]}]
    with pytest.raises(ValueError, match=r"pair must be \(2,\); got \(3,\)"):
        Encoded.make(rows, {"pair": Field("<i8", (2,))}, tmp_path / "corpus")


@pytest.mark.parametrize(
    "name", ["tokens.bin", "label.bin", "image.bin", "boxes.bin", "offsets", "about.json"]
)
def test_damage_to_any_file_is_noticed(tmp_path, name):
    Encoded.make([row(), row()], EVERY, tmp_path / "corpus")
    file = tmp_path / "corpus" / name
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"the encoded corpus is damaged \(.+\)\. Make it again"):
        Encoded.open(tmp_path / "corpus")
    file.unlink()
    with pytest.raises(DataError, match="there is no encoded corpus"):
        Encoded.open(tmp_path / "corpus")


def test_a_corpus_of_another_version_is_refused_in_a_sentence_and_can_be_replaced(tmp_path):
    old_corpus(tmp_path / "corpus")
    with pytest.raises(
        OldFormatError, match=r"corpus: encoded by another version of regard\. Make it again\.$"
    ):
        Encoded.open(tmp_path / "corpus")
    assert issubclass(OldFormatError, DataError)
    assert len(Encoded.make([row()], EVERY, tmp_path / "corpus")) == 1
    assert "source.ids" not in os.listdir(tmp_path / "corpus")
