"""The application: the page, and the API behind it, which does all that the page does."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException

from regard.core.errors import RunError
from regard.serve.answer import answer
from regard.serve.asked import CannotAsk, How
from regard.serve.audited import audit_page
from regard.serve.bounds import Bounds
from regard.serve.classifier_run import ClassifierRun
from regard.serve.deadline import Late
from regard.serve.desk import Desk, Full
from regard.serve.guard import problem
from regard.serve.judged import judge
from regard.serve.looked import look
from regard.serve.messages import Answer, Problem, Question, RunFacts, Scene, mended
from regard.serve.page import saved, served
from regard.serve.run import Run
from regard.serve.verdict import verdict

WRONG: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem, "description": says}
    for code, says in {
        401: "the token is missing",
        403: "a page of another site asks",
        408: "the request did not arrive in time",
        413: "too many bytes",
        421: "not a name of this host",
        422: "not a question this server can answer",
        503: "too many ask at once: come again after Retry-After seconds",
        504: "it took too long",
    }.items()
}


def make_app(runs: Mapping[str, Run | ClassifierRun], bounds: Bounds = Bounds()) -> FastAPI:  # noqa: B008  (frozen)
    """The application for these runs; `Guard` belongs around it."""
    desk = Desk(bounds.room, bounds.seconds)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        desk.close()

    app = FastAPI(
        title="regard",
        summary="What a run says, where it looks, and what changes without a word.",
        version="1",
        docs_url=None,  # these pages ask another host for their scripts
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
    )
    _explain(app)
    _serve_files(app)

    @app.get("/api/runs", response_model=list[RunFacts])
    async def list_runs() -> Any:
        """The runs that are served."""
        return [run.facts() for run in runs.values()]

    @app.post("/api/look", response_model=Answer, responses=WRONG)
    async def ask(question: Question) -> Response:
        """Ask one run about one text: as it is, not looking at some words, or without them.

        A translator answers with its translation, a classifier with the probabilities of its classes.
        """
        return Response(
            await desk.ask(lambda: _json(_answered(runs, bounds, question))), media_type="application/json"
        )

    @app.post("/api/page", response_class=HTMLResponse, responses=WRONG)
    async def save(scene: Scene) -> Response:
        """The page in this state as one HTML file, which needs no server."""
        page = await desk.ask(lambda: saved(_whole(runs, bounds, scene)).encode())
        return Response(
            page,
            media_type="text/html",
            headers={"Content-Disposition": 'attachment; filename="regard.html"'},
        )

    @app.get("/audit/{name:path}", response_class=HTMLResponse, responses=WRONG)
    async def audit(name: str) -> Response:
        """The report of the audit of a run, one HTML page."""
        if name not in runs:
            raise CannotAsk(f"no run {name[:100]!r} here. Known: {', '.join(runs)}.")
        body, policy = await desk.ask(lambda: audit_page(runs[name].folder))
        return Response(body, media_type="text/html", headers={"Content-Security-Policy": policy})

    return app


def _answered(runs: Mapping[str, Run | ClassifierRun], bounds: Bounds, asked: Question) -> dict[str, Any]:
    if asked.run not in runs:
        raise CannotAsk(f"no run {asked.run[:100]!r} here. Known: {', '.join(runs)}.")
    run = runs[asked.run]
    if isinstance(run, ClassifierRun):
        if asked.layer is not None:
            raise CannotAsk(f"{run.name} is a classifier: layer is for translators, method for classifiers.")
        judged = judge(run, asked.text, asked.words, asked.how, second=asked.second, longest=bounds.longest)
        return verdict(judged, asked.method or "attention", asked.head)
    if asked.method is not None or asked.second is not None:
        raise CannotAsk(f"{run.name} is a translator: method and second are for classifiers.")
    looked = look(run, asked.text, asked.words, asked.how, longest=bounds.longest)
    return answer(looked, asked.how, asked.layer, asked.head)


def _whole(runs: Mapping[str, Run | ClassifierRun], bounds: Bounds, scene: Scene) -> dict[str, Any]:
    """All that a page in this state shows: for each of its panels one answer, or three."""
    if len(scene.panels) > bounds.panels:
        raise CannotAsk(f"at most {bounds.panels} runs stand beside each other; got {len(scene.panels)}.")
    answers = []
    for panel in scene.panels:
        ways: list[How] = ["as_it_is", "do_not_look", "take_away"] if scene.words else ["as_it_is"]
        run = runs.get(panel.run)
        if isinstance(run, Run) and not run.cross:
            ways = [how for how in ways if how != "do_not_look"]
        second = scene.second if isinstance(run, ClassifierRun) and run.pairs else None
        for how in ways:
            words = [] if how == "as_it_is" else scene.words
            asked = Question(**panel.model_dump(), text=scene.text, second=second, words=words, how=how)
            answers.append(_answered(runs, bounds, asked))
    return {
        "scene": scene.model_dump(),
        "runs": [run.facts() for run in runs.values()],
        "answers": answers,
    }


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


def _explain(app: FastAPI) -> None:
    """Say in a sentence what was wrong, and never quote what came."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return problem(422, "the request is not JSON.")
        where = ".".join(str(mended(part)) for part in first["loc"] if part != "body")[:100]
        return problem(422, f"{where or 'the request'}: {first['msg']}.")

    @app.exception_handler(CannotAsk)
    async def cannot(_: Request, error: CannotAsk) -> Response:
        return problem(422, str(error))

    @app.exception_handler(RunError)
    async def lacking(_: Request, error: RunError) -> Response:
        return problem(422, str(error))

    @app.exception_handler(Full)
    async def full(_: Request, error: Full) -> Response:
        return problem(503, "too many ask at once; try again in a second.", Retry_After="1")

    @app.exception_handler(Late)
    async def late(_: Request, error: Late) -> Response:
        return problem(504, "this took too long; a shorter text may not, nor a simpler method.")

    @app.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> Response:
        return problem(error.status_code, f"{error.detail}.")

    @app.exception_handler(Exception)
    async def ours(_: Request, error: Exception) -> Response:
        return problem(500, "this is a fault of the server; its log says more.")
