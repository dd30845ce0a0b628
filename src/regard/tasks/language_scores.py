"""How good a language model is on text: nats and bits per token, bits per character, perplexity per word.

    nats per token = −1/n Σ_t log p(w_t | text before)        perplexity per word = exp(total nats / words)

A text is read as if after a line end, so that its first token is predicted too. Evaluation slides: of each
window of tokens the first part is only read and the rest is scored, so that every token has at least that
part as its context (as far as there is text before it). A model that carries a state reads on from segment to
segment inside much longer windows. Words are what white space separates; line ends count as words.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.core.tokens import UNK
from regard.data.text_codec import TextCodec
from regard.models.language import LanguageModel

POSITIONS = 8192  # tokens that are read at once


class Windows(NamedTuple):
    """How a text is cut: `warm` tokens are read before each `span` of scored ones, `segment` at a time."""

    warm: int
    span: int
    segment: int

    @classmethod
    def of(cls, model: LanguageModel, context: int) -> "Windows":
        """Those of a model that reads `context` tokens at once."""
        if model.carries:
            return cls(4 * context, 16 * context, context)
        span = max(context // 4, 1)
        return cls(context - span, span, context)


@dataclass
class TextQuality:
    """Sums over texts."""

    nats: float = 0.0
    tokens: int = 0
    characters: int = 0
    words: int = 0
    unknown: int = 0

    @property
    def figures(self) -> dict[str, float]:
        """What `regard evaluate --json` prints."""
        per_token = self.nats / max(self.tokens, 1)
        return {
            "nats_per_token": per_token,
            "bits_per_token": per_token / math.log(2),
            "nats_per_character": self.nats / max(self.characters, 1),
            "bits_per_character": self.nats / max(self.characters, 1) / math.log(2),
            "perplexity": math.exp(min(self.nats / max(self.words, 1), 700.0)),
            "perplexity_per_token": math.exp(min(per_token, 700.0)),
            "tokens": self.tokens,
            "characters": self.characters,
            "words": self.words,
            "unknown_tokens": self.unknown,
        }


def count_words(text: str) -> int:
    """Words of a text, line ends included."""
    return len(text.split()) + text.count("\n")


@torch.no_grad()
def text_quality(
    model: LanguageModel,
    codec: TextCodec,
    blocks: Iterable[str],
    windows: Windows,
    progress: Callable[[int], None] | None = None,
) -> TextQuality:
    """The quality of a model on one text that comes in blocks; `progress` hears the characters read."""
    found, held, known = TextQuality(), [codec.new_line], 1  # tokens, of which the first `known` are scored
    largest = 16 * POSITIONS

    def score(final: bool) -> None:
        nonlocal held, known
        done = len(held) if final else known + (len(held) - known) // windows.span * windows.span
        if done > known:
            found.nats += float(nats(model, held[:done], windows, known).sum())
        first = max(0, done - windows.warm - 1)
        held, known = held[first:], done - first

    for text in blocks:
        tokens = codec.encode(text)
        held += tokens
        found.tokens += len(tokens)
        found.unknown += tokens.count(UNK)
        found.characters += len(text)
        found.words += count_words(text)
        if len(held) - known >= largest:
            score(final=False)
        if progress is not None:
            progress(found.characters)
    score(final=True)
    return found


@torch.no_grad()
def nats(model: LanguageModel, tokens: list[int], windows: Windows, given: int = 1) -> Tensor:
    """−log p of each of the tokens from number `given` on, (n − given,), in double precision."""
    device, every = next(model.parameters()).device, torch.tensor(tokens)
    found: list[Tensor] = []
    for group in _grouped(list(_cut(len(tokens), windows, given)), POSITIONS):
        first, start, stop = group[0]
        rows = torch.stack([every[a:c] for a, _, c in group]).to(device)  # (b, read + scored)
        found.append(_scored(model, rows, start - first, windows.segment).flatten())
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.float64)


def _cut(n: int, windows: Windows, given: int) -> Iterator[tuple[int, int, int]]:
    """(first read, first scored, end) of each window."""
    for start in range(given, n, windows.span):
        yield max(0, start - windows.warm - 1), start, min(n, start + windows.span)


def _grouped(cuts: list[tuple[int, int, int]], positions: int) -> Iterator[list[tuple[int, int, int]]]:
    """Windows that follow one another and are of one shape, as many as can be read at once."""
    group: list[tuple[int, int, int]] = []
    for cut in cuts:
        shape = (cut[1] - cut[0], cut[2] - cut[0])
        same = group and shape == (group[0][1] - group[0][0], group[0][2] - group[0][0])
        if group and (not same or (len(group) + 1) * shape[1] > positions):
            yield group
            group = []
        group.append(cut)
    if group:
        yield group


def _scored(model: LanguageModel, rows: Tensor, given: int, segment: int) -> Tensor:
    """−log p of the tokens of rows (b, n) from number `given` on: (b, n − given)."""
    inputs, wanted, state, parts = rows[:, :-1], rows[:, 1:], None, []
    size = segment if model.carries else inputs.shape[1]
    for at in range(0, inputs.shape[1], size):
        hidden, state = model(inputs[:, at : at + size], state if model.carries else None)
        skipped = max(0, given - 1 - at)  # only read
        if skipped < hidden.shape[1]:
            logits = model.logits(hidden[:, skipped:]).float().flatten(0, 1)
            target = wanted[:, at : at + size][:, skipped:].flatten()
            loss = F.cross_entropy(logits, target, reduction="none")
            parts.append(loss.double().cpu().view(len(rows), -1))
    return torch.cat(parts, 1)
