"""What is held out to validate on, where no file for that was given."""

import os

import pytest

from regard.data import DataError
from regard.data.splits import held_out


class Numbers:
    """A file of numbers, one per line, and how often it was read to its end."""

    def __init__(self, path, count):
        self.path, self.reads = path, 0
        self.write(count)

    def write(self, count):
        self.path.write_text("\n".join(map(str, range(count))))

    def read(self):
        yield from map(int, self.path.read_text().split())
        self.reads += 1

    def part(self, part, most=1000):
        return list(held_out(self.read, [str(self.path)], part, most, "number"))


@pytest.mark.parametrize(
    ("count", "most", "stride"),
    [(2, 1000, 2), (9, 1000, 2), (10, 1000, 10), (95, 1000, 10), (95, 3, 31), (95, 95, 10), (1000, 50, 20)],
)
def test_every_kth_is_held_out_and_the_rest_is_learned_from(tmp_path, count, most, stride):
    numbers = Numbers(tmp_path / "numbers", count)
    valid, train = numbers.part("valid", most), numbers.part("train", most)
    assert valid == list(range(0, count, stride))
    assert sorted([*valid, *train]) == list(range(count)) and train == sorted(train)
    assert len(valid) <= max(1, most + 1, count // 10)


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_are_refused(tmp_path, count):
    with pytest.raises(
        DataError, match=f"numbers has {count} number; at least 2 are needed, one of them held out"
    ):
        Numbers(tmp_path / "numbers", count).part("train")


def test_a_file_is_counted_once_for_each_version_of_it(tmp_path):
    numbers = Numbers(tmp_path / "numbers", 40)
    for part in ("train", "valid", "train"):
        numbers.part(part)
    assert numbers.reads == 1 + 3  # counted once, read three times
    numbers.write(80)
    assert numbers.part("valid") == list(range(0, 80, 10)) and numbers.reads == 4 + 2
    os.utime(numbers.path, ns=(1, 1))  # written again
    assert numbers.part("valid", 4) == list(range(0, 80, 20)) and numbers.reads == 6 + 2
