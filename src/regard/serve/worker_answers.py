"""What a worker does: answers requests with the runs that are loaded."""

import json
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from regard.core.errors import RunError
from regard.inspection.control import resolve_options
from regard.inspection.inspected import InvalidRequest
from regard.serve.guard import Bounds
from regard.serve.page_files import saved
from regard.serve.served_run import ServedRun
from regard.serve.worker import ANSWER, FAILED, REFUSED, Reply

Runs = Mapping[str, ServedRun]


def prepare(runs: Runs, bounds: Bounds, device: str) -> Callable[[Any], Iterator[Reply]]:
    """Move the runs to a device; what then answers a question: what to do, and with what."""
    for run in runs.values():
        run.system.model.to(device)
    return partial(answer, runs, bounds)


def answer(runs: Runs, bounds: Bounds, question: Mapping[str, Any]) -> Iterator[Reply]:
    """A reply to each of those who asked; a failure of one is not one of the others."""
    done, asked = 0, question["asked"]
    try:
        for found in DO[question["do"]](runs, bounds, asked):
            yield (REFUSED, str(found).encode()) if isinstance(found, Exception) else (ANSWER, found)
            done += 1
    except (InvalidRequest, RunError) as error:
        yield REFUSED, str(error).encode()
    except Exception:
        if len(asked) == 1:
            traceback.print_exc()
            yield FAILED, b""
        else:
            for one in asked[done:]:
                yield from answer(runs, bounds, {**question, "asked": [one]})


def _inspect(runs: Runs, bounds: Bounds, asked: Sequence[Mapping[str, Any]]) -> Iterator[bytes | Exception]:
    """Requests of one run, as JSON."""
    for found in runs[asked[0]["run"]].answers(asked, bounds.longest):
        yield found if isinstance(found, Exception) else _json(found)


def _page(runs: Runs, bounds: Bounds, asked: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
    """All that a page in this state shows: one answer for each panel, and one for each change of words."""
    (state,) = asked
    answers, panels = [], []
    for panel in state["panels"]:
        run = runs[panel["run"]]
        second = state["second"] if run.system.takes_second else None
        hows = ["none", *(run.description["changes"] if state["words"] else [])]
        given = {"text": state["text"], "second": second, "options": panel["options"]}
        requests = [{**given, "how": how, "words": [] if how == "none" else state["words"]} for how in hows]
        for found in run.answers(requests, bounds.longest):
            if isinstance(found, Exception):
                raise found
            answers.append(found)
        panels.append({**panel, "options": resolve_options(run.controls, panel["options"])})
    facts = [run.facts() for run in runs.values()]
    yield saved({"state": {**state, "panels": panels}, "runs": facts, "answers": answers}).encode()


def _audit(runs: Runs, bounds: Bounds, asked: Sequence[str]) -> Iterator[bytes]:
    for name in asked:
        yield runs[name].audit_page().encode()


DO: dict[str, Callable[..., Iterator[bytes | Exception]]] = {
    "inspect": _inspect, "page": _page, "audit": _audit,
}  # fmt: skip


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
