"""Documents: windows over lines, tokens and words of texts of several lines, the corpus of pronouns."""

import warnings
from itertools import islice

import pytest

from regard.core.tokens import EOS
from regard.data import CORPORA, Tokenizer
from regard.data.context_lines import LineTokenizer, Window, last_lines, remaining_lines, windows
from regard.data.corpora.pronouns import GENDERS, NOUNS, PRONOUNS
from regard.data.segments import segments


def test_lines_come_with_those_before_them_in_their_document():
    window = Window(2, "<d>")
    found = [window(line) for line in ["a", "b", "c", "d", " ", "e", "f", "<d>", "g", "h\vi"]]
    assert found == ["a", "a\nb", "a\nb\nc", "b\nc\nd", "", "e", "e\nf", "", "g", "g\nh i"]
    pairs = [("a", "A"), ("b", "B"), ("", ""), ("c", "C")]
    assert list(windows(pairs, 1)) == [("a", "A"), ("a\nb", "B"), ("c", "C")]
    assert [last_lines("a\nb\nc", k) for k in range(4)] == ["c", "b\nc", "a\nb\nc", "a\nb\nc"]


@pytest.mark.parametrize("kind", ["bpe", "word", "character"])
def test_a_line_break_is_an_end_and_lines_are_cut_as_if_alone(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = Tokenizer.train(["the old dog", "it sleeps"], kind, 280)
    cut, text = LineTokenizer(plain, 2), "the old dog\n\nit sleeps"
    one, two = plain.encode("the old dog"), plain.encode("it sleeps")
    assert cut.encode(text) == [*one, EOS, EOS, *two]
    assert cut.encode("the old dog") == one and cut.encode("") == []
    found = segments(cut, text)
    assert found.words == ["the", "old", "dog", "it", "sleeps"]
    assert found.word_of[len(one)] == 2 and found.word_of[len(one) + 2] == 3
    for token, (start, stop) in zip(found.tokens, found.token_spans, strict=True):
        assert (text[start:stop] == "\n") == (token == EOS)


@pytest.mark.parametrize("kind", ["bpe", "word", "character"])
def test_lines_that_are_not_read_have_no_tokens(kind):
    """Those further back than the context, and all of them if there is nothing in the last."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cut = LineTokenizer(Tokenizer.train(["the old dog", "it sleeps"], kind, 280), 1)
    text = "the dog\nthe old dog\nit sleeps"
    found = segments(cut, text)
    assert cut.encode(text) == cut.encode("the old dog\nit sleeps") == found.tokens
    assert found.words[min(found.word_of) :] == ["the", "old", "dog", "it", "sleeps"]
    assert [cut.encode(empty) for empty in ("the old dog\n", "the dog\n ", "\n", "\n\n ")] == [[]] * 4


@pytest.mark.parametrize(
    ("gone", "left"),
    [((2,), "the old\nit sleeps"), ((0, 1, 2), "\nit sleeps"), ((3,), "the old dog\nsleeps"),
     ((4,), "the old dog\nit"), ((3, 4), "the old dog\n"), ((), "the old dog\nit sleeps")],
)  # fmt: skip
def test_deleted_words_leave_the_lines(gone, left):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cut = LineTokenizer(Tokenizer.train(["the old dog", "it sleeps"], "word", 280), 1)
    whole = segments(cut, "the old dog\nit sleeps")
    text, spans = remaining_lines(whole, gone)
    assert text == left
    assert [text[a:b] for a, b in spans] == [w for k, w in enumerate(whole.words) if k not in gone]


def test_the_sentence_before_decides_the_pronoun():
    pairs = list(islice(CORPORA["pronouns"](seed=3), 900))
    for pair in pairs:
        _, before, sentence = pair.source.split("\n")
        words, target = sentence.split(), pair.target.split()
        assert target[0] == GENDERS[NOUNS[before.split()[1]].split()[0]]
        assert f"{target[2]} {target[3]}" == NOUNS[words[3]]
        assert [i for i, _ in pair.alignment] == list(range(len(words))) == [j for _, j in pair.alignment]
    shares = [sum(pair.target.split()[0] == one for pair in pairs) / len(pairs) for one in PRONOUNS]
    assert all(0.27 < share < 0.4 for share in shares)
