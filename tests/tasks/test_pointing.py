"""Pointing as a task: files, commands, what is refused, and what a page shows."""

import json

import pytest
import torch

import regard
from commands import run
from regard.runs import fit, resolve

SMALL = {"width": 8, "layers": 1, "heads": 2}
TRAINING = {"steps": 3, "tokens": 512, "validate": 3, "save": 3}
SQUARE = "0,0 1,0 1,1 0,1 0.5,0.4"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("pointer") / "run"
    data = {"corpus": "convex_hull", "problems": 60, "held_out": 10}
    fit(resolve({"task": "pointing", "data": data, "model": SMALL, "training": TRAINING}), out)
    return out


def test_generated_problems_are_evaluated_at_any_length(folder):
    for length in (3, 40):
        done = run("evaluate", folder, "--length", length, "--problems", 5, "--json")
        figures = json.loads(done.stdout)
        assert figures["problems"] == 5 and figures["pointed_twice"] == 0
        assert 0 <= figures["accuracy"] <= 1 and 0 <= figures["area"] <= 1
    assert run("evaluate", folder, "--length", 2).exit_code == 2
    assert "no problem" in run("evaluate", folder, "--length", 5, "--corpus", "hulls").stderr


def test_an_answer_has_positions_and_points(folder):
    facts = json.loads(run("answer", folder, "--points", SQUARE, "--json").stdout)
    assert facts["answer"] and len(set(facts["answer"])) == len(facts["answer"]) and max(facts["answer"]) < 5
    assert run("answer", folder, "--points", SQUARE).exit_code == 0
    for wrong, says in ((" ", "is empty"), ("0.1 0.2", "has 2 numbers"), ("a,b", "is no number")):
        done = run("answer", folder, "--points", wrong)
        assert done.exit_code == 2 and says in done.stderr


def test_weights_are_of_steps_over_points_and_a_masked_point_gets_none(folder):
    system = regard.load(folder)
    (answer,) = system.answer([SQUARE])
    (weights,) = system.weights(answer)
    assert weights.shape[0] == 1 and weights.shape[-1] == 5 and weights.shape[-2] >= len(answer.positions)
    step = weights[0, torch.arange(len(answer.positions)), answer.positions]
    torch.testing.assert_close(step, weights[0, : len(answer.positions)].amax(-1))
    with system.masking([2]):
        assert 2 not in system.answer([SQUARE])[0].positions
    assert system.answer([[]])[0].positions == []


def test_a_file_says_what_answers_never_do(tmp_path):
    lines = [{"points": [3.0, 1.0, 2.0, float(i)], "answer": [1, 1, 0]} for i in range(24)]
    file = tmp_path / "again.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    values = {"task": "pointing", "data": {"train": str(file)}, "model": SMALL, "training": TRAINING}
    done = fit(resolve(values), tmp_path / "run")
    assert not done.system.model.config.once and done.system.parts.coordinates == 1
    figures = json.loads(run("evaluate", tmp_path / "run", "--data", file, "--json").stdout)
    assert figures["problems"] == 24
    assert "--corpus" in run("evaluate", tmp_path / "run", "--length", 5).stderr


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--corpus", "salesman", "--longest", 40], "3 to 16 points"),
        (["--shortest", 9, "--longest", 4], "must be at most"),
        (["--corpus", "sorting", "--data", "x.jsonl"], "exclude each other"),
        (["--data", "nowhere.jsonl"], "no such file"),
    ],
)
def test_bad_problems_are_one_sentence_and_leave_nothing(tmp_path, more, says):
    done = run("train", "pointing", *more, "--out", tmp_path / "run")
    assert done.exit_code == 2 and says in done.stderr and not (tmp_path / "run").exists()
