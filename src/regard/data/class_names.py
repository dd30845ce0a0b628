"""The classes of a classifier, by name and number."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from regard.core.files import write_text
from regard.data.labelled import Labelled
from regard.data.text import DataError


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
