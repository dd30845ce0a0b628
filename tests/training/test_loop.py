"""The loop: it learns, it can be cut anywhere, it says what went wrong."""

import json
import os
import signal
from pathlib import Path

import pytest
import torch
from torch import nn

from regard.core.weights import load_tensors
from regard.training import Checkpoints, Diverged, Interrupted, Training, train
from regard.training.log import read
from training.parity import Cut, Killed, Parity, model

SETTINGS = Training(steps=60, warmup=5, rate=0.02, validate=20, save=7, report=5, accumulate=2)


def final(folder: Path):
    return load_tensors(folder / "model.safetensors")


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_it_learns_and_leaves_weights_log_and_checkpoints(tmp_path):
    net, seen = model(), []
    progress = train(net, Parity(), SETTINGS, tmp_path, seed=1, listen=seen.append)
    assert progress.finished and progress.step == 60
    assert Parity().validate(net)["accuracy"] > 0.8
    assert not net.training
    lines = read(tmp_path / "log.jsonl")
    assert [line["step"] for line in lines if "loss" in line] == list(range(5, 61, 5))
    assert lines[-1]["finished"] and lines[-1]["best_step"] in (20, 40, 60)
    assert [r.step for r in seen] == list(range(5, 61, 5))
    assert seen[-1].seconds_left == 0 and seen[0].seconds_left > 0
    assert seen[3].validation["loss"] == lines[3]["validation_loss"]
    best = Checkpoints(tmp_path / "checkpoints").load(progress.best_step)
    assert same(final(tmp_path), best.model)


@pytest.mark.parametrize("cut", [1, 12, 13, 36, 72, 104])  # batches; 105 are all
def test_cut_anywhere_and_continued_it_is_the_same_run(tmp_path, cut):
    train(model(), Parity(), SETTINGS, tmp_path / "whole", seed=1)

    with pytest.raises(Killed):
        train(model(), Cut(cut), SETTINGS, tmp_path / "cut", seed=1)
    net = model()
    with torch.no_grad():
        net[0].weight.zero_()  # whatever is there before, the checkpoint decides
    if not (tmp_path / "cut" / "checkpoints").exists():
        net = model()
    train(net, Parity(), SETTINGS, tmp_path / "cut", seed=1)
    assert same(final(tmp_path / "cut"), final(tmp_path / "whole"))
    figures = [
        [
            {k: v for k, v in line.items() if k != "tokens_per_second"}
            for line in read(tmp_path / name / "log.jsonl")
        ]
        for name in ("cut", "whole")
    ]
    assert figures[0] == figures[1]


def test_a_finished_run_stays_as_it_is(tmp_path):
    train(model(), Parity(), SETTINGS, tmp_path, seed=1)
    before, task = final(tmp_path), Parity()
    assert train(model(), task, SETTINGS, tmp_path, seed=1).finished
    assert task.asked == []
    assert same(final(tmp_path), before)


def test_a_run_cut_off_between_its_last_step_and_its_end_is_finished_without_another_step(tmp_path):
    train(model(), Parity(), SETTINGS, tmp_path, seed=1)
    before = final(tmp_path)
    state = tmp_path / "checkpoints" / "00000060" / "state.json"
    held = json.loads(state.read_text())
    held["progress"]["finished"] = False
    del held["digest"]
    state.write_text(json.dumps(held))
    (tmp_path / "model.safetensors").unlink()
    task = Parity()
    assert train(model(), task, SETTINGS, tmp_path, seed=1).step == 60
    assert all(epoch == 10_000 for epoch, _ in task.asked)  # validation alone
    assert same(final(tmp_path), before)


@pytest.mark.parametrize("damage", ["model.safetensors", "optimiser.safetensors", "state.json"])
def test_a_damaged_checkpoint_is_passed_over(tmp_path, damage):
    train(model(), Parity(), SETTINGS, tmp_path, seed=1)
    before = final(tmp_path)
    file = tmp_path / "checkpoints" / "00000060" / damage
    file.write_bytes(file.read_bytes()[:-20])
    train(model(), Parity(), SETTINGS, tmp_path, seed=1)
    assert same(final(tmp_path), before)
    assert any("damaged" in line.get("warning", "") for line in read(tmp_path / "log.jsonl"))


def test_a_loss_that_is_not_a_number_stops_with_the_last_good_state_kept(tmp_path):
    with pytest.raises(
        Diverged, match=r"became nan at step 6 \(batch 4 of epoch 2\).*of step 0;.*training.rate"
    ):
        train(model(), Parity(spoiled=3), SETTINGS, tmp_path, seed=1)
    settings = Training(steps=60, warmup=5, rate=0.02, validate=20, save=2, report=5, accumulate=2)
    with pytest.raises(Diverged, match="The last good state is that of step 4"):
        train(model(), Parity(spoiled=3), settings, tmp_path, seed=1)
    newest = Checkpoints(tmp_path / "checkpoints").newest()
    assert newest.step == 4
    assert all(t.isfinite().all() for t in newest.model.values())


def test_an_interrupt_is_a_wish_to_stop_after_the_step(tmp_path):
    class Nervous(Parity):
        done = 0

        def loss(self, model, batch):
            self.done += 1
            if self.done == 8:
                os.kill(os.getpid(), signal.SIGINT)
            return super().loss(model, batch)

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted, match="stopped after step 5; --resume"):
        train(model(), Nervous(), SETTINGS, tmp_path / "a", seed=1)
    assert signal.getsignal(signal.SIGINT) is handler
    train(model(), Parity(), SETTINGS, tmp_path / "a", seed=1)
    train(model(), Parity(), SETTINGS, tmp_path / "b", seed=1)
    assert same(final(tmp_path / "a"), final(tmp_path / "b"))


def test_patience_stops_early_and_the_best_weights_are_left(tmp_path):
    class Worse(Parity):
        calls = 0

        def validate(self, model):
            self.calls += 1
            return {"loss": abs(self.calls - 2)}

    progress = train(model(), Worse(), Training(steps=1000, validate=4, patience=3), tmp_path, seed=1)
    assert (progress.step, progress.best_step) == (20, 8)
    assert same(final(tmp_path), Checkpoints(tmp_path / "checkpoints").load(8).model)


def test_the_last_checkpoints_are_averaged_if_that_is_better(tmp_path):
    settings = Training(steps=40, warmup=0, rate=0.05, validate=10, average=3, schedule="constant")
    progress = train(model(), Parity(), settings, tmp_path, seed=1)
    last = read(tmp_path / "log.jsonl")[-1]
    assert last["averaged"] == [20, 30, 40]
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    mean = {
        name: torch.stack([checkpoints.load(step).model[name] for step in (20, 30, 40)]).mean(0)
        for name in final(tmp_path)
    }
    won = last["averaged_loss"] <= progress.best
    want = mean if won else checkpoints.load(progress.best_step).model
    torch.testing.assert_close(final(tmp_path), want)


def test_accumulating_equals_larger_batches(tmp_path):
    class Twice(Parity):
        def batches(self, epoch, skip):
            pairs = list(super().batches(epoch, 0))
            for k in range(skip, 3):
                yield tuple(torch.cat(parts) for parts in zip(pairs[2 * k], pairs[2 * k + 1], strict=True))

    plain = nn.Linear(8, 2)
    start = {name: tensor.clone() for name, tensor in plain.state_dict().items()}
    train(plain, Parity(count=6), Training(steps=9, accumulate=2, validate=9), tmp_path / "a", seed=1)
    other = nn.Linear(8, 2)
    other.load_state_dict(start)
    train(other, Twice(), Training(steps=9, validate=9), tmp_path / "b", seed=1)
    torch.testing.assert_close(final(tmp_path / "a"), final(tmp_path / "b"))


def test_bfloat16_computes_in_half_precision_and_keeps_float32(tmp_path):
    kinds = []

    class Peek(Parity):
        def loss(self, model, batch):
            kinds.append(model(batch[0]).dtype)
            return super().loss(model, batch)

    net = model()
    train(net, Peek(), Training(steps=3, validate=3, precision="bfloat16"), tmp_path, seed=1)
    assert set(kinds) == {torch.bfloat16}
    assert all(p.dtype == torch.float32 for p in net.parameters())


def test_no_data_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="nothing to train on"):
        train(model(), Parity(count=0), SETTINGS, tmp_path, seed=1)


@pytest.mark.parametrize("damaged", [(20,), (20, 30, 40)])
def test_a_damaged_checkpoint_does_not_keep_a_run_from_its_end(tmp_path, damaged):
    settings = Training(steps=40, warmup=0, rate=0.05, validate=10, average=3, schedule="constant")

    class Late(Parity):  # they are damaged at the last validation, when all of them are there
        def validate(self, model):
            for step in damaged:
                file = tmp_path / "checkpoints" / f"{step:08d}" / "model.safetensors"
                if file.exists() and (tmp_path / "checkpoints" / "00000030").exists():
                    file.write_bytes(b"x")
            return super().validate(model)

    said = []
    assert train(model(), Late(), settings, tmp_path, seed=1, say=said.append).finished
    assert sum("It is left out" in line for line in said) >= 1
    last = read(tmp_path / "log.jsonl")[-1]
    assert last["finished"] and 20 not in last.get("averaged", [])
    assert all(tensor.isfinite().all() for tensor in final(tmp_path).values())


def test_a_run_that_an_earlier_version_finished_goes_on_and_says_from_where(tmp_path):
    train(model(), Parity(), SETTINGS, tmp_path, seed=1)
    state = tmp_path / "checkpoints" / "00000060" / "state.json"
    held = {"progress": json.loads(state.read_text())["progress"]}
    state.write_text(json.dumps(held))
    said = []
    longer = Training(**{**vars(SETTINGS), "steps": 70})
    assert train(model(), Parity(), longer, tmp_path, seed=1, say=said.append).step == 70
    assert said == ["an earlier version finished this run: it goes on from the best weights."]
