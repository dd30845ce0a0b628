"""Pretrained word vectors in the text format of word2vec and GloVe.

A line for each word: the word, then its numbers, with a space before each. A first line of two numbers
(word2vec's count and width) is skipped. The file is streamed; only vectors of words in the vocabulary are
kept.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from regard.core.tokens import UNK
from regard.data.text import DataError, located_lines
from regard.data.tokenizer import Tokenizer

BLOCK = 4096  # lines that are encoded at once


def vectors(path: str | Path, tokenizer: Tokenizer, width: int) -> tuple[Tensor, Tensor]:
    """The tokens (k,) that are words of the file, and their vectors (k, width)."""
    found: dict[int, Tensor] = {}
    stream = _read(path, width)
    while block := list(islice(stream, BLOCK)):
        ids = tokenizer.encode_many([word for _, word, _ in block])
        for (where, _, numbers), tokens in zip(block, ids, strict=True):
            if len(tokens) == 1 and tokens[0] != UNK and tokens[0] not in found:
                found[tokens[0]] = _numbers(numbers, where)
    if not found:
        raise DataError(f"{path}: none of its words is in the vocabulary of the texts.")
    return torch.tensor(list(found)), torch.stack(list(found.values()))


def _read(path: str | Path, width: int) -> Iterator[tuple[str, str, list[str]]]:
    for number, (where, line) in enumerate(located_lines(path)):
        parts = line.rstrip().split(" ")
        numbers, fits = len(parts) - 1, len(parts) > width
        if header := number == 0 and len(parts) == 2 and all(part.isdigit() for part in parts):
            numbers, fits = int(parts[1]), int(parts[1]) == width
        elif numbers > width and _is_number(parts[-width - 1]):  # and not a word that holds spaces
            numbers, fits = sum(map(_is_number, parts)), False
        if not fits:
            raise DataError(
                f"{where}: vectors of {numbers} numbers, but the model's words have {width}. "
                f"Set model.embedding={numbers}."
            )
        if not header:
            yield where, " ".join(parts[:-width]), parts[-width:]


def _numbers(parts: list[str], where: str) -> Tensor:
    try:
        vector = torch.tensor([float(part) for part in parts])
    except ValueError:
        raise DataError(f"{where}: a word and {len(parts)} numbers are needed.") from None
    if not bool(vector.isfinite().all()):
        raise DataError(f"{where}: the vector has a number that is not finite.")
    return vector


def _is_number(part: str) -> bool:
    try:
        float(part)
    except ValueError:
        return False
    return True
