"""Labelled text: TSV or JSONL, plain or gzip, read as a stream; and the classes that occur in it.

TSV     text TAB label. If one column of the first line is called "label", that line is a header: the text is
        then the column "text" or "sentence", and there may be a column "second".
JSONL   {"text": …, "label": …} and, where there is one, "second", a second text, and "highlights", the words
        that a person gave as the reason: spans of characters [from, to), [[0, 4], [10, 17]], or 1 and 0 for
        each word, [1, 0, 1]. Here a word is what white space separates, in Chinese and Japanese too.

A file that cannot be read raises a DataError that names the file and the line.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.files import write_text
from regard.data.segments import Span, split_at_spaces, split_words
from regard.data.text import DataError, records

Spans = tuple[Span, ...]
TEXT = ("text", "sentence")  # names of the column with the text


@dataclass(frozen=True)
class Labelled:
    """A text and its label."""

    text: str
    label: str
    second: str | None = None
    highlights: Spans | None = None  # of characters; None if not annotated

    @classmethod
    def of_words(cls, words: Iterable[str], label: str, highlighted: Iterable[int]) -> "Labelled":
        """A text of these words, some of them (positions) highlighted."""
        text = " ".join(words)
        spans = split_words(text)
        return cls(text, label, None, tuple(spans[i] for i in sorted(highlighted)))

    @property
    def highlighted(self) -> list[bool] | None:
        """For each word (`split_words`) whether any of it is highlighted; None if not annotated."""
        return None if self.highlights is None else self.overlaps(split_words(self.text))

    def overlaps(self, spans: Iterable[Span]) -> list[bool]:
        """For each of these spans of characters whether any of it is highlighted."""
        covered = bytearray(len(self.text))
        for start, stop in self.highlights or ():
            covered[start:stop] = b"\1" * (stop - start)
        return [any(covered[start:stop]) for start, stop in spans]


def labelled(path: str | Path) -> Iterator[Labelled]:
    """Read labelled texts from a .tsv or .jsonl (each also .gz); either all have a second text or none."""
    first: Labelled | None = None
    for where, entry in _entries(path):
        found = _checked(entry, where)
        first = first or found
        if (found.second is None) != (first.second is None):
            raise DataError(f"{where}: either every line has a second text or none has.")
        yield found
    if first is None:
        raise DataError(f"{path}: there is no labelled text in it.")


def _entries(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a file has of each text by name, and where it stands."""
    names = ["text", "label"]
    wrong = "labelled texts must be in a .tsv or .jsonl file (.gz too)."
    for number, (where, entry) in enumerate(records(path, wrong)):
        if isinstance(entry, str) or (isinstance(entry, dict) and not entry.keys() >= {"text", "label"}):
            found = entry[:40] if isinstance(entry, str) else ", ".join(map(repr, entry)) or "none"
            raise DataError(f'{where}: an object with "text" and "label" is needed; found {found}.')
        if isinstance(entry, dict):
            yield where, entry
        elif number == 0 and "label" in (heading := [cell.strip().lower() for cell in entry]):
            names = ["text" if name in TEXT else name for name in heading]
            if sorted(names) not in (["label", "text"], ["label", "second", "text"]):
                raise DataError(
                    f'{where}: a header has "text" (or "sentence"), "label" and perhaps "second"; '
                    f"found {', '.join(map(repr, heading))}."
                )
        elif len(entry) != len(names):
            raise DataError(
                f"{where}: {len(names)} columns, {', '.join(names)}, are needed; found {len(entry)}."
            )
        else:
            yield where, dict(zip(names, entry, strict=True))


def _checked(entry: dict[str, Any], where: str) -> Labelled:
    label = entry["label"]
    if isinstance(label, int) and not isinstance(label, bool):
        label = str(label)
    texts = {"text": entry["text"], "label": label}
    if (second := entry.get("second")) is not None:
        texts["second"] = second
    for name, text in texts.items():
        if not isinstance(text, str):
            raise DataError(f"{where}: {name} must be text; got {type(text).__name__}.")
        if not text.strip():
            raise DataError(f"{where}: {name} is empty.")
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            raise DataError(f"{where}: {name} holds NUL or half of a surrogate pair, which is no character.")
    label = label.strip()
    if len(label.splitlines()) > 1 or "\t" in label:
        raise DataError(f"{where}: a label must be one line without tabs; got {label!r}.")
    return Labelled(entry["text"], label, second, _spans(entry.get("highlights"), entry["text"], where))


def _spans(given: Any, text: str, where: str) -> Spans | None:
    """Highlights as spans of characters, given as spans or as 0 and 1."""
    if given is None:
        return None
    if not isinstance(given, list):
        raise DataError(f"{where}: highlights must be a list; got {type(given).__name__}.")
    if given and all(isinstance(one, list) for one in given):
        for span in given:
            whole = len(span) == 2 and all(type(end) is int for end in span)
            if not whole or not 0 <= span[0] < span[1] <= len(text):
                raise DataError(
                    f"{where}: a highlight must be [from, to) within the {len(text)} characters of the text; "
                    f"got {span}."
                )
        return tuple(sorted((a, b) for a, b in given))
    if given and not all(one in (0, 1) and isinstance(one, int) for one in given):
        raise DataError(
            f"{where}: highlights must be pairs [from, to), or 0 and 1 for each word; got {given}."
        )
    words = split_at_spaces(text)
    if given and len(given) != len(words):
        raise DataError(f"{where}: there are {len(given)} highlights for {len(words)} words.")
    return tuple(span for span, chosen in zip(words, given, strict=False) if chosen)


class Classes:
    """The names of the classes, in order, and whether a second text comes with each."""

    def __init__(self, names: Sequence[str], pairs: bool):
        self.names, self.pairs = tuple(names), pairs
        self.number = {name: k for k, name in enumerate(self.names)}

    @classmethod
    def of(cls, texts: Iterable[Labelled]) -> "Classes":
        """Those that occur in these texts; a classifier needs at least two."""
        names, pairs = set(), False
        for text in texts:
            names.add(text.label)
            pairs = text.second is not None
        if len(names) < 2:
            found = f"they are all {names.pop()!r}" if names else "there is none"
            raise DataError(f"the training texts must have at least two different labels; {found}.")
        return cls(sorted(names), pairs)

    def save(self, path: str | Path) -> None:
        """Write them to a JSON file, whole or not at all."""
        write_text(
            path, json.dumps({"labels": self.names, "pairs": self.pairs}, ensure_ascii=False, indent=1)
        )

    @classmethod
    def load(cls, path: str | Path) -> "Classes":
        """Read them from the file that `save` wrote."""
        try:
            what = json.loads(Path(path).read_text(encoding="utf-8"))
            return cls([str(name) for name in what["labels"]], bool(what["pairs"]))
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
        except (ValueError, KeyError, TypeError):
            raise DataError(f"{path}: not a file of labels that regard has saved.") from None

    def check(self, text: Labelled, where: str) -> Labelled:
        """The text, if its label is known and a second text is there if it must be."""
        if text.label not in self.number:
            known = ", ".join(self.names[:20]) + (" …" if len(self.names) > 20 else "")
            raise DataError(f"{where}: the label {text.label!r} is not among those trained on: {known}.")
        if self.pairs and text.second is None:
            raise DataError(f"{where}: a second text is needed, as in training.")
        if not self.pairs and text.second is not None:
            raise DataError(f"{where}: a second text came, and there was none in training.")
        return text
