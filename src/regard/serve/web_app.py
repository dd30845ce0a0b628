"""The web application: the page, and the API behind it, which does all that the page does."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException

from regard.core.errors import RunError
from regard.inspection.control import resolve_options
from regard.inspection.deadline import DeadlineExceeded
from regard.inspection.inspected import How, InvalidRequest
from regard.serve.guard import Bounds, problem
from regard.serve.messages import (
    AnswerMessage,
    ErrorMessage,
    InspectionRequest,
    PageState,
    RunFacts,
    valid_unicode,
)
from regard.serve.page_files import saved, served
from regard.serve.served_run import ServedRun
from regard.serve.work_queue import QueueFull, WorkQueue

WRONG: dict[int | str, dict[str, Any]] = {
    code: {"model": ErrorMessage, "description": says}
    for code, says in {
        401: "the token is missing",
        403: "the request comes from a page of another site",
        408: "the request did not arrive in time",
        413: "too many bytes",
        421: "not a name of this host",
        422: "not a request this server can answer",
        503: "too many requests: retry after Retry-After seconds",
        504: "it took too long",
    }.items()
}


def make_app(runs: Mapping[str, ServedRun], bounds: Bounds = Bounds()) -> FastAPI:  # noqa: B008  (frozen)
    """The application for these runs; `Guard` belongs around it."""
    queue = WorkQueue(bounds.room, bounds.seconds)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        queue.close()

    app = FastAPI(
        title="regard",
        summary="What a run answers, where it attends, and what changes when words are masked or deleted.",
        version="2",
        docs_url=None,  # these pages ask another host for their scripts
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
    )
    _handle_errors(app)
    _serve_files(app)

    @app.get("/api/runs", response_model=list[RunFacts])
    async def list_runs() -> Any:
        """The runs that are served, and what can be chosen of each."""
        return [run.facts() for run in runs.values()]

    @app.post("/api/inspect", response_model=AnswerMessage, responses=WRONG)
    async def inspect(request: InspectionRequest) -> Response:
        """The answer of a run to a text, as it is or with words masked or deleted, and its weights."""
        run = _named(runs, request.run)
        found = await queue.run(lambda: _json(run.answer(request, bounds.longest)))
        return Response(found, media_type="application/json")

    @app.post("/api/page", response_class=HTMLResponse, responses=WRONG)
    async def save(state: PageState) -> Response:
        """The page in this state as one HTML file, which needs no server."""
        page = await queue.run(lambda: saved(_whole(runs, bounds, state)).encode())
        headers = {"Content-Disposition": 'attachment; filename="regard.html"'}
        return Response(page, media_type="text/html", headers=headers)

    @app.get("/audit/{name:path}", response_class=HTMLResponse, responses=WRONG)
    async def audit(name: str) -> Response:
        """The report of the audit of a run, one HTML page."""
        body, policy = await queue.run(_named(runs, name).audit_page)
        return Response(body, media_type="text/html", headers={"Content-Security-Policy": policy})

    return app


def _named(runs: Mapping[str, ServedRun], name: str) -> ServedRun:
    if name not in runs:
        raise InvalidRequest(f"no run {name[:100]!r} here. Known: {', '.join(runs)}.")
    return runs[name]


def _whole(runs: Mapping[str, ServedRun], bounds: Bounds, state: PageState) -> dict[str, Any]:
    """All that a page in this state shows: one answer for each panel, and one for each change of words."""
    if len(state.panels) > bounds.panels:
        raise InvalidRequest(f"at most {bounds.panels} runs are shown together; got {len(state.panels)}.")
    answers = []
    for panel in state.panels:
        run = _named(runs, panel.run)
        second = state.second if run.system.takes_second else None
        hows: list[How] = ["none", *(run.description["changes"] if state.words else [])]
        for how in hows:
            words = [] if how == "none" else state.words
            asked: dict[str, Any] = {"text": state.text, "second": second, "words": words, "how": how}
            request = InspectionRequest(run=panel.run, options=panel.options, **asked)
            answers.append(run.answer(request, bounds.longest))
    panels = [
        {"run": one.run, "options": resolve_options(runs[one.run].controls, one.options)}
        for one in state.panels
    ]
    facts = [run.facts() for run in runs.values()]
    return {"state": {**state.model_dump(), "panels": panels}, "runs": facts, "answers": answers}


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def _serve_files(app: FastAPI) -> None:
    for path, (kind, text) in served().items():
        app.get(path, include_in_schema=False)(_file(text.encode(), kind))


def _file(body: bytes, kind: str) -> Callable[[], Awaitable[Response]]:
    async def file() -> Response:
        keep = {"Cache-Control": "max-age=3600"} if kind.startswith("image") else None
        return Response(body, media_type=kind, headers=keep)

    return file


def _handle_errors(app: FastAPI) -> None:
    """Say in a sentence what was wrong, and never quote what was sent."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return problem(422, "the request is not JSON.")
        where = ".".join(str(valid_unicode(part)) for part in first["loc"] if part != "body")[:100]
        return problem(422, f"{where or 'the request'}: {first['msg']}.")

    @app.exception_handler(InvalidRequest)
    @app.exception_handler(RunError)
    async def refused(_: Request, error: ValueError) -> Response:
        return problem(422, str(error))

    @app.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> Response:
        return problem(error.status_code, f"{error.detail}.")

    @app.exception_handler(QueueFull)
    @app.exception_handler(DeadlineExceeded)
    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> Response:
        if isinstance(error, QueueFull):
            return problem(503, "too many requests at once; try again in a second.", Retry_After="1")
        if isinstance(error, DeadlineExceeded):
            return problem(504, "this took too long; try a shorter text or a simpler method.")
        return problem(500, "this is an error of the server; its log says more.")
