"""A run that is looked at: its name, its system, and what there is to look at."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.core.errors import RunError
from regard.runs import Settings, Translator, load
from regard.runs.folder import read_settings
from regard.runs.sentences import Sentences
from regard.serve.deadline import watch


@dataclass(frozen=True, eq=False)
class Run:
    """A trained system by name."""

    name: str
    system: Translator
    settings: Settings

    @property
    def cross(self) -> list[str]:
        """The source–target attentions by path, one for each layer; none in a model without attention."""
        return list(getattr(self.system.model, "cross", []))

    @property
    def heads(self) -> int:
        """Of each layer."""
        return int(self.settings.model.get("heads", 1)) if self.cross else 0

    @property
    def score(self) -> str:
        """The score of its attentions."""
        return str(self.settings.model.get("score", ""))

    @property
    def map(self) -> str:
        """The map of its attentions."""
        map = str(self.settings.model.get("map", ""))
        return f"{map} with learned α" if self.settings.model.get("learn_alpha") else map

    @cached_property
    def example(self) -> str:
        """A sentence it was not trained on, where its corpus is generated; else none."""
        data, seed = self.settings.data, self.settings.seed
        return "" if data.corpus is None else next(Sentences(data, seed).valid())[0]

    def facts(self) -> dict[str, Any]:
        """What it is, in plain types."""
        return {
            "name": self.name,
            "model": self.settings.model["name"],
            "parameters": sum(p.numel() for p in self.system.model.parameters()),
            "score": self.score if self.cross else "",
            "map": self.map if self.cross else "",
            "layers": self.cross,
            "heads": self.heads,
            "beam": self.settings.decoding.beam,
            "example": self.example,
        }


def open_runs(folders: Sequence[Path], device: str = "cpu") -> dict[str, Run]:
    """The runs in these folders by name: that of the folder, or where two are alike their whole path."""
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise RunError("a run can be given once; got the same folder twice.")
    last = [folder.resolve().name for folder in folders]
    found = {}
    for folder, name in zip(folders, last, strict=True):
        name = str(folder) if last.count(name) > 1 else name
        found[name] = Run(name, load(folder, device), read_settings(folder))
        watch(found[name].system.model)
    return found
