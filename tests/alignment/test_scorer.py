"""Error rates: by hand, as a slow definition, and as published for systems of others."""

import random
import re

import pytest

from alignment import published
from regard.alignment.error_rate import score
from regard.alignment.formats import read
from regard.alignment.links import Links


def test_by_hand():
    gold = [Links(frozenset({(0, 0), (1, 1)}), frozenset({(2, 2)}))]
    found = score([Links.of([(0, 0), (2, 2), (0, 2)])], gold)
    assert found.precision == pytest.approx(2 / 3)
    assert found.recall == pytest.approx(1 / 2)
    assert found.aer == pytest.approx(1 - (1 + 2) / (3 + 2))
    assert (found.links, found.sentences) == (3, 1)


def test_the_ends():
    gold = [Links(frozenset({(0, 0)}), frozenset({(1, 1)}))]
    assert score(gold, gold).aer == 0
    assert score([Links.of([(0, 0), (1, 1)])], gold).aer == 0  # possible links cost nothing
    assert score([Links.of([])], gold).aer == 1
    assert score([Links.of([])], [Links.of([])]).aer == 0
    with pytest.raises(ValueError, match="as many; got 1 and 0"):
        score(gold, [])


def test_words_that_gold_leaves_unaligned_can_be_left_out():
    gold = [Links.of([(0, 0), (2, 1)])]
    found = [Links.of([(0, 0), (1, 0), (2, 0)])]  # source word 1 has no gold link
    assert score(found, gold).precision == pytest.approx(1 / 3)
    assert score(found, gold, aligned_words=True).precision == pytest.approx(1 / 2)
    assert score(found, gold, aligned_words=True).recall == pytest.approx(1 / 2)


def test_where_all_gold_is_sure_it_is_one_minus_f():
    chance = random.Random(0)
    every = [(i, j) for i in range(4) for j in range(4)]
    found, gold = ([Links.of(chance.sample(every, 5)) for _ in range(20)] for _ in range(2))
    scores = score(found, gold)
    f = 2 * scores.precision * scores.recall / (scores.precision + scores.recall)
    assert scores.aer == pytest.approx(1 - f)


@published.needed
@pytest.mark.parametrize("system", ["giza", "fastalign"])
def test_the_published_error_rates_come_out(system):
    gold = read(published.FOLDER / "test.gold", published.sizes(), gold=True)
    folder = published.FOLDER / "baselines"
    reported = (folder / f"{system}-published.txt").read_text()
    seen = 0
    for file in sorted(folder.glob(f"{system}.*.talp")):
        kind = file.name.split(".")[1]
        name = "test.enfr.talp" if kind == "forward" else f"test.enfr.{kind}.talp"
        figures = re.search(rf"^{name}: (.*)% \((.*)%/(.*)%/", reported, re.M)
        aer, precision, recall = map(float, figures.groups())
        sizes = [size[::-1] for size in published.sizes()] if kind == "reverse" else published.sizes()
        found = read(file, sizes)
        scores = score([x.reversed() for x in found] if kind == "reverse" else found, gold)
        assert 100 * scores.aer == pytest.approx(aer, abs=0.1)
        assert 100 * scores.precision == pytest.approx(precision, abs=0.2)  # some files have two links less
        assert 100 * scores.recall == pytest.approx(recall, abs=0.2)  # than the tables that go with them
        seen += 1
    assert seen == 6
