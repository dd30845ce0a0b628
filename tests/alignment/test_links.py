"""Links in files: both formats, both ways to count, and every wrong file named with its line."""

import random

import pytest

from regard.alignment.formats import read, said_skipped, write, write_naacl
from regard.alignment.links import Links
from regard.data.text import DataError

SIZES = [(3, 2), (2, 4)]
GOLD = [
    Links(frozenset({(0, 0), (2, 1)}), frozenset({(1, 1)})),
    Links(frozenset({(1, 3)}), frozenset({(0, 0)})),
]


def file(tmp_path, text):
    path = tmp_path / "links"
    path.write_text(text, encoding="utf-8")
    return path


def complaint(tmp_path, text, sizes=SIZES, **settings):
    with pytest.raises(DataError) as error:
        read(file(tmp_path, text), sizes, **settings)
    message = str(error.value)
    assert "\n" not in message and str(tmp_path / "links") in message
    return message.removeprefix(str(tmp_path / "links"))


def test_possible_links_include_the_sure_ones():
    assert GOLD[0].possible == {(0, 0), (2, 1), (1, 1)}
    assert GOLD[0].reversed().sure == {(0, 0), (1, 2)}
    assert Links.of([(0, 1)]) == Links(frozenset({(0, 1)}), frozenset({(0, 1)}))


@pytest.mark.parametrize("base", [0, 1])
def test_pharaoh_counted_from_either_is_read_as_it_was_written(tmp_path, base):
    text = "\n".join(write(GOLD, base=base)) + "\n"
    assert text.splitlines()[0] == ("0-0 1p1 2-1" if base == 0 else "1-1 2p2 3-2")
    assert read(file(tmp_path, text), SIZES) == GOLD
    assert read(file(tmp_path, text), SIZES, base=base, gold=True) == GOLD


def test_naacl_is_read_as_it_was_written(tmp_path):
    text = "\n".join(write_naacl(GOLD)) + "\n"
    assert text.splitlines()[1] == "0001 2 2 P"
    assert read(file(tmp_path, text), SIZES) == GOLD
    assert (
        read(file(tmp_path, "0001 1 1\n1 3 2 S 0.75\n1 2 2 P\n2 2 4\n0002 1 1 P\n2 0 3 S\n"), SIZES) == GOLD
    )


@pytest.mark.parametrize("seed", range(20))
def test_any_links_survive_both_formats(tmp_path, seed):
    chance = random.Random(seed)
    sizes = [(chance.randint(1, 5), chance.randint(1, 5)) for _ in range(4)]
    links = []
    for n, m in sizes:
        every = [(i, j) for i in range(n) for j in range(m)]
        sure, possible = (chance.sample(every, chance.randint(0, len(every))) for _ in range(2))
        links.append(Links(frozenset(sure), frozenset(possible) | {(0, 0), (n - 1, m - 1)}))
    for lines in (write(links), write(links, base=1), write_naacl(links)):
        assert read(file(tmp_path, "\n".join(lines) + "\n"), sizes) == links


def test_what_is_wrong_is_said_with_its_line(tmp_path):
    assert complaint(tmp_path, "0-0\n0-4\n", base=0) == (
        ", line 2: 0-4 is out of range: the target has 4 words, counted from 0."
    )
    assert complaint(tmp_path, "0-0\n5-1\n").startswith(
        ", line 2: 5-1 is out of range: the source has 2 words"
    )
    mixed = complaint(tmp_path, "0-0 1-1\n1-1 2-4\n")
    assert mixed.startswith(", line 2: a word beyond the end if counted from 0, but line 1 has a word 0.")
    assert "0-0 is out of range" in complaint(tmp_path, "0-0\n1-1\n", base=1)
    assert "counts from 0 or from 1" in complaint(tmp_path, "1-1\n1-1\n")
    assert complaint(tmp_path, "0-0\n") == " ends after line 1, and there are 2 sentences."
    assert complaint(tmp_path, "0-0\n0-0\n0-0\n", gold=True) == ", line 3: there are only 2 sentences."
    assert complaint(tmp_path, "0-0\n\n", gold=True).startswith(
        ", line 2: no links, and the sentence has words"
    )
    assert "found '0:0'" in complaint(tmp_path, "0:0\n0-0\n")
    assert "found '-1-0'" in complaint(tmp_path, "-1-0\n0-0\n")
    assert "the file is empty" in complaint(tmp_path, "")


def test_what_is_wrong_with_naacl_is_said_with_its_line(tmp_path):
    assert complaint(tmp_path, "1 1 1\n3 1 1\n") == ", line 2: sentence 3, and there are 2, from 1."
    assert complaint(tmp_path, "1 1 1\n\n2 1 1\n") == ", line 2: an empty line."
    assert "4-1 is out of range" in complaint(tmp_path, "1 1 1\n1 4 1\n")
    assert "found '1 1 1 X'" in complaint(tmp_path, "1 1 1\n1 1 1 X\n")


def test_a_gold_file_may_know_the_first_sentences_alone_and_found_links_may_be_none(tmp_path):
    assert read(file(tmp_path, "0-0\n"), SIZES, gold=True) == [Links.of([(0, 0)])]
    assert read(file(tmp_path, "0-0\n\n"), SIZES) == [Links.of([(0, 0)]), Links.of([])]
    assert read(file(tmp_path, "0-0\n\n"), [(3, 2), (0, 4)], gold=True)[1] == Links.of([])
    with pytest.raises(ValueError, match="base must be 0 or 1"):
        read(file(tmp_path, "0-0\n"), SIZES, base=2)


@pytest.mark.parametrize("base", [0, 1])
def test_links_out_of_range_can_be_skipped_and_are_counted(tmp_path, base):
    lines = list(write(GOLD, base=base))
    wrong = [lines[0] + f" {3 + base}-{base}", f"{base}p{4 + base} " + lines[1]]
    path, skipped = file(tmp_path, "\n".join(wrong) + "\n"), []
    assert (
        read(path, SIZES, gold=True, skipped=skipped) == GOLD
    )  # what it counts from is found out all the same
    assert len(skipped) == 2 and skipped[0].startswith(f"{path}, line 1: {3 + base}-{base} is out of range")
    assert said_skipped(skipped) == [f"2 gold links skipped; the first: {skipped[0]}"]
    assert said_skipped([]) == []


def test_naacl_links_out_of_range_can_be_skipped_and_are_counted(tmp_path):
    path = file(tmp_path, "\n".join([*write_naacl(GOLD), "2 3 1 S", "2 1 5 P"]) + "\n")
    skipped = []
    assert read(path, SIZES, gold=True, skipped=skipped) == GOLD
    assert [line.split(": ")[0] for line in skipped] == [f"{path}, line 6", f"{path}, line 7"]


def test_what_a_file_counts_from_is_asked_where_links_out_of_range_leave_it_open(tmp_path):
    assert "word 0" in complaint(tmp_path, "0-0\n1-4\n", skipped=[])
    assert "counts from 0 or from 1" in complaint(tmp_path, "1-1\n1-1\n", skipped=[])
