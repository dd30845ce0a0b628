"""Trees from files, and which tokens are parts of which word."""

import gzip

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.analyses import TokenizedText, read_conllu, tokenize
from regard.data import Tokenizer
from regard.data.segments import segments
from regard.data.text import DataError


def row(number, form, head="0", relation="root", misc="_", upos="X", xpos="Y"):
    return "\t".join([str(number), form, "_", upos, xpos, "_", str(head), relation, "_", misc])


SAID = "\n".join(
    [
        "# text = I don't go al mar.",
        row(1, "I", 4, "nsubj", upos="PRON"),
        "\t".join(["2-3", "don't", *["_"] * 8]),
        row(2, "do", 4, "aux"),
        row(3, "n't", 4, "advmod"),
        row(4, "go", 0, "root", upos="VERB"),
        row("4.1", "gone", "_", "_"),
        "\t".join(["5-6", "al", *["_"] * 8]),
        row(5, "a", 7, "case"),
        row(6, "el", 7, "det"),
        row(7, "mar", 4, "obl", "SpaceAfter=No"),
        row(8, ".", 4, "punct"),
        "",
        row(1, "Yes", 0, "root"),
    ]
)


@pytest.fixture
def two(tmp_path):
    (tmp_path / "said.conllu").write_text(SAID, encoding="utf-8")
    return list(read_conllu(tmp_path / "said.conllu"))


def test_words_text_and_tree(two):
    first, second = two
    assert first.words == ("I", "do", "n't", "go", "a", "el", "mar", ".")
    assert first.text == "I don't go al mar."
    assert [first.text[a:b] for a, b in first.spans] == ["I", "do", "n't", "go", "al", "al", "mar", "."]
    assert first.heads == (3, 3, 3, -1, 6, 6, 3, 3)
    assert first.deprel[0] == "nsubj" and first.upos[3] == "VERB" and first.xpos[0] == "Y"
    assert second.text == "Yes" and second.heads == (-1,)


def test_gzip_is_read_too(tmp_path, two):
    with gzip.open(tmp_path / "said.conllu.gz", "wt", encoding="utf-8") as file:
        file.write(SAID)
    assert list(read_conllu(tmp_path / "said.conllu.gz")) == two


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1\tYes", "line 1: CoNLL-U has 10 columns between tabs; found 2"),
        (row("one", "Yes"), "a word needs a number and a form"),
        (row(1, "a", 5), "line 1: the head of word 1 must be another word of 1, or 0; got '5'"),
        (row(1, "a", 1), "the head of word 1"),
        (row(1, "a", "_"), "the head of word 1"),
        (row(1, "a") + "\n" + row(3, "b"), "line 2: word 2 is next; got 3"),
        ("\t".join(["1-9", "ab", *["_"] * 8]) + "\n" + row(1, "a"), "the range 1-9 is not in"),
        ("# nothing\n\n", "there is no sentence"),
        ("", "the file is empty"),
    ],
)
def test_what_is_no_conllu_is_one_sentence(tmp_path, text, says):
    (tmp_path / "bad.conllu").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=says.replace("(", r"\(")):
        list(read_conllu(tmp_path / "bad.conllu"))


LINES = ["I don't go to the sea.", "the seas go on and on", "don't do it, I said"]


@pytest.mark.parametrize("kind", ["bpe", "word", "character"])
def test_every_word_has_its_tokens(two, kind):
    tokenizer = Tokenizer.train(LINES, kind, {"bpe": 280, "word": 8, "character": 12}[kind])
    for one, sentence in zip(tokenize(tokenizer, two), two, strict=True):
        assert one.sentence is sentence
        text = " ".join(sentence.words) if kind == "word" else sentence.text
        assert one.tokens == tokenizer.encode(text)
        assert one.words.shape == (len(sentence.words), len(one.tokens))
        assert one.words.any(1).all()


def test_a_token_of_two_words_is_a_part_of_both(two):
    tokenizer = Tokenizer.train(["don don don don't"], "bpe", 264)
    first = tokenize(tokenizer, two)[0]
    pieces = tokenizer.pieces(first.tokens)
    don = pieces.index("▁don")
    assert first.words[:, don].nonzero().flatten().tolist() == [1, 2]  # "do" and "n't"


@given(text=st.text("ab é\u2003\t漢", max_size=20))
def test_words_of_a_line_are_its_segments(text):
    (one,), wanted = tokenize(TOKENIZER, [text]), segments(TOKENIZER, text)
    assert one.tokens == TOKENIZER.encode(text) == wanted.tokens
    assert one.words.shape == (len(wanted.words), len(wanted.tokens))
    if wanted.words:
        assert one.words.long().argmax(0).tolist() == wanted.word_of
        assert one.words.sum(0).eq(1).all()  # every token is a part of one word
    for word, parts in zip(wanted.words, one.words, strict=True):
        spelled = TOKENIZER.decode([token for token, part in zip(one.tokens, parts, strict=True) if part])
        assert word in spelled


def test_spaces_in_a_tree_belong_to_the_word_before_them(two):
    tokenizer = Tokenizer.train(LINES, "character", 12)
    first = tokenize(tokenizer, two)[0]
    space = first.tokens.index(tokenizer.encode(" ")[0])
    assert first.words[:, space].nonzero().flatten().tolist() == [0]  # "I"
    assert first.words.any(0).all()


TOKENIZER = Tokenizer.train(["ab ab é 漢 ab aab"], "bpe", 264)


def test_by_word_what_is_looked_at_is_added_up_and_those_who_look_are_averaged():
    text = TokenizedText([5, 6, 7], torch.tensor([[True, True, False], [False, False, True]]))
    weights = torch.tensor([[0.2, 0.3, 0.5], [0.6, 0.4, 0.0], [0.1, 0.1, 0.8]])
    torch.testing.assert_close(text.by_word(weights), torch.tensor([[0.75, 0.25], [0.2, 0.8]]))
    torch.testing.assert_close(text.mean(torch.tensor([[1.0], [3.0], [5.0]])), torch.tensor([[2.0], [5.0]]))


def test_by_word_rows_still_sum_to_one_where_words_share_a_token():
    text = TokenizedText([5, 6, 7], torch.tensor([[1, 1, 0], [0, 1, 0], [0, 0, 1]]).bool())
    weights = torch.rand(2, 4, 3, 3, generator=torch.Generator().manual_seed(0)).softmax(-1)
    torch.testing.assert_close(text.by_word(weights).sum(-1), torch.ones(2, 4, 3))
