"""The API: what it answers, what it refuses, and that nothing that is sent breaks it."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from time import monotonic, sleep

import pytest
import torch

from regard.serve import Bounds, look
from regard.serve.desk import Desk, Full
from regard.serve.guard import HEADERS
from regard.serve.messages import Answer, RunFacts
from serve.tiny import serving

TEXT = "du ga bo ge"
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
    assert found[0]["layers"] == ["decoder.0.cross", "decoder.1.cross"] and found[0]["heads"] == 2
    assert found[2]["layers"] == [] and found[2]["heads"] == 0
    assert len(found[0]["example"].split()) > 1


@pytest.mark.parametrize("how", ["as_it_is", "do_not_look", "take_away"])
def test_an_answer_is_what_the_library_says(client, runs, how):
    reply = client.look(TEXT, words=[1], how=how)
    assert reply.status == 200
    found, wanted = Answer(**reply.json()), look(runs["heads"], TEXT, [1], how)
    assert (found.answer, found.log_prob, found.places) == (wanted.answer, wanted.log_prob, wanted.places)
    assert found.map["source"] == wanted.source and found.map["target"] == wanted.answer_words
    assert found.gone == ([] if how == "as_it_is" else [1])


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize("run", ["heads", "sparse", "rnn"])
def test_any_text_is_answered_and_stays_text(client, text, run):
    reply = client.post("/api/look", {"run": run, "text": text})
    assert reply.status == 200, reply.body
    found = Answer(**reply.json())
    assert found.map is None or len(found.map["source"]) == len(found.words)
    page = client.post("/api/page", {"text": text, "panels": [{"run": run}]})
    assert page.status == 200
    html = page.body.decode("utf-8")
    assert html.count("<script") == 2 and html.count("</script>") == 2  # its data and its own, no third
    assert "<img" not in html


def test_a_text_of_ten_thousand_tokens_is_answered_with_a_sentence(client):
    text = "du ga bo " * 1112
    reply = client.look(text)
    assert reply.status == 422
    assert reply.json()["error"] == "the text has 10,008 tokens; at most 512 are read here."
    assert client.look("x" * 300_000).status == 413
    assert client.look(TEXT).status == 200


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"{", "the request is not JSON"),
        (b"[]", "the request"),
        (b'{"run": "heads"}', "text: Field required"),
        (b'{"run": "heads", "text": 3}', "text: Input should be a valid string"),
        (b'{"run": "no", "text": "a"}', "no run 'no' here. Known: heads, sparse, rnn"),
        (b'{"run": "heads", "text": "a", "other": 1}', "other: Extra inputs"),
        (b'{"run": "heads", "text": "a", "\\ud800": 1}', "unicode"),
        (b'{"run": "\\ud800", "text": "a"}', "no run"),
        (b'{"run": "heads", "text": "a", "words": [-1]}', "words.0: Input should be greater"),
        (b'{"run": "heads", "text": "a", "words": [true]}', "words.0: Input should be a valid integer"),
        (b'{"run": "heads", "text": "a", "words": [7]}', "words must be from 0 to 0"),
        (b'{"run": "heads", "text": "a", "layer": 2}', "layer of heads must be from 0 to 1; got 2"),
        (b'{"run": "heads", "text": "a", "head": 1e99}', "head"),
        (b'{"run": "heads", "text": "a", "how": "delete"}', "how: Input should be"),
        (b'{"run": "heads", "text": "a", "method": "flow"}', "method and second are for classifiers"),
        (b"\xff\xfe", "not JSON"),
        (b'{"run": "heads", "text": ' + b"[" * 100_000, "parsing the body"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(client, sent, says):
    reply = client.post("/api/look", sent)
    assert reply.status in (400, 422), reply.body
    assert says.lower() in reply.json()["error"].lower()
    assert "Traceback" not in reply.json()["error"] and len(reply.json()["error"]) < 300


def test_only_json_is_read(client):
    body = json.dumps({"run": "heads", "text": TEXT}).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded"):  # what a page of another site may send
        assert client.post("/api/look", body, **{"Content-Type": kind}).status == 422
    assert client.post("/api/look", body, Sec_Fetch_Site="cross-site").status == 403
    assert client.get("/api/look").status == 405
    assert client.get("/nothing").json() == {"error": "Not Found."}


def test_openapi_describes_all_that_the_page_uses(client):
    found = client.get("/api/openapi.json").json()
    assert set(found["paths"]) == {"/api/runs", "/api/look", "/api/page", "/audit/{name}"}
    described = found["paths"]["/api/look"]["post"]
    assert set(described["responses"]) >= {"200", "413", "422", "503", "504"}
    schemas = found["components"]["schemas"]
    asked = {"run", "text", "second", "words", "how", "layer", "head", "method"}
    assert set(schemas["Question"]["properties"]) == asked
    script = client.get("/assets/page.js").body.decode()
    written = {path for path in found["paths"] if path.startswith("/api/")}  # a run says where its audit is
    assert {path for path in found["paths"] if path in script} == written and "run.audit" in script
    for path in ("/docs", "/redoc"):  # FastAPI's own ask another host for their scripts
        assert client.get(path).status == 404


def test_every_answer_carries_the_policy(client):
    for reply in (client.get("/"), client.get("/nothing"), client.look(TEXT), client.post("/api/look", b"{")):
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
    scene = {"text": TEXT, "words": [2], "how": "take_away", "panels": [{"run": "heads"}, {"run": "rnn"}]}
    reply = client.post("/api/page", scene)
    assert reply.status == 200 and "attachment" in reply.headers["content-disposition"]
    html = reply.body.decode()
    data = json.loads(html.split('id="saved">')[1].split("</script>")[0])
    assert [(a["run"], a["how"]) for a in data["answers"]] == [
        ("heads", "as_it_is"), ("heads", "do_not_look"), ("heads", "take_away"),
        ("rnn", "as_it_is"), ("rnn", "take_away"),
    ]  # fmt: skip
    assert "script-src 'sha256-" in html and "unsafe" not in html
    assert len(html) < 150_000
    too_many = client.post("/api/page", {**scene, "panels": [{"run": "heads"}] * 5})
    assert too_many.status == 422 and "at most 4 runs" in too_many.json()["error"]
    assert client.post("/api/page", {**scene, "panels": []}).status == 422


def test_a_desk_has_so_much_room():
    desk, door = Desk(room=2, seconds=30), Event()
    first, second = desk._enter(door.wait), desk._enter(lambda: "done")
    with pytest.raises(Full):
        desk._enter(lambda: None)
    door.set()
    assert first.result(10) and second.result(10) == "done"
    until = monotonic() + 10
    while desk.inside and monotonic() < until:
        sleep(0.01)
    assert desk.inside == 0
    desk.close()
    with pytest.raises(Full):
        desk._enter(lambda: None)


def test_who_has_waited_too_long_is_told_to_come_again():
    desk, door = Desk(room=2, seconds=0.05), Event()
    desk._enter(door.wait)
    second = desk._enter(lambda: "done")
    sleep(0.1)
    door.set()
    with pytest.raises(Full):
        second.result(10)
    desk.close()


def test_a_full_server_says_so_and_recovers(runs):
    with serving(runs, Bounds(room=1)) as client:
        with ThreadPoolExecutor(12) as many:
            replies = list(many.map(lambda _: client.look(TEXT), range(60)))
        assert {reply.status for reply in replies} == {200, 503}
        refused = next(reply for reply in replies if reply.status == 503)
        assert refused.headers["retry-after"] == "1" and "too many" in refused.json()["error"]
        assert len({reply.body for reply in replies if reply.status == 200}) == 1
        assert client.look(TEXT).status == 200


def test_work_that_takes_too_long_is_stopped(runs, monkeypatch):
    system = runs["heads"].system

    def forever(_):
        while True:
            system.model.decoder_norm(torch.zeros(1, 32))

    with serving(runs, Bounds(seconds=1)) as client:
        with monkeypatch.context() as patch:
            patch.setattr(system, "translate", forever)
            reply = client.look(TEXT)
        assert reply.status == 504 and "too long" in reply.json()["error"]
        assert (
            client.post("/api/look", {"run": "rnn", "text": TEXT}).status == 200
        )  # its thread is free again


def test_a_request_that_never_arrives_is_hung_up_on(runs):
    with serving(runs, Bounds(seconds=0.5)) as client:
        with socket.create_connection(("127.0.0.1", client.port), timeout=30) as slow:
            slow.sendall(b"POST /api/look HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
            assert b" 408 " in slow.recv(1000)
        chunked = b"POST /api/look HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        with socket.create_connection(("127.0.0.1", client.port), timeout=30) as endless:
            endless.sendall(chunked + b"40000\r\n" + b"x" * 0x40000 + b"\r\n1\r\nx\r\n")
            assert b" 413 " in endless.recv(1000)
        assert client.get("/").status == 200
