"""Labelled text: CSV, TSV or JSONL, plain or gzip, read as a stream; and the classes that occur in it.

CSV, TSV  with a header: the columns "text" (or "sentence"), "label" and perhaps "second", a second text, or
          those that are named; others are ignored. A TSV without a header has text, tab, label.
JSONL     {"text": …, "label": …} and, where there is one, "second", and "highlights", the words that a person
          gave as the reason: spans of characters [from, to), [[0, 4], [10, 17]], or 1 and 0 for each word,
          [1, 0, 1]. Here a word is what white space separates, in Chinese and Japanese too.

A file that cannot be read raises a DataError that names the file and the line.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.files import read_json, write_text
from regard.data.segments import Span, split_at_spaces, split_words
from regard.data.tables import Column, kind_of, table
from regard.data.text_lines import DataError

Spans = tuple[Span, ...]
KINDS = (".csv", ".tsv", ".txt", ".jsonl")  # of files; .txt is read as .tsv


@dataclass(frozen=True)
class Labelled:
    """A text and its label."""

    text: str
    label: str
    second: str | None = None
    highlights: Spans | None = None  # of characters; None if not annotated
    marked: Spans = ()  # words that a file of marks names, for --deceive and evaluate --words

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

    def overlaps(self, spans: Iterable[Span], chosen: Spans | None = None) -> list[bool]:
        """For each of these spans of characters whether any of it is highlighted, or among the `chosen`."""
        covered = bytearray(len(self.text))
        for start, stop in (self.highlights if chosen is None else chosen) or ():
            covered[start:stop] = b"\1" * (stop - start)
        return [any(covered[start:stop]) for start, stop in spans]


class Named(NamedTuple):
    """What a file calls the text, the label and the second text; None: as usual."""

    text: str | None = None
    label: str | None = None
    second: str | None = None


USUAL = Named()


def labelled(path: str | Path, named: Named = USUAL) -> Iterator[Labelled]:
    """Read labelled texts from a .csv, .tsv or .jsonl (each also .gz)."""
    return (text for _, text in located_texts(path, named))


def located_texts(path: str | Path, named: Named = USUAL) -> Iterator[tuple[str, Labelled]]:
    """The same, each with where it stands; either all have a second text or none."""
    if kind_of(path) not in KINDS:
        raise DataError(f"{path}: labelled texts must be in a .csv, .tsv or .jsonl file (.gz too).")
    columns = {
        "text": Column(("text", "sentence"), "--text", named.text),
        "label": Column(("label",), "--label", named.label, heads=True),
        "second": Column(("second",), "--second", named.second, needed=False),
    }
    if kind_of(path) == ".jsonl":
        columns["highlights"] = Column(("highlights",), "", needed=False)
    first: Labelled | None = None
    for where, entry in table(path, columns):
        found = _checked(entry, where)
        first = first or found
        if (found.second is None) != (first.second is None):
            raise DataError(f"{where}: either every line has a second text or none has.")
        yield where, found
    if first is None:
        raise DataError(f"{path}: there is no labelled text in it.")


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
    """The classes in order, and whether a second text comes with each.

    `names` are what people see; `labels` are what the data have, the same unless they were renamed.
    """

    def __init__(self, names: Sequence[str], pairs: bool, labels: Sequence[str] | None = None):
        self.names, self.pairs = tuple(names), pairs
        self.labels = self.names if labels is None else tuple(labels)
        order = [*enumerate(self.names), *enumerate(self.labels)]  # a name that is also a label is a label
        self.number = {name: k for k, name in order}

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

    def renamed(self, given: str | None) -> "Classes":
        """The same with other names, given for every label: "0=negative,1=positive"."""
        if given is None:
            return self
        named: dict[str, str] = {}
        for part in given.split(","):
            label, sign, name = (each.strip() for each in part.partition("="))
            if not sign or not label or not name or label in named:
                why = f"got {part.strip()!r}" + (" for the second time" if label in named else "")
                raise DataError(f"label names must be like 0=negative,1=positive; {why}.")
            named[label] = name
        listed = f"the labels are {_some(self.labels)}"
        if unknown := [label for label in named if label not in self.labels]:
            raise DataError(f"label names: there is no label {unknown[0]!r}; {listed}.")
        if missing := [label for label in self.labels if label not in named]:
            raise DataError(f"label names: the label {missing[0]!r} has no name; {listed}.")
        names = [named[label] for label in self.labels]
        if twice := [name for name in names if names.count(name) > 1]:
            raise DataError(f"label names: two labels cannot both be {twice[0]!r}.")
        return Classes(names, self.pairs, self.labels)

    def save(self, path: str | Path) -> None:
        """Write them to a JSON file, whole or not at all."""
        what: dict[str, Any] = {"labels": self.labels, "pairs": self.pairs}
        if self.names != self.labels:
            what["names"] = self.names
        write_text(path, json.dumps(what, ensure_ascii=False, indent=1))

    @classmethod
    def load(cls, path: str | Path) -> "Classes":
        """Read them from the file that `save` wrote."""
        try:
            what = read_json(path)
            labels, pairs = what["labels"], what["pairs"]
            names = what.get("names", labels)
            for some in (labels, names):
                if not isinstance(some, list) or len(set(some)) < len(some) or len(some) != len(labels):
                    raise ValueError
            if not isinstance(pairs, bool):
                raise ValueError
            return cls(list(map(str, names)), pairs, list(map(str, labels)))
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise DataError(f"{path}: not a file of labels that regard has saved.") from None

    def check_label(self, label: str, where: str) -> None:
        """DataError unless the label is known."""
        if label not in self.number:
            raise DataError(
                f"{where}: the label {label!r} is not among those trained on: {_some(self.labels)}."
            )

    def check(self, text: Labelled, where: str) -> Labelled:
        """The text, if its label is known and a second text is there if it must be."""
        self.check_label(text.label, where)
        if self.pairs and text.second is None:
            raise DataError(f"{where}: a second text is needed, as in training.")
        if not self.pairs and text.second is not None:
            raise DataError(f"{where}: a second text came, and there was none in training.")
        return text


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (" …" if len(names) > 20 else "")
