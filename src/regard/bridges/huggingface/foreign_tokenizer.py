"""A fast tokenizer of transformers behind the names of ours, special tokens apart."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import RunError
from regard.data.byte_level import Span
from regard.data.running_text import beginning
from regard.data.tokenizer import Tokenizer

CHARACTERS = 16  # of a token at most, on average over a text


def first_tokens(theirs: Any, file: str | Path, most: int) -> Tensor:
    """The first tokens (n,) of a text, plain or gzip, at most so many, without special ones."""
    text = beginning(file, CHARACTERS * most)
    return torch.tensor(theirs(text, add_special_tokens=False, verbose=False)["input_ids"][:most])


class ForeignTokenizer(Tokenizer):
    """Cuts texts as transformers' tokenizer does, without the special tokens it puts around them."""

    def __init__(self, theirs: Any, most: int | None = None):
        if not getattr(theirs, "is_fast", False):
            raise RunError(
                f"{type(theirs).__name__} says nothing of where tokens stand; a fast one is needed."
            )
        self.theirs, self.inner, self.kind, self.ahead = theirs, theirs.backend_tokenizer, "bpe", ""
        self.before, self.after = self._around()
        self.most = most  # positions that the model has; None: as many as one likes

    def _around(self) -> tuple[list[int], list[int]]:
        """The special tokens before and after a text."""
        whole, bare = (self.theirs("a", add_special_tokens=special)["input_ids"] for special in (True, False))
        at = next((i for i in range(len(whole)) if whole[i : i + len(bare)] == bare), 0)
        return list(whole[:at]), list(whole[at + len(bare) :])

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        return [ids for ids, _ in self.encode_spans(texts)]

    def encode_spans(self, texts: Sequence[str]) -> list[tuple[list[int], list[Span]]]:
        if not texts:
            return []
        found = self.theirs(list(texts), add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        for text, ids in zip(texts, found["input_ids"], strict=True):
            count = len(self.before) + len(ids) + len(self.after)
            if self.most is not None and count > self.most:
                raise ValueError(
                    f"the text that begins with {text[:30]!r} has {count:,} tokens, special ones included, "
                    f"and the model has {self.most:,} positions: shorten it."
                )
        pairs = zip(found["input_ids"], found["offset_mapping"], strict=True)
        return [(list(ids), [(int(a), int(b)) for a, b in spans]) for ids, spans in pairs]

    def decode(self, ids: Iterable[int], unknown: Sequence[str] = ()) -> str:
        return str(self.theirs.decode(list(ids), skip_special_tokens=True))

    def decode_spans(self, ids: Iterable[int], unknown: Sequence[str] = ()) -> tuple[str, list[Span]]:
        """The text of ids, and the span of what each adds to it."""
        listed, spans, text = list(ids), [], ""
        for count in range(1, len(listed) + 1):
            longer = self.decode(listed[:count])
            if longer.endswith("\ufffd"):  # a part of a character
                longer = text
            spans.append((len(text), max(len(longer), len(text))))
            text = longer if len(longer) >= len(text) else text
        return self.decode(listed), spans

    def pieces(self, text: str | Iterable[int], unknown: Sequence[str] = ()) -> list[str]:
        ids = self.encode(text) if isinstance(text, str) else [int(i) for i in text]
        theirs = self.theirs  # a model may have more tokens: those have numbers alone
        return [theirs.decode([i]) or theirs.convert_ids_to_tokens(i) or f"[{i}]" for i in ids]

    def __len__(self) -> int:
        return len(self.theirs)
