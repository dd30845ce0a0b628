"""Tokenizers: text to ids and back, by byte-pair encoding, words or characters.

bpe        byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909) over bytes, not characters. A word
           includes the space before it, the first word too: "two" is the same token anywhere in a text.
           decode(encode(text)) is the text, for any text.
word       split at white space. Words that are not in the vocabulary become UNK.
lowercase  words and punctuation marks apart, in lower case: "(Hello)" is "(", "hello", ")". Unknown words
           become UNK.
character  single characters. decode(encode(text)) is the text if all its characters are known.

UNK is decoded as "�". Ids beyond the vocabulary are unknown words that a model copies; to decode them, pass
these words (`data/copying.py`). The name of a special token in a text is ordinary text.
"""

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args

from regard.core.files import read_json, write_text
from regard.core.tokens import BOS, EOS, PAD, UNK
from regard.data.byte_level import BYTES, Span, join_bytes, raw_bytes
from regard.data.text import DataError, needed

Kind = Literal["bpe", "word", "lowercase", "character"]
KINDS = get_args(Kind)
SPECIAL = [" pad", " bos", " eos", " unk"]  # no word, character or byte-level token has such a name
SHOWN = ["<pad>", "<s>", "</s>", "<unk>"]
UNKNOWN = "�"


class Tokenizer:
    """A vocabulary, and how text is split into its tokens; ids 0 to 3 are PAD, BOS, EOS and UNK."""

    def __init__(self, inner: Any, kind: Kind):
        self.inner, self.kind = inner, kind
        self.ahead = " " if kind == "bpe" else ""  # before a text: its first word is a word like others
        self.inner.encode_special_tokens = True  # "<s>" in a text is not the beginning of a sequence

    @classmethod
    def train(cls, lines: Iterable[str], kind: Kind = "bpe", size: int = 8000) -> "Tokenizer":
        """Learn a vocabulary of `size` tokens, special ones included, or, with a warning, of fewer."""
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}.")
        least = len(SPECIAL) + (BYTES if kind == "bpe" else 1)
        if size < least:
            raise ValueError(f"size must be at least {least} for kind={kind!r}; got {size}.")
        inner, trainer = _empty(kind, size)
        stream = filter(str.strip, lines)
        first = next(stream, None)
        if first is None:
            raise DataError("a tokenizer cannot be trained on no text.")
        tokenizer = cls(inner, kind)
        inner.train_from_iterator((tokenizer.ahead + line for line in chain([first], stream)), trainer)
        if len(tokenizer) < size:
            warnings.warn(
                f"the vocabulary has {len(tokenizer):,} tokens, not {size:,}: the text has no more.",
                stacklevel=2,
            )
        return tokenizer

    def __len__(self) -> int:
        return int(self.inner.get_vocab_size())

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without BOS and EOS."""
        return self.encode_many([text])[0]

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without BOS and EOS; faster than one by one."""
        found = self.inner.encode_batch_fast(self._with_ahead(texts), add_special_tokens=False)
        return [one.ids for one in found]

    def encode_spans(self, texts: Sequence[str]) -> list[tuple[list[int], list[Span]]]:
        """The ids of each text, and for each id the span of its characters.

        A token that is a part of a character has the span of the whole; one that stands for the space before
        the text has an empty span.
        """
        found = self.inner.encode_batch(self._with_ahead(texts), add_special_tokens=False)
        return [(one.ids, _shifted(one.offsets, len(self.ahead))) for one in found]

    def decode(self, ids: Iterable[int], unknown: Sequence[str] = ()) -> str:
        """The text of ids: PAD and BOS are skipped, EOS ends it; ids beyond the vocabulary are `unknown`."""
        if self.kind == "bpe":  # decode_spans has the same text, more slowly
            return str(self.inner.decode([i for i in _shown_ids(ids) if i is not None])).removeprefix(" ")
        return self.decode_spans(ids, unknown)[0]

    def decode_spans(self, ids: Iterable[int], unknown: Sequence[str] = ()) -> tuple[str, list[Span]]:
        """The text of ids, as `decode` gives it, and for each id the span of its characters.

        Ids that are skipped (PAD, BOS, and all from EOS on) have empty spans.
        """
        shown = list(_shown_ids(ids))
        if self.kind == "bpe":
            text, spans = join_bytes([b"" if i is None else self._bytes.get(i, b"") for i in shown])
            ahead = int(text.startswith(" "))
            return text[ahead:], _shifted(spans, ahead)
        parts = [None if i is None else UNKNOWN if i == UNK else self._piece(i, unknown) for i in shown]
        return _join(parts, "" if self.kind == "character" else " ")

    def pieces(self, text: str | Iterable[int], unknown: Sequence[str] = ()) -> list[str]:
        """The tokens of a text, or of ids, as people read them: a space is shown as ▁."""
        ids = self.encode(text) if isinstance(text, str) else map(int, text)
        return [SHOWN[i] if i < len(SHOWN) else _shown(self._piece(i, unknown), self.kind) for i in ids]

    def save(self, path: str | Path) -> None:
        """Write the tokenizer to a JSON file, atomically."""
        what = {"kind": self.kind, "tokenizer": json.loads(self.inner.to_str())}
        write_text(path, json.dumps(what, ensure_ascii=False, indent=1))

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Read a tokenizer from the file that `save` wrote."""
        tokenizers = needed("tokenizers")
        try:
            what = read_json(path)
            kind, inner = what["kind"], tokenizers.Tokenizer.from_str(json.dumps(what["tokenizer"]))
            if kind not in KINDS or [inner.id_to_token(i) for i in range(len(SPECIAL))] != SPECIAL:
                raise ValueError
            if sorted(inner.get_vocab().values()) != list(range(inner.get_vocab_size())):
                raise ValueError  # ids with gaps
            if _rules(inner) != _rules(_empty(kind, 1000)[0]):
                raise ValueError  # cuts otherwise than those that are trained here
            if kind == "bpe":
                _ = cls(inner, kind)._bytes
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
        except Exception:  # the library raises plain Exceptions
            raise DataError(f"{path}: not a tokenizer that regard has saved.") from None
        return cls(inner, kind)

    def _with_ahead(self, texts: Sequence[str]) -> list[str]:
        return [self.ahead + text if text else "" for text in texts]

    def _piece(self, i: int, unknown: Sequence[str] = ()) -> str:
        beyond = i - len(self)
        if beyond >= len(unknown):
            raise ValueError(f"ids must be less than {len(self)}, the size of the vocabulary; got {i}.")
        return str(self.inner.id_to_token(i)) if beyond < 0 else unknown[beyond]

    @cached_property
    def _bytes(self) -> dict[int, bytes]:
        """The bytes of each token by id, without the special tokens."""
        return {i: raw_bytes(self.inner.id_to_token(i)) for i in range(len(SPECIAL), len(self))}


def _empty(kind: Kind, size: int) -> tuple[Any, Any]:
    """An untrained tokenizer, and its trainer."""
    tokenizers = needed("tokenizers")
    models, cut, trainers = tokenizers.models, tokenizers.pre_tokenizers, tokenizers.trainers
    settings = dict(vocab_size=size, special_tokens=SPECIAL, show_progress=False)
    if kind == "bpe":
        inner = tokenizers.Tokenizer(models.BPE())
        inner.pre_tokenizer = cut.ByteLevel(add_prefix_space=False)
        inner.decoder = tokenizers.decoders.ByteLevel()
        return inner, trainers.BpeTrainer(initial_alphabet=cut.ByteLevel.alphabet(), **settings)
    inner = tokenizers.Tokenizer(models.WordLevel(unk_token=SPECIAL[UNK]))
    if kind == "lowercase":
        inner.normalizer = tokenizers.normalizers.Lowercase()
        mark = tokenizers.Regex(r"[^\w\s@]|_")  # "@entity3" is one word
        inner.pre_tokenizer = cut.Sequence([cut.WhitespaceSplit(), cut.Split(mark, "isolated")])
        return inner, trainers.WordLevelTrainer(**settings)
    every = tokenizers.Regex(r"[\s\S]")
    inner.pre_tokenizer = cut.WhitespaceSplit() if kind == "word" else cut.Split(every, "isolated")
    return inner, trainers.WordLevelTrainer(**settings)


def _rules(inner: Any) -> dict[str, Any]:
    """All of a tokenizer but its vocabulary."""
    found = json.loads(inner.to_str())
    model = {k: v for k, v in found.pop("model").items() if k not in ("vocab", "merges")}
    found.pop("added_tokens")
    return {**found, "model": model}


def _shifted(spans: Iterable[Span], by: int) -> list[Span]:
    """Spans in a text without its first `by` characters."""
    return [(max(start - by, 0), max(stop - by, 0)) for start, stop in spans]


def _shown_ids(ids: Iterable[int]) -> Iterator[int | None]:
    """The ids, None in place of those that are skipped."""
    ended = False
    for i in map(int, ids):
        ended = ended or i == EOS
        yield None if ended or i in (PAD, BOS) else i


def _join(parts: Iterable[str | None], separator: str) -> tuple[str, list[Span]]:
    """Join parts to a text; also the span of each, empty for None."""
    shown, spans, at = list[str](), list[Span](), 0  # the end of the last part
    for part in parts:
        start = at + len(separator) if shown and part is not None else at
        if part is not None:
            shown.append(part)
            at = start + len(part)
        spans.append((start, at))
    return separator.join(shown), spans


def _shown(piece: str, kind: Kind) -> str:
    if kind != "bpe":
        return piece.replace(" ", "▁")
    raw = raw_bytes(piece)
    try:
        return raw.decode("utf-8").replace(" ", "▁")
    except UnicodeDecodeError:  # part of a character
        return "".join(f"<{byte:02x}>" for byte in raw)
