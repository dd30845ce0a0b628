"""The API: what it answers, what it refuses, and that nothing that is sent breaks it."""

import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from time import monotonic, sleep
from urllib.parse import quote

import pytest

from inspection.tiny_runs import COPIED as TEXT
from regard.inspection import inspect
from regard.inspection.inspected import CHARACTERS
from regard.serve import Bounds
from regard.serve.guard import HEADERS
from regard.serve.messages import AnswerMessage, RunFacts
from serve.tiny_server import serving

NASTY = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(1)</script>",
    "a\x00b \x00",
    "lone \ud800 and \udfff halves",
    "\ud83d\ude00 whole",
    "\u202e right to left \u2066 שלום",
    "e\u0301" * 50,
    "",
    "   \n\t ",
    "{{7*7}} %00 ' OR 1=1 --",
]


def test_the_runs_are_described(client, runs):
    found = client.get("/api/runs").json()
    assert [RunFacts(**facts).name for facts in found] == ["heads", "sparse", "rnn"]
    layer, head = found[0]["controls"]
    assert layer["name"] == "layer" and layer["options"] == [[0, "1 of 2"], [1, "2 of 2"]]
    assert head["name"] == "head" and head["options"][0] == [None, "mean of all"]
    assert found[0]["changes"] == ["mask", "delete"] and found[0]["task"] == "translation"
    assert found[2]["controls"] == [] and found[2]["changes"] == ["delete"] and found[2]["map"] == ""
    assert len(found[0]["example"].split()) > 1 and found[1]["facts"] == ["beam 2"]


@pytest.mark.parametrize("how", ["none", "mask", "delete"])
def test_an_answer_is_what_the_library_says(client, runs, how):
    reply = client.inspect(TEXT, words=[1], how=how)
    assert reply.status == 200
    found = AnswerMessage(**reply.json())
    wanted = inspect(runs["heads"].system, TEXT, words=[1], how=how)
    assert (found.answer, found.log_prob, found.columns) == (wanted.said, wanted.log_prob, wanted.columns)
    assert found.view["source"] == wanted.source and found.view["target"] == wanted.rows
    assert found.changed == ([] if how == "none" else [1]) and found.options == {"layer": 1, "head": None}
    assert found.probabilities == [] and found.complete and found.missing == ""


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize("run", ["heads", "sparse", "rnn"])
def test_any_text_is_answered_and_stays_text(client, text, run):
    reply = client.inspect(text, run)
    assert reply.status == 200, reply.body
    found = AnswerMessage(**reply.json())
    assert found.view is None or len(found.view["source"]) == len(found.words)
    page = client.post("/api/page", {"text": text, "panels": [{"run": run}]})
    assert page.status == 200
    html = page.body.decode("utf-8")
    assert html.count("<script") == 2 and html.count("</script>") == 2  # its data and its own, no third
    assert "<img" not in html


def test_a_text_of_ten_thousand_tokens_is_answered_with_a_sentence(client):
    text = "du ga bo " * 1112
    reply = client.inspect(text)
    assert reply.status == 422
    assert reply.json()["error"] == "the text has 10,008 tokens; at most 512 are read here."
    assert client.inspect("x" * 300_000).status == 413
    assert client.inspect(TEXT).status == 200


def test_a_text_of_very_many_characters_is_refused_at_once(client):
    for text in ("a" + 100_000 * " " + "b c", 100_000 * "a"):
        started = monotonic()
        reply = client.inspect(text, words=[2], how="delete")
        assert reply.status == 422 and "characters; at most 16,384" in reply.json()["error"]
        assert monotonic() - started < 1


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"{", "the request is not JSON"),
        (b"[]", "must be a JSON object"),
        (b'{"run": "heads"}', "text: Field required"),
        (b'{"run": "heads", "text": 3}', "text: Input should be a valid string"),
        (b'{"run": "no", "text": "a"}', "no run 'no' here. Known: heads, sparse, rnn"),
        (b'{"run": "heads", "text": "a", "other": 1}', "other: Extra inputs"),
        (b'{"run": "heads", "text": "a", "\\ud800": 1}', "unicode"),
        (b'{"run": "\\ud800", "text": "a"}', "no run"),
        (b'{"run": "heads", "text": "a", "words": [-1]}', "words.0: Input should be greater"),
        (b'{"run": "heads", "text": "a", "words": [true]}', "words.0: Input should be a valid integer"),
        (b'{"run": "heads", "text": "a", "words": [7]}', "words must be from 0 to 0"),
        (b'{"run": "heads", "text": "a", "options": {"layer": 2}}', "layer must be from 0 to 1; got 2"),
        (b'{"run": "heads", "text": "a", "options": {"head": 1e99}}', "options.head"),
        (b'{"run": "heads", "text": "a", "options": {"head": true}}', "options.head"),
        (b'{"run": "heads", "text": "a", "options": {"beam": 3}}', 'there is no "beam" to choose'),
        (b'{"run": "heads", "text": "a", "layer": 1}', "layer: Extra inputs"),
        (b'{"run": "heads", "text": "a", "how": "take_away"}', "how: Input should be"),
        (b'{"run": "heads", "text": "a", "options": {"method": "flow"}}', "there is layer, head"),
        (b'{"run": "heads", "text": "a", "second": "b"}', "heads takes one text; a second came"),
        (b"\xff\xfe", "not JSON"),
        (b'{"run": "heads", "text": ' + b"[" * 100_000, "parsing the body"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(client, sent, says):
    reply = client.post("/api/inspect", sent)
    assert reply.status in (400, 422), reply.body
    assert says.lower() in reply.json()["error"].lower()
    assert "Traceback" not in reply.json()["error"] and len(reply.json()["error"]) < 300


def test_only_json_is_read(client):
    body = json.dumps({"run": "heads", "text": TEXT}).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded"):  # what a page of another site may send
        reply = client.post("/api/inspect", body, **{"Content-Type": kind})
        assert reply.status == 422 and "Content-Type: application/json" in reply.json()["error"]
    assert client.post("/api/inspect", body, Sec_Fetch_Site="cross-site").status == 403
    assert client.get("/api/inspect").status == 405
    assert client.get("/nothing").json() == {"error": "Not Found."}


def test_openapi_describes_all_that_the_page_uses(client):
    found = client.get("/api/openapi.json").json()
    assert set(found["paths"]) == {"/api/runs", "/api/health", "/api/inspect", "/api/page", "/audit/{name}"}
    described = found["paths"]["/api/inspect"]["post"]
    assert set(described["responses"]) >= {"200", "413", "422", "503", "504"}
    schemas = found["components"]["schemas"]
    asked = {"run", "text", "second", "words", "how", "options"}
    assert set(schemas["InspectionRequest"]["properties"]) == asked
    script = client.get("/assets/page.js").body.decode()
    written = {"/api/runs", "/api/inspect", "/api/page"}  # a run says where its audit is
    assert {path for path in found["paths"] if path in script} == written and "run.audit" in script
    for path in ("/docs", "/redoc"):  # FastAPI's own ask another host for their scripts
        assert client.get(path).status == 404


def test_every_answer_carries_the_policy(client):
    for reply in (
        client.get("/"),
        client.get("/nothing"),
        client.inspect(TEXT),
        client.post("/api/inspect", b"{"),
    ):
        for name, value in HEADERS.items():
            assert reply.headers[name.lower()] == value
        assert "server" not in reply.headers
    policy = client.get("/").headers["content-security-policy"]
    assert "unsafe" not in policy and "default-src 'none'" in policy


def test_the_page_names_no_other_host(client):
    for path in ("/", "/assets/page.js", "/assets/page.css", "/assets/draw.js", "/assets/draw.css"):
        body = client.get(path).body.decode().replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in body and "https://" not in body and "//cdn" not in body
        assert "innerHTML" not in body and "eval(" not in body


def test_a_saved_page_holds_every_answer(client):
    scene = {"text": TEXT, "words": [2], "how": "delete", "panels": [{"run": "heads"}, {"run": "rnn"}]}
    reply = client.post("/api/page", scene)
    assert reply.status == 200 and "attachment" in reply.headers["content-disposition"]
    html = reply.body.decode()
    data = json.loads(html.split('id="saved">')[1].split("</script>")[0])
    assert [(a["run"], a["how"]) for a in data["answers"]] == [
        ("heads", "none"), ("heads", "mask"), ("heads", "delete"), ("rnn", "none"), ("rnn", "delete"),
    ]  # fmt: skip
    assert [panel["options"] for panel in data["state"]["panels"]] == [{"layer": 1, "head": None}, {}]
    assert "script-src 'sha256-" in html and "unsafe" not in html
    assert len(html) < 150_000
    too_many = client.post("/api/page", {**scene, "panels": [{"run": "heads"}] * 5})
    assert too_many.status == 422 and "at most 4 runs" in too_many.json()["error"]
    assert client.post("/api/page", {**scene, "panels": []}).status == 422


def test_a_full_server_says_so_and_recovers(runs):
    with serving(runs, Bounds(room=1)) as client:
        with ThreadPoolExecutor(12) as many:
            replies = list(many.map(lambda _: client.inspect(TEXT), range(60)))
        assert {reply.status for reply in replies} == {200, 503}
        refused = next(reply for reply in replies if reply.status == 503)
        assert refused.headers["retry-after"] == "1" and "too many" in refused.json()["error"]
        assert len({reply.body for reply in replies if reply.status == 200}) == 1
        assert client.inspect(TEXT).status == 200


@contextmanager
def stuck(runs, monkeypatch, **bounds):
    """A client of a server of which one run never answers, and holds the interpreter meanwhile."""
    monkeypatch.setattr(runs["heads"].system, "translate", lambda _: re.match("(a*)*b", 60 * "a"))
    with serving(runs, Bounds(**bounds)) as client:
        yield client


def test_work_that_takes_too_long_is_ended(runs, monkeypatch):
    with stuck(runs, monkeypatch, seconds=1) as client:
        reply = client.inspect(TEXT)
        assert reply.status == 504 and "too long" in reply.json()["error"]
        page = client.post("/api/page", {"text": TEXT, "panels": [{"run": "rnn"}, {"run": "heads"}]})
        assert page.status == 504
        assert client.inspect(TEXT, "rnn").status == 200
        assert client.get("/api/health").json() == {"state": "ready", "waiting": 0, "working": 0}


@contextmanager
def asking(client, count=1):
    """Requests to the run that never answers; at the end of the block their clients hang up."""
    body = json.dumps({"run": "heads", "text": TEXT}).encode()
    head = "POST /api/inspect HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    there = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(count)]
    for one in there:
        one.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    yield
    for one in there:
        one.close()


def test_what_takes_long_holds_up_nobody_else(runs, monkeypatch):
    with stuck(runs, monkeypatch, seconds=60) as client, ExitStack() as slow:
        for working in (1, 2, 3):
            slow.enter_context(asking(client))
            wait_for(lambda: client.get("/api/health").json()["working"] == working)  # noqa: B023
            assert client.get("/").status == client.get("/api/runs").status == 200
            started = monotonic()
            assert client.inspect(TEXT, "rnn").status == 200
            assert monotonic() - started < 20  # one second if nothing else runs on this machine
        assert client.get("/api/health").json() == {"state": "ready", "waiting": 0, "working": 3}


def test_what_nobody_waits_for_is_dropped(runs, monkeypatch):
    with stuck(runs, monkeypatch, seconds=60) as client:
        health = lambda: client.get("/api/health").json()  # noqa: E731
        with asking(client, 40):
            wait_for(lambda: health()["waiting"] + health()["working"] == 40 and health()["state"] == "busy")
        wait_for(lambda: health() == {"state": "ready", "waiting": 0, "working": 0})  # long before 60 s


def wait_for(what):
    """Wait until this is so."""
    until = monotonic() + 20
    while not what():
        assert monotonic() < until
        sleep(0.02)


SHAPES = {
    "spaces": lambda n: "a" + (n - 4) * " " + "b c",
    "lines": lambda n: "a" + (n - 4) * "\n" + "b c",
    "one word": lambda n: (n - 4) * "a" + " b c",
    "marks": lambda n: "a" + (n - 5) * "\u0301" + " b c",
    "emoji": lambda n: (n // 2 * "\U0001f469\u200d")[: n - 4] + " b c",
    "scripts": lambda n: (n // 8 * "aя字ש か")[: n - 4] + " b c",
    "halves": lambda n: (n - 4) * "\ud800" + " b c",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_largest_request_of_any_shape_takes_no_longer_than_a_moment(mixed_client, shape):
    """An expression that backtracks took a hundred seconds for as many spaces."""
    client, wait = mixed_client, 10
    most = CHARACTERS * Bounds().longest
    longer = SHAPES[shape](2 * most)
    for text in (
        SHAPES[shape](most),
        longer[: int(len(longer) * Bounds().bytes / len(json.dumps(longer)) - 99)],
    ):
        for run in ("bilstm", "layers", "heads"):
            for how in ("none", "mask", "delete"):
                started = monotonic()
                assert client.inspect(text, run, words=[2], how=how).status in (200, 422)
                assert monotonic() - started < wait
        started = monotonic()
        page = {"text": text, "words": [0], "panels": [{"run": "bilstm"}, {"run": "layers"}]}
        assert client.post("/api/page", page).status in (200, 422)
        assert client.inspect("a", "pairs", second=text).status in (200, 422)
        assert client.inspect("a", text).status == 422
        assert client.inspect("a", "bilstm", options={"method": text}).status == 422
        assert client.get(f"/audit/{quote(text[: 1 << 12], errors='replace')}").status in (404, 422)
        assert client.get("/api/runs").status == client.get("/api/health").status == 200
        assert monotonic() - started < 4 * wait


def test_a_request_that_never_arrives_is_hung_up_on(runs):
    with serving(runs, Bounds(seconds=0.5)) as client:
        with socket.create_connection(("127.0.0.1", client.port), timeout=30) as slow:
            slow.sendall(b"POST /api/inspect HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
            assert b" 408 " in slow.recv(1000)
        chunked = b"POST /api/inspect HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        with socket.create_connection(("127.0.0.1", client.port), timeout=30) as endless:
            endless.sendall(chunked + b"40000\r\n" + b"x" * 0x40000 + b"\r\n1\r\nx\r\n")
            assert b" 413 " in endless.recv(1000)
        assert client.get("/").status == 200
