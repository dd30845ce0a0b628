"""Several processes are one run: the same curve, one folder, one end."""

import os
import signal
import time
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
import torch

from regard.core.weights import load_tensors, tensors_of
from regard.models import TRANSLATORS
from regard.training import (
    Checkpoints,
    Diverged,
    Ended,
    Interrupted,
    Lost,
    Team,
    Training,
    processes,
    train,
)
from regard.training.log import read
from regard.training.sharding import put_weights, shard, weights_of
from training.parity import Cut, Killed, Parity, model
from training.together import together

SETTINGS = Training(
    steps=30, warmup=5, rate=0.02, validate=10, save=7, report=1, accumulate=2, average=2, clip=0.1
)


def curve(folder: Path) -> list[float]:
    return [line["loss"] for line in read(folder / "log.jsonl") if "loss" in line]


def close(one: Path, other: Path) -> None:
    assert curve(one) == pytest.approx(curve(other), rel=1e-5)
    steps = [[line["step"] for line in read(folder / "log.jsonl")] for folder in (one, other)]
    assert steps[0] == steps[1]
    torch.testing.assert_close(
        load_tensors(one / "model.safetensors"), load_tensors(other / "model.safetensors")
    )


def learn(team: Team, folder: Path, sharded=False, settings=SETTINGS, dropout=0.0, task=Parity, **more):
    net = model(dropout)
    train(net, task(team=team, **more), settings, folder, seed=1, team=team, sharded=sharded)
    return sorted(file.name for file in folder.iterdir())


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    learn(Team(), folder)
    return folder


@pytest.mark.parametrize(("size", "sharded"), [(2, False), (2, True), (3, False)])
def test_any_number_of_processes_is_the_same_run(tmp_path, alone, size, sharded):
    found = together(size, learn, tmp_path, sharded)
    assert found == [["checkpoints", "log.jsonl", "model.safetensors"]] * size
    close(tmp_path, alone)


@pytest.mark.parametrize(("before", "after"), [((1, False), (2, True)), ((2, True), (1, False))])
def test_a_run_goes_on_with_another_number_of_processes(tmp_path, alone, before, after):
    (size, sharded), (others, sharded_then) = before, after
    found = together(size, partial(learn, task=Cut), tmp_path, sharded)
    assert all(isinstance(end, Killed) for end in found)
    assert Checkpoints(tmp_path / "checkpoints").newest().step == 14
    together(others, learn, tmp_path, sharded_then)
    close(tmp_path, alone)


def test_cut_and_continued_it_is_the_same_run_bit_for_bit_with_dropout(tmp_path):
    together(2, partial(learn, dropout=0.3), tmp_path / "whole")
    together(2, partial(learn, dropout=0.3, task=Cut), tmp_path / "cut")
    together(2, partial(learn, dropout=0.3), tmp_path / "cut")
    whole, cut = (load_tensors(tmp_path / name / "model.safetensors") for name in ("whole", "cut"))
    assert all(torch.equal(whole[name], cut[name]) for name in whole)
    assert curve(tmp_path / "whole") == curve(tmp_path / "cut")


@pytest.mark.parametrize("sharded", [False, True])
def test_bfloat16(tmp_path, alone, sharded):
    settings = Training(**{**vars(SETTINGS), "precision": "bfloat16"})
    together(2, partial(learn, settings=settings), tmp_path, sharded)
    assert curve(tmp_path) == pytest.approx(curve(alone), rel=0.05)
    assert curve(tmp_path) != pytest.approx(curve(alone), rel=1e-5)
    saved = Checkpoints(tmp_path / "checkpoints").newest().model
    assert all(tensor.dtype == torch.float32 for tensor in saved.values())


class Nervous(Parity):
    done = 0

    def loss(self, model, batch):
        self.done += 1
        if self.done == 8 and self.team.rank == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return super().loss(model, batch)


def test_a_wish_to_stop_in_one_process_stops_all_after_the_same_step(tmp_path, alone):
    first, other = together(2, partial(learn, task=Nervous), tmp_path)
    assert isinstance(first, Interrupted) and "stopped after step 5" in str(first)
    assert isinstance(other, Ended)
    together(2, learn, tmp_path)
    close(tmp_path, alone)


def test_a_loss_that_is_not_a_number_in_one_process_ends_all(tmp_path):
    first, other = together(2, partial(learn, spoiled=3), tmp_path)  # row 3 is the second process's
    assert isinstance(first, Diverged) and "became nan at step 6" in str(first)
    assert isinstance(other, Ended)


class Gone(Parity):
    def loss(self, model, batch):
        if self.team.rank == 1 and len(self.asked) > 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().loss(model, batch)


@pytest.mark.parametrize("sharded", [False, True])
def test_a_process_that_is_lost_ends_the_others(tmp_path, sharded):
    first, other = together(2, partial(learn, task=Gone), tmp_path, sharded)
    assert isinstance(first, Lost)
    assert "process 0 of 2: another one was lost" in str(first) and "--resume" in str(first)
    assert other is None


def test_a_process_that_never_comes_up_ends_the_others(monkeypatch):
    monkeypatch.setattr(processes, "TIMEOUT", timedelta(seconds=2))
    there = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    for name, value in there.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Lost, match=r"process 0 of 2: not all came up within 2 seconds"), processes.joined():
        pytest.fail("it must not begin")


def agree(team: Team):
    def work():
        if not team.first:
            raise AssertionError("the others only wait")
        return {"ü": [1, None, 0.1]}

    return team.sum(team.rank, 1.5), team.broadcast(team.rank + 7), team.on_rank_zero(work)


def fail(team: Team):
    def work():
        raise FileNotFoundError("no such corpus")

    team.on_rank_zero(work)


def test_they_agree_on_sums_and_on_what_the_first_says():
    assert together(3, agree) == [([3, 4.5], 7, {"ü": [1, None, 0.1]})] * 3
    assert agree(Team()) == ([0, 1.5], 7, {"ü": [1, None, 0.1]})


def test_when_the_first_fails_the_others_end():
    first, *others = together(3, fail)
    assert isinstance(first, FileNotFoundError)
    assert [type(other) for other in others] == [Ended, Ended]


def listening(team: Team):
    """What the work of the first gave, and whether there were signs of it before."""
    processes.TIMEOUT = timedelta(seconds=1)  # a sign is given ten times in this time
    heard, tell = [], Team.broadcast

    def noted(self, value):
        heard.append(tell(self, value))
        return heard[-1]

    Team.broadcast = noted  # in this process, which ends here
    return team.on_rank_zero(lambda: time.sleep(1) or "done"), processes.WORKING in heard


def test_the_others_hear_that_the_first_is_at_work():
    assert together(3, listening) == [("done", True)] * 3


def stuck(team: Team):
    """The first stands still; the other one sets it going again when it has waited long enough."""
    first = team.broadcast(os.getpid())
    try:
        team.on_rank_zero(lambda: os.kill(os.getpid(), signal.SIGSTOP))
    except RuntimeError:
        os.kill(first, signal.SIGCONT)
        raise


@pytest.mark.slow
def test_and_do_not_wait_for_ever_for_one_that_gives_no_sign():
    _, other = together(2, stuck, patience=30.0)
    assert isinstance(other, Lost) and "another one was lost (Timed out" in str(other)


def small(name: str, **more):
    entry = TRANSLATORS[name]
    torch.manual_seed(5)
    return entry.kind(entry.config(source_vocabulary=13, target_vocabulary=13, width=8, dropout=0.0, **more))


def loss(net, part: slice):
    tokens = torch.arange(7 * 5).reshape(7, 5)[part] * 5 % 13
    hidden = net(tokens, torch.full((len(tokens),), 5), tokens.flip(-1))
    return net.loss(hidden.flatten(0, 1), tokens.flatten(), 0.1)


def shared_out(team: Team, name: str, more):
    """The largest difference in gradients; whether the weights come back, and come back after a change."""
    plain, net = small(name, **more), small(name, **more)
    loss(plain, slice(None)).backward()
    shard(net, team)
    (loss(net, slice(team.rank, None, team.size)) * team.size).backward()
    pairs = zip(plain.parameters(), net.parameters(), strict=True)
    worst = max((p.grad - q.grad.full_tensor()).abs().max().item() for p, q in pairs)
    before = tensors_of(plain)
    gathered = weights_of(net)
    same = gathered.keys() == before.keys() and all(torch.equal(gathered[n], before[n]) for n in before)
    changed = {n: t + 1 if t.is_floating_point() else t for n, t in before.items()}
    put_weights(net, changed, "here")
    with torch.no_grad():
        loss(net, slice(None))  # whole again for a while
    back = weights_of(net)
    return worst, same, all(torch.equal(back[n], changed[n]) for n in changed)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("transformer", {"heads": 2, "layers": 2, "tied": "all"}),
        ("transformer", {"heads": 2, "layers": 1, "map": "entmax", "learn_alpha": True, "norm": "post"}),
        ("bahdanau", {}),
    ],
)
def test_a_model_that_is_shared_out_has_the_same_gradients_and_weights(name, more):
    for worst, same, changed in together(2, shared_out, name, more):
        assert worst < 1e-4 and same and changed
