"""Files that are whole or not there, and weights in them."""

import pytest
import torch
from torch import nn

from regard.core.errors import WeightsError
from regard.core.files import beside, write_text
from regard.core.weights import load_tensors, put_tensors, save_tensors, tensors_of


def test_a_failed_write_leaves_what_was_there(tmp_path):
    file = write_text(tmp_path / "new" / "a.txt", "first")

    def fail():
        with beside(file) as draft:
            draft.write_text("half")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        fail()
    assert file.read_text() == "first"
    assert [f.name for f in file.parent.iterdir()] == ["a.txt"]


def test_a_folder_takes_the_place_of_another(tmp_path):
    for content in ("one", "two"):
        with beside(tmp_path / "folder") as draft:
            draft.mkdir()
            (draft / "file").write_text(content)
    assert (tmp_path / "folder" / "file").read_text() == "two"
    assert len(list(tmp_path.iterdir())) == 1


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.read = nn.Embedding(5, 3), nn.Linear(3, 5)
        self.read.weight = self.embed.weight
        self.register_buffer("count", torch.tensor(3))


def test_tied_weights_are_saved_once_and_come_back(tmp_path):
    one, other = Tied(), Tied()
    tensors = tensors_of(one)
    assert set(tensors) == {"embed.weight", "read.bias", "count"}
    save_tensors(tensors, tmp_path / "w.safetensors")
    put_tensors(other, load_tensors(tmp_path / "w.safetensors"), "w")
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    assert other.read.weight is other.embed.weight


def test_the_weights_of_another_model_are_refused(tmp_path):
    with pytest.raises(
        WeightsError, match=r"here holds the weights of another model \(missing: weight, bias; unknown: x\)"
    ):
        put_tensors(nn.Linear(2, 2), {"x": torch.zeros(1)}, "here")
    with pytest.raises(WeightsError, match="of another shape: weight"):
        put_tensors(nn.Linear(2, 2), nn.Linear(3, 2).state_dict(), "here")
    (tmp_path / "broken").write_bytes(b"no tensors")
    with pytest.raises(WeightsError, match="cannot be read as safetensors"):
        load_tensors(tmp_path / "broken")


def test_weights_can_be_read_by_whom_other_files_can(tmp_path):
    save_tensors({"x": torch.ones(2)}, tmp_path / "weights.safetensors")
    other = write_text(tmp_path / "a.txt", "a")
    assert (tmp_path / "weights.safetensors").stat().st_mode == other.stat().st_mode
