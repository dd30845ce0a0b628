"""Where a trained translator looks while it writes a given target: forced decoding, many sentences at once.

Pieces become words: a word is looked at as much as its pieces together, and looks where its pieces look on
average. The end of the target is a row of its own, after the last word (a shift needs it); what is given to
an end of the source, in models that have one, is nobody's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.alignment.bitext import Floats
from regard.attention import in_turn
from regard.core.errors import RunError
from regard.core.tokens import BOS, PAD
from regard.data import Tokenizer
from regard.data.segments import Segments, by_word, segments, split_at_spaces
from regard.looking import record
from regard.runs.translator import Translator, batches_by_length

POSITIONS = 4096  # of source and target tokens looked at at once


@dataclass(frozen=True)
class Head:
    """A layer that looks at the source, and one of its heads, both from 0; None is the mean of the heads."""

    layer: int
    head: int | None = None

    def __str__(self) -> str:
        return f"layer {self.layer + 1}" + ("" if self.head is None else f", head {self.head + 1}")


def forced(
    system: Translator, pairs: Sequence[tuple[str, str]], only: Head | None = None
) -> Iterator[tuple[int, dict[Head, Floats]]]:
    """For each pair, in some order, its number and by head the weights (m + 1, n) between words.

    Pairs with an empty side are left out. `only` asks for one head alone.
    """
    paths: list[str] = list(getattr(system.model, "cross", []))
    if not paths:
        raise RunError("this model has no attention to its source, so nothing in it aligns words.")
    layers = list(range(len(paths))) if only is None else [only.layer]
    if layers[-1] not in range(len(paths)):
        known = (
            f"layers 1 to {len(paths)} look at the source" if len(paths) > 1 else "layer 1 is the only one"
        )
        raise RunError(f"{only} is not there: {known}.")
    tokenizers = system.source_tokenizer, system.target_tokenizer
    ours, theirs = (
        [_segments(tokenizer, pair[side]) for pair in pairs] for side, tokenizer in enumerate(tokenizers)
    )
    lengths = [
        len(a.tokens) + len(b.tokens) + 1 if a.tokens and b.tokens else 0
        for a, b in zip(ours, theirs, strict=True)
    ]
    for some in batches_by_length(lengths, POSITIONS):
        asked = [paths[layer] for layer in layers]
        weights = _weights(system, asked, [ours[k].tokens for k in some], [theirs[k].tokens for k in some])
        for row, k in enumerate(some):
            yield (
                k,
                {
                    Head(layer, head): _by_word(one, ours[k].word_of, theirs[k].word_of)
                    for layer in layers
                    for head, one in _heads(weights[paths[layer]][row], only).items()
                },
            )


def _segments(tokenizer: Tokenizer, text: str) -> Segments:
    """Links are between what white space separates, in every language."""
    text = " ".join(text.split())
    return segments(tokenizer, text, split_at_spaces(text))


def _weights(
    system: Translator, paths: list[str], source: list[list[int]], target: list[list[int]]
) -> dict[str, Tensor]:
    """Weights (b, [heads,] m + 1, n) by path."""
    device = next(system.model.parameters()).device
    lengths = torch.tensor([len(tokens) for tokens in source], device=device)
    written = [[BOS, *tokens] for tokens in target]
    with torch.no_grad(), record(system.model, paths) as seen:
        system.model(_padded(source).to(device), lengths, _padded(written).to(device))
    return {path: in_turn(seen[path]).weights.cpu() for path in paths}


def _padded(rows: list[list[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


def _heads(weights: Tensor, only: Head | None) -> dict[int | None, Tensor]:
    """Weights ([heads,] m, n) by head, and their mean; a single head is its mean."""
    several = weights.reshape(-1, *weights.shape[-2:])
    found: dict[int | None, Tensor] = {None: several.mean(0), **dict(enumerate(several))}
    if only is None:
        return found if len(several) > 1 else {None: several[0]}
    if only.head not in found:
        raise RunError(f"{only} is not there: this layer has heads 1 to {len(several)}.")
    return {only.head: found[only.head]}


def _by_word(weights: Tensor, source: list[int], target: list[int]) -> Floats:
    """Weights of tokens, padding and a source's end included, to weights (m + 1, n) of words."""
    weights = weights[: len(target) + 1, : len(source)]
    end = max(target) + 1
    found: Floats = by_word(weights.double(), source, [*target, end]).numpy()
    return found
