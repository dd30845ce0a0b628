"""Text goes to ids and comes back."""

import json
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.tokens import BOS, EOS, PAD, UNK
from regard.data import DataError, Tokenizer

TEXT = [
    "the train leaves at half past three",
    "der Zug fährt um halb vier ab",
    "twenty four → vierundzwanzig 🙂",
] * 3
every_kind = pytest.mark.parametrize("kind", ["bpe", "word", "character"])


def trained(kind="bpe", size=300, lines=TEXT):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Tokenizer.train(lines, kind, size)


BPE = trained()


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_comes_back_from_bpe(text):
    assert BPE.decode(BPE.encode(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "  two  spaces ", "\ta\n\nb\r\n", "\0", "a\0b", "🙂👩\u200d👩\u200d👧", "e\u0301 \u202e",
        "▁Ġ", "\u00a0", "<pad> <s> </s><unk>", " pad eos", "x" * 100_000,
    ],
)  # fmt: skip
def test_odd_text_comes_back_from_bpe(text):
    ids = BPE.encode(text)
    assert BPE.decode(ids) == text
    assert not {PAD, BOS, EOS, UNK} & set(ids)
    assert bool(ids) == bool(text)


@given(st.text(sorted(set("".join(TEXT)))))
def test_known_characters_come_back(text):
    characters = trained("character")
    assert characters.decode(characters.encode(text)) == text
    assert len(characters.encode(text)) == len(text)


def test_words_come_back_up_to_space_and_the_unknown():
    words = trained("word")
    assert words.decode(words.encode("  the   Zug\nleaves ")) == "the Zug leaves"
    assert words.encode("the yacht leaves")[1] == UNK
    assert words.decode(words.encode("the yacht leaves")) == "the � leaves"
    assert trained("character").decode(trained("character").encode("thX")) == "th�"


@every_kind
def test_special_tokens_cannot_be_written(kind):
    tokenizer = trained(kind, lines=[*TEXT, "<pad> <s> </s> <unk> pad bos eos unk"])
    ids = tokenizer.encode("<pad> <s> </s> <unk> pad bos eos unk")
    assert not {PAD, BOS, EOS, UNK} & set(ids)
    assert tokenizer.decode(ids) == "<pad> <s> </s> <unk> pad bos eos unk"
    assert trained("word").encode("<pad> pad </s>") == [UNK] * 3


@every_kind
def test_decoding_skips_padding_and_stops_at_the_end(kind):
    tokenizer = trained(kind)
    ids = tokenizer.encode("der Zug")
    assert tokenizer.decode([PAD, BOS, *ids, PAD, EOS, *ids]) == "der Zug"
    assert tokenizer.decode([]) == tokenizer.decode([BOS, EOS]) == ""


@every_kind
def test_many_at_once_are_the_same_as_one_by_one(kind):
    tokenizer = trained(kind)
    texts = [*TEXT, "", " der  Zug"]
    assert tokenizer.encode_many(texts) == [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_many([]) == []


@every_kind
def test_saved_and_loaded_is_the_same(kind, tmp_path):
    tokenizer = trained(kind)
    tokenizer.save(tmp_path / "new" / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "new" / "tokenizer.json")
    assert (again.kind, len(again)) == (kind, len(tokenizer))
    for text in [*TEXT, "<s> pad", "yacht"]:
        assert again.encode(text) == tokenizer.encode(text)
        assert again.decode(again.encode(text)) == tokenizer.decode(tokenizer.encode(text))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["tokenizer.json"]


def test_what_is_no_tokenizer_is_said_to_be_none(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        Tokenizer.load(tmp_path / "nowhere.json")
    for content in ("", "{}", "[]", json.dumps({"kind": "bpe", "tokenizer": {}}), "\0"):
        (tmp_path / "bad.json").write_text(content)
        with pytest.raises(DataError, match=r"bad\.json: not a tokenizer"):
            Tokenizer.load(tmp_path / "bad.json")
    what = trained("word")
    what.save(tmp_path / "good.json")
    (tmp_path / "cut.json").write_text((tmp_path / "good.json").read_text()[:-30])
    with pytest.raises(DataError, match="not a tokenizer"):
        Tokenizer.load(tmp_path / "cut.json")


@every_kind
def test_pieces_are_readable(kind):
    tokenizer = trained(kind, size=400)
    text = "der Zug fährt"
    pieces = tokenizer.pieces(text)
    assert len(pieces) == len(tokenizer.encode(text))
    joined = " ".join(pieces) if kind == "word" else "".join(pieces).replace("▁", " ").removeprefix(" ")
    assert joined == text
    assert tokenizer.pieces([BOS, *tokenizer.encode(text), EOS, PAD]) == ["<s>", *pieces, "</s>", "<pad>"]


def test_a_part_of_a_character_is_shown_as_bytes():
    assert BPE.pieces("é")[-2:] == ["<c3>", "<a9>"] or BPE.pieces("é")[-1].endswith("é")
    assert BPE.pieces("ÿ€")[-1] == "<ac>"


def test_a_first_word_is_the_same_piece_as_any_other():
    assert BPE.encode("Zug Zug") == BPE.encode("Zug") * 2


def test_training_again_gives_the_same():
    assert BPE.inner.to_str() == trained().inner.to_str()


@every_kind
def test_a_vocabulary_larger_than_the_data_is_as_large_as_the_data_allows(kind):
    with pytest.warns(UserWarning, match=r"the vocabulary has [\d,]+ tokens, not 50,000"):
        tokenizer = Tokenizer.train(TEXT, kind, 50_000)
    assert len(tokenizer) < 1000
    assert tokenizer.decode(tokenizer.encode(TEXT[0])) == TEXT[0]


@every_kind
def test_the_size_is_kept_to(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokenizer = Tokenizer.train(TEXT, kind, size := 270 if kind == "bpe" else 12)
    assert len(tokenizer) == size
    assert max(max(tokenizer.encode(text)) for text in TEXT) < size


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match="kind must be one of bpe, word, lowercase, character; got 'chars'"):
        Tokenizer.train(TEXT, "chars", 100)
    with pytest.raises(ValueError, match="size must be at least 260 for kind='bpe'; got 100"):
        Tokenizer.train(TEXT, "bpe", 100)
    for kind in ("bpe", "word", "character"):
        with pytest.raises(DataError, match="cannot be trained on no text"):
            Tokenizer.train(["", " "], kind, 300)
    assert len(Tokenizer.train(TEXT, "bpe", 260)) == 260
    with pytest.raises(ValueError, match="ids must be less than"):
        BPE.pieces([100_000])


def test_a_missing_library_is_one_line(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r"^this needs tokenizers: pip install 'regard\[text\]'$"):
        Tokenizer.train(TEXT, "bpe", 300)
