"""A run that is served: its name, its system, and what the page needs to know of it."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from regard.audits.audit_folder import FOLDER, KINDS
from regard.audits.report import Report
from regard.audits.report_page import page
from regard.core.errors import RunError
from regard.data.text import DataError
from regard.inspection.captions import change_caption
from regard.inspection.control import Control, Value, controls, resolve_options
from regard.inspection.description import check_inspectable, describe
from regard.inspection.inspected import ANSWER, Inspected, InvalidRequest, answer_prepared, prepare
from regard.inspection.pictures import picture_data
from regard.runs.folder import open_system
from regard.serve.worker import single_threaded
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

    def audit_page(self) -> str:
        """The page of its audit.

        A folder may come from anywhere: its report is read as data, never served as a file, so that nothing
        in it can run, and whatever is wrong with it is one sentence.
        """
        file = self._audit()
        if file is None:
            raise RunError("this run has not been audited: regard audit does it.")
        try:
            return page([Report.load(file)])
        except OSError as error:
            raise RunError(f"{file} cannot be read: {error.strerror or error}.") from None
        except Exception:
            raise RunError(f"{file} is not a report that regard has saved.") from None

    def _audit(self) -> Path | None:
        """The full report, or else the quick one."""
        if self.system.folder is None:
            return None
        files = (self.system.folder / FOLDER / f"{kind}.json" for kind in KINDS)
        return next((file for file in files if os.path.lexists(file)), None)

    def answers(
        self, requests: Sequence[Mapping[str, Any]], longest: int | None = None
    ) -> Iterator[dict[str, Any] | ValueError]:
        """The answer to each request, texts of at most `longest` tokens, in plain types: what the page shows.

        Requests are in plain types too, as `InspectionRequest` has them. They are answered as one batch.
        """
        prepared, options, refused = dict[int, Inspected](), dict[int, dict[str, Value]](), {}
        for i, one in enumerate(requests):
            try:
                options[i] = resolve_options(self.controls, one.get("options", {}))
                asked = (one.get("second"), one.get("words", ()), one.get("how", "none"))
                self.system.check_received(one["text"])
                prepared[i] = prepare(self.system, one["text"], *asked, self.name, longest)
            except (InvalidRequest, RunError, DataError) as error:
                refused[i] = error if not isinstance(error, DataError) else InvalidRequest(str(error))
        answered = dict(zip(prepared, answer_prepared(list(prepared.values())), strict=True))
        for i in range(len(requests)):
            found = refused[i] if i in refused else answered[i]
            yield self._message(found, options[i]) if isinstance(found, Inspected) else found

    def _words(self, found: Inspected) -> list[str]:
        """The words of the answer, which are not always the rows of the weights."""
        return found.rows if self.system.rows == "answer" else found.said.split()

    def _message(self, found: Inspected, chosen: dict[str, Value]) -> dict[str, Any]:
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
            "unknown": found.unknown,
            "changed": found.changed,
            "columns": [] if chosen.get("attention") == ANSWER else found.columns,
            "answer": shown(found.said),
            "answer_words": [shown(word) for word in self._words(found)],
            "log_prob": found.log_prob,
            "probabilities": [
                {"label": shown(label), "probability": p, "then": found.continued.get(label)}
                for label, p in found.probabilities.items()
            ],
            "change": shown(change_caption(found)),
            "view": picture,
            "missing": shown(missing),
            "complete": complete,
        }


def open_runs(folders: Sequence[Path]) -> dict[str, ServedRun]:
    """The runs in these folders by name: that of the folder, or its whole path where two are alike.

    Each has answered something, so that workers, which are forked, need not load what a first answer loads.
    """
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise RunError("a run can be given once; got the same folder twice.")
    last = [folder.resolve().name for folder in folders]
    found = {}
    with single_threaded():
        for folder, name in zip(folders, last, strict=True):
            name = str(folder) if last.count(name) > 1 else name
            system = open_system(folder)
            check_inspectable(system)
            found[name] = ServedRun(name, system)
            with suppress(Exception):  # whoever asks will be told
                text = system.example or "a"
                list(found[name].answers([{"text": text, "second": "a" if system.takes_second else None}]))
    return found
