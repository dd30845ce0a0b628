"""The toy transductions do what they say."""

from collections import Counter
from itertools import islice

import pytest

from regard.data.corpora import copy, dictionary, reverse
from regard.data.corpora.toys import flip

every_toy = pytest.mark.parametrize("toy", [copy, reverse, flip, dictionary])


def some(toy, n=2000, **settings):
    return list(islice(toy(**settings), n))


def test_copy():
    for source, target, alignment in some(copy):
        assert source == target
        assert alignment == [(i, i) for i in range(len(source.split()))]


def test_reverse():
    for source, target, alignment in some(reverse):
        n = len(source.split())
        assert target.split() == source.split()[::-1]
        assert alignment == [(i, n - 1 - i) for i in range(n)]


def test_flip():
    for source, target, alignment in some(flip):
        ours, theirs = source.split(), target.split()
        whole = len(ours) // 2 * 2
        pairs = [(ours[i + 1], ours[i]) for i in range(0, whole, 2)]
        assert theirs == [word for pair in pairs for word in pair] + ours[whole:]
        assert all(ours[i] == theirs[j] for i, j in alignment)


def test_dictionary_is_one_to_one_and_its_order_is_of_the_source():
    translation, crossing = {}, 0
    for source, target, alignment in some(dictionary):
        ours, theirs = source.split(), target.split()
        assert sorted(i for i, _ in alignment) == sorted(j for _, j in alignment) == list(range(len(ours)))
        assert all(abs(i - j) <= 1 for i, j in alignment)
        for i, j in alignment:
            assert translation.setdefault(ours[i], theirs[j]) == theirs[j]
        crossing += any(i != j for i, j in alignment)
    assert len(translation) == len(set(translation.values())) == 20
    assert not set(translation) & set(translation.values())
    assert crossing > 1500
    assert dict(some(dictionary, seed=0)[0]._asdict()) != dict(some(dictionary, seed=1)[0]._asdict())


def test_an_adjective_comes_after_its_noun():
    adjectives = set()
    found = some(dictionary, shortest=2, longest=2, split="train")
    for source, _, alignment in found:
        first, second = source.split()
        if alignment == [(0, 1), (1, 0)]:
            adjectives.add(first)
    assert len(adjectives) == 10
    for source, _, alignment in found:
        first, second = source.split()
        assert (alignment == [(0, 1), (1, 0)]) == (first in adjectives and second not in adjectives)


@every_toy
def test_lengths_and_words_are_as_asked(toy):
    lengths = Counter(len(pair.source.split()) for pair in some(toy))
    assert set(lengths) == set(range(3, 21))
    assert len({word for pair in some(toy) for word in pair.source.split()}) == 20
    found = some(toy, vocabulary=200, shortest=40, longest=40)
    assert {len(pair.source.split()) for pair in found} == {40}
    assert len({word for pair in found for word in pair.source.split()}) == 200


@every_toy
def test_splits_share_no_sentence(toy):
    train, valid, test = (
        {p.source for p in some(toy, split=s, longest=4)} for s in ("train", "valid", "test")
    )
    assert train and valid and test
    assert not (train & valid or train & test or valid & test)


@every_toy
def test_the_same_seed_gives_the_same_stream(toy):
    assert some(toy, 50, seed=1) == some(toy, 50, seed=1) != some(toy, 50, seed=2)


@every_toy
def test_bad_settings_are_named(toy):
    with pytest.raises(ValueError, match="vocabulary must be at least 2; got 1"):
        toy(vocabulary=1)
    with pytest.raises(ValueError, match="shortest must be from 1 to longest; got 5 and 4"):
        toy(shortest=5, longest=4)
