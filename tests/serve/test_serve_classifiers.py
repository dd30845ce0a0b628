"""Classifiers that are served: what they say, where they look, what changes without a word, and the API."""

import json
from time import monotonic

import pytest
import torch

from regard.data.segments import by_word, segments
from regard.explanations import METHODS, explain
from regard.serve import Bounds, judge, scored
from regard.serve.asked import CannotAsk
from regard.serve.deadline import Late, until
from regard.serve.messages import Answer, RunFacts
from regard.serve.stacked import FIRST, stacked
from regard.serve.verdict import verdict
from serve.tiny import serving
from serve.tiny_classifiers import MODELS, TEXT, second_of

WAYS = ["as_it_is", "do_not_look", "take_away"]
every_run = pytest.mark.parametrize("name", MODELS)


def asked(run, how="as_it_is", words=(3,)):
    return judge(run, TEXT, words, how, second=second_of(run))


@every_run
def test_looking_changes_nothing(judges, name):
    run = judges[name]
    second = second_of(run)
    (said,) = run.system.classify([TEXT if second is None else (TEXT, second)])
    found = asked(run)
    assert found.probabilities == said.probabilities and found.label == said.label
    assert found.source == TEXT.split() and found.weights.shape == (run.looks, len(found.source))
    torch.testing.assert_close(found.weights.sum(-1), said.weights.sum(-1))
    if name != "layers":  # there words have several pieces
        torch.testing.assert_close(found.weights, said.weights)
    assert run.looks == {"looks": 3, "first": 2, "pairs_looks": 2}.get(name, 1)


@pytest.mark.parametrize("words", [[3], [0, 4, 9]])
def test_not_looking_under_softmax_is_a_mask(judges, words):
    run = judges["bilstm"]
    model, tokens = run.system.model, run.system.tokenizer.encode(TEXT)
    with torch.no_grad():
        h = model.states(model.embed(torch.tensor([tokens])), torch.tensor([len(tokens)]))
        theta = model.attention.score(model.query.unsqueeze(0), h)[0, 0]
        theta[words] = float("-inf")
        p = model.read(theta.softmax(-1) @ h[0]).double().softmax(-1)
    found = asked(run, "do_not_look", words)
    assert list(found.probabilities.values()) == pytest.approx(p.tolist(), abs=1e-6)
    torch.testing.assert_close(found.weights[0], theta.softmax(-1))


@every_run
def test_erased_words_have_no_weight_and_the_others_keep_the_sum(judges, name):
    whole, part = asked(judges[name]), asked(judges[name], "do_not_look")
    assert part.weights[:, 3].eq(0).all() and whole.weights[:, 3].gt(0).all()
    kept = [j for j in range(len(part.source)) if j != 3]
    if name != "first":  # there the first place, which is no word, gets a share, too
        torch.testing.assert_close(part.weights[:, kept].sum(-1), whole.weights.sum(-1))
    assert part.probabilities != whole.probabilities


@every_run
def test_taking_away_is_another_text(judges, name):
    run = judges[name]
    found = asked(run, "take_away")
    other = judge(run, segments(run.system.tokenizer, TEXT).without({3}), second=second_of(run))
    assert found.probabilities == other.probabilities and torch.equal(found.weights, other.weights)
    assert found.question.places == [i for i in range(len(TEXT.split())) if i != 3]
    nothing = judge(run, TEXT, range(len(TEXT.split())), "take_away", second=second_of(run))
    assert verdict(nothing)["map"] is None and nothing.probabilities == {}


@every_run
@pytest.mark.parametrize("method", METHODS)
def test_words_are_coloured_by_every_explanation(judges, name, method):
    run = judges[name]
    model, tokenizer, second = run.system.model, run.system.tokenizer, second_of(run)
    tokens = torch.tensor([tokenizer.encode(TEXT)])
    options = {}
    if second is not None:
        options["second"] = run.system.padded([tokenizer.encode(second)])
    scores = explain(model, tokens, method=method, **options)
    found = scored(asked(run), method)
    wanted = by_word(scores, asked(run).question.pieces, [0])[0]
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)
    for how in WAYS[1:]:
        answer = verdict(asked(run, how), method)
        json.dumps(answer, allow_nan=False)
        assert (answer["map"] is None) == bool(answer["missing"])
        assert not answer["missing"] or how == "do_not_look"


def test_an_explanation_is_of_the_model_that_does_not_look(judges):
    found = asked(judges["bilstm"], "do_not_look")
    for method in ("attention", "rollout", "norms", "attention_x_gradient"):
        assert scored(found, method)[3] == 0
    assert scored(found, "gradient")[3] > 0  # the states of its neighbours still carry it
    assert not torch.equal(scored(found, "gradient"), scored(asked(judges["bilstm"]), "gradient"))
    with pytest.raises(CannotAsk, match="leave_one_out, which takes words away, leaves attention alone"):
        scored(found, "leave_one_out")


@pytest.mark.parametrize("method", ["gradient", "gradient_x_input", "integrated_gradients"])
def test_not_looking_at_a_whole_sentence_still_has_gradients(judges, method):
    sentence = list(range(5))  # all of the first
    assert asked(judges["sentences"], "do_not_look", sentence).weights[0, :5].eq(0).all()
    assert scored(asked(judges["sentences"], "do_not_look", sentence), method)[5:].abs().gt(0).all()
    every = list(range(len(TEXT.split())))
    assert scored(asked(judges["sentences"], "do_not_look", every), method).eq(0).all()


def test_a_method_without_an_answer_leaves_the_probabilities(judges):
    answer = verdict(judge(judges["bilstm"], "exquisite"), "leave_one_out")
    assert answer["map"] is None and "nothing is left without it" in answer["missing"]
    assert sum(one["probability"] for one in answer["probabilities"]) == pytest.approx(1)


def test_the_looks_of_several_queries_come_along(judges, monkeypatch):
    found = asked(judges["looks"])
    answer = verdict(found, head=1)
    assert [map["head"] for map in answer["map"]["maps"]] == [None, 0, 1, 2] and answer["whole"]
    mean = torch.tensor(answer["map"]["maps"][0]["weights"][0])
    torch.testing.assert_close(mean, found.weights.sum(0) / 3, atol=1e-4, rtol=1e-4)
    assert "look 2 of 3" in answer["map"]["maps"][2]["caption"]
    monkeypatch.setattr("regard.serve.verdict.CELLS", 4)
    one = verdict(found, head=1)
    assert [map["head"] for map in one["map"]["maps"]] == [1] and not one["whole"]
    with pytest.raises(CannotAsk, match="head of looks must be from 0 to 2; got 3"):
        verdict(found, head=3)
    with pytest.raises(CannotAsk, match="head is for attention"):
        verdict(found, "rollout", head=0)


def test_captions_say_what_the_colours_are(judges):
    sentences = verdict(asked(judges["sentences"]))["map"]["maps"][0]["caption"]
    assert (
        "word_attention, then sentence_attention" in sentences and "times that of the sentence" in sentences
    )
    signed = verdict(asked(judges["bilstm"]), "gradient_x_input")["map"]
    assert "below 0, orange" in signed["maps"][0]["caption"] and "what one method finds" in signed["note"]


@pytest.mark.parametrize("name", ["layers", "first"])
def test_words_look_at_each_other_in_layers(judges, name):
    found, words = stacked(asked(judges[name]))
    n = len(TEXT.split()) + (name == "first")
    assert words == ([FIRST] if name == "first" else []) + TEXT.split()
    for layer in found:
        assert layer.shape == (2, n, n)
        torch.testing.assert_close(layer.sum(-1), torch.ones(2, n))
    with pytest.raises(CannotAsk, match="bilstm has no layers of self-attention"):
        stacked(asked(judges["bilstm"]))


def test_the_runs_are_described(asking, judges):
    found = {facts["name"]: RunFacts(**facts) for facts in asking.get("/api/runs").json()}
    assert found["heads"].kind == "translator" and found["heads"].methods == []
    assert found["bilstm"].kind == "classifier" and found["bilstm"].methods[0] == "attention"
    assert set(found["bilstm"].methods) == set(METHODS)
    assert found["pairs"].pairs and found["pairs"].labels == ["<b>fair</b>", "bad", "good"]
    assert len(found["bilstm"].example.split()) > 1 and found["pairs"].example == ""


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("method", [None, "gradient"])
def test_an_answer_is_what_the_library_says(asking, judges, how, method):
    question = {"run": "bilstm", "text": TEXT, "words": [3], "how": how, "method": method}
    reply = asking.post("/api/look", question)
    assert reply.status == 200, reply.body
    found, wanted = Answer(**reply.json()), asked(judges["bilstm"], how)
    assert {one.label: one.probability for one in found.probabilities} == wanted.probabilities
    assert found.answer == wanted.label and found.map["kind"] == "words"
    assert found.map["source"] == wanted.source and found.places == wanted.question.places
    scores = torch.tensor(found.map["maps"][0]["weights"][0])
    torch.testing.assert_close(scores, scored(wanted, method or "attention"), atol=1e-4, rtol=1e-3)
    assert ("attention the weight on “exquisite” is 0" in found.change) == (how == "do_not_look")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"run": "bilstm", "method": "atention"}, "did you mean attention"),
        ({"run": "bilstm", "method": "flow", "head": 0}, "head is for attention"),
        ({"run": "bilstm", "head": 1}, "head of bilstm must be from 0 to 0; got 1"),
        ({"run": "bilstm", "layer": 0}, "bilstm is a classifier: layer is for translators"),
        ({"run": "bilstm", "second": "x"}, "bilstm takes one text; a second came"),
        ({"run": "pairs"}, "pairs takes two texts: the second must be given"),
        ({"run": "pairs", "second": "  "}, "pairs takes two texts"),
        ({"run": "pairs", "second": "x " * 600}, "the second text has 600 tokens; at most 512"),
        ({"run": "bilstm", "text": "x " * 600}, "the text has 600 tokens; at most 512"),
        ({"run": "bilstm", "words": [99]}, "words must be from 0 to 10"),
        ({"run": "bilstm", "method": 3}, "method: Input should be a valid string"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(asking, more, says):
    reply = asking.post("/api/look", {"text": TEXT, **more})
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
def test_any_text_is_answered_and_stays_text(asking, text, run):
    more = {"second": "</script><img src=x>"} if run == "pairs" else {}
    reply = asking.post("/api/look", {"run": run, "text": text, **more})
    assert reply.status == 200, reply.body
    found = Answer(**reply.json())
    assert found.map is None or len(found.map["source"]) == len(found.words)
    page = asking.post("/api/page", {"text": text, "panels": [{"run": run}], **more})
    html = page.body.decode("utf-8")
    assert page.status == 200 and html.count("<script") == 2 and "<img" not in html
    assert "<b>fair" not in html


def test_a_saved_page_holds_every_answer(asking):
    panels = [{"run": "bilstm", "method": "flow"}, {"run": "pairs"}, {"run": "heads"}]
    scene = {"text": "anna good bert", "second": "bert", "words": [1], "panels": panels}
    reply = asking.post("/api/page", scene)
    assert reply.status == 200, reply.body
    data = json.loads(reply.body.decode().split('id="saved">')[1].split("</script>")[0])
    assert [(one["run"], one["how"]) for one in data["answers"]] == [
        (panel["run"], how) for panel in panels for how in WAYS
    ]
    assert [one.get("method") for one in data["answers"][::3]] == ["flow", "attention", None]
    assert data["scene"]["second"] == "bert"
    assert all(set(run) == set(RunFacts.model_fields) for run in data["runs"])  # the page reads all of them


def test_what_looks_at_no_clock_begins_only_if_it_can_end(judges, monkeypatch):
    found = asked(judges["first"])
    with until(monotonic() + 100):
        assert scored(found, "flow").isfinite().all()
    monkeypatch.setattr("regard.serve.explaining.FLOW", 1.0)
    with until(monotonic() + 100), pytest.raises(Late):
        scored(found, "flow")
    with until(monotonic() + 100):
        assert scored(found, "rollout").isfinite().all()


def test_a_method_that_takes_too_long_is_stopped(judges, monkeypatch):
    run = judges["bilstm"]

    def forever(model, *_, **__):
        while True:
            model.dropout(torch.zeros(1))

    with serving(judges, Bounds(seconds=1)) as client:
        with monkeypatch.context() as patch:
            patch.setattr("regard.serve.explaining.explain", forever)
            reply = client.post("/api/look", {"run": run.name, "text": TEXT, "method": "gradient"})
        assert reply.status == 504 and "too long" in reply.json()["error"]
        assert client.post("/api/look", {"run": run.name, "text": "exquisite"}).status == 200
