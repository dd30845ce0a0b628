"""A trained translator: sentences in, translations out, and where it looked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attended, in_turn
from regard.core.tokens import BOS, EOS, PAD
from regard.data import Tokenizer
from regard.data.copying import numbered
from regard.data.segments import segments_of_ids
from regard.decoding import Hypothesis, beam, greedy
from regard.looking import record
from regard.runs.settings import Decoding

POSITIONS = 8192  # of source tokens times beams that are decoded at once


@dataclass(frozen=True, eq=False)
class Translation:
    """One translation, and on demand where the model looked while writing it."""

    source: str
    text: str
    score: float  # what was searched for: log p with penalties
    log_prob: float  # of the target and its end, by the model
    source_tokens: list[int] = field(repr=False)
    target_tokens: list[int] = field(repr=False)  # without an end
    system: "Translator" = field(repr=False)
    unknown: list[str] = field(default_factory=list, repr=False)  # words of tokens beyond the vocabulary

    @property
    def source_pieces(self) -> list[str]:
        """The source as the model read it."""
        return self.system.source_tokenizer.pieces(self.source_tokens, self.unknown)

    @property
    def target_pieces(self) -> list[str]:
        """The target as the model wrote it, and its end."""
        return [*self.system.target_tokenizer.pieces(self.target_tokens, self.unknown), "</s>"]

    @cached_property
    def attended(self) -> dict[str, Attended]:
        """What the source–target attentions did, by path: weights (1, [heads,] m, n), m with the end."""
        return self.system.look(self.source_tokens, self.target_tokens)

    @cached_property
    def copied(self) -> list[float]:
        """Of each target token, how much of its probability is copying's; empty if the model cannot copy."""
        return self.system.copied(self.source_tokens, self.target_tokens)

    @property
    def marked(self) -> str:
        """The text with [[ ]] around the words that were rather copied than generated."""
        if not any(share > 0.5 for share in self.copied):
            return self.text
        target = segments_of_ids(self.system.target_tokenizer, self.target_tokens, self.unknown)
        least: dict[int, float] = {}  # of each word, the share of its least copied token
        for number, share in zip(target.word_of, self.copied, strict=True):
            least[number] = min(share, least.get(number, 1.0))
        parts, at = [], 0
        for number, (start, stop) in enumerate(target.spans):
            word = target.words[number]
            parts += [target.text[at:start], f"[[{word}]]" if least[number] > 0.5 else word]
            at = stop
        return one_line("".join(parts) + target.text[at:])


class Translator:
    """A model with its tokenizers; `reverse` is the one that was trained with it, the other way."""

    def __init__(
        self,
        model: nn.Module,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        decoding: Decoding,
        reverse: "Translator | None" = None,
    ):
        self.model = model.eval()
        self.source_tokenizer, self.target_tokenizer = source_tokenizer, target_tokenizer
        self.decoding, self.reverse = decoding, reverse

    @property
    def copies(self) -> bool:
        """Whether the model can copy words of the source."""
        return getattr(self.model, "copying", None) is not None

    def translate(
        self, sources: Sequence[str], *, beam: int | None = None, alpha: float | None = None
    ) -> list[Translation]:
        """The best translation of each sentence; one of nothing but white space gives an empty one."""
        return [found[0] for found in self.translations(sources, beam=beam, alpha=alpha)]

    def translations(
        self,
        sources: Sequence[str],
        *,
        best: int = 1,
        beam: int | None = None,
        alpha: float | None = None,
        coverage: float | None = None,
    ) -> list[list[Translation]]:
        """The `best` translations of each sentence, from the best on, in the order of the sentences."""
        if isinstance(sources, str):
            raise TypeError("translate takes a list of sentences; got one string. Use translate([text]).")
        chosen: dict[str, Any] = {"beam": beam, "alpha": alpha, "coverage": coverage}
        decoding = replace(self.decoding, **{k: v for k, v in chosen.items() if v is not None})
        if best > decoding.beam:
            decoding = replace(decoding, beam=best)
        encoded, unknown = self._encoded(list(sources))
        found: list[list[Translation]] = [[] for _ in sources]
        for indices in batches_by_length([len(tokens) for tokens in encoded], POSITIONS // decoding.beam):
            some = [encoded[i] for i in indices]
            for i, hypotheses in zip(indices, self.decode(some, decoding, best), strict=True):
                found[i] = [self._translation(sources[i], encoded[i], unknown[i], h) for h in hypotheses]
        for i, tokens in enumerate(encoded):
            if not tokens:
                found[i] = [Translation(sources[i], "", 0.0, 0.0, [], [], self)]
        return found

    def decode(
        self, sources: Sequence[list[int]], decoding: Decoding, best: int = 1
    ) -> list[list[Hypothesis]]:
        """Hypotheses of sources given as tokens, decoded together."""
        source, lengths = self._padded(sources)
        if decoding.beam == 1:
            return greedy(self.model, source, lengths, decoding.limits)  # type: ignore[arg-type]
        settings = {"width": decoding.beam, "alpha": decoding.alpha, "coverage": decoding.coverage}
        return beam(self.model, source, lengths, decoding.limits, best=best, **settings)  # type: ignore[arg-type]

    def look(self, source: list[int], target: list[int]) -> dict[str, Attended]:
        """What the source–target attentions do for a pair given as tokens, by path."""
        rows, lengths = self._padded([source])
        written = torch.tensor([[BOS, *target]], device=rows.device)
        paths: list[str] = getattr(self.model, "cross", [])
        if not paths:
            return {}
        with torch.no_grad(), record(self.model, paths) as seen:
            self.model(rows, lengths, written)
        return {path: in_turn(seen[path]) for path in paths}

    def copied(self, source: list[int], target: list[int]) -> list[float]:
        """Of each target token, how much of its probability is copying's; empty if the model cannot copy."""
        if not self.copies or not target:
            return []
        rows, lengths = self._padded([source])
        written = torch.tensor([[BOS, *target]], device=rows.device)
        with torch.no_grad():
            pointing = self.model(rows, lengths, written)[0, :-1]
            logits = F.linear(pointing.hidden, *self.model.vocabulary())  # type: ignore[operator]
            shares: list[float] = pointing.copied(logits, written[0, 1:]).tolist()
        return shares

    def _encoded(self, sources: list[str]) -> tuple[list[list[int]], list[list[str]]]:
        """The tokens of each source and, where the model can copy them, its unknown words."""
        if not self.copies:
            return self.source_tokenizer.encode_many(sources), [[] for _ in sources]
        found = numbered(self.source_tokenizer, sources)
        return [one.ids for one in found], [one.unknown for one in found]

    def _padded(self, sources: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
        device = next(self.model.parameters()).device
        lengths = torch.tensor([len(s) for s in sources], device=device)
        source = torch.full((len(sources), int(lengths.max())), PAD, device=device)
        for row, tokens in zip(source, sources, strict=True):
            row[: len(tokens)] = torch.tensor(tokens)
        return source, lengths

    def _translation(
        self, source: str, tokens: list[int], unknown: list[str], found: Hypothesis
    ) -> Translation:
        text = self.target_tokenizer.decode([*found.tokens, EOS], unknown)
        return Translation(
            source, one_line(text), found.score, found.log_prob, tokens, found.tokens, self, unknown
        )


def one_line(text: str) -> str:
    """A text with spaces in place of its line breaks: one line for one line."""
    return " ".join(text.splitlines())


def batches_by_length(lengths: Sequence[int], positions: int) -> Iterator[list[int]]:
    """Indices of what is not empty, the shortest first, in batches of at most so many padded positions."""
    some: list[int] = []
    for i in sorted((i for i, n in enumerate(lengths) if n), key=lambda i: lengths[i]):
        if some and (len(some) + 1) * lengths[i] > positions:
            yield some
            some = []
        some.append(i)
    if some:
        yield some
