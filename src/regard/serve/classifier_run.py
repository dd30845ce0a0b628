"""A classifier that is looked at: its name, its system, and what there is to look at."""

from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from regard.core.tokens import UNK
from regard.explanations import METHODS
from regard.recording import record
from regard.runs.classifier import Classifier
from regard.runs.classifier_settings import ClassifierSettings
from regard.runs.texts import Texts
from regard.serve.audited import audit_address
from regard.serve.run import map_of


@dataclass(frozen=True, eq=False)
class ClassifierRun:
    """A trained classifier by name."""

    name: str
    system: Classifier
    settings: ClassifierSettings
    folder: Path | None = None

    @property
    def pairs(self) -> bool:
        """Whether it takes two texts; the words of the first are looked at."""
        return self.system.classes.pairs

    @property
    def reader(self) -> str:
        """The path of the attention whose keys are the words."""
        return self.system.model.attention_paths["reader"][0]

    @property
    def layers(self) -> list[str]:
        """The self-attentions by path, one for each layer; none in most classifiers."""
        return self.system.model.attention_paths.get("self", [])

    @cached_property
    def looks(self) -> int:
        """How many queries or heads look over the words."""
        model = self.system.model
        with torch.no_grad(), record(model, model.attention_paths["reader"]) as seen:
            self.system.logits([[UNK]], [[UNK]])
        return model.over_words(seen).shape[1]

    @property
    def score(self) -> str:
        """The score of its attentions."""
        return str(self.settings.model.get("score", ""))

    @property
    def map(self) -> str:
        """The map of its attentions."""
        return map_of(self.settings.model)

    @property
    def methods(self) -> list[str]:
        """The explanations that can be asked for; attention, its weights, first."""
        there = [name for name in METHODS if name != "integrated_gradients" or find_spec("captum")]
        return sorted(there, key=lambda name: name != "attention")

    @cached_property
    def example(self) -> str:
        """A text it was not trained on, where its corpus is generated; else none."""
        data, seed = self.settings.data, self.settings.seed
        return "" if data.corpus is None else next(Texts(data, seed).valid())[1].text

    def facts(self) -> dict[str, Any]:
        """What it is, in plain types."""
        return {
            "name": self.name,
            "kind": "classifier",
            "model": self.settings.model["name"],
            "parameters": self.system.model.parameter_count(),
            "score": self.score,
            "map": self.map,
            "layers": list(self.system.model.attention_paths["reader"]),
            "heads": self.looks,
            "beam": 1,
            "example": self.example,
            "audit": audit_address(self.name, self.folder),
            "labels": list(self.system.labels),
            "pairs": self.pairs,
            "methods": self.methods,
        }
