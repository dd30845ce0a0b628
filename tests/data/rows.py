"""Sentence pairs as encoded examples, by the way that training goes."""

import warnings
from itertools import islice

from regard.data import Encoded, Tokenizer
from regard.runs import resolve
from regard.tasks.translation import TRANSLATION, Tokenizers

SETTINGS = resolve({"data": {"corpus": "copy"}})


def tokenizer_of(texts, kind, size):
    """A tokenizer, without the remark that there are not so many tokens."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Tokenizer.train(texts, kind, size)


def rows_of(pairs, source, target, block=1000):
    """The rows of pairs, some at a time."""
    pairs = iter(pairs)
    while some := [pair[:2] for pair in islice(pairs, block)]:
        yield from TRANSLATION.encode(SETTINGS, Tokenizers(source, target), some)


def encode_pairs(pairs, source, target, folder, longest=None, progress=None):
    """Pairs on disk."""
    fields = TRANSLATION.fields(SETTINGS, Tokenizers(source, target))
    most = None if longest is None else {"source": longest, "target": longest + 1}
    return Encoded.make(rows_of(pairs, source, target), fields, folder, most, progress)
