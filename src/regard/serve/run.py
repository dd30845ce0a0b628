"""A translator that is looked at: its name, its system, and what there is to look at."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.core.attention_paths import attention_paths
from regard.runs import Settings, Translator
from regard.runs.sentences import Sentences
from regard.serve.audited import audit_address


@dataclass(frozen=True, eq=False)
class Run:
    """A trained translator by name."""

    name: str
    system: Translator
    settings: Settings
    folder: Path | None = None

    @property
    def cross(self) -> list[str]:
        """The source–target attentions by path, one for each layer; none in a model without attention."""
        return attention_paths(self.system.model).get("cross", [])

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
        return map_of(self.settings.model)

    @cached_property
    def example(self) -> str:
        """A sentence it was not trained on, where its corpus is generated; else none."""
        data, seed = self.settings.data, self.settings.seed
        return "" if data.corpus is None else next(Sentences(data, seed).valid())[0]

    def facts(self) -> dict[str, Any]:
        """What it is, in plain types."""
        return {
            "name": self.name,
            "kind": "translator",
            "model": self.settings.model["name"],
            "parameters": sum(p.numel() for p in self.system.model.parameters()),
            "score": self.score if self.cross else "",
            "map": self.map if self.cross else "",
            "layers": self.cross,
            "heads": self.heads,
            "beam": self.settings.decoding.beam,
            "example": self.example,
            "audit": audit_address(self.name, self.folder),
            "labels": [],
            "pairs": False,
            "methods": [],
        }


def map_of(model: Mapping[str, Any]) -> str:
    """The map that the settings of a model name."""
    map = str(model.get("map", ""))
    return f"{map} with learned α" if model.get("learn_alpha") else map
