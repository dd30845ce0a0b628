"""Classifiers that are served: the API gives what inspection finds."""

import json

import pytest
import torch

from inspection.test_inspected import classified
from inspection.tiny_runs import REVIEW as TEXT
from regard.explanations import METHODS
from regard.inspection import word_scores
from regard.serve import Bounds
from regard.serve.messages import AnswerMessage, RunFacts
from serve.tiny_server import serving

HOWS = ["none", "mask", "delete"]


def test_the_runs_are_described(mixed_client):
    found = {facts["name"]: RunFacts(**facts) for facts in mixed_client.get("/api/runs").json()}
    assert [control.name for control in found["heads"].controls] == ["layer", "head"]
    (method,) = found["bilstm"].controls
    assert {value for value, _ in method.options} == set(METHODS) and method.default == "attention"
    head, method = found["queries"].controls
    assert head.when == {"method": ["attention"]} and method.name == "method"
    assert found["pairs"].second and found["pairs"].facts == ["3 classes"]
    assert len(found["bilstm"].example.split()) > 1 and found["pairs"].example == ""


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("method", [None, "gradient"])
def test_an_answer_is_what_the_library_says(mixed_client, how, method):
    options = {} if method is None else {"method": method}
    reply = mixed_client.inspect(TEXT, "bilstm", words=[3], how=how, options=options)
    assert reply.status == 200, reply.body
    found, wanted = AnswerMessage(**reply.json()), classified("bilstm", how)
    assert {one.label: one.probability for one in found.probabilities} == wanted.probabilities
    assert found.answer == wanted.said and found.view["kind"] == "words"
    assert found.view["source"] == wanted.source and found.columns == wanted.columns
    scores = torch.tensor(found.view["matrices"][0]["weights"][0])
    torch.testing.assert_close(scores, word_scores(wanted, method or "attention"), atol=1e-4, rtol=1e-3)
    assert ("In attention the weight on “exquisite” is 0" in found.change) == (how == "mask")


def test_a_method_without_scores_leaves_the_probabilities(mixed_client):
    reply = mixed_client.inspect("exquisite", "bilstm", options={"method": "leave_one_out"})
    answer = AnswerMessage(**reply.json())
    assert answer.view is None and "nothing is left without it" in answer.missing
    assert sum(one.probability for one in answer.probabilities) == pytest.approx(1)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"run": "bilstm", "options": {"method": "atention"}}, "did you mean attention"),
        ({"run": "queries", "options": {"method": "flow", "head": 0}}, "head has an effect with method"),
        ({"run": "queries", "options": {"head": 3}}, "head must be from 0 to 2; got 3"),
        ({"run": "bilstm", "options": {"head": 1}}, 'there is no "head" to choose here'),
        ({"run": "bilstm", "options": {"layer": 0}}, 'there is no "layer" to choose here: there is method'),
        ({"run": "bilstm", "second": "x"}, "bilstm takes one text; a second came"),
        ({"run": "pairs"}, "pairs takes two texts: the second must be given"),
        ({"run": "pairs", "second": "  "}, "pairs takes two texts"),
        ({"run": "pairs", "second": "x " * 600}, "the second text has 600 tokens; at most 512"),
        ({"run": "pairs", "second": "x" * 60_000}, "the second text has 60,000 characters; at most 16,384"),
        ({"run": "bilstm", "text": "x " * 600}, "the text has 600 tokens; at most 512"),
        ({"run": "bilstm", "words": [99]}, "words must be from 0 to 10"),
        ({"run": "bilstm", "options": {"method": 3}}, 'no method "3"'),
        ({"run": "bilstm", "options": {"method": ["flow"]}}, "options.method"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(mixed_client, more, says):
    reply = mixed_client.post("/api/inspect", {"text": TEXT, **more})
    assert reply.status == 422 and says in reply.json()["error"], reply.body
    assert len(reply.json()["error"]) < 300


NASTY = [
    "<script>alert(1)</script>",
    "a\x00b \x00",
    "\u202e שלום",
    "",
    " \n\t ",
    "e\u0301" * 50,
    "\x85",
    "\x1c",
]


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize("run", ["bilstm", "layers", "pairs"])
def test_any_text_is_answered_and_stays_text(mixed_client, text, run):
    more = {"second": "</script><img src=x>"} if run == "pairs" else {}
    reply = mixed_client.inspect(text, run, **more)
    assert reply.status == 200, reply.body
    found = AnswerMessage(**reply.json())
    assert found.view is None or len(found.view["source"]) == len(found.words)
    page = mixed_client.post("/api/page", {"text": text, "panels": [{"run": run}], **more})
    html = page.body.decode("utf-8")
    assert page.status == 200 and html.count("<script") == 2 and "<img" not in html
    assert "<b>fair" not in html


def test_a_saved_page_holds_every_answer(mixed_client):
    panels = [{"run": "bilstm", "options": {"method": "flow"}}, {"run": "pairs"}, {"run": "heads"}]
    state = {"text": "anna good bert", "second": "bert", "words": [1], "panels": panels}
    reply = mixed_client.post("/api/page", state)
    assert reply.status == 200, reply.body
    data = json.loads(reply.body.decode().split('id="saved">')[1].split("</script>")[0])
    assert [(one["run"], one["how"]) for one in data["answers"]] == [
        (panel["run"], how) for panel in panels for how in HOWS
    ]
    chosen = [{"method": "flow"}, {"method": "attention"}, {"layer": 1, "head": None}]
    assert [one["options"] for one in data["answers"][::3]] == chosen
    assert [panel["options"] for panel in data["state"]["panels"]] == chosen
    assert data["state"]["second"] == "bert"
    assert all(set(run) == set(RunFacts.model_fields) for run in data["runs"])  # the page reads all of them


def test_a_method_that_takes_too_long_is_stopped(classifiers, monkeypatch):
    def forever(model, *_, **__):
        while True:
            model.dropout(torch.zeros(1))

    with serving(classifiers, Bounds(seconds=1)) as client:
        with monkeypatch.context() as patch:
            patch.setattr("regard.inspection.method_scores.explain", forever)
            reply = client.inspect(TEXT, "bilstm", options={"method": "gradient"})
        assert reply.status == 504 and "too long" in reply.json()["error"]
        assert client.inspect("exquisite", "bilstm").status == 200
