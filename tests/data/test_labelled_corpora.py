"""Generated texts: the highlights are what decides, and splits do not overlap."""

from itertools import islice

import pytest

from regard.data import LABELLED
from regard.data.corpora import agreement as grammar
from regard.data.corpora import hotels as reviews
from regard.data.corpora.agreement import agreement
from regard.data.corpora.hotels import hotels
from regard.data.corpora.sentiment import NEGATIVE, NEUTRAL, POSITIVE, sentiment

every_corpus = pytest.mark.parametrize("name", LABELLED)


def some(stream, count=300):
    return list(islice(stream, count))


@every_corpus
def test_the_same_seed_gives_the_same_texts_and_splits_share_none(name):
    corpus = LABELLED[name]
    assert some(corpus(3)) == some(corpus(3))
    assert some(corpus(3)) != some(corpus(4))
    parts = [{text.text for text in some(corpus(0, split))} for split in ("train", "valid", "test")]
    assert not (parts[0] & parts[1] | parts[0] & parts[2] | parts[1] & parts[2])


@every_corpus
def test_classes_are_even_and_highlights_are_whole_words(name):
    texts = some(LABELLED[name](), 1000)
    labels = [text.label for text in texts]
    assert {0.4 < labels.count(label) / 1000 < 0.6 for label in set(labels)} == {True}
    assert len(set(labels)) == 2
    for text in texts:
        words = [word for word, chosen in zip(text.text.split(), text.highlighted, strict=True) if chosen]
        assert words == [word for a, b in text.highlights for word in text.text[a:b].split()]
        assert words


@pytest.mark.parametrize("settings", [{}, {"length": 10, "most": 1}, {"length": 40, "sentences": 10}])
def test_sentiment_is_what_most_words_say(settings):
    assert len(POSITIVE) == len(NEGATIVE) == 20 and len(NEUTRAL) == 160
    assert len({*POSITIVE, *NEGATIVE, *NEUTRAL}) == 200
    for text in some(sentiment(**settings)):
        words = text.text.split()
        good, bad = (sum(word in side for word in words) for side in (POSITIVE, NEGATIVE))
        assert text.label == ("positive" if good > bad else "negative")
        ours = POSITIVE if good > bad else NEGATIVE
        assert text.highlighted == [word in ours for word in words]
        assert 1 <= max(good, bad) <= settings.get("most", 3) and min(good, bad) <= 1
        assert len(words) - words.count(".") == settings.get("length", 24)
        assert words.count(".") == settings.get("sentences", 0)


def test_agreement_is_with_the_first_noun_after_any_comma():
    numbers = {noun: k for pair in grammar.NOUNS for k, noun in enumerate(pair)}
    counts = set()
    for text in some(agreement(), 600):
        words = text.text.split()
        start = words.index(",") if "," in words else -1
        nouns = [i for i, word in enumerate(words) if word in numbers and i > start]
        assert text.label == ("singular", "plural")[numbers[words[nouns[0]]]]
        assert [i for i, chosen in enumerate(text.highlighted) if chosen] == nouns[:1]
        counts.add(sum(numbers[words[i]] != numbers[words[nouns[0]]] for i in nouns[1:]))
    assert counts == {0, 1, 2, 3}


def test_hotels_are_the_same_texts_for_every_aspect():
    found = {aspect: some(hotels(aspect=aspect)) for aspect in (None, *reviews.NOUNS)}
    for whole, *aspects in zip(*found.values(), strict=True):
        assert {text.text for text in aspects} == {whole.text}
        for aspect, text in zip(reviews.NOUNS, aspects, strict=True):
            ((a, b),) = text.highlights
            adjective, noun = text.text[a:b].split()
            assert noun in reviews.NOUNS[aspect]
            assert adjective in (reviews.POSITIVE if text.label == "positive" else reviews.NEGATIVE)
        labels = [text.label for text in aspects]
        assert whole.label == max(set(labels), key=labels.count)
        assert set(whole.highlights) == {t.highlights[0] for t in aspects if t.label == whole.label}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sentiment(most=0), "most"),
        (lambda: sentiment(length=3, most=3), "most"),
        (lambda: sentiment(sentences=5), "divide"),
        (lambda: agreement(most=-1), "most"),
        (lambda: hotels(aspect="price"), "location, cleanliness, service"),
        (lambda: hotels(beside=-1), "beside"),
    ],
)
def test_impossible_settings_are_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()
