"""Words and their pieces: every piece has its word, whatever the text holds."""

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import Tokenizer
from regard.serve.words import pieces_of, without, words_of

LINES = ["the film begins at half past eight, ok", "Je suis étudiant", "a b c é 日本 \x00"] * 3


def tokenizer(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Tokenizer.train(LINES, kind, 320 if kind == "bpe" else 40)


TOKENIZERS = {kind: tokenizer(kind) for kind in ("bpe", "word", "character")}
letters = st.sampled_from([*"abtefilm é日,<>&\x00\x1c\x1f\t\u00a0\u2028\u3000", "👩‍🚀", "e\u0301", "\u05d0"])
texts = st.lists(letters, max_size=25).map("".join)
every_kind = pytest.mark.parametrize("kind", TOKENIZERS)


@every_kind
@given(text=texts)
def test_every_piece_has_a_word_and_every_word_a_piece(kind, text):
    found = pieces_of(TOKENIZERS[kind], text)
    assert len(found) == len(TOKENIZERS[kind].encode(text))
    assert found == sorted(found)  # words come one after the other
    words = words_of(text)
    assert set(found) == set(range(len(words))) or (not words and set(found) <= {0})


@given(text=texts)
def test_the_pieces_of_a_word_are_that_word(text):
    bpe = TOKENIZERS["bpe"]
    words, ids, places = words_of(text), bpe.encode(text), pieces_of(bpe, text)
    for number, word in enumerate(words):
        own = bpe.decode([i for i, place in zip(ids, places, strict=True) if place == number])
        assert words_of(own) == [word]


@given(text=texts, data=st.data())
def test_what_is_taken_away_leaves_the_other_words(text, data):
    words = words_of(text)
    gone = data.draw(st.sets(st.integers(0, max(len(words) - 1, 0))))
    assert words_of(without(text, gone)) == [word for i, word in enumerate(words) if i not in gone]
    assert without(text, set()) == text


@pytest.mark.parametrize(
    ("text", "gone", "left"),
    [
        ("a  b c", {1}, "a  c"),
        ("a b", {1}, "a"),
        ("a b", {0}, "b"),
        (" a b ", {0, 1}, ""),
        ("a\tb\u3000c", {0}, "b\u3000c"),
    ],
)
def test_a_word_leaves_with_the_space_after_it(text, gone, left):
    assert without(text, gone) == left
