"""C58, byte-pair encoding leaves no word unknown: on the built-in corpus, and on UD English-EWT where it is.

The control is a vocabulary of words, trained on the same text.
"""

import gzip
import warnings
from itertools import islice
from pathlib import Path

import pytest

from regard.core.tokens import UNK
from regard.data import CORPORA, Tokenizer

EWT = next((p for up in Path(__file__).parents if (p := up / "shared/data/ud_english_ewt").is_dir()), None)


def sentences(name):
    """The sentences of a CoNLL-U file."""
    with gzip.open(EWT / name, "rt", encoding="utf-8") as lines:
        return [line.removeprefix("# text = ").rstrip("\n") for line in lines if line.startswith("# text = ")]


def generated():
    train, test = (
        [text for pair in islice(CORPORA["phrases-de"](0, split), n) for text in (pair.source, pair.target)]
        for split, n in (("train", 3000), ("test", 1000))
    )
    return train, test


def treebank():
    """Trained on 6,000 sentences of the training part, tested on all of dev."""
    return sentences("en_ewt-ud-train.rebuilt.conllu.gz")[:6000], sentences("en_ewt-ud-dev.conllu.gz")


every_text = pytest.mark.parametrize(
    "texts",
    [
        generated,
        pytest.param(
            treebank, marks=pytest.mark.skipif(EWT is None, reason="needs shared/data/ud_english_ewt")
        ),
    ],
    ids=["generated", "treebank"],
)
STRANGE = ["antidisestablishmentarianism", "Zażółć gęślą jaźń", "注意", "🙂🙃", "  two  spaces ", "\x00\t"]


def trained(lines, kind, size):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a small corpus has no more pieces
        return Tokenizer.train(lines, kind, size)


@every_text
def test_c58_bpe_leaves_no_word_unknown(texts):
    train, test = texts()
    assert len(test) >= 1000
    known = {word for line in train for word in line.split()}
    unseen = sorted({word for line in test for word in line.split()} - known)
    assert len(unseen) >= 100  # there are such words
    lengths, pieces = [], []
    for size in (300, 500, 1000, 2000):
        bpe = trained(train, "bpe", size)
        encoded = bpe.encode_many([*test, *unseen, *STRANGE])
        for text, ids in zip([*test, *unseen, *STRANGE], encoded, strict=True):
            assert bpe.decode(ids) == text
        assert not any(UNK in ids for ids in encoded)
        lengths.append(sum(map(len, encoded[: len(test)])))
        pieces.append(len(bpe))
    assert lengths == sorted(lengths, reverse=True) and len(set(pieces)) == len(set(lengths)) == 4
    words = trained(train, "word", 100_000)  # control: all the words there are
    unknown = sum(UNK in words.encode(word) for word in unseen)
    print(f"C58 {len(unseen)} unseen words; tokens by size {dict(zip(pieces, lengths, strict=True))}")
    assert unknown == len(unseen)
