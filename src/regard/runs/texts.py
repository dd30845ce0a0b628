"""The labelled texts of a run: from files, or generated; some to learn from, some to validate on."""

from collections.abc import Iterator
from itertools import islice

from regard.core.errors import RunError
from regard.data.corpora.labelled_corpora import LABELLED
from regard.data.labelled import Labelled, labelled
from regard.runs.classifier_settings import Data


class Texts:
    """Training and validation texts, streamed anew each time they are asked for."""

    def __init__(self, data: Data, seed: int):
        self.data, self.seed, self.stride = data, seed, 0
        if data.train is not None and data.valid is None:
            count = sum(1 for _ in labelled(data.train))
            if count < 2:
                raise RunError(f"{data.train} has {count} text; at least 2 are needed, one of them held out.")
            self.stride = max(2, 10 if count >= 10 else 2, count // data.held_out)

    def train(self) -> Iterator[Labelled]:
        """The texts to learn from."""
        if self.data.train is None:
            return islice(self._generated("train"), self.data.texts)
        return (
            text for i, text in enumerate(labelled(self.data.train)) if not self.stride or i % self.stride
        )

    def valid(self) -> Iterator[tuple[str, Labelled]]:
        """The texts to validate on, each with where it stands."""
        if self.data.train is None:
            found = islice(self._generated("valid"), self.data.held_out)
            return ((f"{self.data.corpus}, text {i}", text) for i, text in enumerate(found, 1))
        name = self.data.valid or self.data.train
        step = self.stride or 1
        return ((f"{name}, text {i + 1}", text) for i, text in enumerate(labelled(name)) if i % step == 0)

    def _generated(self, split: str) -> Iterator[Labelled]:
        assert self.data.corpus is not None
        return LABELLED[self.data.corpus](self.seed, "train" if split == "train" else "valid")
