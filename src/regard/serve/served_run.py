"""A run that is served: its name, its system, and what the page needs to know of it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.core.errors import RunError
from regard.inspection.captions import change_caption
from regard.inspection.control import Control, Value, controls, resolve_options
from regard.inspection.deadline import watch
from regard.inspection.description import check_inspectable, describe
from regard.inspection.inspected import InvalidRequest, inspect
from regard.inspection.pictures import picture_data
from regard.runs.load import open_system
from regard.serve.audit_page import audit_address
from regard.tasks.system import System
from regard.views.shown_text import shown


@dataclass(frozen=True, eq=False)
class ServedRun:
    """A trained system by name."""

    name: str
    system: System

    @cached_property
    def controls(self) -> list[Control]:
        """What can be chosen of it."""
        return controls(self.system)

    @cached_property
    def description(self) -> dict[str, Any]:
        """What it is, without its audit, which may come later."""
        return {
            "name": self.name,
            **describe(self.system),
            "controls": [asdict(one) for one in self.controls],
        }

    def facts(self) -> dict[str, Any]:
        """What it is, in plain types."""
        return {**self.description, "audit": audit_address(self.name, self.system.folder)}

    def answer(
        self, text: str, options: Mapping[str, Value], longest: int | None = None, **asked: Any
    ) -> dict[str, Any]:
        """The answer to a text in plain types: what the page shows and the API gives.

        `options` are those of `controls`; second, words and how as `inspect` takes them.
        """
        chosen = resolve_options(self.controls, options)
        found = inspect(self.system, text, name=self.name, longest=longest, **asked)
        picture, complete, missing = None, True, ""
        try:
            picture, complete = picture_data(found, chosen)
        except InvalidRequest as error:
            missing = str(error)
        return {
            "run": self.name,
            "how": found.how,
            "options": chosen,
            "words": [shown(word) for word in found.words],
            "changed": found.changed,
            "columns": found.columns,
            "answer": shown(found.said),
            "answer_words": [shown(word) for word in found.rows],
            "log_prob": found.log_prob,
            "probabilities": [
                {"label": shown(label), "probability": p} for label, p in found.probabilities.items()
            ],
            "change": shown(change_caption(found)),
            "view": picture,
            "missing": shown(missing),
            "complete": complete,
        }


def open_runs(folders: Sequence[Path], device: str = "cpu") -> dict[str, ServedRun]:
    """The runs in these folders by name: that of the folder, or its whole path where two are alike."""
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise RunError("a run can be given once; got the same folder twice.")
    last = [folder.resolve().name for folder in folders]
    found = {}
    for folder, name in zip(folders, last, strict=True):
        name = str(folder) if last.count(name) > 1 else name
        system = open_system(folder, device)
        check_inspectable(system)
        watch(system.model)
        found[name] = ServedRun(name, system)
    return found
