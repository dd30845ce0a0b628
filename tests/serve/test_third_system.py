"""A system of no built-in task, served and viewed: nothing of inspection or serving knows its task."""

import json

import pytest
import torch
from fastapi.testclient import TestClient

from contract.toy.vowel_counter import Config, VowelCounter
from contract.toy.vowels import Letters, VowelSettings, VowelSystem
from regard.data import Tokenizer
from regard.inspection import controls, draw, inspect
from regard.serve import ServedRun
from regard.serve.messages import AnswerMessage, RunFacts
from regard.serve.web_app import make_app

TEXT = "abe ooo dig"


def toy():
    """A vowel counter that was never trained."""
    tokenizer = Tokenizer.train(["abcdefgiou "] * 3, "character", 15)
    torch.manual_seed(0)
    model = VowelCounter(Config(len(tokenizer)))
    settings = VowelSettings(model={"name": "vowel_counter", "score": "additive", "map": "softmax"})
    return ServedRun("toy", VowelSystem(model, Letters(tokenizer), settings))


@pytest.fixture(scope="module")
def run():
    return toy()


def test_it_is_inspected_and_drawn(run):
    found = inspect(run.system, TEXT, name="toy")
    (answer,) = run.system.answer([TEXT])
    assert found.said == answer.said and found.probabilities == {} and found.log_prob is None
    (weights,) = found.weights
    assert weights.shape == (1, 1, 3) and float(weights.sum()) == pytest.approx(1)
    masked = inspect(run.system, TEXT, words=[1], how="mask", name="toy")
    assert masked.weights[0][..., 1].eq(0).all() and float(masked.weights[0].sum()) == pytest.approx(1)
    assert inspect(run.system, TEXT, words=[1], how="delete").said == inspect(run.system, "abe dig").said
    assert controls(run.system) == []
    view = draw(found)
    assert view.kind == "words" and view.source == ("abe", "ooo", "dig") and "map softmax" in view.caption


def test_it_is_served(run):
    with TestClient(make_app({"toy": run}), base_url="http://127.0.0.1") as client:
        (facts,) = client.get("/api/runs").json()
        assert RunFacts(**facts).task == "vowels" and facts["changes"] == ["mask", "delete"]
        for how in ("none", "mask", "delete"):
            reply = client.post("/api/inspect", json={"run": "toy", "text": TEXT, "words": [0], "how": how})
            found = AnswerMessage(**reply.json())
            wanted = inspect(run.system, TEXT, words=[0], how=how)
            assert found.answer == wanted.said and found.log_prob is None and found.probabilities == []
            assert found.view["kind"] == "words" and found.view["source"] == wanted.source
        refused = client.post("/api/inspect", json={"run": "toy", "text": TEXT, "options": {"head": 0}})
        assert refused.status_code == 422 and "nothing can be chosen" in refused.json()["error"]
        saved = client.post("/api/page", json={"text": TEXT, "words": [2], "panels": [{"run": "toy"}]})
        data = json.loads(saved.text.split('id="saved">')[1].split("</script>")[0])
        assert [answer["how"] for answer in data["answers"]] == ["none", "mask", "delete"]
