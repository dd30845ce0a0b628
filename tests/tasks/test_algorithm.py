"""Algorithms: trained, evaluated at other lengths, and the heads of the Turing machine over time."""

import json

import numpy as np
import pytest
import torch

from commands import run
from regard.core.errors import SettingsError
from regard.data.corpora import ALGORITHMS
from regard.runs import fit, resolve

TINY = {"steps": 4, "validate": 4, "save": 4}


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    values = {
        "task": "algorithm",
        "data": {"bits": 3, "longest": 2, "sequences": 400, "held_out": 40},
        "model": {"width": 32, "locations": 6, "memory": 8},
        "training": {"steps": 160, "rate": 0.015, "validate": 160},
    }
    return fit(resolve(values), tmp_path_factory.mktemp("algorithm") / "run").system


def test_a_turing_machine_learns_to_copy_a_little(machine):
    chance = np.random.default_rng(0)
    drawn = [machine.algorithm.draw(chance, 1 + k % 2) for k in range(40)]
    assert machine.quality(drawn)["bit_error"] < 0.3  # of 0.5


def test_longer_sequences_are_asked_for_unless_a_length_is_given(machine):
    figures = json.loads(run("evaluate", machine.folder, "--sequences", 20, "--json").stdout)
    assert figures["length"] == 4 and list(figures["by_length"]) == ["2", "4", "6"]
    assert 0 <= figures["bit_error"] <= 1 and figures["accuracy"] <= 1
    figures = json.loads(run("evaluate", machine.folder, "--length", 3, "--sequences", 20, "--json").stdout)
    assert figures["length"] == 3 and figures["sequences"] == 20
    assert run("evaluate", machine.folder, "--length", 0).exit_code == 2


def test_weights_are_between_what_is_said_and_what_was_given(machine):
    (found,) = machine.answer(["010 111 001"])
    (weights,) = machine.weights(found)
    assert weights.shape == (1, 3, 3) and bool((weights >= 0).all()) and bool((weights <= 1.001).all())
    assert found.log_prob < 0 and len(found.said.split()) == 3


def test_a_view_of_the_heads_over_time(machine, tmp_path):
    out = tmp_path / "heads.html"
    done = run("view", machine.folder, "--text", "010 111", "--kind", "memory", "--out", out)
    assert done.exit_code == 0 and "writing head" in out.read_text()
    bad = run("view", machine.folder, "--text", "0a", "--kind", "memory", "--out", tmp_path / "no.html")
    assert bad.exit_code == 2 and "3 bits" in bad.stderr


@pytest.mark.parametrize("corpus", ALGORITHMS)
def test_every_algorithm_can_be_trained(corpus, tmp_path):
    model = {"name": "turing_machine", "controller": "lstm", "width": 8, "locations": 8, "memory": 4}
    data = {"corpus": corpus, "bits": 2, "shortest": 6, "longest": 6, "sequences": 40, "held_out": 8}
    done = fit(
        resolve({"task": "algorithm", "data": data, "model": model, "training": TINY}), tmp_path / "run"
    )
    assert 0 < done.scores["bit_error"] < 1


def test_an_lstm_is_the_control(tmp_path):
    data = {"bits": 2, "longest": 2, "sequences": 200, "held_out": 20}
    model, training = (
        {"name": "lstm", "width": 32, "layers": 1},
        {"steps": 120, "rate": 0.02, "validate": 120},
    )
    system = fit(
        resolve({"task": "algorithm", "data": data, "model": model, "training": training}), tmp_path / "run"
    ).system
    assert system.quality(["01 10", "11"])["bit_error"] < 0.3
    assert system.weights(system.answer(["01"])[0]) == [] and system.own_views == {} and system.heads == 0


def test_lengths_must_fit_and_names_be_known():
    for data, why in (({"shortest": 5, "longest": 3}, "longest"), ({"corpus": "sorting"}, "algorithm")):
        with pytest.raises(SettingsError, match=why):
            resolve({"task": "algorithm", "data": data})


def test_sequences_in_a_batch_do_not_change_each_other(machine):
    alone = [machine.answer([text])[0].logits for text in ("010", "010 111 001")]
    both = [one.logits for one in machine.answer(["010", "010 111 001"])]
    for one, other in zip(alone, both, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
