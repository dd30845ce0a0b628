"""Tokens and words of a text: every token has its word, whatever the text holds and whoever wrote it."""

import sys
import unicodedata
import warnings
from dataclasses import fields

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.tokens import BOS, EOS, PAD, UNK
from regard.data import Tokenizer
from regard.data.segments import (
    Segments,
    by_word,
    segments,
    segments_of_ids,
    split_at_spaces,
    split_words,
)

LINES = [
    "the film begins at half past eight, ok lead",
    "Je suis étudiant",
    "a b c é 日本 日本 日本語 \x00",
    "我喜欢猫 我喜 欢猫",
] * 3
WHITE_SPACE = [
    *range(9, 14),
    0x20,
    0x85,
    0xA0,
    0x1680,
    *range(0x2000, 0x200B),
    0x2028,
    0x2029,
    0x202F,
    0x205F,
]
WHITE_SPACE = {*map(chr, WHITE_SPACE), "\u3000"}  # PropList.txt of Unicode


def tokenizer(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Tokenizer.train(LINES, kind, 330 if kind == "bpe" else 60)


TOKENIZERS = {kind: tokenizer(kind) for kind in ("bpe", "word", "character")}
LETTERS = [
    *"abtefilm é日本語猫が。,<>&\x00\x1c\x1f\t\u00a0\u2028\u3000\u200b�",
    "👩‍🚀",
    "e\u0301",
    "か\u3099",
    "\u05d0",
]
texts = st.lists(st.sampled_from(LETTERS), max_size=25).map("".join)
spaced = st.lists(st.sampled_from([*"abé,\x1c\t\u00a0\u3000 ", "👩‍🚀"]), max_size=25).map("".join)
every_kind = pytest.mark.parametrize("kind", TOKENIZERS)


def words(text, kind="bpe"):
    return segments(TOKENIZERS[kind], text).words


def same(one, other):
    return all(getattr(one, field.name) == getattr(other, field.name) for field in fields(Segments))


def check(found):
    """What is true of all segments."""
    text = found.text
    assert [text[a:b] for a, b in found.spans] == found.words
    covered = [i for a, b in found.spans for i in range(a, b)]
    assert len(set(covered)) == len(covered)  # no character is in two words
    assert {i for i, c in enumerate(text) if c not in WHITE_SPACE} <= set(covered)
    assert len(found.tokens) == len(found.token_spans) == len(found.word_of)
    assert all(0 <= a <= b <= len(text) for a, b in found.token_spans)
    assert found.word_of == sorted(found.word_of)
    assert set(found.word_of) == set(range(len(found.words))) or (not found.words and not any(found.word_of))
    for (a, b), number in zip(found.token_spans, found.word_of, strict=True):
        own = [i for i in range(a, b) if text[i] not in WHITE_SPACE]
        if own:  # never smaller than a token
            assert found.spans[number][0] <= own[0] and own[-1] < found.spans[number][1]
        elif found.words:
            before = [k for k, (start, _) in enumerate(found.spans) if start < b]
            assert number == max(before, default=0)


@every_kind
@given(text=texts)
def test_every_character_has_its_word_and_every_token_too(kind, text):
    found = segments(TOKENIZERS[kind], text)
    check(found)
    assert found.text == text and found.tokens == TOKENIZERS[kind].encode(text)
    assert all(not WHITE_SPACE & set(word) for word in found.words)
    assert [i for number in range(len(found.words)) for i in found.tokens_of([number])] == (
        list(range(len(found.tokens))) if found.words else []
    )


@given(text=texts)
def test_what_is_read_and_what_is_written_have_the_same_segments(text):
    bpe = TOKENIZERS["bpe"]
    assert same(segments(bpe, text), segments_of_ids(bpe, bpe.encode(text)))


@given(data=st.data())
@pytest.mark.parametrize(("kind", "separator"), [("word", " "), ("character", "")])
def test_so_have_texts_of_known_tokens(kind, separator, data):
    known = [TOKENIZERS[kind].pieces([i])[0].replace("▁", " ") for i in range(4, len(TOKENIZERS[kind]))]
    text = separator.join(data.draw(st.lists(st.sampled_from(known), max_size=12)))
    ids = TOKENIZERS[kind].encode(text)
    assert UNK not in ids
    assert same(segments(TOKENIZERS[kind], text), segments_of_ids(TOKENIZERS[kind], ids))


@every_kind
@given(data=st.data())
def test_any_ids_have_words(kind, data):
    """Parts of characters that are never finished, padding, ends and copied words included."""
    size, unknown = len(TOKENIZERS[kind]), [] if kind == "bpe" else ["Bertrand", "猫カフェ"]
    ids = data.draw(st.lists(st.integers(0, size - 1 + len(unknown)), max_size=12))
    found = segments_of_ids(TOKENIZERS[kind], ids, unknown)
    check(found)
    assert found.text == TOKENIZERS[kind].decode(ids, unknown) and found.tokens == ids
    shown = ids[: ids.index(EOS)] if EOS in ids else ids
    for i, (start, stop) in zip(ids, found.token_spans, strict=True):
        if i in (PAD, BOS, EOS):
            assert start == stop
    if kind == "word":  # one word for each token, whatever it is written in
        assert len(found.words) == sum(i not in (PAD, BOS) for i in shown)


@given(text=texts)
def test_the_tokens_of_a_word_spell_it(text):
    bpe = TOKENIZERS["bpe"]
    found = segments(bpe, text)
    for number, word in enumerate(found.words):
        own = bpe.decode([found.tokens[i] for i in found.tokens_of([number])])
        assert own.strip("".join(WHITE_SPACE)) == word


@every_kind
@given(text=spaced, data=st.data())
def test_words_that_are_taken_away_leave_the_others(kind, text, data):
    found = segments(TOKENIZERS[kind], text)
    gone = data.draw(st.sets(st.integers(0, max(len(found.words) - 1, 0))))
    left = [word for i, word in enumerate(found.words) if i not in gone]
    assert segments(TOKENIZERS[kind], found.remaining(gone)[0]).words == left
    assert found.remaining(set())[0] == text
    assert same(
        segments(TOKENIZERS[kind], *found.remaining(gone)),
        segments(TOKENIZERS[kind], found.remaining(gone)[0]),
    )


@every_kind
@given(text=texts, data=st.data())
def test_taken_away_without_spaces_the_others_are_still_words(kind, text, data):
    whole = segments(TOKENIZERS[kind], text)
    gone = data.draw(st.sets(st.integers(0, max(len(whole.words) - 1, 0))))
    found = segments(TOKENIZERS[kind], *whole.remaining(gone))
    assert found.text == whole.remaining(gone)[0]
    assert found.words == [word for i, word in enumerate(whole.words) if i not in gone]
    assert [found.text[a:b] for a, b in found.spans] == found.words
    assert found.tokens == TOKENIZERS[kind].encode(found.text) and found.word_of == sorted(found.word_of)
    assert not found.words or max(found.word_of) == len(found.words) - 1


@pytest.mark.parametrize(
    ("text", "gone", "left"),
    [
        ("a  b c", {1}, "a  c"),
        ("a b", {1}, "a"),
        ("a b", {0}, "b"),
        (" a b ", {0, 1}, ""),
        (" a b ", {0}, " b "),
        ("a\tb\u3000c", {0}, "b\u3000c"),
        ("a b\x1c ", {1}, "a"),
        ("b\x1c a", {1}, "b\x1c"),
        ("我喜欢猫", {1}, "我欢猫"),
        ("我 喜欢猫", {0, 3}, "喜欢"),
        ("  ", {0}, "  "),
        ("", {0}, ""),
    ],
)
def test_a_word_leaves_with_the_white_space_after_it(text, gone, left):
    assert segments(TOKENIZERS["character"], text).remaining(gone)[0] == left


def test_words_that_become_neighbours_stay_words():
    whole = segments(TOKENIZERS["bpe"], "lead猫ing ok")
    assert whole.words == ["lead", "猫", "ing", "ok"]
    rest = segments(TOKENIZERS["bpe"], *whole.remaining({1}))
    assert rest.text == "leading ok" and rest.words == ["lead", "ing", "ok"]


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("hello\x1cworld foo", ["hello\x1cworld", "foo"]),
        (" lead", ["lead"]),
        ("", []),
        ("   ", []),
        ("我喜欢猫", ["我", "喜", "欢", "猫"]),
        ("猫が好き cats", ["猫", "が", "好", "き", "cats"]),
        ("cats猫dogs。“好”", ["cats", "猫", "dogs", "。", "“", "好", "”"]),
        ("カフェー、人々", ["カ", "フ", "ェ", "ー", "、", "人", "々"]),
        ("ＡＢ猫１２！", ["ＡＢ", "猫", "１２", "！"]),
        ("한국어 문장", ["한국어", "문장"]),
        ("か\u3099ｶﾞ葛\U000e0100x", ["か\u3099", "ｶﾞ", "葛\U000e0100", "x"]),
        ("\u3099か", ["\u3099", "か"]),
        ("a\u200bb", ["a\u200bb"]),
        ("👩‍🚀 👨‍👩‍👧‍👦猫 e\u0301a", ["👩‍🚀", "👨‍👩‍👧‍👦", "猫", "e\u0301a"]),
    ],
)
def test_words(text, split):
    assert [text[a:b] for a, b in split_words(text)] == split
    assert words(text, "character") == split
    assert words(text, "word") == [text[a:b] for a, b in split_at_spaces(text)]


@every_kind
def test_a_text_of_white_space_has_no_words_and_its_tokens_the_number_0(kind):
    found = segments(TOKENIZERS[kind], " \t ")
    assert (found.words, found.spans) == ([], [])
    assert found.word_of == [0] * len(found.tokens) and found.tokens == TOKENIZERS[kind].encode(" \t ")


def test_a_token_of_several_characters_is_one_word():
    found = segments(TOKENIZERS["bpe"], "日本語日 我喜欢")
    assert "▁日本語" in TOKENIZERS["bpe"].pieces(found.tokens)
    assert found.words[:2] == ["日本語", "日"]


def test_a_token_that_begins_with_a_space_is_of_the_word_after_it():
    pieces = TOKENIZERS["bpe"].pieces
    found = segments(TOKENIZERS["bpe"], " lead the")
    assert pieces(found.tokens) == ["▁", "▁lead", "▁the"]
    assert found.word_of == [0, 0, 1] and found.token_spans == [(0, 0), (0, 5), (5, 9)]
    found = segments(TOKENIZERS["bpe"], "the \tlead")
    assert pieces(found.tokens) == ["▁the", "▁", "\t", *pieces(found.tokens)[3:]]
    assert found.word_of == [0, 0, 0, *[1] * (len(found.tokens) - 3)]


def test_parts_of_a_character_have_its_span():
    bpe = TOKENIZERS["bpe"]
    found = segments(bpe, "🚀")
    assert len(found.tokens) > 3 and set(found.token_spans) <= {(0, 0), (0, 1)}
    part = [i for i, span in zip(found.tokens, found.token_spans, strict=True) if span == (0, 1)][:2]
    broken = segments_of_ids(bpe, [*part, *bpe.encode("the")])  # the character is never finished
    assert broken.text == "� the" and broken.words == ["�", "the"] and broken.word_of == [0, 0, 1]
    assert broken.token_spans[2] == (1, 5)


def test_white_space_is_that_of_unicode():
    every = map(chr, [*range(0xD800), *range(0xE000, 0x3100 + 0xE000)])
    assert {c for c in every if not split_words(c)} == WHITE_SPACE


def test_all_of_han_and_kana_is_split_and_korean_is_not():
    split = (
        *("CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH", "CJK RADICAL", "HIRAGANA LETTER"),
        *("KATAKANA", "HALFWIDTH KATAKANA LETTER", "IDEOGRAPHIC FULL STOP", "IDEOGRAPHIC ITERATION"),
        *("HIRAGANA ITERATION", "HIRAGANA VOICED ITERATION", "FULLWIDTH COMMA", "BOPOMOFO LETTER"),
    )
    for c in map(chr, range(sys.maxunicode + 1)):
        name = unicodedata.name(c, "")
        if name.startswith(split):
            assert len(split_words(c + c)) == 2, name
        elif "HANGUL SYLLABLE" in name or unicodedata.category(c)[0] == "M":
            assert len(split_words("가" + c)) == 1, name
            assert unicodedata.category(c)[0] != "M" or split_words("猫" + c) == [(0, 2)], name


@pytest.mark.parametrize(
    "text", ["a" + " " * 200_000 + "b c", "猫" * 50_000, "ab " * 50_000, "\u3099" * 100_000]
)
@every_kind
def test_long_texts_are_one_pass(kind, text, monkeypatch):
    encode = Tokenizer.encode_spans
    calls = []
    monkeypatch.setattr(
        Tokenizer, "encode_spans", lambda self, given: calls.append(len(given)) or encode(self, given)
    )
    found = segments(TOKENIZERS[kind], text)
    assert calls == [1] and found.word_of[-1] == len(found.words) - 1
    again = segments_of_ids(TOKENIZERS[kind], found.tokens)
    assert calls == [1] and len(again.tokens) == len(found.tokens)
    last = len(found.words) - 1
    assert len(found.remaining({0, last})[0]) <= len(text)


def test_many_copied_words_are_one_pass():
    word = TOKENIZERS["word"]
    unknown = [f"word{k}" for k in range(20_000)]
    found = segments_of_ids(word, range(len(word), len(word) + len(unknown)), unknown)
    assert found.words == unknown and found.word_of == list(range(len(unknown)))


def test_by_word_sums_keys_and_averages_queries():
    weights = torch.tensor([[0.2, 0.3, 0.5], [0.6, 0.4, 0.0], [0.1, 0.1, 0.8]])
    wanted = torch.tensor([[0.75, 0.25], [0.2, 0.8]])
    torch.testing.assert_close(by_word(weights, [0, 0, 1], [0, 0, 1]), wanted)
    end = torch.full((1, 3), 7.0)  # a row beyond the target's tokens
    torch.testing.assert_close(by_word(torch.cat([weights, end]), [0, 0, 1], [0, 0, 1]), wanted)
    heads = torch.stack([weights, 2 * weights]).expand(3, 2, 3, 3)
    torch.testing.assert_close(
        by_word(heads, [0, 0, 1], [0, 0, 1]), torch.stack([wanted, 2 * wanted]).expand(3, 2, 2, 2)
    )
    assert by_word(torch.zeros(2, 4, 0), [], [0] * 4).shape == (2, 1, 0)
    assert by_word(torch.zeros(1, 2), [0, 0], []).shape == (0, 1)


@given(
    source=st.lists(st.integers(0, 4), min_size=1, max_size=6),
    target=st.lists(st.integers(0, 4), min_size=1, max_size=6),
    seed=st.integers(0, 99),
)
def test_by_word_is_its_definition(source, target, seed):
    weights = torch.rand(
        2, len(target) + 1, len(source), generator=torch.Generator().manual_seed(seed)
    ).double()
    found = by_word(weights, source, target)
    assert found.shape == (2, max(target) + 1, max(source) + 1)
    for head in range(2):
        for i in range(max(target) + 1):
            rows = [k for k, word in enumerate(target) if word == i]
            for j in range(max(source) + 1):
                total = sum(
                    float(weights[head, k, n]) for k in rows for n, word in enumerate(source) if word == j
                )
                assert float(found[head, i, j]) == pytest.approx(total / max(len(rows), 1))
