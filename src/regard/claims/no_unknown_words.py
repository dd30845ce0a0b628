"""C58, byte-pair encoding leaves no word unknown, on the built-in corpus or on a user's text."""

import warnings
from itertools import islice
from pathlib import Path
from typing import Literal

from regard.claims.claim import Figures, at_least, at_most, claim, must_fail
from regard.claims.quick import sized
from regard.core.tokens import UNK
from regard.data import CORPORA, Tokenizer
from regard.data.corpora.split import Split
from regard.data.text import lines

STRANGE = ["antidisestablishmentarianism", "Zażółć gęślą jaźń", "注意", "🙂🙃", "  two  spaces ", "\x00\t"]
SIZES = (300, 500, 1000, 2000)
SPLITS: tuple[tuple[Split, int], ...] = (("train", 3000), ("test", 1000))


def generated() -> tuple[list[str], list[str]]:
    """3,000 pairs to learn from, 1,000 others, both sides."""
    train, test = (
        [
            text
            for pair in islice(CORPORA["phrases-de"](0, split), sized(n))
            for text in (pair.source, pair.target)
        ]
        for split, n in SPLITS
    )
    return train, test


def own(data: str) -> tuple[list[str], list[str]]:
    """Every fifth line of a file for the test."""
    text = [line for line in lines(Path(data)) if line.strip()]
    if len(text) < 100:
        raise ValueError(f"--data {data} must have at least 100 lines of text; got {len(text)}.")
    return [line for k, line in enumerate(text) if k % 5 != 4], text[4::5]


def trained(text: list[str], kind: Literal["bpe", "word"], size: int) -> Tokenizer:
    """A tokenizer; a small corpus has no more pieces than it has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Tokenizer.train(text, kind, size)


@claim(
    "C58",
    group="Cost",
    fixed="c8690d8",
    says="Byte-pair encoding leaves no word unknown.",
    source="004:1328",
    experiment="3,000 generated pairs to learn from, 1,000 others (or a text of your own): unknown "
    "words, texts that do not come back, pieces by size of the vocabulary.",
    control="A vocabulary of all the words there are.",
    conditions=[
        at_most(0, "unseen words unknown"),
        at_most(0, "texts that do not come back"),
        at_most(-1, "pieces with 2000 − pieces with 300"),
        must_fail(at_least(1, "unseen words unknown to a word vocabulary / unseen words")),
    ],
    exact=True,
    minutes=0.1,
)
def byte_pairs(seed: int, data: str | None = None) -> Figures:
    """Counts of words and pieces."""
    train, test = generated() if data is None else own(data)
    known = {word for line in train for word in line.split()}
    unseen = sorted({word for line in test for word in line.split()} - known)
    if not unseen:
        raise ValueError(f"--data {data}: the held-out lines have no word that the others have not.")
    found, unknown, lost = {"unseen words": float(len(unseen))}, 0, 0
    for size in SIZES:
        bpe = trained(train, "bpe", size)
        texts = [*test, *unseen, *STRANGE]
        encoded = bpe.encode_many(texts)
        lost += sum(bpe.decode(ids) != text for text, ids in zip(texts, encoded, strict=True))
        unknown += sum(UNK in ids for ids in encoded)
        found[f"pieces with {size}"] = float(sum(map(len, encoded[: len(test)])))
    words = trained(train, "word", 100_000)
    return found | {
        "unseen words unknown": float(unknown),
        "texts that do not come back": float(lost),
        "unseen words unknown to a word vocabulary": float(sum(UNK in words.encode(word) for word in unseen)),
    }
