"""The web application: the page, and the API behind it, which does all that the page does."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import torch
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException

from regard.audits.report_page import page_policy
from regard.inspection.inspected import InvalidRequest
from regard.inspection.method_scores import ATTENTION
from regard.serve.guard import Bounds, problem
from regard.serve.messages import (
    AnswerMessage,
    ErrorMessage,
    Health,
    InspectionRequest,
    PageState,
    RunFacts,
    valid_unicode,
)
from regard.serve.page_files import served
from regard.serve.served_run import ServedRun
from regard.serve.work_queue import (
    Abandoned,
    DeadlineExceeded,
    QueueFull,
    Refused,
    WorkFailed,
    WorkQueue,
)
from regard.serve.worker import single_threaded
from regard.serve.worker_answers import prepare

SHORT = 2000  # characters of texts that are answered as one batch

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


def make_app(
    runs: Mapping[str, ServedRun],
    bounds: Bounds = Bounds(),  # noqa: B008  (frozen)
    device: str = "cpu",
) -> FastAPI:
    """The application for these runs, which workers move to the device; `Guard` belongs around it."""
    threads = max(1, torch.get_num_threads() // 2)  # the others are for the server and for another worker
    work = partial(prepare, runs, bounds, device)
    queue = WorkQueue(work, room=bounds.room, seconds=bounds.seconds, threads=threads)
    policy = f"{page_policy()}; frame-ancestors 'none'"
    with single_threaded():
        for run in runs.values():
            assert run.description  # which runs the model

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await queue.close()

    app = FastAPI(
        title="regard",
        summary="What a run answers, where it attends, and what changes when words are masked or deleted.",
        version="2",
        docs_url=None,  # these pages ask another host for their scripts
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
    )
    app.state.queue = queue
    _handle_errors(app)
    _serve_files(app)

    @app.get("/api/runs", response_model=list[RunFacts])
    async def list_runs() -> Any:
        """The runs that are served, and what can be chosen of each."""
        return [run.facts() for run in runs.values()]

    @app.get("/api/health", response_model=Health)
    async def health() -> Any:
        """Whether a request would be answered at once, and how many wait."""
        return queue.health()

    @app.post("/api/inspect", response_model=AnswerMessage, responses=WRONG)
    async def inspect(asked: InspectionRequest, request: Request) -> Response:
        """The answer of a run to a text, as it is or with words masked or deleted, and its weights."""
        check_run(asked.run)
        found = await queue.run("inspect", asked.model_dump(), _batch(asked), partial(_gone, request))
        return Response(found, media_type="application/json")

    @app.post("/api/page", response_class=HTMLResponse, responses=WRONG)
    async def save(state: PageState, request: Request) -> Response:
        """The page in this state as one HTML file, which needs no server."""
        if len(state.panels) > bounds.panels:
            raise InvalidRequest(f"at most {bounds.panels} runs are shown together; got {len(state.panels)}.")
        for panel in state.panels:
            check_run(panel.run)
        page = await queue.run("page", state.model_dump(), gone=partial(_gone, request))
        headers = {"Content-Disposition": 'attachment; filename="regard.html"'}
        return Response(page, media_type="text/html", headers=headers)

    @app.get("/audit/{name:path}", response_class=HTMLResponse, responses=WRONG)
    async def audit(name: str, request: Request) -> Response:
        """The report of the audit of a run, one HTML page."""
        check_run(name)
        page = await queue.run("audit", name, gone=partial(_gone, request))
        return Response(page, media_type="text/html", headers={"Content-Security-Policy": policy})

    def check_run(name: str) -> None:
        if name not in runs:
            raise InvalidRequest(f"no run {name[:100]!r} here. Known: {', '.join(runs)}.")

    return app


def _batch(asked: InspectionRequest) -> str | None:
    """What the request may be answered together with: others of the run, unless it may take long."""
    quick = asked.how != "mask" and asked.options.get("method", ATTENTION) == ATTENTION
    return asked.run if quick and len(asked.text) + len(asked.second or "") <= SHORT else None


async def _gone(request: Request) -> None:
    """Wait until the client has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


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
        if first["type"] == "model_attributes_type":
            return problem(422, "the request must be a JSON object, with Content-Type: application/json.")
        where = ".".join(str(valid_unicode(part)) for part in first["loc"] if part != "body")[:100]
        return problem(422, f"{where or 'the request'}: {first['msg']}.")

    @app.exception_handler(InvalidRequest)
    @app.exception_handler(Refused)
    async def refused(_: Request, error: Exception) -> Response:
        return problem(422, str(error))

    @app.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> Response:
        return problem(error.status_code, f"{error.detail}.")

    @app.exception_handler(Abandoned)
    async def abandoned(_: Request, error: Exception) -> Response:
        return Response(status_code=499)  # nobody reads it

    @app.exception_handler(QueueFull)
    @app.exception_handler(DeadlineExceeded)
    @app.exception_handler(WorkFailed)
    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> Response:
        if isinstance(error, QueueFull):
            return problem(503, "too many requests at once; try again in a second.", Retry_After="1")
        if isinstance(error, DeadlineExceeded):
            return problem(504, "this took too long; try a shorter text or a simpler method.")
        return problem(500, "this is an error of the server; its log says more.")
