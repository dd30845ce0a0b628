"""A run that is served: its name, its system, and what the page needs to know of it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from regard.audits.audit_folder import FOLDER, KINDS
from regard.audits.report import Report
from regard.audits.report_page import page, page_policy
from regard.core.errors import RunError
from regard.inspection.captions import change_caption
from regard.inspection.control import Control, controls, resolve_options
from regard.inspection.deadline import watch
from regard.inspection.description import check_inspectable, describe
from regard.inspection.inspected import InvalidRequest, inspect
from regard.inspection.pictures import picture_data
from regard.runs.folder import open_system
from regard.serve.messages import InspectionRequest
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
        there = "" if self._audit() is None else f"/audit/{quote(self.name, safe='')}"
        return {**self.description, "audit": there}

    def audit_page(self) -> tuple[bytes, str]:
        """The page of its audit and the page's Content-Security-Policy.

        A folder may come from anywhere: its report is read as data, never served as a file, so that nothing
        in it can run.
        """
        file = self._audit()
        if file is None:
            raise RunError("this run has not been audited: regard audit does it.")
        try:
            report = Report.load(file)
        except (ValueError, OSError) as error:
            raise RunError(str(error)) from error
        return page([report]).encode(), f"{page_policy()}; frame-ancestors 'none'"

    def _audit(self) -> Path | None:
        """The full report, or else the quick one."""
        if self.system.folder is None:
            return None
        files = (self.system.folder / FOLDER / f"{kind}.json" for kind in KINDS)
        return next((file for file in files if file.exists()), None)

    def answer(self, request: InspectionRequest, longest: int | None = None) -> dict[str, Any]:
        """The answer to a text of at most `longest` tokens, in plain types: what page and API show."""
        chosen = resolve_options(self.controls, request.options)
        asked = request.model_dump(include={"text", "second", "words", "how"})
        found = inspect(self.system, name=self.name, longest=longest, **asked)
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
